/* Forward passes of small networks in TF32, all layers in one kernel, and the actions that a policy
 * takes from one; see nn_tile_cuda.cuh. */
#include "act_cuda.cuh"
#include "nn_tile_columns_cuda.cuh"

enum { THREADS = DQN_TILE_THREADS, WARPS = DQN_TILE_WARPS };
enum { TALLEST = 4 /* 64 rows */ };

/* ---- when, and how large ---- */

static int attribute(const struct dqn_cuda_queue *q, enum cudaDeviceAttr which) {
    int value = 0;
    (void)cudaDeviceGetAttribute(&value, which, q->device->index);
    return value;
}

static bool fits(const struct dqn_cuda_queue *q, int height, unsigned stride) {
    const size_t limit = (size_t)attribute(q, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return dqn_tile_bytes(height, stride) <= limit;
}

bool dqn_tile_serves(const struct dqn_cuda_queue *q, const struct dqn_net *net) {
    const unsigned stride = dqn_tile_stride(net);
    return q->device->precision != DQN_PRECISION_FP32 && net->n_layers <= DQN_TILE_LAYERS &&
           net->n_params <= DQN_TILE_MOST_PARAMS &&
           attribute(q, cudaDevAttrComputeCapabilityMajor) >= 8 && fits(q, 1, stride);
}

int dqn_tile_height(const struct dqn_cuda_queue *q, unsigned stride, size_t batch, size_t n_batches,
                    int most) {
    int height = 1;
    while (2 * height <= most && fits(q, 2 * height, stride) &&
           (batch + 16 * height - 1) / (16 * height) * n_batches > (size_t)q->device->n_sms) {
        height *= 2;
    }
    return height;
}

struct dqn_tile_net dqn_tile_net_of(const struct dqn_net *net) {
    struct dqn_tile_net to;
    memset(&to, 0, sizeof to);
    to.n_layers = (unsigned)net->n_layers;
    to.stride = dqn_tile_stride(net);
    to.obs_ld = net->obs_ld;
    to.actions = net->actions;
    to.actions_ld = net->actions_ld;
    to.n_params = net->n_params;
    to.dueling = net->dueling;
    for (size_t l = 0; l < net->n_layers; l++) {
        to.layer[l] = net->layer[l];
    }
    return to;
}

/* ---- arguments ---- */

struct pass {
    const float *params, *x;
    float *acts, *q;
    bool keep; /* acts */
};

struct passes {
    struct dqn_tile_net net;
    size_t n_agents, batch;
    struct pass pass[DQN_TILE_PASSES];
    struct dqn_act_args act; /* for actions */
};

/* ---- a layer ---- */

/* N neighbouring columns of y from the sums: activation, and where they go. ACTIVATION is that of
 * all layers but the last, ACTS that Q values stay here for actions and nothing is kept: a kernel
 * for each keeps the code short, which has to come from memory too. */
template <int ACTIVATION, bool ACTS, int N>
static __device__ __forceinline__ void
finish_columns(const struct passes *a, const struct pass *pass, const struct dqn_tile *tile,
               unsigned l, unsigned row, unsigned column, float *z, float *y) {
    using group = dqn_tile_group<N>;
    using wide = typename group::type;
    const struct dqn_layer *layer = &a->net.layer[l];
    const bool last = l + 1 == a->net.n_layers, exists = row < tile->n_rows;
    const size_t at = (tile->first_row + row) * layer->out_ld + column;
    if (!ACTS && ACTIVATION == DQN_SILU && !last && pass->keep && exists) {
        *(wide *)(pass->acts + tile->rows * layer->preact + at) = group::of(z);
    }
#pragma unroll
    for (int j = 0; j < N && !last; j++) {
        z[j] = dqn_activate((enum dqn_activation)ACTIVATION, z[j]);
    }
    if (!ACTS && last && !a->net.dueling) {
        if (exists) {
            *(wide *)(pass->q + at) = group::of(z);
        }
        return;
    }
    if (!ACTS && pass->keep && exists) {
        *(wide *)(pass->acts + tile->rows * layer->output + at) = group::of(z);
    }
#pragma unroll
    for (int j = 0; j < N && !last; j++) {
        z[j] = dqn_tile_nearest(z[j]);
    }
    *(wide *)(y + row * tile->stride + column) = group::of(z);
}

/* y = act(x W^T + b) for the tile; a warp takes 16 MT columns at a time and a SPLITS-th of the
 * rows. The first weights are asked for before the barrier that x is complete behind. */
template <int HEIGHT, int ACTIVATION, bool ACTS, int MT, int SPLITS>
static __device__ __forceinline__ void run_layer(const struct passes *a, const struct pass *pass,
                                                 const struct dqn_tile *tile, unsigned l,
                                                 const float *params, const float *x, float *y) {
    enum { COLUMNS = 2 * MT, WIDTH = 16 * MT, NN = 2 * HEIGHT / SPLITS };
    enum { AHEAD = (HEIGHT == 4 ? 2 : HEIGHT == 2 ? 4 : 6) / MT /* more would spill */ };
    enum { CHAINS = MT == 1 ? 2 : 1 /* for all heights: results do not depend on them */ };
    const struct dqn_layer *layer = &a->net.layer[l];
    const unsigned in_ld = (unsigned)layer->in_ld, out_ld = (unsigned)layer->out_ld;
    const unsigned n_items = (out_ld + WIDTH - 1) / WIDTH * SPLITS;
    unsigned item = tile->warp;
    bool first = true;
    do { /* warps without an item go along: they are behind the same barrier */
        const bool any = item < n_items;
        const unsigned split = item % SPLITS * 8 * NN, n = any ? item / SPLITS * WIDTH : 0;
        const unsigned column = n + COLUMNS * tile->g;
        const bool exists = any && column < out_ld;
        struct dqn_tile_up<false, MT, NN, CHAINS, AHEAD> sums;
        sums.start(params + layer->weight, in_ld, in_ld, out_ld, n);
        float bias[COLUMNS];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            bias[j] = exists ? params[layer->bias + column + j] : 0.0f;
        }
        if (first) {
            __syncthreads();
            first = false;
        }
        if (any) {
            sums.place(x + split * tile->stride, tile->stride);
            sums.run(in_ld);
        }
#pragma unroll
        for (int half = 0; half < 2 * NN; half++) {
            const unsigned row = split + half / 2 * 8 + dqn_tile_row(2 * tile->t + half % 2);
            float z[COLUMNS];
            sums.take(half / 2, half % 2, z);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                z[j] += bias[j];
            }
            if (exists) {
                finish_columns<ACTIVATION, ACTS, COLUMNS>(a, pass, tile, l, row, column, z, y);
            }
        }
        item += WARPS;
    } while (item < n_items);
}

/* ---- a narrow last layer ---- */

enum { MOST_DIVIDED = 48 /* columns of the layer */, SHARES_FROM = 64 /* column of y */ };

/* Whether warps divide the sums of the last layer among them: a warp by itself would wait for one
 * read of the weights after the other. One warp stays without a share, for the actions that
 * explore. With so many inputs the shares, 16 columns a warp, fit into a row of y behind the
 * layer's columns. A function of the network: results depend on it. */
static __device__ __forceinline__ bool is_divided(const struct passes *a, unsigned l) {
    const struct dqn_layer *layer = &a->net.layer[l];
    return l + 1 == a->net.n_layers && layer->out_ld <= MOST_DIVIDED &&
           layer->in_ld >= SHARES_FROM + 16 * WARPS;
}

/* As run_layer: a warp takes 16 columns and a part of the inputs. */
template <int HEIGHT, int ACTIVATION, bool ACTS>
static __device__ __forceinline__ void run_divided(const struct passes *a, const struct pass *pass,
                                                   const struct dqn_tile *tile, unsigned l,
                                                   const float *params, const float *x, float *y) {
    enum { NN = 2 * HEIGHT, CHAINS = 1, AHEAD = 2, DEPTH = DQN_TILE_DEPTH };
    const struct dqn_layer *layer = &a->net.layer[l];
    const unsigned in_ld = (unsigned)layer->in_ld, out_ld = (unsigned)layer->out_ld;
    const unsigned n_groups = (out_ld + 15) / 16, n_parts = (WARPS - 1) / n_groups;
    const unsigned group = tile->warp % n_groups, part = tile->warp / n_groups;
    const unsigned each = ((in_ld + DEPTH - 1) / DEPTH + n_parts - 1) / n_parts * DEPTH;
    const bool any = part < n_parts && part * each < in_ld; /* else a sum of nothing */
    const unsigned begin = any ? part * each : 0, left = any ? in_ld - begin : 0;
    const unsigned inputs = left < each ? left : each, column = 16 * group + 2 * tile->g;
    const bool biased = part == 0 && column < out_ld;
    struct dqn_tile_up<false, 1, NN, CHAINS, AHEAD> sums;
    sums.start(params + layer->weight + begin, in_ld, inputs, out_ld, 16 * group);
    const float *from_bias = params + layer->bias + (biased ? column : 0);
    const float2 bias = make_float2(biased ? from_bias[0] : 0.0f, biased ? from_bias[1] : 0.0f);
    __syncthreads();
    sums.place(x + begin, tile->stride);
    sums.run(inputs);
    float *share = y + SHARES_FROM + 16 * tile->warp + 2 * tile->g;
#pragma unroll
    for (int half = 0; half < 2 * NN; half++) {
        const unsigned row = half / 2 * 8 + dqn_tile_row(2 * tile->t + half % 2);
        float z[2];
        sums.take(half / 2, half % 2, z);
        *(float2 *)(share + row * tile->stride) = make_float2(z[0] + bias.x, z[1] + bias.y);
    }
    __syncthreads();
    const unsigned pairs = out_ld / 2;
    for (unsigned i = threadIdx.x; i < 16 * HEIGHT * pairs; i += THREADS) {
        const unsigned row = i / pairs, to = i % pairs * 2;
        const float *from = y + row * tile->stride + SHARES_FROM + to;
        float z[2] = {from[0], from[1]};
        for (unsigned p = 1; p < n_parts; p++) {
            z[0] += from[p * n_groups * 16];
            z[1] += from[p * n_groups * 16 + 1];
        }
        finish_columns<ACTIVATION, ACTS, 2>(a, pass, tile, l, row, to, z, y);
    }
}

/* Narrow layers spread over all warps, wide ones reuse x. The barrier is inside, so all warps agree
 * on the branch. */
template <int HEIGHT, int ACTIVATION, bool ACTS>
static __device__ __forceinline__ void choose_width(const struct passes *a, const struct pass *pass,
                                                    const struct dqn_tile *tile, unsigned l,
                                                    const float *params, const float *x, float *y) {
    const size_t out_ld = a->net.layer[l].out_ld;
    if (is_divided(a, l)) {
        run_divided<HEIGHT, ACTIVATION, ACTS>(a, pass, tile, l, params, x, y);
    } else if (out_ld <= WARPS * 8) {
        run_layer<HEIGHT, ACTIVATION, ACTS, 1, 2>(a, pass, tile, l, params, x, y);
    } else if (out_ld <= WARPS * 16) {
        run_layer<HEIGHT, ACTIVATION, ACTS, 1, 1>(a, pass, tile, l, params, x, y);
    } else {
        run_layer<HEIGHT, ACTIVATION, ACTS, 2, 1>(a, pass, tile, l, params, x, y);
    }
}

/* ---- the dueling head ---- */

/* Q = V + A - mean(A) (Wang et al. 2016, equation 9), a warp a row; the sum as in k_head_to_q. For
 * actions Q takes the head's place. */
template <bool ACTS>
static __device__ __forceinline__ void combine_head(const struct passes *a, const struct pass *pass,
                                                    const struct dqn_tile *tile, float *head) {
    const unsigned lane = threadIdx.x % DQN_WARP, actions = (unsigned)a->net.actions;
    for (unsigned row = tile->warp; row < tile->n_rows; row += WARPS) {
        float *h = head + row * tile->stride;
        float sum = 0.0f;
        for (unsigned i = lane; i < actions; i += DQN_WARP) {
            sum += h[i];
        }
        sum = dqn_warp_sum(sum);
        const float shift = h[actions] - sum / (float)actions;
        if (ACTS) {
            for (unsigned i = lane; i < actions; i += DQN_WARP) {
                h[i] += shift;
            }
            continue;
        }
        float *q = pass->q + (tile->first_row + row) * a->net.actions_ld;
        for (unsigned i = lane; i < a->net.actions_ld; i += DQN_WARP) {
            q[i] = i < actions ? h[i] + shift : 0.0f;
        }
    }
}

/* ---- actions ---- */

/* The actions of the rows that explore, by one warp. */
static __device__ __forceinline__ void draw_explored(const struct passes *a,
                                                     const struct dqn_tile *tile, size_t agent,
                                                     uint32_t *explored) {
    for (unsigned row = threadIdx.x % DQN_WARP; row < tile->n_rows; row += DQN_WARP) {
        const size_t lane = tile->first_row - agent * a->batch + row;
        explored[row] = dqn_cuda_explore(&a->act, agent, lane, dqn_cuda_epsilon(&a->act, agent));
    }
}

/* Epsilon-greedy actions of the tile's rows from their Q values, all rows at once; `count` has room
 * for one an action. */
template <int HEIGHT>
static __device__ __forceinline__ void
choose_actions(const struct passes *a, const struct dqn_tile *tile, size_t agent, const float *q,
               const uint32_t *explored, unsigned *count) {
    enum { LANES = THREADS / (16 * HEIGHT) /* that share a row */ };
    const unsigned row = threadIdx.x / LANES;
    for (unsigned i = threadIdx.x; i < a->act.actions; i += THREADS) {
        count[i] = 0;
    }
    __syncthreads();
    const uint32_t greedy = dqn_group_argmax<LANES>(q + row * tile->stride, a->act.actions).index;
    if (threadIdx.x % LANES == 0 && row < tile->n_rows) {
        const uint32_t action = explored[row] == DQN_GREEDY ? greedy : explored[row];
        a->act.action[tile->first_row + row] = action;
        atomicAdd(&count[action], 1u);
    }
    __syncthreads();
    if (a->act.histogram != NULL) {
        dqn_cuda_add_counts(&a->act, agent, count);
    }
}

/* ---- the kernel ---- */

/* Grid: tiles of 16 HEIGHT rows, K, passes; block 256; shared: two tiles of the widest layer. Bound
 * by the weights' way from the L2 cache: each block reads all of them. */
template <int HEIGHT, int ACTIVATION, bool ACTS>
static __global__ void __launch_bounds__(THREADS, 1) k_forward_tile(const struct passes a) {
    extern __shared__ float4 memory[];
    const struct pass *pass = &a.pass[blockIdx.z];
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
    uint32_t *explored = (uint32_t *)(y + 16 * HEIGHT * a.net.stride); /* a word a row */
    dqn_tile_load_rows(&tile, pass->x, (unsigned)a.net.obs_ld, 16 * HEIGHT, x);
    for (unsigned l = 0; l < a.net.n_layers; l++) {
        if (ACTS && l + 1 == a.net.n_layers && tile.warp == WARPS - 1) { /* mostly has no columns */
            draw_explored(&a, &tile, agent, explored);
        }
        choose_width<HEIGHT, ACTIVATION, ACTS>(&a, pass, &tile, l,
                                               pass->params + agent * a.net.n_params, x, y);
        float *swap = x;
        x = y;
        y = swap;
    }
    if (!a.net.dueling && !ACTS) {
        return;
    }
    __syncthreads();
    if (a.net.dueling) {
        combine_head<ACTS>(&a, pass, &tile, x);
    }
    if (ACTS) { /* the last layer's input is not needed any more */
        choose_actions<HEIGHT>(&a, &tile, agent, x, explored, (unsigned *)y);
    }
}

template <int HEIGHT, int ACTIVATION, bool ACTS>
static enum dqn_status launch(struct dqn_cuda_queue *q, const struct passes *passes, size_t n) {
    const size_t tiles = (passes->batch + 16 * HEIGHT - 1) / (16 * HEIGHT);
    const size_t bytes = dqn_tile_bytes(HEIGHT, passes->net.stride);
    const dim3 grid((unsigned)tiles, (unsigned)passes->n_agents, (unsigned)n);
    DQN_CUDA(cudaFuncSetAttribute(k_forward_tile<HEIGHT, ACTIVATION, ACTS>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    k_forward_tile<HEIGHT, ACTIVATION, ACTS><<<grid, THREADS, bytes, q->stream>>>(*passes);
    DQN_LAUNCHED(k_forward_tile);
    return DQN_OK;
}

template <int HEIGHT, bool ACTS>
static enum dqn_status choose_activation(struct dqn_cuda_queue *q, const struct passes *passes,
                                         size_t n) {
    switch (passes->net.layer[0].activation) {
    case DQN_TANH:
        return launch<HEIGHT, DQN_TANH, ACTS>(q, passes, n);
    case DQN_ELU:
        return launch<HEIGHT, DQN_ELU, ACTS>(q, passes, n);
    case DQN_SILU:
        return launch<HEIGHT, DQN_SILU, ACTS>(q, passes, n);
    default: /* ReLU, or a single layer, which is linear */
        return launch<HEIGHT, DQN_RELU, ACTS>(q, passes, n);
    }
}

template <bool ACTS>
static enum dqn_status choose_height(struct dqn_cuda_queue *q, const struct passes *passes,
                                     size_t n) {
    const int height =
        dqn_tile_height(q, passes->net.stride, passes->batch, n * passes->n_agents, TALLEST);
    return height >= 4   ? choose_activation<4, ACTS>(q, passes, n)
           : height == 2 ? choose_activation<2, ACTS>(q, passes, n)
                         : choose_activation<1, ACTS>(q, passes, n);
}

static void fill_passes(struct passes *to, const struct dqn_forward_args *args, size_t n) {
    memset(to, 0, sizeof *to);
    to->net = dqn_tile_net_of(args[0].net);
    to->n_agents = args[0].n_agents;
    to->batch = args[0].batch;
    for (size_t i = 0; i < n; i++) {
        struct pass *pass = &to->pass[i];
        pass->params = args[i].params;
        pass->x = args[i].x;
        pass->acts = args[i].acts;
        pass->q = args[i].q;
        pass->keep = !args[i].acts_unread;
    }
}

enum dqn_status dqn_tile_forward(struct dqn_cuda_queue *q, const struct dqn_forward_args *args,
                                 size_t n) {
    struct passes passes;
    DQN_CHECK(n <= DQN_TILE_PASSES);
    fill_passes(&passes, args, n);
    return choose_height<false>(q, &passes, n);
}

enum dqn_status dqn_tile_policy(struct dqn_cuda_queue *q, const struct dqn_forward_args *forward,
                                const struct dqn_act_args *act) {
    struct passes passes;
    fill_passes(&passes, forward, 1);
    passes.act = *act;
    return choose_height<true>(q, &passes, 1);
}
