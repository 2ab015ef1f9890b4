#include "features_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/rng.h"

/* The features of a part are compared on at most so many rows: prefixes at their end, suffixes
 * after their warm-up. The part itself is as long as it takes. */
enum { ROWS_COMPARED = 256, PART_MAX = 8192 };

/* A look at bars [first, last) of a segment, as data of its own. The arrays are borrowed. */
static void view(struct dqn_bars *part, size_t segment[2], const struct dqn_bars *bars,
                 size_t first, size_t last) {
    *part = *bars;
    part->n = last - first;
    part->time_ns = bars->time_ns + first;
    part->open = bars->open + first;
    part->high = bars->high + first;
    part->low = bars->low + first;
    part->close = bars->close + first;
    part->volume = bars->volume != NULL ? bars->volume + first : NULL;
    part->half_spread = bars->half_spread != NULL ? bars->half_spread + first : NULL;
    part->untradable = bars->untradable != NULL ? bars->untradable + first : NULL;
    part->hidden = NULL;
    segment[0] = 0;
    segment[1] = part->n;
    part->segment = segment;
    part->n_segments = 1;
}

struct work {
    const struct dqn_bars *whole;
    const struct dqn_feature_options *options;
    dqn_features_function compute;
    float *all, *some; /* [n, 43] of the whole segment and of a part */
    double *s;
};

static void keep_largest(double *largest, const float *a, const float *b) {
    for (size_t f = 0; f < DQN_MARKET_FEATURES; f++) {
        const double size = fabs((double)a[f]) > 1.0 ? fabs((double)a[f]) : 1.0;
        const double difference = fabs((double)a[f] - (double)b[f]) / size;
        /* NaN counts as a difference, also against NaN */
        if (!(difference <= largest[f])) {
            largest[f] = isnan(difference) ? INFINITY : difference;
        }
    }
}

static enum dqn_status compare(const struct work *work, size_t first, size_t last, size_t from,
                               size_t to, double *largest) {
    struct dqn_bars part;
    size_t segment[2];
    view(&part, segment, work->whole, first, last);
    DQN_TRY(work->compute(&part, work->options, work->some, work->s));
    for (size_t i = from; i < to; i++) {
        keep_largest(largest, work->all + i * DQN_MARKET_FEATURES,
                     work->some + (i - first) * DQN_MARKET_FEATURES);
    }
    return DQN_OK;
}

static enum dqn_status compare_parts(struct dqn_features_check *out, const struct work *work,
                                     size_t parts, uint64_t seed) {
    const size_t n = work->whole->n, warm = DQN_MARKET_WARMUP;
    for (size_t k = 0; k < parts; k++) {
        const struct dqn_u32x4 block =
            dqn_rng_block(seed, dqn_rng_stream(DQN_RNG_BOOTSTRAP, UINT32_MAX), k);
        /* a prefix: bars [0, last) */
        const size_t last = warm + 1 + (size_t)dqn_rng_below(dqn_rng_u64(block, 0), n - warm - 1);
        const size_t from = last > warm + ROWS_COMPARED ? last - ROWS_COMPARED : warm;
        DQN_TRY(compare(work, 0, last, from, last, out->prefix));
        out->n_prefixes++;
        /* a suffix: bars from `first` on */
        const size_t first = 1 + (size_t)dqn_rng_below(dqn_rng_u64(block, 1), n - warm - 1);
        const size_t end = n - first > PART_MAX ? first + PART_MAX : n;
        const size_t start = first + warm;
        const size_t stop = end - start > ROWS_COMPARED ? start + ROWS_COMPARED : end;
        DQN_TRY(compare(work, first, end, start, stop, out->suffix));
        out->n_suffixes++;
    }
    return DQN_OK;
}

static void longest_segment(const struct dqn_bars *bars, size_t *first, size_t *last) {
    *first = 0;
    *last = 0;
    for (size_t i = 0; i < bars->n_segments; i++) {
        if (bars->segment[i + 1] - bars->segment[i] > *last - *first) {
            *first = bars->segment[i];
            *last = bars->segment[i + 1];
        }
    }
}

enum dqn_status dqn_features_check(struct dqn_features_check *out, const struct dqn_bars *bars,
                                   const struct dqn_feature_options *options,
                                   dqn_features_function compute, size_t parts, uint64_t seed) {
    size_t first = 0, last = 0, segment[2];
    struct dqn_bars whole;
    memset(out, 0, sizeof(*out));
    longest_segment(bars, &first, &last);
    if (last - first < 2 * DQN_MARKET_WARMUP) {
        return dqn_fail(
            DQN_ERR_DATA,
            "the longest segment has %zu bar%s; the check needs %d, two warm-ups of the "
            "features: give more history%s",
            last - first, dqn_plural(last - first), 2 * DQN_MARKET_WARMUP,
            bars->n >= 2 * DQN_MARKET_WARMUP ? ", or data.gaps: keep" : "");
    }
    view(&whole, segment, bars, first, last);
    struct work work = {&whole, options, compute, NULL, NULL, NULL};
    void *all = NULL, *some = NULL, *s = NULL;
    enum dqn_status status = DQN_OK;
    const size_t row = DQN_MARKET_FEATURES * sizeof(float);
    DQN_TRY_GOTO(dqn_alloc(&all, whole.n, row, "features"));
    DQN_TRY_GOTO(dqn_alloc(&some, whole.n, row, "features"));
    DQN_TRY_GOTO(dqn_alloc(&s, whole.n, sizeof(double), "volatilities"));
    work.all = all;
    work.some = some;
    work.s = s;
    DQN_TRY_GOTO(compute(&whole, options, work.all, work.s));
    DQN_TRY_GOTO(compare_parts(out, &work, parts, seed));
done:
    free(all);
    free(some);
    free(s);
    return status;
}

bool dqn_features_check_passes(const struct dqn_features_check *check, size_t *feature) {
    for (size_t f = 0; f < DQN_MARKET_FEATURES; f++) {
        if (check->prefix[f] != 0.0 || !(check->suffix[f] < DQN_FEATURES_CHECK_LATE)) {
            if (feature != NULL) {
                *feature = f;
            }
            return false;
        }
    }
    return true;
}
