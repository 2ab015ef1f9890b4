/* Backward passes of small networks in TF32: one kernel down through the layers, one for all
 * weights; see nn_tile_cuda.cuh. */
#include "nn_tile_columns_cuda.cuh"
#include "nn_tile_sums_cuda.cuh"

enum { THREADS = DQN_TILE_THREADS, WARPS = DQN_TILE_WARPS };
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
            unsigned column, float4 d, float *to) {
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
    *(float4 *)(to + row * tile->stride + column) = dqn_tile_nearest4(d);
}

/* dz of layer l - 1 from that of layer l; a warp takes 32 columns at a time. */
template <int HEIGHT, int ACTIVATION>
static __device__ __forceinline__ void descend(const struct descent *a, const struct dqn_tile *tile,
                                               unsigned l, const float *params, const float *x,
                                               float *y) {
    enum { NN = 2 * HEIGHT, AHEAD = HEIGHT == 1 ? 4 : 2 };
    const struct dqn_layer *layer = &a->net.layer[l];
    const unsigned in_ld = (unsigned)layer->in_ld, out_ld = (unsigned)layer->out_ld;
    unsigned n = tile->warp * COLUMNS;
    bool first = true;
    do { /* warps without columns go along: they are behind the same barrier */
        const bool any = n < in_ld;
        struct dqn_tile_down<false, NN, AHEAD> sums;
        sums.start(params + layer->weight, in_ld, 0, out_ld, any ? n : 0);
        if (first) {
            __syncthreads();
            first = false;
        }
        if (any) {
            sums.place(x, tile->stride);
            sums.run(0);
        }
#pragma unroll
        for (int half = 0; half < 2 * NN; half++) {
            const unsigned row = half / 2 * 8 + dqn_tile_row(2 * tile->t + half % 2);
            float d[4];
            sums.take(half / 2, half % 2, d);
            finish_four<ACTIVATION>(a, tile, l - 1, row, n + 4 * tile->g,
                                    make_float4(d[0], d[1], d[2], d[3]), y);
        }
        n += WARPS * COLUMNS;
    } while (n < in_ld);
}

/* Grid: tiles of 16 HEIGHT rows, K; block 256; shared: two tiles of the widest layer. Bound by the
 * weights' way from the L2 cache. */
template <int HEIGHT, int ACTIVATION>
static __global__ void __launch_bounds__(THREADS, 1) k_descend_tile(const struct descent a) {
    extern __shared__ float4 memory[];
    const unsigned top = a.net.n_layers - 1, ld = (unsigned)a.net.layer[top].out_ld;
    const size_t agent = blockIdx.y, begin = (size_t)blockIdx.x * 16 * HEIGHT;
    const size_t left = a.batch - begin;
    float *x = (float *)memory, *y = x + 16 * HEIGHT * a.net.stride;
    struct dqn_tile tile;
    tile.rows = a.n_agents * a.batch;
    tile.first_row = agent * a.batch + begin;
    tile.n_rows = left < 16 * HEIGHT ? (unsigned)left : 16 * HEIGHT;
    tile.stride = a.net.stride;
    tile.warp = threadIdx.x / DQN_WARP;
    tile.g = threadIdx.x % DQN_WARP / 4;
    tile.t = threadIdx.x % 4;
    dqn_tile_load_rows(&tile, a.dz[top], ld, 16 * HEIGHT, x);
    for (unsigned l = top; l > 0; l--) {
        descend<HEIGHT, ACTIVATION>(&a, &tile, l, a.params + agent * a.net.n_params, x, y);
        float *swap = x;
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

enum { MOST_ROWS = 512, STAGES = 4, SUM_BYTES = dqn_tile_sum_bytes(STAGES) };

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

/* Grid: 32 x 32 parts of all layers' W, K; block 256; shared: 80 KB. Bound by the latency of its
 * reads. */
static __global__ void __launch_bounds__(THREADS) k_sum_weights(const struct weights a) {
    extern __shared__ float4 memory[];
    unsigned l = 0;
    while (l + 1 < a.n_layers && blockIdx.x >= a.layer[l + 1].first_block) {
        l++;
    }
    const struct dqn_weight_layer *layer = &a.layer[l];
    const unsigned block = blockIdx.x - layer->first_block;
    const unsigned m = block / layer->blocks_across * DQN_TILE_SIDE;
    const unsigned n = block % layer->blocks_across * DQN_TILE_SIDE;
    const struct dqn_tile_gradients g =
        dqn_tile_sum_block<false, false, STAGES>(layer, blockIdx.y, a.batch, m, n, (float *)memory);
    float *grads = a.grads + blockIdx.y * a.n_params;
    const unsigned row = m + threadIdx.x / 8, column = n + threadIdx.x % 8 * 4;
    if (row < layer->out_ld && column < layer->in_ld) {
        float4 *to = (float4 *)(grads + layer->weight + (size_t)row * layer->in_ld + column);
        *to = a.accumulate ? dqn_add4(*to, g.weight) : g.weight;
    }
    if (n == 0 && threadIdx.x < DQN_TILE_SIDE && m + threadIdx.x < layer->out_ld) {
        float *to = grads + layer->bias + m + threadIdx.x;
        *to = a.accumulate ? *to + g.bias : g.bias;
    }
}

enum dqn_status dqn_tile_weight_gradients(struct dqn_cuda_queue *q,
                                          const struct dqn_backward_args *args,
                                          float *const dz[DQN_MAX_LAYERS]) {
    const struct dqn_net *net = args->net;
    const size_t rows = args->n_agents * args->batch;
    struct weights weights;
    memset(&weights, 0, sizeof weights);
    weights.n_layers = (unsigned)net->n_layers;
    weights.batch = (unsigned)args->batch;
    weights.accumulate = args->accumulate;
    weights.n_params = net->n_params;
    weights.grads = args->grads;
    const unsigned blocks = dqn_tile_list_weights(weights.layer, net->layer, net->n_layers, dz,
                                                  args->x, args->acts, rows);
    DQN_CUDA(cudaFuncSetAttribute(k_sum_weights, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  SUM_BYTES));
    k_sum_weights<<<dim3(blocks, (unsigned)args->n_agents), THREADS, SUM_BYTES, q->stream>>>(
        weights);
    DQN_LAUNCHED(k_sum_weights);
    return DQN_OK;
}
