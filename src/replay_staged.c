#include "replay_staged.h"

#include <stdlib.h>

struct dqn_staging {
    struct dqn_replay_options o;
    const struct dqn_device *host;
    struct dqn_queue *queue; /* of the replay's device */
    /* in the replay's memory, page-locked for the learner's device */
    struct dqn_buffer *agents, *counters;                                 /* [K] */
    struct dqn_buffer *row_state, *row_next;                              /* [K, rows, O] */
    struct dqn_buffer *row_action, *row_reward, *row_discount, *row_done; /* [K, rows] */
    struct dqn_buffer *ok;                                                /* [K] */
    /* on the learner's device */
    struct dqn_buffer *state, *next;                               /* [K, B, obs_ld] */
    struct dqn_buffer *action, *reward, *discount, *done, *weight; /* [K, B] */
    struct dqn_buffer *td;                                         /* [M, K, B] */
};

static enum dqn_status register_staging(struct dqn_staging *s, struct dqn_arena *arena) {
    const struct dqn_device *device = s->o.learner;
    const size_t k = s->o.n_agents, n = s->o.rows, o = s->o.obs;
    const int pinned = DQN_BUFFER_PINNED;
    DQN_TRY(dqn_arena_add(arena, &s->agents, device, DQN_U64, pinned, "staged/agents", 2, k,
                          sizeof(struct dqn_agent) / sizeof(uint64_t)));
    DQN_TRY(dqn_arena_add(arena, &s->counters, device, DQN_U64, pinned, "staged/counters", 2, k,
                          sizeof(struct dqn_counters) / sizeof(uint64_t)));
    DQN_TRY(dqn_arena_add(arena, &s->row_state, device, DQN_F32, pinned, "staged/row_state", 3, k,
                          n, o));
    DQN_TRY(
        dqn_arena_add(arena, &s->row_next, device, DQN_F32, pinned, "staged/row_next", 3, k, n, o));
    DQN_TRY(dqn_arena_add(arena, &s->row_action, device, DQN_U32, pinned, "staged/row_action", 2, k,
                          n));
    DQN_TRY(dqn_arena_add(arena, &s->row_reward, device, DQN_F32, pinned, "staged/row_reward", 2, k,
                          n));
    DQN_TRY(dqn_arena_add(arena, &s->row_discount, device, DQN_F32, pinned, "staged/row_discount",
                          2, k, n));
    DQN_TRY(dqn_arena_add(arena, &s->row_done, device, DQN_U8, pinned, "staged/row_done", 2, k, n));
    return dqn_arena_add(arena, &s->ok, device, DQN_U32, pinned, "staged/ok", 1, k);
}

static enum dqn_status register_batch(struct dqn_staging *s, struct dqn_arena *arena) {
    const struct dqn_device *device = s->o.learner;
    const size_t k = s->o.n_agents, b = s->o.batch, m = s->o.n_batches, ld = s->o.obs_ld;
    DQN_TRY(dqn_arena_add(arena, &s->state, device, DQN_F32, 0, "staged/state", 3, k, b, ld));
    DQN_TRY(dqn_arena_add(arena, &s->next, device, DQN_F32, 0, "staged/next", 3, k, b, ld));
    DQN_TRY(dqn_arena_add(arena, &s->action, device, DQN_U32, 0, "staged/action", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &s->reward, device, DQN_F32, 0, "staged/reward", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &s->discount, device, DQN_F32, 0, "staged/discount", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &s->done, device, DQN_U8, 0, "staged/done", 2, k, b));
    DQN_TRY(dqn_arena_add(arena, &s->weight, device, DQN_F32, 0, "staged/weight", 2, k, b));
    return dqn_arena_add(arena, &s->td, device, DQN_F32, 0, "staged/td", 3, m, k, b);
}

enum dqn_status dqn_staging_create(struct dqn_staging **out, struct dqn_arena *arena,
                                   const struct dqn_device *host,
                                   const struct dqn_replay_options *options) {
    struct dqn_staging *s = NULL;
    enum dqn_status status = dqn_alloc((void **)&s, 1, sizeof *s, "staging of the replay");
    DQN_TRY(status);
    s->o = *options;
    s->host = host;
    DQN_TRY_GOTO(register_staging(s, arena));
    DQN_TRY_GOTO(register_batch(s, arena));
    DQN_TRY_GOTO(host->backend->queue->create(host, &s->queue));
    *out = s;
done:
    if (status != DQN_OK) {
        dqn_staging_destroy(s);
    }
    return status;
}

void dqn_staging_destroy(struct dqn_staging *s) {
    if (s == NULL) {
        return;
    }
    if (s->queue != NULL) {
        s->host->backend->queue->destroy(s->queue);
    }
    free(s);
}

struct dqn_queue *dqn_staging_queue(const struct dqn_staging *s) {
    return s->queue;
}

struct dqn_buffer *dqn_staging_agents(const struct dqn_staging *s) {
    return s->agents;
}

struct dqn_buffer *dqn_staging_counters(const struct dqn_staging *s) {
    return s->counters;
}

struct dqn_buffer *dqn_staging_errors(const struct dqn_staging *s) {
    return s->td;
}

/* ---- copies -----------------------------------------------------------------------------------
 */

/* The first `bytes` of what lies on the learner's device into staging memory. */
static enum dqn_status take(struct dqn_queue *q, struct dqn_buffer *to, const void *from,
                            size_t bytes) {
    return q->device->backend->memory->copy(q, to->data, from, bytes, DQN_COPY_TO_HOST);
}

static enum dqn_status give(struct dqn_queue *q, struct dqn_buffer *to, const void *from) {
    return q->device->backend->memory->copy(q, to->data, from, to->bytes, DQN_COPY_TO_DEVICE);
}

static enum dqn_status wait(struct dqn_queue *q) {
    return q->device->backend->queue->wait(q);
}

enum dqn_status dqn_staging_prepare(struct dqn_staging *s, struct dqn_queue *q) {
    DQN_TRY(take(q, s->agents, s->o.agents->data, s->agents->bytes));
    DQN_TRY(take(q, s->counters, s->o.counters->data, s->counters->bytes));
    return wait(q);
}

enum dqn_status dqn_staging_take_rows(struct dqn_staging *s, struct dqn_queue *q,
                                      const struct dqn_replay_rows *rows, size_t count,
                                      struct dqn_replay_rows *here) {
    const size_t n = s->o.n_agents * count;
    if (count > s->o.rows) {
        return dqn_fail(DQN_ERR_STATE, "%zu rows do not fit into the staging memory of %zu", count,
                        s->o.rows);
    }
    DQN_TRY(take(q, s->row_state, rows->state, n * s->o.obs * sizeof(float)));
    DQN_TRY(take(q, s->row_next, rows->next, n * s->o.obs * sizeof(float)));
    DQN_TRY(take(q, s->row_action, rows->action, n * sizeof(uint32_t)));
    DQN_TRY(take(q, s->row_reward, rows->reward, n * sizeof(float)));
    DQN_TRY(take(q, s->row_discount, rows->discount, n * sizeof(float)));
    DQN_TRY(take(q, s->row_done, rows->done, n * sizeof(uint8_t)));
    *here = (struct dqn_replay_rows){.state = s->row_state->data,
                                     .next = s->row_next->data,
                                     .action = s->row_action->data,
                                     .reward = s->row_reward->data,
                                     .discount = s->row_discount->data,
                                     .done = s->row_done->data};
    return wait(q);
}

enum dqn_status dqn_staging_take_counters(struct dqn_staging *s, struct dqn_queue *q) {
    DQN_TRY(take(q, s->counters, s->o.counters->data, s->counters->bytes));
    return wait(q);
}

enum dqn_status dqn_staging_give_batch(struct dqn_staging *s, struct dqn_queue *q, size_t slot,
                                       struct dqn_replay_batch *batch) {
    DQN_TRY(dqn_staging_give_counters(s, q));
    DQN_TRY(give(q, s->state, batch->state));
    DQN_TRY(give(q, s->next, batch->next));
    DQN_TRY(give(q, s->action, batch->action));
    DQN_TRY(give(q, s->reward, batch->reward));
    DQN_TRY(give(q, s->discount, batch->discount));
    DQN_TRY(give(q, s->done, batch->done));
    DQN_TRY(give(q, s->weight, batch->weight));
    batch->state = s->state->data;
    batch->next = s->next->data;
    batch->action = s->action->data;
    batch->reward = s->reward->data;
    batch->discount = s->discount->data;
    batch->done = s->done->data;
    batch->weight = s->weight->data;
    batch->td = (float *)s->td->data + slot * s->o.n_agents * s->o.batch;
    return DQN_OK;
}

enum dqn_status dqn_staging_take_errors(struct dqn_staging *s, struct dqn_queue *q, float *td,
                                        const uint32_t *ok, const uint32_t **here) {
    DQN_TRY(q->device->backend->memory->copy(q, td, s->td->data, s->td->bytes, DQN_COPY_TO_HOST));
    DQN_TRY(take(q, s->ok, ok, s->ok->bytes));
    *here = s->ok->data;
    return dqn_staging_take_counters(s, q);
}

enum dqn_status dqn_staging_give_counters(struct dqn_staging *s, struct dqn_queue *q) {
    DQN_TRY(wait(s->queue));
    return give(q, s->o.counters, s->counters->data);
}
