#include "order_figures.h"

#include <math.h>

const char *dqn_order_kind_name(int kind) {
    static const char *const names[] = {"market", "limit", "ioc", "none"};
    return names[kind];
}

const char *dqn_urgency_name(int urgency) {
    static const char *const names[] = {"patient", "normal", "aggressive"};
    return names[urgency];
}

/* Sums first, means at the end. */
static void add_order(struct dqn_order_cell *cell, const struct trading_step_record *r) {
    cell->sent++;
    if (r->filled == 0.0) {
        return;
    }
    const double side = r->filled > 0.0 ? 1.0 : -1.0;
    cell->filled++;
    cell->partly += r->partly;
    cell->traded += fabs(r->filled) * r->fill_price;
    cell->better_than_open += 1e4 * side * (r->open - r->fill_price) / r->open;
    cell->better_than_close += 1e4 * side * (r->decision_price - r->fill_price) / r->decision_price;
}

static void make_means(struct dqn_order_cell *cell) {
    const double filled = (double)cell->filled;
    cell->fill_rate = cell->sent > 0 ? filled / (double)cell->sent : NAN;
    cell->better_than_open = cell->filled > 0 ? cell->better_than_open / filled : NAN;
    cell->better_than_close = cell->filled > 0 ? cell->better_than_close / filled : NAN;
}

void dqn_order_figures_compute(const struct trading_step_record *records, size_t n,
                               struct dqn_order_figures *out) {
    *out = (struct dqn_order_figures){0};
    for (size_t i = 0; i < n; i++) {
        const struct trading_step_record *r = &records[i];
        if (r->sent) {
            add_order(&out->cell[r->order][r->urgency], r);
            add_order(&out->all, r);
        }
        out->stops += r->sent && r->stopped;
        out->forced += r->border_close;
        out->margin_calls += r->margin_call;
    }
    for (int kind = 0; kind < DQN_ORDER_KINDS; kind++) {
        for (int urgency = 0; urgency < DQN_URGENCIES; urgency++) {
            make_means(&out->cell[kind][urgency]);
        }
    }
    make_means(&out->all);
}
