/* Weight gradients of large batches: a cluster of four blocks sums 64 x 64 of them, so that batch
 * rows are read half as often as by blocks of 32 x 32 (nn_tile_sums_cuda.cuh). Each block sums all
 * of them over a quarter of the rows and sends every other block the sums for the 32 x 32 that that
 * one keeps. */
#ifndef DQN_KERNELS_NN_TILE_SUMS_CLUSTER_CUDA_CUH
#define DQN_KERNELS_NN_TILE_SUMS_CLUSTER_CUDA_CUH

#include "cluster_cuda.cuh"
#include "nn_tile_sums_cuda.cuh"

enum {
    DQN_TILE_ACROSS = 2, /* blocks of a cluster side by side, and on top of each other */
    DQN_TILE_CLUSTER = DQN_TILE_ACROSS * DQN_TILE_ACROSS,
    DQN_TILE_WIDE = DQN_TILE_ACROSS * DQN_TILE_SIDE
};
/* Floats that a block is sent by each: its 32 x 32 weights, by thread, and 32 biases. */
enum { DQN_TILE_SENT_BIASES = DQN_TILE_SIDE * DQN_TILE_SIDE };
enum { DQN_TILE_SENT = DQN_TILE_SENT_BIASES + DQN_TILE_SIDE };

static constexpr __host__ __device__ int dqn_tile_cluster_bytes(int stages) {
    return dqn_tile_sum_bytes<DQN_TILE_WIDE>(stages) +
           DQN_TILE_CLUSTER * DQN_TILE_SENT * (int)sizeof(float);
}

/* Block q of a cluster keeps the quadrant at row q / 2 and column q % 2 of the 64 x 64. */
static __device__ __forceinline__ unsigned dqn_tile_down(unsigned quadrant) {
    return quadrant / DQN_TILE_ACROSS * DQN_TILE_SIDE;
}

static __device__ __forceinline__ unsigned dqn_tile_right(unsigned quadrant) {
    return quadrant % DQN_TILE_ACROSS * DQN_TILE_SIDE;
}

/* The block's sums over its batch rows to the blocks that keep them. A thread sends each block what
 * the thread of its number there keeps; a warp each sends biases.
 *   shares  of the block's warps, EACH floats apart
 *   inbox   [CLUSTER, SENT], of this block; by sender */
template <int EACH>
static __device__ __forceinline__ void dqn_tile_send_sums(const float *shares, unsigned rank,
                                                          const float *inbox) {
    enum { ROW = dqn_tile_layout<DQN_TILE_WIDE>::ROW };
    enum { BIASES = dqn_tile_layout<DQN_TILE_WIDE>::BIASES };
    const unsigned warp = threadIdx.x / DQN_WARP, lane = threadIdx.x % DQN_WARP;
    const float *slot = inbox + rank * DQN_TILE_SENT;
    const float *own = shares + threadIdx.x / 8 * ROW + threadIdx.x % 8 * 4;
#pragma unroll
    for (unsigned q = 0; q < DQN_TILE_CLUSTER; q++) {
        const float4 sum =
            dqn_tile_add_shares4<EACH>(own + dqn_tile_down(q) * ROW + dqn_tile_right(q));
        dqn_store_remote(dqn_map_rank(slot + 4 * threadIdx.x, q), sum);
    }
    if (warp < DQN_TILE_CLUSTER) {
        const float sum = dqn_tile_add_shares<EACH>(shares + BIASES + dqn_tile_down(warp) + lane);
        dqn_store_remote(dqn_map_rank(slot + DQN_TILE_SENT_BIASES + lane, warp), sum);
    }
}

/* What all blocks have sent, added in their order. */
static __device__ __forceinline__ struct dqn_tile_gradients dqn_tile_take_sums(const float *inbox) {
    const float *weights = inbox + 4 * threadIdx.x;
    const float *biases = inbox + DQN_TILE_SENT_BIASES + threadIdx.x % DQN_TILE_SIDE;
    struct dqn_tile_gradients g;
    g.weight = *(const float4 *)weights;
    g.bias = *biases;
#pragma unroll
    for (int i = 1; i < DQN_TILE_CLUSTER; i++) {
        g.weight = dqn_add4(g.weight, *(const float4 *)(weights + i * DQN_TILE_SENT));
        g.bias += biases[i * DQN_TILE_SENT];
    }
    return g;
}

/* Sums over the agent's batch of W's rows m .. and columns n .., 64 each, by all threads of all
 * blocks of a cluster, of which this is block `rank`; returns those of its quadrant. `memory` is
 * dqn_tile_cluster_bytes(STAGES) of shared memory, 16-byte aligned, at the same place in all. */
template <bool EXACT, bool ROUNDED, int STAGES>
static __device__ __forceinline__ struct dqn_tile_gradients
dqn_tile_sum_cluster(const struct dqn_weight_layer *layer, size_t agent, unsigned batch, unsigned m,
                     unsigned n, unsigned rank, float *memory) {
    enum { EACH = STAGES * dqn_tile_layout<DQN_TILE_WIDE>::STAGE /* floats of a warp */ };
    enum { SHARERS = DQN_TILE_CLUSTER * DQN_TILE_WARPS };
    const unsigned warp = threadIdx.x / DQN_WARP;
    const float *inbox = memory + DQN_TILE_WARPS * EACH; /* nothing else is ever there */
    dqn_cluster_arrive();                                /* this block runs: it can be sent to */
    dqn_tile_sum_share<EXACT, ROUNDED, DQN_TILE_WIDE, SHARERS, STAGES>(
        layer, agent, batch, m, n, rank * DQN_TILE_WARPS + warp, memory + warp * EACH);
    __syncthreads();
    dqn_cluster_wait();
    dqn_tile_send_sums<EACH>(memory, rank, inbox);
    dqn_cluster_arrive();
    dqn_cluster_wait(); /* all is sent, so that nobody touches a block that has gone on, or ended */
    return dqn_tile_take_sums(inbox);
}

#endif
