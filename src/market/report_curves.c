/* The report's charts: which curves, over which time. Every curve begins before the first step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_charts.h"
#include "report_parts.h"

/* Every bar of the split has a point, also after the agent's ruin: r->flat passes them all. */
static enum dqn_status curve_times(const struct dqn_trading_report *r, int64_t **out) {
    DQN_TRY(dqn_alloc((void **)out, r->split_bars + 1, sizeof **out, "a chart"));
    (*out)[0] = r->market->bars.time_ns[r->records[0].bar];
    for (size_t i = 0; i < r->split_bars; i++) {
        (*out)[i + 1] = r->market->bars.time_ns[r->flat.track.bar[i]];
    }
    return DQN_OK;
}

/* Equity [split_bars + 1] of a pass; one that ended early stays where it ended. */
static enum dqn_status curve_equity(const struct dqn_trading_report *r,
                                    const struct dqn_track *track, double **out) {
    DQN_TRY(dqn_alloc((void **)out, r->split_bars + 1, sizeof **out, "a chart"));
    (*out)[0] = track->start_equity;
    for (size_t i = 0; i < r->split_bars; i++) {
        (*out)[i + 1] = track->equity[i < track->n ? i : track->n - 1];
    }
    return DQN_OK;
}

/* Time axis and limits of folds, the same on every chart. */
static struct dqn_chart time_chart(const struct dqn_trading_report *r, const char *title,
                                   enum dqn_chart_unit unit) {
    return (struct dqn_chart){.title = title,
                              .n_times = r->split_bars + 1,
                              .unit = unit,
                              .fold_start = r->fold_start,
                              .n_folds = r->n_folds};
}

static void widen(const double *y, size_t n, double *low, double *high) {
    for (size_t i = 0; i < n; i++) {
        *low = fmin(*low, y[i]);
        *high = fmax(*high, y[i]);
    }
}

/* ---- equity ---------------------------------------------------------------------------------- */

/* The axis fits the four curves; the band of random runs may widen it by a third, and leaves the
 * chart where it goes further. Returns whether it does. */
static bool fit_equity_axis(const struct dqn_trading_report *r, struct dqn_chart *c) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < c->n_lines; i++) {
        widen(c->line[i].y, c->line[i].n, &low, &high);
    }
    c->log_axis = low >= 0.0;
    bool leaves = false;
    if (c->log_axis) { /* who is ruined leaves the chart */
        low = fmax(low, 1e-3 * r->track.start_equity);
    }
    if (c->band_name != NULL) {
        double band_low = INFINITY, band_high = -INFINITY;
        widen(r->random.band_low, DQN_REPORT_BAND, &band_low, &band_high);
        widen(r->random.band_high, DQN_REPORT_BAND, &band_low, &band_high);
        const double room = c->log_axis ? pow(high / low, 1.0 / 3.0) : (high - low) / 3.0;
        const double lowest = c->log_axis ? low / room : low - room;
        const double highest = c->log_axis ? high * room : high + room;
        leaves = band_low < lowest || band_high > highest;
        low = fmin(low, fmax(band_low, lowest));
        high = fmax(high, fmin(band_high, highest));
    }
    c->low = low;
    c->high = high;
    return leaves;
}

enum dqn_status dqn_page_equity_chart(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_track *const tracks[] = {&r->track, &r->buy_hold.track, &r->short_hold.track,
                                              &r->flat.track};
    static const char *const names[] = {"agent", "buy and hold", "short and hold", "flat"};
    static const char *const css[] = {"agent", "hold", "short", "flat dashed"};
    struct dqn_chart chart = time_chart(r, "Equity over time", DQN_CHART_MONEY);
    double *y[4] = {NULL};
    int64_t *times = NULL;
    char note[700];
    enum dqn_status status = DQN_OK;
    chart.n_lines = 4;
    chart.tall = true;
    DQN_TRY_GOTO(curve_times(r, &times));
    for (size_t i = 0; i < 4; i++) {
        DQN_TRY_GOTO(curve_equity(r, tracks[i], &y[i]));
        chart.line[i] = (struct dqn_chart_line){
            .name = names[i], .css = css[i], .y = y[i], .n = r->split_bars + 1};
    }
    chart.time_ns = times;
    if (r->random.runs > 0) {
        chart.band_name = "9 of 10 random runs";
        chart.band_low = r->random.band_low;
        chart.band_high = r->random.band_high;
        chart.n_band = DQN_REPORT_BAND;
    }
    const bool leaves = fit_equity_axis(r, &chart);
    snprintf(note, sizeof note,
             "What the account is worth after all costs, on a %s axis%s. Flat never trades; buy "
             "and hold and short and hold ask for the largest exposure in every bar.%s%s",
             chart.log_axis ? "logarithmic" : "linear",
             chart.log_axis ? ": equal heights are equal percentages" : "",
             r->n_folds > 0 ? " Vertical lines part the folds: each has an agent of its own, "
                              "trained on earlier bars, and begins flat with what the fold before "
                              "left; so do the others."
                            : "",
             leaves ? " Random runs trade all the time, pay for it, and leave the chart." : "");
    chart.note = note;
    dqn_chart_write(&chart, out);
done:
    for (size_t i = 0; i < 4; i++) {
        free(y[i]);
    }
    free(times);
    return status;
}

/* ---- drawdown -------------------------------------------------------------------------------- */

static enum dqn_status curve_drawdown(const struct dqn_trading_report *r,
                                      const struct dqn_track *track, double **out) {
    DQN_TRY(curve_equity(r, track, out));
    double peak = 0.0;
    for (size_t i = 0; i <= r->split_bars; i++) {
        peak = fmax(peak, (*out)[i]);
        (*out)[i] = (*out)[i] / peak - 1.0;
    }
    return DQN_OK;
}

enum dqn_status dqn_page_drawdown_chart(const struct dqn_trading_report *r, FILE *out) {
    double *agent = NULL, *hold = NULL;
    int64_t *times = NULL;
    struct dqn_chart chart = time_chart(r, "Drawdown over time", DQN_CHART_PERCENT);
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(curve_times(r, &times));
    DQN_TRY_GOTO(curve_drawdown(r, &r->track, &agent));
    DQN_TRY_GOTO(curve_drawdown(r, &r->buy_hold.track, &hold));
    chart.note = "How far equity lies below its highest value so far. Zero is a new high.";
    chart.time_ns = times;
    chart.n_lines = 2;
    chart.line[0] = (struct dqn_chart_line){
        .name = "agent", .css = "agent", .y = agent, .n = chart.n_times, .filled = true};
    chart.line[1] = (struct dqn_chart_line){
        .name = "buy and hold", .css = "hold", .y = hold, .n = chart.n_times};
    dqn_chart_write(&chart, out);
done:
    free(agent);
    free(hold);
    free(times);
    return status;
}

/* ---- price and trades ------------------------------------------------------------------------ */

enum { DOTS_MAX = 160 };

/* Dots where trades begin; of many, every k-th. Returns k. */
static size_t mark_trades(const struct dqn_trading_report *r, struct dqn_chart_dot *dots,
                          size_t *n_dots) {
    const size_t every = (r->trades.n + DOTS_MAX - 1) / DOTS_MAX;
    size_t step = 0;
    *n_dots = 0;
    for (size_t i = 0; i < r->trades.n; i += every) {
        const struct dqn_trade *t = &r->trades.trade[i];
        while (step + 1 < r->bars && r->track.bar[step] < t->first_bar) {
            step++;
        }
        dots[(*n_dots)++] = (struct dqn_chart_dot){.x = (double)(step + 1) / (double)r->split_bars,
                                                   .y = t->entry_price,
                                                   .css = t->side > 0 ? "up" : "down"};
    }
    return every;
}

enum dqn_status dqn_page_price_chart(const struct dqn_trading_report *r, FILE *out) {
    double *price = NULL;
    int64_t *times = NULL;
    struct dqn_chart_dot *dots = NULL;
    char note[400] = "";
    size_t n_dots = 0;
    struct dqn_chart chart = time_chart(r, "Price and trades", DQN_CHART_NUMBER);
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(curve_times(r, &times));
    DQN_TRY_GOTO(dqn_alloc((void **)&price, r->split_bars + 1, sizeof *price, "a chart"));
    DQN_TRY_GOTO(dqn_alloc((void **)&dots, DOTS_MAX, sizeof *dots, "a chart"));
    price[0] = r->records[0].decision_price;
    for (size_t i = 0; i < r->split_bars; i++) {
        price[i + 1] = r->market->bars.close[r->flat.track.bar[i]];
    }
    const size_t every = mark_trades(r, dots, &n_dots);
    snprintf(note, sizeof note,
             "The market's closing price. A dot marks where a trade begins: "
             "<i class=\"key up\"></i> long, <i class=\"key down\"></i> short.");
    if (every > 1) {
        const size_t used = strlen(note);
        snprintf(note + used, sizeof note - used,
                 " Shown is one trade in %zu of %zu; trades.csv has all.", every, r->trades.n);
    }
    chart.note = note;
    chart.time_ns = times;
    chart.n_lines = 1;
    chart.line[0] =
        (struct dqn_chart_line){.name = "price", .css = "price", .y = price, .n = chart.n_times};
    chart.dots = dots;
    chart.n_dots = n_dots;
    dqn_chart_write(&chart, out);
done:
    free(price);
    free(dots);
    free(times);
    return status;
}

/* ---- exposure -------------------------------------------------------------------------------- */

enum { STRETCHES = 250 };

/* Smallest, mean and largest exposure of each of at most 250 stretches of the split. */
static size_t stretch_exposure(const struct dqn_trading_report *r, double *low, double *mean,
                               double *high) {
    const size_t bars = r->split_bars, n = bars < STRETCHES ? bars : STRETCHES;
    for (size_t s = 0; s < n; s++) {
        const size_t first = s * bars / n, end = (s + 1) * bars / n;
        low[s] = INFINITY;
        high[s] = -INFINITY;
        mean[s] = 0.0;
        for (size_t i = first; i < end; i++) {
            const double exposure = i < r->bars ? r->track.exposure[i] : 0.0; /* ruined */
            low[s] = fmin(low[s], exposure);
            high[s] = fmax(high[s], exposure);
            mean[s] += exposure / (double)(end - first);
        }
    }
    return n;
}

enum dqn_status dqn_page_exposure_chart(const struct dqn_trading_report *r, FILE *out) {
    double low[STRETCHES], mean[STRETCHES], high[STRETCHES];
    int64_t *times = NULL;
    char note[300];
    DQN_TRY(curve_times(r, &times));
    const size_t n = stretch_exposure(r, low, mean, high);
    double least = -1.0, most = 1.0;
    widen(low, n, &least, &most);
    widen(high, n, &least, &most);
    const size_t each = (r->split_bars + n - 1) / n;
    if (each > 1) {
        snprintf(note, sizeof note,
                 "Value of the position over equity: 1 is fully long, &minus;1 fully short. The "
                 "line is the mean of each %zu bars, the band their range.",
                 each);
    } else {
        snprintf(note, sizeof note,
                 "Value of the position over equity: 1 is fully long, &minus;1 fully short.");
    }
    struct dqn_chart chart = time_chart(r, "Exposure over time", DQN_CHART_NUMBER);
    chart.note = note;
    chart.time_ns = times;
    chart.low = 1.05 * least;
    chart.high = 1.05 * most;
    chart.n_lines = 1;
    chart.line[0] = (struct dqn_chart_line){
        .name = each > 1 ? "mean" : "exposure", .css = "agent", .y = mean, .n = n};
    if (each > 1) {
        chart.band_name = "range";
        chart.band_low = low;
        chart.band_high = high;
        chart.n_band = n;
    }
    dqn_chart_write(&chart, out);
    free(times);
    return DQN_OK;
}

/* ---- costs ----------------------------------------------------------------------------------- */

enum { CAUSES = 5 };

static void cumulate_costs(const struct dqn_trading_report *r, double *const y[CAUSES + 1]) {
    for (size_t c = 0; c <= CAUSES; c++) {
        y[c][0] = 0.0;
    }
    for (size_t i = 0; i < r->split_bars; i++) {
        double costs[CAUSES] = {0.0}, sum = 0.0; /* none after a ruin */
        if (i < r->bars) {
            const struct trading_step_record *s = &r->records[i];
            const double paid[CAUSES] = {s->fees, s->spread, s->slippage, s->impact, s->financing};
            memcpy(costs, paid, sizeof costs);
        }
        for (size_t c = 0; c < CAUSES; c++) {
            y[c + 1][i + 1] = y[c + 1][i] + costs[c];
            sum += costs[c];
        }
        y[0][i + 1] = y[0][i] + sum;
    }
}

enum dqn_status dqn_page_cost_chart(const struct dqn_trading_report *r, FILE *out) {
    static const char *const names[] = {"all",      "fees",   "half-spread",
                                        "slippage", "impact", "financing"};
    static const char *const css[] = {"total", "agent", "hold", "green", "short", "flat"};
    double *y[CAUSES + 1] = {NULL};
    int64_t *times = NULL;
    struct dqn_chart chart = time_chart(r, "Costs so far, by cause", DQN_CHART_MONEY);
    chart.note = "Money paid up to each bar. Price profit has to exceed the topmost curve before "
                 "the agent earns.";
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(curve_times(r, &times));
    for (size_t c = 0; c <= CAUSES; c++) {
        DQN_TRY_GOTO(dqn_alloc((void **)&y[c], r->split_bars + 1, sizeof **y, "a chart"));
    }
    cumulate_costs(r, y);
    for (size_t c = 0; c <= CAUSES; c++) {
        double low = 0.0, high = 0.0;
        widen(y[c], r->split_bars + 1, &low, &high);
        if (c == 0 || low < high) { /* causes that cost nothing are left out */
            chart.line[chart.n_lines++] = (struct dqn_chart_line){
                .name = names[c], .css = css[c], .y = y[c], .n = r->split_bars + 1};
        }
    }
    chart.time_ns = times;
    dqn_chart_write(&chart, out);
done:
    for (size_t c = 0; c <= CAUSES; c++) {
        free(y[c]);
    }
    free(times);
    return status;
}
