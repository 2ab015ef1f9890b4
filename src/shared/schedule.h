/* Learning rate, exploration and importance exponent as pure functions of the counters: computed
 * where they are used, on the device as on the host, so a captured program needs no new values. */
#ifndef DQN_SHARED_SCHEDULE_H
#define DQN_SHARED_SCHEDULE_H

#include "agent.h"
#include "real.h"

/* Share of the way, in [0, 1]; a length of 0 has arrived. */
DQN_SHARED double dqn_schedule_progress(uint64_t count, uint64_t length) {
    return count >= length ? 1.0 : (double)count / (double)length;
}

DQN_SHARED double dqn_schedule_linear(double start, double end, uint64_t count, uint64_t length) {
    const double progress = dqn_schedule_progress(count, length);
    return progress >= 1.0 ? end : start + (end - start) * progress;
}

/* Exploration rate at an env step. */
DQN_SHARED double dqn_schedule_epsilon(const struct dqn_agent *agent, uint64_t env_steps) {
    return dqn_schedule_linear(agent->eps_start, agent->eps_end, env_steps, agent->eps_steps);
}

/* Importance exponent at an update. */
DQN_SHARED double dqn_schedule_beta(const struct dqn_agent *agent, uint64_t updates) {
    return dqn_schedule_linear(agent->beta_start, agent->beta_end, updates, agent->beta_updates);
}

/* Adam step size at an update; cosine: Loshchilov and Hutter 2017, equation 5, one period. */
DQN_SHARED double dqn_schedule_lr(const struct dqn_agent *agent, uint64_t updates) {
    if (agent->lr_kind == DQN_SCHEDULE_CONSTANT) {
        return agent->lr_start;
    }
    if (agent->lr_kind == DQN_SCHEDULE_LINEAR) {
        return dqn_schedule_linear(agent->lr_start, agent->lr_end, updates, agent->lr_updates);
    }
    const double progress = dqn_schedule_progress(updates, agent->lr_updates);
    const double half_turn = 0.5 * (1.0 + dqn_cos(3.14159265358979323846 * progress));
    return agent->lr_end + (agent->lr_start - agent->lr_end) * half_turn;
}

#endif
