/* What a report is made of: the agent's pass, and what it is compared with. */
#include "trading_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../parallel.h"
#include "hindsight.h"
#include "ou_optimum.h"
#include "report_passes.h"

enum { FLAT = 18, MARKET_NORMAL_LONG = 37, MARKET_NORMAL_SHORT = 1 };

/* ---- the known optimum ----------------------------------------------------------------------- */

/* The threshold policy of the ou market; the oracle observation holds X and the exposure. */
static uint32_t threshold_action(void *context, const float *observation, uint64_t step) {
    (void)step;
    const double q = dqn_ou_exposure(*(const double *)context, observation[0], observation[1]);
    if (fabs(q - (double)observation[1]) < 0.25) {
        return (uint32_t)(9.0 * (2.0 + 2.0 * q)) + 1;
    }
    return q > 0.0 ? MARKET_NORMAL_LONG : MARKET_NORMAL_SHORT;
}

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

/* The ou market has a known best policy; the agent is compared with it on the same path. Where its
 * thresholds lie is asked of one network, so not of a walk-forward. */
static enum dqn_status run_optimum(struct dqn_trading_report *r, const struct dqn_config *config,
                                   const struct trading_params *params,
                                   const struct dqn_pass_policy *policy) {
    r->has_optimum = params->hidden != NULL && config->synthetic.market == DQN_MARKET_OU &&
                     params->fixed_notional != 0 && params->fixed_cost >= 0.0;
    if (!r->has_optimum) {
        return DQN_OK;
    }
    const struct dqn_ou_problem problem = {.phi = config->synthetic.ou_phi,
                                           .kappa = params->fixed_cost / config->synthetic.ou_std,
                                           .gamma = config->learner.gamma};
    DQN_TRY(dqn_ou_threshold(&problem, &r->optimum_threshold));
    r->sees_hidden = params->oracle != 0 && r->n_folds == 0;
    if (r->sees_hidden) {
        struct asked_policy asked = {policy->choose, policy->context[0]};
        dqn_ou_judge(r->optimum_threshold, ask_exposure, &asked, &r->agent_threshold,
                     &r->agreement);
    }
    struct trading_params seeing = *params;
    seeing.oracle = 1;
    struct dqn_track track;
    void *const context[] = {&r->optimum_threshold};
    const struct dqn_pass_policy best = {.choose = threshold_action, .context = context};
    const enum dqn_status status = dqn_pass_run(r, &seeing, &best, 0.0, &track, NULL, NULL);
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
    char *text = r->costs_text, scaled[48] = "";
    const size_t size = sizeof r->costs_text;
    if (fill->cost_scale != 1.0) {
        snprintf(scaled, sizeof scaled, "; all of it times %.4g", fill->cost_scale);
    }
    if (fill->fixed_cost >= 0.0) {
        snprintf(text, size, "every order fills at the open for %.4g bp of its notional",
                 1e4 * fill->fixed_cost * fill->cost_scale);
        return;
    }
    snprintf(text, size,
             "taker fee %.4g bp, maker fee %.4g bp, half-spread %s%.4g bp, slippage %.4g bp + %.4g "
             "of the bar volatility, impact %.4g; short positions pay %.4g %% a year, borrowed "
             "money %.4g %%%s; orders execute %s%s",
             fill->taker_bps, fill->maker_bps,
             r->market->bars.half_spread != NULL ? "of the data, else " : "", fill->half_spread_bps,
             fill->slip_bps, fill->slip_vol, fill->impact, 100.0 * fill->borrow_rate,
             100.0 * fill->leverage_rate, scaled,
             fill->timing == DQN_FILL_CLOSE ? "at the close that was decided on (for comparison "
                                              "only)"
                                            : "in the bar after the decision",
             fill->latency_bars > 0 ? ", one bar late" : "");
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* The figures of the agent's steps [first, first + n). */
static enum dqn_status fold_figures(const struct dqn_trading_report *r,
                                    struct dqn_report_fold *fold) {
    struct dqn_track track;
    DQN_TRY(dqn_track_create(&track, fold->n_steps > 0 ? fold->n_steps : 1));
    for (size_t i = 0; i < fold->n_steps; i++) {
        dqn_track_add(&track, &r->records[fold->first_step + i]);
    }
    dqn_performance_compute(&track, r->bars_per_year, r->risk_free, &fold->figures);
    if (fold->n_steps > 0) {
        fold->figures.sharpe_daily =
            dqn_sharpe_daily(&track, r->market->bars.time_ns, r->bars_per_year, r->risk_free);
    }
    dqn_track_destroy(&track);
    return DQN_OK;
}

/* Return of a baseline over `n` steps from `first` of the whole pass. */
static double held_return(const struct dqn_track *track, size_t first, size_t n) {
    if (first + n > track->n) {
        return NAN; /* it was ruined */
    }
    const double before = first == 0 ? track->start_equity : track->equity[first - 1];
    return track->equity[first + n - 1] / before - 1.0;
}

const char *dqn_seed_choice(size_t n_seeds) {
    return n_seeds % 2 == 1 ? "median" : "lower median";
}

const struct dqn_report_seed *dqn_report_fold_chosen(const struct dqn_report_fold *fold) {
    size_t i = 0;
    while (i + 1 < fold->n_seeds && !fold->seeds[i].chosen) {
        i++;
    }
    return &fold->seeds[i];
}

static enum dqn_status find_folds(struct dqn_trading_report *r) {
    size_t first = 0;
    if (r->n_folds == 0) {
        return DQN_OK;
    }
    DQN_TRY(dqn_alloc((void **)&r->fold_start, r->n_folds, sizeof *r->fold_start, "folds"));
    for (size_t i = 0; i < r->n_folds; i++) {
        struct dqn_report_fold *fold = &r->folds[i];
        const size_t planned = (size_t)fold->part.transitions;
        const size_t left = r->bars > first ? r->bars - first : 0;
        r->fold_start[i] = (double)first / (double)r->split_bars;
        fold->first_step = first;
        fold->n_steps = left < planned ? left : planned;
        DQN_TRY(fold_figures(r, fold));
        fold->buy_hold_return = held_return(&r->buy_hold.track, first, planned);
        first += planned;
    }
    return DQN_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum dqn_status run_agent(struct dqn_trading_report *r, const struct dqn_config *config,
                                 const struct trading_params *params,
                                 const struct dqn_pass_policy *policy) {
    const double year = r->bars_per_year, rf = config->report.risk_free;
    DQN_TRY(
        dqn_alloc((void **)&r->records, r->split_bars, sizeof *r->records, "the agent's steps"));
    DQN_TRY(dqn_pass_run(r, params, policy, rf, &r->track, r->records, &r->agent));
    r->bars = r->track.n;
    r->ruined = r->records[r->bars - 1].terminated != 0;
    r->ruin_time_ns = r->market->bars.time_ns[r->track.bar[r->bars - 1]];
    DQN_TRY(dqn_bootstrap_compute(&r->track, year, rf, (size_t)config->report.bootstrap,
                                  (size_t)config->run.threads, &r->interval));
    DQN_TRY(dqn_sharpe_test_compute(&r->track, year, rf, r->trials, &r->sharpe_test));
    DQN_TRY(dqn_trades_find(r->records, r->bars, &r->trades));
    dqn_trades_figures(&r->trades, &r->trade_figures);
    dqn_order_figures_compute(r->records, r->bars, &r->orders);
    check_reward(r, &config->reward);
    return DQN_OK;
}

/* Staying flat passes every bar of the split. */
static enum dqn_status run_baselines(struct dqn_trading_report *r, const struct dqn_config *config,
                                     const struct trading_params *params) {
    const double rf = config->report.risk_free;
    DQN_TRY(dqn_pass_run_fixed(r, params, FLAT, rf, &r->flat));
    DQN_TRY(dqn_pass_run_fixed(r, params, MARKET_NORMAL_LONG, rf, &r->buy_hold));
    DQN_TRY(dqn_pass_run_fixed(r, params, MARKET_NORMAL_SHORT, rf, &r->short_hold));
    r->first_time_ns = r->market->bars.time_ns[r->flat.track.bar[0]];
    r->last_time_ns = r->market->bars.time_ns[r->flat.track.bar[r->flat.track.n - 1]];
    return DQN_OK;
}

static enum dqn_status run_all(struct dqn_trading_report *r, const struct dqn_config *config,
                               const struct dqn_pass_policy *policy) {
    struct trading_params params;
    DQN_TRY(dqn_trading_params(&params, config, r->market, NULL, DQN_TRADING_EVAL, r->split, 1));
    DQN_TRY(run_agent(r, config, &params, policy));
    DQN_TRY(run_baselines(r, config, &params));
    DQN_TRY(find_folds(r));
    dqn_relation_compute(&r->track, &r->buy_hold.track, r->bars_per_year, r->risk_free,
                         &r->relation);
    if (config->report.random_runs > 0) {
        DQN_TRY(dqn_random_run(r, &params, (size_t)config->report.random_runs,
                               (size_t)config->run.threads, NULL, &r->random));
    }
    return run_optimum(r, config, &params, policy);
}

static enum dqn_status create(struct dqn_trading_report *out, const struct dqn_config *config,
                              const struct dqn_pass_policy *policy) {
    const struct dqn_market *market = out->market;
    out->trials = 1.0;
    out->bars_per_year = market->bars_per_year;
    out->bars_per_year_set = market->bars_per_year_set;
    out->risk_free = config->report.risk_free;
    out->part = (struct dqn_report_part){.ranges = market->ranges + market->range_first[out->split],
                                         .n_ranges = market->range_count[out->split],
                                         .transitions = market->transitions[out->split],
                                         .median_volume = market->median_volume};
    for (size_t i = 0; i < dqn_report_parts(out); i++) {
        out->split_bars += (size_t)dqn_report_part(out, i)->transitions;
    }
    dqn_random_none(&out->random);
    dqn_random_none(&out->random_same);
    out->hindsight = (struct dqn_report_hindsight){NAN, NAN, NAN};
    describe_costs(out, &config->fill);
    const enum dqn_status status = run_all(out, config, policy);
    if (status != DQN_OK) {
        dqn_trading_report_destroy(out);
        return status;
    }
    dqn_trading_report_judge(out);
    return DQN_OK;
}

enum dqn_status dqn_trading_report_create(struct dqn_trading_report *out,
                                          const struct dqn_config *config,
                                          const struct dqn_market *market, enum dqn_split split,
                                          dqn_trading_policy policy, void *context) {
    void *const contexts[] = {context};
    const struct dqn_pass_policy one = {.choose = policy, .context = contexts};
    *out = (struct dqn_trading_report){.market = market, .split = split};
    return create(out, config, &one);
}

enum dqn_status dqn_trading_report_create_walk(struct dqn_trading_report *out,
                                               const struct dqn_config *config,
                                               const struct dqn_market *market,
                                               const struct dqn_report_walk *walk,
                                               struct dqn_report_fold *folds, size_t n_folds,
                                               dqn_trading_policy policy, void *const *contexts) {
    const struct dqn_pass_policy each = {.choose = policy, .context = contexts, .each = true};
    *out = (struct dqn_trading_report){.market = market,
                                       .split = DQN_SPLIT_TEST,
                                       .walk = *walk,
                                       .folds = folds,
                                       .n_folds = n_folds};
    return create(out, config, &each);
}

void dqn_trading_report_trained_on(struct dqn_trading_report *r, const char *sha256) {
    snprintf(r->trained_sha256, sizeof r->trained_sha256, "%s", sha256 != NULL ? sha256 : "");
    r->data_changed =
        r->trained_sha256[0] != '\0' && strcmp(r->trained_sha256, r->market->bars.info.sha256) != 0;
    dqn_trading_report_judge(r);
}

void dqn_trading_report_destroy(struct dqn_trading_report *report) {
    dqn_track_destroy(&report->track);
    dqn_track_destroy(&report->flat.track);
    dqn_track_destroy(&report->buy_hold.track);
    dqn_track_destroy(&report->short_hold.track);
    dqn_trades_free(&report->trades);
    dqn_random_free(&report->random);
    dqn_random_free(&report->random_same);
    free(report->fold_start);
    free(report->records);
    report->fold_start = NULL;
    report->records = NULL;
}

/* ---- other assumptions ----------------------------------------------------------------------- */

static enum dqn_status run_changed(struct dqn_trading_report *r, const struct dqn_config *changed,
                                   const char *name, const struct dqn_pass_policy *policy) {
    struct trading_params params;
    struct dqn_track track = {0};
    struct dqn_sensitivity *line = &r->sensitivity[r->n_sensitivities];
    line->name = name;
    DQN_TRY(dqn_trading_params(&params, changed, r->market, NULL, DQN_TRADING_EVAL, r->split, 1));
    const enum dqn_status status =
        dqn_pass_run(r, &params, policy, r->risk_free, &track, NULL, &line->figures);
    dqn_track_destroy(&track);
    r->n_sensitivities += status == DQN_OK;
    return status;
}

static enum dqn_status run_sensitivities(struct dqn_trading_report *r,
                                         const struct dqn_config *config,
                                         const struct dqn_pass_policy *policy) {
    struct dqn_config *changed = NULL;
    DQN_TRY(dqn_alloc((void **)&changed, 1, sizeof *changed, "a configuration"));
    enum dqn_status status = DQN_OK;
    r->n_sensitivities = 0;
    *changed = *config;
    changed->fill.cost_scale = 0.0;
    DQN_TRY_GOTO(run_changed(r, changed, "no costs", policy));
    changed->fill.cost_scale = 2.0 * config->fill.cost_scale;
    DQN_TRY_GOTO(run_changed(r, changed, "costs doubled", policy));
    *changed = *config;
    if (config->fill.latency_bars == 0) { /* one bar is the most there is */
        changed->fill.latency_bars = 1;
        DQN_TRY_GOTO(run_changed(r, changed, "orders one bar later", policy));
    }
    *changed = *config;
    changed->fill.touch_fill = 0.0;
    DQN_TRY_GOTO(run_changed(r, changed, "touched limits never fill", policy));
    changed->fill.touch_fill = 1.0;
    DQN_TRY_GOTO(run_changed(r, changed, "touched limits always fill", policy));
done:
    free(changed);
    return status;
}

/* What the parts make of an account. */
struct best_parts {
    const struct dqn_trading_report *report;
    const struct trading_params *params;
    double *equity; /* [parts] */
};

static enum dqn_status best_part(void *context, size_t i) {
    const struct best_parts *parts = context;
    const struct trading_params own =
        dqn_part_params(parts->params, dqn_report_part(parts->report, i));
    return dqn_hindsight_run(&own, &parts->equity[i], NULL);
}

/* Wealth after all parts, chained as the agent's account is. */
static double chained(const struct best_parts *parts, size_t n) {
    double wealth = 1.0;
    for (size_t i = 0; i < n; i++) {
        const double grown = parts->equity[i] / parts->params->initial_equity;
        wealth = parts->params->fixed_notional != 0 ? wealth + grown - 1.0 : wealth * grown;
    }
    return wealth;
}

static enum dqn_status run_hindsight(struct dqn_trading_report *r,
                                     const struct trading_params *params, size_t threads) {
    const size_t n = dqn_report_parts(r);
    struct best_parts parts = {.report = r, .params = params};
    DQN_TRY(dqn_alloc((void **)&parts.equity, n, sizeof *parts.equity, "accounts with hindsight"));
    const enum dqn_status status = dqn_parallel(threads, n, best_part, &parts);
    const double wealth = status == DQN_OK ? chained(&parts, n) : NAN;
    free(parts.equity);
    DQN_TRY(status);
    struct dqn_report_hindsight *h = &r->hindsight;
    const bool adds = params->fixed_notional != 0;
    h->total_return = adds ? wealth - 1.0 : NAN;
    h->log_return = !adds && wealth > 0.0 ? log(wealth) : NAN;
    const double best = adds ? h->total_return : h->log_return;
    const double agent = adds ? r->agent.total_return : r->agent.log_return;
    h->share = best > 0.0 ? agent / best : NAN;
    return DQN_OK;
}

enum dqn_status dqn_trading_report_extend(struct dqn_trading_report *r,
                                          const struct dqn_config *config,
                                          dqn_trading_policy policy, void *const *contexts,
                                          double trials) {
    const struct dqn_pass_policy agent = {
        .choose = policy, .context = contexts, .each = r->n_folds > 0};
    struct trading_params params;
    r->trials = trials;
    DQN_TRY(dqn_sharpe_test_compute(&r->track, r->bars_per_year, config->report.risk_free, trials,
                                    &r->sharpe_test));
    DQN_TRY(dqn_trading_params(&params, config, r->market, NULL, DQN_TRADING_EVAL, r->split, 1));
    if (config->report.random_runs > 0) {
        dqn_random_free(&r->random_same);
        DQN_TRY(dqn_random_run(r, &params, (size_t)config->report.random_runs,
                               (size_t)config->run.threads, &r->track.actions[0][0],
                               &r->random_same));
    }
    DQN_TRY(run_hindsight(r, &params, (size_t)config->run.threads));
    DQN_TRY(run_sensitivities(r, config, &agent));
    dqn_trading_report_judge(r);
    return DQN_OK;
}
