/* Parts of a market's bars: what of them can be traded, their usual volume, and features normalised
 * by statistics of their own. */
#ifndef DQN_MARKET_MARKET_PARTS_H
#define DQN_MARKET_MARKET_PARTS_H

#include "trading_setup.h"

/* Usable stretches of the bars [first, last): past the warm-up of their segment, decision and
 * result inside. */
struct dqn_part_ranges {
    struct trading_range *range; /* the caller's, room for one a segment */
    size_t n;
    uint64_t transitions; /* of all of them */
    size_t n_short;       /* segments whose warm-up leaves nothing */
    size_t longest;       /* transitions of the longest */
};

void dqn_part_ranges_find(const struct dqn_bars *bars, size_t first, size_t last,
                          struct dqn_part_ranges *out);

/* Median volume of the bars [first, last) that traded; 0 without volume. */
enum dqn_status dqn_part_median_volume(const struct dqn_bars *bars, size_t first, size_t last,
                                       double *out);

/* The bars [first, last) and the statistics that their features are normalised by. */
struct dqn_part_statistics {
    size_t first, last;
    double mean[DQN_MARKET_FEATURES], std[DQN_MARKET_FEATURES];
};

/* Computes the market's features again, and normalises each part's by its own statistics. Those of
 * bars outside of all parts stay raw. */
enum dqn_status dqn_market_normalise_parts(struct dqn_market *market,
                                           const struct dqn_config *config,
                                           const struct dqn_part_statistics *parts, size_t n);

#endif
