/* The wide tree on the device: one level of a search in it. */
#ifndef DQN_KERNELS_SAMPLER_TREE_CUDA_CUH
#define DQN_KERNELS_SAMPLER_TREE_CUDA_CUH

#include "sampler_cuda.cuh"

/* Which of the warp's 32 values, laid end to end, holds *place; *place becomes the offset in it. */
static __device__ __forceinline__ unsigned dqn_tree_choose(uint64_t value, uint64_t *place) {
    const unsigned all = 0xffffffffu, lane = threadIdx.x % DQN_WARP;
    uint64_t sum = value;
#pragma unroll
    for (unsigned offset = 1; offset < DQN_WARP; offset *= 2) {
        const uint64_t left = __shfl_up_sync(all, sum, offset);
        sum += lane >= offset ? left : 0;
    }
    const unsigned child = (unsigned)__ffs((int)__ballot_sync(all, sum > *place)) - 1;
    *place -= __shfl_sync(all, sum - value, (int)child);
    return child;
}

#endif
