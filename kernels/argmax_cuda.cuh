/* The greedy action by a group of lanes of a warp: the same answer as dqn_td_argmax. */
#ifndef DQN_KERNELS_ARGMAX_CUDA_CUH
#define DQN_KERNELS_ARGMAX_CUDA_CUH

#include "cuda_common.cuh"

struct dqn_best {
    float value;
    uint32_t index;
    bool found; /* false: nothing but NaN so far */
};

/* The lowest index of the largest of n values that are no NaN; index 0 and value row[0] when all
 * are NaN. LANES (a power of two up to 32) neighbouring lanes share a row; every lane of the warp
 * must call this, each lane gets its row's answer. */
template <int LANES>
static __device__ __forceinline__ struct dqn_best dqn_group_argmax(const float *row, size_t n) {
    struct dqn_best best;
    best.value = row[0];
    best.index = 0;
    best.found = false;
    for (size_t a = threadIdx.x % LANES; a < n; a += LANES) {
        const float v = row[a];
        if (v == v && (!best.found || v > best.value)) {
            best.value = v;
            best.index = (uint32_t)a;
            best.found = true;
        }
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        struct dqn_best other;
        other.value = __shfl_xor_sync(0xffffffffu, best.value, offset);
        other.index = __shfl_xor_sync(0xffffffffu, best.index, offset);
        other.found = __shfl_xor_sync(0xffffffffu, (int)best.found, offset) != 0;
        if (other.found && (!best.found || other.value > best.value ||
                            (other.value == best.value && other.index < best.index))) {
            best = other;
        }
    }
    return best;
}

#endif
