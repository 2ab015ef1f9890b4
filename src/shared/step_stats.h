/* What one update reports. One list: the struct that kernels fill, the columns of metrics.csv and
 * the fields of the HDF5 history. Sums over the batch rows or over the updates of an epoch are
 * turned into means on the host (sum / updates, or sum / rows for the per-row ones). */
#ifndef DQN_SHARED_STEP_STATS_H
#define DQN_SHARED_STEP_STATS_H

#include "hd.h"

/* X(member, how it joins over updates: SUM or MAX) */
#define DQN_STEP_STATS_LIST(X)                                                                     \
    X(updates, SUM)    /* applied */                                                               \
    X(rows, SUM)       /* batch rows behind them */                                                \
    X(loss, SUM)       /* mean weighted loss of a batch */                                         \
    X(q_mean, SUM)     /* mean over the batch of Q(s, a taken) */                                  \
    X(q_max, SUM)      /* mean over the batch of max_a Q(s, a) */                                  \
    X(td_abs, SUM)     /* mean over the batch of |TD error| */                                     \
    X(weight_min, SUM) /* smallest importance weight of the batch */                               \
    X(grad_norm, SUM)  /* global norm before clipping */                                           \
    X(clipped, SUM)    /* 1 when it was clipped */                                                 \
    X(lr, SUM)         /* learning rate used */                                                    \
    X(beta, SUM)       /* importance exponent used */                                              \
    X(td_abs_max, MAX) /* largest |TD error| */

struct dqn_step_stats {
#define DQN_STEP_STATS_FIELD(name, join) double name;
    DQN_STEP_STATS_LIST(DQN_STEP_STATS_FIELD)
#undef DQN_STEP_STATS_FIELD
};

#endif
