/* Weight gradients of small networks by tensor cores: a block sums 32 x 32 of them over the batch.
 * What the kernels that do it share. */
#ifndef DQN_KERNELS_NN_TILE_SUMS_CUDA_CUH
#define DQN_KERNELS_NN_TILE_SUMS_CUDA_CUH

#include "nn_tile_cuda.cuh"

enum { DQN_TILE_SIDE = 32 /* of a block's part of W */, DQN_TILE_SIDE_STRIDE = DQN_TILE_SIDE + 4 };

struct dqn_weight_layer {
    const float *dz, *x; /* [K, B, out_ld], [K, B, in_ld] */
    unsigned in_ld, out_ld;
    size_t weight, bias;
    unsigned first_block, blocks_across;
};

/* Row `row` of a [batch, ld] matrix at columns column ..; zero outside. */
static __device__ __forceinline__ float4 dqn_tile_load4(const float *from, unsigned batch,
                                                        unsigned ld, unsigned row,
                                                        unsigned column) {
    return row < batch && column < ld ? *(const float4 *)(from + (size_t)row * ld + column)
                                      : dqn_zero4();
}

static __device__ __forceinline__ float4 dqn_add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* What one step of the sums reads: rows t and t + 4 of 8 batch rows, four columns of each factor.
 */
struct dqn_tile_sum_rows {
    float4 a_low, a_high, b_low, b_high;

    __device__ __forceinline__ void load(const struct dqn_weight_layer *layer, const float *dz,
                                         const float *x, unsigned batch, unsigned row, unsigned m,
                                         unsigned n) {
        a_low = dqn_tile_load4(dz, batch, layer->out_ld, row, m);
        a_high = dqn_tile_load4(dz, batch, layer->out_ld, row + 4, m);
        b_low = dqn_tile_load4(x, batch, layer->in_ld, row, n);
        b_high = dqn_tile_load4(x, batch, layer->in_ld, row + 4, n);
    }
};

/* acc += this step's products; ROUNDED: both factors come from dqn_tile_round. Product (i, j) of 2
 * x 4 has W's rows m + 4g + 2i and m + 4g + 2i + 1 and columns n + 4g + j. */
template <bool EXACT, bool ROUNDED>
static __device__ __forceinline__ void dqn_tile_sum_step(const struct dqn_tile_sum_rows &rows,
                                                         float (*acc)[4][4]) {
    const float a0[4] = {rows.a_low.x, rows.a_low.y, rows.a_low.z, rows.a_low.w};
    const float a1[4] = {rows.a_high.x, rows.a_high.y, rows.a_high.z, rows.a_high.w};
    const float b0[4] = {rows.b_low.x, rows.b_low.y, rows.b_low.z, rows.b_low.w};
    const float b1[4] = {rows.b_high.x, rows.b_high.y, rows.b_high.z, rows.b_high.w};
    struct dqn_tile_a<EXACT> a[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ROUNDED ? a[i].take(a0[2 * i], a0[2 * i + 1], a1[2 * i], a1[2 * i + 1])
                : a[i].set(a0[2 * i], a0[2 * i + 1], a1[2 * i], a1[2 * i + 1]);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        struct dqn_tile_b<EXACT> b;
        ROUNDED ? b.take(b0[j], b1[j]) : b.set(b0[j], b1[j]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            dqn_tile_product(acc[i][j], a[i], b);
        }
    }
}

/* A warp's share of dW [32, 32] and of the column sums of dz: of the groups of 8 batch rows every
 * `step`-th from `first` on. Reads are several steps ahead; past the batch they are zeros. */
template <bool EXACT, bool ROUNDED>
static __device__ __forceinline__ void
dqn_tile_sum_share(const struct dqn_weight_layer *layer, const float *dz, const float *x,
                   unsigned batch, unsigned m, unsigned n, unsigned first, unsigned step,
                   float (*acc)[4][4], float4 *sums) {
    enum { AHEAD = 4 };
    const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
    struct dqn_tile_sum_rows ahead[AHEAD];
#pragma unroll
    for (int p = 0; p < AHEAD; p++) {
        ahead[p].load(layer, dz, x, batch, 8 * (first + p * step) + t, m + 4 * g, n + 4 * g);
    }
#pragma unroll 1
    for (unsigned base = first; 8 * base < batch; base += AHEAD * step) {
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            const struct dqn_tile_sum_rows now = ahead[p];
            ahead[p].load(layer, dz, x, batch, 8 * (base + (AHEAD + p) * step) + t, m + 4 * g,
                          n + 4 * g);
            *sums = dqn_add4(dqn_add4(*sums, now.a_low), now.a_high);
            dqn_tile_sum_step<EXACT, ROUNDED>(now, acc);
        }
    }
}

/* The warp's sums into its own part of shared memory. */
static __device__ __forceinline__ void dqn_tile_store_share(const float (*acc)[4][4],
                                                            float *share) {
    const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int part = 0; part < 4; part++) { /* columns 8t, 8t + 4 of two rows */
            const unsigned row = 4 * g + 2 * i + part / 2, column = 8 * t + part % 2 * 4;
            *(float4 *)(share + row * DQN_TILE_SIDE_STRIDE + column) =
                make_float4(acc[i][0][part], acc[i][1][part], acc[i][2][part], acc[i][3][part]);
        }
    }
}

static __device__ __forceinline__ float4 dqn_tile_sum_four(float4 v) {
#pragma unroll
    for (int offset = 1; offset <= 2; offset *= 2) { /* threads 4g .. 4g + 3 */
        v.x += __shfl_xor_sync(0xffffffffu, v.x, offset);
        v.y += __shfl_xor_sync(0xffffffffu, v.y, offset);
        v.z += __shfl_xor_sync(0xffffffffu, v.z, offset);
        v.w += __shfl_xor_sync(0xffffffffu, v.w, offset);
    }
    return v;
}

#endif
