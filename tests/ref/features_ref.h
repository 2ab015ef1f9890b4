/* Slow reference of the market features: every number from its definition, from the segment's first
 * bar, in long double, without anything carried from bar to bar. */
#ifndef TESTS_REF_FEATURES_REF_H
#define TESTS_REF_FEATURES_REF_H

#include <math.h>

#include "market/features.h"

typedef long double real;

struct ref_bars {
    const struct dqn_bars *b;
    size_t first; /* of the segment */
};

static inline real ref_r(const struct ref_bars *x, size_t i) {
    return i == x->first ? 0.0L : logl((real)x->b->close[i] / (real)x->b->close[i - 1]);
}

/* Exponential average as a weighted sum: start at `from` with its own value. */
static inline real ref_ema(const struct ref_bars *x, real (*value)(const struct ref_bars *, size_t),
                           size_t from, size_t t, real alpha) {
    real sum = value(x, from) * powl(1.0L - alpha, (real)(t - from));
    for (size_t i = from + 1; i <= t; i++) {
        sum += alpha * powl(1.0L - alpha, (real)(t - i)) * value(x, i);
    }
    return sum;
}

static inline real ref_close(const struct ref_bars *x, size_t i) {
    return (real)x->b->close[i];
}
static inline real ref_volume(const struct ref_bars *x, size_t i) {
    return (real)x->b->volume[i];
}
static inline real ref_r2(const struct ref_bars *x, size_t i) {
    return ref_r(x, i) * ref_r(x, i);
}
static inline real ref_abs_r(const struct ref_bars *x, size_t i) {
    return fabsl(ref_r(x, i));
}
static inline real ref_gain(const struct ref_bars *x, size_t i) {
    return i == x->first ? 0.0L : fmaxl(ref_close(x, i) - ref_close(x, i - 1), 0.0L);
}
static inline real ref_loss(const struct ref_bars *x, size_t i) {
    return i == x->first ? 0.0L : fmaxl(ref_close(x, i - 1) - ref_close(x, i), 0.0L);
}
static inline real ref_true_range(const struct ref_bars *x, size_t i) {
    const real h = x->b->high[i], l = x->b->low[i];
    if (i == x->first) {
        return h - l;
    }
    const real c = ref_close(x, i - 1);
    return fmaxl(h - l, fmaxl(fabsl(h - c), fabsl(l - c)));
}
static inline real ref_plus(const struct ref_bars *x, size_t i) {
    if (i == x->first) {
        return 0.0L;
    }
    const real up = (real)x->b->high[i] - x->b->high[i - 1];
    const real down = (real)x->b->low[i - 1] - x->b->low[i];
    return up > 0.0L && up > down ? up : 0.0L;
}
static inline real ref_minus(const struct ref_bars *x, size_t i) {
    if (i == x->first) {
        return 0.0L;
    }
    const real up = (real)x->b->high[i] - x->b->high[i - 1];
    const real down = (real)x->b->low[i - 1] - x->b->low[i];
    return down > 0.0L && down > up ? down : 0.0L;
}
static inline real ref_s(const struct ref_bars *x, size_t t) {
    if (t == x->first) {
        return 1e-6L;
    }
    real variance = 0.0L;
    for (size_t i = x->first + 1; i <= t; i++) {
        variance += fmaxl(2.0L / 65.0L, 1.0L / (real)(i - x->first)) * (ref_r2(x, i) - variance);
    }
    return fmaxl(sqrtl(variance), 1e-6L);
}
static inline real ref_macd(const struct ref_bars *x, size_t t) {
    const real fast = ref_ema(x, ref_close, x->first, t, 2.0L / 13.0L);
    const real slow = ref_ema(x, ref_close, x->first, t, 2.0L / 27.0L);
    return logl(fast / slow) / (ref_s(x, t) * sqrtl(26.0L));
}
static inline real ref_illiquid(const struct ref_bars *x, size_t i) {
    return ref_volume(x, i) > 0.0L ? fabsl(ref_r(x, i)) / (ref_volume(x, i) * ref_close(x, i))
                                   : 0.0L;
}
static inline real ref_range2(const struct ref_bars *x, size_t i) {
    const real range = logl((real)x->b->high[i] / (real)x->b->low[i]);
    return range * range;
}

static inline real ref_mean(const struct ref_bars *x,
                            real (*value)(const struct ref_bars *, size_t), size_t t, size_t n) {
    real sum = 0.0L;
    for (size_t k = 0; k < n; k++) {
        sum += value(x, t - k);
    }
    return sum / (real)n;
}

/* Central moment of the last n values. */
static inline real ref_moment(const struct ref_bars *x,
                              real (*value)(const struct ref_bars *, size_t), size_t t, size_t n,
                              int power) {
    const real mean = ref_mean(x, value, t, n);
    real sum = 0.0L;
    for (size_t k = 0; k < n; k++) {
        sum += powl(value(x, t - k) - mean, power);
    }
    return sum / (real)n;
}

static inline real ref_std(const struct ref_bars *x, real (*value)(const struct ref_bars *, size_t),
                           size_t t, size_t n) {
    return sqrtl(ref_moment(x, value, t, n, 2));
}

static inline real ref_std_floored(const struct ref_bars *x, size_t t, size_t n) {
    return fmaxl(ref_std(x, ref_r, t, n), 1e-6L);
}

/* 23 needs an average of an average. */
static inline real ref_macd_hist(const struct ref_bars *x, size_t t) {
    real average = 0.0L;                                             /* the first bar's MACD is 0 */
    const size_t from = t > x->first + 300 ? t - 300 : x->first + 1; /* 0.8^300 is 1e-29 */
    for (size_t i = from; i <= t; i++) {
        average += 0.2L * (ref_macd(x, i) - average);
    }
    return ref_macd(x, t) - average;
}

static inline real ref_rank(const struct ref_bars *x, size_t t) {
    const real now = ref_std(x, ref_r, t, 20);
    real rank = 0.0L;
    for (size_t k = 1; k < 256; k++) {
        const real other = ref_std(x, ref_r, t - k, 20);
        /* equal up to rounding counts half */
        rank += fabsl(other - now) <= 1e-18L ? 0.5L : other < now ? 1.0L : 0.0L;
    }
    return 2.0L * rank / 255.0L - 1.0L;
}

static inline real ref_var_ratio(const struct ref_bars *x, size_t t) {
    const real mean = ref_mean(x, ref_r, t, 120), variance = ref_moment(x, ref_r, t, 120, 2);
    real sum = 0.0L;
    for (size_t k = 0; k < 116; k++) {
        real five = 0.0L;
        for (size_t j = 0; j < 5; j++) {
            five += ref_r(x, t - k - j) - mean;
        }
        sum += five * five;
    }
    return variance < 1e-12L ? 0.0L : sum / 116.0L / (5.0L * variance) - 1.0L;
}

static inline real ref_autocorr(const struct ref_bars *x, size_t t) {
    const real mean = ref_mean(x, ref_r, t, 60), variance = ref_moment(x, ref_r, t, 60, 2);
    real sum = 0.0L;
    for (size_t k = 0; k < 59; k++) {
        sum += (ref_r(x, t - k) - mean) * (ref_r(x, t - k - 1) - mean);
    }
    return variance < 1e-12L ? 0.0L : sum / (60.0L * variance);
}

/* Feature k of bar t. `costs` as the features under test got them. */
static inline real ref_feature(const struct ref_bars *x, size_t k, size_t t,
                               const struct dqn_feature_options *costs) {
    static const size_t lags[8] = {1, 2, 3, 5, 10, 20, 60, 120};
    const real o = x->b->open[t], h = x->b->high[t], l = x->b->low[t], c = x->b->close[t];
    const real s = ref_s(x, t);
    const bool volume = x->b->volume != NULL;
    const int64_t seconds = x->b->time_ns[t] / 1000000000;
    const real pi = 3.14159265358979323846264L;
    real a, b, sum = 0.0L;
    if (k < 8) {
        return logl(c / ref_close(x, t - lags[k])) / (s * sqrtl((real)lags[k]));
    }
    switch (k) {
    case 8:
        return logl(c / o) / s;
    case 9:
        return logl(h / fmaxl(o, c)) / s;
    case 10:
        return logl(fminl(o, c) / l) / s;
    case 11:
        return logl(h / l) / s;
    case 12:
        return h == l ? 0.0L : 2.0L * (c - l) / (h - l) - 1.0L;
    case 13:
        return logl(o / ref_close(x, t - 1)) / s;
    case 14:
        return logl(ref_std_floored(x, t, 10) / ref_std_floored(x, t, 60));
    case 15:
        return logl(ref_std_floored(x, t, 20) / ref_std_floored(x, t, 120));
    case 16:
        a = sqrtl(ref_mean(x, ref_range2, t, 20) / (4.0L * logl(2.0L)));
        return logl(fmaxl(a, 1e-6L) / ref_std_floored(x, t, 20));
    case 17:
        a = ref_ema(x, ref_true_range, x->first, t, 1.0L / 14.0L);
        return logl(fmaxl(a / c, 1e-6L) / s);
    case 18:
        return ref_std(x, ref_abs_r, t, 60) / fmaxl(ref_mean(x, ref_abs_r, t, 60), 1e-12L) - 0.75L;
    case 19:
        return ref_rank(x, t);
    case 20:
        return logl(c / ref_ema(x, ref_close, x->first, t, 2.0L / 13.0L)) / (s * sqrtl(12.0L));
    case 21:
        return logl(c / ref_ema(x, ref_close, x->first, t, 2.0L / 27.0L)) / (s * sqrtl(26.0L));
    case 22:
        return ref_macd(x, t);
    case 23:
        return ref_macd_hist(x, t);
    case 24:
        a = ref_ema(x, ref_gain, x->first, t, 1.0L / 14.0L);
        b = ref_ema(x, ref_loss, x->first, t, 1.0L / 14.0L);
        return a + b > 0.0L ? (100.0L - 100.0L / (1.0L + a / fmaxl(b, 1e-300L))) / 50.0L - 1.0L
                            : 0.0L;
    case 25:
        a = h;
        b = l;
        for (size_t i = t - 13; i < t; i++) {
            a = fmaxl(a, x->b->high[i]);
            b = fminl(b, x->b->low[i]);
        }
        return a > b ? 2.0L * (c - b) / (a - b) - 1.0L : 0.0L;
    case 26:
        sum = fmaxl(ref_ema(x, ref_true_range, x->first, t, 1.0L / 14.0L), 1e-12L);
        a = ref_ema(x, ref_plus, x->first, t, 1.0L / 14.0L) / sum;
        b = ref_ema(x, ref_minus, x->first, t, 1.0L / 14.0L) / sum;
        return (a - b) / (a + b + 1e-12L);
    case 27:
        for (size_t i = t - 19; i <= t; i++) {
            sum += fabsl(ref_close(x, i) - ref_close(x, i - 1));
        }
        return sum > 0.0L ? (c - ref_close(x, t - 20)) / sum : 0.0L;
    case 28:
        return (c - ref_mean(x, ref_close, t, 20)) /
               (2.0L * fmaxl(ref_std(x, ref_close, t, 20), 1e-9L * c));
    case 29:
        return (c - ref_mean(x, ref_close, t, 60)) /
               (2.0L * fmaxl(ref_std(x, ref_close, t, 60), 1e-9L * c));
    case 30:
        return ref_autocorr(x, t);
    case 31:
        return ref_var_ratio(x, t);
    case 32:
        a = ref_std(x, ref_r, t, 60);
        return a < 1e-6L ? 0.0L : ref_moment(x, ref_r, t, 60, 3) / (a * a * a) / 3.0L;
    case 33:
        return volume ? logl((ref_volume(x, t) + 1e-12L) /
                             (ref_ema(x, ref_volume, x->first, t, 2.0L / 21.0L) + 1e-12L))
                      : 0.0L;
    case 34:
        return volume ? logl((ref_ema(x, ref_volume, x->first, t, 2.0L / 6.0L) + 1e-12L) /
                             (ref_ema(x, ref_volume, x->first, t, 2.0L / 61.0L) + 1e-12L))
                      : 0.0L;
    case 35:
        a = b = 0.0L;
        for (size_t i = t - 19; volume && i <= t; i++) {
            const real r = ref_r(x, i);
            a += (r > 0.0L ? 1.0L : r < 0.0L ? -1.0L : 0.0L) * ref_volume(x, i);
            b += ref_volume(x, i);
        }
        return b > 0.0L ? a / b : 0.0L;
    case 36:
        a = volume ? ref_mean(x, ref_illiquid, t, 20) : 0.0L;
        b = volume ? ref_mean(x, ref_illiquid, t, 120) : 0.0L;
        return b > 0.0L ? logl(fmaxl(a / b, 1e-3L)) : 0.0L;
    case 37:
        a = b = 0.0L;
        for (size_t i = t - 19; volume && i <= t; i++) {
            a += ref_volume(x, i) * ((real)x->b->high[i] + x->b->low[i] + x->b->close[i]) / 3.0L;
            b += ref_volume(x, i);
        }
        return b > 0.0L ? logl(c / (a / b)) / (s * sqrtl(20.0L)) : 0.0L;
    case 38:
        a = x->b->half_spread != NULL ? (real)x->b->half_spread[t] : (real)costs->half_spread;
        a += (real)costs->taker + (real)costs->slip + (real)costs->slip_vol * s;
        return logl(2.0L * (real)costs->cost_scale * a / s);
    case 39:
        return x->b->info.bar_seconds < 86400.0
                   ? sinl(2.0L * pi * (real)(seconds % 86400) / 86400.0L)
                   : 0.0L;
    case 40:
        return x->b->info.bar_seconds < 86400.0
                   ? cosl(2.0L * pi * (real)(seconds % 86400) / 86400.0L)
                   : 0.0L;
    case 41:
        return sinl(2.0L * pi * (real)((seconds / 86400 + 3) % 7) / 7.0L);
    default:
        return cosl(2.0L * pi * (real)((seconds / 86400 + 3) % 7) / 7.0L);
    }
}

#endif
