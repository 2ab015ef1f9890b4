/* How a policy did on a split, beside what asks no skill: staying flat, buying and holding, selling
 * short and holding, and acting at random, all over the same bars at the same costs. */
#ifndef DQN_MARKET_TRADING_REPORT_H
#define DQN_MARKET_TRADING_REPORT_H

#include <stdio.h>

#include "performance.h"
#include "trading_setup.h"

struct dqn_trading_report {
    enum dqn_split split;
    int64_t first_time_ns, last_time_ns;
    size_t bars;
    double bars_per_year;
    bool bars_per_year_set;
    struct dqn_track track; /* of the agent */
    struct dqn_performance agent, flat, buy_hold, short_hold;
    struct dqn_bootstrap interval; /* of the agent */
    size_t random_runs;
    double random_mean, random_low, random_high; /* log return: mean, 5 % and 95 % quantiles */
    double random_turnover;                      /* mean */
    double random_percentile;                    /* of the agent among the random runs, 0..100 */
    /* markets with a known optimum (ou with fixed notional) */
    bool has_optimum;
    double optimum_threshold;
    double optimum_reward, agent_reward; /* mean reward a bar on this very path */
    bool sees_hidden;                    /* env.observation: oracle; then also */
    double agent_threshold;              /* where the agent itself turns */
    double agreement;                    /* share of states with the best policy's sign */
};

/* Runs the policy and the baselines over one pass of the split.
 * gamma: discount for the known optimum. The report is freed by dqn_trading_report_destroy. */
enum dqn_status dqn_trading_report_create(struct dqn_trading_report *out,
                                          const struct dqn_config *config,
                                          const struct dqn_market *market, enum dqn_split split,
                                          dqn_trading_policy policy, void *context);
void dqn_trading_report_destroy(struct dqn_trading_report *report);

/* For people, the verdict first. */
void dqn_trading_report_print(const struct dqn_trading_report *report, FILE *out);
/* One JSON object on one line. */
void dqn_trading_report_json(const struct dqn_trading_report *report, FILE *out);

#endif
