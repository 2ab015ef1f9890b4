/* Epsilon-greedy actions: what the kernels that choose them share. */
#ifndef DQN_KERNELS_ACT_CUDA_CUH
#define DQN_KERNELS_ACT_CUDA_CUH

#include "../src/shared/schedule.h"
#include "argmax_cuda.cuh"
#include "rng_cuda.cuh"

/* The epsilon of an agent's lanes in this step. */
static __device__ __forceinline__ double dqn_cuda_epsilon(const struct dqn_act_args *a,
                                                          size_t agent) {
    return a->fixed_epsilon >= 0.0
               ? a->fixed_epsilon
               : dqn_schedule_epsilon(&a->agents[agent], a->counters[agent].env_steps);
}

enum : uint32_t { DQN_GREEDY = 0xffffffff };

/* The action of a lane that explores in this step, else DQN_GREEDY. */
static __device__ __forceinline__ uint32_t dqn_cuda_explore(const struct dqn_act_args *a,
                                                            size_t agent, size_t lane,
                                                            double epsilon) {
    const uint64_t stream = dqn_rng_stream((enum dqn_purpose)a->purpose, lane);
    const struct dqn_u32x4 words =
        dqn_cuda_rng_block(a->agents[agent].seed, stream, a->counters[agent].vector_steps);
    return dqn_rng_unit(dqn_rng_u64(words, 0)) < epsilon
               ? (uint32_t)dqn_rng_below(dqn_rng_u64(words, 1), a->actions)
               : DQN_GREEDY;
}

/* A block's counts of actions, in shared memory, to the agent's histogram; all threads, behind a
 * barrier. Counts are integers, so the order of the atomics does not matter. */
static __device__ __forceinline__ void dqn_cuda_add_counts(const struct dqn_act_args *a,
                                                           size_t agent, const unsigned *count) {
    uint64_t *histogram = a->histogram + agent * a->actions;
    for (size_t i = threadIdx.x; i < a->actions; i += blockDim.x) {
        if (count[i] != 0) {
            atomicAdd((unsigned long long *)&histogram[i], (unsigned long long)count[i]);
        }
    }
}

#endif
