/* Accounts of the trading environment: positions, margin, financing, equity. */
#ifndef DQN_ENVS_TRADING_ACCOUNT_H
#define DQN_ENVS_TRADING_ACCOUNT_H

#include "trading_fill.h"

#define TRADING_DAY_NS 86400000000000LL

/* Books a fill: cash, units, average entry price, and the record's costs. */
DQN_SHARED void trading_book(struct trading_state *state, const struct trading_fill *fill,
                             struct trading_step_record *record) {
    const double before = state->units, after = before + fill->quantity;
    if (before * fill->quantity > 0.0 || before == 0.0) { /* opened or enlarged */
        state->entry = (before * state->entry + fill->quantity * fill->price) / after;
    } else if (before * after < 0.0) { /* flipped */
        state->entry = fill->price;
    } else if (after == 0.0) {
        state->entry = 0.0;
    }
    state->units = after;
    state->cash -= fill->quantity * fill->price + fill->fees;
    record->fees += fill->fees;
    record->spread += fill->spread;
    record->slippage += fill->slippage;
    record->impact += fill->impact;
    record->traded += dqn_fabs(fill->quantity) * fill->price;
}

/* Sells or covers everything at a reference price, whatever the volume. Used where the rules force
 * it: range borders. */
DQN_SHARED void trading_close_at(const struct trading_params *p, struct trading_state *state,
                                 const struct trading_bar *bar, double reference,
                                 struct trading_step_record *record) {
    const double quantity = -state->units;
    struct trading_fill fill;
    if (p->fixed_cost >= 0.0) {
        fill = trading_fill_fixed(p, bar, quantity);
        fill.price = fill.reference = reference;
    } else {
        fill = trading_take(p, bar, quantity, reference, 1.0);
    }
    trading_book(state, &fill, record);
}

/* Cost of holding the position for `seconds`: value sold short pays the borrow rate, borrowed money
 * the leverage rate, own cash (the proceeds of a short sale are not) earns the cash rate. */
DQN_SHARED double trading_financing(const struct trading_params *p,
                                    const struct trading_state *state, double price,
                                    double seconds) {
    const double sold = state->units < 0.0 ? -state->units * price : 0.0;
    const double own = state->cash - sold;
    const double rate_money = own < 0.0 ? -own * p->leverage_rate : -own * p->cash_rate;
    return (sold * p->borrow_rate + rate_money) * seconds;
}

/* Closes the position when the bar's adverse extreme uses up the maintenance margin: at the worse
 * of the open and the price where the margin is just met, for the taker fee. Debt left is forgiven.
 * Returns 1 when it did. */
DQN_SHARED int trading_margin_call(const struct trading_params *p, struct trading_state *state,
                                   const struct trading_bar *bar, double *price_pnl,
                                   struct trading_step_record *record) {
    const double size = dqn_fabs(state->units);
    const double extreme = state->units < 0.0 ? bar->high : bar->low;
    record->adverse_equity = state->cash + state->units * extreme;
    if (!p->account_ends || size == 0.0 ||
        record->adverse_equity > p->maintenance * size * extreme) {
        return 0;
    }
    double price;
    if (state->units < 0.0) {
        price = dqn_fmax(bar->open, state->cash / (size * (1.0 + p->maintenance)));
    } else {
        price = dqn_fmin(bar->open, -state->cash / (size * (1.0 - p->maintenance)));
    }
    price = dqn_fmax(price, 0.0);
    *price_pnl -= state->units * (bar->close - price); /* undoes the way from there to the close */
    const double fee = p->taker_fee * size * price;
    state->cash += state->units * price - fee;
    state->units = state->entry = 0.0;
    record->fees += fee;
    record->traded += size * price;
    if (state->cash < 0.0) {
        record->forgiven = -state->cash;
        state->cash = 0.0;
    }
    return 1;
}

/* Keeps the UTC day of the daily loss stop; call before the step's order, with the day of the bar
 * that executes. */
DQN_SHARED void trading_enter_day(struct trading_state *state, int64_t time_ns) {
    const int64_t day = time_ns >= 0 ? time_ns / TRADING_DAY_NS
                                     : -((-time_ns + TRADING_DAY_NS - 1) / TRADING_DAY_NS);
    if (day != state->day) {
        state->day = day;
        state->day_equity = state->equity;
        state->stopped = 0;
    }
}

#endif
