/* Plain data of the trading environment: parameters with the market's tables, one lane's state, and
 * what a step reports. */
#ifndef DQN_ENVS_TRADING_TYPES_H
#define DQN_ENVS_TRADING_TYPES_H

#include "../src/shared/hd.h"

enum { TRADING_MARKET, TRADING_LIMIT, TRADING_IOC, TRADING_NO_ORDER };

enum {
    TRADING_ACTIONS = 45, /* a = 9 * exposure level + 3 * order kind + urgency */
    TRADING_MARKET_FEATURES = 43,
    TRADING_FEATURES = 51,
    TRADING_NO_ACTION = 45 /* pending action of a lane that has not decided yet */
};

/* A stretch of bars without a hole whose bars first..last-1 may decide and whose bars
 * first+1..last execute. `before` = transitions of the earlier ranges of the split. */
struct trading_range {
    uint64_t first, last, before;
};

struct trading_params {
    /* tables, [n] each; NULL where the data has no such column */
    const float *features; /* [n, 43] normalised */
    const double *open, *high, *low, *close;
    const double *volume;
    const double *half_spread_table; /* fraction of the price */
    const double *s;                 /* EWMA volatility */
    const double *hidden;            /* oracle observation */
    const int64_t *time_ns;
    const uint8_t *untradable;
    const struct trading_range *ranges; /* [n_ranges] of the split in use */
    uint64_t n_ranges;
    uint64_t transitions; /* of all ranges */
    uint64_t lanes;       /* evaluation: parts of the split */
    uint64_t episode_bars;
    /* switches, 0 or 1 */
    uint64_t evaluate; /* flat start, walk a part; else random starts */
    uint64_t oracle;
    uint64_t fixed_notional;
    uint64_t long_only;
    uint64_t at_close; /* fill.timing: close */
    uint64_t latency;
    uint64_t post_only_gap;
    uint64_t linear_reward;
    uint64_t subtract_buyhold;
    uint64_t account_ends; /* ruin and margin apply (off: fixed notional without a ruin level) */
    /* sizes and limits */
    double max_leverage, rebalance_band, min_notional, quantity_step, tick_size;
    double initial_equity, reference_price, ruin_fraction, maintenance;
    double drawdown_scale; /* 1 / ln(1 - env.drawdown_limit) */
    double daily_loss_stop;
    /* costs, fractions, already multiplied by cost_scale; half_spread_table is not */
    double cost_scale, half_spread, slip, slip_vol, impact, taker_fee, maker_fee, fixed_cost;
    double max_participation, ioc_participation, maker_participation, queue_margin, touch_fill;
    double median_volume; /* for impact; 0 = unknown */
    /* financing per second, multiplied by cost_scale, and the nominal bar length */
    double cash_rate, borrow_rate, leverage_rate, bar_seconds;
    /* reward */
    double scale, clip, risk_aversion, drawdown_penalty, ruin_floor;
};

/* One lane. Money in double, all members 8 bytes: no padding. */
struct trading_state {
    uint64_t bar;               /* decision bar */
    uint64_t last;              /* last bar of the current range */
    uint64_t range;             /* index of that range */
    uint64_t left;              /* steps until the episode is cut off */
    double units, cash, equity; /* at the close of `bar` */
    double start_equity, peak;  /* of this episode */
    double entry;               /* average entry price; 0 when flat */
    double recent_return;       /* EWMA of own log returns, span 20 */
    double last_turnover;       /* |change of exposure| by the last step's fill */
    double last_fill;           /* -1 unfilled, 0 no order, else filled fraction */
    uint64_t hold, idle;        /* bars in position, bars since the last trade */
    uint64_t pending;           /* latency: action decided one bar ago */
    int64_t day;                /* UTC day of the daily stop */
    double day_equity;          /* at that day's start */
    uint64_t stopped;           /* 1 = flat for the rest of the day */
};

/* What one step did: for reports and tests. equity_after - equity_before = price_pnl - fees -
 * spread - slippage - impact - financing + forgiven. */
struct trading_step_record {
    uint64_t bar;        /* decision bar */
    uint64_t result_bar; /* bar whose close the step ends at */
    uint32_t action;     /* as given */
    uint32_t executed;   /* the one carried out: differs by latency or a daily stop;
                            TRADING_NO_ACTION = none yet */
    int32_t order;       /* TRADING_MARKET, _LIMIT, _IOC, or _NO_ORDER */
    int32_t urgency;
    double target; /* exposure asked for */
    double exposure_before, exposure_after;
    double equity_before, equity_after;
    double units_before, units_after;
    double decision_price, open, close; /* P; the execution bar's open; its close */
    double ordered, filled;             /* signed units */
    double fill_price;                  /* fee apart; 0 when unfilled */
    double limit;                       /* limit or cap; 0 for market orders */
    double price_pnl, fees, spread, slippage, impact, financing; /* money */
    double forgiven;       /* debt written off when a margin close left less than nothing */
    double adverse_equity; /* equity at the bar's adverse extreme */
    double traded;         /* notional traded, forced closes included */
    double log_return;     /* of equity, floored as the reward is */
    double reward;         /* in double, as it was before rounding to float */
    uint8_t sent, partly, margin_call, border_close, terminated, truncated, clipped, stopped;
};

#endif
