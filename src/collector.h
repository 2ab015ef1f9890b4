/* The collector: steps E environments of each agent with its epsilon-greedy policy and hands the
 * n-step rows to the replay, all on one queue. */
#ifndef DQN_COLLECTOR_H
#define DQN_COLLECTOR_H

#include "backend.h"
#include "replay.h"

struct dqn_collector_options {
    enum dqn_env_id env;
    size_t n_agents, lanes, n_step;
    const struct dqn_net *net;
    const struct dqn_buffer *agents;   /* [K] struct dqn_agent, device */
    const struct dqn_buffer *counters; /* [K] struct dqn_counters, device */
    const struct dqn_buffer *params;   /* [K, P] the online network */
    const struct dqn_buffer *env_params;
    struct dqn_replay *replay;
};

struct dqn_collector;

/* Registers the collector's buffers ("collect/...") in the arena. */
enum dqn_status dqn_collector_create(struct dqn_collector **out, struct dqn_arena *arena,
                                     const struct dqn_device *device,
                                     const struct dqn_collector_options *options);
void dqn_collector_destroy(struct dqn_collector *collector);

/* Starts episode 0 of every lane; once, after the commit of a run that is not resumed. */
enum dqn_status dqn_collector_reset(struct dqn_collector *collector, struct dqn_queue *q);

/* One step of every lane. `emit` says whether rows leave the windows (vector steps >= n_step,
 * this one counted) and go into the replay. */
enum dqn_status dqn_collector_step(struct dqn_collector *collector, struct dqn_queue *q, bool emit);
/* Whether the device refused the step at once (dqn_env_ops.collect), so that from then on its
 * operations are taken one by one. The refused step was then made so too, except while a program is
 * captured: then it returned DQN_ERR_REFUSED, nothing has run, and the caller gives the program up.
 */
bool dqn_collector_is_composed(const struct dqn_collector *collector);

/* [K, E] struct dqn_lane and [K, A] u64, for statistics. */
struct dqn_buffer *dqn_collector_lanes(const struct dqn_collector *collector);
struct dqn_buffer *dqn_collector_histogram(const struct dqn_collector *collector);
/* Clears the episode sums and the histogram: an epoch begins. */
enum dqn_status dqn_collector_clear_sums(struct dqn_collector *collector, struct dqn_queue *q);

#endif
