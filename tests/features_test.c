/* Market features: each against its definition, causal bit for bit, finite on hostile bars. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "market/trading_setup.h"
#include "ref/features_ref.h"
#include "ref/walk_market.h"

static const struct dqn_feature_options costs = {
    .taker = 5e-4, .half_spread = 1e-4, .slip = 1e-4, .slip_vol = 0.05, .cost_scale = 1.0};

struct computed {
    float *raw;
    double *s;
};

static struct computed compute(const struct dqn_bars *bars) {
    struct computed c = {malloc(bars->n * DQN_MARKET_FEATURES * sizeof(float)),
                         malloc(bars->n * sizeof(double))};
    cr_assert(c.raw != NULL && c.s != NULL);
    cr_assert_eq(dqn_features_compute(bars, &costs, c.raw, c.s), DQN_OK);
    return c;
}

static void release(struct computed *c, struct dqn_bars *bars) {
    free(c->raw);
    free(c->s);
    dqn_bars_free(bars);
}

/* Cuts the bars into two segments at `at`. */
static void cut(struct dqn_bars *bars, size_t at) {
    free(bars->segment);
    bars->segment = malloc(3 * sizeof(size_t));
    bars->segment[0] = 0;
    bars->segment[1] = at;
    bars->segment[2] = bars->n;
    bars->n_segments = 2;
}

static double worst_difference(const struct dqn_bars *bars, const struct computed *c, size_t step) {
    double worst = 0.0;
    for (size_t g = 0; g < bars->n_segments; g++) {
        const struct ref_bars x = {bars, bars->segment[g]};
        for (size_t t = bars->segment[g] + DQN_MARKET_WARMUP; t < bars->segment[g + 1]; t += step) {
            for (size_t k = 0; k < DQN_MARKET_FEATURES; k++) {
                const double want = (double)ref_feature(&x, k, t, &costs);
                const double got = (double)c->raw[t * DQN_MARKET_FEATURES + k];
                const double error = fabs(got - want) / fmax(1.0, fabs(want));
                /* float32 rounding is 6e-8, double sums add 1e-13; seen 5.5e-8 */
                cr_assert(error < 2e-7, "%s at bar %zu: %.9g, reference %.9g", dqn_feature_name(k),
                          t, got, want);
                worst = fmax(worst, error);
            }
            const double want = (double)ref_s(&x, t);
            cr_assert(fabs(c->s[t] / want - 1.0) < 1e-12, "s at bar %zu", t); /* seen 5e-14 */
        }
    }
    return worst;
}

Test(features, equal_the_slow_reference) {
    const struct walk_options options[] = {
        {1200, 4, 0.01, 0.2, 0.5, true, true, true, 3600, 11},
        {1130, 4, 0.02, 0.0, 0.0, false, false, false, 86400, 12},
        {1130, 1, 1e-4, 1.0, 1.0, true, false, false, 60, 13},
    };
    for (size_t i = 0; i < DQN_COUNT_OF(options); i++) {
        struct dqn_bars bars;
        cr_assert_eq(walk_make(&bars, &options[i]), DQN_OK);
        cut(&bars, 560);
        struct computed c = compute(&bars);
        const double worst = worst_difference(&bars, &c, 23);
        cr_log_info("market %zu: largest difference %.2g", i, worst);
        release(&c, &bars);
    }
}

Test(features, of_a_prefix_equal_the_whole_bit_for_bit) {
    const struct walk_options options = {3000, 4, 0.01, 0.2, 0.5, true, true, true, 3600, 21};
    struct dqn_bars bars;
    cr_assert_eq(walk_make(&bars, &options), DQN_OK);
    cut(&bars, 1100);
    struct computed whole = compute(&bars);
    uint64_t rng = 5;
    for (int trial = 0; trial < 20; trial++) {
        const size_t n = 600 + (size_t)(walk_unit(&rng) * 2399.0);
        struct dqn_bars prefix = bars;
        size_t segments[3] = {0, n < 1100 ? n : 1100, n};
        prefix.n = n;
        prefix.segment = segments;
        prefix.n_segments = n > 1100 ? 2 : 1;
        struct computed part = compute(&prefix);
        cr_assert_eq(memcmp(part.raw, whole.raw, n * DQN_MARKET_FEATURES * sizeof(float)), 0,
                     "prefix of %zu bars", n);
        cr_assert_eq(memcmp(part.s, whole.s, n * sizeof(double)), 0);
        free(part.raw);
        free(part.s);
    }
    release(&whole, &bars);
}

/* Bars that start later: what the averages remember of the time before is gone after the warm-up.
 */
Test(features, of_a_later_start_agree_after_the_warm_up) {
    const struct walk_options options = {3000, 4, 0.01, 0.2, 0.5, true, true, true, 3600, 22};
    struct dqn_bars bars;
    cr_assert_eq(walk_make(&bars, &options), DQN_OK);
    struct computed whole = compute(&bars);
    struct dqn_bars whole_bars = bars;
    cut(&bars, 1500);
    struct computed late = compute(&bars);
    double worst = 0.0;
    const size_t from = (1500 + DQN_MARKET_WARMUP) * DQN_MARKET_FEATURES;
    for (size_t i = from; i < whole_bars.n * DQN_MARKET_FEATURES; i++) {
        const double error = fabs((double)whole.raw[i] - (double)late.raw[i]);
        worst = fmax(worst, error / fmax(1.0, fabs((double)whole.raw[i])));
    }
    cr_assert(worst < 1e-6, "largest difference %g", worst); /* seen 1.2e-7 */
    free(late.raw);
    free(late.s);
    release(&whole, &bars);
}

static void set_bar(struct dqn_bars *bars, size_t i, double o, double h, double l, double c) {
    bars->open[i] = o;
    bars->high[i] = h;
    bars->low[i] = l;
    bars->close[i] = c;
}

Test(features, are_finite_on_hostile_bars) {
    for (int kind = 0; kind < 5; kind++) {
        struct dqn_bars bars;
        const struct walk_options options = {1200, 1, 0.01, 0.0, 0.0, true, false, false, 3600, 31};
        cr_assert_eq(walk_make(&bars, &options), DQN_OK);
        for (size_t i = 0; i < bars.n; i++) {
            const double swing = i % 2 ? 1e4 : 1e-4;
            if (kind == 0 || (kind == 1 && i > 600)) { /* flat, from the start or later */
                set_bar(&bars, i, 100, 100, 100, 100);
            } else if (kind == 2) { /* absurd moves */
                set_bar(&bars, i, swing, 1e5, 1e-5, swing);
            } else if (kind == 3) { /* steady rise: no loss in RSI, no fall in DI */
                const double p = 100.0 * exp(0.001 * (double)i);
                set_bar(&bars, i, p, p, p, p);
            } else if (kind == 4) {
                bars.volume[i] = 0.0;
            }
        }
        struct computed c = compute(&bars);
        for (size_t i = 0; i < bars.n * DQN_MARKET_FEATURES; i++) {
            cr_assert(isfinite(c.raw[i]), "kind %d, %s", kind,
                      dqn_feature_name(i % DQN_MARKET_FEATURES));
        }
        release(&c, &bars);
    }
}

Test(features, of_a_flat_market_say_nothing) {
    struct dqn_bars bars;
    const struct walk_options options = {700, 1, 0.01, 0.0, 0.0, false, false, false, 3600, 32};
    cr_assert_eq(walk_make(&bars, &options), DQN_OK);
    for (size_t i = 0; i < bars.n; i++) {
        set_bar(&bars, i, 100, 100, 100, 100);
    }
    struct computed c = compute(&bars);
    const float *row = c.raw + 600 * DQN_MARKET_FEATURES;
    for (size_t k = 0; k < 38; k++) {
        const float want = k == 18 ? -0.75f : 0.0f;
        cr_assert(fabsf(row[k] - want) < 1e-6f, "%s = %g", dqn_feature_name(k), (double)row[k]);
    }
    release(&c, &bars);
}

Test(features, statistics_come_from_the_training_part_and_are_frozen) {
    struct dqn_bars bars;
    const struct walk_options options = {3000, 2, 0.01, 0.2, 0.5, true, true, true, 3600, 41};
    cr_assert_eq(walk_make(&bars, &options), DQN_OK);
    struct computed c = compute(&bars);
    double mean[DQN_MARKET_FEATURES], std[DQN_MARKET_FEATURES];
    double again[DQN_MARKET_FEATURES], std_again[DQN_MARKET_FEATURES];
    size_t constant;
    cr_assert_eq(dqn_features_fit(&bars, c.raw, 0, 1800, mean, std, &constant), DQN_OK);
    cr_assert_eq(constant, 0);
    for (size_t i = 1800 * DQN_MARKET_FEATURES; i < bars.n * DQN_MARKET_FEATURES; i++) {
        c.raw[i] += 1000.0f; /* later rows must not matter */
    }
    cr_assert_eq(dqn_features_fit(&bars, c.raw, 0, 1800, again, std_again, NULL), DQN_OK);
    cr_assert_eq(memcmp(mean, again, sizeof mean), 0);
    cr_assert_eq(memcmp(std, std_again, sizeof std), 0);
    dqn_features_normalise(c.raw, bars.n, mean, std);
    for (size_t k = 0; k < DQN_MARKET_FEATURES; k++) {
        double sum = 0.0;
        for (size_t i = DQN_MARKET_WARMUP; i < bars.n; i++) {
            const double z = (double)c.raw[i * DQN_MARKET_FEATURES + k];
            cr_assert(fabs(z) <= 5.0);
            sum += i < 1800 ? z : 0.0;
        }
        if (!dqn_feature_bounded(k)) { /* the clip moves the mean a little; seen 0.05 at most */
            cr_assert(fabs(sum / (1800 - DQN_MARKET_WARMUP)) < 0.2, "%s", dqn_feature_name(k));
        }
    }
    release(&c, &bars);
}

Test(features, constant_columns_become_zero) {
    struct dqn_bars bars;
    const struct walk_options options = {800, 1, 0.01, 0.0, 0.0, false, false, false, 3600, 42};
    cr_assert_eq(walk_make(&bars, &options), DQN_OK);
    struct computed c = compute(&bars);
    for (size_t i = 0; i < bars.n; i++) {
        c.raw[i * DQN_MARKET_FEATURES + 3] = 0.1f;                                  /* constant */
        c.raw[i * DQN_MARKET_FEATURES + 4] = i % 2 ? 0.1f : nextafterf(0.1f, 1.0f); /* almost */
    }
    double mean[DQN_MARKET_FEATURES], std[DQN_MARKET_FEATURES];
    size_t constant;
    cr_assert_eq(dqn_features_fit(&bars, c.raw, 0, 800, mean, std, &constant), DQN_OK);
    /* no volume: 33, 34, 36, 37; opens equal the close before: 13 */
    cr_assert_eq(constant, 7, "%zu", constant);
    dqn_features_normalise(c.raw, bars.n, mean, std);
    for (size_t i = DQN_MARKET_WARMUP; i < bars.n; i++) {
        for (size_t k = 3; k < 5; k++) {
            cr_assert_eq(c.raw[i * DQN_MARKET_FEATURES + k], 0.0f);
        }
        cr_assert_eq(c.raw[i * DQN_MARKET_FEATURES + 36], 0.0f);
    }
    cr_assert_eq(dqn_features_fit(&bars, c.raw, 0, 513, mean, std, NULL), DQN_ERR_DATA);
    release(&c, &bars);
}

Test(features, calendar_knows_the_epoch) {
    double out[4];
    dqn_features_calendar(6 * 3600, true, out); /* Thursday 06:00 */
    cr_assert(fabs(out[0] - 1.0) < 1e-15 && fabs(out[1]) < 1e-15);
    cr_assert(fabs(out[2] - sin(2.0 * 3.14159265358979 * 3.0 / 7.0)) < 1e-12);
    dqn_features_calendar(-1, false, out); /* Wednesday, one second before */
    cr_assert(out[0] == 0.0 && out[1] == 0.0);
    cr_assert(fabs(out[3] - cos(2.0 * 3.14159265358979 * 2.0 / 7.0)) < 1e-12);
}

/* Noon in New York is 17:00 UTC in January and 16:00 in July. */
Test(features, follow_the_local_clock) {
    struct dqn_zone *zone;
    cr_assert_eq(dqn_zone_create(&zone, "America/New_York"), DQN_OK);
    const int64_t noon[2] = {1704733200, 1720454400}; /* 2024-01-08 and 2024-07-08, Mondays */
    for (int k = 0; k < 2; k++) {
        struct dqn_bars bars;
        const struct walk_options options = {600, 1, 0.01, 0.0, 0.0, false, false, false, 3600, 51};
        cr_assert_eq(walk_make(&bars, &options), DQN_OK);
        for (size_t i = 0; i < bars.n; i++) {
            bars.time_ns[i] = (noon[k] + ((int64_t)i - 550) * 3600) * 1000000000;
        }
        struct dqn_feature_options local = costs;
        local.zone = zone;
        struct computed c = compute(&bars);
        cr_assert_eq(dqn_features_compute(&bars, &local, c.raw, c.s), DQN_OK);
        const float *row = c.raw + 550 * DQN_MARKET_FEATURES;
        cr_assert(fabsf(row[39]) < 1e-6f && fabsf(row[40] + 1.0f) < 1e-6f);
        cr_assert(fabsf(row[41]) < 1e-6f && fabsf(row[42] - 1.0f) < 1e-6f);
        release(&c, &bars);
    }
    dqn_zone_destroy(zone);
}
