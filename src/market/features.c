/* Market features: windows are summed afresh for every bar, so that nothing drifts and a row does
 * not depend on how much came before it; only the exponential averages carry state. */
#include "features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR DQN_FEATURE_FLOOR
#define EPS 1e-12

enum { RANK_WINDOW = 256, RSI_SPAN = 14 };

/* name, bounded (clipped only) */
static const struct {
    const char *name;
    bool bounded;
} table[DQN_MARKET_FEATURES] = {
    {"ret_1", false},         {"ret_2", false},        {"ret_3", false},
    {"ret_5", false},         {"ret_10", false},       {"ret_20", false},
    {"ret_60", false},        {"ret_120", false},      {"body", false},
    {"upper_wick", false},    {"lower_wick", false},   {"range", false},
    {"close_location", true}, {"open_gap", false},     {"vol_10_60", false},
    {"vol_20_120", false},    {"parkinson_20", false}, {"atr_14", false},
    {"vol_of_vol", false},    {"vol_rank", true},      {"ema12_dev", false},
    {"ema26_dev", false},     {"macd", false},         {"macd_hist", false},
    {"rsi_14", true},         {"stoch_14", true},      {"di_balance_14", true},
    {"efficiency_20", true},  {"boll_20", false},      {"z_60", false},
    {"autocorr_60", true},    {"var_ratio_5", false},  {"skew_60", false},
    {"volume_rel", false},    {"volume_trend", false}, {"signed_volume_20", true},
    {"illiquidity", false},   {"vwap_20_dev", false},  {"cost_ratio", false},
    {"tod_sin", true},        {"tod_cos", true},       {"dow_sin", true},
    {"dow_cos", true},
};

const char *dqn_feature_name(size_t i) {
    DQN_CHECK(i < DQN_MARKET_FEATURES);
    return table[i].name;
}

bool dqn_feature_bounded(size_t i) {
    DQN_CHECK(i < DQN_MARKET_FEATURES);
    return table[i].bounded;
}

void dqn_features_calendar(int64_t local_s, bool intraday, double out[4]) {
    const double turn = 6.28318530717958647692;
    int64_t day = local_s / 86400, second = local_s % 86400;
    if (second < 0) {
        second += 86400;
        day -= 1;
    }
    const double of_day = turn * (double)second / 86400.0;
    out[0] = intraday ? sin(of_day) : 0.0;
    out[1] = intraday ? cos(of_day) : 0.0;
    /* 1970-01-01 was a Thursday; Monday is 0 */
    const int64_t weekday = (((day + 3) % 7) + 7) % 7;
    out[2] = sin(turn * (double)weekday / 7.0);
    out[3] = cos(turn * (double)weekday / 7.0);
}

/* ---- one segment's series ------------------------------------------------------------------- */

/* Everything derived from a segment's bars; index i counts from its first bar. */
struct series {
    size_t n;
    const double *open, *high, *low, *close, *volume;
    double *log_close; /* ln c */
    double *r;         /* log return; 0 at i = 0 */
    double *range2;    /* ln(h / l)^2 */
    double *std20;     /* standard deviation of r over 20 */
    double *illiquid;  /* |r| / (v c); 0 without volume */
};

/* Exponential averages, advanced bar by bar. */
struct averages {
    double variance;            /* of r about zero, span 64 */
    double ema12, ema26, macd9; /* of close; of the MACD */
    double atr, plus, minus;    /* Wilder, 14: true range, directional movement */
    double gain, loss;          /* Wilder, 14: up and down moves of the close */
    double volume5, volume20, volume60;
};

static double ema(double average, double x, double span) {
    return average + (x - average) * (2.0 / (span + 1.0));
}

static double wilder(double average, double x) {
    return average + (x - average) / RSI_SPAN;
}

/* Mean and population standard deviation of the n values ending at x[i]. */
static void window_moments(const double *x, size_t i, size_t n, double *mean, double *std) {
    const double *from = x + i + 1 - n;
    double sum = 0.0, squares = 0.0;
    for (size_t k = 0; k < n; k++) {
        sum += from[k];
    }
    *mean = sum / (double)n;
    for (size_t k = 0; k < n; k++) {
        squares += (from[k] - *mean) * (from[k] - *mean);
    }
    *std = sqrt(squares / (double)n);
}

static double window_mean(const double *x, size_t i, size_t n) {
    double sum = 0.0;
    for (size_t k = i + 1 - n; k <= i; k++) {
        sum += x[k];
    }
    return sum / (double)n;
}

static double window_std(const double *x, size_t i, size_t n) {
    double mean, std;
    window_moments(x, i, n, &mean, &std);
    return std;
}

static void averages_start(struct averages *a, const struct series *x) {
    memset(a, 0, sizeof *a);
    a->ema12 = a->ema26 = x->close[0];
    a->atr = x->high[0] - x->low[0];
    if (x->volume != NULL) {
        a->volume5 = a->volume20 = a->volume60 = x->volume[0];
    }
}

static double bar_volatility(const struct averages *a) {
    return fmax(sqrt(a->variance), FLOOR);
}

static double macd(const struct averages *a) {
    return log(a->ema12 / a->ema26) / (bar_volatility(a) * sqrt(26.0));
}

/* Takes bar i >= 1 into the averages. */
static void averages_step(struct averages *a, const struct series *x, size_t i) {
    const double c = x->close[i], before = x->close[i - 1], r = x->r[i];
    /* A plain mean of the first 32 returns, then the average: one odd first return fades soon. */
    a->variance = ema(a->variance, r * r, fmin(64.0, 2.0 * (double)i - 1.0));
    a->ema12 = ema(a->ema12, c, 12.0);
    a->ema26 = ema(a->ema26, c, 26.0);
    a->macd9 = ema(a->macd9, macd(a), 9.0);
    const double up = x->high[i] - x->high[i - 1], down = x->low[i - 1] - x->low[i];
    const double true_range = fmax(x->high[i], before) - fmin(x->low[i], before);
    a->atr = wilder(a->atr, true_range);
    a->plus = wilder(a->plus, up > down && up > 0.0 ? up : 0.0);
    a->minus = wilder(a->minus, down > up && down > 0.0 ? down : 0.0);
    a->gain = wilder(a->gain, fmax(c - before, 0.0));
    a->loss = wilder(a->loss, fmax(before - c, 0.0));
    if (x->volume != NULL) {
        a->volume5 = ema(a->volume5, x->volume[i], 5.0);
        a->volume20 = ema(a->volume20, x->volume[i], 20.0);
        a->volume60 = ema(a->volume60, x->volume[i], 60.0);
    }
}

/* ---- groups of features, bar i >= DQN_MARKET_WARMUP -------------------------------------------
 */

/* 0-13: returns and the bar's shape. */
static void features_price(const struct series *x, size_t i, double s, double *f) {
    static const size_t lags[8] = {1, 2, 3, 5, 10, 20, 60, 120};
    for (int k = 0; k < 8; k++) {
        const double moved = x->log_close[i] - x->log_close[i - lags[k]];
        f[k] = moved / (s * sqrt((double)lags[k]));
    }
    const double o = x->open[i], h = x->high[i], l = x->low[i], c = x->close[i];
    const double log_o = log(o), log_h = log(h), log_l = log(l), log_c = x->log_close[i];
    f[8] = (log_c - log_o) / s;
    f[9] = (log_h - fmax(log_o, log_c)) / s;
    f[10] = (fmin(log_o, log_c) - log_l) / s;
    f[11] = (log_h - log_l) / s;
    f[12] = h > l ? 2.0 * (c - l) / (h - l) - 1.0 : 0.0;
    f[13] = (log_o - x->log_close[i - 1]) / s;
}

/* 14-19: volatility. */
static void features_volatility(const struct series *x, const struct averages *a, size_t i,
                                double s, double *f) {
    const double std20 = fmax(x->std20[i], FLOOR);
    f[14] = log(fmax(window_std(x->r, i, 10), FLOOR) / fmax(window_std(x->r, i, 60), FLOOR));
    f[15] = log(std20 / fmax(window_std(x->r, i, 120), FLOOR));
    const double parkinson = sqrt(window_mean(x->range2, i, 20) / (4.0 * 0.69314718055994530942));
    f[16] = log(fmax(parkinson, FLOOR) / std20);
    f[17] = log(fmax(a->atr / x->close[i], FLOOR) / s);
    double size[60], mean, std;
    for (size_t k = 0; k < 60; k++) {
        size[k] = fabs(x->r[i - k]);
    }
    window_moments(size, 59, 60, &mean, &std);
    f[18] = std / fmax(mean, EPS) - 0.75;
    int below = 0, equal = 0; /* equal ones count half: a flat market has rank 1/2 */
    for (size_t k = 1; k < RANK_WINDOW; k++) {
        below += x->std20[i - k] < x->std20[i];
        equal += x->std20[i - k] == x->std20[i];
    }
    f[19] = 2.0 * ((double)below + 0.5 * (double)equal) / (RANK_WINDOW - 1) - 1.0;
}

/* 20-29: trend and oscillators. */
static void features_trend(const struct series *x, const struct averages *a, size_t i, double s,
                           double *f) {
    const double c = x->close[i];
    f[20] = log(c / a->ema12) / (s * sqrt(12.0));
    f[21] = log(c / a->ema26) / (s * sqrt(26.0));
    f[22] = macd(a);
    f[23] = f[22] - a->macd9;
    const double moves = a->gain + a->loss;
    f[24] = moves > 0.0 ? 2.0 * a->gain / moves - 1.0 : 0.0;
    double highest = x->high[i], lowest = x->low[i];
    for (size_t k = 1; k < 14; k++) {
        highest = fmax(highest, x->high[i - k]);
        lowest = fmin(lowest, x->low[i - k]);
    }
    f[25] = highest > lowest ? 2.0 * (c - lowest) / (highest - lowest) - 1.0 : 0.0;
    const double plus = a->plus / fmax(a->atr, EPS), minus = a->minus / fmax(a->atr, EPS);
    f[26] = (plus - minus) / (plus + minus + EPS);
    double path = 0.0;
    for (size_t k = 0; k < 20; k++) {
        path += fabs(x->close[i - k] - x->close[i - k - 1]);
    }
    f[27] = path > 0.0 ? (c - x->close[i - 20]) / path : 0.0;
    double mean, std;
    window_moments(x->close, i, 20, &mean, &std);
    f[28] = (c - mean) / (2.0 * fmax(std, 1e-9 * c));
    window_moments(x->close, i, 60, &mean, &std);
    f[29] = (c - mean) / (2.0 * fmax(std, 1e-9 * c));
}

/* Lo and MacKinlay: variance of overlapping 5-bar returns over 5 variances, 120 bars, minus 1. */
static double variance_ratio(const double *r, size_t i) {
    double mean, std, squares = 0.0;
    window_moments(r, i, 120, &mean, &std);
    if (std < FLOOR) {
        return 0.0;
    }
    for (size_t k = i - 115; k <= i; k++) {
        const double sum = r[k] + r[k - 1] + r[k - 2] + r[k - 3] + r[k - 4] - 5.0 * mean;
        squares += sum * sum;
    }
    return squares / 116.0 / (5.0 * std * std) - 1.0;
}

/* 30-32: the shape of the last 60 (120) returns. */
static void features_statistics(const struct series *x, size_t i, double *f) {
    double mean, std, lagged = 0.0, cubes = 0.0;
    window_moments(x->r, i, 60, &mean, &std);
    for (size_t k = i - 59; k <= i; k++) {
        const double d = x->r[k] - mean;
        cubes += d * d * d;
        lagged += k > i - 59 ? d * (x->r[k - 1] - mean) : 0.0;
    }
    const bool flat = std < FLOOR;
    f[30] = flat ? 0.0 : lagged / (60.0 * std * std);
    f[31] = variance_ratio(x->r, i);
    f[32] = flat ? 0.0 : cubes / 60.0 / (std * std * std) / 3.0;
}

/* 33-37: volume; zeros without it. */
static void features_volume(const struct series *x, const struct averages *a, size_t i, double s,
                            double *f) {
    if (x->volume == NULL) {
        memset(f + 33, 0, 5 * sizeof *f);
        return;
    }
    f[33] = log((x->volume[i] + EPS) / (a->volume20 + EPS));
    f[34] = log((a->volume5 + EPS) / (a->volume60 + EPS));
    double volume = 0.0, with_sign = 0.0, money = 0.0;
    for (size_t k = i - 19; k <= i; k++) {
        const double v = x->volume[k];
        volume += v;
        with_sign += x->r[k] > 0.0 ? v : x->r[k] < 0.0 ? -v : 0.0;
        money += v * (x->high[k] + x->low[k] + x->close[k]) / 3.0;
    }
    f[35] = volume > 0.0 ? with_sign / volume : 0.0;
    const double near = window_mean(x->illiquid, i, 20), far = window_mean(x->illiquid, i, 120);
    /* bounded to a factor of 1000: one of the means may be zero */
    f[36] = far > 0.0 ? log(fmax(near / far, 1e-3)) : 0.0;
    f[37] = volume > 0.0 ? log(x->close[i] * volume / money) / (s * sqrt(20.0)) : 0.0;
}

/* ---- the whole table ------------------------------------------------------------------------ */

static void series_free(struct series *x) {
    free(x->log_close);
    free(x->r);
    free(x->range2);
    free(x->std20);
    free(x->illiquid);
}

static enum dqn_status series_make(struct series *x, const struct dqn_bars *bars, size_t first,
                                   size_t n) {
    memset(x, 0, sizeof *x);
    x->n = n;
    x->open = bars->open + first;
    x->high = bars->high + first;
    x->low = bars->low + first;
    x->close = bars->close + first;
    x->volume = bars->volume != NULL ? bars->volume + first : NULL;
    double **const columns[] = {&x->log_close, &x->r, &x->range2, &x->std20, &x->illiquid};
    for (size_t k = 0; k < DQN_COUNT_OF(columns); k++) {
        void *column = NULL;
        DQN_TRY(dqn_alloc(&column, n, sizeof(double), "feature series"));
        *columns[k] = column;
    }
    for (size_t i = 0; i < n; i++) {
        const double range = log(x->high[i] / x->low[i]);
        x->log_close[i] = log(x->close[i]);
        x->r[i] = i > 0 ? x->log_close[i] - x->log_close[i - 1] : 0.0;
        x->range2[i] = range * range;
        x->std20[i] = i >= 20 ? window_std(x->r, i, 20) : 0.0;
        if (x->volume != NULL && x->volume[i] > 0.0) {
            x->illiquid[i] = fabs(x->r[i]) / (x->volume[i] * x->close[i]);
        }
    }
    return DQN_OK;
}

static double cost_ratio(const struct dqn_bars *bars, const struct dqn_feature_options *options,
                         size_t bar, double s) {
    const double half_spread =
        bars->half_spread != NULL ? bars->half_spread[bar] : options->half_spread;
    const double one_way = options->taker + half_spread + options->slip + options->slip_vol * s;
    return log(fmax(2.0 * options->cost_scale * one_way, 1e-8) / s);
}

static enum dqn_status compute_segment(const struct dqn_bars *bars,
                                       const struct dqn_feature_options *options, size_t first,
                                       size_t n, float *raw, double *s) {
    struct series x;
    struct averages a;
    enum dqn_status status;
    DQN_TRY_GOTO(series_make(&x, bars, first, n));
    averages_start(&a, &x);
    const bool intraday = bars->info.bar_seconds < 86400.0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0) {
            averages_step(&a, &x, i);
        }
        s[first + i] = bar_volatility(&a);
        float *row = raw + (first + i) * DQN_MARKET_FEATURES;
        if (i < DQN_MARKET_WARMUP) {
            memset(row, 0, DQN_MARKET_FEATURES * sizeof *row);
            continue;
        }
        double f[DQN_MARKET_FEATURES];
        features_price(&x, i, s[first + i], f);
        features_volatility(&x, &a, i, s[first + i], f);
        features_trend(&x, &a, i, s[first + i], f);
        features_statistics(&x, i, f);
        features_volume(&x, &a, i, s[first + i], f);
        f[38] = cost_ratio(bars, options, first + i, s[first + i]);
        int64_t seconds = bars->time_ns[first + i] / 1000000000;
        seconds -= bars->time_ns[first + i] % 1000000000 < 0;
        seconds += options->zone != NULL ? dqn_zone_offset(options->zone, seconds) : 0;
        dqn_features_calendar(seconds, intraday, f + 39);
        for (int k = 0; k < DQN_MARKET_FEATURES; k++) {
            row[k] = (float)f[k];
        }
    }
done:
    series_free(&x);
    return status;
}

enum dqn_status dqn_features_compute(const struct dqn_bars *bars,
                                     const struct dqn_feature_options *options, float *raw,
                                     double *s) {
    for (size_t g = 0; g < bars->n_segments; g++) {
        const size_t first = bars->segment[g];
        DQN_TRY(compute_segment(bars, options, first, bars->segment[g + 1] - first, raw, s));
    }
    return DQN_OK;
}

/* ---- normalisation -------------------------------------------------------------------------- */

/* Sum of x - shift, or of its square, over a column's usable rows in [first, last). */
static double column_sum(const struct dqn_bars *bars, const float *raw, size_t first, size_t last,
                         size_t column, double shift, bool squared, size_t *rows) {
    double sum = 0.0;
    *rows = 0;
    for (size_t g = 0; g < bars->n_segments; g++) {
        size_t from = bars->segment[g] + DQN_MARKET_WARMUP, to = bars->segment[g + 1];
        from = from < first ? first : from;
        to = to > last ? last : to;
        for (size_t i = from; i < to; i++) {
            const double d = (double)raw[i * DQN_MARKET_FEATURES + column] - shift;
            sum += squared ? d * d : d;
            *rows += 1;
        }
    }
    return sum;
}

enum dqn_status dqn_features_fit(const struct dqn_bars *bars, const float *raw, size_t first,
                                 size_t last, double *mean, double *std, size_t *n_constant) {
    size_t constant = 0;
    for (size_t k = 0; k < DQN_MARKET_FEATURES; k++) {
        mean[k] = 0.0;
        std[k] = 1.0;
        if (table[k].bounded) {
            continue;
        }
        size_t rows;
        const double sum = column_sum(bars, raw, first, last, k, 0.0, false, &rows);
        if (rows < 2) {
            return dqn_fail(DQN_ERR_DATA,
                            "the training split has %zu bar%s after the warm-up of %d; at least 2 "
                            "are needed to fit the feature statistics: use more data",
                            rows, dqn_plural(rows), DQN_MARKET_WARMUP);
        }
        mean[k] = sum / (double)rows;
        const double squares = column_sum(bars, raw, first, last, k, mean[k], true, &rows);
        std[k] = sqrt(squares / (double)rows);
        /* float32 columns: what differs by rounding only is constant */
        if (!(std[k] > 1e-6 * fmax(1.0, fabs(mean[k])))) {
            std[k] = DQN_FEATURE_CONSTANT;
            constant += 1;
        }
    }
    if (n_constant != NULL) {
        *n_constant = constant;
    }
    return DQN_OK;
}

void dqn_features_normalise(float *rows, size_t n, const double *mean, const double *std) {
    for (size_t i = 0; i < n; i++) {
        float *row = rows + i * DQN_MARKET_FEATURES;
        for (size_t k = 0; k < DQN_MARKET_FEATURES; k++) {
            const double z = ((double)row[k] - mean[k]) / std[k];
            row[k] = (float)fmin(fmax(z, -DQN_FEATURE_CLIP), DQN_FEATURE_CLIP);
        }
    }
}
