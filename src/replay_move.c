/* How a replay whose operations fail on its device goes on at another one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay_parts.h"

bool dqn_replay_failed(const struct dqn_replay *r) {
    return r->failed;
}

bool dqn_replay_has_moved(const struct dqn_replay *r) {
    return r->own != NULL;
}

const char *dqn_replay_why_moved(const struct dqn_replay *r) {
    return r->why;
}

const struct dqn_device *dqn_replay_device(const struct dqn_replay *r) {
    return r->device;
}

/* An empty replay on the refuge, with an arena of its own. */
static enum dqn_status create_at_refuge(const struct dqn_replay *r, struct dqn_queue *q,
                                        struct dqn_replay **out) {
    struct dqn_arena *arena = NULL;
    struct dqn_replay *fresh = NULL;
    struct dqn_replay_options options = r->o;
    options.config = &r->config;
    enum dqn_status status = dqn_arena_create(&arena);
    DQN_TRY(status);
    DQN_TRY_GOTO(dqn_replay_create(&fresh, arena, r->o.refuge, &options));
    DQN_TRY_GOTO(dqn_arena_commit(arena, NULL));
    DQN_TRY_GOTO(dqn_replay_prepare(fresh, q));
    fresh->own = arena;
    *out = fresh;
done:
    if (status != DQN_OK) {
        dqn_replay_destroy(fresh);
        dqn_arena_destroy(arena);
    }
    return status;
}

/* Ring, priorities and what else a checkpoint would hold: on the refuge, host memory. */
static enum dqn_status copy_saved(const struct dqn_replay *r, struct dqn_queue *q,
                                  struct dqn_replay *fresh) {
    const struct dqn_memory_ops *memory = q->device->backend->memory;
    for (size_t i = 0; i < dqn_arena_count(fresh->own); i++) {
        struct dqn_buffer *to = dqn_arena_at(fresh->own, i);
        const struct dqn_buffer *from = dqn_arena_find(r->arena, to->name);
        if ((to->flags & DQN_BUFFER_SAVED) != 0 && from != NULL && from->bytes == to->bytes) {
            DQN_TRY(memory->copy(q, to->data, from->data, to->bytes, DQN_COPY_TO_HOST));
        }
    }
    return DQN_OK;
}

/* What waits for its gathering or its priority update: rows drawn, and their TD errors. */
static enum dqn_status copy_sampled(const struct dqn_replay *r, struct dqn_queue *q,
                                    struct dqn_replay *fresh) {
    const struct dqn_memory_ops *memory = q->device->backend->memory;
    struct dqn_buffer *td = dqn_staging_errors(fresh->staging);
    DQN_TRY(
        memory->copy(q, fresh->weight->data, r->weight->data, r->weight->bytes, DQN_COPY_TO_HOST));
    DQN_TRY(memory->copy(q, fresh->index->data, r->index->data, r->index->bytes, DQN_COPY_TO_HOST));
    return memory->copy(q, td->data, r->td->data, td->bytes, DQN_COPY_ON_DEVICE);
}

/* Where the ring stood before the operation that failed, by the host's count. */
static void set_ring(const struct dqn_replay *r, struct dqn_replay *fresh) {
    const uint64_t capacity = (uint64_t)r->config.capacity, rows = r->rows + r->rows_ahead;
    const struct dqn_ring ring = {.cursor = rows % capacity,
                                  .size = rows < capacity ? rows : capacity};
    memcpy(fresh->ring->data, &ring, sizeof ring);
    fresh->rows = r->rows;
    fresh->rows_ahead = r->rows_ahead;
    fresh->n_sampled = r->n_sampled;
    fresh->drawn = r->drawn;
    fresh->clock = r->clock;
}

static enum dqn_status fill(const struct dqn_replay *r, struct dqn_queue *q,
                            struct dqn_replay *fresh) {
    struct dqn_queue *home = dqn_staging_queue(fresh->staging);
    DQN_TRY(copy_saved(r, q, fresh));
    DQN_TRY(copy_sampled(r, q, fresh));
    DQN_TRY(q->device->backend->queue->wait(q));
    set_ring(r, fresh);
    const struct dqn_rebuild_args args = {.sampler = fresh->sampler,
                                          .ring = fresh->ring->data,
                                          .priorities = fresh->priorities->data};
    DQN_TRY(fresh->device->backend->sampler->rebuild(home, &args));
    return home->device->backend->queue->wait(home);
}

enum dqn_status dqn_replay_move(struct dqn_replay *r, struct dqn_queue *q) {
    DQN_CHECK(r->o.refuge != NULL && r->staging == NULL && !q->capturing);
    char why[sizeof r->why];
    snprintf(why, sizeof why, "%s", dqn_error_text());
    if (q->device->backend->queue->wait(q) != DQN_OK) { /* what is there is lost, or undefined */
        return dqn_fail(DQN_ERR_DEVICE, "%s", why);
    }
    struct dqn_replay *fresh = NULL;
    enum dqn_status status = create_at_refuge(r, q, &fresh);
    if (status == DQN_OK) {
        status = fill(r, q, fresh);
    }
    if (status != DQN_OK) {
        dqn_replay_destroy(fresh);
        return dqn_fail_prefix(DQN_ERR_DEVICE, "the replay failed (%s) and cannot be moved", why);
    }
    fresh->arena = r->arena; /* the run's */
    const struct dqn_replay old = *r;
    *r = *fresh;
    *fresh = old;
    dqn_replay_destroy(fresh); /* the old place; its buffers stay until dqn_replay_settle */
    snprintf(r->why, sizeof r->why, "%s", why);
    dqn_warn("the replay failed on its device and goes on at %s, where it is slower: %s",
             r->device->description, why);
    return DQN_OK;
}

enum dqn_status dqn_replay_settle(struct dqn_replay *r) {
    dqn_arena_drop(r->arena, "replay/");
    dqn_arena_drop(r->arena, "sampler/");
    dqn_arena_drop(r->arena, "batch/");
    DQN_TRY(dqn_arena_join(r->arena, r->own));
    dqn_arena_destroy(r->own);
    r->own = NULL;
    return DQN_OK;
}
