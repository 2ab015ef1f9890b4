/* What the report's tests begin with: a configuration and its market, and the simplest policy. */
#ifndef DQN_TESTS_REPORT_SCENE_H
#define DQN_TESTS_REPORT_SCENE_H

#include <criterion/criterion.h>

#include "market/trading_report.h"

static inline void open_market(struct dqn_config *config, struct dqn_market **market,
                               const char *text) {
    dqn_log_set_quiet(true);
    cr_assert_eq(dqn_config_parse(config, "test", ".", text, 0, NULL), DQN_OK, "%s",
                 dqn_error_text());
    cr_assert_eq(dqn_market_create(market, config, NULL, NULL), DQN_OK, "%s", dqn_error_text());
}

/* The action that the context points at. */
static inline uint32_t always(void *context, const float *observation, uint64_t step) {
    (void)observation;
    (void)step;
    return *(const uint32_t *)context;
}

#endif
