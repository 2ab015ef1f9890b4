/* Small networks in TF32, also where bf16 is allowed, without matrix libraries: a block takes a
 * tile of batch rows through all layers, so that a whole pass is one kernel (nn_tile_cuda.cu,
 * nn_tile_grad_cuda.cu). Here: when that is done, and the tensor core's product.
 *
 * The product is mma.m16n8k8 (PTX ISA, "Matrix fragments for mma.m16n8k8"): thread 4 g + t of a
 * warp holds A at rows g, g + 8 and columns t, t + 4, B at rows t, t + 4 and column g, D at rows g,
 * g + 8 and columns 2t, 2t + 1. Which index of a matrix stands at which place may be permuted as
 * long as both factors agree; the permutations here make a thread's reads of weights, and of batch
 * rows up and down, 16 bytes wide. */
#ifndef DQN_KERNELS_NN_TILE_CUDA_CUH
#define DQN_KERNELS_NN_TILE_CUDA_CUH

#include "activation_cuda.cuh"
#include "nn_cuda.cuh"

enum { DQN_TILE_THREADS = 256, DQN_TILE_WARPS = DQN_TILE_THREADS / DQN_WARP, DQN_TILE_DEPTH = 16 };

/* ---- whole passes ---- */

/* True when the passes below serve this net and precision. A function of these alone. */
bool dqn_tile_serves(const struct dqn_cuda_queue *q, const struct dqn_net *net);
enum { DQN_TILE_PASSES = 4, DQN_TILE_LAYERS = 8 };
enum { DQN_TILE_MOST_PARAMS = 1 << 18 /* 1 MB, that each block reads */ };
/* n <= DQN_TILE_PASSES passes of one net and batch in one kernel. */
enum dqn_status dqn_tile_forward(struct dqn_cuda_queue *q, const struct dqn_forward_args *args,
                                 size_t n);
/* A pass and the epsilon-greedy actions from it in one kernel; outputs of layers and Q values
 * stay unwritten. */
enum dqn_status dqn_tile_policy(struct dqn_cuda_queue *q, const struct dqn_forward_args *forward,
                                const struct dqn_act_args *act);
/* dz of all layers below the last: dz[l] = (dz[l + 1] W[l + 1]) act'(.), each [K, B, out_ld]. */
enum dqn_status dqn_tile_input_gradients(struct dqn_cuda_queue *q,
                                         const struct dqn_backward_args *args,
                                         float *const dz[DQN_MAX_LAYERS]);
/* Weights' and biases' gradients of all layers, for batches that one block can sum. */
bool dqn_tile_sums(size_t batch);
enum dqn_status dqn_tile_weight_gradients(struct dqn_cuda_queue *q,
                                          const struct dqn_backward_args *args,
                                          float *const dz[DQN_MAX_LAYERS]);

/* ---- device parts ---- */

/* Floats between rows of a tile in shared memory: rows begin 8 banks apart, see dqn_tile_row. */
static inline unsigned dqn_tile_stride(const struct dqn_net *net) {
    size_t widest = net->obs_ld;
    for (size_t l = 0; l < net->n_layers; l++) {
        widest = net->layer[l].out_ld > widest ? net->layer[l].out_ld : widest;
    }
    return (unsigned)((widest + 31) / 32 * 32 + 8);
}

/* Bytes of two tiles of 16 * height rows, and of a word a row. */
static inline size_t dqn_tile_bytes(int height, unsigned stride) {
    return 16 * (size_t)height * (2 * stride * sizeof(float) + sizeof(uint32_t));
}

/* Rows a tile in units of 16, up to `most`: small tiles while they leave multiprocessors idle, else
 * large ones, which read the weights less often. Results do not depend on it. */
int dqn_tile_height(const struct dqn_cuda_queue *q, unsigned stride, size_t batch, size_t n_batches,
                    int most);

/* The part of struct dqn_net that kernels need: arguments of a launch are better short. */
struct dqn_tile_net {
    unsigned n_layers, stride;
    size_t obs_ld, actions, actions_ld, n_params;
    bool dueling;
    struct dqn_layer layer[DQN_TILE_LAYERS];
};
struct dqn_tile_net dqn_tile_net_of(const struct dqn_net *net);

static __device__ __forceinline__ float4 dqn_zero4(void) {
    return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* v with 10 bits behind the point, which is all that a product reads: Veltkamp's splitting (Dekker
 * 1971, section 4) with its two subtractions as one operation. Two cheap operations, where the
 * instruction for it has an eighth of their rate. It is the nearest such number; where v is within
 * a 4,096th of the next power of two, perhaps the one before. NaN stays; from 2^128 / 8193 on the
 * result is not finite. */
static __device__ __forceinline__ float dqn_tile_nearest(float v) {
    return __fmaf_rn(-8192.0f, v, v * 8193.0f);
}

static __device__ __forceinline__ float4 dqn_tile_nearest4(float4 v) {
    return make_float4(dqn_tile_nearest(v.x), dqn_tile_nearest(v.y), dqn_tile_nearest(v.z),
                       dqn_tile_nearest(v.w));
}

/* What the threads of a block know of their tile of 16 HEIGHT batch rows. */
struct dqn_tile {
    size_t rows, first_row; /* of all agents; this tile's first */
    unsigned n_rows;        /* of the tile that exist */
    unsigned stride;
    unsigned warp, g, t; /* thread 4 g + t of the warp */
};

/* The tile's rows of x [rows, ld], rounded, to shared memory; zeros for those that do not exist. */
static __device__ __forceinline__ void dqn_tile_load_rows(const struct dqn_tile *tile,
                                                          const float *x, unsigned ld,
                                                          unsigned n_rows, float *to) {
    const unsigned quarters = ld / 4;
    for (unsigned i = threadIdx.x; i < n_rows * quarters; i += DQN_TILE_THREADS) {
        const unsigned row = i / quarters, column = i % quarters * 4;
        const float4 v = row < tile->n_rows
                             ? *(const float4 *)(x + (tile->first_row + row) * ld + column)
                             : dqn_zero4();
        *(float4 *)(to + row * tile->stride + column) = dqn_tile_nearest4(v);
    }
}

/* d += a b of one tile; all 32 threads of the warp. Before compute capability 8 there is no such
 * instruction, and dqn_tile_serves says no. */
static __device__ __forceinline__ void dqn_tile_mma(float *d, uint32_t a0, uint32_t a1, uint32_t a2,
                                                    uint32_t a3, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    (void)d, (void)a0, (void)a1, (void)a2, (void)a3, (void)b0, (void)b1;
#endif
}

/* One factor of a product, in TF32, or (EXACT) as the sum of two TF32 numbers: together they hold
 * 22 bits of the 24, so that three products of tensor cores give nearly a product of floats. The
 * idea is known as 3xTF32. */
template <bool EXACT, int N> struct dqn_tile_factor {
    uint32_t high[N], low[EXACT ? N : 1];

    __device__ __forceinline__ void put(int i, float v) {
        const float nearest = dqn_tile_nearest(v);
        high[i] = __float_as_uint(nearest);
        if (EXACT) {
            low[i] = __float_as_uint(v - nearest); /* exact; its last bits are not read */
        }
    }
};

template <bool EXACT> struct dqn_tile_a : dqn_tile_factor<EXACT, 4> {
    __device__ __forceinline__ void set(float v0, float v1, float v2, float v3) {
        this->put(0, v0);
        this->put(1, v1);
        this->put(2, v2);
        this->put(3, v3);
    }

    /* Of numbers that dqn_tile_round has made. */
    __device__ __forceinline__ void take(float v0, float v1, float v2, float v3) {
        if (EXACT) {
            set(v0, v1, v2, v3);
            return;
        }
        this->high[0] = __float_as_uint(v0);
        this->high[1] = __float_as_uint(v1);
        this->high[2] = __float_as_uint(v2);
        this->high[3] = __float_as_uint(v3);
    }
};

/* v as factors keep it: rounded once, by whom it is written, if its low part is not used. */
template <bool EXACT> static __device__ __forceinline__ float dqn_tile_round(float v) {
    return EXACT ? v : dqn_tile_nearest(v);
}

template <bool EXACT> struct dqn_tile_b : dqn_tile_factor<EXACT, 2> {
    __device__ __forceinline__ void set(float v0, float v1) {
        this->put(0, v0);
        this->put(1, v1);
    }

    __device__ __forceinline__ void take(float v0, float v1) {
        if (EXACT) {
            set(v0, v1);
            return;
        }
        this->high[0] = __float_as_uint(v0);
        this->high[1] = __float_as_uint(v1);
    }
};

/* d += a b; the small parts first. */
template <bool EXACT>
static __device__ __forceinline__ void dqn_tile_product(float *d, const struct dqn_tile_a<EXACT> &a,
                                                        const struct dqn_tile_b<EXACT> &b) {
    if (EXACT) {
        dqn_tile_mma(d, a.low[0], a.low[1], a.low[2], a.low[3], b.high[0], b.high[1]);
        dqn_tile_mma(d, a.high[0], a.high[1], a.high[2], a.high[3], b.low[0], b.low[1]);
    }
    dqn_tile_mma(d, a.high[0], a.high[1], a.high[2], a.high[3], b.high[0], b.high[1]);
}

#endif
