/* One row an epoch and agent: what training reports. The first list is a function of seed and
 * config alone and is saved in checkpoints; the second depends on the clock or on scratch memory
 * and goes to metrics.csv only. */
#ifndef DQN_METRICS_H
#define DQN_METRICS_H

#include "base.h"

#define DQN_METRIC_LIST(X)                                                                         \
    X(epoch)                                                                                       \
    X(agent)                                                                                       \
    X(env_steps)                                                                                   \
    X(updates)                                                                                     \
    X(loss)           /* mean weighted loss of an update */                                        \
    X(q_mean)         /* mean Q of the actions taken in batches */                                 \
    X(q_max)          /* mean of the largest Q of a batch row */                                   \
    X(td_abs)         /* mean absolute TD error */                                                 \
    X(td_abs_max)     /* largest */                                                                \
    X(grad_norm)      /* mean global norm before clipping */                                       \
    X(clip_rate)      /* share of updates that were clipped */                                     \
    X(learning_rate)  /* mean */                                                                   \
    X(epsilon)        /* at the epoch's end */                                                     \
    X(beta)           /* mean importance exponent */                                               \
    X(weight_min)     /* mean of the smallest importance weight of a batch */                      \
    X(action_entropy) /* of the actions taken in the epoch, in nats */                             \
    X(episodes)       /* finished in the epoch */                                                  \
    X(return_mean)    /* of these, undiscounted; nan when there was none */                        \
    X(return_min)                                                                                  \
    X(return_max)                                                                                  \
    X(length_mean)                                                                                 \
    X(replay_fill)  /* share of the ring that is filled */                                         \
    X(nonfinite)    /* updates skipped since the start */                                          \
    X(priority_nan) /* TD errors clamped since the start */                                        \
    X(priority_inf)                                                                                \
    X(eval_return) /* greedy evaluation; nan when there was none */                                \
    X(eval_min)                                                                                    \
    X(eval_max)                                                                                    \
    X(eval_length)                                                                                 \
    X(best_return) /* best eval_return so far */

#define DQN_CLOCK_METRIC_LIST(X)                                                                   \
    X(dead_units) /* share of hidden units that were 0 for all rows of the latest batch; nan       \
                     before the first update */                                                    \
    X(seconds)    /* of the epoch's training, evaluation and saving apart */                       \
    X(updates_per_s)                                                                               \
    X(env_steps_per_s)                                                                             \
    X(host_waits)   /* times the host waited for the device inside the epoch */                    \
    X(gpu)          /* 1 = network and environments are on a GPU */                                \
    X(replay_gpu)   /* 1 = the replay is */                                                        \
    X(device_bytes) /* held on the device: planned buffers, checkpoints' copy */

#define DQN_METRIC_ENUM(name) DQN_METRIC_##name,
enum dqn_metric { DQN_METRIC_LIST(DQN_METRIC_ENUM) DQN_METRIC_COUNT };
enum dqn_clock_metric_base {
    DQN_CLOCK_METRIC_FIRST = DQN_METRIC_COUNT - 1,
    DQN_CLOCK_METRIC_LIST(DQN_METRIC_ENUM) DQN_METRIC_ALL
};
#undef DQN_METRIC_ENUM

/* Names, in order, of all DQN_METRIC_ALL columns; the first DQN_METRIC_COUNT are saved. */
extern const char *const dqn_metric_names[];

struct dqn_metrics; /* the history of a run and its metrics.csv */

enum dqn_status dqn_metrics_create(struct dqn_metrics **out);
void dqn_metrics_destroy(struct dqn_metrics *metrics);

/* Opens folder/metrics.csv. Rows of the history (a resumed run) are kept with the clock columns
 * that the file has for them; rows of the file beyond the history are dropped. */
enum dqn_status dqn_metrics_open(struct dqn_metrics *metrics, const char *folder);
/* Adds a row of DQN_METRIC_ALL values to the history and, where open, to the file. */
enum dqn_status dqn_metrics_add(struct dqn_metrics *metrics, const double *row);

/* The saved part: [n_rows, DQN_METRIC_COUNT]. */
const double *dqn_metrics_history(const struct dqn_metrics *metrics, size_t *n_rows);
/* Replaces the history (a resumed run), before dqn_metrics_open. */
enum dqn_status dqn_metrics_restore(struct dqn_metrics *metrics, const double *rows, size_t n_rows);

#endif
