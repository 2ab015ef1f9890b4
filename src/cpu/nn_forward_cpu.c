/* Initial parameters and the forward pass. Each task takes one agent's shard of rows through all
 * layers, so threads meet once a pass. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "../shared/rng.h"
#include "activation_cpu.h"
#include "nn_cpu.h"

/* ---- init ---- */

/* Uniform in +-bound: sqrt(6 / in) (He et al. 2015, equation 14) in front of ReLU and its kin,
 * sqrt(6 / (in + out)) (Glorot and Bengio 2010, equation 16) elsewhere. Element i of the dense
 * [out, in] matrix is word i % 2 of block i / 2 of the layer's stream; computed in double. */
static void init_layer(float *params, const struct dqn_layer *layer, uint64_t seed, size_t l) {
    const bool glorot = layer->activation == DQN_TANH || layer->activation == DQN_LINEAR;
    const double fan = (double)(glorot ? layer->in + layer->out : layer->in);
    const double bound = sqrt(6.0 / fan);
    const uint64_t stream = dqn_rng_stream(DQN_RNG_INIT, l);
    float *w = params + layer->weight;
    memset(w, 0, layer->out_ld * layer->in_ld * sizeof *w);
    memset(params + layer->bias, 0, layer->out_ld * sizeof *w);
    for (size_t o = 0; o < layer->out; o++) {
        for (size_t i = 0; i < layer->in; i++) {
            const uint64_t element = (uint64_t)o * layer->in + i;
            const struct dqn_u32x4 block = dqn_rng_block(seed, stream, element / 2);
            const double unit = dqn_rng_unit(dqn_rng_u64(block, (int)(element % 2)));
            w[o * layer->in_ld + i] = (float)((2.0 * unit - 1.0) * bound);
        }
    }
}

static void init_task(void *context, size_t i) {
    const struct dqn_init_args *args = context;
    const struct dqn_net *net = args->net;
    const size_t k = i / net->n_layers, l = i % net->n_layers;
    init_layer(args->params + k * net->n_params, &net->layer[l], args->agents[k].seed, l);
}

static enum dqn_status run_init(struct dqn_cpu_pool *pool, const void *arguments) {
    struct dqn_init_args args = *(const struct dqn_init_args *)arguments;
    dqn_cpu_for(pool, args.n_agents * args.net->n_layers, init_task, &args);
    return DQN_OK;
}

enum dqn_status dqn_cpu_init(struct dqn_queue *q, const struct dqn_init_args *args) {
    return dqn_cpu_submit(q, run_init, args, sizeof *args);
}

/* ---- forward ---- */

/* y = act(y + b) in place over [rows, ld]. One loop an activation, for the compiler to vectorise.
 */
#define ACTIVATE(function)                                                                         \
    for (size_t r = 0; r < rows; r++) {                                                            \
        float *DQN_RESTRICT row = y + r * ld;                                                      \
        for (size_t c = 0; c < ld; c++) {                                                          \
            row[c] = function(row[c] + b[c]);                                                      \
        }                                                                                          \
    }

DQN_CPU_VECTOR static void activate(enum dqn_activation activation, float *y,
                                    const float *DQN_RESTRICT b, size_t rows, size_t ld) {
    switch (activation) {
    case DQN_RELU:
        ACTIVATE(dqn_act_relu)
        break;
    case DQN_TANH:
        ACTIVATE(dqn_act_tanh)
        break;
    case DQN_ELU:
        ACTIVATE(dqn_act_elu)
        break;
    case DQN_LINEAR:
        ACTIVATE()
        break;
    case DQN_SILU:
        DQN_CHECK(activation != DQN_SILU); /* keeps its preactivation: activate_silu */
    }
}

DQN_CPU_VECTOR static void activate_silu(float *DQN_RESTRICT y, float *DQN_RESTRICT z,
                                         const float *b, size_t rows, size_t ld) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < ld; c++) {
            const float value = z[r * ld + c] + b[c];
            z[r * ld + c] = value;
            y[r * ld + c] = dqn_act_silu(value);
        }
    }
}

/* One layer over a shard: y [rows, out_ld] = act(x [rows, in_ld] W^T + b). */
static void forward_layer(const struct dqn_layer *layer, const float *params, const float *x,
                          float *y, float *z, size_t rows) {
    float *product = layer->activation == DQN_SILU ? z : y;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)layer->out_ld,
                (int)layer->in_ld, 1.0f, x, (int)layer->in_ld, params + layer->weight,
                (int)layer->in_ld, 0.0f, product, (int)layer->out_ld);
    if (layer->activation == DQN_SILU) {
        activate_silu(y, z, params + layer->bias, rows, layer->out_ld);
    } else {
        activate(layer->activation, y, params + layer->bias, rows, layer->out_ld);
    }
}

/* Q from the last layer's output [rows, head_ld]: itself, or V + A - mean(A), V in column A. */
static void head_to_q(const struct dqn_net *net, const float *head, float *q, size_t rows) {
    if (!net->dueling) {
        memcpy(q, head, rows * net->actions_ld * sizeof *q);
        return;
    }
    const size_t head_ld = net->layer[net->n_layers - 1].out_ld;
    for (size_t r = 0; r < rows; r++) {
        const float *h = head + r * head_ld;
        float sum = 0.0f;
        for (size_t a = 0; a < net->actions; a++) {
            sum += h[a];
        }
        const float shift = h[net->actions] - sum / (float)net->actions;
        for (size_t a = 0; a < net->actions_ld; a++) {
            q[r * net->actions_ld + a] = a < net->actions ? h[a] + shift : 0.0f;
        }
    }
}

struct forward_context {
    const struct dqn_forward_args *args;
    struct dqn_cpu_split shards;
};

static void forward_task(void *context, size_t i) {
    const struct forward_context *c = context;
    const struct dqn_forward_args *args = c->args;
    const struct dqn_net *net = args->net;
    const size_t k = i / c->shards.parts;
    const size_t first = i % c->shards.parts * c->shards.size;
    const size_t rows = dqn_cpu_min(c->shards.size, args->batch - first);
    const size_t total = args->n_agents * args->batch;
    const size_t row = k * args->batch + first; /* in [0, K * B) */
    const float *params = args->params + k * net->n_params;
    const float *x = args->x + row * net->obs_ld;
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct dqn_layer *layer = &net->layer[l];
        float *y = args->acts + total * layer->output + row * layer->out_ld;
        float *z = args->acts + total * layer->preact + row * layer->out_ld;
        forward_layer(layer, params, x, y, z, rows);
        x = y;
    }
    head_to_q(net, x, args->q + row * net->actions_ld, rows);
}

static enum dqn_status run_forward(struct dqn_cpu_pool *pool, const void *arguments) {
    const struct dqn_forward_args *args = arguments;
    const size_t macs = args->batch * args->net->n_params;
    struct forward_context context = {
        args, dqn_cpu_split(args->batch, 1 + macs / DQN_CPU_TASK_MACS, DQN_CPU_SHARD_ROWS)};
    dqn_cpu_for(pool, args->n_agents * context.shards.parts, forward_task, &context);
    return DQN_OK;
}

enum dqn_status dqn_cpu_forward(struct dqn_queue *q, const struct dqn_forward_args *args) {
    return dqn_cpu_submit(q, run_forward, args, sizeof *args);
}
