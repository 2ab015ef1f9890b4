/* Every buffer of a run, by name. Modules register their buffers, one commit allocates them all,
 * and the list then serves as memory plan, contents of the checkpoint (HDF5 path = name), what
 * parity tests dump, and the names in error messages. Nothing is allocated after the commit. */
#ifndef DQN_ARENA_H
#define DQN_ARENA_H

#include "base.h"

struct dqn_device; /* backend.h */

enum dqn_dtype { DQN_U8, DQN_U32, DQN_I64, DQN_U64, DQN_F32, DQN_F64 };

enum dqn_buffer_flags {
    DQN_BUFFER_SAVED = 1,  /* part of a checkpoint */
    DQN_BUFFER_REPLAY = 2, /* left out of a checkpoint by checkpoint.replay: false */
    DQN_BUFFER_SHARED = 4, /* the same for all agents: no leading K (market tables) */
    DQN_BUFFER_PINNED = 8  /* page-locked host memory, for asynchronous copies */
};

#define DQN_MAX_RANK 4

struct dqn_buffer {
    char name[64]; /* "replay/states" */
    enum dqn_dtype dtype;
    int flags;
    int rank;
    size_t shape[DQN_MAX_RANK];
    const struct dqn_device *device; /* where it lives; NULL = plain host memory */
    size_t bytes;
    void *data; /* NULL until the commit */
};

struct dqn_arena;

enum dqn_status dqn_arena_create(struct dqn_arena **out);
/* Frees the buffers as well. The devices must still be open. */
void dqn_arena_destroy(struct dqn_arena *arena);

/* Registers a buffer; the handle stays valid as long as the arena. Contents start as zeros.
 * `rank` extents follow. DQN_ERR_STATE after the commit or for a name in use,
 * DQN_ERR_MEMORY when the size overflows. */
enum dqn_status dqn_arena_add(struct dqn_arena *arena, struct dqn_buffer **out,
                              const struct dqn_device *device, enum dqn_dtype dtype, int flags,
                              const char *name, int rank, ...);

/* Allocates everything, or nothing: on failure what was allocated is given back, and
 * `failed`, where not NULL, names the buffer. */
enum dqn_status dqn_arena_commit(struct dqn_arena *arena, const struct dqn_buffer **failed);

/* After the commit: frees and forgets all buffers whose names begin with `prefix`. */
void dqn_arena_drop(struct dqn_arena *arena, const char *prefix);
/* Both committed: the buffers of `from` go over to `arena`, with their contents; handles stay
 * valid. DQN_ERR_STATE, and nothing goes over, when a name is in use. */
enum dqn_status dqn_arena_join(struct dqn_arena *arena, struct dqn_arena *from);

size_t dqn_arena_count(const struct dqn_arena *arena);
struct dqn_buffer *dqn_arena_at(const struct dqn_arena *arena, size_t i);
/* NULL when there is none. */
struct dqn_buffer *dqn_arena_find(const struct dqn_arena *arena, const char *name);
/* Whether the buffer lies in this device's own memory, not in page-locked host memory. */
bool dqn_buffer_is_on(const struct dqn_buffer *buffer, const struct dqn_device *device);
/* Bytes planned on a device (NULL = plain host memory), before or after the commit. Page-locked
 * host memory is not on the device and not counted. */
uint64_t dqn_arena_planned_bytes(const struct dqn_arena *arena, const struct dqn_device *device);

size_t dqn_dtype_bytes(enum dqn_dtype dtype);
const char *dqn_dtype_name(enum dqn_dtype dtype);

#endif
