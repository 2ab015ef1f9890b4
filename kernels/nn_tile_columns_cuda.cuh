/* The tensor core's part of a small network's passes: one warp's columns, up and down a layer.
 *
 * The weights are the product's factor A: they are rounded on their way, into whichever registers
 * the product wants. Batch rows are B, whose registers lie as a read of 16 bytes of shared memory
 * leaves them. So nothing is moved between registers. Thread 4 g + t has neighbouring columns, from
 * 2 MT g on of the warp's 16 MT, and of every eight batch rows two, dqn_tile_row(2 t) and
 * dqn_tile_row(2 t + 1). */
#ifndef DQN_KERNELS_NN_TILE_COLUMNS_CUDA_CUH
#define DQN_KERNELS_NN_TILE_COLUMNS_CUDA_CUH

#include "nn_tile_cuda.cuh"

/* The batch row at place i of eight. Places 2 q and 2 q + 1 have rows 2 apart modulo 4, and rows of
 * places 0, 2, 4, 6 differ modulo 4, as those of 1, 3, 5, 7 do: where rows begin 8 banks apart,
 * those of threads that read 16 bytes together, or write them together, lie in different banks. */
static __device__ __forceinline__ unsigned dqn_tile_row(unsigned i) {
    return i % 2 == 0 ? i / 2 : 4 + (i / 2 + 2) % 4;
}

/* Neighbouring columns of a row as one read or write. */
template <int N> struct dqn_tile_group;
template <> struct dqn_tile_group<2> {
    using type = float2;
    static __device__ __forceinline__ float2 of(const float *v) {
        return make_float2(v[0], v[1]);
    }
};
template <> struct dqn_tile_group<4> {
    using type = float4;
    static __device__ __forceinline__ float4 of(const float *v) {
        return make_float4(v[0], v[1], v[2], v[3]);
    }
};

/* What up and down have in common: the batch rows, 8 NN, in shared memory, and the sums, each of
 * one or two chains of products, which are added at the end: where a thread has few sums, it would
 * wait for one product before it begins the next. */
template <bool EXACT, int MT, int NN, int CHAINS> struct dqn_tile_warp {
    enum { COLUMNS = 2 * MT /* of a thread */, DEPTH = DQN_TILE_DEPTH };
    const float *x[NN];
    float acc[CHAINS][MT][NN][4];
    unsigned t;

    /* No sums yet, of batch rows from `rows` on, `stride` floats apart. */
    __device__ __forceinline__ void place(const float *rows, unsigned stride) {
        const unsigned g = threadIdx.x % DQN_WARP / 4;
#pragma unroll
        for (int q = 0; q < NN; q++) {
            x[q] = rows + (8 * q + dqn_tile_row(g)) * stride + 4 * t;
        }
#pragma unroll
        for (int i = 0; i < CHAINS * MT * NN; i++) {
            float *zero = acc[i / (MT * NN)][i / NN % MT][i % NN];
            zero[0] = zero[1] = zero[2] = zero[3] = 0.0f;
        }
    }

    /* Products of 16 steps of the sum, 4 t .. of which are at offset k of x. */
    __device__ __forceinline__ void multiply(const struct dqn_tile_a<EXACT> *first,
                                             const struct dqn_tile_a<EXACT> *second, unsigned k,
                                             bool exists) {
#pragma unroll
        for (int q = 0; q < NN; q++) {
            const float4 v = exists ? *(const float4 *)(x[q] + k) : dqn_zero4();
            struct dqn_tile_b<EXACT> x0, x1;
            x0.take(v.x, v.y);
            x1.take(v.z, v.w);
#pragma unroll
            for (int i = 0; i < MT; i++) {
                dqn_tile_product(acc[0][i][q], first[i], x0);
                dqn_tile_product(acc[CHAINS - 1][i][q], second[i], x1);
            }
        }
    }

    /* The thread's columns of one of its two rows (0, 1) of eight. */
    __device__ __forceinline__ void take(int q, int row, float *to) const {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const int at = row + j % 2 * 2;
            to[j] = acc[0][j / 2][q][at];
            if (CHAINS == 2) {
                to[j] += acc[1][j / 2][q][at];
            }
        }
    }
};

/* Up: x W^T, for columns n .. of the layer, rows n .. of W, of which `end` exist; what is summed
 * past them is not to be used. start() asks for the first weights, before x is there; then
 * place(), and run(). Weights are asked for AHEAD times 16 inputs before their use.
 *
 * Weights that do not exist are read too, from a place that does: a read under a condition would
 * have to keep what the register held, by a copy, which waits for the read. */
template <bool EXACT, int MT, int NN, int CHAINS, int AHEAD>
struct dqn_tile_up : dqn_tile_warp<EXACT, MT, NN, CHAINS> {
    using base = dqn_tile_warp<EXACT, MT, NN, CHAINS>;
    enum { TURN = AHEAD * base::DEPTH };
    const float *w[base::COLUMNS];
    float4 b[AHEAD][base::COLUMNS];

    /* Number p: inputs k + 4 t .. */
    __device__ __forceinline__ void ask(int p, unsigned k, unsigned inputs) {
        const unsigned at = k + 4 * this->t < inputs ? k + 4 * this->t : 0;
#pragma unroll
        for (int j = 0; j < base::COLUMNS; j++) {
            b[p][j] = *(const float4 *)(w[j] + at);
        }
    }

    /* Rows of `weights` are ld floats; the first `inputs` of them are taken. */
    __device__ __forceinline__ void start(const float *weights, unsigned ld, unsigned inputs,
                                          unsigned end, unsigned n) {
        const unsigned column = n + base::COLUMNS * (threadIdx.x % DQN_WARP / 4);
        this->t = threadIdx.x % 4;
#pragma unroll
        for (int j = 0; j < base::COLUMNS; j++) {
            w[j] = weights + (size_t)((column < end ? column : n) + j) * ld;
        }
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            ask(p, p * base::DEPTH, inputs);
        }
    }

    /* Inputs k .. k + 16, whose weights are number p. PARTIAL: perhaps not all of them exist, and
     * none follow. */
    template <bool PARTIAL>
    __device__ __forceinline__ void step(int p, unsigned k, unsigned inputs) {
        const bool exists = !PARTIAL || k + 4 * this->t < inputs;
        struct dqn_tile_a<EXACT> first[MT], second[MT];
#pragma unroll
        for (int i = 0; i < MT; i++) {
            const float4 one = exists ? b[p][2 * i] : dqn_zero4();
            const float4 two = exists ? b[p][2 * i + 1] : dqn_zero4();
            first[i].set(one.x, two.x, one.y, two.y);
            second[i].set(one.z, two.z, one.w, two.w);
        }
        if (!PARTIAL) {
            ask(p, k + TURN, inputs);
        }
        this->multiply(first, second, k, exists);
    }

    __device__ __forceinline__ void run(unsigned inputs) {
        unsigned k = 0;
#pragma unroll 1
        for (; k + TURN <= inputs; k += TURN) {
#pragma unroll
            for (int p = 0; p < AHEAD; p++) {
                step<false>(p, k + p * base::DEPTH, inputs);
            }
        }
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            if (k + p * base::DEPTH < inputs) {
                step<true>(p, k + p * base::DEPTH, inputs);
            }
        }
    }
};

/* Down: dz W, for 32 columns of W from n on and its rows [begin, end), begin divisible by 16.
 * start(), place(), run(). */
template <bool EXACT, int NN, int AHEAD> struct dqn_tile_down : dqn_tile_warp<EXACT, 2, NN, 1> {
    using base = dqn_tile_warp<EXACT, 2, NN, 1>;
    enum { TURN = AHEAD * base::DEPTH };
    const float *w;
    float4 b[AHEAD][4];
    unsigned in_ld, end;

    /* Number p: rows k + 4 t .. of W, which are padded to four. */
    __device__ __forceinline__ void ask(int p, unsigned k) {
        const unsigned row = k + 4 * this->t < end ? k + 4 * this->t : 0;
        const float *from = w + (size_t)row * in_ld;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            b[p][j] = *(const float4 *)(from + j * in_ld);
        }
    }

    __device__ __forceinline__ void start(const float *weights, unsigned ld, unsigned begin,
                                          unsigned stop, unsigned n) {
        const unsigned column = n + base::COLUMNS * (threadIdx.x % DQN_WARP / 4);
        this->t = threadIdx.x % 4;
        w = weights + (column < ld ? column : n);
        in_ld = ld;
        end = stop;
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            ask(p, begin + p * base::DEPTH);
        }
    }

    /* Rows k .. k + 16 of W, in the same way. */
    template <bool PARTIAL> __device__ __forceinline__ void step(int p, unsigned k) {
        const bool exists = !PARTIAL || k + 4 * this->t < end;
        struct dqn_tile_a<EXACT> first[2], second[2];
        const float4 v0 = exists ? b[p][0] : dqn_zero4(), v1 = exists ? b[p][1] : dqn_zero4();
        const float4 v2 = exists ? b[p][2] : dqn_zero4(), v3 = exists ? b[p][3] : dqn_zero4();
        first[0].set(v0.x, v0.y, v1.x, v1.y);
        first[1].set(v0.z, v0.w, v1.z, v1.w);
        second[0].set(v2.x, v2.y, v3.x, v3.y);
        second[1].set(v2.z, v2.w, v3.z, v3.w);
        if (!PARTIAL) {
            ask(p, k + TURN);
        }
        this->multiply(first, second, k, exists);
    }

    __device__ __forceinline__ void run(unsigned begin) {
        unsigned k = begin;
#pragma unroll 1
        for (; k + TURN <= end; k += TURN) {
#pragma unroll
            for (int p = 0; p < AHEAD; p++) {
                step<false>(p, k + p * base::DEPTH);
            }
        }
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            if (k + p * base::DEPTH < end) {
                step<true>(p, k + p * base::DEPTH);
            }
        }
    }
};

#endif
