/* A check that features look back only, and that they forget where a file began. */
#ifndef DQN_MARKET_FEATURES_CHECK_H
#define DQN_MARKET_FEATURES_CHECK_H

#include "features.h"

/* How features of parts of the data differ from those of the whole, feature by feature; values
 * above 1 in relation to their size, since float32 has 24 bits. */
struct dqn_features_check {
    size_t n_prefixes, n_suffixes;
    double prefix[DQN_MARKET_FEATURES]; /* largest difference when later bars are cut off: 0 */
    double suffix[DQN_MARKET_FEATURES]; /* when earlier bars are cut off, after the warm-up */
};

/* Largest suffix difference that passes. */
#define DQN_FEATURES_CHECK_LATE 1e-6

/* What computes features: dqn_features_compute, or a test's own. */
typedef enum dqn_status (*dqn_features_function)(const struct dqn_bars *bars,
                                                 const struct dqn_feature_options *options,
                                                 float *raw, double *s);

/* Recomputes features on `parts` random prefixes and suffixes (by `seed`) of the longest segment.
 * DQN_ERR_DATA when it is shorter than two warm-ups. */
enum dqn_status dqn_features_check(struct dqn_features_check *out, const struct dqn_bars *bars,
                                   const struct dqn_feature_options *options,
                                   dqn_features_function compute, size_t parts, uint64_t seed);
/* Whether the differences pass; `feature` (may be NULL) is the first that does not. */
bool dqn_features_check_passes(const struct dqn_features_check *check, size_t *feature);

#endif
