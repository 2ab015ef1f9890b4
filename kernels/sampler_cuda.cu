/* How rows are drawn on the GPU: uniform, proportional to priority (tree or scan), or by rank; and
 * the priorities that an update writes. Everything is integers, so no result depends on the order
 * of threads. */
#include "sampler_update_cuda.cuh"

enum { SAMPLER_THREADS = 128, UPDATE_THREADS = 1024 };

static bool has_tree(const struct dqn_sampler *s) {
    return s->spec.kind == DQN_REPLAY_PROPORTIONAL && s->spec.sums == DQN_SUMS_TREE;
}

/* ---- creation ---- */

static enum dqn_status add_parts(struct dqn_sampler *s, struct dqn_arena *arena) {
    const size_t k = s->spec.n_agents, b = s->spec.batch;
    const struct dqn_device *device = s->device;
    DQN_TRY(dqn_arena_add(arena, &s->mass, device, DQN_U64, 0, "sampler/mass", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &s->smallest, device, DQN_U64, 0, "sampler/smallest", 1, k));
    DQN_TRY(dqn_arena_add(arena, &s->tickets, device, DQN_U32, DQN_BUFFER_SHARED, "sampler/tickets",
                          1, k + 1));
    if (s->spec.kind == DQN_REPLAY_UNIFORM) {
        return DQN_OK;
    }
    DQN_TRY(dqn_arena_add(arena, &s->replaced, device, DQN_U32, 0, "sampler/replaced", 2, k, b));
    if (s->spec.kind == DQN_REPLAY_RANK) {
        return dqn_cuda_rank_add(s, arena);
    }
    return has_tree(s) ? dqn_cuda_tree_add(s, arena) : dqn_cuda_scan_add(s, arena);
}

static enum dqn_status create(const struct dqn_device *device, struct dqn_arena *arena,
                              const struct dqn_sampler_spec *spec, struct dqn_sampler **out) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_sampler), "a sampler"));
    struct dqn_sampler *s = (struct dqn_sampler *)memory;
    s->spec = *spec;
    s->device = device;
    const enum dqn_status status = add_parts(s, arena);
    if (status != DQN_OK) {
        free(s);
        return status;
    }
    *out = s;
    return DQN_OK;
}

static void destroy(struct dqn_sampler *s) {
    free(s);
}

static enum dqn_status prepare(struct dqn_sampler *s, struct dqn_queue *q) {
    return s->spec.kind == DQN_REPLAY_RANK ? dqn_cuda_rank_prepare(s, q) : DQN_OK;
}

/* ---- draws ---- */

struct uniform_find {
    enum { LANES = 1 };

    __device__ uint64_t total(const struct dqn_draw_args *a, size_t) const {
        return a->ring->size;
    }

    __device__ size_t row(const struct dqn_draw_args *, size_t, uint64_t place,
                          uint64_t *mass) const {
        *mass = 1;
        return place;
    }
};

static enum dqn_status draw(struct dqn_queue *q, const struct dqn_draw_args *args) {
    if (args->sampler->spec.kind == DQN_REPLAY_UNIFORM) {
        return dqn_cuda_launch_draw(q, args, uniform_find(), false);
    }
    if (args->sampler->spec.kind == DQN_REPLAY_RANK) {
        return dqn_cuda_rank_draw(q, args);
    }
    return has_tree(args->sampler) ? dqn_cuda_tree_draw(q, args, NULL)
                                   : dqn_cuda_scan_draw(q, args);
}

static enum dqn_status draw_gather(struct dqn_queue *q, const struct dqn_draw_args *args,
                                   const struct dqn_gather_args *gather, bool *gathered) {
    *gathered = has_tree(args->sampler);
    return *gathered ? dqn_cuda_tree_draw(q, args, gather) : draw(q, args);
}

/* Grid: N / 256 up to 2048, x agents; block 256; no shared memory. Bound by memory. */
static __global__ void k_find_minimum(struct dqn_draw_args a, size_t capacity, uint64_t *smallest) {
    const size_t k = blockIdx.y, size = a.ring->size;
    const float *priorities = a.priorities + k * capacity;
    uint64_t least = UINT64_MAX;
    for (size_t i = dqn_grid_first(); i < size; i += dqn_grid_stride()) {
        const uint64_t leaf = dqn_cuda_leaf(priorities[i]);
        least = leaf > 0 && leaf < least ? leaf : least;
    }
    least = dqn_warp_min(least);
    if (threadIdx.x % DQN_WARP == 0) {
        atomicMin((unsigned long long *)&smallest[k], (unsigned long long)least);
    }
}

enum dqn_status dqn_cuda_find_minimum(struct dqn_queue *q, const struct dqn_draw_args *args) {
    const struct dqn_sampler *s = args->sampler;
    const dim3 grid(dqn_cuda_blocks(s->spec.capacity, SAMPLER_THREADS, 2048),
                    (unsigned)s->spec.n_agents);
    DQN_CUDA(cudaMemsetAsync(s->smallest->data, 0xff, s->smallest->bytes, dqn_cuda_stream(q)));
    k_find_minimum<<<grid, SAMPLER_THREADS, 0, dqn_cuda_stream(q)>>>(*args, s->spec.capacity,
                                                                     (uint64_t *)s->smallest->data);
    DQN_LAUNCHED(k_find_minimum);
    return DQN_OK;
}

/* Grid: B / 256 x agents; block 256; no shared memory. Bound by arithmetic. */
static __global__ void k_weigh_rows(struct dqn_draw_args a, size_t n, const uint64_t *mass,
                                    const uint64_t *smallest) {
    const size_t k = blockIdx.y, b = dqn_grid_first();
    if (b < n) {
        const double beta = dqn_schedule_beta(&a.agents[k], a.counters[k].updates);
        a.weight[k * n + b] = dqn_cuda_weight(smallest[k], mass[k * n + b], beta);
    }
}

enum dqn_status dqn_cuda_weigh_rows(struct dqn_queue *q, const struct dqn_draw_args *args) {
    const struct dqn_sampler *s = args->sampler;
    const size_t n = s->spec.batch;
    const dim3 grid((unsigned)((n + SAMPLER_THREADS - 1) / SAMPLER_THREADS),
                    (unsigned)s->spec.n_agents);
    struct dqn_cuda_queue *queue = dqn_cuda_queue_of(q);
    DQN_TRY(dqn_cuda_fork(queue, DQN_SIDE_WEIGHTS));
    k_weigh_rows<<<grid, SAMPLER_THREADS, 0, queue->side[DQN_SIDE_WEIGHTS]>>>(
        *args, n, (const uint64_t *)s->mass->data, (const uint64_t *)s->smallest->data);
    dqn_cuda_leave(queue, DQN_SIDE_WEIGHTS);
    DQN_LAUNCHED(k_weigh_rows);
    return DQN_OK;
}

/* ---- priorities ---- */

/* An update of an agent in three parts, each over the whole batch before the next one begins. A row
 * may be there several times: the larger value stays.
 *  1. every row's priority becomes 0; the one thread that takes a row's old value out owns it;
 *  2. the new values come in by maximum: bits of positive floats are in the order of their values;
 *  3. the owner adds the difference of the leaves to the sums above, modulo 2^64. */
enum { TAKE_OLD, PUT_NEW, ADD_DIFFERENCE };

struct update_state {
    struct dqn_tree_shape shape;
    uint64_t *sums; /* [K, stride] */
    uint32_t *replaced;
    size_t capacity;
};

/* All three parts, a thread a row. Grid: 1 x agents; block: the batch in whole warps, up to 1024;
 * no shared memory. Bound by the latency of scattered atomics; the new priorities are computed
 * while the old ones are on their way. */
static __global__ void k_update_rows(struct dqn_priority_args a, struct update_state state) {
    const size_t k = blockIdx.y, b = threadIdx.x, at = k * a.batch + (b < a.batch ? b : 0);
    const bool active = b < a.batch;
    const size_t row = (size_t)a.index[at];
    const float td = a.td[at];
    uint32_t *cell = (uint32_t *)a.priorities + k * state.capacity + row;
    struct dqn_seen seen = {0, 0, 0};
    uint32_t old = 0, fresh = 0;
    if (a.ok[k] == 0 || a.ring->size == 0) {
        return;
    }
    if (active) {
        old = atomicExch(cell, 0u);
        fresh = dqn_new_priority(&a.agents[k], td, &seen);
    }
    __syncthreads();
    if (active) {
        atomicMax(cell, fresh);
    }
    dqn_report_seen(a.counters, a.priority_seen, k, seen);
    __syncthreads();
    if (active && state.shape.n_levels > 0) {
        dqn_add_difference(&state.shape, state.sums + k * state.shape.stride, row, old,
                           __ldcg((const float *)cell));
    }
}

/* One part of a large batch. Grid: B / 256 x agents; block 256; no shared memory. Bound by the
 * latency of scattered atomics. */
template <int PART>
static __global__ void k_update_part(struct dqn_priority_args a, struct update_state state) {
    const size_t k = blockIdx.y;
    uint32_t *column = (uint32_t *)a.priorities + k * state.capacity;
    struct dqn_seen seen = {0, 0, 0};
    if (a.ok[k] == 0 || a.ring->size == 0) {
        return;
    }
    for (size_t b = dqn_grid_first(); b < a.batch; b += dqn_grid_stride()) {
        const size_t at = k * a.batch + b, row = (size_t)a.index[at];
        if (PART == TAKE_OLD) {
            state.replaced[at] = atomicExch(&column[row], 0u);
        } else if (PART == PUT_NEW) {
            atomicMax(&column[row], dqn_new_priority(&a.agents[k], a.td[at], &seen));
        } else {
            dqn_add_difference(&state.shape, state.sums + k * state.shape.stride, row,
                               state.replaced[at], a.priorities[k * state.capacity + row]);
        }
    }
    if (PART == PUT_NEW) {
        dqn_report_seen(a.counters, a.priority_seen, k, seen);
    }
}

template <int PART>
static enum dqn_status launch_part(struct dqn_queue *q, const struct dqn_priority_args *args,
                                   const struct update_state *state) {
    enum { PART_THREADS = 256 };
    const dim3 grid(dqn_cuda_blocks(args->batch, PART_THREADS),
                    (unsigned)args->sampler->spec.n_agents);
    k_update_part<PART><<<grid, PART_THREADS, 0, dqn_cuda_replay_stream(q)>>>(*args, *state);
    DQN_LAUNCHED(k_update_part);
    return DQN_OK;
}

static enum dqn_status launch_update(struct dqn_queue *q, const struct dqn_priority_args *args,
                                     const struct update_state *state) {
    if (args->batch <= UPDATE_THREADS) {
        const dim3 grid(1, (unsigned)args->sampler->spec.n_agents);
        const unsigned threads = (unsigned)((args->batch + DQN_WARP - 1) / DQN_WARP * DQN_WARP);
        k_update_rows<<<grid, threads, 0, dqn_cuda_replay_stream(q)>>>(*args, *state);
        DQN_LAUNCHED(k_update_rows);
        return DQN_OK;
    }
    DQN_TRY(launch_part<TAKE_OLD>(q, args, state));
    DQN_TRY(launch_part<PUT_NEW>(q, args, state));
    return state->shape.n_levels > 0 ? launch_part<ADD_DIFFERENCE>(q, args, state) : DQN_OK;
}

static enum dqn_status update(struct dqn_queue *q, const struct dqn_priority_args *args) {
    const struct dqn_sampler *s = args->sampler;
    if (s->spec.kind == DQN_REPLAY_UNIFORM || args->batch == 0) {
        return DQN_OK;
    }
    if (args->batch > s->spec.batch) {
        return dqn_fail(DQN_ERR_STATE, "an update of %zu rows; the sampler was made for %zu",
                        args->batch, s->spec.batch);
    }
    struct update_state state;
    state.shape = s->shape;
    state.sums = has_tree(s) ? (uint64_t *)s->sums->data : NULL;
    state.replaced = (uint32_t *)s->replaced->data;
    state.capacity = s->spec.capacity;
    return launch_update(q, args, &state);
}

/* ---- new rows ---- */

/* Grid 1, block 1. */
static __global__ void k_move_ring(struct dqn_ring *ring, uint64_t count, uint64_t capacity) {
    ring->cursor = (ring->cursor + count) % capacity;
    ring->size = ring->size + count < capacity ? ring->size + count : capacity;
}

static enum dqn_status inserted(struct dqn_queue *q, const struct dqn_inserted_args *args) {
    if (args->count == 0) {
        return DQN_OK;
    }
    if (has_tree(args->sampler)) {
        return dqn_cuda_tree_inserted(q, args);
    }
    k_move_ring<<<1, 1, 0, dqn_cuda_stream(q)>>>(args->ring, args->count,
                                                 args->sampler->spec.capacity);
    DQN_LAUNCHED(k_move_ring);
    return DQN_OK;
}

static enum dqn_status rebuild(struct dqn_queue *q, const struct dqn_rebuild_args *args) {
    if (args->sampler->spec.kind == DQN_REPLAY_RANK) {
        return dqn_cuda_rank_rebuild(q, args);
    }
    return has_tree(args->sampler) ? dqn_cuda_tree_rebuild(q, args) : DQN_OK;
}

extern "C" const struct dqn_sampler_ops dqn_cuda_sampler_ops = {
    create, destroy, prepare, draw, update, inserted, rebuild, draw_gather};
