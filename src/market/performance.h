/* Performance of one pass of a policy over a market: what happened, bar by bar, and the usual
 * figures of it. A figure that is not defined is NaN and printed as "n/a", never 0 or infinite.
 * The figures are explained in docs/report.md. */
#ifndef DQN_MARKET_PERFORMANCE_H
#define DQN_MARKET_PERFORMANCE_H

#include "../../envs/trading_types.h"
#include "../base.h"

enum {
    DQN_EXPOSURES = 5,
    DQN_ORDER_CELLS = 9,
    DQN_MIN_RETURNS = 30 /* fewer give no volatility, no ratios and no intervals */
};

/* A pass, filled by dqn_track_add as a dqn_trading_sink. */
struct dqn_track {
    size_t n, capacity;
    double start_equity;
    double *equity;         /* [n] after each step */
    double *adverse_equity; /* [n] at the worst price of the bar */
    double *exposure;       /* [n] after each step */
    uint64_t *bar;          /* [n] result bar */
    double fees, spread, slippage, impact, financing, price_pnl, traded; /* sums, money */
    double forgiven;
    double ledger_residual; /* worst |dE - its parts| / equity of a step (at least 1e-12 of the
                             * start's)
                             */
    double reward_sum;      /* of the environment's rewards */
    double log_return_sum;  /* of the steps' log returns, floored as the reward is */
    uint64_t actions[DQN_EXPOSURES][DQN_ORDER_CELLS];
    uint64_t orders_sent, orders_filled;
    uint64_t margin_calls, clipped;
    bool failed; /* memory ran out */
};

enum dqn_status dqn_track_create(struct dqn_track *track, size_t capacity);
void dqn_track_destroy(struct dqn_track *track);
void dqn_track_add(void *track, const struct trading_step_record *record);
/* Simple return of each bar, [n] out. */
void dqn_track_returns(const struct dqn_track *track, double *out);

struct dqn_performance {
    double years;
    double log_return, total_return, cagr;
    double closed_return; /* total return when the last position is closed at its cost */
    double closing_cost;  /* money */
    double volatility, sharpe, sortino; /* annualised by bars_per_year */
    double sharpe_daily;                /* of the equity at the end of each UTC day */
    double max_drawdown;                /* on bar closes, a positive fraction */
    double max_drawdown_adverse;        /* on adverse extremes */
    double drawdown_bars;               /* longest stretch below an earlier peak */
    double underwater_frac;             /* share of bars below an earlier peak */
    double calmar;
    double turnover;                   /* one-way traded value / mean equity / year */
    double exposure_abs, exposure_net; /* means */
    double long_frac, short_frac, flat_frac;
    double costs;          /* all causes, money */
    double action_entropy; /* nats */
    bool constant_policy;  /* one action in at least 99 % of bars */
};

/* Figures of a track.
 *   bars_per_year  for annualising
 *   risk_free      rate a year
 * Sharpe: Sharpe 1994, J. Portfolio Management 21(1), on simple bar returns, ddof 1. Sortino:
 * Sortino and Price 1994, J. Investing 3(3), downside deviation over all bars. Fewer than 30 bars
 * give NaN for both; less than a quarter of a year gives NaN for CAGR and Calmar. closed_return,
 * closing_cost and sharpe_daily are NaN until they are set. */
void dqn_performance_compute(const struct dqn_track *track, double bars_per_year, double risk_free,
                             struct dqn_performance *out);

/* Sharpe ratio of daily returns: equity at the last bar of each UTC day, annualised by the days
 * with bars a year. NaN below 30 days.
 *   time_ns  stamps of the market's bars, by bar index */
double dqn_sharpe_daily(const struct dqn_track *track, const int64_t *time_ns, double bars_per_year,
                        double risk_free);

/* How a track moves with another over the same bars, on log returns: alpha a year, beta,
 * correlation. NaN below 30 bars, without variance, or where equity is not positive. */
struct dqn_relation {
    double alpha, beta, correlation;
};

void dqn_relation_compute(const struct dqn_track *track, const struct dqn_track *market,
                          double bars_per_year, double risk_free, struct dqn_relation *out);

/* 95 % intervals by the stationary block bootstrap (Politis and Romano 1994, JASA 89), blocks of
 * mean length sqrt(n), a fixed seed, equal at any number of threads (0 = one a core). NaN below
 * 30 bars. */
struct dqn_bootstrap {
    double log_return_low, log_return_high; /* of the whole pass */
    double sharpe_low, sharpe_high;
};

enum dqn_status dqn_bootstrap_compute(const struct dqn_track *track, double bars_per_year,
                                      double risk_free, size_t draws, size_t threads,
                                      struct dqn_bootstrap *out);

/* Whether a Sharpe ratio is more than luck, from its length, skewness and kurtosis. */
struct dqn_sharpe_test {
    double probabilistic; /* probability that the true ratio is above 0 (Bailey and Lopez de Prado
                             2012, J. of Risk 15(2), eq. 11) */
    double deflated;      /* that it is above the best of `trials` skill-less ones (2014, J.
                             Portfolio Management 40(5)), their spread that of chance alone */
    double benchmark;     /* that best one, annualised */
    double skewness, kurtosis; /* of bar returns; a normal law has 0 and 3 */
};

enum dqn_status dqn_sharpe_test_compute(const struct dqn_track *track, double bars_per_year,
                                        double risk_free, double trials,
                                        struct dqn_sharpe_test *out);

/* Its two formulas. Probability that a Sharpe ratio, measured on n returns, is truly above a
 * benchmark (both per return); NaN where the formula has no value. And the expected largest of so
 * many independent standard normal numbers; 0 for one. */
double dqn_sharpe_probability(double sharpe, double benchmark, double n, double skewness,
                              double kurtosis);
double dqn_expected_best(double trials);

/* The q-quantile (0..1) of n values, linear between ranks; sorts them. NaN when n = 0. */
double dqn_quantile(double *values, size_t n, double q);
/* Sharpe ratio of n returns with `a_year` of them a year. NaN below 30 or without spread. */
double dqn_sharpe(const double *returns, size_t n, double a_year, double risk_free);

#endif
