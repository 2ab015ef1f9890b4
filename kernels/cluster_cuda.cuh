/* Thread block clusters (compute capability 9): their barrier and each other's shared memory. On
 * other devices these do nothing; kernels that use them are not launched there. And a block's
 * barrier that is as lenient as theirs. */
#ifndef DQN_KERNELS_CLUSTER_CUDA_CUH
#define DQN_KERNELS_CLUSTER_CUDA_CUH

#include "cuda_common.cuh"

/* All threads of all blocks of the cluster arrive, and wait, in turn; what was written before an
 * arrival, in any memory, is seen after the wait. */
static __device__ __forceinline__ void dqn_cluster_arrive(void) {
#if __CUDA_ARCH__ >= 900
    __syncwarp(); /* `aligned`: by whole warps */
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void dqn_cluster_wait(void) {
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* __syncthreads() that warps may wait for at different places of the code, as they may for a
 * cluster's barrier. */
static __device__ __forceinline__ void dqn_block_wait(void) {
    asm volatile("barrier.sync 0;" ::: "memory");
}

/* Address in the cluster's shared memory of what lies at p, in block `rank`. */
static __device__ __forceinline__ unsigned dqn_map_rank(const void *p, unsigned rank) {
    unsigned mapped = (unsigned)__cvta_generic_to_shared(p);
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(mapped) : "r"(rank));
#else
    (void)rank;
#endif
    return mapped;
}

static __device__ __forceinline__ void dqn_store_remote(unsigned to, float v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
#endif
}

static __device__ __forceinline__ void dqn_store_remote(unsigned to, float2 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(v.x), "f"(v.y)
                 : "memory");
#endif
}

static __device__ __forceinline__ void dqn_store_remote(unsigned to, float4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
#endif
}

#endif
