/* Mountain car: too weak for the hill ahead, a car must swing back first.
 *
 * Source: Moore 1990, "Efficient memory-based learning for robot control"; equations of Sutton and
 * Barto 2018, example 10.1; start, goal and reward (-1 a step) of Gymnasium's MountainCar-v0.
 * Actions: 0 left, 1 none, 2 right. Observation: position, velocity. */
#ifndef DQN_ENVS_MOUNTAIN_CAR_H
#define DQN_ENVS_MOUNTAIN_CAR_H

#include "../src/shared/real.h"
#include "env.h"

struct mountain_car_params {
    double position_min, position_max;
    double speed_max;
    double goal_position, goal_velocity;
    double force, gravity;
    double start_min, start_max;
};

struct mountain_car_state {
    double position, velocity;
};

static inline void mountain_car_defaults(struct mountain_car_params *params) {
    params->position_min = -1.2;
    params->position_max = 0.6;
    params->speed_max = 0.07;
    params->goal_position = 0.5;
    params->goal_velocity = 0.0;
    params->force = 0.001;
    params->gravity = 0.0025;
    params->start_min = -0.6;
    params->start_max = -0.4;
}

DQN_SHARED void mountain_car_observe(const struct mountain_car_state *state, float *observation) {
    observation[0] = (float)state->position;
    observation[1] = (float)state->velocity;
}

DQN_SHARED void mountain_car_reset(struct mountain_car_state *state,
                                   const struct mountain_car_params *params,
                                   const struct dqn_env_key *key, float *observation) {
    const double unit = dqn_rng_unit(dqn_rng_u64(dqn_env_random(key, 0), 0));
    state->position = params->start_min + (params->start_max - params->start_min) * unit;
    state->velocity = 0.0;
    mountain_car_observe(state, observation);
}

DQN_SHARED struct dqn_env_outcome mountain_car_step(struct mountain_car_state *state,
                                                    const struct mountain_car_params *params,
                                                    const struct dqn_env_key *key, uint32_t action,
                                                    float *observation) {
    (void)key; /* nothing is random */
    const double push = ((double)action - 1.0) * params->force;
    const double slope = dqn_cos(3.0 * state->position) * -params->gravity;
    state->velocity =
        dqn_clamp(state->velocity + (push + slope), -params->speed_max, params->speed_max);
    state->position =
        dqn_clamp(state->position + state->velocity, params->position_min, params->position_max);
    /* The wall on the left stops the car. */
    if (state->position == params->position_min && state->velocity < 0.0) {
        state->velocity = 0.0;
    }
    mountain_car_observe(state, observation);

    struct dqn_env_outcome outcome;
    outcome.reward = -1.0f;
    outcome.terminated = (uint8_t)(state->position >= params->goal_position &&
                                   state->velocity >= params->goal_velocity);
    outcome.truncated = 0;
    return outcome;
}

#endif
