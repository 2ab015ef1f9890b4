/* A replay on another device than the learner: what crosses between the two, through page-locked
 * staging memory. The learner's queue is waited for where the host needs what it holds, so a step
 * with such a replay cannot be captured; the waits are counted like all others.
 *   insertion        rows: learner's device -> staging, inserted there
 *   sample           drawn and gathered into staging -> batch buffers on the learner's device
 *   priority update  TD errors and `ok`: learner's device -> staging, updated there
 * The counters live with the learner. The sampler reads and advances some of them, so they cross
 * with each sample and each update, and back. */
#ifndef DQN_REPLAY_STAGED_H
#define DQN_REPLAY_STAGED_H

#include "replay.h"

struct dqn_staging;

/* Registers the batch buffers on the learner's device and the staging memory ("staged/..."), and
 * creates the queue on which `host`, the replay's device, works. options->learner, options->rows,
 * agents and counters are the learner's. */
enum dqn_status dqn_staging_create(struct dqn_staging **out, struct dqn_arena *arena,
                                   const struct dqn_device *host,
                                   const struct dqn_replay_options *options);
void dqn_staging_destroy(struct dqn_staging *staging);

/* Of the replay's device. */
struct dqn_queue *dqn_staging_queue(const struct dqn_staging *staging);
struct dqn_buffer *dqn_staging_agents(const struct dqn_staging *staging);
struct dqn_buffer *dqn_staging_counters(const struct dqn_staging *staging);

/* Brings the agents over; once, after the commit. */
enum dqn_status dqn_staging_prepare(struct dqn_staging *staging, struct dqn_queue *q);

/* Brings `count` rows an agent over; *here then points at them in staging memory. */
enum dqn_status dqn_staging_take_rows(struct dqn_staging *staging, struct dqn_queue *q,
                                      const struct dqn_replay_rows *rows, size_t count,
                                      struct dqn_replay_rows *here);

/* Brings the counters over. */
enum dqn_status dqn_staging_take_counters(struct dqn_staging *staging, struct dqn_queue *q);

/* After draw and gather: the counters and the batch to the learner. `batch` comes with pointers
 * into staging memory and goes with pointers on the learner's device, all but `index`. */
enum dqn_status dqn_staging_give_batch(struct dqn_staging *staging, struct dqn_queue *q,
                                       size_t slot, struct dqn_replay_batch *batch);

/* Brings the TD errors of all slots to `td` [M, K, B], `ok` to *here [K], and the counters. */
enum dqn_status dqn_staging_take_errors(struct dqn_staging *staging, struct dqn_queue *q, float *td,
                                        const uint32_t *ok, const uint32_t **here);

/* After the priority update: the counters to the learner. */
enum dqn_status dqn_staging_give_counters(struct dqn_staging *staging, struct dqn_queue *q);

/* The learner's buffer of TD errors, [M, K, B] on its device. */
struct dqn_buffer *dqn_staging_errors(const struct dqn_staging *staging);

#endif
