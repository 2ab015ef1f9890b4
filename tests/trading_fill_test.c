/* The trading environment on a few bars made by hand: fills, sizes, timing, accounts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "trading_assert.h"

/* ---- a small market by hand ------------------------------------------------------------------ */

enum { SMALL = 8, HOUR = 3600 };

/* SMALL flat bars at 100 with s = 1 %, one range over all of them, flat start at bar 0. */
struct small {
    double open[SMALL], high[SMALL], low[SMALL], close[SMALL], volume[SMALL], s[SMALL];
    int64_t time_ns[SMALL];
    float features[SMALL * TRADING_MARKET_FEATURES];
    struct trading_range range;
    struct trading_params p;
    struct trading_state state;
    struct trading_step_record record;
    struct dqn_env_key key;
    float observation[TRADING_FEATURES];
};

static void small_bar(struct small *m, size_t i, double o, double h, double l, double c) {
    m->open[i] = o;
    m->high[i] = h;
    m->low[i] = l;
    m->close[i] = c;
}

static void small_reset(struct small *m) {
    m->key.step = 0;
    trading_reset(&m->state, &m->p, &m->key, m->observation);
}

static void small_make(struct small *m) {
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < SMALL; i++) {
        small_bar(m, i, 100, 100, 100, 100);
        m->s[i] = 0.01;
        m->time_ns[i] = (int64_t)i * HOUR * 1000000000;
    }
    m->range.last = SMALL - 1;
    trading_defaults(&m->p);
    m->p.features = m->features;
    m->p.open = m->open;
    m->p.high = m->high;
    m->p.low = m->low;
    m->p.close = m->close;
    m->p.s = m->s;
    m->p.time_ns = m->time_ns;
    m->p.ranges = &m->range;
    m->p.n_ranges = 1;
    m->p.transitions = SMALL - 1;
    m->p.evaluate = 1;
    small_reset(m);
}

static struct dqn_env_outcome small_step(struct small *m, uint32_t action) {
    m->key.step += 1;
    return trading_step_recorded(&m->state, &m->p, &m->key, action, m->observation, &m->record);
}

/* ---- fills ----------------------------------------------------------------------------------- */

/* P = 100, s = 1 %: half-spread 1 bp, slippage 1 + 5 = 6 bp. Prices worked out by hand. */
struct fill_case {
    int level, order, urgency;
    double price; /* 0 = unfilled */
    double limit; /* 0 = market order */
};

static void check_fills(const double bar[4], const struct fill_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct fill_case *c = &cases[i];
        struct small m;
        small_make(&m);
        small_bar(&m, 1, bar[0], bar[1], bar[2], bar[3]);
        small_step(&m, make_action(c->level, c->order, c->urgency));
        cr_assert(m.record.sent, "case %zu", i);
        cr_assert(fabs(m.record.fill_price - c->price) < 1e-9,
                  "case %zu: price %.10f, by hand %.10f", i, m.record.fill_price, c->price);
        ASSERT_NEAR(m.record.limit, c->limit, 1e-9);
        ASSERT_NEAR(m.state.last_fill, c->price == 0.0 ? -1.0 : 1.0, 0.0);
        cr_assert(c->price == 0.0 || (m.record.filled > 0.0) == (c->level > 2));
        cr_assert_eq(m.record.filled == 0.0, c->price == 0.0);
    }
}

Test(fills, of_each_order_by_hand) {
    const double bar[4] = {100.2, 101.5, 98.7, 100.6}; /* average 100.25 */
    const struct fill_case cases[] = {
        {4, TRADING_MARKET, 0, 100.2750625, 0}, /* 100.25 (1 + 1 bp + 1.5 bp) */
        {4, TRADING_MARKET, 1, 100.2711035, 0}, /* 100.225 (1 + 1 bp + 3.6 bp) */
        {4, TRADING_MARKET, 2, 100.27014, 0},   /* 100.2 (1 + 1 bp + 6 bp) */
        {0, TRADING_MARKET, 0, 100.2249375, 0},
        {0, TRADING_MARKET, 1, 100.1788965, 0},
        {0, TRADING_MARKET, 2, 100.12986, 0},
        {4, TRADING_LIMIT, 0, 99.24, 99.24}, /* 100 (1 - 1 bp - 75 bp) */
        {4, TRADING_LIMIT, 1, 99.74, 99.74},
        {4, TRADING_LIMIT, 2, 99.99, 99.99},
        {0, TRADING_LIMIT, 0, 100.76, 100.76},
        {0, TRADING_LIMIT, 1, 100.26, 100.26},
        {0, TRADING_LIMIT, 2, 100.01, 100.01},
        {4, TRADING_IOC, 0, 0, 100.11}, /* 100.24008 is above the cap */
        {4, TRADING_IOC, 1, 100.24008, 100.36},
        {4, TRADING_IOC, 2, 100.24008, 101.01},
        {0, TRADING_IOC, 0, 100.15992, 99.89},
        {0, TRADING_IOC, 1, 100.15992, 99.64},
        {0, TRADING_IOC, 2, 100.15992, 98.99},
        {3, TRADING_MARKET, 2, 100.27014, 0}, /* half exposure, same prices */
        {1, TRADING_LIMIT, 1, 100.26, 100.26},
    };
    check_fills(bar, cases, DQN_COUNT_OF(cases));
}

Test(fills, through_a_gap_are_at_the_limit_and_not_better) {
    const double down[4] = {98.0, 98.5, 97.5, 98.2}, up[4] = {102.0, 102.5, 101.5, 101.8};
    const struct fill_case down_cases[] = {
        {4, TRADING_LIMIT, 0, 99.24, 99.24}, {4, TRADING_LIMIT, 2, 99.99, 99.99},
        {0, TRADING_LIMIT, 2, 0, 100.01},    {4, TRADING_IOC, 0, 98.0392, 100.11},
        {0, TRADING_IOC, 1, 0, 99.64},       {0, TRADING_IOC, 2, 0, 98.99},
        {0, TRADING_MARKET, 2, 97.9314, 0},
    };
    const struct fill_case up_cases[] = {
        {0, TRADING_LIMIT, 0, 100.76, 100.76}, {0, TRADING_LIMIT, 2, 100.01, 100.01},
        {4, TRADING_LIMIT, 2, 0, 99.99},       {4, TRADING_IOC, 2, 0, 101.01},
        {0, TRADING_IOC, 2, 101.9592, 98.99},
    };
    check_fills(down, down_cases, DQN_COUNT_OF(down_cases));
    check_fills(up, up_cases, DQN_COUNT_OF(up_cases));
    struct small m;
    small_make(&m);
    small_bar(&m, 1, 98.0, 98.5, 97.5, 98.2);
    m.p.post_only_gap = 1;
    small_step(&m, make_action(4, TRADING_LIMIT, 2));
    cr_assert_eq(m.record.filled, 0.0);
}

/* Limit 99.24, margin 0.03 % of 100 = 0.03. */
Test(fills, of_limits_need_the_queue_margin_or_a_touch) {
    const struct {
        double low, touch_fill;
        bool filled;
    } cases[] = {
        {99.25, 1.0, false}, {99.24, 0.0, false}, {99.24, 1.0, true},
        {99.22, 0.0, false}, {99.22, 1.0, true},  {99.20, 0.0, true},
    };
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        struct small m;
        small_make(&m);
        small_bar(&m, 1, 100, 100, cases[i].low, 100);
        m.p.touch_fill = cases[i].touch_fill;
        small_step(&m, make_action(4, TRADING_LIMIT, 0));
        cr_assert_eq(m.record.filled != 0.0, cases[i].filled, "case %zu", i);
    }
    int filled = 0;
    for (uint64_t episode = 0; episode < 4000; episode++) { /* touched: 25 % of 4000, se 27 */
        struct small m;
        small_make(&m);
        small_bar(&m, 1, 100, 100, 99.22, 100);
        m.p.touch_fill = 0.25;
        m.key.episode = episode;
        small_step(&m, make_action(4, TRADING_LIMIT, 0));
        filled += m.record.filled != 0.0;
    }
    cr_assert(abs(filled - 1000) < 110, "%d of 4000", filled);
}

Test(fills, are_limited_by_volume) {
    const struct {
        int order, urgency;
        double filled;
    } cases[] = {
        {TRADING_MARKET, 2, 100.0},                      /* 10 % of 1000 */
        {TRADING_IOC, 2, 10.0},                          /* 1 % */
        {TRADING_LIMIT, 0, 50.0 * (99.24 - 98.7) / 2.8}, /* 5 %, the part beyond the limit */
    };
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        for (int step = 0; step < 2; step++) {
            struct small m;
            small_make(&m);
            small_bar(&m, 1, 100.2, 101.5, 98.7, 100.6);
            m.volume[1] = 1000.0;
            m.p.volume = m.volume;
            m.p.quantity_step = step ? 3.0 : 0.0;
            small_step(&m, make_action(4, cases[i].order, cases[i].urgency));
            const double want = step ? floor(cases[i].filled / 3.0) * 3.0 : cases[i].filled;
            ASSERT_NEAR(m.record.filled, want, 1e-9);
            ASSERT_NEAR(m.state.last_fill, want / m.record.ordered, 1e-12);
            cr_assert(m.record.partly);
            small_step(&m, make_action(4, cases[i].order, cases[i].urgency)); /* no volume at all */
            cr_assert_eq(m.record.filled, 0.0);
            cr_assert_eq(m.state.last_fill, -1.0);
        }
    }
}

Test(fills, respect_ticks_steps_and_the_smallest_order) {
    struct small m;
    small_make(&m);
    small_bar(&m, 1, 100, 101.5, 98.7, 100);
    m.p.tick_size = 0.1;
    small_step(&m, make_action(4, TRADING_LIMIT, 0));
    ASSERT_NEAR(m.record.fill_price, 99.2, 1e-9); /* 99.24 down */
    small_make(&m);
    small_bar(&m, 1, 100, 101.5, 98.7, 100);
    m.p.tick_size = 0.1;
    small_step(&m, make_action(0, TRADING_LIMIT, 0));
    ASSERT_NEAR(m.record.fill_price, 100.8, 1e-9); /* 100.76 up */
    small_make(&m);
    m.p.min_notional = 60000.0;
    small_step(&m, make_action(3, TRADING_MARKET, 2));
    cr_assert(!m.record.sent);
    cr_assert_eq(m.state.last_fill, 0.0);
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    cr_assert(m.record.sent);
}

/* After the cost the exposure is the target exactly, at the decision's price. */
Test(fills, size_orders_after_costs) {
    for (int from = 0; from < 5; from++) {
        for (int to = 0; to < 5; to++) {
            struct small m;
            small_make(&m);
            small_step(&m, make_action(from, TRADING_MARKET, 2));
            small_step(&m, make_action(to, TRADING_MARKET, 2));
            /* fee on the fill price, not on P: second order in costs, 5 bp * 7 bp, and
               an hour's financing; seen 4.2e-6 */
            ASSERT_NEAR(m.record.exposure_after, 0.5 * (to - 2), 6e-6);
        }
    }
}

Test(fills, impact_grows_with_the_root_of_size) {
    struct small m;
    small_make(&m);
    m.p.impact = 0.5;
    m.p.median_volume = 2000.0;
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    const double size = m.record.filled;
    ASSERT_NEAR(m.record.impact, size * 100.0 * 0.5 * 0.01 * sqrt(size / 2000.0), 1e-6);
    ASSERT_NEAR(m.record.fill_price, 100.0 * (1.0007 + 0.005 * sqrt(size / 2000.0)), 1e-9);
}

/* The spread known at the decision, scaled with the other costs. */
Test(fills, use_the_datas_own_spread) {
    const double spreads[SMALL] = {0.001, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    struct small m;
    small_make(&m);
    m.p.half_spread_table = spreads;
    m.p.cost_scale = 2.0;
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    ASSERT_NEAR(m.record.fill_price, 100.0 * (1.0 + 0.002 + 0.0006), 1e-9);
    ASSERT_NEAR(m.record.spread, m.record.filled * 100.0 * 0.002, 1e-9);
}

/* ---- portfolio features ---------------------------------------------------------------------- */

/* Short at 100 without costs, price 98 then 99: everything worked out from the definitions. */
Test(portfolio, features_follow_their_definitions) {
    struct small m;
    small_make(&m);
    no_costs(&m.p);
    small_bar(&m, 1, 100, 100, 98, 98);
    small_bar(&m, 2, 98, 99, 98, 99);
    small_bar(&m, 3, 99, 99, 99, 99);
    const float *f = m.observation + TRADING_MARKET_FEATURES;
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(f[i], 0.0f);
    }
    small_step(&m, make_action(1, TRADING_MARKET, 2)); /* 500 units short */
    ASSERT_NEAR((double)f[4], 0.25, 1e-7);
    ASSERT_NEAR((double)f[5], 1.0, 0.0);
    ASSERT_NEAR((double)f[7], 0.0, 0.0);
    small_step(&m, make_action(1, TRADING_MARKET, 2)); /* -0.485 by now: within the band */
    const double first = log(101000.0 / 100000.0), second = log(100500.0 / 101000.0);
    const double recent = first * 2.0 / 21.0 * (1.0 - 2.0 / 21.0) + second * 2.0 / 21.0;
    ASSERT_NEAR((double)f[0], -500.0 * 99.0 / 100500.0, 1e-7);
    ASSERT_NEAR((double)f[1], -log(0.99) / (0.01 * sqrt(2.0)), 1e-6);
    ASSERT_NEAR((double)f[2], tanh(2.0 / 64.0), 1e-8);
    ASSERT_NEAR((double)f[3], second / log(0.5), 1e-8);
    ASSERT_NEAR((double)f[4], 0.0, 0.0);
    ASSERT_NEAR((double)f[5], 0.0, 0.0);
    ASSERT_NEAR((double)f[6], recent / 0.01, 1e-7);
    ASSERT_NEAR((double)f[7], tanh(1.0 / 32.0), 1e-8);
    small_step(&m, make_action(4, TRADING_MARKET, 2)); /* turned round: the count starts again */
    ASSERT_NEAR((double)f[1], 0.0, 1e-7);
    ASSERT_NEAR((double)f[2], tanh(1.0 / 64.0), 1e-8);
    ASSERT_NEAR((double)f[4], 0.5 * (1.0 + 500.0 * 99.0 / 100500.0), 1e-7);
    /* enlarged positions average their entry: half at 99, half at 98 */
    small_step(&m, make_action(2, TRADING_MARKET, 2));
    small_step(&m, make_action(3, TRADING_MARKET, 2));
    const double half = m.state.units, entry = m.state.entry;
    small_bar(&m, 6, 98, 98, 98, 98);
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    const double added = m.state.units - half;
    ASSERT_NEAR(m.state.entry, (half * entry + added * 98.0) / (half + added), 1e-10);
}

/* ---- hold, timing, look-ahead ---------------------------------------------------------------- */

Test(actions, inside_the_band_are_all_the_same_hold) {
    for (int level = 0; level < 5; level++) {
        struct small start;
        small_make(&start);
        small_step(&start, make_action(level, TRADING_MARKET, 2));
        small_bar(&start, 2, 100.5, 103.0, 97.0, 101.0);
        struct trading_state first;
        for (int variant = 0; variant < 9; variant++) {
            struct trading_state state = start.state;
            float observation[TRADING_FEATURES];
            struct dqn_env_key key = start.key;
            key.step += 1;
            trading_step(&state, &start.p, &key, (uint32_t)(9 * level + variant), observation);
            if (variant == 0) {
                first = state;
            }
            cr_assert_eq(memcmp(&state, &first, sizeof state), 0, "level %d, variant %d", level,
                         variant);
        }
    }
}

Test(actions, long_only_turns_shorts_into_flat) {
    struct small m;
    small_make(&m);
    m.p.long_only = 1;
    small_step(&m, make_action(0, TRADING_MARKET, 2));
    cr_assert(!m.record.sent && m.state.units == 0.0);
    m.p.max_leverage = 2.0;
    small_step(&m, make_action(3, TRADING_MARKET, 2));
    ASSERT_NEAR(m.record.exposure_after, 1.0, 1e-5);
}

Test(timing, latency_starts_orders_a_bar_later) {
    struct small m;
    small_make(&m);
    m.p.latency = 1;
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    cr_assert(!m.record.sent && m.record.executed == TRADING_NO_ACTION);
    small_bar(&m, 2, 104, 104, 104, 104);
    small_step(&m, make_action(2, TRADING_MARKET, 2));
    ASSERT_NEAR(m.record.fill_price, 104 * 1.0007, 1e-9);
    cr_assert(m.state.units > 0.0);
    small_step(&m, make_action(2, TRADING_MARKET, 2));
    cr_assert_eq(m.state.units, 0.0);
}

Test(timing, close_fills_at_the_decisions_close) {
    struct small m;
    small_make(&m);
    m.p.at_close = 1;
    small_bar(&m, 1, 104, 105, 103, 104);
    small_step(&m, make_action(4, TRADING_MARKET, 0));
    ASSERT_NEAR(m.record.fill_price, 100 * 1.00025, 1e-9);
    cr_assert(m.record.price_pnl > 3900.0);
}

/* Prices after the fill price change nothing before: the observation, the order and its fill. */
Test(timing, nothing_depends_on_later_prices) {
    for (uint32_t action = 0; action < TRADING_ACTIONS; action++) {
        struct small a, b;
        small_make(&a);
        small_bar(&a, 1, 100.2, 101.5, 98.7, 100.6);
        b = a;
        b.p = a.p;
        b.p.features = b.features;
        b.p.open = b.open;
        b.p.high = b.high;
        b.p.low = b.low;
        b.p.close = b.close;
        b.p.s = b.s;
        b.p.time_ns = b.time_ns;
        b.p.ranges = &b.range;
        for (size_t i = 2; i < SMALL; i++) {
            small_bar(&b, i, 50, 60, 40, 45);
            b.s[i] = 0.5;
        }
        const struct dqn_env_outcome x = small_step(&a, action), y = small_step(&b, action);
        cr_assert_eq(memcmp(&a.state, &b.state, sizeof a.state), 0, "action %u", action);
        cr_assert_eq(memcmp(&a.record, &b.record, sizeof a.record), 0);
        cr_assert_eq(memcmp(a.observation, b.observation, sizeof a.observation), 0);
        cr_assert_eq(x.reward, y.reward);
        /* orders priced at the open do not see the rest of the bar either */
        const bool at_open = trading_order_kind(action) == TRADING_IOC ||
                             (trading_order_kind(action) == TRADING_MARKET && action % 3 == 2);
        if (at_open) {
            struct small c;
            small_make(&c);
            small_bar(&c, 1, 100.2, 140, 60, 70);
            small_step(&c, action);
            cr_assert_eq(c.record.fill_price, a.record.fill_price);
            cr_assert_eq(c.record.filled, a.record.filled);
        }
    }
}

/* ---- accounts -------------------------------------------------------------------------------- */

Test(account, ruin_gives_the_true_log_return_and_terminates) {
    struct small m;
    small_make(&m);
    no_costs(&m.p);
    m.p.evaluate = 0;
    m.p.episode_bars = SMALL;
    m.range.first = 1;
    m.p.transitions = SMALL - 2;
    do { /* a flat start */
        m.key.episode += 1;
        small_reset(&m);
    } while (m.state.units != 0.0);
    small_bar(&m, 2, 100, 100, 40, 40);
    const struct dqn_env_outcome outcome = small_step(&m, make_action(4, TRADING_MARKET, 2));
    ASSERT_NEAR(m.record.reward, 100.0 * log(0.4), 1e-10);
    cr_assert(outcome.terminated && !outcome.truncated);
}

Test(account, margin_call_closes_at_the_trigger_or_a_worse_open) {
    struct small m;
    for (int gap = 0; gap < 2; gap++) {
        small_make(&m);
        no_costs(&m.p);
        m.p.max_leverage = 3.0;
        small_step(&m, make_action(4, TRADING_MARKET, 2)); /* 3000 units, 200,000 borrowed */
        ASSERT_NEAR(m.state.units, 3000.0, 1e-9);
        small_bar(&m, 2, gap ? 50 : 100, 100, 45, 90);
        const struct dqn_env_outcome outcome = small_step(&m, make_action(4, TRADING_MARKET, 2));
        cr_assert(m.record.margin_call);
        cr_assert_eq(m.state.units, 0.0);
        /* trigger 200000 / (3000 * 0.95) = 70.1754 */
        ASSERT_NEAR(m.state.equity, gap ? 0.0 : 200000.0 / 0.95 - 200000.0, 1e-6);
        ASSERT_NEAR(m.record.forgiven, gap ? 50000.0 : 0.0, 1e-6);
        ASSERT_NEAR(m.record.reward, 100.0 * log(gap ? 0.01 : 1.0 / 9.5), 1e-9);
        cr_assert_eq(outcome.terminated, gap); /* evaluation goes on while there is equity */
        m.p.evaluate = 0;
    }
    small_make(&m); /* short: triggered by the high, at 200000 / (1000 * 1.05) = 190.476 */
    no_costs(&m.p);
    small_step(&m, make_action(0, TRADING_MARKET, 2));
    small_bar(&m, 2, 100, 195, 100, 100);
    small_step(&m, make_action(0, TRADING_MARKET, 2));
    cr_assert(m.record.margin_call);
    ASSERT_NEAR(m.state.equity, 200000.0 - 200000.0 / 1.05, 1e-6);
}

Test(account, margin_call_terminates_training) {
    struct small m;
    small_make(&m);
    no_costs(&m.p);
    m.p.max_leverage = 3.0;
    m.p.ruin_fraction = 0.0;
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    m.p.evaluate = 0;
    small_bar(&m, 2, 100, 100, 65, 90);
    const struct dqn_env_outcome outcome = small_step(&m, make_action(4, TRADING_MARKET, 2));
    cr_assert(outcome.terminated && !outcome.truncated && m.state.equity > 0.0);
}

/* Friday's close to Monday's close of hourly bars: 66 hours of financing. */
Test(account, financing_counts_the_weekend) {
    const double year_s = 365.2425 * 86400.0;
    struct small m;
    small_make(&m);
    for (size_t i = 2; i < SMALL; i++) {
        m.time_ns[i] += 65ll * HOUR * 1000000000;
    }
    small_step(&m, make_action(0, TRADING_MARKET, 2));
    const double units = m.state.units;
    small_step(&m, make_action(0, TRADING_MARKET, 2));
    cr_assert(!m.record.sent);
    ASSERT_NEAR(m.record.financing, 0.02 / year_s * 66 * HOUR * -units * 100.0, 1e-9);
    /* opened after the gap: pays for the bar only */
    small_make(&m);
    for (size_t i = 1; i < SMALL; i++) {
        m.time_ns[i] += 65ll * HOUR * 1000000000;
    }
    m.p.max_leverage = 2.0;
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    const double borrowed = -(m.state.cash + m.record.financing);
    cr_assert(borrowed > 99000.0);
    ASSERT_NEAR(m.record.financing, 0.05 / year_s * HOUR * borrowed, 1e-9);
    /* own cash earns, the proceeds of a short sale do not */
    small_make(&m);
    m.p.cash_rate = 0.03 / year_s;
    m.p.borrow_rate = 0.0;
    small_step(&m, make_action(2, TRADING_MARKET, 2));
    ASSERT_NEAR(m.record.financing, -0.03 / year_s * HOUR * 100000.0, 1e-9);
    small_step(&m, make_action(0, TRADING_MARKET, 2));
    const double equity = m.state.equity + m.record.financing;
    ASSERT_NEAR(m.record.financing, -0.03 / year_s * HOUR * equity, 1e-9);
}

Test(account, daily_loss_stop_keeps_flat_until_the_next_day) {
    struct small m;
    small_make(&m);
    m.p.daily_loss_stop = 0.02;
    for (size_t i = 4; i < SMALL; i++) {
        m.time_ns[i] += 24ll * HOUR * 1000000000;
    }
    for (size_t i = 1; i < SMALL; i++) {
        small_bar(&m, i, i == 1 ? 100 : 95, i == 1 ? 100 : 95, 95, 95);
    }
    small_step(&m, make_action(4, TRADING_MARKET, 2)); /* loses 5 % */
    cr_assert_eq(m.state.stopped, 1);
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    cr_assert(m.record.stopped && m.state.units == 0.0);
    small_step(&m, make_action(4, TRADING_MARKET, 2));
    cr_assert(m.state.units == 0.0);
    small_step(&m, make_action(4, TRADING_MARKET, 2)); /* next day */
    cr_assert(m.state.units > 0.0);
}
