/* What the tests of checkpoints and run folders share: a folder of their own, a device whose copies
 * happen only when its queue is waited for, and an arena with a buffer of every kind. */
#ifndef STORE_SUPPORT_H
#define STORE_SUPPORT_H

#include "arena.h"
#include "backend.h"
#include "checkpoint.h"

/* A new empty folder, its path into `out`; removed by store_folder_remove. */
void store_folder(char *out, size_t size);
void store_folder_remove(const char *path);
/* Files in a folder whose names start with `prefix`; -1 when it cannot be listed. */
int store_count(const char *folder, const char *prefix);
/* Whole file, malloc'ed; NULL when it cannot be read. */
unsigned char *store_read(const char *path, size_t *size);
void store_write(const char *path, const void *data, size_t size);

/* Memory operations and queues in host memory. A copy happens at the wait, not before: who forgets
 * to wait sees old data. */
extern const struct dqn_backend store_backend;
struct dqn_queue *store_queue(const struct dqn_device *device);
void store_queue_free(struct dqn_queue *q);

/* Every type, rank and place; "replay/states" is a replay buffer, "scratch" is not saved. `n`
 * scales the sizes. */
struct dqn_arena *store_arena(const struct dqn_device *device, size_t n);
/* Other bytes for each buffer and seed; floats get every bit pattern too. */
void store_fill(const struct dqn_arena *arena, uint64_t seed);
/* Name of the first buffer, among those with all of `flags`, whose bytes differ; NULL = equal. */
const char *store_difference(const struct dqn_arena *a, const struct dqn_arena *b, int flags);

/* A content with a field of every type, texts, and a history of `n_rows` rows. */
const struct dqn_checkpoint_content *store_content(size_t n_rows);

/* Creates a writer, saves once, waits, destroys. */
enum dqn_status store_save(const struct dqn_arena *arena, struct dqn_queue *q, const char *folder,
                           uint64_t epochs, bool with_replay, const struct dqn_file_ops *ops);

#endif
