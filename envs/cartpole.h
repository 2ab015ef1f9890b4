/* Cart-pole: keep a pole upright by pushing its cart left or right.
 *
 * Source: Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult
 * learning control problems", appendix, without friction; constants, explicit Euler steps, start
 * and end of Gymnasium's CartPole-v1. Reward 1 each step, the last one included.
 * Actions: 0 left, 1 right. Observation: position (m), velocity, angle (rad), angular velocity. */
#ifndef DQN_ENVS_CARTPOLE_H
#define DQN_ENVS_CARTPOLE_H

#include "../src/shared/real.h"
#include "env.h"

struct cartpole_params {
    double gravity;        /* m/s^2 */
    double cart_mass;      /* kg */
    double pole_mass;      /* kg */
    double half_length;    /* m, from the joint to the pole's centre */
    double force;          /* N */
    double tau;            /* s, a step */
    double angle_limit;    /* rad */
    double position_limit; /* m */
    double start_range;    /* each number of the first state is within +- this */
};

struct cartpole_state {
    double position, velocity, angle, spin;
};

static inline void cartpole_defaults(struct cartpole_params *params) {
    params->gravity = 9.8;
    params->cart_mass = 1.0;
    params->pole_mass = 0.1;
    params->half_length = 0.5;
    params->force = 10.0;
    params->tau = 0.02;
    params->angle_limit = 12.0 * 2.0 * DQN_PI / 360.0;
    params->position_limit = 2.4;
    params->start_range = 0.05;
}

DQN_SHARED void cartpole_observe(const struct cartpole_state *state, float *observation) {
    observation[0] = (float)state->position;
    observation[1] = (float)state->velocity;
    observation[2] = (float)state->angle;
    observation[3] = (float)state->spin;
}

DQN_SHARED void cartpole_reset(struct cartpole_state *state, const struct cartpole_params *params,
                               const struct dqn_env_key *key, float *observation) {
    const struct dqn_u32x4 first = dqn_env_random(key, 0), second = dqn_env_random(key, 1);
    const double low = -params->start_range, width = 2.0 * params->start_range;
    state->position = low + width * dqn_rng_unit(dqn_rng_u64(first, 0));
    state->velocity = low + width * dqn_rng_unit(dqn_rng_u64(first, 1));
    state->angle = low + width * dqn_rng_unit(dqn_rng_u64(second, 0));
    state->spin = low + width * dqn_rng_unit(dqn_rng_u64(second, 1));
    cartpole_observe(state, observation);
}

DQN_SHARED struct dqn_env_outcome cartpole_step(struct cartpole_state *state,
                                                const struct cartpole_params *params,
                                                const struct dqn_env_key *key, uint32_t action,
                                                float *observation) {
    (void)key; /* nothing is random */
    double sine, cosine;
    dqn_sincos(state->angle, &sine, &cosine);
    const double force = action == 1 ? params->force : -params->force;
    const double mass = params->cart_mass + params->pole_mass;
    const double moment = params->pole_mass * params->half_length;
    /* Equations of the appendix: theta'' and x''. */
    const double push = (force + moment * (state->spin * state->spin) * sine) / mass;
    const double spin_rate =
        (params->gravity * sine - cosine * push) /
        (params->half_length * (4.0 / 3.0 - params->pole_mass * (cosine * cosine) / mass));
    const double acceleration = push - moment * spin_rate * cosine / mass;
    /* Positions move by the old velocities. */
    state->position += params->tau * state->velocity;
    state->velocity += params->tau * acceleration;
    state->angle += params->tau * state->spin;
    state->spin += params->tau * spin_rate;
    cartpole_observe(state, observation);

    struct dqn_env_outcome outcome;
    outcome.reward = 1.0f;
    outcome.terminated = (uint8_t)(dqn_fabs(state->position) > params->position_limit ||
                                   dqn_fabs(state->angle) > params->angle_limit);
    outcome.truncated = 0;
    return outcome;
}

#endif
