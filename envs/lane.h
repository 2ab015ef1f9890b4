/* What the loops around an environment do for one lane, written once for CPU threads and kernels.
 *
 * Random numbers of lane e of agent k: seed = agents[k].seed, stream = dqn_rng_stream(purpose, e),
 * episode = lane.episode; step = 0 while an episode is reset, lane.step + 1 in a step (lane.step
 * counts the steps taken before it), so the first step of an episode has key.step = 1. */
#ifndef DQN_ENVS_LANE_H
#define DQN_ENVS_LANE_H

#include "../src/shared/real.h"
#include "env.h"

/* The key of the reset that begins the lane's present episode. */
DQN_SHARED struct dqn_env_key dqn_lane_reset_key(const struct dqn_lane *lane, uint64_t seed,
                                                 uint64_t stream) {
    struct dqn_env_key key;
    key.seed = seed;
    key.stream = stream;
    key.episode = lane->episode;
    key.step = 0;
    return key;
}

/* The key of the lane's next step. */
DQN_SHARED struct dqn_env_key dqn_lane_step_key(const struct dqn_lane *lane, uint64_t seed,
                                                uint64_t stream) {
    struct dqn_env_key key = dqn_lane_reset_key(lane, seed, stream);
    key.step = lane->step + 1;
    return key;
}

/* The lane is at the start of the episode that lane.episode names. */
DQN_SHARED void dqn_lane_begin(struct dqn_lane *lane) {
    lane->step = 0;
    lane->episode_return = 0.0;
    lane->frozen = 0;
}

DQN_SHARED void dqn_lane_clear_sums(struct dqn_lane *lane) {
    lane->sum_episodes = 0;
    lane->sum_steps = 0;
    lane->sum_return = 0.0;
    lane->min_return = dqn_infinity();
    lane->max_return = -dqn_infinity();
}

/* Takes a step into account. Applies the time limit (0 = none) to `outcome`, which is never both
 * terminated and truncated afterwards, and adds a finished episode to the sums. Returns 1 when the
 * episode is over. */
DQN_SHARED int dqn_lane_record(struct dqn_lane *lane, struct dqn_env_outcome *outcome,
                               uint64_t step_limit) {
    lane->step++;
    lane->episode_return += (double)outcome->reward;
    if (outcome->terminated) {
        outcome->truncated = 0;
    } else if (step_limit > 0 && lane->step >= step_limit) {
        outcome->truncated = 1;
    }
    if (!outcome->terminated && !outcome->truncated) {
        return 0;
    }
    lane->sum_episodes++;
    lane->sum_steps += lane->step;
    lane->sum_return += lane->episode_return;
    lane->min_return = dqn_fmin(lane->episode_return, lane->min_return);
    lane->max_return = dqn_fmax(lane->episode_return, lane->max_return);
    return 1;
}

#endif
