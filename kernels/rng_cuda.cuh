/* cuRAND's Philox on the device: the same words as dqn_rng_block of src/shared/rng.h. */
#ifndef DQN_KERNELS_RNG_CUDA_CUH
#define DQN_KERNELS_RNG_CUDA_CUH

#include <curand_philox4x32_x.h>

#include "cuda_common.cuh"

/* Block `counter` of `stream`: what curand_init(seed, stream, 4 * counter) and curand4 give. */
static __device__ __forceinline__ struct dqn_u32x4
dqn_cuda_rng_block(uint64_t seed, uint64_t stream, uint64_t counter) {
    const uint4 at = make_uint4((unsigned)counter, (unsigned)(counter >> 32), (unsigned)stream,
                                (unsigned)(stream >> 32));
    const uint4 words =
        curand_Philox4x32_10(at, make_uint2((unsigned)seed, (unsigned)(seed >> 32)));
    struct dqn_u32x4 block;
    block.v[0] = words.x;
    block.v[1] = words.y;
    block.v[2] = words.z;
    block.v[3] = words.w;
    return block;
}

#endif
