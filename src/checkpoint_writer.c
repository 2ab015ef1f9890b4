/* The writer: staging memory for the saved buffers, and the thread that writes files from it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "checkpoint_parts.h"
#include "checkpoint_shadow.h"
#include "run_folder.h"

struct dqn_checkpoint_writer {
    const struct dqn_file_ops *ops;
    struct dqn_snapshot snapshot; /* the thread's while busy, else the caller's */
    struct dqn_shadow *shadow;    /* NULL: the buffers themselves are read */
    char folder[DQN_TEXT_MAX];
    struct dqn_checkpoint_request request; /* its folder points above */

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool busy, stop;
    enum dqn_status error; /* of the latest write; taken by the next wait */
    char error_text[2048];
};

static bool is_staged(const struct dqn_buffer *buffer, bool with_replay) {
    return (buffer->flags & DQN_BUFFER_SAVED) != 0 &&
           (with_replay || (buffer->flags & DQN_BUFFER_REPLAY) == 0);
}

uint64_t dqn_checkpoint_bytes(const struct dqn_arena *arena, bool with_replay) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < dqn_arena_count(arena); i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(arena, i);
        bytes += is_staged(buffer, with_replay) ? buffer->bytes : 0;
    }
    return bytes;
}

uint64_t dqn_checkpoint_device_bytes(const struct dqn_arena *arena, bool with_replay,
                                     const struct dqn_device *device) {
    for (size_t i = 0; i < dqn_arena_count(arena); i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(arena, i);
        if (is_staged(buffer, with_replay) && !dqn_buffer_is_on(buffer, device)) {
            return 0;
        }
    }
    return dqn_checkpoint_bytes(arena, with_replay);
}

/* ---- copies ---- */

static bool in_host_memory(const struct dqn_buffer *buffer) {
    return buffer->device == NULL || (buffer->flags & DQN_BUFFER_PINNED) != 0;
}

static enum dqn_status copy(const struct dqn_buffer *buffer, struct dqn_queue *q, void *to,
                            const void *from, enum dqn_copy_kind kind) {
    const struct dqn_device *device = buffer->device;
    if (buffer->bytes == 0) {
        return DQN_OK;
    }
    if (in_host_memory(buffer)) {
        memcpy(to, from, buffer->bytes);
        return DQN_OK;
    }
    if (q != NULL && q->device == device) {
        return device->backend->memory->copy(q, to, from, buffer->bytes, kind);
    }
    /* A buffer of another device (a replay in host memory beside a GPU): on a queue of its own. */
    struct dqn_queue *own = NULL;
    DQN_TRY(device->backend->queue->create(device, &own));
    enum dqn_status status = device->backend->memory->copy(own, to, from, buffer->bytes, kind);
    if (status == DQN_OK) {
        status = device->backend->queue->wait(own);
    }
    device->backend->queue->destroy(own);
    return status;
}

enum dqn_status dqn_buffer_to_host(const struct dqn_buffer *buffer, struct dqn_queue *q, void *to) {
    return copy(buffer, q, to, buffer->data, DQN_COPY_TO_HOST);
}

enum dqn_status dqn_buffer_from_host(const struct dqn_buffer *buffer, struct dqn_queue *q,
                                     const void *from) {
    return copy(buffer, q, buffer->data, from, DQN_COPY_TO_DEVICE);
}

/* ---- staging ---- */

/* Page-locked memory of the buffer's device where it is to be had, else plain memory. */
static enum dqn_status stage_alloc(struct dqn_staged_buffer *staged) {
    const struct dqn_buffer *buffer = staged->buffer;
    const size_t bytes = buffer->bytes > 0 ? buffer->bytes : 1;
    if (!in_host_memory(buffer)) {
        const struct dqn_device *device = buffer->device;
        staged->pinned =
            device->backend->memory->alloc(device, &staged->copy, bytes, true) == DQN_OK;
    }
    return staged->pinned ? DQN_OK : dqn_alloc(&staged->copy, bytes, 1, buffer->name);
}

static enum dqn_status stage_all(struct dqn_snapshot *snapshot, const struct dqn_arena *arena) {
    const size_t count = dqn_arena_count(arena);
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, count + 1, sizeof *snapshot->buffers, "list of saved buffers"));
    snapshot->buffers = memory;
    for (size_t i = 0; i < count; i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(arena, i);
        if (is_staged(buffer, snapshot->with_replay)) {
            struct dqn_staged_buffer *staged = &snapshot->buffers[snapshot->n_buffers++];
            staged->buffer = buffer;
            DQN_TRY(stage_alloc(staged));
        }
    }
    return DQN_OK;
}

static void stage_free(struct dqn_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->n_buffers; i++) {
        struct dqn_staged_buffer *staged = &snapshot->buffers[i];
        if (staged->pinned) {
            const struct dqn_device *device = staged->buffer->device;
            device->backend->memory->free(device, staged->copy, true);
        } else {
            free(staged->copy);
        }
    }
    free(snapshot->buffers);
    dqn_snapshot_clear(snapshot);
}

static enum dqn_status wait_queue(struct dqn_queue *q) {
    return q != NULL ? q->device->backend->queue->wait(q) : DQN_OK;
}

/* Device buffers are copied behind the queue's work; plain memory once that work is done. */
static enum dqn_status stage_copy(struct dqn_snapshot *snapshot, struct dqn_queue *q) {
    for (int host = 0; host < 2; host++) {
        for (size_t i = 0; i < snapshot->n_buffers; i++) {
            const struct dqn_staged_buffer *staged = &snapshot->buffers[i];
            if (in_host_memory(staged->buffer) == (host == 1)) {
                DQN_TRY(dqn_buffer_to_host(staged->buffer, q, staged->copy));
            }
        }
        if (host == 0) {
            DQN_TRY(wait_queue(q));
        }
    }
    return DQN_OK;
}

/* ---- the thread ---- */

static enum dqn_status write_request(struct dqn_checkpoint_writer *w) {
    const struct dqn_checkpoint_request *request = &w->request;
    char path[DQN_TEXT_MAX];
    if (w->shadow != NULL) {
        DQN_TRY(dqn_shadow_wait(w->shadow));
    }
    DQN_TRY(
        dqn_run_folder_file(path, sizeof path, request->folder, request->epochs, request->partial));
    DQN_TRY(dqn_snapshot_write(&w->snapshot, path, w->ops));
    if (request->best) {
        DQN_TRY(dqn_run_folder_set_best(request->folder, path, w->ops));
    }
    /* The checkpoint is safe; files too many are no reason to end the run. */
    if (dqn_run_folder_prune(request->folder, path, request->keep_last, w->ops) != DQN_OK) {
        dqn_warn("old checkpoints stay: %s", dqn_error_text());
    }
    return DQN_OK;
}

static void *thread_main(void *argument) {
    struct dqn_checkpoint_writer *w = argument;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->busy && !w->stop) {
            pthread_cond_wait(&w->changed, &w->lock);
        }
        if (!w->busy) {
            break;
        }
        pthread_mutex_unlock(&w->lock);
        const enum dqn_status status = write_request(w);
        pthread_mutex_lock(&w->lock);
        w->error = status;
        if (status != DQN_OK) {
            snprintf(w->error_text, sizeof w->error_text, "%s", dqn_error_text());
        }
        w->busy = false;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

enum dqn_status dqn_checkpoint_wait(struct dqn_checkpoint_writer *w) {
    pthread_mutex_lock(&w->lock);
    while (w->busy) {
        pthread_cond_wait(&w->changed, &w->lock);
    }
    const enum dqn_status status = w->error;
    w->error = DQN_OK;
    pthread_mutex_unlock(&w->lock);
    return status == DQN_OK ? DQN_OK : dqn_fail(status, "%s", w->error_text);
}

enum dqn_status dqn_checkpoint_save(struct dqn_checkpoint_writer *w, struct dqn_queue *q,
                                    const struct dqn_checkpoint_content *content,
                                    const struct dqn_checkpoint_request *request) {
    DQN_TRY(dqn_checkpoint_wait(w));
    if (strlen(request->folder) >= sizeof w->folder) {
        return dqn_fail(DQN_ERR_DISK, "%s: the path is longer than %zu bytes; use a shorter one",
                        request->folder, sizeof w->folder - 1);
    }
    DQN_TRY(w->shadow != NULL ? dqn_shadow_take(w->shadow, &w->snapshot, q)
                              : stage_copy(&w->snapshot, q));
    DQN_TRY(dqn_snapshot_copy(&w->snapshot, content));
    snprintf(w->folder, sizeof w->folder, "%s", request->folder);
    w->request = *request;
    w->request.folder = w->folder;
    w->snapshot.epochs = request->epochs;
    w->snapshot.partial = request->partial;
    pthread_mutex_lock(&w->lock);
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return DQN_OK;
}

/* ---- life ---- */

enum dqn_status dqn_checkpoint_writer_create(struct dqn_checkpoint_writer **out,
                                             const struct dqn_arena *arena, bool with_replay,
                                             const struct dqn_file_ops *ops) {
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof **out, "checkpoint writer"));
    struct dqn_checkpoint_writer *w = memory;
    w->ops = ops;
    w->snapshot.with_replay = with_replay;
    enum dqn_status status = stage_all(&w->snapshot, arena);
    if (status == DQN_OK) {
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->changed, NULL);
        const int error = pthread_create(&w->thread, NULL, thread_main, w);
        if (error == 0) {
            *out = w;
            return DQN_OK;
        }
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
        status = dqn_fail(DQN_ERR_INTERNAL, "the checkpoint writer's thread cannot be started: %s",
                          strerror(error));
    }
    stage_free(&w->snapshot);
    free(w);
    return status;
}

void dqn_checkpoint_writer_overlap(struct dqn_checkpoint_writer *w,
                                   const struct dqn_device *device) {
    if (w->shadow == NULL) {
        dqn_shadow_create(&w->shadow, &w->snapshot, device);
    }
}

bool dqn_checkpoint_writer_overlaps(const struct dqn_checkpoint_writer *w) {
    return w->shadow != NULL;
}

uint64_t dqn_checkpoint_writer_device_bytes(const struct dqn_checkpoint_writer *w) {
    return dqn_shadow_bytes(w->shadow);
}

void dqn_checkpoint_writer_destroy(struct dqn_checkpoint_writer *w) {
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    dqn_shadow_destroy(w->shadow);
    stage_free(&w->snapshot);
    free(w);
}
