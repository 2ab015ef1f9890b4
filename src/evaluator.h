/* The evaluator: plays episodes with the greedy policy on its own environments and its own random
 * streams, so that training is the same bit for bit with and without it. */
#ifndef DQN_EVALUATOR_H
#define DQN_EVALUATOR_H

#include <stdatomic.h>

#include "backend.h"

struct dqn_evaluator_options {
    enum dqn_env_id env;
    size_t n_agents;
    size_t episodes;    /* one a lane */
    uint64_t max_steps; /* no episode is longer: see dqn_evaluator_limit */
    double epsilon;     /* 0 = greedy */
    const struct dqn_net *net;
    const struct dqn_buffer *agents;     /* [K] struct dqn_agent, device */
    const struct dqn_buffer *env_params; /* device */
    const atomic_int *stop;              /* not 0: a run ends early; NULL = never */
};

/* Over the episodes of one agent. */
struct dqn_evaluation {
    double return_mean, return_std, return_min, return_max;
    double length_mean;
    uint64_t episodes;
};

/* max_steps for an environment of env_list.h: its time limit; of one without a million, which is
 * more than any policy is worth waiting for. */
uint64_t dqn_evaluator_limit(enum dqn_env_id env);

struct dqn_evaluator;

/* Registers buffers "<prefix>/..." in the arena; none is saved. */
enum dqn_status dqn_evaluator_create(struct dqn_evaluator **out, struct dqn_arena *arena,
                                     const struct dqn_device *device, const char *prefix,
                                     const struct dqn_evaluator_options *options);
void dqn_evaluator_destroy(struct dqn_evaluator *evaluator);

/* Plays one episode a lane with params [K, P]. `round` chooses the episodes' random numbers: equal
 * rounds play equal episodes. The host waits. result: [K]. DQN_ERR_STOPPED when a stop was asked
 * for: then there is no result, and the same call again gives the one that there would have been.
 * DQN_ERR_ENDLESS when an episode is longer than max_steps. */
enum dqn_status dqn_evaluator_run(struct dqn_evaluator *evaluator, struct dqn_queue *q,
                                  const struct dqn_buffer *params, uint64_t round,
                                  struct dqn_evaluation *result);

#endif
