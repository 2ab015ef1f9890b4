#include "market_parts.h"

#include <stdlib.h>

void dqn_part_ranges_find(const struct dqn_bars *bars, size_t first, size_t last,
                          struct dqn_part_ranges *out) {
    *out = (struct dqn_part_ranges){.range = out->range};
    for (size_t g = 0; g < bars->n_segments; g++) {
        size_t begin = bars->segment[g] + DQN_MARKET_WARMUP, end = bars->segment[g + 1];
        begin = begin < first ? first : begin;
        end = end > last ? last : end;
        if (end < begin + 2) {
            out->n_short += bars->segment[g] < last && end > first;
            continue;
        }
        const size_t length = end - 1 - begin;
        out->range[out->n++] =
            (struct trading_range){.first = begin, .last = end - 1, .before = out->transitions};
        out->transitions += length;
        out->longest = length > out->longest ? length : out->longest;
    }
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum dqn_status dqn_part_median_volume(const struct dqn_bars *bars, size_t first, size_t last,
                                       double *out) {
    *out = 0.0;
    if (bars->volume == NULL) {
        return DQN_OK;
    }
    void *copy = NULL;
    DQN_TRY(dqn_alloc(&copy, last - first, sizeof(double), "volumes"));
    double *volume = copy;
    size_t traded = 0;
    for (size_t i = first; i < last; i++) {
        if (bars->volume[i] > 0.0) {
            volume[traded++] = bars->volume[i];
        }
    }
    qsort(volume, traded, sizeof *volume, compare_doubles);
    *out = traded > 0 ? volume[traded / 2] : 0.0;
    free(copy);
    return DQN_OK;
}

enum dqn_status dqn_market_normalise_parts(struct dqn_market *market,
                                           const struct dqn_config *config,
                                           const struct dqn_part_statistics *parts, size_t n) {
    DQN_TRY(dqn_market_features(&market->bars, config, market->features, market->s));
    for (size_t i = 0; i < n; i++) {
        dqn_features_normalise(market->features + parts[i].first * DQN_MARKET_FEATURES,
                               parts[i].last - parts[i].first, parts[i].mean, parts[i].std);
    }
    return DQN_OK;
}
