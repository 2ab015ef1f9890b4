/* The end of a collector's step, by the kernel that steps the environments: its block's lanes go
 * through their n-step windows into the replay. The rules are those of the operations nstep, insert
 * and inserted, which are kernels of their own elsewhere. Here: what a block does between its
 * step's parts (env_cuda.cu has the order). */
#ifndef DQN_KERNELS_COLLECT_CUDA_CUH
#define DQN_KERNELS_COLLECT_CUDA_CUH

#include "sampler_cuda.cuh"

#include "../src/shared/nstep.h"

/* A block of environments is 32 lanes, so that a few thousand are spread over all multiprocessors;
 * all of its threads copy observations. */
enum { DQN_BLOCK_LANES = 32, DQN_ENV_THREADS = 128 };

/* A block's lanes: [first, first + n) of all lanes, agents included. */
struct dqn_block {
    size_t agent, lane, first; /* lane: of the agent */
    unsigned n;
};

/* What a collector's step does beside stepping. */
struct dqn_tail {
    bool present; /* false: the kernel steps, and no more */
    bool emits;   /* rows leave the windows */
    struct dqn_nstep_args window;
    struct dqn_insert_args insert;
    struct dqn_tree_shape shape; /* no levels: nothing is summed */
    uint64_t *sums;              /* [K, stride] */
    struct dqn_counters *counters;
    unsigned *ticket; /* 0 between kernels */
};

/* Where the block's transitions lie: the window's slots of this step and of the rows that leave,
 * and the replay's ring. */
struct dqn_places {
    size_t window; /* the agent's first element, of one slot's lane 0 */
    size_t slot, oldest;
    size_t cursor;
};

/* What the thread of a lane tells those that copy, in shared memory. */
struct dqn_leaving {
    uint64_t difference[DQN_BLOCK_LANES]; /* of the leaf that the row gets to the one before */
    uint32_t last_slot[DQN_BLOCK_LANES];  /* whose next observation the row takes */
};

static __device__ __forceinline__ struct dqn_places
dqn_collect_find_places(const struct dqn_tail &t, const struct dqn_block &block) {
    const size_t n = t.window.n_step;
    struct dqn_places at;
    /* the counter is advanced when the last block ends */
    at.slot = dqn_nstep_slot(t.window.counters[block.agent].vector_steps + 1, n);
    at.oldest = at.slot + 1 == n ? 0 : at.slot + 1;
    at.window = block.agent * n * t.window.lanes + block.lane;
    at.cursor = t.emits ? t.insert.ring->cursor : 0;
    return at;
}

/* The replay's row of the block's lane i, of all agents' rows. */
static __device__ __forceinline__ size_t dqn_collect_row_of(const struct dqn_tail &t,
                                                            const struct dqn_block &block,
                                                            const struct dqn_places &at,
                                                            unsigned i) {
    const size_t row = at.cursor + block.lane + i, n = t.insert.capacity;
    return block.agent * n + (row < n ? row : row - n);
}

static __device__ __forceinline__ size_t dqn_collect_window_of(const struct dqn_tail &t,
                                                               const struct dqn_places &at,
                                                               size_t slot, unsigned i) {
    return at.window + slot * t.window.lanes + i;
}

/* A group of threads that takes a row of OBS floats, and how many rows a block takes at once. */
template <int OBS> struct dqn_row_group {
    enum { THREADS = OBS <= 4 ? 4 : OBS <= 8 ? 8 : OBS <= 16 ? 16 : 32 };
    enum { ROWS = DQN_ENV_THREADS / THREADS };
};

/* Rows of the block's n lanes: to(i), and where that is not NULL also(i), from from(i). A thread
 * has PARTS columns of a row, and rows in TURNS: about eight reads are under way before its first
 * write. All the lanes are ALL turns. */
template <int OBS, typename From, typename To, typename Also>
static __device__ __forceinline__ void dqn_collect_copy_rows(unsigned n, From from, To to,
                                                             Also also) {
    enum { GROUP = dqn_row_group<OBS>::THREADS, ROWS = dqn_row_group<OBS>::ROWS };
    enum { PARTS = (OBS + GROUP - 1) / GROUP, ALL = DQN_BLOCK_LANES / ROWS };
    enum { TURNS = PARTS * ALL <= 8 ? ALL : PARTS < 8 ? 8 / PARTS : 1 };
    const unsigned column = threadIdx.x % GROUP;
#pragma unroll 1
    for (unsigned base = threadIdx.x / GROUP; base < n; base += TURNS * ROWS) {
        float v[TURNS][PARTS];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            const unsigned i = base + turn * ROWS;
            const float *row = from(i < n ? i : base);
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const unsigned at = column + p * GROUP;
                v[turn][p] = at < OBS ? row[at] : 0.0f;
            }
        }
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            const unsigned i = base + turn * ROWS;
            if (i >= n) {
                break;
            }
            float *first = to(i), *second = also(i);
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const unsigned at = column + p * GROUP;
                if (at < OBS) {
                    first[at] = v[turn][p];
                    if (second != NULL) {
                        second[at] = v[turn][p];
                    }
                }
            }
        }
    }
}

/* Before the step: what the actions saw goes into the window, and the oldest state out of it. A
 * window of one step gives what it has just got. */
template <int OBS>
static __device__ __forceinline__ void
dqn_collect_take_before(const struct dqn_tail &t, const struct dqn_block &block,
                        const struct dqn_places &at, const float *obs_now, size_t obs_ld) {
    float *window = t.window.window_obs, *states = t.insert.rows.states, *const none = NULL;
    const bool passes = t.emits && at.oldest == at.slot;
    const auto to_replay = [&](unsigned i) {
        return states + dqn_collect_row_of(t, block, at, i) * OBS;
    };
    dqn_collect_copy_rows<OBS>(
        block.n, [&](unsigned i) { return obs_now + (block.first + i) * obs_ld; },
        [&](unsigned i) { return window + dqn_collect_window_of(t, at, at.slot, i) * OBS; },
        [&](unsigned i) { return passes ? to_replay(i) : none; });
    if (t.emits && !passes) {
        dqn_collect_copy_rows<OBS>(
            block.n,
            [&](unsigned i) { return window + dqn_collect_window_of(t, at, at.oldest, i) * OBS; },
            to_replay, [&](unsigned) { return none; });
    }
}

/* After the step, by the thread of lane i: the numbers of its transition into the window, those of
 * the row that leaves into the replay. */
static __device__ __forceinline__ void
dqn_collect_take_outcome(const struct dqn_tail &t, const struct dqn_block &block,
                         const struct dqn_places &at, unsigned i, uint32_t action,
                         const struct dqn_env_outcome &outcome, struct dqn_leaving *leaving) {
    const struct dqn_nstep_args *w = &t.window;
    const struct dqn_rows *to = &t.insert.rows;
    const size_t now = dqn_collect_window_of(t, at, at.slot, i);
    w->window_action[now] = action;
    w->window_reward[now] = outcome.reward;
    w->window_end[now] = outcome.terminated  ? DQN_WINDOW_TERMINATED
                         : outcome.truncated ? DQN_WINDOW_TRUNCATED
                                             : DQN_WINDOW_GOES_ON;
    if (!t.emits) {
        return;
    }
    const size_t first = dqn_collect_window_of(t, at, 0, i),
                 row = dqn_collect_row_of(t, block, at, i);
    const struct dqn_nstep_row sum =
        dqn_nstep_sum(w->window_reward + first, w->window_end + first, w->lanes, at.oldest,
                      w->n_step, w->agents[block.agent].gamma);
    const float priority = t.insert.priority_seen[block.agent];
    leaving->last_slot[i] = (uint32_t)sum.last_slot;
    leaving->difference[i] = dqn_cuda_leaf(priority) - dqn_cuda_leaf(to->priorities[row]);
    to->actions[row] = w->window_action[dqn_collect_window_of(t, at, at.oldest, i)];
    to->rewards[row] = sum.reward;
    to->discounts[row] = sum.discount;
    to->dones[row] = sum.done;
    to->priorities[row] = priority;
}

/* Then, behind a barrier, all threads: the true next observations, `stride` floats a lane in shared
 * memory. */
template <int OBS>
static __device__ __forceinline__ void
dqn_collect_take_after(const struct dqn_tail &t, const struct dqn_block &block,
                       const struct dqn_places &at, const float *observed, unsigned stride,
                       const struct dqn_leaving *leaving) {
    float *window = t.window.window_next, *states = t.insert.rows.next_states, *const none = NULL;
    const bool passes = t.emits && at.oldest == at.slot;
    const auto to_replay = [&](unsigned i) {
        return states + dqn_collect_row_of(t, block, at, i) * OBS;
    };
    dqn_collect_copy_rows<OBS>(
        block.n, [&](unsigned i) { return observed + i * stride; },
        [&](unsigned i) { return window + dqn_collect_window_of(t, at, at.slot, i) * OBS; },
        [&](unsigned i) { return passes ? to_replay(i) : none; });
    if (t.emits && !passes) {
        dqn_collect_copy_rows<OBS>(
            block.n,
            [&](unsigned i) {
                const size_t last = leaving->last_slot[i];
                return last == at.slot ? observed + i * stride
                                       : window + dqn_collect_window_of(t, at, last, i) * OBS;
            },
            to_replay, [&](unsigned) { return none; });
    }
}

/* The new leaves into the sums above, modulo 2^64. Rows under one node of level 0 are summed first;
 * by the first warp, a lane a row. */
static __device__ __forceinline__ void dqn_collect_take_leaves(const struct dqn_tail &t,
                                                               const struct dqn_block &block,
                                                               const struct dqn_places &at,
                                                               const struct dqn_leaving *leaving) {
    const unsigned lane = threadIdx.x;
    if (!t.emits || t.shape.n_levels == 0 || lane >= DQN_WARP) {
        return;
    }
    static_assert(DQN_BLOCK_LANES == DQN_WARP, "a lane of the warp has a row");
    const bool exists = lane < block.n;
    const size_t own = block.agent * t.insert.capacity;
    size_t node = (dqn_collect_row_of(t, block, at, exists ? lane : 0) - own) / DQN_TREE_FAN;
    uint64_t difference = 0;
    unsigned left = __ballot_sync(0xffffffffu, exists);
    while (left != 0) { /* a node a turn: two, or three where the ring begins again */
        const int speaker = __ffs((int)left) - 1;
        const size_t its = __shfl_sync(0xffffffffu, node, speaker); /* by all, also without a row */
        const bool is_under = exists && node == its;
        const uint64_t sum = dqn_warp_sum(is_under ? leaving->difference[lane] : (uint64_t)0);
        difference = (int)lane == speaker ? sum : difference;
        left &= ~__ballot_sync(0xffffffffu, is_under);
    }
    uint64_t *sums = t.sums + block.agent * t.shape.stride;
    for (int level = 0; level < t.shape.n_levels && difference != 0; level++) {
        atomicAdd((unsigned long long *)&sums[t.shape.first[level] + node],
                  (unsigned long long)difference);
        node /= DQN_TREE_FAN;
    }
}

/* Whether this block is the last to come here, behind a barrier: then all have read the counters
 * and the ring. By one thread. */
static __device__ __forceinline__ bool dqn_collect_is_last(const struct dqn_tail &t) {
    __threadfence();
    const unsigned before = atomicAdd(t.ticket, 1u);
    __threadfence();
    return before == gridDim.x * gridDim.y - 1;
}

/* The last block advances the counters and moves the ring. */
static __device__ __forceinline__ void dqn_collect_end_step(const struct dqn_tail &t) {
    for (size_t k = threadIdx.x; k < t.window.n_agents; k += DQN_ENV_THREADS) {
        t.counters[k].vector_steps++;
        t.counters[k].env_steps += t.window.lanes;
    }
    if (threadIdx.x != 0) {
        return;
    }
    *t.ticket = 0;
    if (t.emits) {
        struct dqn_ring *ring = t.insert.ring;
        const uint64_t n = t.insert.capacity, count = t.insert.count;
        ring->cursor = (ring->cursor + count) % n;
        ring->size = ring->size + count < n ? ring->size + count : n;
    }
}

/* env_cuda.cu: steps the environments, and what `tail` says. */
enum dqn_status dqn_cuda_step_lanes(struct dqn_queue *q, const struct dqn_env_args *args,
                                    const struct dqn_tail *tail);
/* collect_cuda.cu: dqn_env_ops.collect. */
enum dqn_status dqn_cuda_collect(struct dqn_queue *q, const struct dqn_collect_args *args,
                                 bool *done);

#endif
