/* The optimizer step in two kernels: squares of the gradient by block, the last of which takes the
 * agent's decision; then Adam and the target network. The second one is left running beside the
 * stream: what comes next, priorities and the next draw, needs the decision alone. */
#include "../src/shared/adam.h"
#include "nn_cuda.cuh"

enum { THREADS = 256, NORM_FLOATS = 2048 /* a block */, MAX_NORM_BLOCKS = 1024 };

/* A function of the network alone, so that an agent's norm does not depend on the population. */
static unsigned norm_blocks(const struct dqn_net *net) {
    return dqn_cuda_blocks(net->n_params, NORM_FLOATS, MAX_NORM_BLOCKS);
}

/* The workspace: squares [K, norm blocks], then decisions [K]. */
size_t dqn_cuda_apply_bytes(const struct dqn_net *net, size_t n_agents) {
    return n_agents * (norm_blocks(net) * sizeof(double) + sizeof(struct dqn_adam_step));
}

struct apply_kernel_args {
    size_t n4; /* parameters of an agent, in groups of four */
    uint64_t n_batches, max_nonfinite;
    const struct dqn_agent *agents;
    struct dqn_counters *counters;
    double *squares;
    unsigned n_squares; /* an agent */
    struct dqn_adam_step *steps;
    unsigned *tickets;
    float4 *params, *target, *moment1, *moment2;
    const float4 *grads;
    const struct dqn_step_stats *batch_stats;
    struct dqn_step_stats *stats;
    uint32_t *ok;
};

/* Sums of squares in double: no float32 gradient overflows them. The agent's last block decides.
 * Grid: norm blocks, K; block 256; 256 bytes shared. Bound by memory, for small networks by the
 * latency of the decision. */
static __global__ void k_apply_norm(struct apply_kernel_args args) {
    __shared__ double shared[DQN_WARP];
    const size_t agent = blockIdx.y;
    const float4 *grads = args.grads + agent * args.n4;
    double *squares = args.squares + agent * args.n_squares;
    double sum = 0.0;
    for (size_t i = dqn_grid_first(); i < args.n4; i += dqn_grid_stride()) {
        const float4 g = grads[i];
        sum += ((double)g.x * g.x + (double)g.y * g.y) + ((double)g.z * g.z + (double)g.w * g.w);
    }
    sum = dqn_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        squares[blockIdx.x] = sum;
    }
    if (!dqn_cuda_last_block(args.tickets + agent, gridDim.x)) {
        return;
    }
    sum = 0.0;
    for (unsigned i = threadIdx.x; i < args.n_squares; i += blockDim.x) {
        sum += __ldcg(&squares[i]);
    }
    sum = dqn_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        /* copies, so that all reads are under way at once */
        const struct dqn_agent settings = args.agents[agent];
        const struct dqn_step_stats batch = args.batch_stats[agent];
        struct dqn_counters counters = args.counters[agent];
        struct dqn_step_stats stats = args.stats[agent];
        const struct dqn_adam_step step = dqn_adam_begin(&settings, &counters, &stats, &batch,
                                                         args.n_batches, sum, args.max_nonfinite);
        args.steps[agent] = step;
        args.ok[agent] = step.apply;
        args.counters[agent] = counters;
        args.stats[agent] = stats;
    }
}

static __device__ __forceinline__ void move(const struct dqn_adam_step *step, float grad, float *m,
                                            float *v, float *param, float *target) {
    dqn_adam_element(step, grad, m, v, param);
    *target = dqn_adam_target(step, *target, *param);
}

/* Grid: n4 / 256, K; block 256; no shared memory; 16-byte accesses. Bound by memory (9 floats moved
 * a parameter), for small networks by latency. */
static __global__ void k_apply_update(struct apply_kernel_args args) {
    const size_t agent = blockIdx.y;
    const struct dqn_adam_step step = args.steps[agent];
    if (!step.apply) {
        return;
    }
    for (size_t i = dqn_grid_first(); i < args.n4; i += dqn_grid_stride()) {
        const size_t at = agent * args.n4 + i;
        const float4 g = args.grads[at];
        float4 m = args.moment1[at], v = args.moment2[at];
        float4 p = args.params[at], t = args.target[at];
        move(&step, g.x, &m.x, &v.x, &p.x, &t.x);
        move(&step, g.y, &m.y, &v.y, &p.y, &t.y);
        move(&step, g.z, &m.z, &v.z, &p.z, &t.z);
        move(&step, g.w, &m.w, &v.w, &p.w, &t.w);
        args.moment1[at] = m;
        args.moment2[at] = v;
        args.params[at] = p;
        if (step.tau != 0.0f) {
            args.target[at] = t;
        }
    }
}

enum dqn_status dqn_cuda_apply(struct dqn_queue *q, const struct dqn_apply_args *args) {
    struct dqn_cuda_queue *queue = dqn_cuda_queue_of(q);
    struct apply_kernel_args a;
    a.n4 = args->net->n_params / 4; /* layers are padded to four floats */
    a.n_batches = args->n_batches;
    a.max_nonfinite = args->max_nonfinite;
    a.agents = args->agents;
    a.counters = args->counters;
    a.n_squares = norm_blocks(args->net);
    a.squares = (double *)args->workspace;
    a.steps = (struct dqn_adam_step *)(a.squares + args->n_agents * a.n_squares);
    a.tickets = queue->tickets;
    a.params = (float4 *)args->params;
    a.target = (float4 *)args->target;
    a.moment1 = (float4 *)args->moment1;
    a.moment2 = (float4 *)args->moment2;
    a.grads = (const float4 *)args->grads;
    a.batch_stats = args->batch_stats;
    a.stats = args->stats;
    a.ok = args->ok;
    const unsigned k = (unsigned)args->n_agents;
    k_apply_norm<<<dim3(a.n_squares, k), THREADS, 0, dqn_cuda_stream(q)>>>(a);
    DQN_LAUNCHED(k_apply_norm);
    const unsigned blocks = dqn_cuda_blocks(a.n4, THREADS, 4096);
    DQN_TRY(dqn_cuda_fork(queue, DQN_SIDE_PARAMS));
    k_apply_update<<<dim3(blocks, k), THREADS, 0, queue->side[DQN_SIDE_PARAMS]>>>(a);
    dqn_cuda_leave(queue, DQN_SIDE_PARAMS);
    DQN_LAUNCHED(k_apply_update);
    return DQN_OK;
}
