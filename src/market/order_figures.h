/* What became of the orders, by kind and urgency. */
#ifndef DQN_MARKET_ORDER_FIGURES_H
#define DQN_MARKET_ORDER_FIGURES_H

#include "../../envs/trading_types.h"
#include "../base.h"

enum { DQN_ORDER_KINDS = 3, DQN_URGENCIES = 3 };

struct dqn_order_cell {
    uint64_t sent, filled, partly; /* filled counts partly filled ones as well */
    double fill_rate;              /* filled / sent; NaN when none was sent */
    double traded;                 /* money */
    /* Mean over the filled: how much better the fill price, before the fee, was than the open of
     * the bar and than the close before it, in basis points; NaN when none was filled. */
    double better_than_open, better_than_close;
};

struct dqn_order_figures {
    struct dqn_order_cell cell[DQN_ORDER_KINDS][DQN_URGENCIES];
    struct dqn_order_cell all;
    uint64_t stops;  /* orders of the daily loss stop, among the market aggressive ones */
    uint64_t forced; /* closes before a hole in the data; not orders */
    uint64_t margin_calls;
};

void dqn_order_figures_compute(const struct trading_step_record *records, size_t n,
                               struct dqn_order_figures *out);

/* "market", "limit", "ioc"; "patient", "normal", "aggressive". */
const char *dqn_order_kind_name(int kind);
const char *dqn_urgency_name(int urgency);

#endif
