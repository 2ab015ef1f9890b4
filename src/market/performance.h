/* Performance of one pass of a policy over a market: what happened, bar by bar, and the usual
 * figures of it. A figure that is not defined is NaN and printed as "n/a", never 0 or infinite. */
#ifndef DQN_MARKET_PERFORMANCE_H
#define DQN_MARKET_PERFORMANCE_H

#include "../../envs/trading_types.h"
#include "../base.h"

enum { DQN_EXPOSURES = 5, DQN_ORDER_CELLS = 9 };

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
    double ledger_residual; /* worst |dE - its parts| / equity of a step */
    double reward_sum;      /* of the environment's rewards */
    uint64_t actions[DQN_EXPOSURES][DQN_ORDER_CELLS];
    uint64_t orders_sent, orders_filled;
    uint64_t margin_calls;
    bool failed; /* memory ran out */
};

enum dqn_status dqn_track_create(struct dqn_track *track, size_t capacity);
void dqn_track_destroy(struct dqn_track *track);
void dqn_track_add(void *track, const struct trading_step_record *record);

struct dqn_performance {
    double years;
    double log_return, total_return, cagr;
    double volatility, sharpe, sortino; /* annualised by bars_per_year */
    double max_drawdown;                /* on bar closes, a positive fraction */
    double max_drawdown_adverse;        /* on adverse extremes */
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
 * Sortino and Price 1994, downside deviation over all bars. Fewer than 30 bars give NaN for both;
 * less than a quarter of a year gives NaN for CAGR and Calmar. */
void dqn_performance_compute(const struct dqn_track *track, double bars_per_year, double risk_free,
                             struct dqn_performance *out);

/* 95 % intervals by the stationary block bootstrap (Politis and Romano 1994, JASA 89), blocks of
 * mean length sqrt(n), a fixed seed. */
struct dqn_bootstrap {
    double log_return_low, log_return_high; /* of the whole pass */
    double sharpe_low, sharpe_high;
};

enum dqn_status dqn_bootstrap_compute(const struct dqn_track *track, double bars_per_year,
                                      double risk_free, size_t draws, struct dqn_bootstrap *out);

/* The q-quantile (0..1) of n values, linear between ranks; sorts them. NaN when n = 0. */
double dqn_quantile(double *values, size_t n, double q);

#endif
