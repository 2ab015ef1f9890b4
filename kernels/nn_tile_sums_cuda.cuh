/* Weight gradients of small networks by tensor cores: a block sums 32 x 32 of them over the batch.
 * Its warps share the batch rows; each brings its own into shared memory, several steps ahead of
 * their use, and waits for nobody until the shares are added up. What a warp does is here for parts
 * of any width: nn_tile_sums_cluster_cuda.cuh has wider ones. */
#ifndef DQN_KERNELS_NN_TILE_SUMS_CUDA_CUH
#define DQN_KERNELS_NN_TILE_SUMS_CUDA_CUH

#include "copy_async_cuda.cuh"
#include "nn_tile_cuda.cuh"

enum { DQN_TILE_SIDE = 32 /* of what a block keeps of W */, DQN_TILE_STEP = 8 /* batch rows */ };

/* A warp's part of shared memory, in floats: the steps of both factors, [STEP, WIDTH] each; in the
 * end, in their place, its sums [WIDTH, WIDTH] and [WIDTH]. */
template <int WIDTH> struct dqn_tile_layout {
    enum {
        ROW = WIDTH + 8, /* rows begin 8 banks apart: see the reads, and the writes of sums */
        FACTOR = DQN_TILE_STEP * ROW,
        STAGE = 2 * FACTOR,
        BIASES = WIDTH * ROW,
        SHARE = BIASES + WIDTH
    };
};

/* Bytes of shared memory for a block's sums that are `stages` - 1 steps ahead. */
template <int WIDTH> static constexpr __host__ __device__ int dqn_tile_sum_bytes(int stages) {
    return DQN_TILE_WARPS * stages * dqn_tile_layout<WIDTH>::STAGE * (int)sizeof(float);
}

struct dqn_weight_layer {
    const float *dz, *x; /* [K, B, out_ld], [K, B, in_ld] */
    unsigned in_ld, out_ld;
    size_t weight, bias;
    unsigned first_block, parts_across;
};

/* Parts of `width` that a layer's W takes in one direction. */
static inline unsigned dqn_tile_parts(size_t ld, unsigned width) {
    return (unsigned)((ld + width - 1) / width);
}

/* Where the gradients of all layers come from and go; returns the blocks that an agent takes.
 *   x       the first layer's input
 *   acts    the others', as forward keeps them for `rows` batch rows of all agents
 *   across  a part of W is `across` squares of DQN_TILE_SIDE wide and high, one a block */
static inline unsigned dqn_tile_list_weights(struct dqn_weight_layer *to,
                                             const struct dqn_layer *layers, size_t n_layers,
                                             float *const *dz, const float *x, const float *acts,
                                             size_t rows, unsigned across = 1) {
    const unsigned width = DQN_TILE_SIDE * across;
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
        to[l].parts_across = dqn_tile_parts(layer->in_ld, width);
        n_blocks += to[l].parts_across * dqn_tile_parts(layer->out_ld, width) * across * across;
    }
    return n_blocks;
}

static __device__ __forceinline__ float4 dqn_add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* One factor, WIDTH columns of a [batch, ld] matrix, on its way: a warp brings a step of 8 rows,
 * every SHARERS-th such group, a thread four columns of every LANES-th row. */
template <int WIDTH, int SHARERS> struct dqn_tile_flow {
    enum { LANES = WIDTH / 4 /* a row */, ROWS = DQN_WARP / LANES /* at once */ };
    enum { TURN = SHARERS * DQN_TILE_STEP };
    const float *from;
    unsigned ld, row, end; /* rows from `end` on are zeros */

    __device__ __forceinline__ void start(const float *matrix, unsigned width, unsigned n_rows,
                                          unsigned first_column, unsigned first_row) {
        const unsigned lane = threadIdx.x % DQN_WARP, column = first_column + lane % LANES * 4;
        row = first_row + lane / LANES;
        ld = width;
        end = column < width ? n_rows : 0;
        from = matrix + (size_t)row * ld + column;
    }

    /* The thread's first place in a step. */
    static __device__ __forceinline__ unsigned place(void) {
        const unsigned lane = threadIdx.x % DQN_WARP;
        return lane / LANES * dqn_tile_layout<WIDTH>::ROW + lane % LANES * 4;
    }

    /* The next step's rows, zeros past the batch. */
    __device__ __forceinline__ void bring(float *to) {
#pragma unroll
        for (int i = 0; i < DQN_TILE_STEP; i += ROWS) {
            dqn_copy_async16(to + i * dqn_tile_layout<WIDTH>::ROW, from + i * (size_t)ld,
                             row + i < end);
        }
        from += (size_t)TURN * ld;
        row += TURN;
    }
};

/* What a thread reads of a step: batch rows t and t + 4, of dz columns 16 i + 2 g and the next one,
 * of x columns 16 j + 2 g and the next one. So every number is read to where the product wants it,
 * and 16 threads, with g below or above 4, read from 32 banks. */
template <int WIDTH> struct dqn_tile_sum_rows {
    enum { PAIRS = WIDTH / 16 };
    float2 a_low[PAIRS], a_high[PAIRS], b_low[PAIRS], b_high[PAIRS];

    __device__ __forceinline__ void load(const float *step) {
        enum { ROW = dqn_tile_layout<WIDTH>::ROW, LATER = 4 * ROW /* batch row t + 4 */ };
        const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
        const float *dz = step + t * ROW + 2 * g, *x = dz + dqn_tile_layout<WIDTH>::FACTOR;
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            a_low[i] = *(const float2 *)(dz + 16 * i);
            a_high[i] = *(const float2 *)(dz + 16 * i + LATER);
            b_low[i] = *(const float2 *)(x + 16 * i);
            b_high[i] = *(const float2 *)(x + 16 * i + LATER);
        }
    }
};

/* A thread's part of its warp's sums. Product (i, j) has W's rows 16 i + 2 g and the next one; two
 * neighbours, j and j + 1, share the columns 8 j + 4 t .. 8 j + 4 t + 3 and alternate. */
template <int WIDTH> struct dqn_tile_share {
    enum { DOWN = WIDTH / 16, ACROSS = WIDTH / 8, ROW = dqn_tile_layout<WIDTH>::ROW };
    float weight[DOWN][ACROSS][4];
    float2 bias[DOWN]; /* over batch rows t and t + 4: columns 16 i + 2 g of dz and the next one */

    __device__ __forceinline__ void clear(void) {
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            bias[i] = make_float2(0.0f, 0.0f);
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                weight[i][j][0] = weight[i][j][1] = weight[i][j][2] = weight[i][j][3] = 0.0f;
            }
        }
    }

    /* The products of a step. ROUNDED: both factors come from dqn_tile_round. */
    template <bool EXACT, bool ROUNDED>
    __device__ __forceinline__ void add(const struct dqn_tile_sum_rows<WIDTH> &rows) {
        struct dqn_tile_a<EXACT> a[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            const float2 low = rows.a_low[i], high = rows.a_high[i];
            ROUNDED ? a[i].take(low.x, low.y, high.x, high.y)
                    : a[i].set(low.x, low.y, high.x, high.y);
            bias[i].x += low.x + high.x;
            bias[i].y += low.y + high.y;
        }
#pragma unroll
        for (int j = 0; j < ACROSS; j++) {
            const float2 low = rows.b_low[j / 2], high = rows.b_high[j / 2];
            const float b_low = j % 2 == 0 ? low.x : low.y, b_high = j % 2 == 0 ? high.x : high.y;
            struct dqn_tile_b<EXACT> b;
            ROUNDED ? b.take(b_low, b_high) : b.set(b_low, b_high);
#pragma unroll
            for (int i = 0; i < DOWN; i++) {
                dqn_tile_product(weight[i][j], a[i], b);
            }
        }
    }

    /* Into the warp's own part of shared memory; 8 threads, two rows of four, write to 32 banks. */
    __device__ __forceinline__ void store_weights(float *to) const {
        const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
        to += 2 * g * ROW + 4 * t;
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
#pragma unroll
            for (int j = 0; j < ACROSS; j += 2) {
                const float *even = weight[i][j], *odd = weight[i][j + 1];
                float *at = to + 16 * i * ROW + 8 * j;
                *(float4 *)at = make_float4(even[0], odd[0], even[1], odd[1]);
                *(float4 *)(at + ROW) = make_float4(even[2], odd[2], even[3], odd[3]);
            }
        }
    }

    /* The column sums of dz from those of threads 4 g .. 4 g + 3. */
    __device__ __forceinline__ void store_biases(float *to) {
        const unsigned g = threadIdx.x % DQN_WARP / 4;
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
#pragma unroll
            for (int offset = 1; offset <= 2; offset *= 2) {
                bias[i].x += __shfl_xor_sync(0xffffffffu, bias[i].x, offset);
                bias[i].y += __shfl_xor_sync(0xffffffffu, bias[i].y, offset);
            }
            if (threadIdx.x % 4 == 0) {
                *(float2 *)(to + 16 * i + 2 * g) = bias[i];
            }
        }
    }
};

/* A warp's share of dW [WIDTH, WIDTH], rows m .. and columns n .., and of the column sums of dz: of
 * the groups of 8 batch rows every SHARERS-th, from number `sharer` on. `memory` is the warp's own,
 * STAGES steps; in the end the share is there. */
template <bool EXACT, bool ROUNDED, int WIDTH, int SHARERS, int STAGES>
static __device__ __forceinline__ void
dqn_tile_sum_share(const struct dqn_weight_layer *layer, size_t agent, unsigned batch, unsigned m,
                   unsigned n, unsigned sharer, float *memory) {
    enum { STAGE = dqn_tile_layout<WIDTH>::STAGE, FACTOR = dqn_tile_layout<WIDTH>::FACTOR };
    enum { TURN = SHARERS * DQN_TILE_STEP };
    enum {
        AHEAD = !EXACT || WIDTH == DQN_TILE_SIDE /* steps are read early, while registers last */
    };
    static_assert(dqn_tile_layout<WIDTH>::SHARE <= STAGES * STAGE, "takes the steps' place");
    const unsigned first = sharer * DQN_TILE_STEP;
    float *const end = memory + STAGES * STAGE;
    const unsigned place = dqn_tile_flow<WIDTH, SHARERS>::place();
    struct dqn_tile_flow<WIDTH, SHARERS> a, b;
    a.start(layer->dz + agent * batch * layer->out_ld, layer->out_ld, batch, m, first);
    b.start(layer->x + agent * batch * layer->in_ld, layer->in_ld, batch, n, first);
    const auto bring = [&](float *stage) {
        a.bring(stage + place);
        b.bring(stage + place + FACTOR);
        dqn_copy_async_commit();
    };
    struct dqn_tile_share<WIDTH> share;
    share.clear();
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        bring(memory + i * STAGE);
    }
    float *now = memory, *before = end - STAGE;
    struct dqn_tile_sum_rows<WIDTH> rows[2];
    const auto next = [&] {
        before = now;
        now = now + STAGE < end ? now + STAGE : memory;
        dqn_copy_async_wait<STAGES - 2>();
        __syncwarp(); /* all lanes' copies of the step are there */
    };
    dqn_copy_async_wait<STAGES - 2>();
    __syncwarp();
    rows[0].load(now);
#pragma unroll 1
    for (unsigned row = first; row < batch; row += 2 * TURN) {
#pragma unroll
        for (int i = 0; i < 2; i++) { /* past the batch, zeros are added */
            bring(before);            /* all lanes have read it before the last barrier */
            if (AHEAD) {
                next();
                rows[1 - i].load(now);
                share.template add<EXACT, ROUNDED>(rows[i]);
            } else {
                share.template add<EXACT, ROUNDED>(rows[i]);
                next();
                rows[1 - i].load(now);
            }
        }
    }
    dqn_copy_async_wait<0>();
    __syncwarp();
    share.store_weights(memory);
    share.store_biases(memory + dqn_tile_layout<WIDTH>::BIASES);
}

/* The shares of all warps, EACH floats apart, added in their order. */
template <int EACH> static __device__ __forceinline__ float4 dqn_tile_add_shares4(const float *of) {
    float4 sum = *(const float4 *)of;
#pragma unroll
    for (int w = 1; w < DQN_TILE_WARPS; w++) {
        sum = dqn_add4(sum, *(const float4 *)(of + w * EACH));
    }
    return sum;
}

template <int EACH> static __device__ __forceinline__ float dqn_tile_add_shares(const float *of) {
    float sum = *of;
#pragma unroll
    for (int w = 1; w < DQN_TILE_WARPS; w++) {
        sum += of[w * EACH];
    }
    return sum;
}

/* What a thread of a block has of its 32 x 32 gradients: of W four, at row threadIdx.x / 8 and
 * columns threadIdx.x % 8 * 4 .., and of the bias one, number threadIdx.x % 32. */
struct dqn_tile_gradients {
    float4 weight;
    float bias;
};

/* The block's sums over the agent's batch for W's rows m .. and columns n ..; `memory` is
 * dqn_tile_sum_bytes<DQN_TILE_SIDE>(STAGES) of shared memory, 16-byte aligned. */
template <bool EXACT, bool ROUNDED, int STAGES>
static __device__ __forceinline__ struct dqn_tile_gradients
dqn_tile_sum_block(const struct dqn_weight_layer *layer, size_t agent, unsigned batch, unsigned m,
                   unsigned n, float *memory) {
    enum { ROW = dqn_tile_layout<DQN_TILE_SIDE>::ROW };
    enum { BIASES = dqn_tile_layout<DQN_TILE_SIDE>::BIASES };
    enum { EACH = STAGES * dqn_tile_layout<DQN_TILE_SIDE>::STAGE /* floats of a warp */ };
    const unsigned warp = threadIdx.x / DQN_WARP;
    dqn_tile_sum_share<EXACT, ROUNDED, DQN_TILE_SIDE, DQN_TILE_WARPS, STAGES>(
        layer, agent, batch, m, n, warp, memory + warp * EACH);
    __syncthreads();
    struct dqn_tile_gradients g;
    g.weight = dqn_tile_add_shares4<EACH>(memory + threadIdx.x / 8 * ROW + threadIdx.x % 8 * 4);
    g.bias = dqn_tile_add_shares<EACH>(memory + BIASES + threadIdx.x % DQN_TILE_SIDE);
    return g;
}

#endif
