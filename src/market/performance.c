#include "performance.h"

#include <math.h>
#include <stdlib.h>

#include "../shared/rng.h"

/* ---- the track
 * -------------------------------------------------------------------------------------- */

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
    const double scale = fmax(fabs(r->equity_before), fabs(r->equity_after));
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
    t->actions[r->action / DQN_ORDER_CELLS][r->action % DQN_ORDER_CELLS]++;
    t->orders_sent += r->sent;
    t->orders_filled += r->sent && r->filled != 0.0;
    t->margin_calls += r->margin_call;
}

/* ---- figures
 * ------------------------------------------------------------------------------------------ */

/* Simple return of bar i. */
static double bar_return(const struct dqn_track *t, size_t i) {
    const double before = i == 0 ? t->start_equity : t->equity[i - 1];
    return t->equity[i] / before - 1.0;
}

enum { MIN_BARS = 30 };

static double ratio_or_nan(double numerator, double denominator) {
    return denominator > 0.0 ? numerator / denominator : NAN;
}

/* Sharpe ratio from sums over n returns. */
static double sharpe_ratio(double sum, double squares, double n, double bars_per_year,
                           double risk_free) {
    if (n < MIN_BARS) {
        return NAN;
    }
    const double mean = sum / n;
    const double variance = (squares - n * mean * mean) / (n - 1.0);
    /* Returns that are all equal have no spread; what is left is rounding. */
    if (!(variance > 1e-30 + 1e-20 * mean * mean)) {
        return NAN;
    }
    return (mean - risk_free / bars_per_year) / sqrt(variance) * sqrt(bars_per_year);
}

static void compute_ratios(const struct dqn_track *t, double bars_per_year, double risk_free,
                           struct dqn_performance *p) {
    double sum = 0.0, squares = 0.0, downside = 0.0;
    const double n = (double)t->n, bar_rate = risk_free / bars_per_year;
    for (size_t i = 0; i < t->n; i++) {
        const double x = bar_return(t, i), below = fmin(x - bar_rate, 0.0);
        sum += x;
        squares += x * x;
        downside += below * below;
    }
    const double mean = sum / n;
    const double variance = (squares - n * mean * mean) / (n - 1.0);
    p->volatility = t->n < MIN_BARS ? NAN : sqrt(fmax(variance, 0.0) * bars_per_year);
    p->sharpe = sharpe_ratio(sum, squares, n, bars_per_year, risk_free);
    p->sortino = t->n < MIN_BARS
                     ? NAN
                     : ratio_or_nan((mean - bar_rate) * sqrt(bars_per_year), sqrt(downside / n));
}

static void compute_drawdowns(const struct dqn_track *t, struct dqn_performance *p) {
    double peak = t->start_equity;
    size_t below = 0;
    for (size_t i = 0; i < t->n; i++) {
        p->max_drawdown_adverse = fmax(p->max_drawdown_adverse, 1.0 - t->adverse_equity[i] / peak);
        peak = fmax(peak, t->equity[i]);
        const double drawdown = 1.0 - t->equity[i] / peak;
        below += drawdown > 0.0;
        p->max_drawdown = fmax(p->max_drawdown, drawdown);
    }
    p->max_drawdown_adverse = fmax(p->max_drawdown_adverse, p->max_drawdown);
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
    p->flat_frac = 1.0 - p->long_frac - p->short_frac;
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
    p->constant_policy = (double)most >= 0.99 * (double)t->n;
}

void dqn_performance_compute(const struct dqn_track *t, double bars_per_year, double risk_free,
                             struct dqn_performance *p) {
    *p = (struct dqn_performance){0};
    if (t->n == 0) {
        p->log_return = p->total_return = p->cagr = p->volatility = p->sharpe = NAN;
        p->sortino = p->calmar = p->turnover = NAN;
        return;
    }
    const double end = t->equity[t->n - 1];
    double mean_equity = 0.0;
    for (size_t i = 0; i < t->n; i++) {
        mean_equity += t->equity[i] / (double)t->n;
    }
    p->years = (double)t->n / bars_per_year;
    p->total_return = end / t->start_equity - 1.0;
    p->log_return = end > 0.0 ? log(end / t->start_equity) : -INFINITY;
    p->cagr = p->years >= 0.25 && end > 0.0 ? exp(p->log_return / p->years) - 1.0 : NAN;
    compute_ratios(t, bars_per_year, risk_free, p);
    compute_drawdowns(t, p);
    compute_exposure(t, p);
    compute_actions(t, p);
    p->calmar = isnan(p->cagr) ? NAN : ratio_or_nan(p->cagr, p->max_drawdown);
    p->turnover = ratio_or_nan(t->traded / p->years, mean_equity);
    p->costs = t->fees + t->spread + t->slippage + t->impact + t->financing;
}

/* ---- bootstrap
 * ----------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double dqn_quantile(double *values, size_t n, double q) {
    if (n == 0) {
        return NAN;
    }
    qsort(values, n, sizeof *values, by_value);
    const double at = q * (double)(n - 1);
    const size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
    return values[low] + (at - (double)low) * (values[high] - values[low]);
}

struct resample {
    double log_return, sharpe;
};

/* One resampled pass: blocks with a geometric length, wrapped around the end. */
static struct resample draw_pass(const double *returns, size_t n, uint64_t draw,
                                 double bars_per_year, double risk_free) {
    const double go_on = 1.0 - 1.0 / sqrt((double)n);
    const uint64_t stream = dqn_rng_stream(DQN_RNG_BOOTSTRAP, draw);
    double sum = 0.0, squares = 0.0, logs = 0.0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct dqn_u32x4 block = dqn_rng_block(1, stream, i);
        const bool jump = i == 0 || dqn_rng_unit(dqn_rng_u64(block, 0)) >= go_on;
        at = jump ? (size_t)dqn_rng_below(dqn_rng_u64(block, 1), n) : (at + 1) % n;
        sum += returns[at];
        squares += returns[at] * returns[at];
        logs += log1p(returns[at]);
    }
    return (struct resample){logs, sharpe_ratio(sum, squares, (double)n, bars_per_year, risk_free)};
}

enum dqn_status dqn_bootstrap_compute(const struct dqn_track *t, double bars_per_year,
                                      double risk_free, size_t draws, struct dqn_bootstrap *out) {
    *out = (struct dqn_bootstrap){NAN, NAN, NAN, NAN};
    if (t->n < MIN_BARS || draws == 0) {
        return DQN_OK;
    }
    double *returns = NULL, *logs = NULL, *sharpes = NULL;
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_alloc((void **)&returns, t->n, sizeof(double), "bootstrap returns"));
    DQN_TRY_GOTO(dqn_alloc((void **)&logs, draws, sizeof(double), "bootstrap draws"));
    DQN_TRY_GOTO(dqn_alloc((void **)&sharpes, draws, sizeof(double), "bootstrap draws"));
    for (size_t i = 0; i < t->n; i++) {
        returns[i] = bar_return(t, i);
    }
    size_t n_sharpes = 0;
    for (size_t d = 0; d < draws; d++) {
        const struct resample r = draw_pass(returns, t->n, d, bars_per_year, risk_free);
        logs[d] = r.log_return;
        if (!isnan(r.sharpe)) {
            sharpes[n_sharpes++] = r.sharpe;
        }
    }
    out->log_return_low = dqn_quantile(logs, draws, 0.025);
    out->log_return_high = dqn_quantile(logs, draws, 0.975);
    out->sharpe_low = dqn_quantile(sharpes, n_sharpes, 0.025);
    out->sharpe_high = dqn_quantile(sharpes, n_sharpes, 0.975);
done:
    free(returns);
    free(logs);
    free(sharpes);
    return status;
}
