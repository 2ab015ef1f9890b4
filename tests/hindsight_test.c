/* The best path with hindsight against all paths there are, on a few bars. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "market/hindsight.h"
#include "report_assert.h"

/* A pass over `steps` bars from `first`. */
struct scene {
    struct dqn_config config;
    struct dqn_market *market;
    struct trading_range range;
    struct trading_params params;
};

static void open_scene(struct scene *s, const char *text) {
    memset(s, 0, sizeof *s);
    dqn_log_set_quiet(true);
    cr_assert_eq(dqn_config_parse(&s->config, "test", ".", text, 0, NULL), DQN_OK, "%s",
                 dqn_error_text());
    cr_assert_eq(dqn_market_create(&s->market, &s->config, NULL, NULL), DQN_OK, "%s",
                 dqn_error_text());
}

static void place(struct scene *s, size_t first, size_t steps) {
    cr_assert_eq(dqn_trading_params(&s->params, &s->config, s->market, NULL, DQN_TRADING_EVAL,
                                    DQN_SPLIT_TEST, 1),
                 DQN_OK, "%s", dqn_error_text());
    s->range = (struct trading_range){.first = first, .last = first + steps};
    s->params.ranges = &s->range;
    s->params.n_ranges = 1;
    s->params.transitions = steps;
}

/* The most equity that any sequence of these actions ends with, tried one by one. */
static double brute(const struct trading_params *p, const struct trading_state *state,
                    uint64_t step, size_t left, const uint8_t *actions, size_t n_actions) {
    if (left == 0) {
        return state->equity;
    }
    double best = -INFINITY;
    for (size_t i = 0; i < n_actions; i++) {
        struct trading_state next = *state;
        struct trading_step_record record;
        float observation[TRADING_FEATURES];
        const struct dqn_env_key key = {
            .seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), .step = step + 1};
        trading_step_recorded(&next, p, &key, actions[i], observation, &record);
        best = fmax(best, brute(p, &next, step + 1, left - 1, actions, n_actions));
    }
    return best;
}

static double all_paths(const struct scene *s, const uint8_t *actions, size_t n_actions) {
    const struct dqn_env_key key = {.seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0)};
    struct trading_state state;
    float observation[TRADING_FEATURES];
    trading_reset(&state, &s->params, &key, observation);
    return brute(&s->params, &state, 0, (size_t)s->params.transitions, actions, n_actions);
}

static uint32_t listed(void *context, const float *observation, uint64_t step) {
    (void)observation;
    return ((const uint8_t *)context)[step];
}

/* What an account earns that carries the path out. */
static double carried_out(const struct scene *s, uint8_t *actions) {
    const struct dqn_env_key key = {.seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0)};
    struct trading_state end;
    cr_assert_eq(dqn_trading_run(&s->params, key, listed, actions, NULL, NULL, &end), DQN_OK);
    return end.equity;
}

/* Five positions and whole fills: the very optimum, over 5^6 paths (all nine orders are the same).
 */
Test(hindsight, fixed_notional_is_the_optimum) {
    static const uint8_t levels[] = {1, 10, 19, 28, 37};
    struct scene s;
    open_scene(&s, "synthetic: {market: ou, bars: 4000, ou_std: 0.01}\n"
                   "env: {sizing: fixed_notional, ruin_fraction: 0}\n"
                   "fill: {fixed_cost: 0.002}\nreward: {kind: linear}\n");
    size_t traded = 0;
    for (size_t first = 3300; first < 3900; first += 100) {
        uint8_t actions[6];
        double found = NAN;
        place(&s, first, 6);
        cr_assert_eq(dqn_hindsight_run(&s.params, &found, actions), DQN_OK);
        const double best = all_paths(&s, levels, DQN_COUNT_OF(levels));
        EXPECT_NEAR(found, best);
        EXPECT_NEAR(carried_out(&s, actions), best);
        traded += best > s.params.initial_equity;
    }
    cr_expect_gt(traded, 3); /* else staying flat would pass */
    dqn_market_destroy(s.market);
}

/* All orders, limits that fill or not, exposures that drift: over 45^3 paths. Accounts of a class
 * differ by their drift alone; seen on these bars: no difference at all, over four bars 2e-12. */
Test(hindsight, whole_environment_is_close_below_the_optimum) {
    struct scene s;
    uint8_t all[TRADING_ACTIONS];
    double worst = 0.0;
    for (size_t a = 0; a < TRADING_ACTIONS; a++) {
        all[a] = (uint8_t)a;
    }
    open_scene(&s, "synthetic: {bars: 4000, sigma: 0.01}\n");
    for (size_t first = 3300; first < 3900; first += 60) {
        uint8_t actions[3];
        double found = NAN;
        place(&s, first, 3);
        cr_assert_eq(dqn_hindsight_run(&s.params, &found, actions), DQN_OK);
        const double best = all_paths(&s, all, TRADING_ACTIONS), start = s.params.initial_equity;
        cr_expect_eq(carried_out(&s, actions), found);
        cr_expect_leq(found, best);
        cr_assert_gt(best, start);
        worst = fmax(worst, (best - found) / (best - start));
    }
    cr_expect_leq(worst, 1e-9, "%.3g", worst);
    dqn_market_destroy(s.market);
}

/* Over six bars no path of market and limit orders to the five levels (10^6 of them) is better. */
Test(hindsight, no_path_of_two_orders_is_better) {
    static const uint8_t some[] = {1, 4, 10, 13, 19, 22, 28, 31, 37, 40};
    struct scene s;
    open_scene(&s, "synthetic: {bars: 4000, sigma: 0.01}\n");
    for (size_t first = 3300; first < 3900; first += 200) {
        uint8_t actions[6];
        double found = NAN;
        place(&s, first, 6);
        cr_assert_eq(dqn_hindsight_run(&s.params, &found, actions), DQN_OK);
        cr_expect_geq(found, all_paths(&s, some, DQN_COUNT_OF(some)));
        cr_expect_eq(carried_out(&s, actions), found);
    }
    dqn_market_destroy(s.market);
}

/* With a bar of latency an action shows too late for the classes: no figure. */
Test(hindsight, none_with_latency) {
    struct scene s;
    double found = 1.0;
    open_scene(&s, "synthetic: {bars: 4000}\nfill: {latency_bars: 1}\n");
    place(&s, 3300, 6);
    cr_assert_eq(dqn_hindsight_run(&s.params, &found, NULL), DQN_OK);
    EXPECT_NAN(found);
    dqn_market_destroy(s.market);
}

/* Over a pass with a hole (two stretches) the path goes on, flat, where the next one begins. */
Test(hindsight, goes_through_holes) {
    struct scene s;
    uint8_t actions[40];
    double found = NAN;
    open_scene(&s, "synthetic: {bars: 4000, sigma: 0.01}\n");
    place(&s, 3300, 20);
    const struct trading_range two[] = {{3300, 3320, 0}, {3500, 3520, 20}};
    s.params.ranges = two;
    s.params.n_ranges = 2;
    s.params.transitions = 40;
    cr_assert_eq(dqn_hindsight_run(&s.params, &found, actions), DQN_OK);
    cr_expect_eq(carried_out(&s, actions), found);
    cr_expect_gt(found, s.params.initial_equity);
    dqn_market_destroy(s.market);
}
