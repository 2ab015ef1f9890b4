/* Backward passes of small networks in TF32: one kernel down through the layers, one for all
 * weights; see nn_tile_cuda.cuh. */
#include "nn_tile_cuda.cuh"

enum { THREADS = DQN_TILE_THREADS, WARPS = DQN_TILE_WARPS, DEPTH = DQN_TILE_DEPTH };
enum { TALLEST = 2 /* 32 rows */, COLUMNS = 32 /* of a warp */ };

/* ---- down through the layers ---- */

struct descent {
    struct dqn_tile_net net;
    size_t n_agents, batch;
    const float *params, *acts;
    float *dz[DQN_TILE_LAYERS]; /* the last one is read */
};

/* What the threads of a block know of their tile. */
struct tile {
    size_t rows, first_row; /* of all agents; this tile's first */
    unsigned n_rows;        /* of the tile that exist */
    unsigned stride;
    unsigned warp, g, t; /* thread 4 g + t of the warp */
};

/* Row k of W at columns n + 4g ..; zero outside. */
static __device__ __forceinline__ float4 load_weights(const float *w, unsigned in_ld,
                                                      unsigned out_ld, unsigned k, unsigned n) {
    return k < out_ld && n < in_ld ? *(const float4 *)(w + (size_t)k * in_ld + n) : dqn_zero4();
}

/* Four neighbours of dz of the layer below from the sums: times act', and where they go. */
template <int ACTIVATION>
static __device__ __forceinline__ void finish_four(const struct descent *a, const struct tile *tile,
                                                   unsigned below, unsigned row, unsigned column,
                                                   float4 d, uint32_t *to) {
    const struct dqn_layer *layer = &a->net.layer[below];
    const enum dqn_activation activation = (enum dqn_activation)ACTIVATION;
    const size_t at = (tile->first_row + row) * layer->out_ld + column;
    const size_t kept = activation == DQN_SILU ? layer->preact : layer->output;
    if (row >= tile->n_rows || column >= layer->out_ld) {
        return;
    }
    const float4 from = *(const float4 *)(a->acts + tile->rows * kept + at);
    d.x *= dqn_slope(activation, from.x);
    d.y *= dqn_slope(activation, from.y);
    d.z *= dqn_slope(activation, from.z);
    d.w *= dqn_slope(activation, from.w);
    *(float4 *)(a->dz[below] + at) = d;
    *(uint4 *)(to + row * tile->stride + column) =
        make_uint4(dqn_tf32(d.x), dqn_tf32(d.y), dqn_tf32(d.z), dqn_tf32(d.w));
}

/* dz of layer l - 1 from that of layer l. A warp takes 32 columns: product j of four has columns
 * n + 4g + j. Of 16 rows of W, step s of two has rows 4t + 2s and 4t + 2s + 1. */
template <int HEIGHT, int ACTIVATION>
static __device__ __forceinline__ void descend(const struct descent *a, const struct tile *tile,
                                               unsigned l, const float *params, const uint32_t *x,
                                               uint32_t *y) {
    enum { AHEAD = HEIGHT == 1 ? 4 : 2 };
    const struct dqn_layer *layer = &a->net.layer[l];
    const unsigned in_ld = (unsigned)layer->in_ld, out_ld = (unsigned)layer->out_ld;
    const unsigned steps = (out_ld + DEPTH - 1) / DEPTH, g = tile->g, t = tile->t;
    const float *w = params + layer->weight;
    unsigned n = tile->warp * COLUMNS;
    bool first = true;
    do {
        float4 b[AHEAD][4];
        float acc[HEIGHT][4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int p = 0; p < AHEAD; p++) {
                b[p][i] = load_weights(w, in_ld, out_ld, p * DEPTH + 4 * t + i, n + 4 * g);
            }
#pragma unroll
            for (int m = 0; m < HEIGHT; m++) {
                acc[m][i][0] = acc[m][i][1] = acc[m][i][2] = acc[m][i][3] = 0.0f;
            }
        }
        if (first) {
            __syncthreads();
            first = false;
        }
        for (unsigned step = 0; step < steps; step += AHEAD) {
#pragma unroll
            for (int p = 0; p < AHEAD; p++) {
                if (step + p >= steps) {
                    break;
                }
                const unsigned k = (step + p) * DEPTH + 4 * t;
                uint32_t bits[4][4]; /* [row][column] */
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    bits[i][0] = dqn_tf32(b[p][i].x);
                    bits[i][1] = dqn_tf32(b[p][i].y);
                    bits[i][2] = dqn_tf32(b[p][i].z);
                    bits[i][3] = dqn_tf32(b[p][i].w);
                    b[p][i] = load_weights(w, in_ld, out_ld, k + AHEAD * DEPTH + i, n + 4 * g);
                }
#pragma unroll
                for (int m = 0; m < HEIGHT; m++) {
                    const uint32_t *from = x + (16 * m + g) * tile->stride + k;
                    const bool inside = k < out_ld;
                    const uint4 low = inside ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
                    const uint4 high =
                        inside ? *(const uint4 *)(from + 8 * tile->stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        dqn_tile_mma(acc[m][j], low.x, high.x, low.y, high.y, bits[0][j],
                                     bits[1][j]);
                        dqn_tile_mma(acc[m][j], low.z, high.z, low.w, high.w, bits[2][j],
                                     bits[3][j]);
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < HEIGHT; m++) {
#pragma unroll
            for (int half = 0; half < 4; half++) { /* columns 8t, 8t + 4 of rows g, g + 8 */
                finish_four<ACTIVATION>(
                    a, tile, l - 1, 16 * m + g + half / 2 * 8, n + 8 * t + half % 2 * 4,
                    make_float4(acc[m][0][half], acc[m][1][half], acc[m][2][half], acc[m][3][half]),
                    y);
            }
        }
        n += WARPS * COLUMNS;
    } while (n < in_ld);
}

/* Grid: tiles of 16 HEIGHT rows, K; block 256; shared: two tiles of the widest layer. Bound by the
 * weights' way from the L2 cache. */
template <int HEIGHT, int ACTIVATION>
static __global__ void __launch_bounds__(THREADS, 1) k_descend_tile(const struct descent a) {
    extern __shared__ uint4 memory[];
    const unsigned top = a.net.n_layers - 1, ld = (unsigned)a.net.layer[top].out_ld;
    const size_t agent = blockIdx.y, begin = (size_t)blockIdx.x * 16 * HEIGHT;
    const size_t left = a.batch - begin;
    uint32_t *x = (uint32_t *)memory, *y = x + 16 * HEIGHT * a.net.stride;
    struct tile tile;
    tile.rows = a.n_agents * a.batch;
    tile.first_row = agent * a.batch + begin;
    tile.n_rows = left < 16 * HEIGHT ? (unsigned)left : 16 * HEIGHT;
    tile.stride = a.net.stride;
    tile.warp = threadIdx.x / DQN_WARP;
    tile.g = threadIdx.x % DQN_WARP / 4;
    tile.t = threadIdx.x % 4;
    for (unsigned i = threadIdx.x; i < 16 * HEIGHT * (ld / 4); i += THREADS) {
        const unsigned row = i / (ld / 4), column = i % (ld / 4) * 4;
        const float4 v = row < tile.n_rows
                             ? *(const float4 *)(a.dz[top] + (tile.first_row + row) * ld + column)
                             : dqn_zero4();
        *(uint4 *)(x + row * tile.stride + column) =
            make_uint4(dqn_tf32(v.x), dqn_tf32(v.y), dqn_tf32(v.z), dqn_tf32(v.w));
    }
    for (unsigned l = top; l > 0; l--) {
        descend<HEIGHT, ACTIVATION>(&a, &tile, l, a.params + agent * a.net.n_params, x, y);
        uint32_t *swap = x;
        x = y;
        y = swap;
    }
}

template <int HEIGHT, int ACTIVATION>
static enum dqn_status launch_descent(struct dqn_cuda_queue *q, const struct descent *descent) {
    const size_t tiles = (descent->batch + 16 * HEIGHT - 1) / (16 * HEIGHT);
    const size_t bytes = dqn_tile_bytes(HEIGHT, descent->net.stride);
    const dim3 grid((unsigned)tiles, (unsigned)descent->n_agents);
    DQN_CUDA(cudaFuncSetAttribute(k_descend_tile<HEIGHT, ACTIVATION>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    k_descend_tile<HEIGHT, ACTIVATION><<<grid, THREADS, bytes, q->stream>>>(*descent);
    DQN_LAUNCHED(k_descend_tile);
    return DQN_OK;
}

template <int HEIGHT>
static enum dqn_status choose_activation(struct dqn_cuda_queue *q, const struct descent *descent) {
    switch (descent->net.layer[0].activation) {
    case DQN_TANH:
        return launch_descent<HEIGHT, DQN_TANH>(q, descent);
    case DQN_ELU:
        return launch_descent<HEIGHT, DQN_ELU>(q, descent);
    case DQN_SILU:
        return launch_descent<HEIGHT, DQN_SILU>(q, descent);
    default:
        return launch_descent<HEIGHT, DQN_RELU>(q, descent);
    }
}

enum dqn_status dqn_tile_input_gradients(struct dqn_cuda_queue *q,
                                         const struct dqn_backward_args *args,
                                         float *const dz[DQN_MAX_LAYERS]) {
    struct descent descent;
    memset(&descent, 0, sizeof descent);
    descent.net = dqn_tile_net_of(args->net);
    descent.n_agents = args->n_agents;
    descent.batch = args->batch;
    descent.params = args->params;
    descent.acts = args->acts;
    for (size_t l = 0; l < args->net->n_layers; l++) {
        descent.dz[l] = dz[l];
    }
    if (args->net->n_layers == 1) {
        return DQN_OK;
    }
    return dqn_tile_height(q, descent.net.stride, args->batch, args->n_agents, TALLEST) == 1
               ? choose_activation<1>(q, &descent)
               : choose_activation<2>(q, &descent);
}

/* ---- weights ---- */

enum { MOST_ROWS = 512, SIDE = 32 /* of a block's part of W */, SIDE_STRIDE = SIDE + 4 };

bool dqn_tile_sums(size_t batch) {
    return batch <= MOST_ROWS;
}

struct weight_layer {
    const float *dz, *x; /* [K, B, out_ld], [K, B, in_ld] */
    unsigned in_ld, out_ld;
    size_t weight, bias;
    unsigned first_block, blocks_across;
};

struct weights {
    unsigned n_layers, batch;
    bool accumulate;
    size_t n_params;
    float *grads;
    struct weight_layer layer[DQN_TILE_LAYERS];
};

/* Row `row` of a [batch, ld] matrix at columns column ..; zero outside. */
static __device__ __forceinline__ float4 load_four(const float *from, unsigned batch, unsigned ld,
                                                   unsigned row, unsigned column) {
    return row < batch && column < ld ? *(const float4 *)(from + (size_t)row * ld + column)
                                      : dqn_zero4();
}

static __device__ __forceinline__ void round_four(float4 v, uint32_t *bits) {
    bits[0] = dqn_tf32(v.x);
    bits[1] = dqn_tf32(v.y);
    bits[2] = dqn_tf32(v.z);
    bits[3] = dqn_tf32(v.w);
}

static __device__ __forceinline__ float4 add_four(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* This warp's share of dW [32, 32] and of the column sums of dz: every eighth group of 8 batch
 * rows. Product (i, j) of 2 x 4 has W's rows m + 4g + 2i and m + 4g + 2i + 1 and columns n + 4g +
 * j. */
static __device__ __forceinline__ void sum_share(const struct weight_layer *layer, const float *dz,
                                                 const float *x, unsigned batch, unsigned m,
                                                 unsigned n, float (*acc)[4][4], float4 *sums) {
    const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
#pragma unroll 4
    for (unsigned row = threadIdx.x / DQN_WARP * 8 + t; row - t < batch; row += 8 * WARPS) {
        const float4 a_low = load_four(dz, batch, layer->out_ld, row, m + 4 * g);
        const float4 a_high = load_four(dz, batch, layer->out_ld, row + 4, m + 4 * g);
        const float4 b_low = load_four(x, batch, layer->in_ld, row, n + 4 * g);
        const float4 b_high = load_four(x, batch, layer->in_ld, row + 4, n + 4 * g);
        uint32_t a0[4], a1[4], b0[4], b1[4];
        *sums = add_four(add_four(*sums, a_low), a_high);
        round_four(a_low, a0);
        round_four(a_high, a1);
        round_four(b_low, b0);
        round_four(b_high, b1);
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                dqn_tile_mma(acc[i][j], a0[2 * i], a0[2 * i + 1], a1[2 * i], a1[2 * i + 1], b0[j],
                             b1[j]);
            }
        }
    }
}

/* The warp's sums into its own part of shared memory. */
static __device__ __forceinline__ void store_share(const float (*acc)[4][4], float *share) {
    const unsigned g = threadIdx.x % DQN_WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int part = 0; part < 4; part++) { /* columns 8t, 8t + 4 of two rows */
            const unsigned row = 4 * g + 2 * i + part / 2, column = 8 * t + part % 2 * 4;
            *(float4 *)(share + row * SIDE_STRIDE + column) =
                make_float4(acc[i][0][part], acc[i][1][part], acc[i][2][part], acc[i][3][part]);
        }
    }
}

static __device__ __forceinline__ float4 sum_over_threads(float4 v) {
#pragma unroll
    for (int offset = 1; offset <= 2; offset *= 2) { /* threads 4g .. 4g + 3 */
        v.x += __shfl_xor_sync(0xffffffffu, v.x, offset);
        v.y += __shfl_xor_sync(0xffffffffu, v.y, offset);
        v.z += __shfl_xor_sync(0xffffffffu, v.z, offset);
        v.w += __shfl_xor_sync(0xffffffffu, v.w, offset);
    }
    return v;
}

/* Grid: 32 x 32 parts of all layers' W, K; block 256: the warps share the batch rows and are added
 * up in order; 38 KB shared. Bound by the latency of its reads. */
static __global__ void __launch_bounds__(THREADS) k_sum_weights(const struct weights a) {
    __shared__ float shares[WARPS][SIDE * SIDE_STRIDE];
    __shared__ float biases[WARPS][SIDE];
    unsigned l = 0;
    while (l + 1 < a.n_layers && blockIdx.x >= a.layer[l + 1].first_block) {
        l++;
    }
    const struct weight_layer *layer = &a.layer[l];
    const unsigned block = blockIdx.x - layer->first_block, warp = threadIdx.x / DQN_WARP;
    const unsigned m = block / layer->blocks_across * SIDE, n = block % layer->blocks_across * SIDE;
    const size_t agent = blockIdx.y, rows = agent * a.batch;
    float acc[2][4][4];
    float4 sums = dqn_zero4();
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            acc[i][j][0] = acc[i][j][1] = acc[i][j][2] = acc[i][j][3] = 0.0f;
        }
    }
    sum_share(layer, layer->dz + rows * layer->out_ld, layer->x + rows * layer->in_ld, a.batch, m,
              n, acc, &sums);
    store_share(acc, shares[warp]);
    sums = sum_over_threads(sums);
    if (threadIdx.x % 4 == 0) {
        *(float4 *)&biases[warp][threadIdx.x % DQN_WARP] = sums;
    }
    __syncthreads();
    float *grads = a.grads + agent * a.n_params;
    const unsigned row = threadIdx.x / 8, column = threadIdx.x % 8 * 4;
    if (m + row < layer->out_ld && n + column < layer->in_ld) {
        float4 *to =
            (float4 *)(grads + layer->weight + (size_t)(m + row) * layer->in_ld + n + column);
        float4 sum = *(const float4 *)&shares[0][row * SIDE_STRIDE + column];
        for (int w = 1; w < WARPS; w++) {
            sum = add_four(sum, *(const float4 *)&shares[w][row * SIDE_STRIDE + column]);
        }
        *to = a.accumulate ? add_four(*to, sum) : sum;
    }
    if (n == 0 && threadIdx.x < SIDE && m + threadIdx.x < layer->out_ld) {
        float *to = grads + layer->bias + m + threadIdx.x;
        float sum = biases[0][threadIdx.x];
        for (int w = 1; w < WARPS; w++) {
            sum += biases[w][threadIdx.x];
        }
        *to = a.accumulate ? *to + sum : sum;
    }
}

enum dqn_status dqn_tile_weight_gradients(struct dqn_cuda_queue *q,
                                          const struct dqn_backward_args *args,
                                          float *const dz[DQN_MAX_LAYERS]) {
    const struct dqn_net *net = args->net;
    const size_t rows = args->n_agents * args->batch;
    struct weights weights;
    unsigned blocks = 0;
    memset(&weights, 0, sizeof weights);
    weights.n_layers = (unsigned)net->n_layers;
    weights.batch = (unsigned)args->batch;
    weights.accumulate = args->accumulate;
    weights.n_params = net->n_params;
    weights.grads = args->grads;
    for (size_t l = 0; l < net->n_layers; l++) {
        struct weight_layer *to = &weights.layer[l];
        to->dz = dz[l];
        to->x = l == 0 ? args->x : args->acts + rows * net->layer[l - 1].output;
        to->in_ld = (unsigned)net->layer[l].in_ld;
        to->out_ld = (unsigned)net->layer[l].out_ld;
        to->weight = net->layer[l].weight;
        to->bias = net->layer[l].bias;
        to->first_block = blocks;
        to->blocks_across = (to->in_ld + SIDE - 1) / SIDE;
        blocks += to->blocks_across * ((to->out_ld + SIDE - 1) / SIDE);
    }
    k_sum_weights<<<dim3(blocks, (unsigned)args->n_agents), THREADS, 0, q->stream>>>(weights);
    DQN_LAUNCHED(k_sum_weights);
    return DQN_OK;
}
