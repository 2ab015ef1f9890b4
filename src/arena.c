/* The list of a run's buffers, and the one moment that allocates them. */
#include "arena.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

enum { HOST_ALIGNMENT = 64 };

struct dqn_arena {
    struct dqn_buffer **buffers; /* each its own allocation, so that handles stay valid */
    size_t count, capacity;
    bool committed;
};

static const struct {
    const char *name;
    size_t bytes;
} dtype_table[] = {
    [DQN_U8] = {"u8", 1},   [DQN_U32] = {"u32", 4}, [DQN_I64] = {"i64", 8},
    [DQN_U64] = {"u64", 8}, [DQN_F32] = {"f32", 4}, [DQN_F64] = {"f64", 8},
};

size_t dqn_dtype_bytes(enum dqn_dtype dtype) {
    DQN_CHECK((size_t)dtype < DQN_COUNT_OF(dtype_table));
    return dtype_table[dtype].bytes;
}

const char *dqn_dtype_name(enum dqn_dtype dtype) {
    DQN_CHECK((size_t)dtype < DQN_COUNT_OF(dtype_table));
    return dtype_table[dtype].name;
}

enum dqn_status dqn_arena_create(struct dqn_arena **out) {
    return dqn_alloc((void **)out, 1, sizeof **out, "arena");
}

/* An empty buffer still gets an address of its own. */
static size_t allocated_bytes(const struct dqn_buffer *buffer) {
    return buffer->bytes > 0 ? buffer->bytes : 1;
}

static bool is_pinned(const struct dqn_buffer *buffer) {
    return (buffer->flags & DQN_BUFFER_PINNED) != 0;
}

static enum dqn_status buffer_alloc(struct dqn_buffer *buffer) {
    const size_t bytes = allocated_bytes(buffer);
    if (buffer->device != NULL) {
        return buffer->device->backend->memory->alloc(buffer->device, &buffer->data, bytes,
                                                      is_pinned(buffer));
    }
    char text[32];
    dqn_format_bytes(text, sizeof text, bytes);
    if (bytes > SIZE_MAX - HOST_ALIGNMENT) {
        return dqn_fail(DQN_ERR_MEMORY, "no host memory for %s", text);
    }
    const size_t rounded = (bytes + HOST_ALIGNMENT - 1) / HOST_ALIGNMENT * HOST_ALIGNMENT;
    buffer->data = aligned_alloc(HOST_ALIGNMENT, rounded);
    if (buffer->data == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no host memory for %s", text);
    }
    memset(buffer->data, 0, rounded);
    return DQN_OK;
}

static void buffer_free(struct dqn_buffer *buffer) {
    if (buffer->data == NULL) {
        return;
    }
    if (buffer->device != NULL) {
        buffer->device->backend->memory->free(buffer->device, buffer->data, is_pinned(buffer));
    } else {
        free(buffer->data);
    }
    buffer->data = NULL;
}

void dqn_arena_destroy(struct dqn_arena *arena) {
    if (arena == NULL) {
        return;
    }
    for (size_t i = arena->count; i > 0; i--) {
        buffer_free(arena->buffers[i - 1]);
        free(arena->buffers[i - 1]);
    }
    free(arena->buffers);
    free(arena);
}

static enum dqn_status grow(struct dqn_arena *arena) {
    if (arena->count < arena->capacity) {
        return DQN_OK;
    }
    const size_t capacity = arena->capacity > 0 ? 2 * arena->capacity : 32;
    struct dqn_buffer **buffers = realloc(arena->buffers, capacity * sizeof *buffers);
    if (buffers == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "arena: no host memory for a list of %zu buffers",
                        capacity);
    }
    arena->buffers = buffers;
    arena->capacity = capacity;
    return DQN_OK;
}

/* Names become HDF5 paths: no empty parts, nothing that HDF5 reads as "here". */
static bool is_name_usable(const char *name) {
    const size_t length = strlen(name);
    return length > 0 && length < sizeof((struct dqn_buffer *)0)->name && name[0] != '/' &&
           name[length - 1] != '/' && strstr(name, "//") == NULL;
}

static enum dqn_status check_new(const struct dqn_arena *arena, const char *name, int rank) {
    if (arena->committed) {
        return dqn_fail(DQN_ERR_STATE, "buffer %s: the arena is committed; register it earlier",
                        name);
    }
    if (!is_name_usable(name)) {
        return dqn_fail(DQN_ERR_STATE,
                        "buffer name '%s' is not usable: 1 to 63 characters, parts joined by '/'",
                        name);
    }
    if (dqn_arena_find(arena, name) != NULL) {
        return dqn_fail(DQN_ERR_STATE, "buffer %s is registered twice", name);
    }
    if (rank < 0 || rank > DQN_MAX_RANK) {
        return dqn_fail(DQN_ERR_STATE, "buffer %s: rank %d is outside 0 to %d", name, rank,
                        DQN_MAX_RANK);
    }
    return DQN_OK;
}

enum dqn_status dqn_arena_add(struct dqn_arena *arena, struct dqn_buffer **out,
                              const struct dqn_device *device, enum dqn_dtype dtype, int flags,
                              const char *name, int rank, ...) {
    DQN_TRY(check_new(arena, name, rank));
    struct dqn_buffer made = {.dtype = dtype, .flags = flags, .rank = rank, .device = device};
    memcpy(made.name, name, strlen(name) + 1);
    made.bytes = dqn_dtype_bytes(dtype);
    va_list extents;
    va_start(extents, rank);
    enum dqn_status status = DQN_OK;
    for (int i = 0; i < rank; i++) {
        made.shape[i] = va_arg(extents, size_t);
        if (status == DQN_OK) {
            status = dqn_size_mul(made.bytes, made.shape[i], &made.bytes);
        }
    }
    va_end(extents);
    if (status != DQN_OK) {
        return dqn_fail_prefix(status, "buffer %s", name);
    }
    DQN_TRY(grow(arena));
    struct dqn_buffer *buffer = NULL;
    DQN_TRY(dqn_alloc((void **)&buffer, 1, sizeof *buffer, name));
    *buffer = made;
    arena->buffers[arena->count++] = buffer;
    if (out != NULL) {
        *out = buffer;
    }
    return DQN_OK;
}

static void give_back(struct dqn_arena *arena, size_t n) {
    for (size_t i = n; i > 0; i--) {
        buffer_free(arena->buffers[i - 1]);
    }
}

enum dqn_status dqn_arena_commit(struct dqn_arena *arena, const struct dqn_buffer **failed) {
    if (failed != NULL) {
        *failed = NULL;
    }
    if (arena->committed) {
        return dqn_fail(DQN_ERR_STATE, "the arena is committed already");
    }
    for (size_t i = 0; i < arena->count; i++) {
        const enum dqn_status status = buffer_alloc(arena->buffers[i]);
        if (status == DQN_OK) {
            continue;
        }
        arena->buffers[i]->data = NULL;
        give_back(arena, i);
        if (failed != NULL) {
            *failed = arena->buffers[i];
        }
        return dqn_fail_prefix(status, "buffer %s", arena->buffers[i]->name);
    }
    arena->committed = true;
    return DQN_OK;
}

void dqn_arena_drop(struct dqn_arena *arena, const char *prefix) {
    size_t kept = 0;
    for (size_t i = 0; i < arena->count; i++) {
        struct dqn_buffer *buffer = arena->buffers[i];
        if (strncmp(buffer->name, prefix, strlen(prefix)) == 0) {
            buffer_free(buffer);
            free(buffer);
        } else {
            arena->buffers[kept++] = buffer;
        }
    }
    arena->count = kept;
}

enum dqn_status dqn_arena_join(struct dqn_arena *arena, struct dqn_arena *from) {
    if (!arena->committed || !from->committed) {
        return dqn_fail(DQN_ERR_STATE, "arenas are joined after their commit");
    }
    for (size_t i = 0; i < from->count; i++) {
        if (dqn_arena_find(arena, from->buffers[i]->name) != NULL) {
            return dqn_fail(DQN_ERR_STATE, "buffer %s is in both arenas", from->buffers[i]->name);
        }
    }
    while (from->count > 0) {
        DQN_TRY(grow(arena));
        arena->buffers[arena->count++] = from->buffers[--from->count];
    }
    return DQN_OK;
}

size_t dqn_arena_count(const struct dqn_arena *arena) {
    return arena->count;
}

struct dqn_buffer *dqn_arena_at(const struct dqn_arena *arena, size_t i) {
    DQN_CHECK(i < arena->count);
    return arena->buffers[i];
}

struct dqn_buffer *dqn_arena_find(const struct dqn_arena *arena, const char *name) {
    for (size_t i = 0; i < arena->count; i++) {
        if (strcmp(arena->buffers[i]->name, name) == 0) {
            return arena->buffers[i];
        }
    }
    return NULL;
}

bool dqn_buffer_is_on(const struct dqn_buffer *buffer, const struct dqn_device *device) {
    return buffer->device == device && !is_pinned(buffer);
}

uint64_t dqn_arena_planned_bytes(const struct dqn_arena *arena, const struct dqn_device *device) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < arena->count; i++) {
        const struct dqn_buffer *buffer = arena->buffers[i];
        /* Page-locked memory lies on the host, but a device's own allocator gives it. */
        if (buffer->device == device && !(device != NULL && is_pinned(buffer))) {
            bytes += buffer->bytes;
        }
    }
    return bytes;
}
