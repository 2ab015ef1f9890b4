/* The environments: one line each. X(name, observations, actions, default time limit in steps)
 *
 * A line stands for envs/<name>.h, which defines struct <name>_state, struct <name>_params,
 * <name>_defaults, <name>_reset and <name>_step (the contract is in envs/env.h). A time limit of 0
 * leaves truncation to the environment. See docs/your-own-env.md. */
#ifndef DQN_ENV_LIST_H
#define DQN_ENV_LIST_H

#define DQN_ENV_LIST(X)                                                                            \
    X(trading, 51, 45, 0)                                                                          \
    X(cartpole, 4, 2, 500)                                                                         \
    X(acrobot, 6, 3, 500)                                                                          \
    X(mountain_car, 2, 3, 200)

/* DQN_ENV_trading, DQN_ENV_cartpole, ...: position in the list = value of the key env.name. */
#define DQN_ENV_ENUM(name, observations, actions, limit) DQN_ENV_##name,
enum dqn_env_id { DQN_ENV_LIST(DQN_ENV_ENUM) DQN_ENV_COUNT };
#undef DQN_ENV_ENUM

/* "|trading|cartpole|...": the range of the key env.name. */
#define DQN_ENV_BAR_NAME(name, observations, actions, limit) "|" #name
#define DQN_ENV_NAMES DQN_ENV_LIST(DQN_ENV_BAR_NAME)

#endif
