/* The trading environment: market bars, 51 features, 45 actions. Explained in docs/trading.md.
 *
 * At step t the agent has seen the bars up to t. Its order executes during bar t + 1, the position
 * is marked at close t + 1, and the reward is the log return of equity with every cost inside. The
 * order rules are in trading_fill.h, the accounts in trading_account.h, the data in
 * trading_types.h. */
#ifndef DQN_ENVS_TRADING_H
#define DQN_ENVS_TRADING_H

#include "trading_account.h"

/* Random words of a lane's step. */
enum { TRADING_SLOT_START, TRADING_SLOT_ENTRY, TRADING_SLOT_TOUCH };

/* The configuration's defaults, without tables (dqn_trading_params adds them). Host only. */
static inline void trading_defaults(struct trading_params *params) {
    const double year = 365.2425 * 86400.0;
    struct trading_params p = {0};
    p.lanes = 1;
    p.episode_bars = 1024;
    p.account_ends = 1;
    p.max_leverage = 1.0;
    p.rebalance_band = 0.05;
    p.initial_equity = 100000.0;
    p.reference_price = 100.0;
    p.ruin_fraction = 0.5;
    p.maintenance = 0.05;
    p.drawdown_scale = 1.0 / dqn_log(0.5);
    p.cost_scale = 1.0;
    p.half_spread = 1e-4;
    p.slip = 1e-4;
    p.slip_vol = 0.05;
    p.taker_fee = 5e-4;
    p.maker_fee = 2e-4;
    p.fixed_cost = -1.0;
    p.max_participation = 0.1;
    p.ioc_participation = 0.01;
    p.maker_participation = 0.05;
    p.queue_margin = 0.03;
    p.borrow_rate = 0.02 / year;
    p.leverage_rate = 0.05 / year;
    p.bar_seconds = 3600.0;
    p.scale = 100.0;
    p.ruin_floor = 0.01;
    *params = p;
}

/* Equity as the reward sees it: not below reward.ruin_floor of the start. */
DQN_SHARED double trading_floored(const struct trading_params *p, const struct trading_state *state,
                                  double equity) {
    return dqn_fmax(equity, p->ruin_floor * state->start_equity);
}

/* The 8 portfolio features, [8] f32 out. */
DQN_SHARED void trading_portfolio(const struct trading_params *p, const struct trading_state *state,
                                  float *out) {
    const double close = p->close[state->bar], s = p->s[state->bar];
    double open_pnl = 0.0;
    if (state->units != 0.0 && state->entry > 0.0) {
        const double side = state->units < 0.0 ? -1.0 : 1.0;
        const double hold = state->hold > 1 ? (double)state->hold : 1.0;
        open_pnl = side * dqn_log(close / state->entry) / (s * dqn_sqrt(hold));
    }
    const double drawdown =
        dqn_log(trading_floored(p, state, state->equity) / trading_floored(p, state, state->peak));
    const double exposure = trading_exposure(p, state->units, close, state->equity);
    out[0] = (float)dqn_clamp(exposure, -2.0, 2.0);
    out[1] = (float)dqn_clamp(open_pnl, -5.0, 5.0);
    out[2] = (float)dqn_tanh((double)state->hold / 64.0);
    out[3] = (float)dqn_clamp(drawdown * p->drawdown_scale, 0.0, 1.0);
    out[4] = (float)dqn_clamp(0.5 * state->last_turnover, 0.0, 5.0);
    out[5] = (float)state->last_fill;
    out[6] = (float)dqn_clamp(state->recent_return / s, -5.0, 5.0);
    out[7] = (float)dqn_tanh((double)state->idle / 32.0);
}

/* observation [51] f32 out: the bar's market features, then the portfolio's; the oracle's is the
 * hidden state, the exposure, and zeros. */
DQN_SHARED void trading_observe(const struct trading_params *p, const struct trading_state *state,
                                float *observation) {
    if (p->oracle) {
        const double exposure =
            trading_exposure(p, state->units, p->close[state->bar], state->equity);
        observation[0] = (float)p->hidden[state->bar];
        observation[1] = (float)exposure;
        for (int i = 2; i < TRADING_FEATURES; i++) {
            observation[i] = 0.0f;
        }
        return;
    }
    /* read whole before it is written: a GPU then waits for memory once, not once a feature */
    const float *row = p->features + state->bar * TRADING_MARKET_FEATURES;
    float market[TRADING_MARKET_FEATURES];
    for (int i = 0; i < TRADING_MARKET_FEATURES; i++) {
        market[i] = row[i];
    }
    for (int i = 0; i < TRADING_MARKET_FEATURES; i++) {
        observation[i] = market[i];
    }
    trading_portfolio(p, state, observation + TRADING_MARKET_FEATURES);
}

/* Prices of one bar; volume -1 where the data has none. */
DQN_SHARED void trading_load_bar(const struct trading_params *p, uint64_t index,
                                 struct trading_bar *bar) {
    bar->open = p->open[index];
    bar->high = p->high[index];
    bar->low = p->low[index];
    bar->close = p->close[index];
    bar->volume = p->volume != NULL ? p->volume[index] : -1.0;
    bar->closed = p->untradable != NULL && p->untradable[index];
}

DQN_SHARED void trading_clear_record(struct trading_step_record *record) {
    record->fees = record->spread = record->slippage = record->impact = record->financing = 0.0;
    record->forgiven = record->traded = record->adverse_equity = 0.0;
    record->margin_call = record->border_close = record->clipped = 0;
}

/* The range that holds the offset-th transition of the split. */
DQN_SHARED uint64_t trading_find_range(const struct trading_params *p, uint64_t offset) {
    uint64_t low = 0, high = p->n_ranges;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (p->ranges[middle].before <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where the episode starts and how long it is. Training: a range by its length, then a uniform
 * start. Evaluation: lane e of E takes transitions [T e / E, T (e + 1) / E). */
DQN_SHARED void trading_place(struct trading_state *state, const struct trading_params *p,
                              const struct dqn_env_key *key) {
    if (p->evaluate) {
        const uint64_t lane = (key->stream & ((1ull << 56) - 1)) % p->lanes;
        const uint64_t begin = p->transitions * lane / p->lanes;
        state->range = trading_find_range(p, begin);
        const struct trading_range range = p->ranges[state->range];
        state->bar = range.first + (begin - range.before);
        state->left = p->transitions * (lane + 1) / p->lanes - begin;
        state->last = range.last;
        return;
    }
    const struct dqn_u32x4 words = dqn_env_random(key, TRADING_SLOT_START);
    state->range = trading_find_range(p, dqn_rng_below(dqn_rng_u64(words, 0), p->transitions));
    const struct trading_range range = p->ranges[state->range];
    const uint64_t length = range.last - range.first;
    state->bar = range.first;
    state->left = length;
    state->last = range.last;
    if (length > p->episode_bars) {
        state->bar += dqn_rng_below(dqn_rng_u64(words, 1), length - p->episode_bars + 1);
        state->left = p->episode_bars;
    }
}

/* Half of the training episodes start with one of the five exposures, bought at the open of their
 * first bar by an aggressive market order. */
DQN_SHARED void trading_enter(struct trading_state *state, const struct trading_params *p,
                              const struct dqn_env_key *key) {
    const struct dqn_u32x4 words = dqn_env_random(key, TRADING_SLOT_ENTRY);
    if (p->evaluate || dqn_rng_unit(dqn_rng_u64(words, 0)) < 0.5) {
        return;
    }
    const uint32_t action = (uint32_t)dqn_rng_below(dqn_rng_u64(words, 1), 5) * 9u + 2u;
    struct trading_bar bar;
    trading_load_bar(p, state->bar, &bar);
    trading_bar_costs(p, state->bar - 1, &bar);
    const double rate = trading_cost_rate(p, &bar, TRADING_MARKET, 2);
    const double quantity =
        trading_order_size(p, &bar, 0.0, state->equity, trading_target(p, action), rate);
    if (quantity == 0.0) {
        return;
    }
    struct trading_state entered = *state;
    struct trading_step_record record;
    trading_clear_record(&record);
    const struct trading_fill fill = trading_execute(p, &bar, quantity, TRADING_MARKET, 2, 1.0);
    if (fill.quantity == 0.0) {
        return;
    }
    trading_book(&entered, &fill, &record);
    entered.equity = entered.cash + entered.units * bar.close;
    /* a start that is ruined at once would be no episode */
    if (entered.equity > p->ruin_fraction * state->equity) {
        *state = entered;
        state->hold = 1;
        state->last_fill = fill.quantity / quantity;
        state->last_turnover =
            trading_exposure(p, dqn_fabs(fill.quantity), bar.price, p->initial_equity);
    }
}

/* Starts an episode. */
DQN_SHARED void trading_reset(struct trading_state *state, const struct trading_params *params,
                              const struct dqn_env_key *key, float *observation) {
    trading_place(state, params, key);
    state->units = state->entry = state->recent_return = 0.0;
    state->cash = state->equity = params->initial_equity;
    state->last_turnover = state->last_fill = 0.0;
    state->hold = state->idle = 0;
    state->pending = TRADING_NO_ACTION;
    state->day = INT64_MIN;
    trading_enter(state, params, key);
    trading_enter_day(state, params->time_ns[state->bar]);
    state->start_equity = state->peak = state->equity;
    trading_observe(params, state, observation);
}

/* Sends and executes the step's order; fills the record's order part.
 * Returns the fill (quantity 0 = none). */
DQN_SHARED struct trading_fill trading_trade(struct trading_state *state,
                                             const struct trading_params *p,
                                             const struct dqn_env_key *key,
                                             const struct trading_bar *bar, uint32_t action,
                                             struct trading_step_record *record) {
    record->stopped = state->stopped != 0;
    record->order = state->stopped ? TRADING_MARKET : trading_order_kind(action);
    record->urgency = state->stopped ? 2 : trading_urgency(action);
    record->target = state->stopped ? 0.0 : trading_target(p, action);
    record->executed = state->stopped ? 20u : action;
    record->ordered = 0.0;
    if (state->stopped || action < TRADING_ACTIONS) {
        const double rate = trading_cost_rate(p, bar, record->order, record->urgency);
        record->ordered =
            trading_order_size(p, bar, state->units, state->equity, record->target, rate);
    }
    struct trading_fill fill = trading_no_fill(0.0);
    if (record->ordered != 0.0) {
        double chance = 1.0;
        if (record->order == TRADING_LIMIT && p->touch_fill > 0.0) {
            chance = dqn_rng_unit(dqn_rng_u64(dqn_env_random(key, TRADING_SLOT_TOUCH), 0));
        }
        fill = trading_execute(p, bar, record->ordered, record->order, record->urgency, chance);
    } else {
        record->order = TRADING_NO_ORDER;
    }
    record->sent = record->ordered != 0.0;
    record->filled = fill.quantity;
    record->fill_price = fill.price;
    record->limit = fill.limit;
    record->partly = fill.quantity != 0.0 && fill.quantity != record->ordered;
    state->last_fill = !record->sent          ? 0.0
                       : fill.quantity == 0.0 ? -1.0
                                              : fill.quantity / record->ordered;
    state->last_turnover = trading_exposure(p, dqn_fabs(fill.quantity), bar->price, state->equity);
    return fill;
}

/* Reward of the step from equity before and after; fills the record's reward part. */
DQN_SHARED double trading_reward(const struct trading_params *p, const struct trading_state *state,
                                 struct trading_step_record *record) {
    const double before = record->equity_before, after = record->equity_after;
    record->log_return =
        dqn_log(trading_floored(p, state, after) / trading_floored(p, state, before));
    double x = record->log_return;
    if (p->linear_reward) {
        x = (after - before) / p->initial_equity;
    }
    if (p->subtract_buyhold) {
        x -= p->linear_reward ? (record->close - record->decision_price) / p->reference_price
                              : dqn_log(record->close / record->decision_price);
    }
    x *= p->scale;
    double reward = x - 0.5 * p->risk_aversion * x * x;
    if (p->drawdown_penalty > 0.0) {
        const double deeper = (before - dqn_fmin(before, after)) / state->peak;
        reward -= p->drawdown_penalty * deeper;
    }
    if (p->clip > 0.0 && !record->terminated && dqn_fabs(reward) > p->clip) {
        reward = dqn_clamp(reward, -p->clip, p->clip);
        record->clipped = 1;
    }
    return reward;
}

/* Moves the lane to the bar that the step ended at, or, at the end of a range with steps left, flat
 * to the start of the next. */
DQN_SHARED void trading_advance(struct trading_state *state, const struct trading_params *p,
                                uint64_t next, double units_before, int traded,
                                const struct trading_step_record *record) {
    state->equity = record->equity_after;
    state->peak = dqn_fmax(state->peak, state->equity);
    state->recent_return += (record->log_return - state->recent_return) * (2.0 / 21.0);
    state->hold = state->units == 0.0 ? 0 : units_before * state->units > 0.0 ? state->hold + 1 : 1;
    state->idle = traded ? 0 : state->idle + 1;
    if (p->daily_loss_stop > 0.0 &&
        state->equity <= state->day_equity * (1.0 - p->daily_loss_stop)) {
        state->stopped = 1;
    }
    state->bar = next;
    if (next == state->last && state->left > 0) {
        state->range += 1;
        state->bar = p->ranges[state->range].first;
        state->last = p->ranges[state->range].last;
    }
}

/* What the record knows before the order. */
DQN_SHARED void trading_open_record(struct trading_step_record *record,
                                    const struct trading_params *p,
                                    const struct trading_state *state, uint32_t action) {
    const double close = p->close[state->bar];
    trading_clear_record(record);
    record->bar = state->bar;
    record->result_bar = state->bar + 1;
    record->action = action;
    record->units_before = state->units;
    record->equity_before = state->equity;
    record->decision_price = close;
    record->exposure_before = trading_exposure(p, state->units, close, state->equity);
}

/* The bar that executes an order decided at `now`: the next one, or the decision's own close. */
DQN_SHARED void trading_order_bar(const struct trading_params *p, uint64_t now,
                                  struct trading_bar *bar) {
    trading_load_bar(p, p->at_close ? now : now + 1, bar);
    trading_bar_costs(p, now, bar);
    if (p->at_close) {
        bar->open = bar->high = bar->low = bar->close;
    }
}

/* Risk at the bar's worst price, financing for `held` seconds, forced close before a hole, mark.
 * Returns 1 when a rule traded. */
DQN_SHARED int trading_settle(struct trading_state *state, const struct trading_params *p,
                              const struct trading_fill *fill, double held,
                              struct trading_step_record *record) {
    const uint64_t next = record->result_bar;
    struct trading_bar bar;
    trading_load_bar(p, next, &bar);
    record->open = bar.open;
    record->close = bar.close;
    record->price_pnl = record->units_before * (bar.close - record->decision_price) +
                        fill->quantity * (bar.close - fill->reference);
    record->margin_call = (uint8_t)trading_margin_call(p, state, &bar, &record->price_pnl, record);
    record->financing += trading_financing(p, state, record->decision_price, held);
    state->cash -= record->financing;
    if (next == state->last && state->left > 0 && state->units != 0.0) {
        trading_bar_costs(p, next, &bar);
        trading_close_at(p, state, &bar, bar.close, record);
        record->border_close = 1;
    }
    record->units_after = state->units;
    record->equity_after = state->cash + state->units * bar.close;
    record->exposure_after = trading_exposure(p, state->units, bar.close, record->equity_after);
    return record->margin_call | record->border_close;
}

/* One step, with its record, for who does not look at what it leads to. */
DQN_SHARED void trading_step_blind(struct trading_state *state, const struct trading_params *p,
                                   const struct dqn_env_key *key, uint32_t action,
                                   struct trading_step_record *record) {
    const uint64_t now = state->bar, next = now + 1;
    trading_open_record(record, p, state, action);
    struct trading_bar bar;
    trading_order_bar(p, now, &bar);
    if (p->daily_loss_stop > 0.0) {
        trading_enter_day(state, p->time_ns[next]);
    }
    uint32_t chosen = action;
    if (p->latency) {
        chosen = (uint32_t)state->pending;
        state->pending = action;
    }
    /* the old position pays for a hole between the bars, the new one for the bar */
    const double elapsed = (double)(p->time_ns[next] - p->time_ns[now]) * 1e-9;
    const double held = p->at_close ? elapsed : dqn_fmin(elapsed, p->bar_seconds);
    record->financing = trading_financing(p, state, record->decision_price, elapsed - held);
    const struct trading_fill fill = trading_trade(state, p, key, &bar, chosen, record);
    int traded = fill.quantity != 0.0;
    if (traded) {
        trading_book(state, &fill, record);
    }
    state->left -= 1;
    traded |= trading_settle(state, p, &fill, held, record);

    const double ruin = p->evaluate ? 0.0 : p->ruin_fraction * state->start_equity;
    record->terminated =
        p->account_ends && (record->equity_after <= ruin || (record->margin_call && !p->evaluate));
    record->truncated = !record->terminated && state->left == 0;
    record->reward = trading_reward(p, state, record);
    trading_advance(state, p, next, record->units_before, traded, record);
}

/* Asks for the market features of the next bar, which the observation copies at the step's end. */
DQN_SHARED void trading_ask_features(const struct trading_params *p, uint64_t next) {
    enum { LINE = 32 /* floats: a GPU's; a CPU brings the next one along */ };
    if (p->oracle) {
        return;
    }
    const float *row = p->features + next * TRADING_MARKET_FEATURES;
    for (int i = 0; i < TRADING_MARKET_FEATURES; i += LINE) {
        dqn_prefetch(row + i);
    }
    dqn_prefetch(row + TRADING_MARKET_FEATURES - 1);
}

/* One step, with its record. */
DQN_SHARED struct dqn_env_outcome trading_step_recorded(struct trading_state *state,
                                                        const struct trading_params *params,
                                                        const struct dqn_env_key *key,
                                                        uint32_t action, float *observation,
                                                        struct trading_step_record *record) {
    trading_ask_features(params, state->bar + 1);
    trading_step_blind(state, params, key, action, record);
    trading_observe(params, state, observation);
    struct dqn_env_outcome outcome;
    outcome.reward = (float)record->reward;
    outcome.terminated = record->terminated;
    outcome.truncated = record->truncated;
    return outcome;
}

/* One step. */
DQN_SHARED struct dqn_env_outcome trading_step(struct trading_state *state,
                                               const struct trading_params *params,
                                               const struct dqn_env_key *key, uint32_t action,
                                               float *observation) {
    struct trading_step_record record;
    return trading_step_recorded(state, params, key, action, observation, &record);
}

#endif
