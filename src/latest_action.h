/* The action that a trained agent takes after the newest bar of a file. */
#ifndef DQN_LATEST_ACTION_H
#define DQN_LATEST_ACTION_H

#include <stdio.h>

#include "greedy_policy.h"
#include "market/trading_setup.h"

struct dqn_latest {
    int64_t time_ns;          /* stamp of the newest bar */
    double bar_seconds;       /* bar length of the file */
    double close, volatility; /* its price, and s */
    double exposure;          /* held before */
    uint32_t action;
    double target;      /* exposure asked for */
    int order, urgency; /* of the action */
    bool sends;         /* false: within env.rebalance_band, hold */
    double limit;       /* limit price or cap of the order; 0 for market orders */
    float q[TRADING_ACTIONS];
};

/* Loads `file` as the configuration says, computes features with the checkpoint's statistics, and
 * asks the policy. The account is as at an episode's start, with a position of `exposure` (of
 * equity) that was just bought at the last close.
 *   mean, std  [43] of the checkpoint
 * DQN_ERR_DATA when the last segment is too short to warm the features up, and what
 * loading can say. */
enum dqn_status dqn_latest_find(struct dqn_latest *out, const struct dqn_config *config,
                                const char *file, const double *mean, const double *std,
                                struct dqn_greedy_policy *policy, double exposure);
void dqn_latest_print(const struct dqn_latest *latest, FILE *out);
void dqn_latest_json(const struct dqn_latest *latest, FILE *out);

#endif
