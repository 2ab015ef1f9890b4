/* The learner: one optimizer step from replay to parameters and back to priorities, on one queue.
 */
#ifndef DQN_LEARNER_H
#define DQN_LEARNER_H

#include "backend.h"
#include "replay.h"

struct dqn_learner_options {
    size_t n_agents;
    const struct dqn_net *net;
    const struct dqn_config_learner *config; /* copied */
    const struct dqn_buffer *agents;         /* [K] struct dqn_agent, device */
    struct dqn_buffer *counters;             /* [K] struct dqn_counters, device */
    struct dqn_replay *replay;
};

struct dqn_learner;

/* Registers parameters, target, moments ("nn/...", saved) and scratch ("learn/..."). */
enum dqn_status dqn_learner_create(struct dqn_learner **out, struct dqn_arena *arena,
                                   const struct dqn_device *device,
                                   const struct dqn_learner_options *options);
void dqn_learner_destroy(struct dqn_learner *learner);

/* Fresh parameters, the target equal to them; once, in a run that is not resumed. */
enum dqn_status dqn_learner_init(struct dqn_learner *learner, struct dqn_queue *q);
/* The target becomes a copy of the parameters (after they were loaded from elsewhere). */
enum dqn_status dqn_learner_copy_target(struct dqn_learner *learner, struct dqn_queue *q);

/* One update: learner.accumulate batches are sampled, their gradients summed, one optimizer step
 * made, and the TD errors go straight into the replay's priorities. */
enum dqn_status dqn_learner_update(struct dqn_learner *learner, struct dqn_queue *q);
/* Whether the device refused the update at once (dqn_nn_ops.update), so that from then on its
 * operations are taken one by one. The refused update was then made so too, except while a program
 * is captured: then it returned DQN_ERR_REFUSED, nothing has run, and the caller gives the program
 * up. */
bool dqn_learner_is_composed(const struct dqn_learner *learner);

/* [K, P] */
struct dqn_buffer *dqn_learner_params(const struct dqn_learner *learner);
/* [K] u32: 0 = the latest update of the agent was skipped, for something in it was not finite. */
struct dqn_buffer *dqn_learner_ok(const struct dqn_learner *learner);
/* [K] struct dqn_step_stats: sums since the last clear. */
struct dqn_buffer *dqn_learner_stats(const struct dqn_learner *learner);
/* Share of the hidden units whose output was 0 for every row of the latest batch: dead, if they are
 * ReLU. Copies the layers' outputs; the host waits. share: [K]. */
enum dqn_status dqn_learner_dead_units(struct dqn_learner *learner, struct dqn_queue *q,
                                       double *share);
enum dqn_status dqn_learner_clear_stats(struct dqn_learner *learner, struct dqn_queue *q);

#endif
