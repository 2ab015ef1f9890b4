/* The backward pass, in two rounds of tasks. First each shard of rows carries dq down through the
 * layers; the derivatives dz of all preactivations go to the workspace. Then each block of rows of
 * each weight matrix is one product over the whole batch, so nothing is left to reduce. */
#include <cblas.h>
#include <string.h>

#include "activation_cpu.h"
#include "nn_cpu.h"

struct backward_context {
    const struct dqn_backward_args *args;
    struct dqn_cpu_split shards;
    struct dqn_cpu_split block[DQN_MAX_LAYERS]; /* of out_ld */
    size_t dz[DQN_MAX_LAYERS]; /* offset in the workspace for a batch of one, in floats */
    size_t blocks;             /* of all layers */
};

static float *dz_of(const struct backward_context *c, size_t l, size_t row) {
    const size_t total = c->args->n_agents * c->args->batch;
    return (float *)c->args->workspace + total * c->dz[l] + row * c->args->net->layer[l].out_ld;
}

/* ---- first round: dz ---- */

/* The derivative by the last layer's output. Dueling: Q_a = V + A_a - mean(A), so
 * dA_a = dQ_a - mean(dQ) and dV = sum(dQ). */
static void q_to_head(const struct dqn_net *net, const float *dq, float *dz, size_t rows) {
    if (!net->dueling) {
        memcpy(dz, dq, rows * net->actions_ld * sizeof *dz);
        return;
    }
    const size_t head_ld = net->layer[net->n_layers - 1].out_ld;
    memset(dz, 0, rows * head_ld * sizeof *dz);
    for (size_t r = 0; r < rows; r++) {
        const float *d = dq + r * net->actions_ld;
        float *h = dz + r * head_ld;
        float sum = 0.0f;
        for (size_t a = 0; a < net->actions; a++) {
            sum += d[a];
        }
        for (size_t a = 0; a < net->actions; a++) {
            h[a] = d[a] - sum / (float)net->actions;
        }
        h[net->actions] = sum;
    }
}

/* d *= act'(.), n elements; `from` is the layer's output, for SiLU its preactivation. */
#define SLOPE(function)                                                                            \
    for (size_t i = 0; i < n; i++) {                                                               \
        d[i] *= function(from[i]);                                                                 \
    }

DQN_CPU_VECTOR static void multiply_slope(enum dqn_activation activation, float *DQN_RESTRICT d,
                                          const float *DQN_RESTRICT from, size_t n) {
    switch (activation) {
    case DQN_RELU:
        SLOPE(dqn_slope_relu)
        break;
    case DQN_TANH:
        SLOPE(dqn_slope_tanh)
        break;
    case DQN_ELU:
        SLOPE(dqn_slope_elu)
        break;
    case DQN_SILU:
        SLOPE(dqn_slope_silu)
        break;
    case DQN_LINEAR:
        break;
    }
}

/* y += a x, n elements. */
DQN_CPU_VECTOR static void add_scaled(float *DQN_RESTRICT y, float a, const float *DQN_RESTRICT x,
                                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] += a * x[i];
    }
}

/* The last layer's dz has one nonzero element a row, at the action taken, unless the head is
 * dueling; so its products go over the nonzero elements (any dz is right, a full one slow). dx
 * [rows, in_ld] = dz W. */
static void multiply_sparse(const struct dqn_layer *layer, const float *w, const float *dz,
                            float *dx, size_t rows) {
    memset(dx, 0, rows * layer->in_ld * sizeof *dx);
    for (size_t r = 0; r < rows; r++) {
        for (size_t a = 0; a < layer->out; a++) {
            const float d = dz[r * layer->out_ld + a];
            if (d != 0.0f) {
                add_scaled(dx + r * layer->in_ld, d, w + a * layer->in_ld, layer->in_ld);
            }
        }
    }
}

/* dx [rows, in_ld] = dz [rows, out_ld] W. */
static void multiply_dense(const struct dqn_layer *layer, const float *w, const float *dz,
                           float *dx, size_t rows) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)layer->in_ld,
                (int)layer->out_ld, 1.0f, dz, (int)layer->out_ld, w, (int)layer->in_ld, 0.0f, dx,
                (int)layer->in_ld);
}

static bool is_sparse(const struct dqn_net *net, size_t l) {
    return l + 1 == net->n_layers && !net->dueling;
}

static void dz_task(void *context, size_t i) {
    const struct backward_context *c = context;
    const struct dqn_backward_args *args = c->args;
    const struct dqn_net *net = args->net;
    const size_t k = i / c->shards.parts;
    const size_t first = i % c->shards.parts * c->shards.size;
    const size_t rows = dqn_cpu_min(c->shards.size, args->batch - first);
    const size_t total = args->n_agents * args->batch;
    const size_t row = k * args->batch + first;
    const float *params = args->params + k * net->n_params;
    size_t l = net->n_layers - 1;
    q_to_head(net, args->dq + row * net->actions_ld, dz_of(c, l, row), rows);
    for (; l > 0; l--) {
        const struct dqn_layer *layer = &net->layer[l], *below = &net->layer[l - 1];
        const size_t from = below->activation == DQN_SILU ? below->preact : below->output;
        float *dx = dz_of(c, l - 1, row); /* [rows, in_ld] */
        const float *w = params + layer->weight;
        if (is_sparse(net, l)) {
            multiply_sparse(layer, w, dz_of(c, l, row), dx, rows);
        } else {
            multiply_dense(layer, w, dz_of(c, l, row), dx, rows);
        }
        multiply_slope(below->activation, dx, args->acts + total * from + row * below->out_ld,
                       rows * below->out_ld);
    }
}

/* ---- second round: dW, db ---- */

enum { SUM_ROWS = 64 }; /* rows added up before they join the total: keeps float sums accurate */

/* db[c] (+)= sum of column c of dz [batch, ld], for `width` columns. */
DQN_CPU_VECTOR static void sum_columns(float *DQN_RESTRICT db, const float *dz, size_t batch,
                                       size_t ld, size_t width, bool accumulate) {
    enum { COLUMNS = 64 };
    for (size_t c0 = 0; c0 < width; c0 += COLUMNS) {
        const size_t n = dqn_cpu_min(COLUMNS, width - c0);
        float total[COLUMNS] = {0};
        for (size_t r0 = 0; r0 < batch; r0 += SUM_ROWS) {
            const size_t end = dqn_cpu_min(r0 + SUM_ROWS, batch);
            float part[COLUMNS] = {0};
            for (size_t r = r0; r < end; r++) {
                const float *DQN_RESTRICT row = dz + r * ld + c0;
                for (size_t c = 0; c < n; c++) {
                    part[c] += row[c];
                }
            }
            for (size_t c = 0; c < n; c++) {
                total[c] += part[c];
            }
        }
        for (size_t c = 0; c < n; c++) {
            db[c0 + c] = accumulate ? db[c0 + c] + total[c] : total[c];
        }
    }
}

/* dW [rows, in_ld] (+)= dz^T x over the nonzero elements of dz, in the order of the batch. */
static void add_outer_sparse(const struct dqn_layer *layer, const float *dz, const float *x,
                             float *dw, size_t rows, size_t batch, bool accumulate) {
    if (!accumulate) {
        memset(dw, 0, rows * layer->in_ld * sizeof *dw);
    }
    for (size_t b = 0; b < batch; b++) {
        for (size_t o = 0; o < rows; o++) {
            const float d = dz[b * layer->out_ld + o];
            if (d != 0.0f) {
                add_scaled(dw + o * layer->in_ld, d, x + b * layer->in_ld, layer->in_ld);
            }
        }
    }
}

/* Rows [first, first + rows) of one layer: dW = dz^T x, db = column sums of dz. */
static void weight_block(const struct backward_context *c, size_t k, size_t l, size_t first,
                         size_t rows) {
    const struct dqn_backward_args *args = c->args;
    const struct dqn_net *net = args->net;
    const struct dqn_layer *layer = &net->layer[l];
    const size_t total = args->n_agents * args->batch, row = k * args->batch;
    const float *x = l == 0 ? args->x + row * net->obs_ld
                            : args->acts + total * net->layer[l - 1].output + row * layer->in_ld;
    const float *dz = dz_of(c, l, row) + first;
    float *grads = args->grads + k * net->n_params;
    float *dw = grads + layer->weight + first * layer->in_ld;
    if (is_sparse(net, l)) {
        add_outer_sparse(layer, dz, x, dw, rows, args->batch, args->accumulate);
    } else {
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)rows, (int)layer->in_ld,
                    (int)args->batch, 1.0f, dz, (int)layer->out_ld, x, (int)layer->in_ld,
                    args->accumulate ? 1.0f : 0.0f, dw, (int)layer->in_ld);
    }
    sum_columns(grads + layer->bias + first, dz, args->batch, layer->out_ld, rows,
                args->accumulate);
}

static void weight_task(void *context, size_t i) {
    const struct backward_context *c = context;
    const struct dqn_net *net = c->args->net;
    const size_t k = i / c->blocks;
    size_t block = i % c->blocks, l = 0;
    while (block >= c->block[l].parts) {
        block -= c->block[l].parts;
        l++;
    }
    const size_t first = block * c->block[l].size;
    weight_block(c, k, l, first, dqn_cpu_min(c->block[l].size, net->layer[l].out_ld - first));
}

/* Small networks: all layers of an agent in one task. */
static void agent_weights_task(void *context, size_t k) {
    const struct backward_context *c = context;
    for (size_t l = 0; l < c->args->net->n_layers; l++) {
        weight_block(c, k, l, 0, c->args->net->layer[l].out_ld);
    }
}

static enum dqn_status run_backward(struct dqn_cpu_pool *pool, const void *arguments) {
    const struct dqn_backward_args *args = arguments;
    const struct dqn_net *net = args->net;
    const size_t macs = args->batch * net->n_params;
    struct backward_context c = {
        .args = args,
        .shards = dqn_cpu_split(args->batch, 1 + macs / DQN_CPU_TASK_MACS, DQN_CPU_SHARD_ROWS)};
    size_t offset = 0;
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct dqn_layer *layer = &net->layer[l];
        const size_t layer_macs = args->batch * layer->in_ld * layer->out_ld;
        c.dz[l] = offset;
        offset += layer->out_ld;
        c.block[l] =
            dqn_cpu_split(layer->out_ld, 1 + layer_macs / DQN_CPU_TASK_MACS, DQN_CPU_BLOCK_ROWS);
        c.blocks += c.block[l].parts;
    }
    dqn_cpu_for(pool, args->n_agents * c.shards.parts, dz_task, &c);
    if (macs < DQN_CPU_TASK_MACS) {
        dqn_cpu_for(pool, args->n_agents, agent_weights_task, &c);
    } else {
        dqn_cpu_for(pool, args->n_agents * c.blocks, weight_task, &c);
    }
    return DQN_OK;
}

size_t dqn_cpu_backward_workspace_bytes(const struct dqn_net *net, size_t n_agents, size_t batch) {
    size_t floats = 0;
    for (size_t l = 0; l < net->n_layers; l++) {
        floats += net->layer[l].out_ld;
    }
    return n_agents * batch * floats * sizeof(float);
}

enum dqn_status dqn_cpu_backward(struct dqn_queue *q, const struct dqn_backward_args *args) {
    return dqn_cpu_submit(q, run_backward, args, sizeof *args);
}
