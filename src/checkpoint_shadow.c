/* A second copy of the saved buffers on their device: taken in order with the queue's work at the
 * device's own speed, then read by a queue of its own while training goes on. */
#include "checkpoint_shadow.h"

#include <stdlib.h>

#include "backend.h"
#include "checkpoint_parts.h"

struct dqn_shadow {
    const struct dqn_device *device;
    struct dqn_queue *queue;
    struct dqn_event *taken;
    size_t n;
    void **copies;  /* [n], as in the snapshot */
    uint64_t bytes; /* of all copies */
};

/* True when every saved buffer lives in this device's own memory. */
static bool lives_there(const struct dqn_snapshot *snapshot, const struct dqn_device *device) {
    for (size_t i = 0; i < snapshot->n_buffers; i++) {
        if (!dqn_buffer_is_on(snapshot->buffers[i].buffer, device)) {
            return false;
        }
    }
    return snapshot->n_buffers > 0;
}

static uint64_t sum_bytes(const struct dqn_snapshot *snapshot) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->n_buffers; i++) {
        bytes += snapshot->buffers[i].buffer->bytes;
    }
    return bytes;
}

/* The buffers and a twentieth of the device, which libraries and the display may want. */
static bool fits(const struct dqn_snapshot *snapshot, const struct dqn_device *device) {
    const uint64_t bytes = sum_bytes(snapshot);
    uint64_t available = 0, total = 0;
    return device->backend->memory->info(device, &available, &total) == DQN_OK &&
           available >= total / 20 && available - total / 20 >= bytes;
}

static enum dqn_status fill(struct dqn_shadow *shadow, const struct dqn_snapshot *snapshot) {
    const struct dqn_backend *backend = shadow->device->backend;
    DQN_TRY(backend->queue->create(shadow->device, &shadow->queue));
    DQN_TRY(backend->queue->event_create(shadow->device, &shadow->taken));
    for (size_t i = 0; i < snapshot->n_buffers; i++) {
        const size_t bytes = snapshot->buffers[i].buffer->bytes;
        DQN_TRY(backend->memory->alloc(shadow->device, &shadow->copies[i], bytes > 0 ? bytes : 1,
                                       false));
    }
    return DQN_OK;
}

void dqn_shadow_create(struct dqn_shadow **out, const struct dqn_snapshot *snapshot,
                       const struct dqn_device *device) {
    struct dqn_shadow *shadow = NULL;
    *out = NULL;
    if (!lives_there(snapshot, device) || !fits(snapshot, device) ||
        dqn_alloc((void **)&shadow, 1, sizeof *shadow, "the checkpoints' shadow") != DQN_OK) {
        return;
    }
    shadow->device = device;
    shadow->n = snapshot->n_buffers;
    shadow->bytes = sum_bytes(snapshot);
    if (dqn_alloc((void **)&shadow->copies, shadow->n, sizeof *shadow->copies,
                  "the checkpoints' shadow") != DQN_OK ||
        fill(shadow, snapshot) != DQN_OK) {
        dqn_shadow_destroy(shadow);
        return;
    }
    *out = shadow;
}

void dqn_shadow_destroy(struct dqn_shadow *shadow) {
    if (shadow == NULL) {
        return;
    }
    const struct dqn_backend *backend = shadow->device->backend;
    for (size_t i = 0; shadow->copies != NULL && i < shadow->n; i++) {
        if (shadow->copies[i] != NULL) {
            backend->memory->free(shadow->device, shadow->copies[i], false);
        }
    }
    backend->queue->event_destroy(shadow->taken);
    backend->queue->destroy(shadow->queue);
    free(shadow->copies);
    free(shadow);
}

uint64_t dqn_shadow_bytes(const struct dqn_shadow *shadow) {
    return shadow != NULL ? shadow->bytes : 0;
}

enum dqn_status dqn_shadow_take(struct dqn_shadow *shadow, const struct dqn_snapshot *snapshot,
                                struct dqn_queue *q) {
    const struct dqn_backend *backend = shadow->device->backend;
    for (size_t i = 0; i < shadow->n; i++) {
        const struct dqn_buffer *buffer = snapshot->buffers[i].buffer;
        DQN_TRY(backend->memory->copy(q, shadow->copies[i], buffer->data, buffer->bytes,
                                      DQN_COPY_ON_DEVICE));
    }
    DQN_TRY(backend->queue->event_record(q, shadow->taken));
    DQN_TRY(backend->queue->event_wait(shadow->queue, shadow->taken));
    for (size_t i = 0; i < shadow->n; i++) {
        const struct dqn_staged_buffer *staged = &snapshot->buffers[i];
        DQN_TRY(backend->memory->copy(shadow->queue, staged->copy, shadow->copies[i],
                                      staged->buffer->bytes, DQN_COPY_TO_HOST));
    }
    return DQN_OK;
}

enum dqn_status dqn_shadow_wait(struct dqn_shadow *shadow) {
    return shadow->device->backend->queue->wait(shadow->queue);
}
