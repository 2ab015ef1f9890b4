/* Forward passes of small networks in TF32, all layers in one kernel; see nn_tile_cuda.cuh. */
#include "nn_tile_cuda.cuh"

enum { THREADS = DQN_TILE_THREADS, WARPS = DQN_TILE_WARPS, DEPTH = DQN_TILE_DEPTH };
enum { TALLEST = 4 /* 64 rows */, MOST_PARAMS = 1 << 18 /* 1 MB, that each block reads */ };

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
    return q->device->precision == DQN_PRECISION_TF32 && net->n_layers <= DQN_TILE_LAYERS &&
           net->n_params <= MOST_PARAMS && attribute(q, cudaDevAttrComputeCapabilityMajor) >= 8 &&
           fits(q, 1, stride);
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
};

/* ---- a layer ---- */

/* Two columns of y from the sums: bias, activation, and where they go. ACTIVATION is that of all
 * layers but the last: a kernel for each keeps the code short, which has to come from memory too.
 */
template <int ACTIVATION>
static __device__ __forceinline__ void
finish_pair(const struct passes *a, const struct pass *pass, const struct dqn_tile *tile,
            unsigned l, unsigned row, unsigned column, float2 z, uint32_t *y) {
    const struct dqn_layer *layer = &a->net.layer[l];
    const bool last = l + 1 == a->net.n_layers, exists = row < tile->n_rows;
    const size_t at = (tile->first_row + row) * layer->out_ld + column;
    if (ACTIVATION == DQN_SILU && !last && pass->keep && exists) {
        *(float2 *)(pass->acts + tile->rows * layer->preact + at) = z;
    }
    if (!last) {
        z.x = dqn_activate((enum dqn_activation)ACTIVATION, z.x);
        z.y = dqn_activate((enum dqn_activation)ACTIVATION, z.y);
    }
    if (last && !a->net.dueling) {
        if (exists) {
            *(float2 *)(pass->q + at) = z;
        }
        return;
    }
    if (pass->keep && exists) {
        *(float2 *)(pass->acts + tile->rows * layer->output + at) = z;
    }
    uint32_t *to = y + row * tile->stride + column;
    to[0] = last ? __float_as_uint(z.x) : dqn_tf32(z.x);
    to[1] = last ? __float_as_uint(z.y) : dqn_tf32(z.y);
}

/* y = act(x W^T + b) for the tile; a warp takes NT times 8 columns at a time and HEIGHT times 16
 * rows. Weights are asked for several steps ahead, the first ones before the barrier that x is
 * complete behind. */
template <int HEIGHT, int ACTIVATION, int NT>
static __device__ __forceinline__ void
run_layer(const struct passes *a, const struct pass *pass, const struct dqn_tile *tile, unsigned l,
          const float *params, const uint32_t *x, uint32_t *y) {
    enum { AHEAD = (HEIGHT == 4 ? 8 : 16) / NT };
    const struct dqn_layer *layer = &a->net.layer[l];
    const unsigned in_ld = (unsigned)layer->in_ld, out_ld = (unsigned)layer->out_ld;
    const unsigned steps = (in_ld + DEPTH - 1) / DEPTH, g = tile->g, t = tile->t;
    const float *w = params + layer->weight, *bias = params + layer->bias;
    unsigned n = tile->warp * 8 * NT;
    float4 b[AHEAD][NT];
    bool first = true;
    do {
        float2 add[NT];
        float acc[HEIGHT][NT][4];
#pragma unroll
        for (int j = 0; j < NT; j++) {
            const unsigned column = n + 8 * j + 2 * t;
            add[j] = column < out_ld ? *(const float2 *)(bias + column) : make_float2(0.0f, 0.0f);
#pragma unroll
            for (int p = 0; p < AHEAD; p++) {
                b[p][j] = dqn_tile_weights4(w, in_ld, out_ld, n + 8 * j + g, p * DEPTH + 4 * t);
            }
#pragma unroll
            for (int m = 0; m < HEIGHT; m++) {
                acc[m][j][0] = acc[m][j][1] = acc[m][j][2] = acc[m][j][3] = 0.0f;
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
                uint4 bits[NT];
#pragma unroll
                for (int j = 0; j < NT; j++) {
                    bits[j] = make_uint4(dqn_tf32(b[p][j].x), dqn_tf32(b[p][j].y),
                                         dqn_tf32(b[p][j].z), dqn_tf32(b[p][j].w));
                    b[p][j] = dqn_tile_weights4(w, in_ld, out_ld, n + 8 * j + g, k + AHEAD * DEPTH);
                }
#pragma unroll
                for (int m = 0; m < HEIGHT; m++) {
                    const uint32_t *from = x + (16 * m + g) * tile->stride + k;
                    const bool inside = k < in_ld;
                    const uint4 low = inside ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
                    const uint4 high =
                        inside ? *(const uint4 *)(from + 8 * tile->stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
                    for (int j = 0; j < NT; j++) {
                        dqn_tile_mma(acc[m][j], low.x, high.x, low.y, high.y, bits[j].x, bits[j].y);
                        dqn_tile_mma(acc[m][j], low.z, high.z, low.w, high.w, bits[j].z, bits[j].w);
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < HEIGHT; m++) {
#pragma unroll
            for (int j = 0; j < NT; j++) {
                const unsigned column = n + 8 * j + 2 * t, row = 16 * m + g;
                if (column < out_ld) {
                    const float *s = acc[m][j];
                    finish_pair<ACTIVATION>(a, pass, tile, l, row, column,
                                            make_float2(s[0] + add[j].x, s[1] + add[j].y), y);
                    finish_pair<ACTIVATION>(a, pass, tile, l, row + 8, column,
                                            make_float2(s[2] + add[j].x, s[3] + add[j].y), y);
                }
            }
        }
        n += WARPS * 8 * NT;
    } while (n < out_ld);
}

/* Narrow layers spread over all warps, wide ones reuse x. The barrier is inside, so all warps agree
 * on the branch. */
template <int HEIGHT, int ACTIVATION>
static __device__ __forceinline__ void
choose_width(const struct passes *a, const struct pass *pass, const struct dqn_tile *tile,
             unsigned l, const float *params, const uint32_t *x, uint32_t *y) {
    const size_t out_ld = a->net.layer[l].out_ld;
    if (out_ld <= WARPS * 8) {
        run_layer<HEIGHT, ACTIVATION, 1>(a, pass, tile, l, params, x, y);
    } else if (out_ld <= WARPS * 16) {
        run_layer<HEIGHT, ACTIVATION, 2>(a, pass, tile, l, params, x, y);
    } else {
        run_layer<HEIGHT, ACTIVATION, 4>(a, pass, tile, l, params, x, y);
    }
}

/* ---- the dueling head ---- */

/* Q = V + A - mean(A) (Wang et al. 2016, equation 9), a warp a row; the sum as in k_head_to_q. */
static __device__ void combine_head(const struct passes *a, const struct pass *pass,
                                    const struct dqn_tile *tile, const uint32_t *head) {
    const unsigned lane = threadIdx.x % DQN_WARP, actions = (unsigned)a->net.actions;
    for (unsigned row = tile->warp; row < tile->n_rows; row += WARPS) {
        const uint32_t *h = head + row * tile->stride;
        float sum = 0.0f;
        for (unsigned i = lane; i < actions; i += DQN_WARP) {
            sum += __uint_as_float(h[i]);
        }
        sum = dqn_warp_sum(sum);
        const float shift = __uint_as_float(h[actions]) - sum / (float)actions;
        float *q = pass->q + (tile->first_row + row) * a->net.actions_ld;
        for (unsigned i = lane; i < a->net.actions_ld; i += DQN_WARP) {
            q[i] = i < actions ? __uint_as_float(h[i]) + shift : 0.0f;
        }
    }
}

/* ---- the kernel ---- */

static __device__ void load_rows(const struct dqn_tile *tile, const float *x, unsigned ld,
                                 int n_rows, uint32_t *to) {
    const unsigned quarters = ld / 4;
    for (unsigned i = threadIdx.x; i < n_rows * quarters; i += THREADS) {
        const unsigned row = i / quarters, column = i % quarters * 4;
        const float4 v = row < tile->n_rows
                             ? *(const float4 *)(x + (tile->first_row + row) * ld + column)
                             : dqn_zero4();
        *(uint4 *)(to + row * tile->stride + column) =
            make_uint4(dqn_tf32(v.x), dqn_tf32(v.y), dqn_tf32(v.z), dqn_tf32(v.w));
    }
}

/* Grid: tiles of 16 HEIGHT rows, K, passes; block 256; shared: two tiles of the widest layer. Bound
 * by the weights' way from the L2 cache: each block reads all of them. */
template <int HEIGHT, int ACTIVATION>
static __global__ void __launch_bounds__(THREADS, 1) k_forward_tile(const struct passes a) {
    extern __shared__ uint4 memory[];
    const struct pass *pass = &a.pass[blockIdx.z];
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
    load_rows(&tile, pass->x, (unsigned)a.net.obs_ld, 16 * HEIGHT, x);
    for (unsigned l = 0; l < a.net.n_layers; l++) {
        choose_width<HEIGHT, ACTIVATION>(&a, pass, &tile, l, pass->params + agent * a.net.n_params,
                                         x, y);
        uint32_t *swap = x;
        x = y;
        y = swap;
    }
    if (a.net.dueling) {
        __syncthreads();
        combine_head(&a, pass, &tile, x);
    }
}

template <int HEIGHT, int ACTIVATION>
static enum dqn_status launch(struct dqn_cuda_queue *q, const struct passes *passes, size_t n) {
    const size_t tiles = (passes->batch + 16 * HEIGHT - 1) / (16 * HEIGHT);
    const size_t bytes = dqn_tile_bytes(HEIGHT, passes->net.stride);
    const dim3 grid((unsigned)tiles, (unsigned)passes->n_agents, (unsigned)n);
    DQN_CUDA(cudaFuncSetAttribute(k_forward_tile<HEIGHT, ACTIVATION>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    k_forward_tile<HEIGHT, ACTIVATION><<<grid, THREADS, bytes, q->stream>>>(*passes);
    DQN_LAUNCHED(k_forward_tile);
    return DQN_OK;
}

template <int HEIGHT>
static enum dqn_status choose_activation(struct dqn_cuda_queue *q, const struct passes *passes,
                                         size_t n) {
    switch (passes->net.layer[0].activation) {
    case DQN_TANH:
        return launch<HEIGHT, DQN_TANH>(q, passes, n);
    case DQN_ELU:
        return launch<HEIGHT, DQN_ELU>(q, passes, n);
    case DQN_SILU:
        return launch<HEIGHT, DQN_SILU>(q, passes, n);
    default: /* ReLU, or a single layer, which is linear */
        return launch<HEIGHT, DQN_RELU>(q, passes, n);
    }
}

enum dqn_status dqn_tile_forward(struct dqn_cuda_queue *q, const struct dqn_forward_args *args,
                                 size_t n) {
    struct passes passes;
    memset(&passes, 0, sizeof passes);
    passes.net = dqn_tile_net_of(args[0].net);
    passes.n_agents = args[0].n_agents;
    passes.batch = args[0].batch;
    DQN_CHECK(n <= DQN_TILE_PASSES);
    for (size_t i = 0; i < n; i++) {
        struct pass *pass = &passes.pass[i];
        pass->params = args[i].params;
        pass->x = args[i].x;
        pass->acts = args[i].acts;
        pass->q = args[i].q;
        pass->keep = !args[i].acts_unread;
    }
    const int height =
        dqn_tile_height(q, passes.net.stride, passes.batch, n * passes.n_agents, TALLEST);
    return height >= 4   ? choose_activation<4>(q, &passes, n)
           : height == 2 ? choose_activation<2>(q, &passes, n)
                         : choose_activation<1>(q, &passes, n);
}
