#include "replay.h"

#include <stdlib.h>

#include "replay_parts.h"
#include "shared/priority.h"

static enum dqn_status register_columns(struct dqn_replay *r, struct dqn_arena *arena) {
    const struct dqn_device *device = r->device;
    const size_t k = r->o.n_agents, n = (size_t)r->config.capacity, o = r->o.obs;
    const int saved = DQN_BUFFER_SAVED | DQN_BUFFER_REPLAY;
    const int ring = saved | DQN_BUFFER_SHARED;
    DQN_TRY(dqn_arena_add(arena, &r->states, device, DQN_F32, saved, "replay/states", 3, k, n, o));
    DQN_TRY(dqn_arena_add(arena, &r->next_states, device, DQN_F32, saved, "replay/next_states", 3,
                          k, n, o));
    DQN_TRY(dqn_arena_add(arena, &r->actions, device, DQN_U32, saved, "replay/actions", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &r->rewards, device, DQN_F32, saved, "replay/rewards", 2, k, n));
    DQN_TRY(
        dqn_arena_add(arena, &r->discounts, device, DQN_F32, saved, "replay/discounts", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &r->dones, device, DQN_U8, saved, "replay/dones", 2, k, n));
    DQN_TRY(
        dqn_arena_add(arena, &r->priorities, device, DQN_F32, saved, "replay/priorities", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &r->ring, device, DQN_U64, ring, "replay/ring", 1,
                          sizeof(struct dqn_ring) / sizeof(uint64_t)));
    return dqn_arena_add(arena, &r->priority_seen, device, DQN_F32, saved, "replay/priority_seen",
                         1, k);
}

static enum dqn_status register_batch(struct dqn_replay *r, struct dqn_arena *arena) {
    /* With staging, what is gathered is copied to the learner from here. */
    const struct dqn_device *device = r->staging != NULL ? r->o.learner : r->device;
    const int flags = r->staging != NULL ? DQN_BUFFER_PINNED : 0;
    const size_t k = r->o.n_agents, b = r->o.batch, m = r->o.n_batches, ld = r->o.obs_ld;
    DQN_TRY(dqn_arena_add(arena, &r->state, device, DQN_F32, flags, "batch/state", 3, k, b, ld));
    DQN_TRY(dqn_arena_add(arena, &r->next, device, DQN_F32, flags, "batch/next", 3, k, b, ld));
    DQN_TRY(dqn_arena_add(arena, &r->action, device, DQN_U32, flags, "batch/action", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->reward, device, DQN_F32, flags, "batch/reward", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->discount, device, DQN_F32, flags, "batch/discount", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->done, device, DQN_U8, flags, "batch/done", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->weight, device, DQN_F32, flags, "batch/weight", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->index, device, DQN_I64, flags, "batch/index", 3, m, k, b));
    return dqn_arena_add(arena, &r->td, device, DQN_F32, flags, "batch/td", 3, m, k, b);
}

static enum dqn_status create_parts(struct dqn_replay *r, struct dqn_arena *arena) {
    r->agents = r->o.agents;
    r->counters = r->o.counters;
    if (r->o.learner != r->device) {
        DQN_TRY(dqn_staging_create(&r->staging, arena, r->device, &r->o));
        r->agents = dqn_staging_agents(r->staging);
        r->counters = dqn_staging_counters(r->staging);
    }
    DQN_TRY(register_columns(r, arena));
    DQN_TRY(register_batch(r, arena));
    const struct dqn_sampler_spec spec = {.kind = r->config.kind,
                                          .n_agents = r->o.n_agents,
                                          .capacity = (size_t)r->config.capacity,
                                          .batch = r->o.batch,
                                          .stratified = r->config.stratified,
                                          .weight_norm = r->config.weight_norm,
                                          .rank_interval = (uint64_t)r->config.rank_interval,
                                          .alpha = r->config.alpha,
                                          .sums = r->config.sums};
    return r->device->backend->sampler->create(r->device, arena, &spec, &r->sampler);
}

enum dqn_status dqn_replay_create(struct dqn_replay **out, struct dqn_arena *arena,
                                  const struct dqn_device *device,
                                  const struct dqn_replay_options *options) {
    struct dqn_replay *r = NULL;
    if (options->batch > (size_t)options->config->capacity) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "a batch of %zu rows is larger than the replay (replay.capacity = %lld)",
                        options->batch, (long long)options->config->capacity);
    }
    DQN_TRY(dqn_alloc((void **)&r, 1, sizeof *r, "the replay"));
    r->config = *options->config;
    r->o = *options;
    r->o.learner = options->learner != NULL ? options->learner : device;
    r->device = device;
    r->arena = arena;
    const enum dqn_status status = create_parts(r, arena);
    if (status != DQN_OK) {
        dqn_replay_destroy(r);
        return status;
    }
    *out = r;
    return DQN_OK;
}

void dqn_replay_destroy(struct dqn_replay *r) {
    if (r == NULL) {
        return;
    }
    if (r->sampler != NULL) {
        r->device->backend->sampler->destroy(r->sampler);
    }
    dqn_staging_destroy(r->staging);
    dqn_arena_destroy(r->own);
    free(r);
}

/* The queue of the replay's own device. */
static struct dqn_queue *home_queue(const struct dqn_replay *r, struct dqn_queue *q) {
    return r->staging != NULL ? dqn_staging_queue(r->staging) : q;
}

/* The running maximum starts at the priority of an error of 1. */
static enum dqn_status start_priority_seen(struct dqn_replay *r, struct dqn_queue *q) {
    const struct dqn_backend *backend = r->device->backend;
    const size_t k = r->o.n_agents;
    struct dqn_agent *agents = NULL;
    float *seen = NULL;
    enum dqn_status status = dqn_alloc((void **)&agents, k, sizeof *agents, "agents");
    DQN_TRY_GOTO(status);
    DQN_TRY_GOTO(dqn_alloc((void **)&seen, k, sizeof *seen, "first priorities"));
    DQN_TRY_GOTO(
        backend->memory->copy(q, agents, r->agents->data, k * sizeof *agents, DQN_COPY_TO_HOST));
    DQN_TRY_GOTO(backend->queue->wait(q));
    for (size_t i = 0; i < k; i++) {
        seen[i] = dqn_priority_start(&agents[i]);
    }
    DQN_TRY_GOTO(backend->memory->copy(q, r->priority_seen->data, seen, k * sizeof *seen,
                                       DQN_COPY_TO_DEVICE));
    DQN_TRY_GOTO(backend->queue->wait(q));
done:
    free(agents);
    free(seen);
    return status;
}

enum dqn_status dqn_replay_prepare(struct dqn_replay *r, struct dqn_queue *q) {
    if (r->staging != NULL) {
        DQN_TRY(dqn_staging_prepare(r->staging, q));
    }
    struct dqn_queue *home = home_queue(r, q);
    DQN_TRY(start_priority_seen(r, home));
    return r->device->backend->sampler->prepare(r->sampler, home);
}

static struct dqn_rows columns(const struct dqn_replay *r) {
    return (struct dqn_rows){.states = r->states->data,
                             .next_states = r->next_states->data,
                             .actions = r->actions->data,
                             .rewards = r->rewards->data,
                             .discounts = r->discounts->data,
                             .dones = r->dones->data,
                             .priorities = r->priorities->data};
}

/* Whether a failed operation is to be done again after a move. */
static bool shall_move(struct dqn_replay *r, const struct dqn_queue *q, enum dqn_status status) {
    if (status != DQN_ERR_DEVICE || r->o.refuge == NULL || r->staging != NULL) {
        return false;
    }
    if (q->capturing) {
        r->failed = true;
        r->n_sampled = 0; /* nothing that was captured has run */
        r->drawn = false;
    }
    return !q->capturing;
}

/* Without the rows. */
static struct dqn_insert_args insert_args(const struct dqn_replay *r, size_t count) {
    return (struct dqn_insert_args){.n_agents = r->o.n_agents,
                                    .capacity = (size_t)r->config.capacity,
                                    .obs = r->o.obs,
                                    .count = count,
                                    .rows = columns(r),
                                    .ring = r->ring->data,
                                    .priority_seen = r->priority_seen->data};
}

static struct dqn_inserted_args inserted_args(const struct dqn_replay *r, size_t count) {
    return (struct dqn_inserted_args){.sampler = r->sampler,
                                      .count = count,
                                      .ring = r->ring->data,
                                      .priorities = r->priorities->data};
}

static enum dqn_status insert_rows(struct dqn_replay *r, struct dqn_queue *q,
                                   const struct dqn_replay_rows *rows, size_t count) {
    const struct dqn_backend *backend = r->device->backend;
    struct dqn_queue *home = home_queue(r, q);
    struct dqn_replay_rows here = *rows;
    if (r->staging != NULL) {
        DQN_TRY(dqn_staging_take_rows(r->staging, q, rows, count, &here));
    }
    struct dqn_insert_args insert = insert_args(r, count);
    insert.row_state = here.state;
    insert.row_next = here.next;
    insert.row_action = here.action;
    insert.row_reward = here.reward;
    insert.row_discount = here.discount;
    insert.row_done = here.done;
    DQN_TRY(backend->replay->insert(home, &insert));
    const struct dqn_inserted_args inserted = inserted_args(r, count);
    DQN_TRY(backend->sampler->inserted(home, &inserted));
    return r->staging != NULL ? home->device->backend->queue->wait(home) : DQN_OK;
}

enum dqn_status dqn_replay_insert(struct dqn_replay *r, struct dqn_queue *q,
                                  const struct dqn_replay_rows *rows, size_t count) {
    if (count > (size_t)r->config.capacity) {
        return dqn_fail(DQN_ERR_STATE, "%zu rows do not fit into a replay of %lld", count,
                        (long long)r->config.capacity);
    }
    if (r->n_sampled > 0) {
        return dqn_fail(DQN_ERR_STATE,
                        "rows were inserted between a sample and its priority update");
    }
    enum dqn_status status = insert_rows(r, q, rows, count);
    if (shall_move(r, q, status)) {
        DQN_TRY(dqn_replay_move(r, q));
        status = insert_rows(r, q, rows, count);
    }
    if (status == DQN_OK) {
        dqn_replay_inserted(r, q, count);
    }
    return status;
}

bool dqn_replay_describe_insert(const struct dqn_replay *r, size_t count,
                                struct dqn_insert_args *insert,
                                struct dqn_inserted_args *inserted) {
    if (r->staging != NULL || r->failed || r->n_sampled > 0 || count > dqn_replay_capacity(r)) {
        return false;
    }
    *insert = insert_args(r, count);
    *inserted = inserted_args(r, count);
    return true;
}

void dqn_replay_inserted(struct dqn_replay *r, const struct dqn_queue *q, size_t count) {
    r->rows_ahead += q->capturing ? 0 : count;
}

void dqn_replay_note_inserted(struct dqn_replay *r, size_t count) {
    r->rows += count;
    r->rows_ahead -= count < r->rows_ahead ? count : r->rows_ahead;
}

/* Slot m's part of a [M, K, B] buffer. */
static size_t slot_offset(const struct dqn_replay *r, size_t slot) {
    return slot * r->o.n_agents * r->o.batch;
}

static void fill_batch(const struct dqn_replay *r, size_t slot, struct dqn_replay_batch *batch) {
    *batch = (struct dqn_replay_batch){.state = r->state->data,
                                       .next = r->next->data,
                                       .action = r->action->data,
                                       .reward = r->reward->data,
                                       .discount = r->discount->data,
                                       .done = r->done->data,
                                       .weight = r->weight->data,
                                       .index = (int64_t *)r->index->data + slot_offset(r, slot),
                                       .td = (float *)r->td->data + slot_offset(r, slot)};
}

static struct dqn_draw_args draw_args(const struct dqn_replay *r,
                                      const struct dqn_replay_batch *batch) {
    return (struct dqn_draw_args){.sampler = r->sampler,
                                  .agents = r->agents->data,
                                  .counters = r->counters->data,
                                  .ring = r->ring->data,
                                  .priorities = r->priorities->data,
                                  .index = batch->index,
                                  .weight = batch->weight};
}

static struct dqn_gather_args gather_args(const struct dqn_replay *r,
                                          const struct dqn_replay_batch *batch) {
    return (struct dqn_gather_args){.n_agents = r->o.n_agents,
                                    .capacity = (size_t)r->config.capacity,
                                    .obs = r->o.obs,
                                    .obs_ld = r->o.obs_ld,
                                    .batch = r->o.batch,
                                    .rows = columns(r),
                                    .index = batch->index,
                                    .state = batch->state,
                                    .next = batch->next,
                                    .action = batch->action,
                                    .reward = batch->reward,
                                    .discount = batch->discount,
                                    .done = batch->done};
}

static struct dqn_priority_args priority_args(const struct dqn_replay *r,
                                              const struct dqn_replay_batch *batch,
                                              const uint32_t *ok) {
    return (struct dqn_priority_args){.sampler = r->sampler,
                                      .batch = r->o.batch,
                                      .agents = r->agents->data,
                                      .counters = r->counters->data,
                                      .ring = r->ring->data,
                                      .index = batch->index,
                                      .td = batch->td,
                                      .ok = ok,
                                      .priorities = r->priorities->data,
                                      .priority_seen = r->priority_seen->data};
}

bool dqn_replay_describe(struct dqn_replay *r, struct dqn_replay_batch *batch,
                         struct dqn_draw_args *draw, struct dqn_gather_args *gather,
                         struct dqn_priority_args *priority) {
    if (r->staging != NULL || r->n_sampled > 0 || r->drawn || r->failed) {
        return false;
    }
    fill_batch(r, 0, batch);
    *draw = draw_args(r, batch);
    *gather = gather_args(r, batch);
    *priority = priority_args(r, batch, NULL);
    return true;
}

static enum dqn_status draw_and_gather(struct dqn_replay *r, struct dqn_queue *q, size_t slot,
                                       struct dqn_replay_batch *batch) {
    struct dqn_queue *home = home_queue(r, q);
    fill_batch(r, slot, batch);
    if (r->staging != NULL) {
        DQN_TRY(dqn_staging_take_counters(r->staging, q));
    }
    const struct dqn_draw_args draw = draw_args(r, batch);
    const struct dqn_gather_args gather = gather_args(r, batch);
    bool gathered = false;
    if (!r->drawn) {
        DQN_TRY(dqn_draw(home, &draw, &gather, &gathered));
    }
    r->drawn = true;
    if (!gathered) {
        DQN_TRY(r->device->backend->replay->gather(home, &gather));
    }
    r->drawn = false;
    return r->staging != NULL ? dqn_staging_give_batch(r->staging, q, slot, batch) : DQN_OK;
}

/* A clock that stands still while the host waits for a device. */
static double work_clock_s(void) {
    return dqn_clock_s() - dqn_queue_waited_s();
}

enum dqn_status dqn_replay_sample(struct dqn_replay *r, struct dqn_queue *q, size_t slot,
                                  struct dqn_replay_batch *batch) {
    if (slot != r->n_sampled || slot >= r->o.n_batches) {
        return dqn_fail(DQN_ERR_STATE, "batch %zu of %zu was sampled out of turn", slot,
                        r->o.n_batches);
    }
    const double begun = work_clock_s();
    enum dqn_status status = draw_and_gather(r, q, slot, batch);
    if (shall_move(r, q, status)) {
        DQN_TRY(dqn_replay_move(r, q));
        status = draw_and_gather(r, q, slot, batch);
    }
    r->n_sampled += status == DQN_OK;
    r->clock.sample_s += work_clock_s() - begun;
    return status;
}

static enum dqn_status update_slots(struct dqn_replay *r, struct dqn_queue *q, const uint32_t *ok) {
    struct dqn_queue *home = home_queue(r, q);
    if (r->staging != NULL && r->n_sampled > 0) {
        DQN_TRY(dqn_staging_take_errors(r->staging, q, r->td->data, ok, &ok));
    }
    for (size_t slot = 0; slot < r->n_sampled; slot++) {
        struct dqn_replay_batch batch;
        fill_batch(r, slot, &batch);
        const struct dqn_priority_args args = priority_args(r, &batch, ok);
        DQN_TRY(r->device->backend->sampler->update(home, &args));
    }
    return r->staging != NULL && r->n_sampled > 0 ? dqn_staging_give_counters(r->staging, q)
                                                  : DQN_OK;
}

enum dqn_status dqn_replay_update(struct dqn_replay *r, struct dqn_queue *q, const uint32_t *ok) {
    const double begun = work_clock_s();
    enum dqn_status status = update_slots(r, q, ok);
    if (shall_move(r, q, status)) {
        DQN_TRY(dqn_replay_move(r, q));
        status = update_slots(r, q, ok);
    }
    DQN_TRY(status);
    r->n_sampled = 0;
    r->clock.update_s += work_clock_s() - begun;
    return DQN_OK;
}

struct dqn_replay_clock dqn_replay_clock(const struct dqn_replay *r) {
    return r->clock;
}

size_t dqn_replay_size(const struct dqn_replay *r) {
    const uint64_t capacity = (uint64_t)r->config.capacity;
    return (size_t)(r->rows < capacity ? r->rows : capacity);
}

size_t dqn_replay_capacity(const struct dqn_replay *r) {
    return (size_t)r->config.capacity;
}

enum dqn_status dqn_replay_restore(struct dqn_replay *r, struct dqn_queue *q,
                                   uint64_t rows_inserted) {
    r->rows = rows_inserted;
    r->rows_ahead = 0;
    const struct dqn_rebuild_args args = {
        .sampler = r->sampler, .ring = r->ring->data, .priorities = r->priorities->data};
    const enum dqn_status status = r->device->backend->sampler->rebuild(home_queue(r, q), &args);
    return shall_move(r, q, status) ? dqn_replay_move(r, q) : status;
}
