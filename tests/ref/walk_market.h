/* Bars for tests: a price martingale whose highs and lows follow the law of the path between
 * sub-steps. For a Brownian bridge from a to b with variance v the maximum is
 * (a + b + sqrt((b - a)^2 - 2 v ln U)) / 2 (Karatzas and Shreve 1991, section 4.3). */
#ifndef TESTS_REF_WALK_MARKET_H
#define TESTS_REF_WALK_MARKET_H

#include <math.h>

#include "market/bars.h"

struct walk_options {
    size_t n, substeps;
    double sigma;   /* std of a bar's log return */
    double gap;     /* std of the opening gap, in sigma */
    double cluster; /* 0, or strength of a slow change of volatility */
    bool volume, half_spread, weekends;
    int64_t bar_s;
    uint64_t seed;
};

static inline uint64_t walk_word(uint64_t *state) { /* splitmix64, Steele et al. 2014 */
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static inline double walk_unit(uint64_t *state) {
    return ((double)(walk_word(state) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double walk_normal(uint64_t *state) {
    const double radius = sqrt(-2.0 * log(walk_unit(state)));
    return radius * cos(6.283185307179586 * walk_unit(state));
}

static inline enum dqn_status walk_make(struct dqn_bars *bars, const struct walk_options *o) {
    DQN_TRY(dqn_bars_alloc(bars, o->n, o->volume, o->half_spread, false, false));
    uint64_t rng = o->seed;
    double x = log(100.0);
    int64_t time_s = 1704067200; /* 2024-01-01, a Monday */
    for (size_t i = 0; i < o->n; i++) {
        const double sigma = o->sigma * exp(o->cluster * sin((double)i * 0.013));
        const double gap = o->gap * sigma;
        x += gap * walk_normal(&rng) - 0.5 * gap * gap;
        bars->open[i] = exp(x);
        double high = x, low = x;
        const double v = sigma * sigma / (double)o->substeps;
        for (size_t k = 0; k < o->substeps; k++) {
            const double y = x + sqrt(v) * walk_normal(&rng) - 0.5 * v;
            const double d2 = (y - x) * (y - x);
            high = fmax(high, 0.5 * (x + y + sqrt(d2 - 2.0 * v * log(walk_unit(&rng)))));
            low = fmin(low, 0.5 * (x + y - sqrt(d2 - 2.0 * v * log(walk_unit(&rng)))));
            x = y;
        }
        bars->close[i] = exp(x);
        bars->high[i] = fmax(exp(high), fmax(bars->open[i], bars->close[i]));
        bars->low[i] = fmin(exp(low), fmin(bars->open[i], bars->close[i]));
        if (o->volume) {
            bars->volume[i] = i % 97 == 5 ? 0.0 : 1000.0 * exp(0.7 * walk_normal(&rng));
        }
        if (o->half_spread) {
            bars->half_spread[i] = 1e-4 * (1.0 + walk_unit(&rng));
        }
        bars->time_ns[i] = time_s * 1000000000;
        time_s += o->bar_s;
        if (o->weekends && (time_s / 86400 + 3) % 7 >= 5) {
            time_s += 2 * 86400;
        }
    }
    bars->info.bar_seconds = (double)o->bar_s;
    return DQN_OK;
}

#endif
