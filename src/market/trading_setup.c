#include "trading_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "market_parts.h"

#define YEAR_S (365.2425 * 86400.0)
#define BP 1e-4

/* ---- splits and ranges ---------------------------------------------------------------------- */

static const char *const split_names[DQN_SPLITS] = {"training", "validation", "test"};

/* data.split_bars: first and end bar of each split. */
static enum dqn_status place_explicit(struct dqn_market *market, const struct dqn_ints *bars) {
    if (bars->n != 2 * DQN_SPLITS) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "data.split_bars has %zu number%s; it needs 6: first and end bar of "
                        "training, validation and test",
                        bars->n, dqn_plural(bars->n));
    }
    int64_t before = 0;
    for (size_t i = 0; i < bars->n; i++) {
        if (bars->v[i] < before || bars->v[i] > (int64_t)market->bars.n) {
            return dqn_fail(DQN_ERR_CONFIG,
                            "data.split_bars: bar %lld does not come after the number before it "
                            "(%lld), or not within the %zu bars of the data",
                            (long long)bars->v[i], (long long)before, market->bars.n);
        }
        before = bars->v[i];
    }
    for (int split = 0; split < DQN_SPLITS; split++) {
        market->split_first[split] = (size_t)bars->v[2 * split];
        market->split_last[split] = (size_t)bars->v[2 * split + 1];
    }
    return DQN_OK;
}

static enum dqn_status place_splits(struct dqn_market *market, const struct dqn_config *config) {
    if (config->data.split_bars.n > 0) {
        return place_explicit(market, &config->data.split_bars);
    }
    const struct dqn_reals *split = &config->data.split;
    if (split->n != DQN_SPLITS) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "data.split has %zu part%s; it needs 3: training, validation, test",
                        split->n, dqn_plural(split->n));
    }
    const double sum = split->v[0] + split->v[1] + split->v[2];
    if (fabs(sum - 1.0) > 1e-6) {
        return dqn_fail(DQN_ERR_CONFIG, "data.split sums to %g; its three parts must sum to 1",
                        sum);
    }
    const double n = (double)market->bars.n;
    market->split_first[0] = 0;
    market->split_first[1] = market->split_last[0] = (size_t)floor(n * split->v[0] + 0.5);
    market->split_first[2] = market->split_last[1] =
        (size_t)floor(n * (split->v[0] + split->v[1]) + 0.5);
    market->split_last[2] = market->bars.n;
    return DQN_OK;
}

static enum dqn_status find_ranges(struct dqn_market *market, const struct dqn_config *config) {
    void *ranges = NULL;
    DQN_TRY(dqn_alloc(&ranges, market->bars.n_segments * DQN_SPLITS, sizeof(struct trading_range),
                      "market ranges"));
    market->ranges = ranges;
    for (int split = 0; split < DQN_SPLITS; split++) {
        struct dqn_part_ranges found = {.range = market->ranges + market->n_ranges};
        dqn_part_ranges_find(&market->bars, market->split_first[split], market->split_last[split],
                             &found);
        market->range_first[split] = market->n_ranges;
        market->range_count[split] = found.n;
        market->transitions[split] = found.transitions;
        market->n_ranges += found.n;
        const bool one = market->bars.n_segments == 1;
        if (found.n == 0) {
            return dqn_fail(DQN_ERR_DATA,
                            "the %s split is bars %zu to %zu of %zu in %zu segment%s, where not 2 "
                            "bars are left "
                            "after the warm-up of %d bars; use more data, or other data.split%s",
                            split_names[split], market->split_first[split],
                            market->split_last[split], market->bars.n, market->bars.n_segments,
                            one ? "" : "s", DQN_MARKET_WARMUP, one ? "" : ", or data.gaps: keep");
        }
        if (found.n_short > 0) {
            dqn_info("%s split: %zu segment%s not used, whose warm-up of %d bars leaves nothing",
                     split_names[split], found.n_short, found.n_short == 1 ? " is" : "s are",
                     DQN_MARKET_WARMUP);
        }
        if (split == DQN_SPLIT_TRAIN && found.longest < (uint64_t)config->env.episode_bars) {
            dqn_info("training episodes are at most %zu bar%s: no segment has the %lld of "
                     "env.episode_bars",
                     found.longest, dqn_plural(found.longest), (long long)config->env.episode_bars);
        }
    }
    return DQN_OK;
}

/* ---- measured numbers ----------------------------------------------------------------------- */

static void measure(struct dqn_market *market, const struct dqn_config *config) {
    const struct dqn_bars *bars = &market->bars;
    const double span_s = (double)(bars->time_ns[bars->n - 1] - bars->time_ns[0]) * 1e-9;
    market->bar_seconds =
        bars->info.bar_seconds > 0.0 ? bars->info.bar_seconds : span_s / (double)(bars->n - 1);
    market->bars_per_year_set = config->report.bars_per_year > 0.0;
    market->bars_per_year = market->bars_per_year_set ? config->report.bars_per_year
                                                      : (double)(bars->n - 1) / (span_s / YEAR_S);
    market->reference_price = config->data.file.n == 0 ? config->synthetic.price : bars->close[0];
}

/* ---- the market ----------------------------------------------------------------------------- */

enum dqn_status dqn_market_features(const struct dqn_bars *bars, const struct dqn_config *config,
                                    float *raw, double *s) {
    struct dqn_zone *zone = NULL;
    if (config->data.timezone[0] != '\0') {
        DQN_TRY(dqn_zone_create(&zone, config->data.timezone));
    }
    const struct dqn_feature_options options = {
        .taker = config->fill.taker_bps * BP,
        .half_spread = config->fill.half_spread_bps * BP,
        .slip = config->fill.slip_bps * BP,
        .slip_vol = config->fill.slip_vol,
        .cost_scale = config->fill.cost_scale,
        .zone = zone,
    };
    const enum dqn_status status = dqn_features_compute(bars, &options, raw, s);
    dqn_zone_destroy(zone);
    return status;
}

static enum dqn_status make_features(struct dqn_market *market, const struct dqn_config *config,
                                     const double *mean, const double *std) {
    const size_t n = market->bars.n;
    void *features = NULL, *s = NULL;
    DQN_TRY(dqn_alloc(&features, n, DQN_MARKET_FEATURES * sizeof(float), "market features"));
    market->features = features;
    DQN_TRY(dqn_alloc(&s, n, sizeof(double), "bar volatility"));
    market->s = s;
    DQN_TRY(dqn_market_features(&market->bars, config, market->features, market->s));
    if (mean != NULL && std != NULL) {
        memcpy(market->mean, mean, sizeof market->mean);
        memcpy(market->std, std, sizeof market->std);
    } else {
        size_t constant;
        DQN_TRY(dqn_features_fit(
            &market->bars, market->features, market->split_first[DQN_SPLIT_TRAIN],
            market->split_last[DQN_SPLIT_TRAIN], market->mean, market->std, &constant));
        if (constant > 0) {
            dqn_info("features: %zu of %d are constant in training and become 0", constant,
                     DQN_MARKET_FEATURES);
        }
    }
    dqn_features_normalise(market->features, n, market->mean, market->std);
    return DQN_OK;
}

enum dqn_status dqn_market_from_bars(struct dqn_market **out, const struct dqn_config *config,
                                     struct dqn_bars *bars, const double *mean, const double *std) {
    void *memory = NULL;
    enum dqn_status status;
    struct dqn_market *market = NULL;
    *out = NULL;
    DQN_TRY_GOTO(dqn_alloc(&memory, 1, sizeof *market, "market"));
    market = memory;
    market->bars = *bars;
    memset(bars, 0, sizeof *bars);
    if (market->bars.n < DQN_MARKET_WARMUP + 2) {
        status =
            dqn_fail(DQN_ERR_DATA,
                     "the market has %zu bars; at least %d are needed: %d warm up the features",
                     market->bars.n, DQN_MARKET_WARMUP + 2, DQN_MARKET_WARMUP);
        goto done;
    }
    DQN_TRY_GOTO(place_splits(market, config));
    DQN_TRY_GOTO(find_ranges(market, config));
    measure(market, config);
    DQN_TRY_GOTO(dqn_part_median_volume(&market->bars, market->split_first[DQN_SPLIT_TRAIN],
                                        market->split_last[DQN_SPLIT_TRAIN],
                                        &market->median_volume));
    DQN_TRY_GOTO(make_features(market, config, mean, std));
    *out = market;
    return DQN_OK;
done:
    dqn_bars_free(bars);
    dqn_market_destroy(market);
    return status;
}

enum dqn_status dqn_market_create(struct dqn_market **out, const struct dqn_config *config,
                                  const double *mean, const double *std) {
    struct dqn_bars bars = {0};
    *out = NULL;
    DQN_TRY(dqn_bars_load(&bars, config, false));
    return dqn_market_from_bars(out, config, &bars, mean, std);
}

void dqn_market_destroy(struct dqn_market *market) {
    if (market == NULL) {
        return;
    }
    dqn_bars_free(&market->bars);
    free(market->features);
    free(market->s);
    free(market->ranges);
    free(market);
}

size_t dqn_market_split_bars(const struct dqn_market *market, enum dqn_split split) {
    return market->split_last[split] - market->split_first[split];
}

uint64_t dqn_market_part_steps(const struct dqn_market *market, enum dqn_split split,
                               size_t lanes) {
    return (market->transitions[split] + lanes - 1) / lanes;
}

/* ---- device tables -------------------------------------------------------------------------- */

/* One table: its buffer, its host data (NULL = absent), and its shape [rows, columns]. */
struct market_table {
    const char *name;
    struct dqn_buffer **buffer;
    const void *data;
    enum dqn_dtype dtype;
    size_t rows, columns;
};

enum { TABLES = 12 };

static void list_tables(const struct dqn_market *market, struct dqn_market_buffers *b,
                        struct market_table out[TABLES]) {
    const struct dqn_bars *bars = &market->bars;
    const size_t n = bars->n;
    const struct market_table tables[TABLES] = {
        {"market/features", &b->features, market->features, DQN_F32, n, DQN_MARKET_FEATURES},
        {"market/open", &b->open, bars->open, DQN_F64, n, 1},
        {"market/high", &b->high, bars->high, DQN_F64, n, 1},
        {"market/low", &b->low, bars->low, DQN_F64, n, 1},
        {"market/close", &b->close, bars->close, DQN_F64, n, 1},
        {"market/s", &b->s, market->s, DQN_F64, n, 1},
        {"market/time", &b->time_ns, bars->time_ns, DQN_I64, n, 1},
        {"market/ranges", &b->ranges, market->ranges, DQN_U64, market->n_ranges, 3},
        {"market/volume", &b->volume, bars->volume, DQN_F64, n, 1},
        {"market/half_spread", &b->half_spread, bars->half_spread, DQN_F64, n, 1},
        {"market/untradable", &b->untradable, bars->untradable, DQN_U8, n, 1},
        {"market/hidden", &b->hidden, bars->hidden, DQN_F64, n, 1},
    };
    memcpy(out, tables, sizeof tables);
}

enum dqn_status dqn_market_register(const struct dqn_market *market, struct dqn_arena *arena,
                                    const struct dqn_device *device,
                                    struct dqn_market_buffers *out) {
    struct market_table tables[TABLES];
    memset(out, 0, sizeof *out);
    list_tables(market, out, tables);
    for (size_t i = 0; i < TABLES; i++) {
        if (tables[i].data != NULL) {
            DQN_TRY(dqn_arena_add(arena, tables[i].buffer, device, tables[i].dtype,
                                  DQN_BUFFER_SHARED, tables[i].name, 2, tables[i].rows,
                                  tables[i].columns));
        }
    }
    return DQN_OK;
}

enum dqn_status dqn_market_upload(const struct dqn_market *market, struct dqn_queue *queue,
                                  const struct dqn_market_buffers *buffers) {
    struct dqn_market_buffers copy = *buffers;
    struct market_table tables[TABLES];
    list_tables(market, &copy, tables);
    const struct dqn_memory_ops *memory = queue->device->backend->memory;
    for (size_t i = 0; i < TABLES; i++) {
        const struct dqn_buffer *buffer = *tables[i].buffer;
        if (tables[i].data != NULL) {
            DQN_TRY(memory->copy(queue, buffer->data, tables[i].data, buffer->bytes,
                                 DQN_COPY_TO_DEVICE));
        }
    }
    return DQN_OK;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static const void *table_data(const struct dqn_buffer *buffer) {
    return buffer != NULL ? buffer->data : NULL;
}

static void params_tables(struct trading_params *p, const struct dqn_market *market,
                          const struct dqn_market_buffers *b) {
    const struct dqn_bars *bars = &market->bars;
    p->features = b != NULL ? table_data(b->features) : market->features;
    p->open = b != NULL ? table_data(b->open) : bars->open;
    p->high = b != NULL ? table_data(b->high) : bars->high;
    p->low = b != NULL ? table_data(b->low) : bars->low;
    p->close = b != NULL ? table_data(b->close) : bars->close;
    p->volume = b != NULL ? table_data(b->volume) : bars->volume;
    p->half_spread_table = b != NULL ? table_data(b->half_spread) : bars->half_spread;
    p->s = b != NULL ? table_data(b->s) : market->s;
    p->hidden = b != NULL ? table_data(b->hidden) : bars->hidden;
    p->time_ns = b != NULL ? table_data(b->time_ns) : bars->time_ns;
    p->untradable = b != NULL ? table_data(b->untradable) : bars->untradable;
    p->ranges = b != NULL ? table_data(b->ranges) : market->ranges;
}

static void params_fill(struct trading_params *p, const struct dqn_config_fill *fill) {
    const double scale = fill->cost_scale;
    /* gates: the fixed cost stands for everything, financing included */
    const double financing = fill->fixed_cost >= 0.0 ? 0.0 : scale / YEAR_S;
    p->at_close = fill->timing == DQN_FILL_CLOSE;
    p->latency = (uint64_t)fill->latency_bars;
    p->post_only_gap = fill->post_only_gap;
    p->cost_scale = scale;
    p->half_spread = fill->half_spread_bps * BP * scale;
    p->slip = fill->slip_bps * BP * scale;
    p->slip_vol = fill->slip_vol * scale;
    p->impact = fill->impact * scale;
    p->taker_fee = fill->taker_bps * BP * scale;
    p->maker_fee = fill->maker_bps * BP * scale;
    p->fixed_cost = fill->fixed_cost >= 0.0 ? fill->fixed_cost * scale : -1.0;
    p->max_participation = fill->max_participation;
    p->ioc_participation = fill->ioc_participation;
    p->maker_participation = fill->maker_participation;
    p->queue_margin = fill->queue_margin;
    p->touch_fill = fill->touch_fill;
    p->cash_rate = fill->cash_rate * financing;
    p->borrow_rate = fill->borrow_rate * financing;
    p->leverage_rate = fill->leverage_rate * financing;
}

static void params_account(struct trading_params *p, const struct dqn_config_env *env) {
    p->oracle = env->observation == DQN_OBSERVE_ORACLE;
    p->fixed_notional = env->sizing == DQN_SIZING_FIXED_NOTIONAL;
    p->long_only = env->long_only;
    p->episode_bars = (uint64_t)env->episode_bars;
    p->max_leverage = env->max_leverage;
    p->rebalance_band = env->rebalance_band;
    p->min_notional = env->min_notional;
    p->quantity_step = env->quantity_step;
    p->tick_size = env->tick_size;
    p->initial_equity = env->initial_equity;
    p->ruin_fraction = env->ruin_fraction;
    p->maintenance = env->maintenance;
    p->drawdown_scale = 1.0 / log(1.0 - env->drawdown_limit);
    p->daily_loss_stop = env->daily_loss_stop;
    /* fixed notional without a ruin level: sizes do not depend on wealth, so neither do ends */
    p->account_ends = !(p->fixed_notional && env->ruin_fraction == 0.0);
}

static void params_reward(struct trading_params *p, const struct dqn_config_reward *reward) {
    p->linear_reward = reward->kind == DQN_REWARD_LINEAR;
    p->subtract_buyhold = reward->baseline == DQN_BASELINE_BUYHOLD;
    p->scale = reward->scale;
    p->clip = reward->clip;
    p->risk_aversion = reward->risk_aversion;
    p->drawdown_penalty = reward->drawdown_penalty;
    p->ruin_floor = reward->ruin_floor;
}

enum dqn_status dqn_trading_params(struct trading_params *out, const struct dqn_config *config,
                                   const struct dqn_market *market,
                                   const struct dqn_market_buffers *buffers,
                                   enum dqn_trading_mode mode, enum dqn_split split, size_t lanes) {
    memset(out, 0, sizeof *out);
    params_tables(out, market, buffers);
    params_account(out, &config->env);
    params_fill(out, &config->fill);
    params_reward(out, &config->reward);
    out->evaluate = mode == DQN_TRADING_EVAL;
    out->lanes = mode == DQN_TRADING_EVAL ? lanes : 1;
    out->ranges = out->ranges != NULL ? out->ranges + market->range_first[split] : NULL;
    out->n_ranges = market->range_count[split];
    out->transitions = market->transitions[split];
    out->reference_price = market->reference_price;
    out->median_volume = market->median_volume;
    out->bar_seconds = market->bar_seconds;
    if (out->lanes == 0 || out->lanes > out->transitions) {
        return dqn_fail(DQN_ERR_DATA,
                        "the %s split has %llu steps, which cannot be cut into %zu parts: lower "
                        "eval.episodes or use more data",
                        split_names[split], (unsigned long long)out->transitions, lanes);
    }
    if (out->oracle && market->bars.hidden == NULL) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "env.observation: oracle needs a synthetic market with a "
                        "hidden state (synthetic.market: ou), not %s",
                        market->bars.info.source);
    }
    if (out->fixed_notional && !out->account_ends && !out->linear_reward) {
        return dqn_fail(
            DQN_ERR_CONFIG,
            "env.sizing: fixed_notional with env.ruin_fraction: 0 lets equity pass "
            "zero, where reward.kind: log_return has no value: use reward.kind: linear");
    }
    return DQN_OK;
}

/* ---- a lane on the host --------------------------------------------------------------------- */

/* What a pass consists of. */
struct lane {
    const struct trading_params *params;
    struct dqn_env_key key;
    struct trading_state state;
    float observation[TRADING_FEATURES];
    const float *seen; /* what the policy is given: the observation or NULL */
};

static enum dqn_status take_step(struct lane *lane, dqn_trading_policy policy, void *context,
                                 struct trading_step_record *record) {
    const uint32_t action = policy(context, lane->seen, lane->key.step);
    if (action == DQN_POLICY_STOP) {
        return dqn_fail(DQN_ERR_STOPPED, "stopped inside a pass over the data");
    }
    if (action >= TRADING_ACTIONS) {
        return dqn_fail(DQN_ERR_CONFIG, "a policy chose action %u of %d", action, TRADING_ACTIONS);
    }
    lane->key.step += 1;
    trading_step_blind(&lane->state, lane->params, &lane->key, action, record);
    if (lane->seen != NULL) {
        trading_observe(lane->params, &lane->state, lane->observation);
    }
    return DQN_OK;
}

static enum dqn_status run_lane(struct lane *lane, dqn_trading_policy policy, void *policy_context,
                                dqn_trading_sink sink, void *sink_context,
                                struct trading_state *result) {
    struct trading_step_record record = {0};
    lane->key.step = 0;
    trading_reset(&lane->state, lane->params, &lane->key, lane->observation);
    while (!record.terminated && !record.truncated) {
        DQN_TRY(take_step(lane, policy, policy_context, &record));
        if (sink != NULL) {
            sink(sink_context, &record);
        }
    }
    if (result != NULL) {
        *result = lane->state;
    }
    return DQN_OK;
}

enum dqn_status dqn_trading_run(const struct trading_params *params, struct dqn_env_key key,
                                dqn_trading_policy policy, void *policy_context,
                                dqn_trading_sink sink, void *sink_context,
                                struct trading_state *result) {
    struct lane lane = {.params = params, .key = key};
    lane.seen = lane.observation;
    return run_lane(&lane, policy, policy_context, sink, sink_context, result);
}

enum dqn_status dqn_trading_run_blind(const struct trading_params *params, struct dqn_env_key key,
                                      dqn_trading_policy policy, void *policy_context,
                                      dqn_trading_sink sink, void *sink_context,
                                      struct trading_state *result) {
    struct lane lane = {.params = params, .key = key};
    return run_lane(&lane, policy, policy_context, sink, sink_context, result);
}
