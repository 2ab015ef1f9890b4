#include "readback.h"

#include <stdio.h>
#include <stdlib.h>

struct dqn_readback {
    size_t n_sources;
    struct dqn_buffer *source[DQN_READBACK_MAX];
    struct dqn_buffer *snapshot[DQN_READBACK_MAX]; /* on the device */
    struct dqn_buffer *host[DQN_READBACK_MAX];     /* pinned */
    const struct dqn_queue_ops *ops;
    struct dqn_queue *second;
    struct dqn_event *taken;   /* the snapshot is complete on the device */
    struct dqn_event *carried; /* it has reached the host; its device copy may be overwritten */
    bool in_flight;
};

static enum dqn_status register_copies(struct dqn_readback *r, struct dqn_arena *arena,
                                       const struct dqn_device *device) {
    for (size_t i = 0; i < r->n_sources; i++) {
        char name[96];
        snprintf(name, sizeof name, "readback/device/%zu", i);
        DQN_TRY(
            dqn_arena_add(arena, &r->snapshot[i], device, DQN_U8, 0, name, 1, r->source[i]->bytes));
        snprintf(name, sizeof name, "readback/host/%zu", i);
        DQN_TRY(dqn_arena_add(arena, &r->host[i], device, DQN_U8, DQN_BUFFER_PINNED, name, 1,
                              r->source[i]->bytes));
    }
    return DQN_OK;
}

enum dqn_status dqn_readback_create(struct dqn_readback **out, struct dqn_arena *arena,
                                    const struct dqn_device *device, size_t n_sources,
                                    struct dqn_buffer *const *sources) {
    DQN_CHECK(n_sources <= DQN_READBACK_MAX);
    struct dqn_readback *r = NULL;
    enum dqn_status status = dqn_alloc((void **)&r, 1, sizeof *r, "the readback");
    if (status != DQN_OK) {
        return status;
    }
    r->n_sources = n_sources;
    for (size_t i = 0; i < n_sources; i++) {
        r->source[i] = sources[i];
    }
    r->ops = device->backend->queue;
    DQN_TRY_GOTO(register_copies(r, arena, device));
    DQN_TRY_GOTO(r->ops->create(device, &r->second));
    DQN_TRY_GOTO(r->ops->event_create(device, &r->taken));
    DQN_TRY_GOTO(r->ops->event_create(device, &r->carried));
    *out = r;
done:
    if (status != DQN_OK) {
        dqn_readback_destroy(r);
    }
    return status;
}

void dqn_readback_destroy(struct dqn_readback *r) {
    if (r == NULL) {
        return;
    }
    if (r->second != NULL) {
        r->ops->destroy(r->second);
    }
    if (r->taken != NULL) {
        r->ops->event_destroy(r->taken);
    }
    if (r->carried != NULL) {
        r->ops->event_destroy(r->carried);
    }
    free(r);
}

enum dqn_status dqn_readback_take(struct dqn_readback *r, struct dqn_queue *q) {
    const struct dqn_memory_ops *memory = q->device->backend->memory;
    if (r->in_flight) {
        DQN_TRY(r->ops->event_wait(q, r->carried));
    }
    for (size_t i = 0; i < r->n_sources; i++) {
        DQN_TRY(memory->copy(q, r->snapshot[i]->data, r->source[i]->data, r->source[i]->bytes,
                             DQN_COPY_ON_DEVICE));
    }
    DQN_TRY(r->ops->event_record(q, r->taken));
    DQN_TRY(r->ops->event_wait(r->second, r->taken));
    for (size_t i = 0; i < r->n_sources; i++) {
        DQN_TRY(memory->copy(r->second, r->host[i]->data, r->snapshot[i]->data,
                             r->snapshot[i]->bytes, DQN_COPY_TO_HOST));
    }
    DQN_TRY(r->ops->event_record(r->second, r->carried));
    r->in_flight = true;
    return DQN_OK;
}

enum dqn_status dqn_readback_wait(struct dqn_readback *r) {
    return r->ops->wait(r->second);
}

const void *dqn_readback_data(const struct dqn_readback *r, size_t i) {
    return r->host[i]->data;
}
