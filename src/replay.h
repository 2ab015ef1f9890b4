/* The replay: a ring of rows per agent on a device, and how rows are drawn from it. Three call
 * sites join it to the rest of the program, and there are only three:
 *   creation         dqn_replay_create, by the trainer
 *   insertion        dqn_replay_insert, by the collector, device to device
 *   priority update  dqn_replay_update, by the learner: TD errors straight into the scatter
 * The order insert -> sample -> update is checked while operations are enqueued: rows are never
 * inserted between a sample and its update, so a priority cannot land on an overwritten row. */
#ifndef DQN_REPLAY_H
#define DQN_REPLAY_H

#include "backend.h"

struct dqn_replay_options {
    const struct dqn_config_replay *config; /* copied */
    size_t n_agents, obs, obs_ld;
    size_t batch;     /* B: rows a micro-batch */
    size_t n_batches; /* M: micro-batches an optimizer step */
    const struct dqn_buffer *agents; /* [K] struct dqn_agent, on the replay's device */
    struct dqn_buffer *counters;     /* [K] struct dqn_counters, on the replay's device */
};

/* Rows to insert, on the device: [K, count, ...]. */
struct dqn_replay_rows {
    const float *state, *next; /* [K, count, O] */
    const uint32_t *action;
    const float *reward, *discount;
    const uint8_t *done;
};

/* A sampled micro-batch, on the device: [K, B, ...]. */
struct dqn_replay_batch {
    float *state, *next; /* [K, B, obs_ld] */
    uint32_t *action;
    float *reward, *discount;
    uint8_t *done;
    float *weight;  /* importance weights in (0, 1] */
    int64_t *index; /* [K, B] of this slot */
    float *td;      /* [K, B] of this slot: the learner writes its TD errors here */
};

struct dqn_replay;

/* Registers columns ("replay/...", saved) and batch buffers ("batch/...") in the arena. */
enum dqn_status dqn_replay_create(struct dqn_replay **out, struct dqn_arena *arena,
                                  const struct dqn_device *device,
                                  const struct dqn_replay_options *options);
void dqn_replay_destroy(struct dqn_replay *replay);

/* After the commit, before the first use: tables of the sampler, the running maximum priority. */
enum dqn_status dqn_replay_prepare(struct dqn_replay *replay, struct dqn_queue *q);

/* Enqueues the insertion of `count` rows an agent. DQN_ERR_STATE when count > capacity or while a
 * sampled batch waits for its priority update. May be recorded in a program: the host's view of
 * the ring is moved by dqn_replay_note_inserted, once for each time the insertion really runs. */
enum dqn_status dqn_replay_insert(struct dqn_replay *replay, struct dqn_queue *q,
                                  const struct dqn_replay_rows *rows, size_t count);
void dqn_replay_note_inserted(struct dqn_replay *replay, size_t count);

/* Draws micro-batch `slot` (0 .. M-1) and gathers it. state and next are reused by the next slot;
 * index and td of all slots live until the priority update ([M, K, B]). */
enum dqn_status dqn_replay_sample(struct dqn_replay *replay, struct dqn_queue *q, size_t slot,
                                  struct dqn_replay_batch *batch);

/* Priorities from the TD errors of all sampled slots, in order of slots: of a row that several
 * slots drew the last slot's value stays. ok [K]: 0 = the agent's update was skipped. */
enum dqn_status dqn_replay_update(struct dqn_replay *replay, struct dqn_queue *q,
                                  const uint32_t *ok);

/* The host's view. */
size_t dqn_replay_size(const struct dqn_replay *replay);
size_t dqn_replay_capacity(const struct dqn_replay *replay);

/* After the columns and "replay/ring" were loaded from a checkpoint: sums from priorities; the
 * host's view from `rows_inserted`, the rows an agent inserted since the run began. */
enum dqn_status dqn_replay_restore(struct dqn_replay *replay, struct dqn_queue *q,
                                   uint64_t rows_inserted);

#endif
