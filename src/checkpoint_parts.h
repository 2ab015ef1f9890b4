/* Inside of checkpoints: the snapshot that checkpoint_writer.c takes and checkpoint_write.c turns
 * into a file. */
#ifndef DQN_CHECKPOINT_PARTS_H
#define DQN_CHECKPOINT_PARTS_H

#include "checkpoint.h"

/* A buffer and its copy in host memory. */
struct dqn_staged_buffer {
    const struct dqn_buffer *buffer;
    void *copy;
    bool pinned; /* the copy is the device's page-locked memory */
};

struct dqn_snapshot {
    bool with_replay;
    uint64_t epochs; /* of the request */
    bool partial;
    struct dqn_staged_buffer *buffers; /* [n_buffers] */
    size_t n_buffers;
    struct dqn_checkpoint_content content; /* own copies of everything */
    char *columns;                         /* "loss,q_mean"; content.columns is not copied */
};

/* Replaces the snapshot's content by a copy. */
enum dqn_status dqn_snapshot_copy(struct dqn_snapshot *snapshot,
                                  const struct dqn_checkpoint_content *content);
void dqn_snapshot_clear(struct dqn_snapshot *snapshot);

/* Writes, seals, syncs, renames. After an error the temporary is gone and `path` as it was (or,
 * where only the folder's sync failed, complete and new). */
enum dqn_status dqn_snapshot_write(const struct dqn_snapshot *snapshot, const char *path,
                                   const struct dqn_file_ops *ops);

/* Copies between a buffer and host memory in order with the work of `q`; done when the queue was
 * waited for. For a buffer that is plain or page-locked host memory the caller waits before. */
enum dqn_status dqn_buffer_to_host(const struct dqn_buffer *buffer, struct dqn_queue *q, void *to);
enum dqn_status dqn_buffer_from_host(const struct dqn_buffer *buffer, struct dqn_queue *q,
                                     const void *from);

#define DQN_CHECKPOINT_HOST "host/"
#define DQN_CHECKPOINT_CONFIG "config"
#define DQN_CHECKPOINT_HISTORY "history"

#endif
