/* The passes of a report: the agent, and what it is compared with. */
#include "trading_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ou_optimum.h"

/* ---- policies without skill ------------------------------------------------------------------ */

enum { FLAT = 18, MARKET_NORMAL_LONG = 37, MARKET_NORMAL_SHORT = 1 };

static uint32_t fixed_action(void *context, const float *observation, uint64_t step) {
    (void)observation;
    (void)step;
    return *(const uint32_t *)context;
}

/* Draws actions by cumulated counts; all equal where the policy is to be uniform. */
struct drawn_policy {
    uint64_t run;
    uint64_t up_to[TRADING_ACTIONS]; /* counts of this action and all before it */
};

static uint32_t drawn_action(void *context, const float *observation, uint64_t step) {
    const struct drawn_policy *drawn = context;
    (void)observation;
    const struct dqn_u32x4 block =
        dqn_rng_block(1, dqn_rng_stream(DQN_RNG_BASELINE, drawn->run), step);
    const uint64_t draw = dqn_rng_below(dqn_rng_u64(block, 0), drawn->up_to[TRADING_ACTIONS - 1]);
    uint32_t action = 0;
    while (drawn->up_to[action] <= draw) {
        action++;
    }
    return action;
}

/* The threshold policy of the ou market; the oracle observation holds X and the exposure. */
static uint32_t threshold_action(void *context, const float *observation, uint64_t step) {
    (void)step;
    const double q = dqn_ou_exposure(*(const double *)context, observation[0], observation[1]);
    if (fabs(q - (double)observation[1]) < 0.25) {
        return (uint32_t)(9.0 * (2.0 + 2.0 * q)) + 1;
    }
    return q > 0.0 ? MARKET_NORMAL_LONG : MARKET_NORMAL_SHORT;
}

/* ---- one pass -------------------------------------------------------------------------------- */

/* Takes a step's record for the track, and whole where `records` is given. */
struct pass_sink {
    struct dqn_track *track;
    struct trading_step_record *records;
};

static void take_record(void *context, const struct trading_step_record *record) {
    const struct pass_sink *sink = context;
    if (sink->records != NULL && sink->track->n < sink->track->capacity) {
        sink->records[sink->track->n] = *record;
    }
    dqn_track_add(sink->track, record);
}

/* Runs a pass; `state`, where not NULL, is what it ends in. */
static enum dqn_status run_pass(const struct trading_params *params, dqn_trading_policy policy,
                                void *context, struct dqn_track *track,
                                struct trading_step_record *records, struct trading_state *state) {
    const struct dqn_env_key key = {
        .seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), .episode = 0};
    struct pass_sink sink = {track, records};
    DQN_TRY(dqn_track_create(track, (size_t)params->transitions));
    DQN_TRY(dqn_trading_run(params, key, policy, context, take_record, &sink, state));
    return track->failed ? dqn_fail(DQN_ERR_INTERNAL, "a pass had more steps than planned")
                         : DQN_OK;
}

/* What closing the last position at the last close would leave. */
static void close_last(const struct trading_params *params, const struct trading_state *end,
                       struct dqn_performance *out) {
    struct trading_state state = *end;
    struct trading_step_record record;
    struct trading_bar bar;
    trading_clear_record(&record);
    if (state.units != 0.0) {
        trading_load_bar(params, state.bar, &bar);
        trading_bar_costs(params, state.bar, &bar);
        trading_close_at(params, &state, &bar, bar.close, &record);
        state.equity = state.cash;
    }
    out->closing_cost = record.fees + record.spread + record.slippage + record.impact;
    out->closed_return = state.equity / params->initial_equity - 1.0;
}

/* A pass and all its figures. The track is the caller's to destroy, also after an error. */
static enum dqn_status run_figures(const struct dqn_trading_report *r,
                                   const struct trading_params *params, dqn_trading_policy policy,
                                   void *context, double risk_free, struct dqn_track *track,
                                   struct trading_step_record *records,
                                   struct dqn_performance *out) {
    struct trading_state end;
    DQN_TRY(run_pass(params, policy, context, track, records, &end));
    dqn_performance_compute(track, r->bars_per_year, risk_free, out);
    close_last(params, &end, out);
    out->sharpe_daily =
        dqn_sharpe_daily(track, r->market->bars.time_ns, r->bars_per_year, risk_free);
    return DQN_OK;
}

/* ---- random runs ----------------------------------------------------------------------------- */

/* Equity at the band's points: rows of `grid` are points, columns runs. */
static void keep_band(const struct dqn_track *track, size_t bars, size_t run, size_t runs,
                      double *grid) {
    for (size_t point = 0; point < DQN_REPORT_BAND; point++) {
        size_t at = point * (bars - 1) / (DQN_REPORT_BAND - 1);
        at = at < track->n ? at : track->n - 1;
        grid[point * runs + run] = track->equity[at];
    }
}

static enum dqn_status one_random(const struct dqn_trading_report *r,
                                  const struct trading_params *params, struct drawn_policy *drawn,
                                  struct dqn_random_runs *out, double *grid) {
    struct dqn_track track;
    struct dqn_performance p = {0};
    const enum dqn_status status = run_pass(params, drawn_action, drawn, &track, NULL, NULL);
    if (status == DQN_OK) {
        dqn_performance_compute(&track, r->bars_per_year, 0.0, &p);
        keep_band(&track, r->bars, (size_t)drawn->run, out->runs, grid);
        out->log_return[drawn->run] = p.log_return;
        out->turnover += p.turnover / (double)out->runs;
        out->mean += p.log_return / (double)out->runs;
        out->percentile += p.log_return < r->agent.log_return ? 100.0 / (double)out->runs : 0.0;
    }
    dqn_track_destroy(&track);
    return status;
}

/* Draws by `counts`, or uniformly where that is NULL. */
static enum dqn_status run_random(const struct dqn_trading_report *r,
                                  const struct trading_params *params, size_t runs,
                                  const uint64_t *counts, struct dqn_random_runs *out) {
    struct drawn_policy drawn = {0};
    double *grid = NULL;
    uint64_t sum = 0;
    enum dqn_status status = DQN_OK;
    for (size_t a = 0; a < TRADING_ACTIONS; a++) {
        sum += counts != NULL ? counts[a] : 1;
        drawn.up_to[a] = sum;
    }
    *out = (struct dqn_random_runs){.runs = runs};
    DQN_TRY_GOTO(dqn_alloc((void **)&out->log_return, runs, sizeof(double), "random runs"));
    DQN_TRY_GOTO(dqn_alloc((void **)&out->band_low, DQN_REPORT_BAND, sizeof(double), "a band"));
    DQN_TRY_GOTO(dqn_alloc((void **)&out->band_high, DQN_REPORT_BAND, sizeof(double), "a band"));
    DQN_TRY_GOTO(dqn_alloc((void **)&grid, runs * DQN_REPORT_BAND, sizeof(double), "a band"));
    for (drawn.run = 0; drawn.run < runs; drawn.run++) {
        DQN_TRY_GOTO(one_random(r, params, &drawn, out, grid));
    }
    out->low = dqn_quantile(out->log_return, runs, 0.05);
    out->high = dqn_quantile(out->log_return, runs, 0.95);
    for (size_t point = 0; point < DQN_REPORT_BAND; point++) {
        out->band_low[point] = dqn_quantile(grid + point * runs, runs, 0.05);
        out->band_high[point] = dqn_quantile(grid + point * runs, runs, 0.95);
    }
done:
    free(grid);
    return status;
}

static void no_random(struct dqn_random_runs *out) {
    *out = (struct dqn_random_runs){
        .mean = NAN, .low = NAN, .high = NAN, .turnover = NAN, .percentile = NAN};
}

static void free_random(struct dqn_random_runs *random) {
    free(random->log_return);
    free(random->band_low);
    free(random->band_high);
    *random = (struct dqn_random_runs){0};
}

/* ---- the known optimum ----------------------------------------------------------------------- */

/* The agent's own policy, asked about states of the hidden price. */
struct asked_policy {
    dqn_trading_policy policy;
    void *context;
};

static double ask_exposure(void *context, double x, double exposure_before) {
    const struct asked_policy *asked = context;
    float observation[TRADING_FEATURES] = {(float)x, (float)exposure_before};
    const uint32_t action = asked->policy(asked->context, observation, 0);
    return ((double)(action / DQN_ORDER_CELLS) - 2.0) / 2.0;
}

/* The ou market has a known best policy; the agent is compared with it on the same path. */
static enum dqn_status run_optimum(struct dqn_trading_report *r, const struct dqn_config *config,
                                   const struct trading_params *params, dqn_trading_policy policy,
                                   void *context) {
    r->has_optimum = params->hidden != NULL && config->synthetic.market == DQN_MARKET_OU &&
                     params->fixed_notional != 0 && params->fixed_cost >= 0.0;
    if (!r->has_optimum) {
        return DQN_OK;
    }
    const struct dqn_ou_problem problem = {.phi = config->synthetic.ou_phi,
                                           .kappa = params->fixed_cost / config->synthetic.ou_std,
                                           .gamma = config->learner.gamma};
    DQN_TRY(dqn_ou_threshold(&problem, &r->optimum_threshold));
    r->sees_hidden = params->oracle != 0;
    if (r->sees_hidden) {
        struct asked_policy asked = {policy, context};
        dqn_ou_judge(r->optimum_threshold, ask_exposure, &asked, &r->agent_threshold,
                     &r->agreement);
    }
    struct trading_params seeing = *params;
    seeing.oracle = 1;
    struct dqn_track track;
    const enum dqn_status status =
        run_pass(&seeing, threshold_action, &r->optimum_threshold, &track, NULL, NULL);
    if (status == DQN_OK) {
        r->optimum_reward = track.reward_sum / (double)track.n;
        r->agent_reward = r->track.reward_sum / (double)r->track.n;
    }
    dqn_track_destroy(&track);
    return status;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Rewards are told apart by the configuration; where they are not the default ones, the steps' log
 * returns, of which rewards are made, are summed instead. */
static void check_reward(struct dqn_trading_report *r, const struct dqn_config_reward *reward) {
    struct dqn_reward_check *check = &r->reward_check;
    check->from_rewards = reward->kind == DQN_REWARD_LOG_RETURN && reward->risk_aversion == 0.0 &&
                          reward->drawdown_penalty == 0.0 && r->track.clipped == 0 &&
                          reward->baseline == DQN_BASELINE_NONE;
    check->sum = check->from_rewards ? r->track.reward_sum * 100.0 / reward->scale
                                     : 100.0 * r->track.log_return_sum;
    check->expected = 100.0 * r->agent.log_return;
    check->possible = true;
    for (size_t i = 0; i < r->track.n; i++) {
        check->possible &= r->track.equity[i] > reward->ruin_floor * r->track.start_equity;
    }
    /* n roundings of about 1e-16 of 100 * |log return of a bar| */
    const double tolerance = 1e-9 * (1.0 + fabs(check->expected));
    check->holds = check->possible && fabs(check->sum - check->expected) <= tolerance;
}

static void describe_costs(struct dqn_trading_report *r, const struct dqn_config_fill *fill) {
    char *text = r->costs_text;
    const size_t size = sizeof r->costs_text;
    if (fill->fixed_cost >= 0.0) {
        snprintf(text, size, "every order fills at the open for %.4g bp of its notional",
                 1e4 * fill->fixed_cost * fill->cost_scale);
        return;
    }
    snprintf(text, size,
             "taker fee %.4g bp, maker fee %.4g bp, half-spread %s%.4g bp, slippage %.4g bp + %.4g "
             "of the bar volatility, impact %.4g; short positions pay %.4g %% a year, borrowed "
             "money %.4g %%; all times %.4g; orders execute %s%s",
             fill->taker_bps, fill->maker_bps,
             r->market->bars.half_spread != NULL ? "of the data, else " : "", fill->half_spread_bps,
             fill->slip_bps, fill->slip_vol, fill->impact, 100.0 * fill->borrow_rate,
             100.0 * fill->leverage_rate, fill->cost_scale,
             fill->timing == DQN_FILL_CLOSE ? "at the close that was decided on (for comparison "
                                              "only)"
                                            : "in the bar after the decision",
             fill->latency_bars > 0 ? ", one bar late" : "");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum dqn_status run_agent(struct dqn_trading_report *r, const struct dqn_config *config,
                                 const struct trading_params *params, dqn_trading_policy policy,
                                 void *context) {
    const double year = r->bars_per_year, rf = config->report.risk_free;
    DQN_TRY(dqn_alloc((void **)&r->records, (size_t)params->transitions, sizeof *r->records,
                      "the agent's steps"));
    DQN_TRY(run_figures(r, params, policy, context, rf, &r->track, r->records, &r->agent));
    r->bars = r->track.n;
    r->first_time_ns = r->market->bars.time_ns[r->track.bar[0]];
    r->last_time_ns = r->market->bars.time_ns[r->track.bar[r->track.n - 1]];
    DQN_TRY(
        dqn_bootstrap_compute(&r->track, year, rf, (size_t)config->report.bootstrap, &r->interval));
    DQN_TRY(dqn_sharpe_test_compute(&r->track, year, rf, r->trials, &r->sharpe_test));
    DQN_TRY(dqn_trades_find(r->records, r->bars, &r->trades));
    dqn_trades_figures(&r->trades, &r->trade_figures);
    dqn_order_figures_compute(r->records, r->bars, &r->orders);
    check_reward(r, &config->reward);
    return DQN_OK;
}

static enum dqn_status run_all(struct dqn_trading_report *r, const struct dqn_config *config,
                               dqn_trading_policy policy, void *context) {
    uint32_t flat = FLAT, longs = MARKET_NORMAL_LONG, shorts = MARKET_NORMAL_SHORT;
    struct trading_params params;
    const double rf = config->report.risk_free;
    DQN_TRY(dqn_trading_params(&params, config, r->market, NULL, DQN_TRADING_EVAL, r->split, 1));
    DQN_TRY(run_agent(r, config, &params, policy, context));
    struct dqn_report_pass *const passes[] = {&r->flat, &r->buy_hold, &r->short_hold};
    uint32_t *const actions[] = {&flat, &longs, &shorts};
    for (size_t i = 0; i < DQN_COUNT_OF(passes); i++) {
        DQN_TRY(run_figures(r, &params, fixed_action, actions[i], rf, &passes[i]->track, NULL,
                            &passes[i]->figures));
    }
    dqn_relation_compute(&r->track, &r->buy_hold.track, r->bars_per_year, rf, &r->relation);
    if (config->report.random_runs > 0) {
        DQN_TRY(run_random(r, &params, (size_t)config->report.random_runs, NULL, &r->random));
    }
    return run_optimum(r, config, &params, policy, context);
}

enum dqn_status dqn_trading_report_create(struct dqn_trading_report *out,
                                          const struct dqn_config *config,
                                          const struct dqn_market *market, enum dqn_split split,
                                          dqn_trading_policy policy, void *context) {
    *out = (struct dqn_trading_report){.split = split,
                                       .market = market,
                                       .trials = 1.0,
                                       .bars_per_year = market->bars_per_year,
                                       .bars_per_year_set = market->bars_per_year_set,
                                       .risk_free = config->report.risk_free};
    no_random(&out->random);
    no_random(&out->random_same);
    describe_costs(out, &config->fill);
    const enum dqn_status status = run_all(out, config, policy, context);
    if (status != DQN_OK) {
        dqn_trading_report_destroy(out);
        return status;
    }
    dqn_trading_report_judge(out);
    return DQN_OK;
}

void dqn_trading_report_destroy(struct dqn_trading_report *report) {
    dqn_track_destroy(&report->track);
    dqn_track_destroy(&report->flat.track);
    dqn_track_destroy(&report->buy_hold.track);
    dqn_track_destroy(&report->short_hold.track);
    dqn_trades_free(&report->trades);
    free_random(&report->random);
    free_random(&report->random_same);
    free(report->records);
    report->records = NULL;
}

/* ---- other assumptions ----------------------------------------------------------------------- */

static enum dqn_status run_changed(struct dqn_trading_report *r, const struct dqn_config *changed,
                                   const char *name, dqn_trading_policy policy, void *context) {
    struct trading_params params;
    struct dqn_track track = {0};
    struct dqn_sensitivity *line = &r->sensitivity[r->n_sensitivities];
    line->name = name;
    DQN_TRY(dqn_trading_params(&params, changed, r->market, NULL, DQN_TRADING_EVAL, r->split, 1));
    const enum dqn_status status = run_figures(
        r, &params, policy, context, changed->report.risk_free, &track, NULL, &line->figures);
    dqn_track_destroy(&track);
    r->n_sensitivities += status == DQN_OK;
    return status;
}

static enum dqn_status run_sensitivities(struct dqn_trading_report *r,
                                         const struct dqn_config *config, dqn_trading_policy policy,
                                         void *context) {
    struct dqn_config *changed = NULL;
    DQN_TRY(dqn_alloc((void **)&changed, 1, sizeof *changed, "a configuration"));
    enum dqn_status status = DQN_OK;
    r->n_sensitivities = 0;
    *changed = *config;
    changed->fill.cost_scale = 0.0;
    DQN_TRY_GOTO(run_changed(r, changed, "no costs", policy, context));
    changed->fill.cost_scale = 2.0 * config->fill.cost_scale;
    DQN_TRY_GOTO(run_changed(r, changed, "costs doubled", policy, context));
    *changed = *config;
    if (config->fill.latency_bars == 0) { /* one bar is the most there is */
        changed->fill.latency_bars = 1;
        DQN_TRY_GOTO(run_changed(r, changed, "orders one bar later", policy, context));
    }
    *changed = *config;
    changed->fill.touch_fill = 0.0;
    DQN_TRY_GOTO(run_changed(r, changed, "touched limits never fill", policy, context));
    changed->fill.touch_fill = 1.0;
    DQN_TRY_GOTO(run_changed(r, changed, "touched limits always fill", policy, context));
done:
    free(changed);
    return status;
}

enum dqn_status dqn_trading_report_extend(struct dqn_trading_report *r,
                                          const struct dqn_config *config,
                                          dqn_trading_policy policy, void *context, double trials) {
    struct trading_params params;
    r->trials = trials;
    DQN_TRY(dqn_sharpe_test_compute(&r->track, r->bars_per_year, config->report.risk_free, trials,
                                    &r->sharpe_test));
    DQN_TRY(dqn_trading_params(&params, config, r->market, NULL, DQN_TRADING_EVAL, r->split, 1));
    if (config->report.random_runs > 0) {
        free_random(&r->random_same);
        DQN_TRY(run_random(r, &params, (size_t)config->report.random_runs, &r->track.actions[0][0],
                           &r->random_same));
    }
    DQN_TRY(run_sensitivities(r, config, policy, context));
    dqn_trading_report_judge(r);
    return DQN_OK;
}
