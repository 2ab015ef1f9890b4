/* Weight gradients of small networks by tensor cores: a block sums 32 x 32 of them over the batch.
 * Its warps share the batch rows; each brings its own into shared memory, several steps ahead of
 * their use, and waits for nobody until the shares are added up. */
#ifndef DQN_KERNELS_NN_TILE_SUMS_CUDA_CUH
#define DQN_KERNELS_NN_TILE_SUMS_CUDA_CUH

#include "copy_async_cuda.cuh"
#include "nn_tile_cuda.cuh"

enum { DQN_TILE_SIDE = 32 /* of a block's part of W */, DQN_TILE_SIDE_STRIDE = DQN_TILE_SIDE + 4 };
enum {
    DQN_TILE_STEP = 8,                       /* batch rows */
    DQN_TILE_ROW_STRIDE = DQN_TILE_SIDE + 8, /* rows begin 8 banks apart: see the reads */
    DQN_TILE_FACTOR = DQN_TILE_STEP * DQN_TILE_ROW_STRIDE, /* floats of a factor's step */
    DQN_TILE_STAGE = 2 * DQN_TILE_FACTOR
};

/* Bytes of shared memory for sums that are STAGES - 1 steps ahead. */
static constexpr __host__ __device__ int dqn_tile_sum_bytes(int stages) {
    return DQN_TILE_WARPS * stages * DQN_TILE_STAGE * (int)sizeof(float);
}

struct dqn_weight_layer {
    const float *dz, *x; /* [K, B, out_ld], [K, B, in_ld] */
    unsigned in_ld, out_ld;
    size_t weight, bias;
    unsigned first_block, blocks_across;
};

/* Squares of DQN_TILE_SIDE that a layer's W takes in one direction. */
static inline unsigned dqn_tile_squares(size_t ld) {
    return (unsigned)((ld + DQN_TILE_SIDE - 1) / DQN_TILE_SIDE);
}

/* Where the gradients of all layers come from and go; returns the blocks that an agent takes.
 *   x     the first layer's input
 *   acts  the others', as forward keeps them for `rows` batch rows of all agents */
static inline unsigned dqn_tile_list_weights(struct dqn_weight_layer *to,
                                             const struct dqn_layer *layers, size_t n_layers,
                                             float *const *dz, const float *x, const float *acts,
                                             size_t rows) {
    unsigned n_blocks = 0;
    for (size_t l = 0; l < n_layers; l++) {
        const struct dqn_layer *layer = &layers[l];
        to[l].dz = dz[l];
        to[l].x = l == 0 ? x : acts + rows * layers[l - 1].output;
        to[l].in_ld = (unsigned)layer->in_ld;
        to[l].out_ld = (unsigned)layer->out_ld;
        to[l].weight = layer->weight;
        to[l].bias = layer->bias;
        to[l].first_block = n_blocks;
        to[l].blocks_across = dqn_tile_squares(layer->in_ld);
        n_blocks += to[l].blocks_across * dqn_tile_squares(layer->out_ld);
    }
    return n_blocks;
}

static __device__ __forceinline__ float4 dqn_add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* One factor, 32 columns of a [batch, ld] matrix, on its way: a thread brings four columns of two
 * rows a step. */
struct dqn_tile_flow {
    const float *from;
    unsigned ld, row, batch;
    bool exists; /* the columns */

    __device__ __forceinline__ void start(const float *matrix, unsigned width, unsigned n_rows,
                                          unsigned first_column) {
        const unsigned lane = threadIdx.x % DQN_WARP, column = first_column + lane % 8 * 4;
        row = threadIdx.x / DQN_WARP * DQN_TILE_STEP + lane / 8;
        ld = width;
        batch = n_rows;
        exists = column < ld;
        from = matrix + (size_t)row * ld + column;
    }

    /* The next step's rows, zeros past the batch. */
    __device__ __forceinline__ void bring(float *to) {
        dqn_copy_async16(to, from, exists && row < batch);
        dqn_copy_async16(to + DQN_TILE_FACTOR / 2, from + 4 * (size_t)ld,
                         exists && row + 4 < batch);
        from += (size_t)DQN_TILE_WARPS * DQN_TILE_STEP * ld;
        row += DQN_TILE_WARPS * DQN_TILE_STEP;
    }
};

/* What a thread reads of a step: batch rows t and t + 4, of dz columns 16 i + 2 g and the next one,
 * of x columns 8 j + g. So every number is read to where the product wants it. */
struct dqn_tile_sum_rows {
    float2 a_low[2], a_high[2];
    float b_low[4], b_high[4];

    __device__ __forceinline__ void load(const float *step) {
        enum { LATER = DQN_TILE_FACTOR / 2 /* batch row t + 4 */ };
        const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
        const float *dz = step + t * DQN_TILE_ROW_STRIDE + 2 * g;
        const float *x = step + DQN_TILE_FACTOR + t * DQN_TILE_ROW_STRIDE + g;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            a_low[i] = *(const float2 *)(dz + 16 * i);
            a_high[i] = *(const float2 *)(dz + 16 * i + LATER);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            b_low[j] = x[8 * j];
            b_high[j] = x[8 * j + LATER];
        }
    }
};

/* acc += the products of a step, sums += its rows of dz. ROUNDED: both factors come from
 * dqn_tile_round. Product (i, j) of 2 x 4 has W's rows m + 16 i + 2 g and the next one and columns
 * n + 8 j + 2 t and the next one. */
template <bool EXACT, bool ROUNDED>
static __device__ __forceinline__ void dqn_tile_sum_step(const struct dqn_tile_sum_rows &rows,
                                                         float (*acc)[4][4], float4 *sums) {
    const float2 *low = rows.a_low, *high = rows.a_high;
    struct dqn_tile_a<EXACT> a[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ROUNDED ? a[i].take(low[i].x, low[i].y, high[i].x, high[i].y)
                : a[i].set(low[i].x, low[i].y, high[i].x, high[i].y);
    }
    *sums = dqn_add4(*sums, make_float4(low[0].x + high[0].x, low[0].y + high[0].y,
                                        low[1].x + high[1].x, low[1].y + high[1].y));
#pragma unroll
    for (int j = 0; j < 4; j++) {
        struct dqn_tile_b<EXACT> b;
        ROUNDED ? b.take(rows.b_low[j], rows.b_high[j]) : b.set(rows.b_low[j], rows.b_high[j]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            dqn_tile_product(acc[i][j], a[i], b);
        }
    }
}

/* A warp's share of dW [32, 32] and of the column sums of dz: of the groups of 8 batch rows every
 * eighth. `memory` is the warp's own, STAGES steps. */
template <bool EXACT, bool ROUNDED, int STAGES>
static __device__ __forceinline__ void
dqn_tile_sum_share(const struct dqn_weight_layer *layer, const float *dz, const float *x,
                   unsigned batch, unsigned m, unsigned n, float *memory, float (*acc)[4][4],
                   float4 *sums) {
    enum { TURN = DQN_TILE_WARPS * DQN_TILE_STEP };
    const unsigned lane = threadIdx.x % DQN_WARP;
    float *const end = memory + STAGES * DQN_TILE_STAGE;
    const unsigned place = lane / 8 * DQN_TILE_ROW_STRIDE + lane % 8 * 4;
    struct dqn_tile_flow a, b;
    a.start(dz, layer->out_ld, batch, m);
    b.start(x, layer->in_ld, batch, n);
    const auto bring = [&](float *stage) {
        a.bring(stage + place);
        b.bring(stage + place + DQN_TILE_FACTOR);
        dqn_copy_async_commit();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        bring(memory + i * DQN_TILE_STAGE);
    }
    float *now = memory, *before = end - DQN_TILE_STAGE;
    struct dqn_tile_sum_rows rows[2];
    dqn_copy_async_wait<STAGES - 2>();
    __syncwarp();
    rows[0].load(now);
#pragma unroll 1
    for (unsigned row = threadIdx.x / DQN_WARP * DQN_TILE_STEP; row < batch; row += 2 * TURN) {
#pragma unroll
        for (int i = 0; i < 2; i++) { /* past the batch, zeros are added */
            bring(before);            /* all lanes have read it before the last barrier */
            before = now;
            now = now + DQN_TILE_STAGE < end ? now + DQN_TILE_STAGE : memory;
            dqn_copy_async_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies of the next step are there */
            rows[1 - i].load(now);
            dqn_tile_sum_step<EXACT, ROUNDED>(rows[i], acc, sums);
        }
    }
    dqn_copy_async_wait<0>();
    __syncwarp();
}

/* The warp's sums into its own part of shared memory. */
static __device__ __forceinline__ void dqn_tile_store_share(const float (*acc)[4][4],
                                                            float *share) {
    const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float *to = share + (16 * i + 2 * g) * DQN_TILE_SIDE_STRIDE + 8 * j + 2 * t;
            *(float2 *)to = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)(to + DQN_TILE_SIDE_STRIDE) = make_float2(acc[i][j][2], acc[i][j][3]);
        }
    }
}

/* The column sums of dz from those of four threads, each of which has every fourth row. */
static __device__ __forceinline__ void dqn_tile_store_sums(float4 v, float *to) {
    const unsigned g = threadIdx.x % DQN_WARP / 4;
#pragma unroll
    for (int offset = 1; offset <= 2; offset *= 2) { /* threads 4g .. 4g + 3 */
        v.x += __shfl_xor_sync(0xffffffffu, v.x, offset);
        v.y += __shfl_xor_sync(0xffffffffu, v.y, offset);
        v.z += __shfl_xor_sync(0xffffffffu, v.z, offset);
        v.w += __shfl_xor_sync(0xffffffffu, v.w, offset);
    }
    if (threadIdx.x % 4 == 0) {
        *(float2 *)(to + 2 * g) = make_float2(v.x, v.y);
        *(float2 *)(to + 16 + 2 * g) = make_float2(v.z, v.w);
    }
}

/* What a thread of a block has of its 32 x 32 gradients: of W four, at row threadIdx.x / 8 and
 * columns threadIdx.x % 8 * 4 .., and of the bias one, number threadIdx.x % 32. */
struct dqn_tile_gradients {
    float4 weight;
    float bias;
};

/* The block's sums over the agent's batch for W's rows m .. and columns n ..; `memory` is
 * dqn_tile_sum_bytes(STAGES) of shared memory, 16-byte aligned. */
template <bool EXACT, bool ROUNDED, int STAGES>
static __device__ __forceinline__ struct dqn_tile_gradients
dqn_tile_sum_block(const struct dqn_weight_layer *layer, size_t agent, unsigned batch, unsigned m,
                   unsigned n, float *memory) {
    enum { BIASES = DQN_TILE_SIDE * DQN_TILE_SIDE_STRIDE /* behind the warp's share */ };
    enum { EACH = STAGES * DQN_TILE_STAGE /* floats of a warp */ };
    const size_t rows = agent * batch;
    float *own = memory + threadIdx.x / DQN_WARP * EACH;
    float acc[2][4][4];
    float4 sums = dqn_zero4();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float *zero = acc[i / 4][i % 4];
        zero[0] = zero[1] = zero[2] = zero[3] = 0.0f;
    }
    dqn_tile_sum_share<EXACT, ROUNDED, STAGES>(layer, layer->dz + rows * layer->out_ld,
                                               layer->x + rows * layer->in_ld, batch, m, n, own,
                                               acc, &sums);
    dqn_tile_store_share(acc, own);
    dqn_tile_store_sums(sums, own + BIASES);
    __syncthreads();
    const float *from = memory + threadIdx.x / 8 * DQN_TILE_SIDE_STRIDE + threadIdx.x % 8 * 4;
    const float *biases = memory + BIASES + threadIdx.x % DQN_TILE_SIDE;
    struct dqn_tile_gradients g;
    g.weight = *(const float4 *)from;
    g.bias = *biases;
#pragma unroll
    for (int w = 1; w < DQN_TILE_WARPS; w++) {
        g.weight = dqn_add4(g.weight, *(const float4 *)(from + w * EACH));
        g.bias += biases[w * EACH];
    }
    return g;
}

#endif
