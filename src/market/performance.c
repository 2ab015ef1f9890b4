#include "performance.h"

#include <math.h>
#include <stdlib.h>

/* ---- the track ------------------------------------------------------------------------------- */

enum dqn_status dqn_track_create(struct dqn_track *track, size_t capacity) {
    *track = (struct dqn_track){.capacity = capacity};
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_alloc((void **)&track->equity, capacity, sizeof(double), "equity"));
    DQN_TRY_GOTO(dqn_alloc((void **)&track->adverse_equity, capacity, sizeof(double), "equity"));
    DQN_TRY_GOTO(dqn_alloc((void **)&track->exposure, capacity, sizeof(double), "exposure"));
    DQN_TRY_GOTO(dqn_alloc((void **)&track->bar, capacity, sizeof(uint64_t), "bars"));
done:
    if (status != DQN_OK) {
        dqn_track_destroy(track);
    }
    return status;
}

void dqn_track_destroy(struct dqn_track *track) {
    free(track->equity);
    free(track->adverse_equity);
    free(track->exposure);
    free(track->bar);
    *track = (struct dqn_track){0};
}

static void add_costs(struct dqn_track *t, const struct trading_step_record *r) {
    t->fees += r->fees;
    t->spread += r->spread;
    t->slippage += r->slippage;
    t->impact += r->impact;
    t->financing += r->financing;
    t->price_pnl += r->price_pnl;
    t->traded += r->traded;
    t->forgiven += r->forgiven;
    const double parts =
        r->price_pnl - r->fees - r->spread - r->slippage - r->impact - r->financing + r->forgiven;
    /* dust that is left of an account has roundings of its own size, and moves no money */
    const double dust = 1e-12 * fabs(t->start_equity);
    const double scale = fmax(dust, fmax(fabs(r->equity_before), fabs(r->equity_after)));
    const double residual = fabs(r->equity_after - r->equity_before - parts) / scale;
    t->ledger_residual = fmax(t->ledger_residual, residual);
}

void dqn_track_add(void *track, const struct trading_step_record *r) {
    struct dqn_track *t = track;
    if (t->n == t->capacity) {
        t->failed = true;
        return;
    }
    if (t->n == 0) {
        t->start_equity = r->equity_before;
    }
    t->equity[t->n] = r->equity_after;
    t->adverse_equity[t->n] = r->adverse_equity;
    t->exposure[t->n] = r->exposure_after;
    t->bar[t->n] = r->result_bar;
    t->n++;
    add_costs(t, r);
    t->reward_sum += r->reward;
    t->log_return_sum += r->log_return;
    t->actions[r->action / DQN_ORDER_CELLS][r->action % DQN_ORDER_CELLS]++;
    t->orders_sent += r->sent;
    t->orders_filled += r->sent && r->filled != 0.0;
    t->margin_calls += r->margin_call;
    t->clipped += r->clipped;
}

static double equity_before(const struct dqn_track *t, size_t i) {
    return i == 0 ? t->start_equity : t->equity[i - 1];
}

void dqn_track_returns(const struct dqn_track *t, double *out) {
    for (size_t i = 0; i < t->n; i++) {
        out[i] = t->equity[i] / equity_before(t, i) - 1.0;
    }
}

/* Returns have a meaning as long as there was equity before each. */
static bool returns_defined(const struct dqn_track *t) {
    for (size_t i = 0; i < t->n; i++) {
        if (!(equity_before(t, i) > 0.0)) {
            return false;
        }
    }
    return true;
}

/* ---- ratios ---------------------------------------------------------------------------------- */

static double ratio_or_nan(double numerator, double denominator) {
    return denominator > 0.0 ? numerator / denominator : NAN;
}

struct moments {
    double mean, variance; /* ddof 1 */
};

/* Two passes, each with the rounding of a short sum at most. */
static struct moments find_moments(const double *x, size_t n) {
    struct moments m = {0.0, 0.0};
    for (size_t i = 0; i < n; i++) {
        m.mean += x[i];
    }
    m.mean /= (double)n;
    for (size_t i = 0; i < n; i++) {
        m.variance += (x[i] - m.mean) * (x[i] - m.mean);
    }
    m.variance /= (double)n - 1.0;
    return m;
}

/* Returns that are all equal have no spread; what is left is rounding. */
static bool has_spread(struct moments m) {
    return m.variance > 1e-30 + 1e-20 * m.mean * m.mean;
}

double dqn_sharpe(const double *returns, size_t n, double a_year, double risk_free) {
    if (n < DQN_MIN_RETURNS) {
        return NAN;
    }
    const struct moments m = find_moments(returns, n);
    return has_spread(m) ? (m.mean - risk_free / a_year) / sqrt(m.variance) * sqrt(a_year) : NAN;
}

static void compute_ratios(const struct dqn_track *t, double bars_per_year, double risk_free,
                           struct dqn_performance *p) {
    p->volatility = p->sharpe = p->sortino = NAN;
    double *x = malloc(t->n * sizeof *x);
    if (x == NULL || t->n < DQN_MIN_RETURNS || !returns_defined(t)) {
        free(x);
        return;
    }
    dqn_track_returns(t, x);
    const double n = (double)t->n, bar_rate = risk_free / bars_per_year;
    const struct moments m = find_moments(x, t->n);
    double downside = 0.0;
    for (size_t i = 0; i < t->n; i++) {
        const double below = fmin(x[i] - bar_rate, 0.0);
        downside += below * below;
    }
    p->volatility = sqrt(m.variance * bars_per_year);
    p->sharpe = dqn_sharpe(x, t->n, bars_per_year, risk_free);
    p->sortino = ratio_or_nan((m.mean - bar_rate) * sqrt(bars_per_year), sqrt(downside / n));
    free(x);
}

static int64_t utc_day(int64_t time_ns) {
    const int64_t day = 86400000000000LL;
    return time_ns / day - (time_ns % day < 0);
}

double dqn_sharpe_daily(const struct dqn_track *t, const int64_t *time_ns, double bars_per_year,
                        double risk_free) {
    double *x = malloc((t->n + 1) * sizeof *x);
    if (x == NULL || !returns_defined(t)) {
        free(x);
        return NAN;
    }
    size_t days = 0;
    double before = t->start_equity;
    for (size_t i = 0; i < t->n; i++) {
        const bool last = i + 1 == t->n;
        if (last || utc_day(time_ns[t->bar[i]]) != utc_day(time_ns[t->bar[i + 1]])) {
            x[days++] = t->equity[i] / before - 1.0;
            before = t->equity[i];
        }
    }
    const double a_year = (double)days * bars_per_year / (double)t->n;
    const double sharpe = dqn_sharpe(x, days, a_year, risk_free);
    free(x);
    return sharpe;
}

void dqn_relation_compute(const struct dqn_track *track, const struct dqn_track *market,
                          double bars_per_year, double risk_free, struct dqn_relation *out) {
    *out = (struct dqn_relation){NAN, NAN, NAN};
    const size_t n = track->n < market->n ? track->n : market->n;
    double x_mean = 0.0, y_mean = 0.0, xx = 0.0, yy = 0.0, xy = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            const double y = log(track->equity[i] / equity_before(track, i));
            const double x = log(market->equity[i] / equity_before(market, i));
            x_mean += pass == 0 ? x / (double)n : 0.0;
            y_mean += pass == 0 ? y / (double)n : 0.0;
            xx += pass == 1 ? (x - x_mean) * (x - x_mean) : 0.0;
            yy += pass == 1 ? (y - y_mean) * (y - y_mean) : 0.0;
            xy += pass == 1 ? (x - x_mean) * (y - y_mean) : 0.0;
        }
    }
    const double least = 1e-30 * (double)n;
    if (n < DQN_MIN_RETURNS || !isfinite(xx) || !isfinite(yy) || !(xx > least)) {
        return;
    }
    const double rate = risk_free / bars_per_year;
    out->beta = xy / xx;
    out->alpha = (y_mean - rate - out->beta * (x_mean - rate)) * bars_per_year;
    out->correlation = yy > least ? xy / sqrt(xx * yy) : NAN;
}

/* ---- drawdown, exposure, actions ------------------------------------------------------------- */

static void compute_drawdowns(const struct dqn_track *t, struct dqn_performance *p) {
    double peak = t->start_equity;
    size_t below = 0, stretch = 0, longest = 0;
    for (size_t i = 0; i < t->n; i++) {
        p->max_drawdown_adverse = fmax(p->max_drawdown_adverse, 1.0 - t->adverse_equity[i] / peak);
        peak = fmax(peak, t->equity[i]);
        const double drawdown = 1.0 - t->equity[i] / peak;
        stretch = drawdown > 0.0 ? stretch + 1 : 0;
        longest = stretch > longest ? stretch : longest;
        below += drawdown > 0.0;
        p->max_drawdown = fmax(p->max_drawdown, drawdown);
    }
    p->max_drawdown_adverse = fmax(p->max_drawdown_adverse, p->max_drawdown);
    p->drawdown_bars = (double)longest;
    p->underwater_frac = (double)below / (double)t->n;
}

static void compute_exposure(const struct dqn_track *t, struct dqn_performance *p) {
    size_t longs = 0, shorts = 0;
    for (size_t i = 0; i < t->n; i++) {
        p->exposure_abs += fabs(t->exposure[i]);
        p->exposure_net += t->exposure[i];
        longs += t->exposure[i] > 1e-9;
        shorts += t->exposure[i] < -1e-9;
    }
    const double n = (double)t->n;
    p->exposure_abs /= n;
    p->exposure_net /= n;
    p->long_frac = (double)longs / n;
    p->short_frac = (double)shorts / n;
    p->flat_frac = (double)(t->n - longs - shorts) / n;
}

static void compute_actions(const struct dqn_track *t, struct dqn_performance *p) {
    uint64_t most = 0;
    for (size_t e = 0; e < DQN_EXPOSURES; e++) {
        for (size_t c = 0; c < DQN_ORDER_CELLS; c++) {
            const uint64_t count = t->actions[e][c];
            const double share = (double)count / (double)t->n;
            p->action_entropy -= count > 0 ? share * log(share) : 0.0;
            most = count > most ? count : most;
        }
    }
    p->action_entropy = fmax(p->action_entropy, 0.0); /* no -0 */
    p->constant_policy = (double)most >= 0.99 * (double)t->n;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void compute_returns(const struct dqn_track *t, struct dqn_performance *p) {
    const double end = t->equity[t->n - 1];
    p->total_return = end / t->start_equity - 1.0;
    p->log_return = end > 0.0 ? log(end / t->start_equity) : -INFINITY;
    if (p->years < 0.25 || end < 0.0) {
        p->cagr = NAN;
    } else {
        p->cagr = pow(end / t->start_equity, 1.0 / p->years) - 1.0;
    }
}

void dqn_performance_compute(const struct dqn_track *t, double bars_per_year, double risk_free,
                             struct dqn_performance *p) {
    *p = (struct dqn_performance){
        .closed_return = NAN, .closing_cost = NAN, .sharpe_daily = NAN, .drawdown_bars = NAN};
    if (t->n == 0) {
        p->log_return = p->total_return = p->cagr = p->volatility = p->sharpe = NAN;
        p->sortino = p->calmar = p->turnover = NAN;
        return;
    }
    double mean_equity = 0.0;
    for (size_t i = 0; i < t->n; i++) {
        mean_equity += t->equity[i] / (double)t->n;
    }
    p->years = (double)t->n / bars_per_year;
    compute_returns(t, p);
    compute_ratios(t, bars_per_year, risk_free, p);
    compute_drawdowns(t, p);
    compute_exposure(t, p);
    compute_actions(t, p);
    p->calmar = isnan(p->cagr) ? NAN : ratio_or_nan(p->cagr, p->max_drawdown);
    p->turnover = ratio_or_nan(t->traded / p->years, mean_equity);
    p->costs = t->fees + t->spread + t->slippage + t->impact + t->financing;
}
