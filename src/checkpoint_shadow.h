/* The device's own copy of what a checkpoint saves, so that training need not wait for the way to
 * the host: see checkpoint_shadow.c. */
#ifndef DQN_CHECKPOINT_SHADOW_H
#define DQN_CHECKPOINT_SHADOW_H

#include "base.h"

struct dqn_device;
struct dqn_queue;
struct dqn_snapshot;
struct dqn_shadow;

/* Device memory for a copy of the snapshot's buffers. *out is NULL where there is not enough of it,
 * or where a buffer lives elsewhere: then checkpoints are read from the buffers themselves. */
void dqn_shadow_create(struct dqn_shadow **out, const struct dqn_snapshot *snapshot,
                       const struct dqn_device *device);
void dqn_shadow_destroy(struct dqn_shadow *shadow);
/* Device memory that the copies hold; NULL: 0. */
uint64_t dqn_shadow_bytes(const struct dqn_shadow *shadow);

/* Copies the buffers behind the work of `q`, then, on another queue, to the snapshot's staging
 * memory. The host does not wait; the take before must have been waited for. */
enum dqn_status dqn_shadow_take(struct dqn_shadow *shadow, const struct dqn_snapshot *snapshot,
                                struct dqn_queue *q);
/* Until the staging memory holds everything. By any thread. */
enum dqn_status dqn_shadow_wait(struct dqn_shadow *shadow);

#endif
