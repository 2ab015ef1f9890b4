/* How a policy did on a split, beside what asks no skill: staying flat, buying and holding, selling
 * short and holding, and acting at random, all over the same bars at the same costs. Every form of
 * the report (text, JSON, page, tables) is written from this one struct. docs/report.md explains
 * the figures. */
#ifndef DQN_MARKET_TRADING_REPORT_H
#define DQN_MARKET_TRADING_REPORT_H

#include <stdio.h>

#include "order_figures.h"
#include "performance.h"
#include "round_trips.h"
#include "trading_setup.h"

enum {
    DQN_REPORT_BAND = 200, /* points along time of the band of random runs */
    DQN_REPORT_SENSITIVITIES = 5
};

/* A fixed policy, and its whole pass. */
struct dqn_report_pass {
    struct dqn_track track;
    struct dqn_performance figures;
};

/* Runs that draw their actions. Log returns of whole passes. */
struct dqn_random_runs {
    size_t runs;                  /* 0 = not made; then the figures are NaN */
    double *log_return;           /* [runs] ascending */
    double mean, low, high;       /* mean, 5 % and 95 % quantiles */
    double turnover;              /* mean */
    double percentile;            /* share of the runs that the agent ends above, 0..100 */
    double *band_low, *band_high; /* [DQN_REPORT_BAND] 5 % and 95 % quantiles of equity */
};

/* The same agent under other assumptions. */
struct dqn_sensitivity {
    const char *name; /* "no costs" */
    struct dqn_performance figures;
};

/* A line of the table of folds, where the run had folds. Sums of log returns. */
struct dqn_report_fold {
    char name[64];
    double validation;          /* of the seed that stands for the fold */
    double test;                /* the same */
    double test_low, test_high; /* over the seeds */
};

struct dqn_verdict {
    bool loses;         /* log return not above 0 */
    bool proven;        /* the 95 % interval of the log return lies above 0 */
    int buy_hold;       /* against the interval: +1 the agent is better, -1 worse, 0 open */
    char text[800];     /* for people */
    char warnings[800]; /* "" = none; one a line */
};

/* Sum of the steps' default rewards against 100 times the log of the total return. */
struct dqn_reward_check {
    bool possible; /* equity stayed above the floor of the reward */
    bool holds;
    bool from_rewards; /* the rewards given are the default ones; else the steps' log returns */
    double sum, expected;
};

struct dqn_trading_report {
    const struct dqn_market *market; /* borrowed */
    enum dqn_split split;
    char subject[DQN_TEXT_MAX]; /* the checkpoint; "" = not said */
    char costs_text[512];       /* the costs that were charged */
    int64_t first_time_ns, last_time_ns;
    size_t bars;
    double bars_per_year;
    bool bars_per_year_set;
    double risk_free; /* a year, in ratios */
    double trials; /* policies tried before this one was chosen */

    struct trading_step_record *records; /* [bars] of the agent */
    struct dqn_track track;              /* of the agent */
    struct dqn_performance agent;
    struct dqn_report_pass flat, buy_hold, short_hold;
    struct dqn_bootstrap interval; /* of the agent */
    struct dqn_sharpe_test sharpe_test;
    struct dqn_relation relation; /* to buy and hold */
    struct dqn_trades trades;
    struct dqn_trade_figures trade_figures;
    struct dqn_order_figures orders;
    struct dqn_reward_check reward_check;
    struct dqn_random_runs random; /* uniform over the actions */

    /* by dqn_trading_report_extend */
    struct dqn_random_runs random_same; /* with the agent's own frequencies of actions */
    size_t n_sensitivities;
    struct dqn_sensitivity sensitivity[DQN_REPORT_SENSITIVITIES];
    /* by the caller; borrowed */
    const struct dqn_report_fold *folds;
    size_t n_folds;

    /* markets with a known optimum (ou with fixed notional) */
    bool has_optimum;
    double optimum_threshold;
    double optimum_reward, agent_reward; /* mean reward a bar on this very path */
    bool sees_hidden;                    /* env.observation: oracle; then also */
    double agent_threshold;              /* where the agent itself turns */
    double agreement;                    /* share of states with the best policy's sign */
    struct dqn_verdict verdict;
};

/* Runs the policy and the baselines over one pass of the split. The market must outlive the report,
 * which is freed by dqn_trading_report_destroy. The agent's pass is kept step by step: about 300
 * bytes a bar. */
enum dqn_status dqn_trading_report_create(struct dqn_trading_report *out,
                                          const struct dqn_config *config,
                                          const struct dqn_market *market, enum dqn_split split,
                                          dqn_trading_policy policy, void *context);
/* Adds what takes as long again: random runs with the agent's own frequencies of actions, and the
 * agent under other costs, latency and fills of touched limits.
 *   trials  policies that were tried before this one was chosen, at least 1 */
enum dqn_status dqn_trading_report_extend(struct dqn_trading_report *report,
                                          const struct dqn_config *config,
                                          dqn_trading_policy policy, void *context, double trials);
void dqn_trading_report_destroy(struct dqn_trading_report *report);

/* For people, the verdict first. */
void dqn_trading_report_print(const struct dqn_trading_report *report, FILE *out);
/* Everything as one JSON object: on one line, or indented. Undefined figures are null. */
void dqn_trading_report_json(const struct dqn_trading_report *report, FILE *out);
void dqn_trading_report_json_pretty(const struct dqn_trading_report *report, FILE *out);

/* Sets verdict from the figures. */
void dqn_trading_report_judge(struct dqn_trading_report *report);
const char *dqn_split_name(enum dqn_split split);
/* All costs of a pass, money. */
double dqn_track_costs(const struct dqn_track *track);

#endif
