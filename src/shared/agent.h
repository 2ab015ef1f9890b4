/* One agent's scalars and counters. A population is K agents of equal shapes; everything that may
 * differ between them is here, so that kernels read it by agent index and a program recorded once
 * stays valid while schedules move. */
#ifndef DQN_SHARED_AGENT_H
#define DQN_SHARED_AGENT_H

#include "hd.h"

enum dqn_schedule_kind { DQN_SCHEDULE_CONSTANT, DQN_SCHEDULE_LINEAR, DQN_SCHEDULE_COSINE };

/* Hyperparameters, fixed during a run. */
struct dqn_agent {
    uint64_t seed;
    double gamma;
    double lr_start, lr_end; /* Adam step size over lr_updates updates */
    uint64_t lr_updates;
    uint64_t lr_kind;          /* enum dqn_schedule_kind */
    double eps_start, eps_end; /* exploration, linear over eps_steps env steps */
    uint64_t eps_steps;
    double beta_start, beta_end; /* importance exponent, linear over beta_updates updates */
    uint64_t beta_updates;
    double alpha;            /* priority exponent */
    double priority_epsilon; /* smallest priority */
    double priority_max;     /* fixed ceiling of priorities */
    double tau;              /* soft target coefficient; 0 = hard copies */
    uint64_t target_updates; /* updates between hard copies; 0 = soft */
    double huber_delta;      /* 0 = squared loss */
    double max_grad_norm;    /* 0 = no clipping */
    double adam_beta1, adam_beta2, adam_eps, weight_decay;
};

/* What has happened so far. All members are uint64_t: a checkpoint stores one row a agent. */
#define DQN_COUNTER_LIST(X)                                                                        \
    X(vector_steps)     /* steps of the whole vector of environments */                            \
    X(env_steps)        /* vector_steps * lanes */                                                 \
    X(updates)          /* optimizer steps tried, skipped ones included */                         \
    X(draws)            /* batches drawn from the replay */                                        \
    X(adam_steps)       /* optimizer steps applied */                                              \
    X(target_copies)    /* hard copies of the target network */                                    \
    X(nonfinite)        /* updates skipped for a non-finite loss or gradient */                    \
    X(nonfinite_streak) /* of these, in a row, up to now */                                        \
    X(nonfinite_update) /* the latest update that was skipped */                                   \
    X(nonfinite_where)  /* 1 loss, 2 gradient, 3 parameters */                                     \
    X(priority_nan)     /* NaN TD errors clamped to epsilon */                                     \
    X(priority_inf)     /* infinite TD errors clamped to the ceiling */                            \
    X(clipped)          /* gradients scaled down to the norm limit */                              \
    X(failed)           /* 1: too many non-finite updates in a row, the agent is frozen */

struct dqn_counters {
#define DQN_COUNTER_FIELD(name) uint64_t name;
    DQN_COUNTER_LIST(DQN_COUNTER_FIELD)
#undef DQN_COUNTER_FIELD
};

#endif
