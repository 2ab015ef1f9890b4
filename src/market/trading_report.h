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

/* What a path chosen with the future known earns (hindsight.h): its log return, or with fixed
 * notional, where gains add up, its total return. NaN where it was not looked for. */
struct dqn_report_hindsight {
    double total_return, log_return; /* one of them */
    double share;                    /* the agent's over it */
};

/* The same agent under other assumptions. */
struct dqn_sensitivity {
    const char *name; /* "no costs" */
    struct dqn_performance figures;
};

/* A stretch of the pass that starts with a flat account of its own; what it earns is chained to
 * what was there before. A report over a split has one, a walk-forward's one a fold. Borrowed
 * tables. */
struct dqn_report_part {
    const struct trading_range *ranges; /* [n_ranges] */
    size_t n_ranges;
    uint64_t transitions; /* of all ranges */
    double median_volume; /* of the bars that the agent of the part was trained on */
};

/* One seed of a fold: its total returns, each over one pass from flat, the last position marked. */
struct dqn_report_seed {
    int64_t seed;
    uint64_t best_epoch; /* that validation chose */
    double validation_return, test_return;
    bool chosen; /* stands for the fold */
};

/* A fold of a walk-forward: training, validation and test, in this order, as in enum dqn_split. */
struct dqn_report_fold {
    /* by the caller */
    struct dqn_report_part part;                       /* the test's */
    size_t bars[DQN_SPLITS];                           /* of each part */
    int64_t first_ns[DQN_SPLITS], last_ns[DQN_SPLITS]; /* stamps of its first and last bar */
    const struct dqn_report_seed *seeds;               /* [n_seeds], one of them chosen; borrowed */
    size_t n_seeds;
    /* by the report: the chosen seed's test within the chained account */
    size_t first_step, n_steps; /* none once the account was ruined */
    struct dqn_performance figures;
    double buy_hold_return;
};

/* What a walk-forward was asked for. */
struct dqn_report_walk {
    const char *mode; /* "rolling" */
    bool warm_start;
    size_t embargo;          /* bars between the parts of a fold */
    size_t test_evaluations; /* passes over test parts so far, each of a trained agent */
};

enum { DQN_REPORT_WARNINGS = 12 };

struct dqn_verdict {
    bool loses;      /* log return not above 0 */
    bool proven;     /* the 95 % interval of the log return lies above 0 */
    int buy_hold;    /* against the interval: +1 the agent is better, -1 worse, 0 open */
    char text[1000]; /* for people */
    size_t n_warnings;
    char warning[DQN_REPORT_WARNINGS][400]; /* a sentence or two each */
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
    char subject[DQN_TEXT_MAX];          /* the checkpoint; "" = not said */
    char costs_text[512];                /* the costs that were charged */
    char trained_sha256[65];             /* of the data that it was trained on; "" = not known */
    bool data_changed;                   /* the market's is another one */
    int64_t first_time_ns, last_time_ns; /* of the split */
    size_t bars;          /* that the agent went through: split_bars, or until its ruin */
    size_t split_bars;    /* that a pass over the split has */
    bool ruined;          /* no equity was left after the last of `bars` */
    int64_t ruin_time_ns; /* stamp of that bar */
    double bars_per_year;
    bool bars_per_year_set;
    double risk_free; /* a year, in ratios */
    double trials;    /* policies tried before this one was chosen */

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
    struct dqn_report_hindsight hindsight;
    size_t n_sensitivities;
    struct dqn_sensitivity sensitivity[DQN_REPORT_SENSITIVITIES];
    struct dqn_report_part part;   /* the whole split, where there are no folds */
    struct dqn_report_fold *folds; /* [n_folds] of a walk-forward; borrowed */
    size_t n_folds;
    double *fold_start;          /* [n_folds] where they begin, of the whole pass: 0 to 1 */
    struct dqn_report_walk walk; /* where there are folds */

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
/* The same for a walk-forward: each fold's test in turn as one account that starts flat in every
 * fold with what the fold before left. The split is the test's.
 *   folds     [n_folds], borrowed; gets each fold's figures
 *   contexts  [n_folds] of the policy, one a fold */
enum dqn_status dqn_trading_report_create_walk(struct dqn_trading_report *out,
                                               const struct dqn_config *config,
                                               const struct dqn_market *market,
                                               const struct dqn_report_walk *walk,
                                               struct dqn_report_fold *folds, size_t n_folds,
                                               dqn_trading_policy policy, void *const *contexts);
/* Says what data the agent was trained on: 64 hexadecimal digits, or NULL where that is not known.
 * Where the market is another one the verdict warns. */
void dqn_trading_report_trained_on(struct dqn_trading_report *report, const char *sha256);
/* Adds what takes as long again: random runs with the agent's own frequencies of actions, the best
 * path with hindsight, and the agent under other costs, latency and fills of touched limits.
 *   contexts  of the policy: one a fold, or a single one
 *   trials    policies that were tried before this one was chosen, at least 1 */
enum dqn_status dqn_trading_report_extend(struct dqn_trading_report *report,
                                          const struct dqn_config *config,
                                          dqn_trading_policy policy, void *const *contexts,
                                          double trials);
void dqn_trading_report_destroy(struct dqn_trading_report *report);

/* For people, the verdict first. */
void dqn_trading_report_print(const struct dqn_trading_report *report, FILE *out);
/* Everything as one JSON object: on one line, or indented. Undefined figures are null. */
void dqn_trading_report_json(const struct dqn_trading_report *report, FILE *out);
void dqn_trading_report_json_pretty(const struct dqn_trading_report *report, FILE *out);

/* Sets verdict from the figures. */
void dqn_trading_report_judge(struct dqn_trading_report *report);
/* How it is found among that many: "median" on validation, or of an even number the "lower median",
 * the worse of the two in the middle: one run must stand for the fold, and none is in between. */
const char *dqn_seed_choice(size_t n_seeds);
/* The seed that stands for a fold. */
const struct dqn_report_seed *dqn_report_fold_chosen(const struct dqn_report_fold *fold);
const char *dqn_split_name(enum dqn_split split);
/* All costs of a pass, money. */
double dqn_track_costs(const struct dqn_track *track);

#endif
