/* Round trips: from flat to flat, or to the other side. */
#ifndef DQN_MARKET_ROUND_TRIPS_H
#define DQN_MARKET_ROUND_TRIPS_H

#include "../../envs/trading_types.h"
#include "../base.h"

enum dqn_trade_end {
    DQN_TRADE_CLOSED, /* an order brought it to zero */
    DQN_TRADE_FLIPPED,
    DQN_TRADE_MARGIN, /* margin call */
    DQN_TRADE_BORDER, /* forced before a hole in the data */
    DQN_TRADE_FOLD,   /* the next step starts flat: a fold ended, marked at its last close */
    DQN_TRADE_OPEN    /* still open at the end, marked at the last close */
};

struct dqn_trade {
    int side; /* +1 long, -1 short */
    enum dqn_trade_end end;
    uint64_t first_bar, last_bar;   /* that the first and the last fill fell into */
    size_t bars;                    /* held */
    double units;                   /* largest size */
    double entry_price, exit_price; /* averages of the fills that enlarged and reduced it */
    double pnl;                     /* money, after all costs */
    double costs;                   /* money, in pnl */
    double equity_before;
};

struct dqn_trades {
    size_t n, capacity;
    struct dqn_trade *trade; /* [n] in order of time; the last may be open */
    double idle_pnl;         /* change of equity without a position: interest */
};

/* Trades of a pass, from its records [n]. Their pnl and idle_pnl add up to the change of equity. A
 * fill that flips the position ends one trade and begins the next; its costs are shared by value,
 * and the step's financing goes to the new one. The caller frees with dqn_trades_free. */
enum dqn_status dqn_trades_find(const struct trading_step_record *records, size_t n,
                                struct dqn_trades *out);
void dqn_trades_free(struct dqn_trades *trades);
const char *dqn_trade_end_name(enum dqn_trade_end end);

/* Over the trades that were closed, net of costs; NaN where there is nothing to average. */
struct dqn_trade_figures {
    size_t closed, longs, wins;
    double hit_rate;      /* wins / closed */
    double profit_factor; /* sum of wins / sum of losses */
    double payoff;        /* mean win / mean loss */
    double mean_pnl;      /* money */
    double mean_return;   /* of the equity at the trade's start */
    double best_return, worst_return;
    double mean_bars; /* held */
    bool open;        /* one is still open, and */
    double open_pnl;  /* its result so far */
};

void dqn_trades_figures(const struct dqn_trades *trades, struct dqn_trade_figures *out);

#endif
