/* How far a result can be trusted: bootstrap intervals, and tests of the Sharpe ratio. */
#include <math.h>
#include <stdlib.h>

#include "../parallel.h"
#include "../shared/rng.h"
#include "performance.h"

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
    return values[low] == values[high]
               ? values[low]
               : values[low] + (at - (double)low) * (values[high] - values[low]);
}

/* The track's returns, malloc'ed; NULL and DQN_OK when they are too few or undefined. */
static enum dqn_status take_returns(const struct dqn_track *t, double **out) {
    *out = NULL;
    if (t->n < DQN_MIN_RETURNS) {
        return DQN_OK;
    }
    DQN_TRY(dqn_alloc((void **)out, t->n, sizeof(double), "returns"));
    dqn_track_returns(t, *out);
    for (size_t i = 0; i < t->n; i++) {
        if (!((i == 0 ? t->start_equity : t->equity[i - 1]) > 0.0)) {
            free(*out);
            *out = NULL;
            break;
        }
    }
    return DQN_OK;
}

/* ---- bootstrap ------------------------------------------------------------------------------- */

struct resample {
    double log_return, sharpe;
};

/* One resampled pass: blocks with a geometric length, wrapped around the end. */
static struct resample draw_pass(const double *returns, const double *logs, size_t n, uint64_t draw,
                                 double bars_per_year, double risk_free) {
    const double go_on = 1.0 - 1.0 / sqrt((double)n);
    const uint64_t stream = dqn_rng_stream(DQN_RNG_BOOTSTRAP, draw);
    double sum = 0.0, squares = 0.0, log_sum = 0.0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct dqn_u32x4 block = dqn_rng_block(1, stream, i);
        const bool jump = i == 0 || dqn_rng_unit(dqn_rng_u64(block, 0)) >= go_on;
        at = jump ? (size_t)dqn_rng_below(dqn_rng_u64(block, 1), n) : at + 1 == n ? 0 : at + 1;
        sum += returns[at];
        squares += returns[at] * returns[at];
        log_sum += logs[at];
    }
    const double mean = sum / (double)n;
    const double variance = (squares - (double)n * mean * mean) / ((double)n - 1.0);
    const bool spread = variance > 1e-30 + 1e-14 * mean * mean;
    const double rate = risk_free / bars_per_year;
    return (struct resample){log_sum,
                             spread ? (mean - rate) / sqrt(variance) * sqrt(bars_per_year) : NAN};
}

/* Memory of a bootstrap. */
struct bootstrap_rows {
    double *returns, *logs;     /* [n] of the track */
    double *log_sums, *sharpes; /* [draws] */
};

/* What a draw needs. */
struct drawing {
    const struct bootstrap_rows *rows;
    size_t n;
    double bars_per_year, risk_free;
};

static enum dqn_status draw_one(void *context, size_t draw) {
    const struct drawing *d = context;
    const struct resample r =
        draw_pass(d->rows->returns, d->rows->logs, d->n, draw, d->bars_per_year, d->risk_free);
    d->rows->log_sums[draw] = r.log_return;
    d->rows->sharpes[draw] = r.sharpe;
    return DQN_OK;
}

static enum dqn_status draw_all(const struct dqn_track *t, double bars_per_year, double risk_free,
                                size_t draws, size_t threads, struct bootstrap_rows *rows,
                                struct dqn_bootstrap *out) {
    DQN_TRY(dqn_alloc((void **)&rows->logs, t->n, sizeof(double), "bootstrap returns"));
    DQN_TRY(dqn_alloc((void **)&rows->log_sums, draws, sizeof(double), "bootstrap draws"));
    DQN_TRY(dqn_alloc((void **)&rows->sharpes, draws, sizeof(double), "bootstrap draws"));
    for (size_t i = 0; i < t->n; i++) {
        rows->logs[i] = log1p(rows->returns[i]);
    }
    struct drawing drawing = {rows, t->n, bars_per_year, risk_free};
    DQN_TRY(dqn_parallel(threads, draws, draw_one, &drawing));
    size_t n_sharpes = 0;
    for (size_t d = 0; d < draws; d++) {
        if (!isnan(rows->sharpes[d])) {
            rows->sharpes[n_sharpes++] = rows->sharpes[d];
        }
    }
    out->log_return_low = dqn_quantile(rows->log_sums, draws, 0.025);
    out->log_return_high = dqn_quantile(rows->log_sums, draws, 0.975);
    out->sharpe_low = dqn_quantile(rows->sharpes, n_sharpes, 0.025);
    out->sharpe_high = dqn_quantile(rows->sharpes, n_sharpes, 0.975);
    return DQN_OK;
}

enum dqn_status dqn_bootstrap_compute(const struct dqn_track *t, double bars_per_year,
                                      double risk_free, size_t draws, size_t threads,
                                      struct dqn_bootstrap *out) {
    struct bootstrap_rows rows = {0};
    *out = (struct dqn_bootstrap){NAN, NAN, NAN, NAN};
    DQN_TRY(take_returns(t, &rows.returns));
    const enum dqn_status status =
        rows.returns == NULL || draws == 0
            ? DQN_OK
            : draw_all(t, bars_per_year, risk_free, draws, threads, &rows, out);
    free(rows.returns);
    free(rows.logs);
    free(rows.log_sums);
    free(rows.sharpes);
    return status;
}

/* ---- tests of the Sharpe ratio --------------------------------------------------------------- */

static double normal_cdf(double x) {
    return 0.5 * erfc(-x / sqrt(2.0));
}

/* Inverse by bisection, exact to rounding. */
static double normal_quantile(double p) {
    double low = -40.0, high = 40.0;
    for (int i = 0; i < 200; i++) {
        const double middle = 0.5 * (low + high);
        *(normal_cdf(middle) < p ? &low : &high) = middle;
    }
    return 0.5 * (low + high);
}

/* 2014, equation 1. */
double dqn_expected_best(double trials) {
    const double euler = 0.57721566490153286;
    if (!(trials > 1.0)) {
        return 0.0;
    }
    return (1.0 - euler) * normal_quantile(1.0 - 1.0 / trials) +
           euler * normal_quantile(1.0 - 1.0 / (trials * exp(1.0)));
}

double dqn_sharpe_probability(double sharpe, double benchmark, double n, double skewness,
                              double kurtosis) {
    const double spread = 1.0 - skewness * sharpe + 0.25 * (kurtosis - 1.0) * sharpe * sharpe;
    return spread > 0.0 ? normal_cdf((sharpe - benchmark) * sqrt((n - 1.0) / spread)) : NAN;
}

/* Skewness and kurtosis of n values, population moments. */
static void find_shape(const double *x, size_t n, double *skewness, double *kurtosis) {
    double mean = 0.0, m2 = 0.0, m3 = 0.0, m4 = 0.0;
    for (size_t i = 0; i < n; i++) {
        mean += x[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double d = x[i] - mean;
        m2 += d * d / (double)n;
        m3 += d * d * d / (double)n;
        m4 += d * d * d * d / (double)n;
    }
    *skewness = m3 / pow(m2, 1.5);
    *kurtosis = m4 / (m2 * m2);
}

enum dqn_status dqn_sharpe_test_compute(const struct dqn_track *t, double bars_per_year,
                                        double risk_free, double trials,
                                        struct dqn_sharpe_test *out) {
    double *x = NULL;
    *out = (struct dqn_sharpe_test){NAN, NAN, NAN, NAN, NAN};
    DQN_TRY(take_returns(t, &x));
    const double sharpe = x != NULL ? dqn_sharpe(x, t->n, bars_per_year, risk_free) : NAN;
    if (!isnan(sharpe)) {
        const double per_bar = sharpe / sqrt(bars_per_year), n = (double)t->n;
        find_shape(x, t->n, &out->skewness, &out->kurtosis);
        const double best = dqn_expected_best(trials) / sqrt(n - 1.0);
        out->benchmark = best * sqrt(bars_per_year);
        out->probabilistic = dqn_sharpe_probability(per_bar, 0.0, n, out->skewness, out->kurtosis);
        out->deflated = dqn_sharpe_probability(per_bar, best, n, out->skewness, out->kurtosis);
    }
    free(x);
    return DQN_OK;
}
