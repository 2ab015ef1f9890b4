/* What dqn-bench measures: parts of the training loop on contents that are never zero. */
#ifndef DQN_BENCH_H
#define DQN_BENCH_H

#include "config.h"

/* Medians over several windows of about a fifth of a second. A population of n_agents goes in
 * lockstep. */
struct dqn_bench_result {
    double per_s; /* updates, draws or env steps a second, of all agents */
    double us;    /* microseconds an update, a draw-and-update pair, or a vector step, of all */
    double per_s_min, per_s_max; /* slowest and fastest window */
    uint64_t n;                  /* operations timed */
    uint64_t host_waits;         /* inside the windows */
    uint64_t device_bytes;
    char device[192];
};

/* Optimizer steps as learner.* and net.* say (51 observations, 45 actions, double DQN and so on),
 * from a full replay of replay.capacity random rows. */
enum dqn_status dqn_bench_step(const struct dqn_config *config, size_t n_agents,
                               struct dqn_bench_result *out);
/* The replay's part of such a step: draw, gather and priority update. */
enum dqn_status dqn_bench_per(const struct dqn_config *config, size_t n_agents,
                              struct dqn_bench_result *out);
/* Vector steps of env.name with env.lanes lanes: policy, environment, window, insertion. */
enum dqn_status dqn_bench_collect(const struct dqn_config *config, size_t n_agents,
                                  struct dqn_bench_result *out);

/* A whole epoch of training (evaluation and saving apart), with the replay where the learner is and
 * with the replay on the CPU: what moving it to the GPU is worth. */
struct dqn_bench_epoch_result {
    bool ran;       /* false: this placement is not to be had here */
    double seconds; /* an epoch, median of three */
    double updates_per_s, env_steps_per_s;
    double host_waits; /* inside an epoch */
    bool replay_on_gpu;
};
enum dqn_status dqn_bench_epoch(const struct dqn_config *config,
                                struct dqn_bench_epoch_result *replay_with_learner,
                                struct dqn_bench_epoch_result *replay_on_cpu);

#endif
