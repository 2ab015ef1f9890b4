/* The optimizer step, in three rounds of tasks: sums of squares of fixed blocks of the gradient,
 * the decision of each agent, then Adam and the target network by block. */
#include "../shared/adam.h"
#include "nn_cpu.h"

enum { BLOCK = 16384 }; /* parameters a block */

static size_t blocks_of(const struct dqn_net *net) {
    return (net->n_params + BLOCK - 1) / BLOCK;
}

struct apply_context {
    const struct dqn_apply_args *args;
    size_t blocks;              /* an agent */
    double *partial;            /* [K, blocks] */
    struct dqn_adam_step *step; /* [K] */
};

/* In double: no float32 gradient overflows it. Eight sums side by side, joined in fixed order. */
DQN_CPU_VECTOR static double sum_squares(const float *g, size_t n) {
    enum { LANES = 8 };
    double lane[LANES] = {0};
    const size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lane[j] += (double)g[i + j] * (double)g[i + j];
        }
    }
    for (size_t i = whole; i < n; i++) {
        lane[i - whole] += (double)g[i] * (double)g[i];
    }
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static void norm_task(void *context, size_t i) {
    const struct apply_context *c = context;
    const size_t n_params = c->args->net->n_params;
    const size_t k = i / c->blocks, first = i % c->blocks * BLOCK;
    c->partial[i] =
        sum_squares(c->args->grads + k * n_params + first, dqn_cpu_min(BLOCK, n_params - first));
}

static void decide(const struct apply_context *c, size_t k) {
    const struct dqn_apply_args *args = c->args;
    double total = 0.0;
    for (size_t i = 0; i < c->blocks; i++) {
        total += c->partial[k * c->blocks + i];
    }
    c->step[k] = dqn_adam_begin(&args->agents[k], &args->counters[k], &args->stats[k],
                                &args->batch_stats[k], args->n_batches, total, args->max_nonfinite);
    args->ok[k] = c->step[k].apply;
}

DQN_CPU_VECTOR static void move(const struct dqn_adam_step *at, size_t n,
                                const float *DQN_RESTRICT g, float *DQN_RESTRICT m,
                                float *DQN_RESTRICT v, float *DQN_RESTRICT p) {
    const struct dqn_adam_step step = *at;
    for (size_t i = 0; i < n; i++) {
        dqn_adam_element(&step, g[i], &m[i], &v[i], &p[i]);
    }
}

DQN_CPU_VECTOR static void follow(const struct dqn_adam_step *at, size_t n,
                                  const float *DQN_RESTRICT p, float *DQN_RESTRICT target) {
    const struct dqn_adam_step step = *at;
    for (size_t i = 0; i < n; i++) {
        target[i] = dqn_adam_target(&step, target[i], p[i]);
    }
}

static void move_task(void *context, size_t i) {
    const struct apply_context *c = context;
    const struct dqn_apply_args *args = c->args;
    const size_t k = i / c->blocks, first = i % c->blocks * BLOCK;
    const struct dqn_adam_step *step = &c->step[k];
    if (!step->apply) {
        return;
    }
    const size_t n = dqn_cpu_min(BLOCK, args->net->n_params - first);
    const size_t at = k * args->net->n_params + first;
    move(step, n, args->grads + at, args->moment1 + at, args->moment2 + at, args->params + at);
    if (step->tau != 0.0f) {
        follow(step, n, args->params + at, args->target + at);
    }
}

static enum dqn_status run_apply(struct dqn_cpu_pool *pool, const void *arguments) {
    const struct dqn_apply_args *args = arguments;
    struct apply_context c = {.args = args, .blocks = blocks_of(args->net)};
    c.partial = args->workspace;
    c.step = (struct dqn_adam_step *)(c.partial + args->n_agents * c.blocks);
    dqn_cpu_for(pool, args->n_agents * c.blocks, norm_task, &c);
    for (size_t k = 0; k < args->n_agents; k++) {
        decide(&c, k);
    }
    dqn_cpu_for(pool, args->n_agents * c.blocks, move_task, &c);
    return DQN_OK;
}

size_t dqn_cpu_apply_workspace_bytes(const struct dqn_net *net, size_t n_agents) {
    return n_agents * (blocks_of(net) * sizeof(double) + sizeof(struct dqn_adam_step));
}

enum dqn_status dqn_cpu_apply(struct dqn_queue *q, const struct dqn_apply_args *args) {
    return dqn_cpu_submit(q, run_apply, args, sizeof *args);
}
