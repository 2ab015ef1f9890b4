/* The nine micro markets: a policy that always trades in the known direction, once with each kind
 * of order. In each market the kind that it was made for must earn most. Also the market whose
 * drift has two states, against hand-made policies. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "market/trading_setup.h"

enum { BARS = 40000, BATCHES = 50, BATCH = 750 };

static const char *const cells[DQN_CELLS] = {"market_patient", "market_normal", "market_aggressive",
                                             "limit_patient",  "limit_normal",  "limit_aggressive",
                                             "ioc_patient",    "ioc_normal",    "ioc_aggressive"};

static void load(struct dqn_config *config, const char *text) {
    cr_assert_eq(dqn_config_parse(config, "test", ".", text, 0, NULL), DQN_OK, "%s",
                 dqn_error_text());
}

static uint32_t follow_sign(void *context, const float *observation, uint64_t step) {
    (void)step;
    return (observation[0] > 0.0f ? 36u : 0u) + *(const uint32_t *)context;
}

/* Net rewards of a pass, in batches of consecutive bars. */
struct batches {
    size_t n;
    double sum[BATCHES];
};

static void add_reward(void *context, const struct trading_step_record *record) {
    struct batches *b = context;
    if (b->n / BATCH < BATCHES) {
        b->sum[b->n / BATCH] += record->reward / BATCH;
    }
    b->n++;
}

static void run_policy(const struct trading_params *params, dqn_trading_policy policy,
                       void *context, struct batches *out) {
    const struct dqn_env_key key = {.seed = 1};
    *out = (struct batches){0};
    cr_assert_eq(dqn_trading_run(params, key, policy, context, add_reward, out, NULL), DQN_OK, "%s",
                 dqn_error_text());
    cr_assert_geq(out->n, (size_t)BATCHES * BATCH);
}

/* Mean of a - b and its standard error, from the batches' differences. */
static void difference(const struct batches *a, const struct batches *b, double *mean, double *se) {
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < BATCHES; i++) {
        const double d = a->sum[i] - (b != NULL ? b->sum[i] : 0.0);
        sum += d;
        squares += d * d;
    }
    *mean = sum / BATCHES;
    *se = sqrt((squares / BATCHES - *mean * *mean) / (BATCHES - 1));
}

/* The market over one lane, from the bar after the warm-up almost to the end. */
static struct dqn_market *create(struct dqn_config *config, struct trading_params *params) {
    struct dqn_market *market = NULL;
    cr_assert_eq(dqn_market_create(&market, config, NULL, NULL), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(
        dqn_trading_params(params, config, market, NULL, DQN_TRADING_EVAL, DQN_SPLIT_TEST, 1),
        DQN_OK, "%s", dqn_error_text());
    return market;
}

static const char fixed_size[] =
    "env: {name: trading, observation: oracle, sizing: fixed_notional, ruin_fraction: 0}\n"
    "reward: {kind: linear}\n"
    "data: {split: [0.02, 0.02, 0.96]}\n";

static void check_cell(uint32_t cell) {
    static struct dqn_config config;
    static struct batches earned[DQN_CELLS];
    char text[1024];
    snprintf(text, sizeof text,
             "%ssynthetic: {market: micro, cell: %s, bars: %d, sigma: 0.01}\n"
             "fill: {slip_bps: 0, slip_vol: %s}\n",
             fixed_size, cells[cell], BARS, cell == DQN_CELL_MARKET_NORMAL ? "1" : "0.1");
    load(&config, text);
    struct trading_params params;
    struct dqn_market *market = create(&config, &params);
    for (uint32_t c = 0; c < DQN_CELLS; c++) {
        run_policy(&params, follow_sign, &c, &earned[c]);
    }
    for (uint32_t c = 0; c < DQN_CELLS; c++) {
        double mean, se, lead = 0.0, lead_se = 0.0;
        difference(&earned[c], NULL, &mean, &se);
        if (c != cell) {
            difference(&earned[cell], &earned[c], &lead, &lead_se);
            cr_expect(lead > 3.0 * lead_se && lead > 0.0, "%s: %s earns %g less (se %g)",
                      cells[cell], cells[c], lead, lead_se);
        }
        fprintf(stderr, "%-18s %-18s %8.4f  behind %8.4f (se %.4f)\n", cells[cell], cells[c], mean,
                lead, lead_se);
    }
    dqn_market_destroy(market);
}

Test(micro_market, each_rewards_its_own_kind_of_order) {
    for (uint32_t cell = 0; cell < DQN_CELLS; cell++) {
        check_cell(cell);
    }
}

/* ---- a drift with two states ---- */

static void markov_bars(struct dqn_bars *bars, int market, int64_t n) {
    static struct dqn_config config;
    dqn_config_defaults(&config);
    config.synthetic.market = market;
    config.synthetic.bars = n;
    cr_assert_eq(dqn_bars_synthetic(bars, &config.synthetic), DQN_OK, "%s", dqn_error_text());
}

Test(markov_market, drifts_and_lengths_are_as_configured) {
    struct dqn_bars bars;
    markov_bars(&bars, DQN_MARKET_MARKOV_VISIBLE, 200000);
    double switches = 0.0, with = 0.0;
    for (size_t i = 1; i < bars.n; i++) {
        switches += bars.hidden[i] != bars.hidden[i - 1];
        with += bars.hidden[i - 1] * log(bars.close[i] / bars.close[i - 1]);
        cr_assert_eq(bars.open[i], bars.close[i - 1]);
    }
    const double n = (double)(bars.n - 1);
    /* binomial, probability 0.01; and the mean of normals of std 0.0015 */
    cr_expect(fabs(switches / n - 0.01) <= 4.0 * sqrt(0.01 * 0.99 / n), "%g", switches / n);
    cr_expect(fabs(with / n - 0.0005) <= 4.0 * 0.0015 / sqrt(n), "%g", with / n);
    dqn_bars_free(&bars);
}

/* Where the filter says b, the mean state is b. */
Test(markov_market, the_filters_belief_is_right_on_average) {
    enum { BINS = 10 };
    struct dqn_bars visible, hidden;
    double belief[BINS] = {0}, state[BINS] = {0}, count[BINS] = {0};
    markov_bars(&visible, DQN_MARKET_MARKOV_VISIBLE, 400000);
    markov_bars(&hidden, DQN_MARKET_MARKOV_HIDDEN, 400000);
    for (size_t i = 0; i < visible.n; i++) {
        const size_t bin = (size_t)(0.5 * (hidden.hidden[i] + 1.0) * BINS);
        cr_assert_eq(visible.close[i], hidden.close[i]);
        cr_assert_lt(bin, BINS);
        belief[bin] += hidden.hidden[i];
        state[bin] += visible.hidden[i];
        count[bin] += 1.0;
    }
    for (size_t b = 0; b < BINS; b++) {
        cr_assert_gt(count[b], 5000.0);
        /* states keep for 100 bars, so that about count / 100 are independent, but the filter
         * forgets in about 10; seen: 0.022 at most */
        cr_expect(fabs(state[b] - belief[b]) / count[b] <= 0.05, "belief %g, state %g",
                  belief[b] / count[b], state[b] / count[b]);
    }
    dqn_bars_free(&visible);
    dqn_bars_free(&hidden);
}

static uint32_t always_long(void *context, const float *observation, uint64_t step) {
    (void)context;
    (void)observation;
    (void)step;
    return 36;
}

/* Turns when the belief is beyond the threshold, else keeps the position. */
static uint32_t with_threshold(void *context, const float *observation, uint64_t step) {
    const float threshold = *(const float *)context;
    (void)step;
    const float wanted = fabsf(observation[0]) > threshold ? observation[0] : observation[1];
    return wanted > 0.0f ? 36 : wanted < 0.0f ? 0 : 18;
}

/* Net of costs: knowing the state > guessing it from the past > holding. */
Test(markov_market, seeing_the_state_is_worth_more_than_guessing_it) {
    static struct dqn_config config;
    static struct batches sees, guesses, holds;
    char text[1024];
    for (int hidden = 0; hidden < 2; hidden++) {
        /* equity grows by a factor of 10^8: from so little, volume does not limit orders */
        snprintf(text, sizeof text,
                 "env: {name: trading, observation: oracle, initial_equity: 0.01}\n"
                 "data: {split: [0.02, 0.02, 0.96]}\n"
                 "synthetic: {market: markov_%s, bars: %d}\n",
                 hidden ? "hidden" : "visible", BARS);
        load(&config, text);
        struct trading_params params;
        struct dqn_market *market = create(&config, &params);
        float threshold = hidden ? 0.6f : 0.0f;
        run_policy(&params, with_threshold, &threshold, hidden ? &guesses : &sees);
        run_policy(&params, always_long, NULL, &holds);
        dqn_market_destroy(market);
    }
    double mean, se, lead, lead_se;
    difference(&sees, NULL, &mean, &se);
    /* drift 0.05 % a bar, less a turn of two units in a hundred bars at about 7.7 bp each (hs 1, a
     * quarter of slip 1.75, fee 5), less half a bar's drift each way, since a patient order gets
     * the average price; financing 2 % a year on the short half is below 0.0001 */
    const double expected = 0.05 - 0.01 * 2.0 * (0.0644 + 0.5 * 0.05 * 0.5);
    cr_expect(fabs(mean - expected) <= 4.0 * se, "%g, expected %g (se %g)", mean, expected, se);
    difference(&sees, &guesses, &lead, &lead_se);
    cr_expect(lead > 3.0 * lead_se, "sees - guesses: %g (se %g)", lead, lead_se);
    difference(&guesses, &holds, &lead, &lead_se);
    cr_expect(lead > 3.0 * lead_se, "guesses - holds: %g (se %g)", lead, lead_se);
    fprintf(stderr, "sees %.4f (se %.4f), expected %.4f\n", mean, se, expected);
    difference(&guesses, NULL, &mean, &se);
    fprintf(stderr, "guesses %.4f (se %.4f)\n", mean, se);
}
