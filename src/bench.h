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
    /* Share of the time in which work was in flight on the device (queue.busy_begin), in three
     * windows more, so that its events do not slow down the others. NAN on the CPU. */
    double busy;
    /* dqn_bench_step: what the step takes longer than the same step with replay.kind=uniform, in
     * microseconds and as a share of `us`: the draw by priority against one of equal chances,
     * importance weights and priority update; the gathering of rows is in both. 0 where the
     * difference is lost in the windows' scatter; NAN for uniform, and for the other benchmarks. */
    double per_us, per_share;
    uint64_t device_bytes; /* planned: the buffers */
    /* Free memory of the device before the buffers were allocated, less that after the last window:
     * buffers, and what code, libraries and captured programs took since then. What other processes
     * did meanwhile is in it, too. 0 on the CPU: not measured. */
    uint64_t device_bytes_taken;
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
 * with the replay on the CPU: what moving it to the GPU is worth. Of five epochs, the first one
 * captures programs and warms up; the figures are those of the median one of the next three, by
 * its time; `busy` is of the last one, whose events would slow down the others. */
struct dqn_bench_epoch_result {
    bool ran; /* false: there is no GPU to put the replay on */
    bool replay_on_gpu;
    double seconds; /* an epoch */
    double updates_per_s, env_steps_per_s;
    /* Seconds an epoch for sampling (draw, weights, gather) and for priority updates.
     * Replay on the CPU: time of the host in them, with the copies to and from the learner and
     * without its waits. Replay on the GPU: they run inside of graphs, where they have no time of
     * their own; so what they take on the device by themselves, of the replay as the last epoch
     * left it, times the updates of the epoch. Those of a priority update are the difference of a
     * draw with an update and a draw alone, 0 where that is lost in the windows' scatter. */
    double sample_s, update_s;
    double host_waits;           /* inside the epoch, without the one at its end */
    double host_wait_s;          /* and their seconds */
    double busy;                 /* as above: of the epoch's time; NAN on the CPU */
    uint64_t device_bytes;       /* planned, of the learner's device */
    uint64_t device_bytes_taken; /* as above; what the first placement's run left loaded (code) does
                                    not count again in the second one's */
    char device[192];            /* the learner's */
};
enum dqn_status dqn_bench_epoch(const struct dqn_config *config,
                                struct dqn_bench_epoch_result *replay_with_learner,
                                struct dqn_bench_epoch_result *replay_on_cpu);

#endif
