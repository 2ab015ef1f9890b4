/* Inside of the CUDA backend: its device and queues, error checks, and the reductions that kernels
 * share. Everything in kernels/ includes this first.
 *
 * Habits of the kernels: agents lie in blockIdx.y; indices that count elements of a buffer are
 * 64-bit; sums of floating-point numbers are taken in a fixed order, never by atomics; values that
 * change from step to step are read from device memory. */
#ifndef DQN_KERNELS_CUDA_COMMON_CUH
#define DQN_KERNELS_CUDA_COMMON_CUH

/* C++ headers that must not be seen first inside extern "C". */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

extern "C" {
#include "../src/backend.h"

/* The tables that backend_cuda.cu joins. */
extern const struct dqn_memory_ops dqn_cuda_memory_ops;   /* backend_cuda.cu */
extern const struct dqn_queue_ops dqn_cuda_queue_ops;     /* queue_cuda.cu */
extern const struct dqn_nn_ops dqn_cuda_nn_ops;           /* nn_cuda.cu */
extern const struct dqn_env_ops dqn_cuda_env_ops;         /* env_cuda.cu */
extern const struct dqn_replay_ops dqn_cuda_replay_ops;   /* replay_cuda.cu */
extern const struct dqn_sampler_ops dqn_cuda_sampler_ops; /* sampler_cuda.cu */
extern const struct dqn_backend dqn_cuda_backend;         /* backend_cuda.cu */
}

/* ---- device and queues ---- */

struct dqn_cuda_device {
    int index;
    int precision;     /* DQN_PRECISION_* */
    int n_sms;         /* multiprocessors */
    bool has_cudnn;    /* false: activations run on this backend's own kernels */
    uint64_t n_allocs; /* allocations asked for, for the faults oom_at and oom_from */
    bool warned;       /* that page-locked memory cannot be had: once a device */
};

enum { DQN_CUDA_SCRATCH = 1 << 19, DQN_CUDA_SIDES = 4 };

struct dqn_nn_plans;   /* nn_gemm_cuda.cu: matrix product plans of one queue */
struct dqn_nn_cudnn;   /* nn_cudnn_cuda.cu: cuDNN handle and descriptors of one queue */
struct dqn_busy_clock; /* queue_cuda.cu: the clock of work in flight of one queue */

/* A queue is a non-blocking stream with library handles of its own: two queues share nothing, so
 * the results of one cannot depend on the other. One thread at a time may use a queue, and kernels
 * are launched by the thread that created it (the current device is a thread's). */
struct dqn_cuda_queue {
    struct dqn_queue base;
    struct dqn_cuda_device *device;
    cudaStream_t stream;
    cudaStream_t side[DQN_CUDA_SIDES]; /* work beside `stream`, between fork and join */
    cudaEvent_t forked, joined;
    unsigned open;     /* bit i: side[i] was left running, see dqn_cuda_leave */
    cudaError_t owed;  /* of a join; the next wait, event, capture or program reports it */
    unsigned *tickets; /* [DQN_MAX_AGENTS_GRID] 0 between kernels: blocks that have finished */
    double *scratch;   /* [DQN_CUDA_SCRATCH] for one operation at a time, on `stream` */
    struct dqn_nn_plans *plans;
    struct dqn_nn_cudnn *cudnn;   /* NULL until first used */
    struct dqn_busy_clock *clock; /* NULL until first used */
    bool watching;                /* the next operation that is called begins a flight */
};

static inline struct dqn_cuda_queue *dqn_cuda_queue_of(struct dqn_queue *q) {
    return (struct dqn_cuda_queue *)q; /* base is the first member */
}

/* From here on q->side[i] may run, after everything enqueued on q->stream up to now. */
enum dqn_status dqn_cuda_fork(struct dqn_cuda_queue *q, size_t i);
/* q->stream goes on after everything enqueued on q->side[i], which was forked. An error is returned
 * and owed. */
enum dqn_status dqn_cuda_join(struct dqn_cuda_queue *q, size_t i);

/* Sides that an operation may leave running when it returns, for its result is not wanted at once.
 * Who needs it, or does not know, joins: dqn_cuda_stream does so for everybody who asks for the
 * stream by it. Only operations that touch none of these results take q->stream itself. */
enum {
    DQN_SIDE_PARAMS = 2, /* apply: parameters, moments, target */
    DQN_SIDE_WEIGHTS = 3 /* draw: importance weights */
};

static inline void dqn_cuda_leave(struct dqn_cuda_queue *q, size_t i) {
    q->open |= 1u << i;
}

/* Joins side i if it was left running. */
static inline enum dqn_status dqn_cuda_need(struct dqn_cuda_queue *q, size_t i) {
    if ((q->open & 1u << i) == 0) {
        return DQN_OK;
    }
    q->open &= ~(1u << i);
    return dqn_cuda_join(q, i);
}

/* Where q->watching: a flight of the clock of work in flight begins. */
enum dqn_status dqn_cuda_begin_flight(struct dqn_cuda_queue *q);

/* The stream, after everything, for what is no work on the device. A join that fails is owed. */
static inline cudaStream_t dqn_cuda_joined_stream(struct dqn_queue *base) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    for (size_t i = 0; i < DQN_CUDA_SIDES && q->open != 0; i++) {
        (void)dqn_cuda_need(q, i);
    }
    return q->stream;
}

/* The stream, for operations on the replay that touch no network: whatever was left running goes on
 * beside them. */
static inline cudaStream_t dqn_cuda_replay_stream(struct dqn_queue *base) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    if (q->watching) {
        (void)dqn_cuda_begin_flight(q);
    }
    return q->stream;
}

/* The stream to launch on, after everything. */
static inline cudaStream_t dqn_cuda_stream(struct dqn_queue *base) {
    (void)dqn_cuda_replay_stream(base);
    return dqn_cuda_joined_stream(base);
}

/* ---- errors ---- */

/* Turns a CUDA error into this thread's error text. DQN_ERR_DEVICE_MEMORY when memory is used up,
 * else DQN_ERR_DEVICE; says so when the context is lost (nothing on the device can be saved). */
enum dqn_status dqn_cuda_failed(cudaError_t error, const char *what, const char *file, int line);

/* True when the error means that the context, and all data on the device, is lost. */
bool dqn_cuda_is_lost(cudaError_t error);

/* After a launch: its error, if any, with the kernel's name in the text. */
enum dqn_status dqn_cuda_launched(const char *kernel);

/* What the own call of a launch returned, where other operations can stand in for the kernel's. An
 * error means that it did not run: DQN_ERR_REFUSED while the context lives. */
enum dqn_status dqn_cuda_asked(const char *kernel, cudaError_t error);

/* Test switch: the environment variable DQN_TEST_FAULT holds one fault, here asked for by kind.
 *   no_driver        opening fails as on a machine without a driver
 *   no_device        opening fails as on a machine without a GPU
 *   oom_all          every allocation on the device fails
 *   oom:<bytes>      allocations of at least so many bytes fail
 *   oom_at:<k>       the k-th allocation of a device fails, counted from 1
 *   oom_from:<k>     that one and all later ones fail
 *   free:<bytes>     so much memory is said to be free
 *   pinned           page-locked host memory cannot be had
 *   launch:<kernel>  each launch of that kernel reports a failure; the context lives on
 *   refuse:<kernel>  each launch of that kernel by DQN_CUDA_ASK is refused
 *   illegal:<kernel> after that kernel an address is written that does not exist: the context is
 *                    lost, as after a broken kernel
 *   wait             waiting for a queue reports an unknown error
 *   join             putting the streams of a queue in order reports an unknown error
 * True when the variable is `kind`, or `kind:value`; then *value, where not NULL, is the text after
 * the colon ("" without one). */
bool dqn_cuda_fault(const char *kind, const char **value);

/* Whether the fault refuse:<kernel> is set for this one. */
bool dqn_cuda_refuses(const char *kernel);

/* Test switch: DQN_TEST_COMPOSED=1 takes updates, collectors' steps and policies apart into their
 * operations. */
bool dqn_cuda_is_composed(void);

/* Returns from the calling function when a runtime call fails. */
#define DQN_CUDA(call)                                                                             \
    do {                                                                                           \
        const cudaError_t dqn_cuda_error = (call);                                                 \
        if (dqn_cuda_error != cudaSuccess) {                                                       \
            return dqn_cuda_failed(dqn_cuda_error, #call, __FILE__, __LINE__);                     \
        }                                                                                          \
    } while (0)

/* Returns from the calling function when the launch just made failed: DQN_LAUNCHED(k_td_loss). */
#define DQN_LAUNCHED(kernel) DQN_TRY(dqn_cuda_launched(#kernel))

/* Makes a launch, which `call` is, unless the fault refuse is set for it; returns from the calling
 * function when it failed: DQN_CUDA_ASK("k_step_rows", cudaLaunchKernelEx(...)). */
#define DQN_CUDA_ASK(kernel, call)                                                                 \
    DQN_TRY(                                                                                       \
        dqn_cuda_asked(kernel, dqn_cuda_refuses(kernel) ? cudaErrorLaunchOutOfResources : (call)))

/* ---- launch shapes ---- */

enum { DQN_WARP = 32, DQN_MAX_AGENTS_GRID = 65535 };

/* Blocks of `threads` that cover n elements; at least 1. Kernels loop with the grid's stride, so a
 * grid that was cut at `limit` blocks still covers everything. */
static inline unsigned dqn_cuda_blocks(size_t n, unsigned threads, size_t limit = 65535) {
    const size_t blocks = (n + threads - 1) / threads;
    return (unsigned)(blocks < 1 ? 1 : blocks > limit ? limit : blocks);
}

/* This thread's first element and the stride of a one-dimensional grid, in 64 bits. */
static __device__ __forceinline__ size_t dqn_grid_first(void) {
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ size_t dqn_grid_stride(void) {
    return (size_t)gridDim.x * blockDim.x;
}

/* True in every thread of the block that is the last of n_blocks to call it; then what the other
 * blocks wrote before their calls can be read by __ldcg. The ticket starts and ends as 0. */
static __device__ __forceinline__ bool dqn_cuda_last_block(unsigned *ticket, unsigned n_blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == n_blocks - 1;
        if (last) {
            *ticket = 0;
        }
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* ---- reductions ---- */

/* All 32 lanes of the warp must call these; every lane gets the result. The butterfly's order is
 * fixed and symmetric, so all lanes hold the same bits. */
template <typename T> static __device__ __forceinline__ T dqn_warp_sum(T v) {
#pragma unroll
    for (int offset = DQN_WARP / 2; offset > 0; offset /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    }
    return v;
}

/* A NaN is passed over. */
template <typename T> static __device__ __forceinline__ T dqn_warp_max(T v) {
#pragma unroll
    for (int offset = DQN_WARP / 2; offset > 0; offset /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, v, offset);
        v = other > v || v != v ? other : v;
    }
    return v;
}

template <typename T> static __device__ __forceinline__ T dqn_warp_min(T v) {
#pragma unroll
    for (int offset = DQN_WARP / 2; offset > 0; offset /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, v, offset);
        v = other < v || v != v ? other : v;
    }
    return v;
}

/* Sum over a block of a multiple of 32 and at most 1024 threads, all of which must call it. Every
 * thread gets the result. `shared` holds 32 elements and is free again on return. */
template <typename T> static __device__ __forceinline__ T dqn_block_sum(T v, T *shared) {
    const unsigned lane = threadIdx.x % DQN_WARP, warp = threadIdx.x / DQN_WARP;
    v = dqn_warp_sum(v);
    if (lane == 0) {
        shared[warp] = v;
    }
    __syncthreads();
    const T mine = lane < blockDim.x / DQN_WARP ? shared[lane] : (T)0;
    const T sum = dqn_warp_sum(mine);
    __syncthreads();
    return sum;
}

#endif
