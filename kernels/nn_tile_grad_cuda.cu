/* Backward passes of small networks in TF32: one kernel down through the layers, one for all
 * weights; see nn_tile_cuda.cuh. */
#include "nn_tile_sums_cuda.cuh"

enum { THREADS = DQN_TILE_THREADS, WARPS = DQN_TILE_WARPS, DEPTH = DQN_TILE_DEPTH };
enum { TALLEST = 2 /* 32 rows */, COLUMNS = 32 /* of a warp */ };

/* ---- down through the layers ---- */

struct descent {
    struct dqn_tile_net net;
    size_t n_agents, batch;
    const float *params, *acts;
    float *dz[DQN_TILE_LAYERS]; /* the last one is read */
};

/* Four neighbours of dz of the layer below from the sums: times act', and where they go. */
template <int ACTIVATION>
static __device__ __forceinline__ void
finish_four(const struct descent *a, const struct dqn_tile *tile, unsigned below, unsigned row,
            unsigned column, float4 d, uint32_t *to) {
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
static __device__ __forceinline__ void descend(const struct descent *a, const struct dqn_tile *tile,
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
                b[p][i] = dqn_tile_weights4(w, in_ld, out_ld, p * DEPTH + 4 * t + i, n + 4 * g);
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
                    b[p][i] = dqn_tile_weights4(w, in_ld, out_ld, k + AHEAD * DEPTH + i, n + 4 * g);
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
    struct dqn_tile tile;
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

enum { MOST_ROWS = 512 };

bool dqn_tile_sums(size_t batch) {
    return batch <= MOST_ROWS;
}

struct weights {
    unsigned n_layers, batch;
    bool accumulate;
    size_t n_params;
    float *grads;
    struct dqn_weight_layer layer[DQN_TILE_LAYERS];
};

/* Grid: 32 x 32 parts of all layers' W, K; block 256: the warps share the batch rows and are added
 * up in order; 38 KB shared. Bound by the latency of its reads. */
static __global__ void __launch_bounds__(THREADS) k_sum_weights(const struct weights a) {
    __shared__ float shares[WARPS][DQN_TILE_SIDE * DQN_TILE_SIDE_STRIDE];
    __shared__ float biases[WARPS][DQN_TILE_SIDE];
    unsigned l = 0;
    while (l + 1 < a.n_layers && blockIdx.x >= a.layer[l + 1].first_block) {
        l++;
    }
    const struct dqn_weight_layer *layer = &a.layer[l];
    const unsigned block = blockIdx.x - layer->first_block, warp = threadIdx.x / DQN_WARP;
    const unsigned m = block / layer->blocks_across * DQN_TILE_SIDE,
                   n = block % layer->blocks_across * DQN_TILE_SIDE;
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
    dqn_tile_sum_share<false, false>(layer, layer->dz + rows * layer->out_ld,
                                     layer->x + rows * layer->in_ld, a.batch, m, n, warp, WARPS,
                                     acc, &sums);
    dqn_tile_store_share(acc, shares[warp]);
    sums = dqn_tile_sum_four(sums);
    if (threadIdx.x % 4 == 0) {
        *(float4 *)&biases[warp][threadIdx.x % DQN_WARP] = sums;
    }
    __syncthreads();
    float *grads = a.grads + agent * a.n_params;
    const unsigned row = threadIdx.x / 8, column = threadIdx.x % 8 * 4;
    if (m + row < layer->out_ld && n + column < layer->in_ld) {
        float4 *to =
            (float4 *)(grads + layer->weight + (size_t)(m + row) * layer->in_ld + n + column);
        float4 sum = *(const float4 *)&shares[0][row * DQN_TILE_SIDE_STRIDE + column];
        for (int w = 1; w < WARPS; w++) {
            sum = dqn_add4(sum, *(const float4 *)&shares[w][row * DQN_TILE_SIDE_STRIDE + column]);
        }
        *to = a.accumulate ? dqn_add4(*to, sum) : sum;
    }
    if (n == 0 && threadIdx.x < DQN_TILE_SIDE && m + threadIdx.x < layer->out_ld) {
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
        struct dqn_weight_layer *to = &weights.layer[l];
        to->dz = dz[l];
        to->x = l == 0 ? args->x : args->acts + rows * net->layer[l - 1].output;
        to->in_ld = (unsigned)net->layer[l].in_ld;
        to->out_ld = (unsigned)net->layer[l].out_ld;
        to->weight = net->layer[l].weight;
        to->bias = net->layer[l].bias;
        to->first_block = blocks;
        to->blocks_across = (to->in_ld + DQN_TILE_SIDE - 1) / DQN_TILE_SIDE;
        blocks += to->blocks_across * ((to->out_ld + DQN_TILE_SIDE - 1) / DQN_TILE_SIDE);
    }
    k_sum_weights<<<dim3(blocks, (unsigned)args->n_agents), THREADS, 0, q->stream>>>(weights);
    DQN_LAUNCHED(k_sum_weights);
    return DQN_OK;
}
