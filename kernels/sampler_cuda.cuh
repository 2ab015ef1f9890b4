/* Inside of the GPU samplers: their state, and what the ends of all draws share. */
#ifndef DQN_KERNELS_SAMPLER_CUDA_CUH
#define DQN_KERNELS_SAMPLER_CUDA_CUH

#include "replay_cuda.cuh"

#include "../src/arena.h"
#include "../src/config.h"
#include "../src/shared/priority.h"
#include "../src/shared/schedule.h"

enum { DQN_TREE_FAN = DQN_WARP, DQN_TREE_MAX_LEVELS = 8, DQN_DRAW_THREADS = 256 };

/* The wide tree over N rows. Level 0 sums 32 leaves a node, level l + 1 sums 32 nodes of level l,
 * the top level has at most 32 nodes. A leaf is derived from its row's priority. Each level is
 * padded with zeros to whole groups of 32. */
struct dqn_tree_shape {
    int n_levels;                      /* 0: there is no tree */
    size_t n[DQN_TREE_MAX_LEVELS];     /* nodes */
    size_t first[DQN_TREE_MAX_LEVELS]; /* where the level starts */
    size_t stride;                     /* u64 an agent */
};

struct dqn_sampler {
    struct dqn_sampler_spec spec;
    const struct dqn_device *device;
    /* all */
    struct dqn_buffer *mass;     /* [K, B] u64 of the rows of a batch */
    struct dqn_buffer *smallest; /* [K] u64: the mass whose weight is 1 */
    struct dqn_buffer *tickets;  /* [K + 1] u32: blocks that have finished; 0 between kernels */
    struct dqn_buffer *replaced; /* [K, B] u32: bits of priorities that an update takes out */
    /* proportional, sums: tree */
    struct dqn_tree_shape shape;
    struct dqn_buffer *sums; /* [K, stride] u64 */
    /* proportional, sums: scan: inclusive sums of the leaves; [K, N] u64.
     * rank: sum of the masses of ranks 1 .. i + 1; [N] u64 */
    struct dqn_buffer *prefix;
    /* rank */
    struct dqn_buffer *order;   /* [K, N] u32: row of each rank, the highest priority first */
    struct dqn_buffer *ranked;  /* [K] u64: rows that are in the order */
    struct dqn_buffer *keys[2]; /* [N] u32 */
    struct dqn_buffer *rows[2]; /* [N] u32 */
    struct dqn_buffer *temp;    /* [temp_bytes] of CUB */
    size_t temp_bytes;
};

/* sampler_tree_cuda.cu */
enum dqn_status dqn_cuda_tree_add(struct dqn_sampler *s, struct dqn_arena *arena);
/* gather NULL: draws only. */
enum dqn_status dqn_cuda_tree_draw(struct dqn_queue *q, const struct dqn_draw_args *args,
                                   const struct dqn_gather_args *gather);
enum dqn_status dqn_cuda_tree_inserted(struct dqn_queue *q, const struct dqn_inserted_args *args);
enum dqn_status dqn_cuda_tree_rebuild(struct dqn_queue *q, const struct dqn_rebuild_args *args);

/* sampler_scan_cuda.cu */
enum dqn_status dqn_cuda_scan_add(struct dqn_sampler *s, struct dqn_arena *arena);
enum dqn_status dqn_cuda_scan_draw(struct dqn_queue *q, const struct dqn_draw_args *args);

/* sampler_rank_cuda.cu */
enum dqn_status dqn_cuda_rank_add(struct dqn_sampler *s, struct dqn_arena *arena);
enum dqn_status dqn_cuda_rank_prepare(struct dqn_sampler *s, struct dqn_queue *q);
enum dqn_status dqn_cuda_rank_draw(struct dqn_queue *q, const struct dqn_draw_args *args);
enum dqn_status dqn_cuda_rank_rebuild(struct dqn_queue *q, const struct dqn_rebuild_args *args);

/* sampler_cuda.cu: smallest[k] = the smallest leaf of all filled rows. */
enum dqn_status dqn_cuda_find_minimum(struct dqn_queue *q, const struct dqn_draw_args *args);
/* Weights by the masses and the smallest mass of each agent; left running on a side. */
enum dqn_status dqn_cuda_weigh_rows(struct dqn_queue *q, const struct dqn_draw_args *args);

/* ---- device parts ---- */

/* A row's leaf: unfilled rows, whose priority is 0, have none. */
static __device__ __forceinline__ uint64_t dqn_cuda_leaf(float priority) {
    return priority > 0.0f ? (uint64_t)dqn_priority_leaf(priority) : 0;
}

/* The first i in [0, n) with prefix[i] > place, which is below prefix[n - 1]. */
static __device__ __forceinline__ uint64_t dqn_cuda_find_prefix(const uint64_t *prefix, uint64_t n,
                                                                uint64_t place) {
    uint64_t low = 0, high = n - 1;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (prefix[middle] > place) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* What all draws need beside their arguments. */
struct dqn_draw_plan {
    size_t batch;
    int stratified;
    int minimum_known; /* smallest[] is filled already; else it is the batch's */
    uint64_t *mass;
    uint64_t *smallest;
    unsigned *tickets;
};

/* A draw from an empty replay, which only the host could refuse, has mass 0 and gets weight 0. */
static __device__ __forceinline__ float dqn_cuda_weight(uint64_t smallest, uint64_t mass,
                                                        double beta) {
    return mass > 0 ? dqn_importance_weight(smallest, mass, beta) : 0.0f;
}

/* The last block of an agent to come here finds the batch's smallest mass and advances the draw
 * counter, which all rows have read by then. */
static __device__ __forceinline__ void dqn_cuda_finish_draw(const struct dqn_draw_args *a,
                                                            const struct dqn_draw_plan *plan) {
    __shared__ uint64_t warps[DQN_DRAW_THREADS / DQN_WARP];
    const size_t k = blockIdx.y, n = plan->batch;
    if (!dqn_cuda_last_block(plan->tickets + k, gridDim.x)) {
        return;
    }
    const uint64_t *mass = plan->mass + k * n;
    uint64_t smallest = plan->minimum_known ? plan->smallest[k] : UINT64_MAX;
    if (!plan->minimum_known) {
        for (size_t b = threadIdx.x; b < n; b += blockDim.x) {
            const uint64_t other = __ldcg(&mass[b]);
            smallest = other < smallest ? other : smallest;
        }
        smallest = dqn_warp_min(smallest);
        if (threadIdx.x % DQN_WARP == 0) {
            warps[threadIdx.x / DQN_WARP] = smallest;
        }
        __syncthreads();
        for (unsigned w = 0; w < blockDim.x / DQN_WARP; w++) {
            smallest = warps[w] < smallest ? warps[w] : smallest;
        }
    }
    if (threadIdx.x == 0) {
        plan->smallest[k] = smallest;
        a->counters[k].draws++;
    }
}

/* Draws a batch, and gathers it where a warp serves a row. `Find` differs between the samplers:
 *   LANES                         neighbouring threads that serve a row, 1 or a warp
 *   total(a, k)                   the mass of all rows of agent k
 *   row(a, k, place, &mass)       the row whose stretch holds place, and the stretch's length
 * Grid: B * LANES / 256 x agents; block 256; shared: a few words. Bound by the latency of the
 * dependent reads of a search. */
template <typename Find, bool GATHERS>
static __global__ void k_draw_rows(struct dqn_draw_args a, struct dqn_draw_plan plan, Find find,
                                   struct dqn_gather_args gather) {
    const size_t k = blockIdx.y, b = dqn_grid_first() / Find::LANES;
    if (b < plan.batch) {
        const size_t at = k * plan.batch + b;
        const uint64_t word =
            a.words != NULL ? a.words[at] : dqn_draw_word(a.agents[k].seed, b, a.counters[k].draws);
        const uint64_t total = find.total(&a, k);
        const uint64_t place = dqn_draw_target(word, total, b, plan.batch, plan.stratified);
        uint64_t mass = 0;
        const size_t row = total > 0 ? find.row(&a, k, place, &mass) : 0;
        if (threadIdx.x % Find::LANES == 0) {
            a.index[at] = (int64_t)row;
            plan.mass[at] = mass;
        }
        if (GATHERS) {
            dqn_cuda_gather_row(&gather, k, b, row);
        }
    }
    dqn_cuda_finish_draw(&a, &plan);
}

/* Launches k_draw_rows, and the weights beside what comes next. */
template <typename Find>
static enum dqn_status dqn_cuda_launch_draw(struct dqn_queue *q, const struct dqn_draw_args *args,
                                            Find find, bool minimum_known,
                                            const struct dqn_gather_args *gather = NULL) {
    const struct dqn_sampler *s = args->sampler;
    struct dqn_draw_plan plan;
    plan.batch = s->spec.batch;
    plan.stratified = s->spec.stratified;
    plan.minimum_known = minimum_known;
    plan.mass = (uint64_t *)s->mass->data;
    plan.smallest = (uint64_t *)s->smallest->data;
    plan.tickets = (unsigned *)s->tickets->data;
    const size_t threads = plan.batch * Find::LANES;
    const dim3 grid((unsigned)((threads + DQN_DRAW_THREADS - 1) / DQN_DRAW_THREADS),
                    (unsigned)s->spec.n_agents);
    /* the weights of the draw before read what this one writes */
    DQN_TRY(dqn_cuda_need(dqn_cuda_queue_of(q), DQN_SIDE_WEIGHTS));
    constexpr bool whole_warps = (int)Find::LANES == (int)DQN_WARP;
    struct dqn_gather_args none;
    memset(&none, 0, sizeof none);
    if (whole_warps && gather != NULL) {
        k_draw_rows<Find, whole_warps>
            <<<grid, DQN_DRAW_THREADS, 0, dqn_cuda_replay_stream(q)>>>(*args, plan, find, *gather);
    } else {
        k_draw_rows<Find, false>
            <<<grid, DQN_DRAW_THREADS, 0, dqn_cuda_replay_stream(q)>>>(*args, plan, find, none);
    }
    DQN_LAUNCHED(k_draw_rows);
    return dqn_cuda_weigh_rows(q, args);
}

#endif
