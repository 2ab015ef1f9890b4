/* The network on CUDA: forward and backward passes as chains of matrix products (nn_gemm_cuda.cu)
 * and elementwise kernels (nn_layers_cuda.cu), and the table of operations. */
#include <cublasLt.h>

#include "nn_cuda.cuh"
#include "nn_tile_cuda.cuh"
#include "step_cuda.cuh"

/* ---- forward ---- */

/* y = x W^T + b of all agents: column-major, Y [out_ld, B] = W [in_ld, out_ld]^T X [in_ld, B]. */
static struct dqn_gemm forward_product(const struct dqn_net *net, const struct dqn_layer *layer,
                                       size_t n_agents, size_t batch, int64_t epilogue) {
    struct dqn_gemm g;
    memset(&g, 0, sizeof g);
    g.trans_a = 1;
    g.m = (int64_t)layer->out_ld;
    g.n = (int64_t)batch;
    g.k = (int64_t)layer->in_ld;
    g.lda = g.ldb = g.k;
    g.ldd = g.m;
    g.batch = (int64_t)n_agents;
    g.stride_a = g.stride_bias = (int64_t)net->n_params;
    g.stride_b = g.k * g.n;
    g.stride_d = g.m * g.n;
    g.epilogue = epilogue;
    return g;
}

/* z the product, y the output; the same array but where the preactivation is kept. */
static enum dqn_status forward_layer(struct dqn_cuda_queue *q, const struct dqn_forward_args *args,
                                     const struct dqn_layer *layer, const float *x, float *z,
                                     float *y) {
    const size_t k = args->n_agents, b = args->batch;
    const float *bias = args->params + layer->bias;
    const bool relu = layer->activation == DQN_RELU, linear = layer->activation == DQN_LINEAR;
    const float *w = args->params + layer->weight;
    struct dqn_gemm_plan *plan = NULL;
    struct dqn_gemm product = forward_product(
        args->net, layer, k, b, relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    DQN_TRY(dqn_gemm_plan(q->plans, &product, &plan));
    if (plan == NULL) {
        product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
        DQN_TRY(dqn_gemm_plan_needed(q->plans, &product, &plan));
        DQN_TRY(dqn_gemm_run(q->plans, plan, q->stream, w, x, 0.0f, z, NULL));
        return dqn_layer_activate(q, layer->activation, k, b, layer->out_ld, bias,
                                  args->net->n_params, z, y);
    }
    DQN_TRY(dqn_gemm_run(q->plans, plan, q->stream, w, x, 0.0f, z, bias));
    if (relu || linear) {
        return DQN_OK;
    }
    return dqn_layer_activate(q, layer->activation, k, b, layer->out_ld, NULL, 0, z, y);
}

static enum dqn_status check_agents(size_t n_agents) {
    if (n_agents > DQN_MAX_AGENTS_GRID) {
        return dqn_fail(DQN_ERR_CONFIG, "%zu agents, the limit on a GPU is %d; use fewer", n_agents,
                        (int)DQN_MAX_AGENTS_GRID);
    }
    return DQN_OK;
}

/* Without a dueling head the last layer writes Q itself; its place in acts stays untouched, the
 * backward pass does not read it. */
static enum dqn_status cuda_forward(struct dqn_queue *base, const struct dqn_forward_args *args) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    const struct dqn_net *net = args->net;
    const size_t rows = args->n_agents * args->batch;
    const float *x = args->x;
    DQN_TRY(check_agents(args->n_agents));
    DQN_TRY(dqn_cuda_need(q, DQN_SIDE_PARAMS));
    if (dqn_tile_serves(q, net)) {
        return dqn_tile_forward(q, args, 1);
    }
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct dqn_layer *layer = &net->layer[l];
        const bool last = l + 1 == net->n_layers;
        float *y = last && !net->dueling ? args->q : args->acts + rows * layer->output;
        float *z = layer->activation == DQN_SILU ? args->acts + rows * layer->preact : y;
        DQN_TRY(forward_layer(q, args, layer, x, z, y));
        x = y;
    }
    return net->dueling ? dqn_layer_head_to_q(q, net, rows, x, args->q) : DQN_OK;
}

enum dqn_status dqn_cuda_policy(struct dqn_queue *base, const struct dqn_forward_args *forward,
                                const struct dqn_act_args *act) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    if (!dqn_tile_serves(q, forward->net) || dqn_cuda_is_composed()) {
        DQN_TRY(cuda_forward(base, forward));
        return dqn_cuda_act(base, act);
    }
    DQN_TRY(check_agents(forward->n_agents));
    DQN_TRY(dqn_cuda_need(q, DQN_SIDE_PARAMS));
    return dqn_tile_policy(q, forward, act);
}

/* One kernel for all, or each pass on a stream of its own. */
static enum dqn_status cuda_forward_many(struct dqn_queue *base,
                                         const struct dqn_forward_args *args, size_t n) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    const bool apart = n <= DQN_SIDE_WEIGHTS;
    DQN_TRY(check_agents(args->n_agents));
    DQN_TRY(dqn_cuda_need(q, DQN_SIDE_PARAMS));
    if (n <= DQN_TILE_PASSES && dqn_tile_serves(q, args->net)) {
        return dqn_tile_forward(q, args, n);
    }
    (void)dqn_cudnn_serves(q, args->net->layer[0].activation); /* starts it before q is copied */
    for (size_t i = 1; i < n; i++) {
        struct dqn_cuda_queue beside = *q;
        if (!apart) {
            DQN_TRY(cuda_forward(base, &args[i]));
            continue;
        }
        beside.stream = q->side[i];
        DQN_TRY(dqn_cuda_fork(q, i));
        DQN_TRY(cuda_forward(&beside.base, &args[i]));
    }
    DQN_TRY(cuda_forward(base, &args[0]));
    for (size_t i = 1; i < n && apart; i++) {
        DQN_TRY(dqn_cuda_join(q, i));
    }
    return DQN_OK;
}

/* ---- backward ---- */

/* Sums over a long batch are split into parts of equal length, each a product of its own in the
 * same batched call, and joined in order: more blocks at work than one sum an element would give.
 * Depends on the batch and the network alone, so a population sums like one agent. */
enum { PART_ROWS = 256, PART_FLOATS = 1 << 21 };

static size_t parts_of(const struct dqn_net *net, size_t batch) {
    size_t parts = 1;
    while (batch % (2 * parts) == 0 && batch / (2 * parts) >= PART_ROWS &&
           2 * parts * net->n_params <= PART_FLOATS) {
        parts *= 2;
    }
    return parts;
}

/* The workspace, in bytes from its start: what apply uses, dz of each layer but a plain last one
 * (which is dq), what an update in two kernels uses, parts of the gradient [K, S, P]. */
struct backward_space {
    size_t dz[DQN_MAX_LAYERS];
    size_t step, parts;
    size_t bytes;
};

static struct backward_space layout(const struct dqn_net *net, size_t n_agents, size_t batch) {
    struct backward_space space;
    memset(&space, 0, sizeof space);
    size_t at = dqn_nn_align(dqn_cuda_apply_bytes(net, n_agents));
    for (size_t l = 0; l < net->n_layers; l++) {
        if (l + 1 < net->n_layers || net->dueling) {
            space.dz[l] = at;
            at += dqn_nn_align(n_agents * batch * net->layer[l].out_ld * sizeof(float));
        }
    }
    space.step = at;
    at += dqn_step_bytes(net, n_agents, batch);
    space.parts = at;
    space.bytes = at + n_agents * parts_of(net, batch) * net->n_params * sizeof(float);
    return space;
}

static float *floats_at(void *workspace, size_t offset) {
    return (float *)((char *)workspace + offset);
}

static size_t workspace_bytes(const struct dqn_device *device, const struct dqn_net *net,
                              size_t n_agents, size_t batch) {
    (void)device;
    return layout(net, n_agents, batch).bytes;
}

/* dW = dz^T x of each part, column-major dW [in_ld, out_ld] = X [in_ld, rows] dZ [out_ld, rows]^T,
 * and the column sums of dz, which are the derivative by the bias. (The epilogue BGRADB, which
 * gives both, is offered for slow FP32 products only.) `to` holds whole parameter blocks. On a side
 * stream: nothing but the join waits for it. */
static enum dqn_status weight_gradient(struct dqn_cuda_queue *q, size_t side,
                                       const struct dqn_net *net, const struct dqn_layer *layer,
                                       size_t groups, size_t rows, const float *x, const float *dz,
                                       float *to) {
    struct dqn_gemm g;
    memset(&g, 0, sizeof g);
    g.trans_b = 1;
    g.m = g.lda = g.ldd = (int64_t)layer->in_ld;
    g.n = g.ldb = (int64_t)layer->out_ld;
    g.k = (int64_t)rows;
    g.batch = (int64_t)groups;
    g.stride_a = g.k * g.m;
    g.stride_b = g.k * g.n;
    g.stride_d = g.stride_bias = (int64_t)net->n_params;
    g.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    struct dqn_gemm_plan *plan = NULL;
    const cudaStream_t stream = q->side[side];
    DQN_TRY(dqn_gemm_plan_needed(q->plans, &g, &plan));
    DQN_TRY(dqn_gemm_run(q->plans, plan, stream, x, dz, 0.0f, to + layer->weight, NULL));
    return dqn_layer_column_sums(stream, groups, rows, layer->out_ld, dz, to + layer->bias,
                                 net->n_params);
}

/* dx = dz W, column-major dX [in_ld, B] = W [in_ld, out_ld] dZ [out_ld, B]. */
static enum dqn_status input_gradient(struct dqn_cuda_queue *q,
                                      const struct dqn_backward_args *args,
                                      const struct dqn_layer *layer, const float *dz, float *dx) {
    struct dqn_gemm g;
    memset(&g, 0, sizeof g);
    g.m = g.lda = g.ldd = (int64_t)layer->in_ld;
    g.n = (int64_t)args->batch;
    g.k = g.ldb = (int64_t)layer->out_ld;
    g.batch = (int64_t)args->n_agents;
    g.stride_a = (int64_t)args->net->n_params;
    g.stride_b = g.k * g.n;
    g.stride_d = g.m * g.n;
    g.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    struct dqn_gemm_plan *plan = NULL;
    DQN_TRY(dqn_gemm_plan_needed(q->plans, &g, &plan));
    return dqn_gemm_run(q->plans, plan, q->stream, args->params + layer->weight, dz, 0.0f, dx,
                        NULL);
}

/* Down through the layers on the stream, each layer's weights beside it on a side stream. */
static enum dqn_status backward_by_layers(struct dqn_cuda_queue *q,
                                          const struct dqn_backward_args *args, bool tiles,
                                          float *const *dz, size_t parts, float *to) {
    const struct dqn_net *net = args->net;
    const size_t k = args->n_agents, rows = k * args->batch, top = net->n_layers - 1;
    for (size_t l = net->n_layers; l-- > 0;) {
        const struct dqn_layer *layer = &net->layer[l];
        const float *x = l == 0 ? args->x : args->acts + rows * net->layer[l - 1].output;
        const size_t side = l % DQN_CUDA_SIDES;
        DQN_TRY(dqn_cuda_fork(q, side));
        DQN_TRY(weight_gradient(q, side, net, layer, k * parts, args->batch / parts, x, dz[l], to));
        if (l == top && tiles) {
            DQN_TRY(dqn_tile_input_gradients(q, args, dz));
        }
        if (l > 0 && !tiles) {
            const struct dqn_layer *below = &net->layer[l - 1];
            DQN_TRY(input_gradient(q, args, layer, dz[l], dz[l - 1]));
            DQN_TRY(dqn_layer_slope(q, below->activation, rows * below->out_ld, x,
                                    args->acts + rows * below->preact, dz[l - 1]));
        }
    }
    for (size_t i = 0; i < net->n_layers && i < DQN_CUDA_SIDES; i++) {
        DQN_TRY(dqn_cuda_join(q, i));
    }
    return DQN_OK;
}

/* dz of each layer in the workspace; a plain last layer's is dq. */
static void place_gradients(const struct dqn_backward_args *args,
                            const struct backward_space *space, float *dz[DQN_MAX_LAYERS]) {
    const struct dqn_net *net = args->net;
    for (size_t l = 0; l < net->n_layers; l++) {
        dz[l] = floats_at(args->workspace, space->dz[l]);
    }
    if (!net->dueling) {
        dz[net->n_layers - 1] = (float *)args->dq; /* which backward reads only */
    }
}

static enum dqn_status cuda_backward(struct dqn_queue *base, const struct dqn_backward_args *args) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    const struct dqn_net *net = args->net;
    const size_t k = args->n_agents, rows = k * args->batch, parts = parts_of(net, args->batch);
    const struct backward_space space = layout(net, k, args->batch);
    const bool direct = parts == 1 && !args->accumulate, tiles = dqn_tile_serves(q, net);
    float *partial = floats_at(args->workspace, space.parts);
    float *dz[DQN_MAX_LAYERS] = {NULL};
    DQN_TRY(check_agents(k));
    (void)dqn_cuda_stream(base); /* joins what was left running: all sides are used here */
    place_gradients(args, &space, dz);
    if (net->dueling) {
        DQN_TRY(dqn_layer_q_to_head(q, net, rows, args->dq, dz[net->n_layers - 1]));
    }
    if (tiles && dqn_tile_sums(args->batch)) {
        DQN_TRY(dqn_tile_input_gradients(q, args, dz));
        return dqn_tile_weight_gradients(q, args, dz);
    }
    DQN_TRY(backward_by_layers(q, args, tiles, dz, parts, direct ? args->grads : partial));
    return direct ? DQN_OK
                  : dqn_layer_join_parts(q->stream, k, parts, net->n_params, partial,
                                         args->accumulate, args->grads);
}

/* ---- a whole update ---- */

static enum dqn_status cuda_update(struct dqn_queue *base, const struct dqn_update_args *args,
                                   bool *done) {
    const struct dqn_backward_args *backward = &args->backward;
    const struct backward_space space = layout(backward->net, backward->n_agents, backward->batch);
    float *dz[DQN_MAX_LAYERS] = {NULL};
    DQN_TRY(check_agents(backward->n_agents));
    place_gradients(backward, &space, dz);
    return dqn_step_update(dqn_cuda_queue_of(base), args, dz,
                           floats_at(backward->workspace, space.step), done);
}

const struct dqn_nn_ops dqn_cuda_nn_ops = {
    workspace_bytes, dqn_cuda_init, cuda_forward,      cuda_backward,   dqn_cuda_td,
    dqn_cuda_apply,  dqn_cuda_act,  cuda_forward_many, dqn_cuda_policy, cuda_update,
};
