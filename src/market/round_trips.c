#include "round_trips.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *dqn_trade_end_name(enum dqn_trade_end end) {
    static const char *const names[] = {
        "order", "flip", "margin call", "hole in the data", "end of a fold", "still open"};
    return names[end];
}

/* The trade under way, and the sums behind its average prices. */
struct builder {
    struct dqn_trades *out;
    struct dqn_trade now;
    bool open;
    double entry_units, entry_money, exit_units, exit_money;
};

static enum dqn_status grow(struct dqn_trades *trades) {
    const size_t capacity = trades->capacity > 0 ? 2 * trades->capacity : 64;
    void *memory = realloc(trades->trade, capacity * sizeof *trades->trade);
    if (memory == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no memory for %zu trades", capacity);
    }
    trades->trade = memory;
    trades->capacity = capacity;
    return DQN_OK;
}

static void begin(struct builder *b, const struct trading_step_record *r, double units) {
    b->open = true;
    b->now = (struct dqn_trade){.side = units > 0.0 ? 1 : -1,
                                .first_bar = r->result_bar,
                                .equity_before = r->equity_before};
    b->entry_units = b->entry_money = b->exit_units = b->exit_money = 0.0;
}

static void enlarge(struct builder *b, double units, double price) {
    b->entry_units += units;
    b->entry_money += units * price;
}

static void reduce(struct builder *b, double units, double price) {
    b->exit_units += units;
    b->exit_money += units * price;
}

static enum dqn_status finish(struct builder *b, enum dqn_trade_end end, uint64_t bar) {
    if (b->out->n == b->out->capacity) {
        DQN_TRY(grow(b->out));
    }
    b->now.end = end;
    b->now.last_bar = bar;
    b->now.entry_price = b->entry_units > 0.0 ? b->entry_money / b->entry_units : NAN;
    b->now.exit_price = b->exit_units > 0.0 ? b->exit_money / b->exit_units : NAN;
    b->out->trade[b->out->n++] = b->now;
    b->open = false;
    return DQN_OK;
}

/* An order that ends the trade: what is left of the step's change belongs to the next one. */
static enum dqn_status close_by_order(struct builder *b, const struct trading_step_record *r,
                                      double *change, double *costs) {
    const double before = r->units_before, after = before + r->filled;
    reduce(b, fabs(before), r->fill_price);
    if (after == 0.0) {
        b->now.pnl += *change;
        b->now.costs += *costs;
        *change = *costs = 0.0;
        return finish(b, DQN_TRADE_CLOSED, r->result_bar);
    }
    const double share = r->traded > 0.0 ? fabs(before) * r->fill_price / r->traded : 0.0;
    const double pnl = before * (r->fill_price - r->decision_price) - share * r->fees;
    const double paid = share * (r->fees + r->spread + r->slippage + r->impact);
    b->now.pnl += pnl;
    b->now.costs += paid;
    *change -= pnl;
    *costs -= paid;
    DQN_TRY(finish(b, DQN_TRADE_FLIPPED, r->result_bar));
    begin(b, r, after);
    enlarge(b, fabs(after), r->fill_price);
    return DQN_OK;
}

static enum dqn_status add_order(struct builder *b, const struct trading_step_record *r,
                                 double *change, double *costs) {
    const double before = r->units_before, after = before + r->filled;
    if (before == 0.0) {
        begin(b, r, after);
        enlarge(b, fabs(after), r->fill_price);
    } else if (after * before <= 0.0) {
        return close_by_order(b, r, change, costs);
    } else if (fabs(after) > fabs(before)) {
        enlarge(b, fabs(r->filled), r->fill_price);
    } else {
        reduce(b, fabs(r->filled), r->fill_price);
    }
    return DQN_OK;
}

/* A rule closed what the order left: at the price that its value tells. */
static enum dqn_status close_by_rule(struct builder *b, const struct trading_step_record *r) {
    const double size = fabs(r->units_before + r->filled);
    reduce(b, size, (r->traded - fabs(r->filled) * r->fill_price) / size);
    return finish(b, r->margin_call ? DQN_TRADE_MARGIN : DQN_TRADE_BORDER, r->result_bar);
}

static enum dqn_status add_step(struct builder *b, const struct trading_step_record *r) {
    double change = r->equity_after - r->equity_before;
    double costs = r->fees + r->spread + r->slippage + r->impact + r->financing;
    /* a pass may begin with a position */
    if (!b->open && r->units_before != 0.0) {
        begin(b, r, r->units_before);
        enlarge(b, fabs(r->units_before), r->decision_price);
    }
    if (r->filled != 0.0) {
        DQN_TRY(add_order(b, r, &change, &costs));
    }
    if (!b->open) {
        b->out->idle_pnl += change;
        return DQN_OK;
    }
    b->now.pnl += change;
    b->now.costs += costs;
    b->now.bars++;
    b->now.units = fmax(b->now.units, fabs(r->units_before + r->filled));
    return r->units_after == 0.0 ? close_by_rule(b, r) : DQN_OK;
}

/* A position that nothing closed, at the close of its last step. */
static enum dqn_status mark_at_end(struct builder *b, const struct trading_step_record *last,
                                   enum dqn_trade_end end) {
    reduce(b, fabs(last->units_after), last->close);
    return finish(b, end, last->result_bar);
}

enum dqn_status dqn_trades_find(const struct trading_step_record *records, size_t n,
                                struct dqn_trades *out) {
    *out = (struct dqn_trades){0};
    struct builder b = {.out = out};
    enum dqn_status status = DQN_OK;
    for (size_t i = 0; i < n && status == DQN_OK; i++) {
        if (b.open && records[i].units_before == 0.0) {
            status = mark_at_end(&b, &records[i - 1], DQN_TRADE_FOLD);
        }
        status = status == DQN_OK ? add_step(&b, &records[i]) : status;
    }
    if (status == DQN_OK && b.open) {
        status = mark_at_end(&b, &records[n - 1], DQN_TRADE_OPEN);
    }
    if (status != DQN_OK) {
        dqn_trades_free(out);
    }
    return status;
}

void dqn_trades_free(struct dqn_trades *trades) {
    free(trades->trade);
    *trades = (struct dqn_trades){0};
}

static double mean_or_nan(double sum, size_t n) {
    return n > 0 ? sum / (double)n : NAN;
}

void dqn_trades_figures(const struct dqn_trades *trades, struct dqn_trade_figures *out) {
    *out = (struct dqn_trade_figures){.best_return = NAN, .worst_return = NAN, .open_pnl = NAN};
    double won = 0.0, lost = 0.0, pnl = 0.0, returns = 0.0, bars = 0.0;
    size_t losses = 0;
    for (size_t i = 0; i < trades->n; i++) {
        const struct dqn_trade *t = &trades->trade[i];
        if (t->end == DQN_TRADE_OPEN) {
            out->open = true;
            out->open_pnl = t->pnl;
            continue;
        }
        const double gain = t->pnl / t->equity_before;
        out->closed++;
        out->longs += t->side > 0;
        out->wins += t->pnl > 0.0;
        losses += t->pnl < 0.0;
        won += fmax(t->pnl, 0.0);
        lost += fmax(-t->pnl, 0.0);
        pnl += t->pnl;
        returns += gain;
        bars += (double)t->bars;
        out->best_return = fmax(out->best_return, gain); /* fmax ignores the first NaN */
        out->worst_return = fmin(out->worst_return, gain);
    }
    out->hit_rate = mean_or_nan((double)out->wins, out->closed);
    out->profit_factor = lost > 0.0 ? won / lost : NAN;
    out->payoff = mean_or_nan(won, out->wins) / mean_or_nan(lost, losses);
    out->mean_pnl = mean_or_nan(pnl, out->closed);
    out->mean_return = mean_or_nan(returns, out->closed);
    out->mean_bars = mean_or_nan(bars, out->closed);
}
