/* The trading environment on whole markets: no free lunch, ledger, episodes, splits, gates. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "market/trading_setup.h"
#include "ref/walk_market.h"
#include "trading_assert.h"

enum { HOUR = 3600 };

/* ---- whole markets --------------------------------------------------------------------------- */

static struct dqn_config *base_config(void) {
    struct dqn_config *config = calloc(1, sizeof *config);
    cr_assert(config != NULL);
    dqn_config_defaults(config);
    return config;
}

static struct dqn_market *walk_market(const struct dqn_config *config,
                                      const struct walk_options *options, size_t cut) {
    struct dqn_bars bars;
    cr_assert_eq(walk_make(&bars, options), DQN_OK);
    if (cut > 0) {
        free(bars.segment);
        bars.segment = malloc(3 * sizeof(size_t));
        bars.segment[0] = 0;
        bars.segment[1] = cut;
        bars.segment[2] = bars.n;
        bars.n_segments = 2;
    }
    struct dqn_market *market;
    cr_assert_eq(dqn_market_from_bars(&market, config, &bars, NULL, NULL), DQN_OK, "%s",
                 dqn_error_text());
    return market;
}

/* Cost in bp of one attempt from flat to +-1 on a driftless market, and the share filled. The
 * market's own return, of mean zero, is taken out: it is most of the noise. */
struct attempt {
    double net, net_error;   /* bp an attempt, with standard error; as it is */
    double cost, cost_error; /* bp an attempt, return taken out */
    double fills;
};

static struct attempt attempt_action(const struct trading_params *p, uint32_t action) {
    struct dqn_env_key key = {1, dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), 0, 0};
    struct trading_state start, state;
    struct trading_step_record record;
    float observation[TRADING_FEATURES];
    trading_reset(&start, p, &key, observation);
    const double target = trading_target(p, action);
    double sum = 0.0, squares = 0.0, cost = 0.0, cost_squares = 0.0, fills = 0.0, n = 0.0;
    for (uint64_t bar = start.bar; bar < start.last; bar++) {
        state = start;
        state.bar = bar;
        state.left = start.last - bar;
        key.step += 1;
        trading_step_recorded(&state, p, &key, action, observation, &record);
        const double net = 1e4 * (record.equity_after / record.equity_before - 1.0);
        /* what is taken out: the way from the open for orders that are priced at or after it */
        const bool limit = trading_order_kind(action) == TRADING_LIMIT;
        const double from = limit ? record.decision_price : record.open;
        const double market = 1e4 * target * (record.close - from) / record.decision_price;
        const double rest = limit ? 0.5 * market - net : record.filled != 0.0 ? market - net : 0.0;
        sum += net;
        squares += net * net;
        cost += rest;
        cost_squares += rest * rest;
        fills += record.filled != 0.0;
        n += 1.0;
    }
    struct attempt a;
    a.net = sum / n;
    a.net_error = sqrt((squares / n - a.net * a.net) / n);
    a.cost = cost / n;
    a.cost_error = sqrt((cost_squares / n - a.cost * a.cost) / n);
    a.fills = fills / n;
    return a;
}

static void check_no_free_lunch(double gap, const double want[9], const double tolerance[9]) {
    struct dqn_config *config = base_config();
    config->data.split.v[0] = 0.01;
    config->data.split.v[1] = 0.01;
    config->data.split.v[2] = 0.98;
    const struct walk_options options = {100000, 8, 0.01, gap, 0.0, false, false, false, HOUR, 77};
    struct dqn_market *market = walk_market(config, &options, 0);
    struct trading_params p;
    config->fill.borrow_rate = 0.0;
    cr_assert_eq(dqn_trading_params(&p, config, market, NULL, DQN_TRADING_EVAL, DQN_SPLIT_TEST, 1),
                 DQN_OK);
    for (uint32_t action = 0; action < TRADING_ACTIONS; action++) {
        const struct attempt a = attempt_action(&p, action);
        const int level = (int)action / 9, variant = (int)action % 9;
        if (level == 2) {
            cr_assert_eq(a.net, 0.0);
            continue;
        }
        cr_assert(a.net < 3.0 * a.net_error, "action %u earns %g bp, se %g", action, a.net,
                  a.net_error);
        cr_assert(-a.cost < 3.0 * a.cost_error, "action %u earns %g bp, se %g", action, -a.cost,
                  a.cost_error);
        if (level == 0 || level == 4) {
            const double per_fill = a.cost / a.fills, error = a.cost_error / a.fills;
            cr_log_info("gap %.1f action %2u: %.2f bp a fill, se %.2f, fills %.3f", gap, action,
                        per_fill, error, a.fills);
            cr_assert(fabs(per_fill - want[variant]) < 4.0 * error + tolerance[variant],
                      "action %u costs %g bp a fill, se %g, expected %g", action, per_fill, error,
                      want[variant]);
        }
    }
    dqn_market_destroy(market);
    free(config);
}

/* Expected: taker 5 bp + half-spread 1 bp + share of 6 bp slippage; limits: fee 2 bp + margin 3 bp
 * (optional stopping). The tolerance covers s, measured on 64 bars, differing from 1 %. */
Test(market, no_action_earns_on_a_driftless_walk) {
    const double want[9] = {7.5, 9.6, 12.0, 5.0, 5.0, 5.0, 9.0, 9.0, 9.0};
    const double tolerance[9] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
    check_no_free_lunch(0.0, want, tolerance);
}

/* With opening gaps of 0.2 s limits pay for being filled through the gap: 5.0, 5.9, 11.7 bp. */
Test(market, no_action_earns_on_a_walk_with_gaps) {
    const double want[9] = {7.5, 9.6, 12.0, 5.0, 5.9, 11.7, 9.0, 9.0, 9.0};
    const double tolerance[9] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
    check_no_free_lunch(0.2, want, tolerance);
}

static void assert_ledger(const struct trading_step_record *r, double *worst) {
    const double change = r->equity_after - r->equity_before;
    const double costs = r->fees + r->spread + r->slippage + r->impact + r->financing;
    const double size = fmax(fabs(r->equity_before), fabs(r->units_before * r->decision_price));
    const double residual = fabs(change - (r->price_pnl - costs + r->forgiven)) / size;
    cr_assert(residual < 1e-9, "bar %llu: residual %g", (unsigned long long)r->bar, residual);
    *worst = fmax(*worst, residual);
}

/* 10^6 random steps with everything switched on. */
Test(market, ledger_and_rewards_add_up) {
    struct dqn_config *config = base_config();
    config->env.max_leverage = 10.0;
    config->env.ruin_fraction = 0.1;
    config->env.initial_equity = 2e3;
    config->env.quantity_step = 0.01;
    config->env.tick_size = 0.01;
    config->env.daily_loss_stop = 0.1;
    config->fill.impact = 0.1;
    config->fill.touch_fill = 0.3;
    config->fill.cash_rate = 0.03;
    const struct walk_options options = {20000, 2, 0.02, 0.3, 0.5, true, true, true, HOUR, 5};
    struct dqn_market *market = walk_market(config, &options, 7000);
    struct trading_params p;
    cr_assert_eq(
        dqn_trading_params(&p, config, market, NULL, DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 1),
        DQN_OK);
    struct dqn_env_key key = {9, dqn_rng_stream(DQN_RNG_ENV, 3), 0, 0};
    struct trading_state state;
    struct trading_step_record record;
    float observation[TRADING_FEATURES];
    double worst = 0.0, worst_sum = 0.0, sum = 0.0;
    uint64_t rng = 3;
    size_t ends[4] = {0}; /* ruin, margin, truncated, partly filled */
    trading_reset(&state, &p, &key, observation);
    for (size_t i = 0; i < 1000000; i++) {
        key.step += 1;
        const uint32_t action = (uint32_t)(walk_unit(&rng) * 45.0);
        const struct dqn_env_outcome outcome =
            trading_step_recorded(&state, &p, &key, action, observation, &record);
        assert_ledger(&record, &worst);
        sum += record.reward;
        for (int k = 0; k < TRADING_FEATURES; k++) {
            cr_assert(isfinite(observation[k]) && fabsf(observation[k]) <= 5.0f);
        }
        ends[3] += record.partly;
        if (outcome.terminated || outcome.truncated) {
            cr_assert(outcome.terminated + outcome.truncated == 1);
            const double floored = fmax(state.equity, 0.01 * state.start_equity);
            const double want = 100.0 * log(floored / state.start_equity);
            cr_assert(fabs(sum - want) < 1e-8, "%.12g, %.12g", sum, want); /* seen 9e-13 */
            worst_sum = fmax(worst_sum, fabs(sum - want));
            ends[0] += outcome.terminated && !record.margin_call;
            ends[1] += record.margin_call;
            ends[2] += outcome.truncated;
            sum = 0.0;
            key.episode += 1;
            key.step = 0;
            trading_reset(&state, &p, &key, observation);
        }
    }
    cr_log_info("residual %.2g, reward sum %.2g; ruin %zu margin %zu truncated %zu partly %zu",
                worst, worst_sum, ends[0], ends[1], ends[2], ends[3]);
    cr_assert(ends[0] > 0 && ends[1] > 0 && ends[2] > 0 && ends[3] > 0);
    dqn_market_destroy(market);
    free(config);
}

static const struct walk_options plain_walk = {6000, 2, 0.01, 0.0, 0.0, true, true, false, HOUR, 8};

Test(market, training_episodes_depend_on_seed_lane_and_episode_alone) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 2501);
    struct trading_params p;
    cr_assert_eq(
        dqn_trading_params(&p, config, market, NULL, DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 1),
        DQN_OK);
    struct trading_state a, b;
    float x[TRADING_FEATURES];
    size_t differ = 0, entered = 0;
    uint64_t first = UINT64_MAX, last = 0;
    memset(&a, 0, sizeof a);
    for (uint64_t episode = 0; episode < 2000; episode++) {
        struct dqn_env_key key = {1, dqn_rng_stream(DQN_RNG_ENV, 5), episode, 0};
        trading_reset(&a, &p, &key, x);
        memset(&b, 0xff, sizeof b); /* whatever was there before */
        trading_reset(&b, &p, &key, x);
        cr_assert_eq(memcmp(&a, &b, sizeof a), 0);
        key.stream = dqn_rng_stream(DQN_RNG_ENV, 6);
        trading_reset(&b, &p, &key, x);
        differ += a.bar != b.bar;
        entered += a.units != 0.0;
        first = a.bar < first ? a.bar : first;
        last = a.bar + a.left > last ? a.bar + a.left : last;
        cr_assert(a.bar + a.left <= a.last && a.last < market->split_last[DQN_SPLIT_TRAIN]);
        cr_assert(a.left <= 1024);
    }
    cr_assert(differ > 1800, "%zu", differ); /* the second range has one start: 5 % are equal */
    /* half of them, four levels of five: 800, se 22 */
    cr_assert(entered > 700 && entered < 900, "%zu", entered);
    cr_assert_eq(first, DQN_MARKET_WARMUP);
    cr_assert(last <= 3599 && last > 3500); /* no transition leaves the training bars */
    dqn_market_destroy(market);
    free(config);
}

static uint32_t hold_policy(void *context, const float *observation, uint64_t step) {
    (void)observation;
    (void)step;
    return *(const uint32_t *)context;
}

struct collected {
    size_t n, borders;
    double rewards;
    uint64_t first, last;
    unsigned char *seen;
    struct trading_step_record end;
};

static void collect(void *context, const struct trading_step_record *record) {
    struct collected *c = context;
    c->first = c->n == 0 ? record->bar : c->first;
    c->n += 1;
    c->borders += record->border_close;
    c->rewards += record->reward;
    c->end = *record;
    if (c->seen != NULL) {
        c->seen[record->bar] += 1;
    }
}

/* Lanes share the split: every usable bar is decided once, segment borders are passed flat. */
Test(market, evaluation_parts_cover_the_split_once) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 4200); /* in validation */
    const size_t lanes[] = {1, 3, 20};
    uint32_t action = make_action(4, TRADING_MARKET, 2);
    for (size_t i = 0; i < DQN_COUNT_OF(lanes); i++) {
        struct trading_params p;
        cr_assert_eq(dqn_trading_params(&p, config, market, NULL, DQN_TRADING_EVAL,
                                        DQN_SPLIT_VALIDATION, lanes[i]),
                     DQN_OK);
        unsigned char *seen = calloc(market->bars.n, 1);
        size_t steps = 0, borders = 0;
        for (size_t lane = 0; lane < lanes[i]; lane++) {
            struct collected c = {.seen = seen};
            struct trading_state end;
            struct dqn_env_key key = {1, dqn_rng_stream(DQN_RNG_EVAL_ENV, lane), 0, 0};
            cr_assert_eq(dqn_trading_run(&p, key, hold_policy, &action, collect, &c, &end), DQN_OK);
            cr_assert(c.end.truncated && !c.end.terminated);
            cr_assert(c.n <= dqn_market_part_steps(market, DQN_SPLIT_VALIDATION, lanes[i]));
            ASSERT_NEAR(c.rewards, 100.0 * log(end.equity / 100000.0), 1e-9);
            steps += c.n;
            borders += c.borders;
        }
        cr_assert_eq(steps, market->transitions[DQN_SPLIT_VALIDATION]);
        /* bars 3600..4199 and 4712..4799; the last of each decides nothing */
        for (size_t bar = 0; bar < market->bars.n; bar++) {
            const bool decides = (bar >= 3600 && bar < 4199) || (bar >= 4712 && bar < 4799);
            cr_assert_eq(seen[bar], decides, "bar %zu", bar);
        }
        cr_assert(borders <= 1 && (lanes[i] > 1 || borders == 1));
        free(seen);
    }
    dqn_market_destroy(market);
    free(config);
}

Test(market, buy_and_hold_earns_the_market_less_one_entry) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 0);
    struct trading_params p;
    cr_assert_eq(dqn_trading_params(&p, config, market, NULL, DQN_TRADING_EVAL, DQN_SPLIT_TEST, 1),
                 DQN_OK);
    p.volume = NULL;
    no_costs(&p);
    p.half_spread_table = NULL;
    struct collected c = {0};
    uint32_t action = make_action(4, TRADING_MARKET, 2);
    const struct dqn_env_key key = {1, dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), 0, 0};
    cr_assert_eq(dqn_trading_run(&p, key, hold_policy, &action, collect, &c, NULL), DQN_OK);
    cr_assert_eq(c.first, 4800);
    const double market_return = log(market->bars.close[5999] / market->bars.close[4800]);
    ASSERT_NEAR(c.rewards, 100.0 * market_return, 1e-8);
    dqn_market_destroy(market);
    free(config);
}

/* Fixed notional, linear reward, fixed cost: exactly q (X' - X) - kappa |q - q_before|. */
Test(market, ou_gate_has_the_linear_reward_exactly) {
    struct dqn_config *config = base_config();
    config->env.sizing = DQN_SIZING_FIXED_NOTIONAL;
    config->env.observation = DQN_OBSERVE_ORACLE;
    config->env.ruin_fraction = 0.0;
    config->reward.kind = DQN_REWARD_LINEAR;
    config->fill.fixed_cost = 0.001; /* kappa 0.10 */
    const size_t n = 4000;
    struct dqn_bars bars;
    cr_assert_eq(dqn_bars_alloc(&bars, n, false, false, false, true), DQN_OK);
    uint64_t rng = 4;
    double x = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double before = x;
        x = 0.9 * x + sqrt(1.0 - 0.81) * walk_normal(&rng);
        bars.hidden[i] = x;
        bars.open[i] = 100.0 * (1.0 + 0.01 * before);
        bars.close[i] = 100.0 * (1.0 + 0.01 * x);
        bars.high[i] = fmax(bars.open[i], bars.close[i]);
        bars.low[i] = fmin(bars.open[i], bars.close[i]);
        bars.time_ns[i] = (int64_t)i * HOUR * 1000000000;
    }
    bars.info.bar_seconds = HOUR;
    struct dqn_market *market;
    cr_assert_eq(dqn_market_from_bars(&market, config, &bars, NULL, NULL), DQN_OK);
    struct trading_params p;
    cr_assert_eq(dqn_trading_params(&p, config, market, NULL, DQN_TRADING_EVAL, DQN_SPLIT_TRAIN, 1),
                 DQN_OK);
    struct dqn_env_key key = {1, dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), 0, 0};
    struct trading_state state;
    float o[TRADING_FEATURES];
    double q = 0.0, worst = 0.0;
    trading_reset(&state, &p, &key, o);
    for (bool done = false; !done;) {
        cr_assert_eq(o[0], (float)market->bars.hidden[state.bar]);
        ASSERT_NEAR((double)o[1], q, 1e-12);
        const uint32_t action = (uint32_t)(walk_unit(&rng) * 45.0);
        const double target = 0.5 * (double)((int)(action / 9) - 2);
        const double moved = market->bars.hidden[state.bar + 1] - market->bars.hidden[state.bar];
        const double want = target * moved - 0.10 * fabs(target - q);
        struct trading_step_record record;
        key.step += 1;
        const struct dqn_env_outcome outcome =
            trading_step_recorded(&state, &p, &key, action, o, &record);
        cr_assert(!outcome.terminated);
        worst = fmax(worst, fabs(record.reward - want));
        q = target;
        done = outcome.truncated;
    }
    cr_assert(worst < 1e-9, "%g", worst); /* money of 1e5 in double: seen 4e-14 */
    dqn_market_destroy(market);
    free(config);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static enum dqn_status try_market(size_t n, const double split[3]) {
    struct dqn_config *config = base_config();
    memcpy(config->data.split.v, split, 3 * sizeof(double));
    const struct walk_options options = {n, 1, 0.01, 0.0, 0.0, true, false, false, HOUR, 2};
    struct dqn_bars bars;
    struct dqn_market *market = NULL;
    cr_assert_eq(walk_make(&bars, &options), DQN_OK);
    const enum dqn_status status = dqn_market_from_bars(&market, config, &bars, NULL, NULL);
    cr_assert_eq(status == DQN_OK, market != NULL);
    cr_assert(bars.n == 0 && bars.close == NULL);
    dqn_market_destroy(market);
    free(config);
    return status;
}

Test(market, too_few_bars_are_refused_with_both_numbers) {
    const double usual[3] = {0.6, 0.2, 0.2}, thin[3] = {0.99, 0.005, 0.005};
    const double wrong[3] = {0.6, 0.2, 0.1}, most[3] = {0.998, 0.001, 0.001};
    const size_t sizes[] = {1, 511, 512, 513, 514, 850};
    for (size_t i = 0; i < DQN_COUNT_OF(sizes); i++) {
        cr_assert_eq(try_market(sizes[i], usual), DQN_ERR_DATA, "%zu bars", sizes[i]);
        cr_assert(strstr(dqn_error_text(), "512") != NULL, "%s", dqn_error_text());
    }
    cr_assert_eq(try_market(900, usual), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(try_market(2000, thin), DQN_OK);
    cr_assert_eq(try_market(600, most), DQN_ERR_DATA); /* 1 bar to validate on */
    cr_assert(strstr(dqn_error_text(), "validation") != NULL);
    cr_assert_eq(try_market(5000, wrong), DQN_ERR_CONFIG);
}

Test(market, contradictions_are_refused) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 0);
    struct trading_params p;
    cr_assert_eq(
        dqn_trading_params(&p, config, market, NULL, DQN_TRADING_EVAL, DQN_SPLIT_VALIDATION, 5000),
        DQN_ERR_DATA);
    config->env.observation = DQN_OBSERVE_ORACLE;
    cr_assert_eq(
        dqn_trading_params(&p, config, market, NULL, DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 1),
        DQN_ERR_CONFIG);
    config->env.observation = DQN_OBSERVE_FEATURES;
    config->env.sizing = DQN_SIZING_FIXED_NOTIONAL;
    config->env.ruin_fraction = 0.0;
    cr_assert_eq(
        dqn_trading_params(&p, config, market, NULL, DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 1),
        DQN_ERR_CONFIG);
    dqn_market_destroy(market);
    free(config);
}

/* Given statistics are used as they are: the same table as the run that fitted them. */
Test(market, frozen_statistics_give_the_same_features) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 0), *again;
    struct dqn_bars bars;
    cr_assert_eq(walk_make(&bars, &plain_walk), DQN_OK);
    cr_assert_eq(dqn_market_from_bars(&again, config, &bars, market->mean, market->std), DQN_OK);
    cr_assert_eq(memcmp(market->features, again->features,
                        market->bars.n * DQN_MARKET_FEATURES * sizeof(float)),
                 0);
    /* hourly, no holes: 365.2425 * 24 */
    ASSERT_NEAR(market->bars_per_year, 8765.82, 1e-6);
    dqn_market_destroy(market);
    dqn_market_destroy(again);
    free(config);
}

/* A lane on the tables of a device gives the lane on the market's own, bit for bit. */
Test(market, device_tables_are_copies) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 4200);
    struct dqn_market_buffers buffers;
    struct dqn_arena *arena;
    struct dqn_device device = {.backend = &dqn_cpu_backend};
    struct dqn_queue *queue;
    const struct dqn_device_options options = {.threads = 1};
    cr_assert_eq(dqn_cpu_backend.memory->open(&device, &options), DQN_OK);
    cr_assert_eq(dqn_cpu_backend.queue->create(&device, &queue), DQN_OK);
    cr_assert_eq(dqn_arena_create(&arena), DQN_OK);
    cr_assert_eq(dqn_market_register(market, arena, &device, &buffers), DQN_OK);
    cr_assert(buffers.hidden == NULL && buffers.untradable == NULL && buffers.volume != NULL);
    cr_assert_eq(dqn_arena_commit(arena, NULL), DQN_OK);
    cr_assert_eq(dqn_market_upload(market, queue, &buffers), DQN_OK);
    cr_assert_eq(dqn_cpu_backend.queue->wait(queue), DQN_OK);
    struct trading_params p[2];
    struct trading_state end[2];
    uint32_t action = make_action(3, TRADING_LIMIT, 1);
    for (int i = 0; i < 2; i++) {
        const struct dqn_env_key key = {1, dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), 0, 0};
        cr_assert_eq(dqn_trading_params(&p[i], config, market, i ? &buffers : NULL,
                                        DQN_TRADING_EVAL, DQN_SPLIT_VALIDATION, 1),
                     DQN_OK);
        cr_assert_eq(dqn_trading_run(&p[i], key, hold_policy, &action, NULL, NULL, &end[i]),
                     DQN_OK);
    }
    cr_assert(p[0].close != p[1].close && p[0].features != p[1].features);
    cr_assert_eq(memcmp(&end[0], &end[1], sizeof end[0]), 0);
    dqn_arena_destroy(arena);
    dqn_cpu_backend.queue->destroy(queue);
    dqn_cpu_backend.memory->close(&device);
    dqn_market_destroy(market);
    free(config);
}

/* Everything after the training split changed: the statistics keep their bits. */
Test(market, statistics_do_not_see_beyond_training) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 0), *other;
    struct dqn_bars bars;
    cr_assert_eq(walk_make(&bars, &plain_walk), DQN_OK);
    for (size_t i = 3600; i < bars.n; i++) {
        const double swing = i % 2 ? 3.0 : 0.3;
        bars.open[i] *= swing;
        bars.high[i] *= swing;
        bars.low[i] *= swing;
        bars.close[i] *= swing;
        bars.volume[i] *= 1000.0;
    }
    cr_assert_eq(dqn_market_from_bars(&other, config, &bars, NULL, NULL), DQN_OK);
    cr_assert_eq(memcmp(market->mean, other->mean, sizeof market->mean), 0);
    cr_assert_eq(memcmp(market->std, other->std, sizeof market->std), 0);
    cr_assert_eq(market->median_volume, other->median_volume);
    cr_assert_eq(memcmp(market->features, other->features,
                        (size_t)3600 * DQN_MARKET_FEATURES * sizeof(float)),
                 0);
    dqn_market_destroy(market);
    dqn_market_destroy(other);
    free(config);
}

Test(market, trading_defaults_are_the_configurations) {
    struct dqn_config *config = base_config();
    struct dqn_market *market = walk_market(config, &plain_walk, 0);
    struct trading_params a, b;
    cr_assert_eq(
        dqn_trading_params(&a, config, market, NULL, DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 1),
        DQN_OK);
    trading_defaults(&b);
    const double *x = &a.max_leverage, *y = &b.max_leverage;
    const size_t n = (size_t)(&a.ruin_floor - &a.max_leverage) + 1;
    a.median_volume = b.median_volume;
    for (size_t i = 0; i < n; i++) {
        cr_assert(fabs(x[i] - y[i]) <= 1e-15 * fabs(y[i]), "number %zu: %g, %g", i, x[i], y[i]);
    }
    cr_assert_eq(a.episode_bars, b.episode_bars);
    cr_assert_eq(a.account_ends, b.account_ends);
    dqn_market_destroy(market);
    free(config);
}
