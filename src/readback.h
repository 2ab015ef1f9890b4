/* What the host wants to know of the device, without making the device wait: a snapshot of a few
 * small buffers is taken in the training queue, a second queue carries it into pinned memory, and
 * the host reads it at the epoch boundary, where it already lies. */
#ifndef DQN_READBACK_H
#define DQN_READBACK_H

#include "backend.h"

enum { DQN_READBACK_MAX = 8 };

struct dqn_readback;

/* Registers a device copy and a pinned copy of each source ("readback/..."). */
enum dqn_status dqn_readback_create(struct dqn_readback **out, struct dqn_arena *arena,
                                    const struct dqn_device *device, size_t n_sources,
                                    struct dqn_buffer *const *sources);
void dqn_readback_destroy(struct dqn_readback *readback);

/* Enqueues a snapshot of the sources as they are after the work enqueued on `q` so far. Work that
 * follows on `q` may change the sources at once.
 * There is one slot, on the device and in pinned memory, not a ring of them: a snapshot is taken at
 * an epoch's end and read before the next epoch. One that is taken before the last was carried away
 * waits for that on the device, and then replaces it, so that without dqn_readback_wait between the
 * two the host only gets the later one. */
enum dqn_status dqn_readback_take(struct dqn_readback *readback, struct dqn_queue *q);

/* The host waits for the latest snapshot. */
enum dqn_status dqn_readback_wait(struct dqn_readback *readback);
/* Contents of source i, of the latest snapshot waited for. */
const void *dqn_readback_data(const struct dqn_readback *readback, size_t i);

#endif
