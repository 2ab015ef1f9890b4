#include "replay.h"

#include <stdlib.h>

#include "shared/priority.h"

struct dqn_replay {
    struct dqn_config_replay config;
    struct dqn_replay_options o;
    const struct dqn_device *device;
    struct dqn_sampler *sampler;
    /* the ring */
    struct dqn_buffer *states, *next_states;                  /* [K, N, O] */
    struct dqn_buffer *actions, *rewards, *discounts, *dones; /* [K, N] */
    struct dqn_buffer *priorities;                            /* [K, N] */
    struct dqn_buffer *ring;                                  /* [2] struct dqn_ring */
    struct dqn_buffer *priority_seen;                         /* [K] */
    /* a micro-batch, and what lives until the priority update */
    struct dqn_buffer *state, *next;                      /* [K, B, obs_ld] */
    struct dqn_buffer *action, *reward, *discount, *done; /* [K, B] */
    struct dqn_buffer *weight;                            /* [K, B] */
    struct dqn_buffer *index, *td;                        /* [M, K, B] */
    /* the host's view */
    size_t size;
    size_t n_sampled; /* slots that wait for their priority update */
};

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
    const struct dqn_device *device = r->device;
    const size_t k = r->o.n_agents, b = r->o.batch, m = r->o.n_batches, ld = r->o.obs_ld;
    DQN_TRY(dqn_arena_add(arena, &r->state, device, DQN_F32, 0, "batch/state", 3, k, b, ld));
    DQN_TRY(dqn_arena_add(arena, &r->next, device, DQN_F32, 0, "batch/next", 3, k, b, ld));
    DQN_TRY(dqn_arena_add(arena, &r->action, device, DQN_U32, 0, "batch/action", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->reward, device, DQN_F32, 0, "batch/reward", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->discount, device, DQN_F32, 0, "batch/discount", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->done, device, DQN_U8, 0, "batch/done", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->weight, device, DQN_F32, 0, "batch/weight", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &r->index, device, DQN_I64, 0, "batch/index", 3, m, k, b));
    return dqn_arena_add(arena, &r->td, device, DQN_F32, 0, "batch/td", 3, m, k, b);
}

static enum dqn_status create_parts(struct dqn_replay *r, struct dqn_arena *arena) {
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
    r->device = device;
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
    free(r);
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
        backend->memory->copy(q, agents, r->o.agents->data, k * sizeof *agents, DQN_COPY_TO_HOST));
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
    DQN_TRY(start_priority_seen(r, q));
    return r->device->backend->sampler->prepare(r->sampler, q);
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

enum dqn_status dqn_replay_insert(struct dqn_replay *r, struct dqn_queue *q,
                                  const struct dqn_replay_rows *rows, size_t count) {
    const struct dqn_backend *backend = r->device->backend;
    if (count > (size_t)r->config.capacity) {
        return dqn_fail(DQN_ERR_STATE, "%zu rows do not fit into a replay of %lld", count,
                        (long long)r->config.capacity);
    }
    if (r->n_sampled > 0) {
        return dqn_fail(DQN_ERR_STATE,
                        "rows were inserted between a sample and its priority update");
    }
    const struct dqn_insert_args insert = {.n_agents = r->o.n_agents,
                                           .capacity = (size_t)r->config.capacity,
                                           .obs = r->o.obs,
                                           .count = count,
                                           .rows = columns(r),
                                           .ring = r->ring->data,
                                           .priority_seen = r->priority_seen->data,
                                           .row_state = rows->state,
                                           .row_next = rows->next,
                                           .row_action = rows->action,
                                           .row_reward = rows->reward,
                                           .row_discount = rows->discount,
                                           .row_done = rows->done};
    DQN_TRY(backend->replay->insert(q, &insert));
    const struct dqn_inserted_args inserted = {.sampler = r->sampler,
                                               .count = count,
                                               .ring = r->ring->data,
                                               .priorities = r->priorities->data};
    return backend->sampler->inserted(q, &inserted);
}

void dqn_replay_note_inserted(struct dqn_replay *r, size_t count) {
    const size_t capacity = (size_t)r->config.capacity;
    r->size = count < capacity - r->size ? r->size + count : capacity;
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

enum dqn_status dqn_replay_sample(struct dqn_replay *r, struct dqn_queue *q, size_t slot,
                                  struct dqn_replay_batch *batch) {
    const struct dqn_backend *backend = r->device->backend;
    if (slot != r->n_sampled || slot >= r->o.n_batches) {
        return dqn_fail(DQN_ERR_STATE, "batch %zu of %zu was sampled out of turn", slot,
                        r->o.n_batches);
    }
    fill_batch(r, slot, batch);
    const struct dqn_draw_args draw = {.sampler = r->sampler,
                                       .agents = r->o.agents->data,
                                       .counters = r->o.counters->data,
                                       .ring = r->ring->data,
                                       .priorities = r->priorities->data,
                                       .index = batch->index,
                                       .weight = batch->weight};
    DQN_TRY(backend->sampler->draw(q, &draw));
    const struct dqn_gather_args gather = {.n_agents = r->o.n_agents,
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
    DQN_TRY(backend->replay->gather(q, &gather));
    r->n_sampled++;
    return DQN_OK;
}

enum dqn_status dqn_replay_update(struct dqn_replay *r, struct dqn_queue *q, const uint32_t *ok) {
    for (size_t slot = 0; slot < r->n_sampled; slot++) {
        struct dqn_replay_batch batch;
        fill_batch(r, slot, &batch);
        const struct dqn_priority_args args = {.sampler = r->sampler,
                                               .batch = r->o.batch,
                                               .agents = r->o.agents->data,
                                               .counters = r->o.counters->data,
                                               .ring = r->ring->data,
                                               .index = batch.index,
                                               .td = batch.td,
                                               .ok = ok,
                                               .priorities = r->priorities->data,
                                               .priority_seen = r->priority_seen->data};
        DQN_TRY(r->device->backend->sampler->update(q, &args));
    }
    r->n_sampled = 0;
    return DQN_OK;
}

size_t dqn_replay_size(const struct dqn_replay *r) {
    return r->size;
}

size_t dqn_replay_capacity(const struct dqn_replay *r) {
    return (size_t)r->config.capacity;
}

enum dqn_status dqn_replay_restore(struct dqn_replay *r, struct dqn_queue *q,
                                   uint64_t rows_inserted) {
    const uint64_t capacity = (uint64_t)r->config.capacity;
    r->size = (size_t)(rows_inserted < capacity ? rows_inserted : capacity);
    const struct dqn_rebuild_args args = {
        .sampler = r->sampler, .ring = r->ring->data, .priorities = r->priorities->data};
    return r->device->backend->sampler->rebuild(q, &args);
}
