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
    size_t batch;                    /* B: rows a micro-batch */
    size_t n_batches;                /* M: micro-batches an optimizer step */
    const struct dqn_buffer *agents; /* [K] struct dqn_agent, on the learner's device */
    struct dqn_buffer *counters;     /* [K] struct dqn_counters, on the learner's device */
    /* The device of collector and learner; NULL = the replay's. Another one than the replay's:
     * rows and batches cross through staging memory (replay_staged.h). */
    const struct dqn_device *learner;
    size_t rows; /* an agent's rows an insertion at most; used with staging only */
    /* Where the replay goes on, and its arena, when one of its operations fails while its device
     * still works (dqn_replay_move); NULL = that is an error like others. */
    const struct dqn_device *refuge;
};

/* Rows to insert, on the learner's device: [K, count, ...]. */
struct dqn_replay_rows {
    const float *state, *next; /* [K, count, O] */
    const uint32_t *action;
    const float *reward, *discount;
    const uint8_t *done;
};

/* A sampled micro-batch, on the learner's device: [K, B, ...]. */
struct dqn_replay_batch {
    float *state, *next; /* [K, B, obs_ld] */
    uint32_t *action;
    float *reward, *discount;
    uint8_t *done;
    float *weight;  /* importance weights in (0, 1] */
    int64_t *index; /* [K, B] of this slot; in the replay's memory, for the replay alone */
    float *td;      /* [K, B] of this slot: the learner writes its TD errors here */
};

struct dqn_replay;

/* Queues of the calls below are the learner's, wherever the replay lives. */

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

/* What an insertion would enqueue, for a step that inserts its rows itself (dqn_env_ops.collect);
 * the rows are left out. False where it cannot: the replay is not on the collector's device,
 * `count` rows do not fit, or a batch waits for its priority update. When it was enqueued,
 * dqn_replay_inserted says so. */
bool dqn_replay_describe_insert(const struct dqn_replay *replay, size_t count,
                                struct dqn_insert_args *insert, struct dqn_inserted_args *inserted);
void dqn_replay_inserted(struct dqn_replay *replay, const struct dqn_queue *q, size_t count);

/* Draws micro-batch `slot` (0 .. M-1) and gathers it. state and next are reused by the next slot;
 * index and td of all slots live until the priority update ([M, K, B]). */
enum dqn_status dqn_replay_sample(struct dqn_replay *replay, struct dqn_queue *q, size_t slot,
                                  struct dqn_replay_batch *batch);

/* Priorities from the TD errors of all sampled slots, in order of slots: of a row that several
 * slots drew the last slot's value stays. ok [K]: 0 = the agent's update was skipped. */
enum dqn_status dqn_replay_update(struct dqn_replay *replay, struct dqn_queue *q,
                                  const uint32_t *ok);

/* What a sample and its priority update would enqueue, for an update that does both at once
 * (dqn_nn_ops.update); batch as of dqn_replay_sample with slot 0. False where it cannot: the replay
 * is not on the learner's device, or a batch waits for its update. Nothing is enqueued or counted.
 */
bool dqn_replay_describe(struct dqn_replay *replay, struct dqn_replay_batch *batch,
                         struct dqn_draw_args *draw, struct dqn_gather_args *gather,
                         struct dqn_priority_args *priority);

/* The host's view. */
size_t dqn_replay_size(const struct dqn_replay *replay);
size_t dqn_replay_capacity(const struct dqn_replay *replay);

/* Seconds that the host worked in dqn_replay_sample and in dqn_replay_update so far, its waits for
 * a device left out. For a replay on the CPU that is the work itself, with the copies to and from
 * the learner; for one on a GPU it is no more than the enqueueing. */
struct dqn_replay_clock {
    double sample_s, update_s;
};
struct dqn_replay_clock dqn_replay_clock(const struct dqn_replay *replay);

/* After the columns and "replay/ring" were loaded from a checkpoint: sums from priorities; the
 * host's view from `rows_inserted`, the rows an agent inserted since the run began. */
enum dqn_status dqn_replay_restore(struct dqn_replay *replay, struct dqn_queue *q,
                                   uint64_t rows_inserted);

/* ---- going on at another device ----
 * An operation that fails with DQN_ERR_DEVICE while `refuge` is set moves the replay there: ring
 * and priorities are copied from the device, the sums rebuilt from them, a warning says why, and
 * the operation is done again through staging. This happens inside insert, sample and update,
 * except while a program is captured: then the call fails, nothing has run, dqn_replay_failed tells
 * of it, and the caller moves the replay and calls the program's function. */
bool dqn_replay_failed(const struct dqn_replay *replay);
/* The reason is this thread's latest error text. */
enum dqn_status dqn_replay_move(struct dqn_replay *replay, struct dqn_queue *q);
/* True between a move and dqn_replay_settle. */
bool dqn_replay_has_moved(const struct dqn_replay *replay);
/* Between steps, with the queue empty: the buffers of the old place leave the run's arena, those of
 * the new place enter it under the names that a checkpoint knows. */
enum dqn_status dqn_replay_settle(struct dqn_replay *replay);
/* Why it moved; "" when it did not. */
const char *dqn_replay_why_moved(const struct dqn_replay *replay);
/* Where it lives now. */
const struct dqn_device *dqn_replay_device(const struct dqn_replay *replay);

#endif
