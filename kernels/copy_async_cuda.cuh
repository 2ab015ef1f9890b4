/* Copies from global to shared memory that a thread goes on beside (compute capability 8, PTX ISA,
 * "cp.async"). On other devices these do nothing; kernels that use them are not launched there. */
#ifndef DQN_KERNELS_COPY_ASYNC_CUDA_CUH
#define DQN_KERNELS_COPY_ASYNC_CUDA_CUH

#include "cuda_common.cuh"

/* 16 bytes, past the first-level cache; zeros, and nothing is read, where they do not exist. */
static __device__ __forceinline__ void dqn_copy_async16(float *to, const float *from, bool exists) {
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                 "r"(exists ? 16 : 0)
                 : "memory");
#else
    (void)to, (void)from, (void)exists;
#endif
}

/* The copies since the last group are a group. */
static __device__ __forceinline__ void dqn_copy_async_commit(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Until at most N groups of this thread are under way; other threads see what came after a barrier
 * with it. */
template <int N> static __device__ __forceinline__ void dqn_copy_async_wait(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#endif
