#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

struct dqn_arena {
    struct dqn_buffer **buffers; /* [capacity], handles stay where they are */
    size_t n, capacity;
    bool committed;
};

size_t dqn_dtype_bytes(enum dqn_dtype dtype) {
    switch (dtype) {
    case DQN_U8:
        return 1;
    case DQN_U32:
    case DQN_F32:
        return 4;
    case DQN_I64:
    case DQN_U64:
    case DQN_F64:
        return 8;
    }
    return 0;
}

const char *dqn_dtype_name(enum dqn_dtype dtype) {
    static const char *const names[] = {"u8", "u32", "i64", "u64", "f32", "f64"};
    return (size_t)dtype < DQN_COUNT_OF(names) ? names[dtype] : "unknown";
}

enum dqn_status dqn_arena_create(struct dqn_arena **out) {
    return dqn_alloc((void **)out, 1, sizeof **out, "the arena");
}

static void release(struct dqn_buffer *buffer) {
    if (buffer->data == NULL) {
        return;
    }
    if (buffer->device == NULL) {
        free(buffer->data);
    } else {
        buffer->device->backend->memory->free(buffer->device, buffer->data,
                                              (buffer->flags & DQN_BUFFER_PINNED) != 0);
    }
    buffer->data = NULL;
}

void dqn_arena_destroy(struct dqn_arena *arena) {
    if (arena == NULL) {
        return;
    }
    for (size_t i = 0; i < arena->n; i++) {
        release(arena->buffers[i]);
        free(arena->buffers[i]);
    }
    free(arena->buffers);
    free(arena);
}

static enum dqn_status reserve_handle(struct dqn_arena *arena) {
    if (arena->n < arena->capacity) {
        return DQN_OK;
    }
    const size_t capacity = arena->capacity > 0 ? 2 * arena->capacity : 64;
    struct dqn_buffer **buffers = realloc(arena->buffers, capacity * sizeof(struct dqn_buffer *));
    if (buffers == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no memory for a list of %zu buffers", capacity);
    }
    arena->buffers = buffers;
    arena->capacity = capacity;
    return DQN_OK;
}

static enum dqn_status check_name(const struct dqn_arena *arena, const char *name) {
    if (arena->committed) {
        return dqn_fail(DQN_ERR_STATE, "buffer %s comes after the arena's commit", name);
    }
    if (strlen(name) >= sizeof arena->buffers[0]->name) {
        return dqn_fail(DQN_ERR_STATE, "the name of buffer %s is longer than %zu bytes", name,
                        sizeof arena->buffers[0]->name - 1);
    }
    if (dqn_arena_find(arena, name) != NULL) {
        return dqn_fail(DQN_ERR_STATE, "there already is a buffer %s", name);
    }
    return DQN_OK;
}

enum dqn_status dqn_arena_add(struct dqn_arena *arena, struct dqn_buffer **out,
                              const struct dqn_device *device, enum dqn_dtype dtype, int flags,
                              const char *name, int rank, ...) {
    DQN_CHECK(rank >= 0 && rank <= DQN_MAX_RANK);
    DQN_TRY(check_name(arena, name));
    DQN_TRY(reserve_handle(arena));
    struct dqn_buffer *buffer = NULL;
    DQN_TRY(dqn_alloc((void **)&buffer, 1, sizeof *buffer, name));
    *buffer =
        (struct dqn_buffer){.dtype = dtype, .flags = flags, .rank = rank, .device = device};
    snprintf(buffer->name, sizeof buffer->name, "%s", name);
    buffer->bytes = dqn_dtype_bytes(dtype);
    enum dqn_status status = DQN_OK;
    va_list extents;
    va_start(extents, rank);
    for (int i = 0; i < rank && status == DQN_OK; i++) {
        buffer->shape[i] = va_arg(extents, size_t);
        status = dqn_size_mul(buffer->bytes, buffer->shape[i], &buffer->bytes);
    }
    va_end(extents);
    if (status != DQN_OK) {
        free(buffer);
        return dqn_fail_prefix(status, "buffer %s", name);
    }
    arena->buffers[arena->n++] = buffer;
    *out = buffer;
    return DQN_OK;
}

static enum dqn_status allocate(struct dqn_buffer *buffer) {
    const size_t bytes = buffer->bytes > 0 ? buffer->bytes : 1;
    if (buffer->device != NULL) {
        const enum dqn_status status = buffer->device->backend->memory->alloc(
            buffer->device, &buffer->data, bytes, (buffer->flags & DQN_BUFFER_PINNED) != 0);
        return status == DQN_OK ? status : dqn_fail_prefix(status, "buffer %s", buffer->name);
    }
    const size_t rounded = (bytes + 63) / 64 * 64;
    buffer->data = rounded >= bytes ? aligned_alloc(64, rounded) : NULL;
    if (buffer->data == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no host memory for buffer %s: %zu bytes were asked for",
                        buffer->name, bytes);
    }
    memset(buffer->data, 0, rounded);
    return DQN_OK;
}

enum dqn_status dqn_arena_commit(struct dqn_arena *arena, const struct dqn_buffer **failed) {
    if (arena->committed) {
        return dqn_fail(DQN_ERR_STATE, "the arena is committed twice");
    }
    for (size_t i = 0; i < arena->n; i++) {
        const enum dqn_status status = allocate(arena->buffers[i]);
        if (status != DQN_OK) {
            if (failed != NULL) {
                *failed = arena->buffers[i];
            }
            for (size_t j = 0; j < i; j++) {
                release(arena->buffers[j]);
            }
            return status;
        }
    }
    arena->committed = true;
    return DQN_OK;
}

size_t dqn_arena_count(const struct dqn_arena *arena) {
    return arena->n;
}

struct dqn_buffer *dqn_arena_at(const struct dqn_arena *arena, size_t i) {
    return arena->buffers[i];
}

struct dqn_buffer *dqn_arena_find(const struct dqn_arena *arena, const char *name) {
    for (size_t i = 0; i < arena->n; i++) {
        if (strcmp(arena->buffers[i]->name, name) == 0) {
            return arena->buffers[i];
        }
    }
    return NULL;
}

uint64_t dqn_arena_planned_bytes(const struct dqn_arena *arena, const struct dqn_device *device) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < arena->n; i++) {
        if (arena->buffers[i]->device == device) {
            bytes += arena->buffers[i]->bytes;
        }
    }
    return bytes;
}
