/* The look-ahead check passes the product's features and catches one that leaks. */
#include <criterion/criterion.h>

#include "bars_fixture.h"
#include "market/features_check.h"

static void market(struct dqn_bars *bars) {
    static struct dqn_config config;
    dqn_config_defaults(&config);
    config.synthetic.market = DQN_MARKET_REALISTIC;
    config.synthetic.bars = 3000;
    config.synthetic.substeps = 4;
    cr_assert_eq(dqn_bars_synthetic(bars, &config.synthetic), DQN_OK);
}

/* Feature 8 of bar t shows the close of bar t + 1. */
static enum dqn_status leaking(const struct dqn_bars *bars,
                               const struct dqn_feature_options *options, float *raw, double *s) {
    DQN_TRY(dqn_features_compute(bars, options, raw, s));
    for (size_t i = 0; i + 1 < bars->n; i++) {
        raw[i * DQN_MARKET_FEATURES + 8] = (float)(bars->close[i + 1] / bars->close[i] - 1.0);
    }
    return DQN_OK;
}

/* Feature 9 counts from the file's beginning. */
static enum dqn_status counting(const struct dqn_bars *bars,
                                const struct dqn_feature_options *options, float *raw, double *s) {
    DQN_TRY(dqn_features_compute(bars, options, raw, s));
    for (size_t i = 0; i < bars->n; i++) {
        raw[i * DQN_MARKET_FEATURES + 9] = (float)i * 1e-5f;
    }
    return DQN_OK;
}

Test(features_check, our_features_pass) {
    const struct dqn_feature_options options = {.taker = 5e-4, .cost_scale = 1.0};
    struct dqn_features_check check;
    struct dqn_bars bars;
    size_t feature = 0;
    market(&bars);
    cr_assert_eq(dqn_features_check(&check, &bars, &options, dqn_features_compute, 10, 1), DQN_OK);
    cr_assert(dqn_features_check_passes(&check, &feature), "feature %s: %g, %g",
              dqn_feature_name(feature), check.prefix[feature], check.suffix[feature]);
    cr_assert_eq(check.n_prefixes, 10u);
    dqn_bars_free(&bars);
}

Test(features_check, leaks_are_caught) {
    const struct dqn_feature_options options = {.taker = 5e-4, .cost_scale = 1.0};
    struct dqn_features_check check;
    struct dqn_bars bars;
    size_t feature = 0;
    market(&bars);
    cr_assert_eq(dqn_features_check(&check, &bars, &options, leaking, 10, 1), DQN_OK);
    cr_assert_not(dqn_features_check_passes(&check, &feature));
    cr_assert_eq(feature, 8u);
    cr_assert_gt(check.prefix[8], 0.0);
    cr_assert_eq(dqn_features_check(&check, &bars, &options, counting, 10, 1), DQN_OK);
    cr_assert_not(dqn_features_check_passes(&check, &feature));
    cr_assert_eq(feature, 9u);
    cr_assert_eq(check.prefix[9], 0.0);
    bars.n = 1000;
    bars.segment[1] = 1000;
    cr_assert_eq(dqn_features_check(&check, &bars, &options, leaking, 10, 1), DQN_ERR_DATA);
    dqn_bars_free(&bars);
}
