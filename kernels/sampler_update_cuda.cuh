/* Priorities that an update writes, row by row: what the kernels that do it share. */
#ifndef DQN_KERNELS_SAMPLER_UPDATE_CUDA_CUH
#define DQN_KERNELS_SAMPLER_UPDATE_CUDA_CUH

#include "sampler_cuda.cuh"

/* The new priority of a row, counted in what the warp reports. */
struct dqn_seen {
    uint32_t n_nan, n_inf, largest; /* bits of the largest finite one */
};

static __device__ __forceinline__ uint32_t dqn_new_priority(const struct dqn_agent *agent, float td,
                                                            struct dqn_seen *seen) {
    const struct dqn_priority priority = dqn_priority_of_td(agent, td);
    const uint32_t bits = dqn_float_bits(priority.value);
    seen->n_nan += priority.kind == DQN_PRIORITY_NAN;
    seen->n_inf += priority.kind == DQN_PRIORITY_INF;
    if (priority.kind == DQN_PRIORITY_FINITE && bits > seen->largest) {
        seen->largest = bits;
    }
    return bits;
}

/* By whole warps. */
static __device__ __forceinline__ void dqn_report_seen(struct dqn_counters *counters,
                                                       float *priority_seen, size_t k,
                                                       struct dqn_seen seen) {
    seen.n_nan = dqn_warp_sum(seen.n_nan);
    seen.n_inf = dqn_warp_sum(seen.n_inf);
    seen.largest = dqn_warp_max(seen.largest);
    if (threadIdx.x % DQN_WARP != 0) {
        return;
    }
    if (seen.n_nan > 0) {
        atomicAdd((unsigned long long *)&counters[k].priority_nan, (unsigned long long)seen.n_nan);
    }
    if (seen.n_inf > 0) {
        atomicAdd((unsigned long long *)&counters[k].priority_inf, (unsigned long long)seen.n_inf);
    }
    if (seen.largest > 0) {
        atomicMax((uint32_t *)&priority_seen[k], seen.largest);
    }
}

/* To the sums above `row` of one agent, by the one thread that took its old priority out. */
static __device__ __forceinline__ void dqn_add_difference(const struct dqn_tree_shape *shape,
                                                          uint64_t *sums, size_t row, uint32_t old,
                                                          float priority) {
    const uint64_t difference = dqn_cuda_leaf(priority) - dqn_cuda_leaf(dqn_float_from_bits(old));
    if (old == 0 || difference == 0) {
        return;
    }
    for (int level = 0; level < shape->n_levels; level++) {
        row /= DQN_TREE_FAN;
        atomicAdd((unsigned long long *)&sums[shape->first[level] + row],
                  (unsigned long long)difference);
    }
}

#endif
