/* How rows are drawn on the CPU: uniform, proportional to priority, or by rank. */
#include "sampler_cpu.h"

#include <stdlib.h>
#include <string.h>

static size_t chunks_of(size_t rows) {
    return (rows + DQN_SAMPLER_ROWS - 1) / DQN_SAMPLER_ROWS;
}

/* ---- creation
 * -------------------------------------------------------------------------------------- */

static enum dqn_status add_tree(struct dqn_sampler *s, struct dqn_arena *arena,
                                const struct dqn_device *device) {
    s->n_leaves = 1;
    while (s->n_leaves < s->spec.capacity) {
        s->n_leaves *= 2;
    }
    const size_t k = s->spec.n_agents, n = 2 * s->n_leaves;
    DQN_TRY(dqn_arena_add(arena, &s->sums, device, DQN_U64, 0, "sampler/sums", 2, k, n));
    if (s->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER) {
        DQN_TRY(dqn_arena_add(arena, &s->minima, device, DQN_U64, 0, "sampler/minima", 2, k, n));
    }
    return DQN_OK;
}

static enum dqn_status add_order(struct dqn_sampler *s, struct dqn_arena *arena,
                                 const struct dqn_device *device) {
    const size_t k = s->spec.n_agents, n = s->spec.capacity;
    /* With an interval the order is older than the priorities, so it cannot be derived. */
    const int saved = s->spec.rank_interval > 1 ? DQN_BUFFER_SAVED | DQN_BUFFER_REPLAY : 0;
    DQN_TRY(dqn_arena_add(arena, &s->order, device, DQN_U32, saved, "sampler/order", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &s->ranked, device, DQN_U64, saved, "sampler/ranked", 1, k));
    DQN_TRY(dqn_arena_add(arena, &s->stale, device, DQN_U8, 0, "sampler/stale", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &s->changed, device, DQN_U32, 0, "sampler/changed", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &s->n_changed, device, DQN_U64, 0, "sampler/n_changed", 1, k));
    DQN_TRY(dqn_arena_add(arena, &s->scratch, device, DQN_U32, 0, "sampler/scratch", 2, k, n));
    return dqn_arena_add(arena, &s->prefix, device, DQN_U64, DQN_BUFFER_SHARED, "sampler/prefix", 1,
                         n);
}

static enum dqn_status add_batch(struct dqn_sampler *s, struct dqn_arena *arena,
                                 const struct dqn_device *device) {
    const size_t k = s->spec.n_agents, b = s->spec.batch;
    DQN_TRY(dqn_arena_add(arena, &s->mass, device, DQN_U64, 0, "sampler/mass", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &s->smallest, device, DQN_U64, 0, "sampler/smallest", 1, k));
    return dqn_arena_add(arena, &s->fresh, device, DQN_F32, 0, "sampler/fresh", 2, k, b);
}

static enum dqn_status create(const struct dqn_device *device, struct dqn_arena *arena,
                              const struct dqn_sampler_spec *spec, struct dqn_sampler **out) {
    struct dqn_sampler *s = NULL;
    DQN_TRY(dqn_alloc((void **)&s, 1, sizeof *s, "a sampler"));
    s->spec = *spec;
    enum dqn_status status = add_batch(s, arena, device);
    if (status == DQN_OK && spec->kind == DQN_REPLAY_PROPORTIONAL) {
        status = add_tree(s, arena, device);
    }
    if (status == DQN_OK && spec->kind == DQN_REPLAY_RANK) {
        status = add_order(s, arena, device);
    }
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

struct prepare_args {
    struct dqn_sampler *sampler;
};

static enum dqn_status run_prepare(struct dqn_cpu_pool *pool, const void *args) {
    (void)pool;
    struct dqn_sampler *s = ((const struct prepare_args *)args)->sampler;
    if (s->minima != NULL) {
        memset(s->minima->data, 0xff, s->minima->bytes); /* no filled leaf yet */
    }
    if (s->prefix != NULL) {
        dqn_rank_prefix(s->prefix->data, s->spec.capacity, s->spec.alpha);
    }
    return DQN_OK;
}

static enum dqn_status prepare(struct dqn_sampler *sampler, struct dqn_queue *q) {
    const struct prepare_args args = {sampler};
    return dqn_cpu_submit(q, run_prepare, &args, sizeof args);
}

/* ---- draws
 * ------------------------------------------------------------------------------------------- */

/* The first i in [0, n) with prefix[i] > place, which is below prefix[n - 1]. */
static uint64_t find_prefix(const uint64_t *prefix, uint64_t n, uint64_t place) {
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

static int64_t find_ranked(const struct dqn_sampler *s, size_t k, uint64_t place, uint64_t *mass) {
    const uint64_t *prefix = s->prefix->data;
    const uint64_t ranked = ((const uint64_t *)s->ranked->data)[k];
    const uint64_t rank = find_prefix(prefix, ranked, place);
    *mass = prefix[rank] - (rank > 0 ? prefix[rank - 1] : 0);
    return ((const uint32_t *)s->order->data)[k * s->spec.capacity + rank];
}

/* Rows and masses of what n places say; the three kinds differ only here. */
static void find_rows(const struct dqn_sampler *s, size_t k, size_t n, const uint64_t *place,
                      int64_t *row, uint64_t *mass) {
    if (s->spec.kind == DQN_REPLAY_PROPORTIONAL) {
        dqn_tree_find(s, k, n, place, row, mass);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (s->spec.kind == DQN_REPLAY_UNIFORM) {
            row[i] = (int64_t)place[i];
            mass[i] = 1;
        } else {
            row[i] = find_ranked(s, k, place[i], &mass[i]);
        }
    }
}

static uint64_t total_mass(const struct dqn_sampler *s, size_t k, size_t size) {
    if (s->spec.kind == DQN_REPLAY_PROPORTIONAL) {
        return dqn_tree_total(s, k);
    }
    if (s->spec.kind == DQN_REPLAY_UNIFORM) {
        return size;
    }
    const uint64_t ranked = ((const uint64_t *)s->ranked->data)[k];
    return ((const uint64_t *)s->prefix->data)[ranked - 1];
}

/* Rows [first, end) of a batch of n that task i takes. */
struct chunk {
    size_t k, first, end;
};

static struct chunk chunk_of(size_t i, size_t n) {
    struct chunk c = {.k = i / chunks_of(n), .first = i % chunks_of(n) * DQN_SAMPLER_ROWS};
    c.end = c.first + DQN_SAMPLER_ROWS < n ? c.first + DQN_SAMPLER_ROWS : n;
    return c;
}

static void draw_chunk(void *context, size_t i) {
    const struct dqn_draw_args *a = context;
    const struct dqn_sampler *s = a->sampler;
    const size_t n = s->spec.batch;
    const struct chunk c = chunk_of(i, n);
    const uint64_t total = total_mass(s, c.k, (size_t)a->ring->size);
    uint64_t place[DQN_SAMPLER_ROWS];
    for (size_t b = c.first; b < c.end; b++) {
        const uint64_t word = a->words != NULL
                                  ? a->words[c.k * n + b]
                                  : dqn_draw_word(a->agents[c.k].seed, b, a->counters[c.k].draws);
        place[b - c.first] = dqn_draw_target(word, total, b, n, s->spec.stratified);
    }
    const size_t at = c.k * n + c.first;
    find_rows(s, c.k, c.end - c.first, place, a->index + at, (uint64_t *)s->mass->data + at);
}

static uint64_t smallest_mass(const struct dqn_sampler *s, size_t k) {
    if (s->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER && s->spec.kind == DQN_REPLAY_PROPORTIONAL) {
        return dqn_tree_minimum(s, k);
    }
    if (s->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER && s->spec.kind == DQN_REPLAY_RANK) {
        const uint64_t *prefix = s->prefix->data, last = ((uint64_t *)s->ranked->data)[k] - 1;
        return prefix[last] - (last > 0 ? prefix[last - 1] : 0);
    }
    const uint64_t *mass = (const uint64_t *)s->mass->data + k * s->spec.batch;
    uint64_t smallest = mass[0];
    for (size_t b = 1; b < s->spec.batch; b++) {
        smallest = mass[b] < smallest ? mass[b] : smallest;
    }
    return smallest;
}

static void find_smallest(void *context, size_t k) {
    const struct dqn_sampler *s = ((const struct dqn_draw_args *)context)->sampler;
    ((uint64_t *)s->smallest->data)[k] = smallest_mass(s, k);
}

static void weigh_chunk(void *context, size_t i) {
    const struct dqn_draw_args *a = context;
    const struct dqn_sampler *s = a->sampler;
    const size_t n = s->spec.batch;
    const struct chunk c = chunk_of(i, n);
    const uint64_t *mass = (const uint64_t *)s->mass->data + c.k * n;
    const uint64_t smallest = ((const uint64_t *)s->smallest->data)[c.k];
    const double beta = dqn_schedule_beta(&a->agents[c.k], a->counters[c.k].updates);
    for (size_t b = c.first; b < c.end; b++) {
        a->weight[c.k * n + b] = dqn_importance_weight(smallest, mass[b], beta);
    }
}

static void refresh_agent(void *context, size_t k) {
    const struct dqn_draw_args *a = context;
    dqn_rank_refresh(a->sampler, k, a->priorities + k * a->sampler->spec.capacity,
                     (size_t)a->ring->size, a->counters[k].draws);
}

static enum dqn_status run_draw(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_draw_args a = *(const struct dqn_draw_args *)args;
    const struct dqn_sampler_spec *spec = &a.sampler->spec;
    if (a.ring->size == 0) {
        return dqn_fail(DQN_ERR_STATE, "a batch was drawn from an empty replay");
    }
    if (spec->kind == DQN_REPLAY_RANK) {
        dqn_cpu_for(pool, spec->n_agents, refresh_agent, &a);
    }
    dqn_cpu_for(pool, spec->n_agents * chunks_of(spec->batch), draw_chunk, &a);
    dqn_cpu_for(pool, spec->n_agents, find_smallest, &a);
    dqn_cpu_for(pool, spec->n_agents * chunks_of(spec->batch), weigh_chunk, &a);
    for (size_t k = 0; k < spec->n_agents; k++) {
        a.counters[k].draws++;
    }
    return DQN_OK;
}

static enum dqn_status draw(struct dqn_queue *q, const struct dqn_draw_args *args) {
    return dqn_cpu_submit(q, run_draw, args, sizeof *args);
}

/* ---- priorities
 * ---------------------------------------------------------------------------------------- */

static void price_chunk(void *context, size_t i) {
    const struct dqn_priority_args *a = context;
    const struct chunk c = chunk_of(i, a->batch);
    float *fresh = a->sampler->fresh->data;
    for (size_t at = c.k * a->batch + c.first; at < c.k * a->batch + c.end; at++) {
        fresh[at] = dqn_priority_of_td(&a->agents[c.k], a->td[at]).value;
    }
}

/* Counts what was not finite; the running maximum is of finite errors' priorities. */
static void watch_priorities(const struct dqn_priority_args *a, size_t k, const float *fresh) {
    const float *td = a->td + k * a->batch;
    float seen = a->priority_seen[k];
    for (size_t b = 0; b < a->batch; b++) {
        if (dqn_float_is_finite(td[b])) {
            seen = fresh[b] > seen ? fresh[b] : seen;
        } else if (dqn_float_is_nan(td[b])) {
            a->counters[k].priority_nan++;
        } else {
            a->counters[k].priority_inf++;
        }
    }
    a->priority_seen[k] = seen;
}

/* Writes the batch's priorities into the column; of a row that is there twice the larger stays. */
static void write_priorities(const float *fresh, const int64_t *index, size_t n, float *column) {
    for (size_t b = 0; b < n; b++) {
        column[index[b]] = 0.0f; /* below every priority */
    }
    for (size_t b = 0; b < n; b++) {
        if (fresh[b] > column[index[b]]) {
            column[index[b]] = fresh[b];
        }
    }
}

static void update_agent(void *context, size_t k) {
    const struct dqn_priority_args *a = context;
    struct dqn_sampler *s = a->sampler;
    if (a->ok[k] == 0) {
        return;
    }
    const float *fresh = (const float *)s->fresh->data + k * a->batch;
    const int64_t *index = a->index + k * a->batch;
    float *column = a->priorities + k * s->spec.capacity;
    watch_priorities(a, k, fresh);
    write_priorities(fresh, index, a->batch, column);
    if (s->spec.kind == DQN_REPLAY_PROPORTIONAL) {
        dqn_tree_set_rows(s, k, column, index, a->batch);
        return;
    }
    for (size_t b = 0; b < a->batch; b++) {
        dqn_rank_mark(s, k, (size_t)index[b]);
    }
}

static enum dqn_status run_update(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_priority_args a = *(const struct dqn_priority_args *)args;
    const struct dqn_sampler_spec *spec = &a.sampler->spec;
    DQN_CHECK(a.batch <= spec->batch);
    if (spec->kind != DQN_REPLAY_UNIFORM) {
        dqn_cpu_for(pool, spec->n_agents * chunks_of(a.batch), price_chunk, &a);
        dqn_cpu_for(pool, spec->n_agents, update_agent, &a);
    }
    return DQN_OK;
}

static enum dqn_status update(struct dqn_queue *q, const struct dqn_priority_args *args) {
    return dqn_cpu_submit(q, run_update, args, sizeof *args);
}

/* ---- new rows
 * -------------------------------------------------------------------------------------------- */

/* Rows [first, first + count), no wrap, of agent k are new. */
static void take_rows(struct dqn_sampler *s, size_t k, const float *priorities, size_t first,
                      size_t count) {
    if (s->spec.kind == DQN_REPLAY_PROPORTIONAL) {
        dqn_tree_set_range(s, k, priorities + k * s->spec.capacity, first, count);
    }
    for (size_t row = first; s->spec.kind == DQN_REPLAY_RANK && row < first + count; row++) {
        dqn_rank_mark(s, k, row);
    }
}

static void inserted_agent(void *context, size_t k) {
    const struct dqn_inserted_args *a = context;
    const size_t first = (size_t)a->ring->cursor, left = a->sampler->spec.capacity - first;
    const size_t before_wrap = a->count < left ? a->count : left;
    take_rows(a->sampler, k, a->priorities, first, before_wrap);
    take_rows(a->sampler, k, a->priorities, 0, a->count - before_wrap);
}

static enum dqn_status run_inserted(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_inserted_args a = *(const struct dqn_inserted_args *)args;
    const uint64_t capacity = a.sampler->spec.capacity;
    dqn_cpu_for(pool, a.sampler->spec.n_agents, inserted_agent, &a);
    a.ring->cursor = (a.ring->cursor + a.count) % capacity;
    a.ring->size = a.ring->size + a.count < capacity ? a.ring->size + a.count : capacity;
    return DQN_OK;
}

static enum dqn_status inserted(struct dqn_queue *q, const struct dqn_inserted_args *args) {
    return dqn_cpu_submit(q, run_inserted, args, sizeof *args);
}

static void rebuild_agent(void *context, size_t k) {
    const struct dqn_rebuild_args *a = context;
    struct dqn_sampler *s = a->sampler;
    if (s->spec.kind == DQN_REPLAY_RANK && s->spec.rank_interval == 1) {
        ((uint64_t *)s->ranked->data)[k] = 0; /* all of it is made anew at the next draw */
    }
    take_rows(s, k, a->priorities, 0, (size_t)a->ring->size);
}

static enum dqn_status run_rebuild(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_rebuild_args a = *(const struct dqn_rebuild_args *)args;
    dqn_cpu_for(pool, a.sampler->spec.n_agents, rebuild_agent, &a);
    return DQN_OK;
}

static enum dqn_status rebuild(struct dqn_queue *q, const struct dqn_rebuild_args *args) {
    return dqn_cpu_submit(q, run_rebuild, args, sizeof *args);
}

const struct dqn_sampler_ops dqn_cpu_sampler_ops = {.create = create,
                                                    .destroy = destroy,
                                                    .prepare = prepare,
                                                    .draw = draw,
                                                    .update = update,
                                                    .inserted = inserted,
                                                    .rebuild = rebuild};
