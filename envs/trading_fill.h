/* Orders of the trading environment: what an action sends, and what one bar does with it.
 *
 * An order is decided at the close of bar t (price P, volatility s, half-spread of that bar) and
 * lives during one execution bar. Adverse by rule wherever a bar leaves room: limits fill only when
 * traded through, at the limit and not better; taker orders pay spread and slippage on top.
 * All prices in money, fractions of the price for costs, quantities in units. */
#ifndef DQN_ENVS_TRADING_FILL_H
#define DQN_ENVS_TRADING_FILL_H

#include "../src/shared/real.h"
#include "env.h"
#include "trading_types.h"

DQN_SHARED int trading_order_kind(uint32_t action) {
    return (int)(action / 3u % 3u);
}

DQN_SHARED int trading_urgency(uint32_t action) {
    return (int)(action % 3u);
}

/* Target exposure of an action, in units of equity (or of the fixed notional). */
DQN_SHARED double trading_target(const struct trading_params *p, uint32_t action) {
    const double level = 0.5 * (double)((int)(action / 9u) - 2);
    if (p->long_only && level < 0.0) {
        return 0.0;
    }
    return level * p->max_leverage;
}

/* Exposure of `units` at a price. */
DQN_SHARED double trading_exposure(const struct trading_params *p, double units, double price,
                                   double equity) {
    if (p->fixed_notional) {
        return units * p->reference_price / p->initial_equity;
    }
    if (!(equity > 0.0)) {
        return 0.0;
    }
    return units * price / equity;
}

/* Largest multiple of `step` not above |quantity|, with its sign; step 0 = any quantity. A hair
 * above a multiple counts as that multiple. */
DQN_SHARED double trading_whole(double quantity, double step) {
    if (step <= 0.0) {
        return quantity;
    }
    const double steps = dqn_floor(dqn_fabs(quantity) / step + 1e-9);
    return quantity < 0.0 ? -steps * step : steps * step;
}

/* The bar that executes, its costs, and the decision it executes. */
struct trading_bar {
    double open, high, low, close;
    double volume; /* < 0: the data has no volume */
    double price;  /* P, the decision's close */
    double s;      /* bar volatility at the decision */
    double half_spread;
    double slip;
    int closed; /* nothing can trade */
};

/* Costs of every kind are scaled by fill.cost_scale when the parameters are made. */
DQN_SHARED void trading_bar_costs(const struct trading_params *p, uint64_t decision,
                                  struct trading_bar *bar) {
    bar->price = p->close[decision];
    bar->s = p->s[decision];
    bar->half_spread = p->half_spread_table != NULL ? p->half_spread_table[decision] * p->cost_scale
                                                    : p->half_spread;
    bar->slip = p->slip + p->slip_vol * bar->s;
}

/* Share of the slippage that an order pays. */
DQN_SHARED double trading_slip_share(int kind, int urgency) {
    if (kind == TRADING_IOC) {
        return 0.5;
    }
    return urgency == 0 ? 0.25 : urgency == 1 ? 0.6 : 1.0;
}

/* Expected cost rate of an order, fees included: what sizing allows for. */
DQN_SHARED double trading_cost_rate(const struct trading_params *p, const struct trading_bar *bar,
                                    int kind, int urgency) {
    if (p->fixed_cost >= 0.0) {
        return p->fixed_cost;
    }
    if (kind == TRADING_LIMIT) {
        return p->maker_fee;
    }
    return bar->half_spread + trading_slip_share(kind, urgency) * bar->slip + p->taker_fee;
}

/* Units to trade so that exposure after the cost at rate k is e at price P:
 * u P = e (E - k P |u - u0|), solved for u. 0 inside the rebalance band or below the smallest
 * order. */
DQN_SHARED double trading_order_size(const struct trading_params *p, const struct trading_bar *bar,
                                     double units, double equity, double target, double rate) {
    const double exposure = trading_exposure(p, units, bar->price, equity);
    if (dqn_fabs(target - exposure) < p->rebalance_band || target == exposure) {
        return 0.0;
    }
    double wanted;
    if (p->fixed_notional) {
        wanted = target * p->initial_equity / p->reference_price;
    } else {
        const double side = target > exposure ? 1.0 : -1.0;
        const double paid = side * rate;
        wanted =
            target * (equity + paid * units * bar->price) / (bar->price * (1.0 + paid * target));
    }
    const double quantity = trading_whole(wanted - units, p->quantity_step);
    return dqn_fabs(quantity) * bar->price < p->min_notional ? 0.0 : quantity;
}

/* What a bar gave. price - reference is spread, slippage and impact. */
struct trading_fill {
    double quantity;                       /* signed units; 0 = nothing */
    double price;                          /* paid, fee apart */
    double reference;                      /* price without spread, slippage and impact */
    double limit;                          /* limit price or cap; 0 for market orders */
    double fees, spread, slippage, impact; /* money */
};

DQN_SHARED double trading_at_most(const struct trading_params *p, double quantity, double share,
                                  double volume) {
    if (volume < 0.0) {
        return quantity;
    }
    const double most = share * volume;
    const double capped = quantity > most ? most : quantity < -most ? -most : quantity;
    return trading_whole(capped, p->quantity_step);
}

/* A taker fill of `quantity` at a reference price. */
DQN_SHARED struct trading_fill trading_take(const struct trading_params *p,
                                            const struct trading_bar *bar, double quantity,
                                            double reference, double slip_share) {
    struct trading_fill fill;
    const double side = quantity < 0.0 ? -1.0 : 1.0, size = dqn_fabs(quantity);
    double impact = 0.0;
    if (p->impact > 0.0 && p->median_volume > 0.0) {
        impact = p->impact * bar->s * dqn_sqrt(size / p->median_volume);
    }
    const double slip = slip_share * bar->slip;
    fill.quantity = quantity;
    fill.reference = reference;
    fill.price = reference * (1.0 + side * (bar->half_spread + slip + impact));
    fill.limit = 0.0;
    fill.fees = p->taker_fee * size * fill.price;
    fill.spread = size * reference * bar->half_spread;
    fill.slippage = size * reference * slip;
    fill.impact = size * reference * impact;
    return fill;
}

DQN_SHARED struct trading_fill trading_no_fill(double limit) {
    struct trading_fill fill;
    fill.quantity = fill.price = fill.reference = 0.0;
    fill.limit = limit;
    fill.fees = fill.spread = fill.slippage = fill.impact = 0.0;
    return fill;
}

/* MARKET: patient orders get the bar's average price, aggressive ones the open, normal ones the
 * mean of the two. */
DQN_SHARED struct trading_fill trading_fill_market(const struct trading_params *p,
                                                   const struct trading_bar *bar, double quantity,
                                                   int urgency) {
    const double average = 0.25 * (bar->open + bar->high + bar->low + bar->close);
    const double reference = urgency == 0   ? average
                             : urgency == 1 ? 0.5 * (average + bar->open)
                                            : bar->open;
    const double filled = trading_at_most(p, quantity, p->max_participation, bar->volume);
    if (filled == 0.0) {
        return trading_no_fill(0.0);
    }
    return trading_take(p, bar, filled, reference, trading_slip_share(TRADING_MARKET, urgency));
}

/* IOC: at the open or not at all, when the price with its costs is within the cap. */
DQN_SHARED struct trading_fill trading_fill_ioc(const struct trading_params *p,
                                                const struct trading_bar *bar, double quantity,
                                                int urgency) {
    const double side = quantity < 0.0 ? -1.0 : 1.0;
    const double allowance = urgency == 0 ? 0.10 : urgency == 1 ? 0.35 : 1.0;
    const double cap = bar->price * (1.0 + side * (bar->half_spread + allowance * bar->s));
    const double price = bar->open * (1.0 + side * (bar->half_spread + 0.5 * bar->slip));
    const double filled = trading_at_most(p, quantity, p->ioc_participation, bar->volume);
    if (side * (price - cap) > 0.0 || filled == 0.0) {
        return trading_no_fill(cap);
    }
    struct trading_fill fill = trading_take(p, bar, filled, bar->open, 0.5);
    fill.limit = cap;
    return fill;
}

/* LIMIT_MAKER: at the limit, never better, when the bar trades through it by the queue margin. */
DQN_SHARED struct trading_fill trading_fill_limit(const struct trading_params *p,
                                                  const struct trading_bar *bar, double quantity,
                                                  int urgency, double chance) {
    const double side = quantity < 0.0 ? -1.0 : 1.0;
    const double depth = urgency == 0 ? 0.75 : urgency == 1 ? 0.25 : 0.0;
    double limit = bar->price * (1.0 - side * (bar->half_spread + depth * bar->s));
    if (p->tick_size > 0.0) { /* away from the market */
        limit = side * dqn_floor(side * limit / p->tick_size + 1e-9) * p->tick_size;
    }
    const double margin = dqn_fmax(p->tick_size, p->queue_margin * bar->s * bar->price);
    /* how far the bar went beyond the limit */
    const double through = side > 0.0 ? limit - bar->low : bar->high - limit;
    const int touched = through >= 0.0 && chance < p->touch_fill;
    const int crossed = side * (limit - bar->open) >= 0.0;
    if (!(limit > 0.0) || !(through > margin || touched) || (p->post_only_gap && crossed)) {
        return trading_no_fill(limit);
    }
    const double range = bar->high - bar->low;
    const double share = range > 0.0 ? dqn_fmin(1.0, through / range) : 1.0;
    const double filled = trading_at_most(p, quantity, p->maker_participation * share, bar->volume);
    struct trading_fill fill = trading_no_fill(limit);
    if (filled != 0.0) {
        fill.quantity = filled;
        fill.price = fill.reference = limit;
        fill.fees = p->maker_fee * dqn_fabs(filled) * limit;
    }
    return fill;
}

/* Gates: the whole order at the open for fill.fixed_cost of its notional. */
DQN_SHARED struct trading_fill trading_fill_fixed(const struct trading_params *p,
                                                  const struct trading_bar *bar, double quantity) {
    struct trading_fill fill = trading_no_fill(0.0);
    fill.quantity = quantity;
    fill.price = fill.reference = bar->open;
    fill.fees =
        p->fixed_cost * dqn_fabs(quantity) * (p->fixed_notional ? p->reference_price : bar->open);
    return fill;
}

/* Executes `quantity` (not 0) in the bar. `chance`: uniform in [0, 1), for touched limits. */
DQN_SHARED struct trading_fill trading_execute(const struct trading_params *p,
                                               const struct trading_bar *bar, double quantity,
                                               int kind, int urgency, double chance) {
    if (bar->closed) {
        return trading_no_fill(0.0);
    }
    if (p->fixed_cost >= 0.0) {
        return trading_fill_fixed(p, bar, quantity);
    }
    if (kind == TRADING_LIMIT) {
        return trading_fill_limit(p, bar, quantity, urgency, chance);
    }
    if (kind == TRADING_IOC) {
        return trading_fill_ioc(p, bar, quantity, urgency);
    }
    return trading_fill_market(p, bar, quantity, urgency);
}

#endif
