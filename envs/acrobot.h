/* Acrobot: a two-link pendulum with a motor at the elbow shall lift its tip above the bar.
 *
 * Source: Sutton 1996, "Generalization in reinforcement learning: successful examples using sparse
 * coarse coding"; equations of motion as in the book, Sutton and Barto, section "The acrobot";
 * constants, one classical Runge-Kutta step of 0.2 s, start, end and reward (-1 a step, 0 for the
 * last) of Gymnasium's Acrobot-v1.
 * Actions: torque -1, 0, +1. Observation: cos and sin of the first angle (0 = hanging down), cos
 * and sin of the second (relative to the first link), the two angular velocities. */
#ifndef DQN_ENVS_ACROBOT_H
#define DQN_ENVS_ACROBOT_H

#include "../src/shared/real.h"
#include "env.h"

struct acrobot_params {
    double gravity;              /* m/s^2 */
    double length1;              /* m; the second link's length does not enter */
    double mass1, mass2;         /* kg */
    double centre1, centre2;     /* m, from the joint to the link's centre of mass */
    double inertia;              /* kg m^2, of either link about its centre */
    double spin1_max, spin2_max; /* rad/s */
    double torque;               /* N m */
    double tau;                  /* s, a step */
    double height;               /* m above the bar that the tip must reach */
    double start_range;          /* each number of the first state is within +- this */
};

struct acrobot_state {
    double angle1, angle2, spin1, spin2;
};

static inline void acrobot_defaults(struct acrobot_params *params) {
    params->gravity = 9.8;
    params->length1 = 1.0;
    params->mass1 = params->mass2 = 1.0;
    params->centre1 = params->centre2 = 0.5;
    params->inertia = 1.0;
    params->spin1_max = 4.0 * DQN_PI;
    params->spin2_max = 9.0 * DQN_PI;
    params->torque = 1.0;
    params->tau = 0.2;
    params->height = 1.0;
    params->start_range = 0.1;
}

/* The rate of change of the state under a torque at the elbow. */
DQN_SHARED struct acrobot_state acrobot_rate(const struct acrobot_params *p, struct acrobot_state s,
                                             double torque) {
    double sine2, cosine2;
    dqn_sincos(s.angle2, &sine2, &cosine2);
    const double reach = p->mass2 * p->length1 * p->centre2;
    const double d1 = p->mass1 * (p->centre1 * p->centre1) +
                      p->mass2 * (p->length1 * p->length1 + p->centre2 * p->centre2) +
                      2.0 * reach * cosine2 + 2.0 * p->inertia;
    const double d2 = p->mass2 * (p->centre2 * p->centre2) + reach * cosine2 + p->inertia;
    /* cos(angle - pi/2) of the book is sin(angle). */
    const double phi2 = p->mass2 * p->centre2 * p->gravity * dqn_sin(s.angle1 + s.angle2);
    const double phi1 =
        -reach * (s.spin2 * s.spin2) * sine2 - 2.0 * reach * s.spin2 * s.spin1 * sine2 +
        (p->mass1 * p->centre1 + p->mass2 * p->length1) * p->gravity * dqn_sin(s.angle1) + phi2;
    struct acrobot_state rate;
    rate.angle1 = s.spin1;
    rate.angle2 = s.spin2;
    rate.spin2 = (torque + d2 / d1 * phi1 - reach * (s.spin1 * s.spin1) * sine2 - phi2) /
                 (p->mass2 * (p->centre2 * p->centre2) + p->inertia - d2 * d2 / d1);
    rate.spin1 = -(d2 * rate.spin2 + phi1) / d1;
    return rate;
}

/* state + time * rate. */
DQN_SHARED struct acrobot_state acrobot_move(struct acrobot_state state, double time,
                                             struct acrobot_state rate) {
    state.angle1 += time * rate.angle1;
    state.angle2 += time * rate.angle2;
    state.spin1 += time * rate.spin1;
    state.spin2 += time * rate.spin2;
    return state;
}

/* The same angle in [-pi, pi]. */
DQN_SHARED double acrobot_wrap(double angle) {
    while (angle > DQN_PI) {
        angle -= 2.0 * DQN_PI;
    }
    while (angle < -DQN_PI) {
        angle += 2.0 * DQN_PI;
    }
    return angle;
}

/* Writes the observation and says whether the tip is above the line. */
DQN_SHARED int acrobot_observe(const struct acrobot_state *state,
                               const struct acrobot_params *params, float *observation) {
    double sine1, cosine1, sine2, cosine2;
    dqn_sincos(state->angle1, &sine1, &cosine1);
    dqn_sincos(state->angle2, &sine2, &cosine2);
    observation[0] = (float)cosine1;
    observation[1] = (float)sine1;
    observation[2] = (float)cosine2;
    observation[3] = (float)sine2;
    observation[4] = (float)state->spin1;
    observation[5] = (float)state->spin2;
    return -cosine1 - dqn_cos(state->angle2 + state->angle1) > params->height;
}

DQN_SHARED void acrobot_reset(struct acrobot_state *state, const struct acrobot_params *params,
                              const struct dqn_env_key *key, float *observation) {
    const struct dqn_u32x4 first = dqn_env_random(key, 0), second = dqn_env_random(key, 1);
    const double low = -params->start_range, width = 2.0 * params->start_range;
    state->angle1 = low + width * dqn_rng_unit(dqn_rng_u64(first, 0));
    state->angle2 = low + width * dqn_rng_unit(dqn_rng_u64(first, 1));
    state->spin1 = low + width * dqn_rng_unit(dqn_rng_u64(second, 0));
    state->spin2 = low + width * dqn_rng_unit(dqn_rng_u64(second, 1));
    acrobot_observe(state, params, observation);
}

DQN_SHARED struct dqn_env_outcome acrobot_step(struct acrobot_state *state,
                                               const struct acrobot_params *params,
                                               const struct dqn_env_key *key, uint32_t action,
                                               float *observation) {
    (void)key; /* nothing is random */
    const double torque = ((double)action - 1.0) * params->torque, tau = params->tau;
    /* Classical fourth-order Runge-Kutta. */
    const struct acrobot_state k1 = acrobot_rate(params, *state, torque);
    const struct acrobot_state k2 =
        acrobot_rate(params, acrobot_move(*state, 0.5 * tau, k1), torque);
    const struct acrobot_state k3 =
        acrobot_rate(params, acrobot_move(*state, 0.5 * tau, k2), torque);
    const struct acrobot_state k4 = acrobot_rate(params, acrobot_move(*state, tau, k3), torque);
    struct acrobot_state sum = acrobot_move(k1, 2.0, k2);
    sum = acrobot_move(sum, 2.0, k3);
    sum = acrobot_move(sum, 1.0, k4);
    const struct acrobot_state moved = acrobot_move(*state, tau / 6.0, sum);
    state->angle1 = acrobot_wrap(moved.angle1);
    state->angle2 = acrobot_wrap(moved.angle2);
    state->spin1 = dqn_clamp(moved.spin1, -params->spin1_max, params->spin1_max);
    state->spin2 = dqn_clamp(moved.spin2, -params->spin2_max, params->spin2_max);

    struct dqn_env_outcome outcome;
    outcome.terminated = (uint8_t)acrobot_observe(state, params, observation);
    outcome.reward = outcome.terminated ? 0.0f : -1.0f;
    outcome.truncated = 0;
    return outcome;
}

#endif
