#include "report_csv.h"

#include <math.h>
#include <time.h>

const char *dqn_time_text(char *text, size_t size, int64_t time_ns) {
    const int64_t rest = (time_ns % 1000000000 + 1000000000) % 1000000000;
    const time_t seconds = (time_t)((time_ns - rest) / 1000000000);
    struct tm day;
    gmtime_r(&seconds, &day);
    const size_t n = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &day);
    snprintf(text + n, size - n, rest != 0 ? ".%09lldZ" : "Z", (long long)rest);
    return text;
}

static void put_time(const struct dqn_trading_report *r, uint64_t bar, FILE *out) {
    char text[40];
    fputs(dqn_time_text(text, sizeof text, r->market->bars.time_ns[bar]), out);
}

/* A number after a comma; nothing where there is none. */
static void put(FILE *out, double value) {
    if (isnan(value)) {
        putc(',', out);
    } else {
        fprintf(out, ",%.17g", value);
    }
}

/* ---- equity ---------------------------------------------------------------------------------- */

static double equity_at(const struct dqn_track *track, size_t step) {
    return step < track->n ? track->equity[step] : track->equity[track->n - 1];
}

/* Number of the fold that a step belongs to, from 1. */
static size_t fold_of(const struct dqn_trading_report *r, size_t step) {
    size_t fold = 0, end = 0;
    while (fold < r->n_folds && step >= end) {
        end += (size_t)r->folds[fold++].part.transitions;
    }
    return fold;
}

static void put_row(const struct dqn_trading_report *r, size_t step, uint64_t bar,
                    const double row[8], FILE *out) {
    put_time(r, bar, out);
    for (size_t c = 0; c < 8; c++) {
        put(out, row[c]);
    }
    if (r->n_folds > 0) {
        fprintf(out, ",%zu", fold_of(r, step));
    }
    putc('\n', out);
}

void dqn_report_equity_csv(const struct dqn_trading_report *r, FILE *out) {
    const double start = r->track.start_equity;
    double peak = start;
    fprintf(out,
            "time,equity,equity_at_worst_price,drawdown,exposure,close,buy_and_hold,"
            "short_and_hold,flat%s\n",
            r->n_folds > 0 ? ",fold" : "");
    const struct trading_step_record *begin = &r->records[0];
    put_row(r, 0, begin->bar,
            (const double[]){start, start, 0.0, begin->exposure_before, begin->decision_price,
                             start, start, start},
            out);
    for (size_t i = 0; i < r->split_bars; i++) {
        const bool lives = i < r->bars; /* after its ruin the agent's columns are empty */
        const uint64_t bar = r->flat.track.bar[i];
        peak = lives ? fmax(peak, r->track.equity[i]) : peak;
        put_row(r, i, bar,
                (const double[]){lives ? r->track.equity[i] : NAN,
                                 lives ? r->track.adverse_equity[i] : NAN,
                                 lives ? 1.0 - r->track.equity[i] / peak : NAN,
                                 lives ? r->track.exposure[i] : NAN, r->market->bars.close[bar],
                                 equity_at(&r->buy_hold.track, i),
                                 equity_at(&r->short_hold.track, i), equity_at(&r->flat.track, i)},
                out);
    }
}

/* ---- trades ---------------------------------------------------------------------------------- */

void dqn_report_trades_csv(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "number,side,entry_time,exit_time,bars,entry_price,exit_price,units,pnl,"
                 "return,costs,equity_before,ended_by\n");
    for (size_t i = 0; i < r->trades.n; i++) {
        const struct dqn_trade *t = &r->trades.trade[i];
        fprintf(out, "%zu,%s,", i + 1, t->side > 0 ? "long" : "short");
        put_time(r, t->first_bar, out);
        putc(',', out);
        put_time(r, t->last_bar, out);
        fprintf(out, ",%zu", t->bars);
        const double row[] = {
            t->entry_price, t->exit_price,   t->units, t->pnl, t->pnl / t->equity_before,
            t->costs,       t->equity_before};
        for (size_t c = 0; c < DQN_COUNT_OF(row); c++) {
            put(out, row[c]);
        }
        fprintf(out, ",%s\n", dqn_trade_end_name(t->end));
    }
}

/* ---- fills ----------------------------------------------------------------------------------- */

static void put_order_fill(const struct dqn_trading_report *r, const struct trading_step_record *s,
                           FILE *out) {
    const double side = s->filled > 0.0 ? 1.0 : -1.0;
    put_time(r, s->result_bar, out);
    fprintf(out, ",%s,%s,%s", s->stopped ? "daily stop" : "order", dqn_order_kind_name(s->order),
            dqn_urgency_name(s->urgency));
    const double row[] = {s->ordered,
                          s->filled,
                          s->fill_price,
                          s->limit != 0.0 ? s->limit : NAN,
                          s->decision_price,
                          s->open,
                          1e4 * side * (s->open - s->fill_price) / s->open,
                          1e4 * side * (s->decision_price - s->fill_price) / s->decision_price};
    for (size_t c = 0; c < DQN_COUNT_OF(row); c++) {
        put(out, row[c]);
    }
    putc('\n', out);
}

/* Closed by a rule, after the order if there was one: what was left, at the price its value tells.
 */
static void put_rule_fill(const struct dqn_trading_report *r, const struct trading_step_record *s,
                          FILE *out) {
    const double units = s->units_before + s->filled;
    const double price = (s->traded - fabs(s->filled) * s->fill_price) / fabs(units);
    put_time(r, s->result_bar, out);
    fprintf(out, ",%s,none,none", s->margin_call ? "margin call" : "hole in the data");
    const double row[] = {-units, -units, price, NAN, s->decision_price, s->open, NAN, NAN};
    for (size_t c = 0; c < DQN_COUNT_OF(row); c++) {
        put(out, row[c]);
    }
    putc('\n', out);
}

void dqn_report_fills_csv(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "time,cause,order,urgency,ordered,filled,price,limit,close_before,open,"
                 "better_than_open_bp,better_than_close_bp\n");
    for (size_t i = 0; i < r->bars; i++) {
        const struct trading_step_record *s = &r->records[i];
        if (s->filled != 0.0) {
            put_order_fill(r, s, out);
        }
        if (s->margin_call || s->border_close) {
            put_rule_fill(r, s, out);
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

void dqn_report_steps_csv(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "decision_time,time,action,executed,order,urgency,target,ordered,filled,price,"
                 "limit,units_before,units_after,exposure_before,exposure_after,equity_before,"
                 "equity_after,close_before,open,close,price_pnl,fees,half_spread,slippage,impact,"
                 "financing,forgiven,equity_at_worst_price,traded,log_return,reward,margin_call,"
                 "border_close,stopped,clipped,terminated,truncated\n");
    for (size_t i = 0; i < r->bars; i++) {
        const struct trading_step_record *s = &r->records[i];
        put_time(r, s->bar, out);
        putc(',', out);
        put_time(r, s->result_bar, out);
        fprintf(out, ",%u,%u,%s,%s", s->action, s->executed, dqn_order_kind_name(s->order),
                s->sent ? dqn_urgency_name(s->urgency) : "none");
        const double row[] = {
            s->target,         s->ordered,        s->filled,       s->fill_price,
            s->limit,          s->units_before,   s->units_after,  s->exposure_before,
            s->exposure_after, s->equity_before,  s->equity_after, s->decision_price,
            s->open,           s->close,          s->price_pnl,    s->fees,
            s->spread,         s->slippage,       s->impact,       s->financing,
            s->forgiven,       s->adverse_equity, s->traded,       s->log_return,
            s->reward};
        for (size_t c = 0; c < DQN_COUNT_OF(row); c++) {
            put(out, row[c]);
        }
        fprintf(out, ",%d,%d,%d,%d,%d,%d\n", s->margin_call, s->border_close, s->stopped,
                s->clipped, s->terminated, s->truncated);
    }
}
