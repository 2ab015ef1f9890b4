#include "trading_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ou_optimum.h"

/* ---- policies without skill
 * --------------------------------------------------------------------------- */

enum { FLAT = 18, MARKET_NORMAL_LONG = 37, MARKET_NORMAL_SHORT = 1, ACTIONS = 45 };

static uint32_t fixed_action(void *context, const float *observation, uint64_t step) {
    (void)observation;
    (void)step;
    return *(const uint32_t *)context;
}

static uint32_t random_action(void *context, const float *observation, uint64_t step) {
    const uint64_t run = *(const uint64_t *)context;
    (void)observation;
    const struct dqn_u32x4 block = dqn_rng_block(1, dqn_rng_stream(DQN_RNG_BASELINE, run), step);
    return (uint32_t)dqn_rng_below(dqn_rng_u64(block, 0), ACTIONS);
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

/* ---- passes
 * ------------------------------------------------------------------------------------------- */

static enum dqn_status run_pass(const struct trading_params *params, dqn_trading_policy policy,
                                void *context, struct dqn_track *track) {
    const struct dqn_env_key key = {
        .seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), .episode = 0};
    DQN_TRY(dqn_track_create(track, (size_t)params->transitions + 2));
    DQN_TRY(dqn_trading_run(params, key, policy, context, dqn_track_add, track, NULL));
    return track->failed ? dqn_fail(DQN_ERR_INTERNAL, "a pass had more steps than planned")
                         : DQN_OK;
}

static enum dqn_status run_figures(const struct trading_params *params, dqn_trading_policy policy,
                                   void *context, double bars_per_year, double risk_free,
                                   struct dqn_performance *out) {
    struct dqn_track track;
    const enum dqn_status status = run_pass(params, policy, context, &track);
    if (status == DQN_OK) {
        dqn_performance_compute(&track, bars_per_year, risk_free, out);
    }
    dqn_track_destroy(&track);
    return status;
}

static enum dqn_status run_random(struct dqn_trading_report *r, const struct trading_params *params,
                                  const struct dqn_config_report *config) {
    double *logs = NULL;
    r->random_runs = (size_t)config->random_runs;
    if (r->random_runs == 0) {
        r->random_mean = r->random_low = r->random_high = r->random_percentile = NAN;
        return DQN_OK;
    }
    DQN_TRY(dqn_alloc((void **)&logs, r->random_runs, sizeof(double), "random runs"));
    enum dqn_status status = DQN_OK;
    size_t below = 0;
    for (uint64_t i = 0; i < r->random_runs; i++) {
        struct dqn_performance p;
        DQN_TRY_GOTO(
            run_figures(params, random_action, &i, r->bars_per_year, config->risk_free, &p));
        logs[i] = p.log_return;
        below += p.log_return < r->agent.log_return;
        r->random_mean += p.log_return / (double)r->random_runs;
        r->random_turnover += p.turnover / (double)r->random_runs;
    }
    r->random_percentile = 100.0 * (double)below / (double)r->random_runs;
    r->random_low = dqn_quantile(logs, r->random_runs, 0.05);
    r->random_high = dqn_quantile(logs, r->random_runs, 0.95);
done:
    free(logs);
    return status;
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
        run_pass(&seeing, threshold_action, &r->optimum_threshold, &track);
    if (status == DQN_OK) {
        r->optimum_reward = track.reward_sum / (double)track.n;
        r->agent_reward = r->track.reward_sum / (double)r->track.n;
    }
    dqn_track_destroy(&track);
    return status;
}

static enum dqn_status run_all(struct dqn_trading_report *r, const struct dqn_config *config,
                               const struct dqn_market *market, dqn_trading_policy policy,
                               void *context) {
    static uint32_t flat = FLAT, longs = MARKET_NORMAL_LONG, shorts = MARKET_NORMAL_SHORT;
    struct trading_params params;
    const double year = r->bars_per_year, rf = config->report.risk_free;
    DQN_TRY(dqn_trading_params(&params, config, market, NULL, DQN_TRADING_EVAL, r->split, 1));
    DQN_TRY(run_pass(&params, policy, context, &r->track));
    r->bars = r->track.n;
    r->first_time_ns = market->bars.time_ns[r->track.bar[0]];
    r->last_time_ns = market->bars.time_ns[r->track.bar[r->track.n - 1]];
    dqn_performance_compute(&r->track, year, rf, &r->agent);
    DQN_TRY(
        dqn_bootstrap_compute(&r->track, year, rf, (size_t)config->report.bootstrap, &r->interval));
    DQN_TRY(run_figures(&params, fixed_action, &flat, year, rf, &r->flat));
    DQN_TRY(run_figures(&params, fixed_action, &longs, year, rf, &r->buy_hold));
    DQN_TRY(run_figures(&params, fixed_action, &shorts, year, rf, &r->short_hold));
    DQN_TRY(run_random(r, &params, &config->report));
    return run_optimum(r, config, &params, policy, context);
}

enum dqn_status dqn_trading_report_create(struct dqn_trading_report *out,
                                          const struct dqn_config *config,
                                          const struct dqn_market *market, enum dqn_split split,
                                          dqn_trading_policy policy, void *context) {
    *out = (struct dqn_trading_report){.split = split,
                                       .bars_per_year = market->bars_per_year,
                                       .bars_per_year_set = market->bars_per_year_set};
    const enum dqn_status status = run_all(out, config, market, policy, context);
    if (status != DQN_OK) {
        dqn_trading_report_destroy(out);
    }
    return status;
}

void dqn_trading_report_destroy(struct dqn_trading_report *report) {
    dqn_track_destroy(&report->track);
}

/* ---- text
 * --------------------------------------------------------------------------------------------- */

static const char *const split_names[] = {"train", "validation", "test"};

static void format_day(char text[32], int64_t time_ns) {
    const time_t seconds = (time_t)(time_ns / 1000000000);
    struct tm day;
    gmtime_r(&seconds, &day);
    strftime(text, 32, "%Y-%m-%d", &day);
}

static void print_number(FILE *out, const char *format, double value) {
    if (isfinite(value)) {
        fprintf(out, format, value);
    } else {
        fprintf(out, "%9s", "n/a");
    }
}

static void print_row(FILE *out, const char *name, const struct dqn_performance *p) {
    fprintf(out, "  %-15s", name);
    print_number(out, " %8.2f%%", 100.0 * p->total_return);
    print_number(out, " %8.2f ", p->sharpe);
    print_number(out, " %8.2f%%", 100.0 * p->max_drawdown);
    print_number(out, " %8.1fx", p->turnover);
    print_number(out, " %8.2f ", p->exposure_abs);
    fprintf(out, "\n");
}

static void print_verdict(const struct dqn_trading_report *r, FILE *out) {
    const double low = r->interval.log_return_low, high = r->interval.log_return_high;
    if (r->agent.log_return <= 0.0) {
        fprintf(out, "Verdict: this agent LOSES money on the %s split. ", split_names[r->split]);
    } else if (low > 0.0) {
        fprintf(out, "Verdict: this agent earns more than staying flat; chance is an unlikely "
                     "explanation. ");
    } else {
        fprintf(out, "Verdict: this agent earned, but its 95 %% interval reaches below zero: no "
                     "proof of skill. ");
    }
    if (r->random_runs > 0) {
        fprintf(out, "It ends above %.0f %% of %zu random runs.", r->random_percentile,
                r->random_runs);
    }
    fprintf(out, "\n");
    if (isfinite(low)) {
        fprintf(out, "95 %% interval of the return: %.2f%% to %.2f%%; buy and hold made %.2f%%.\n",
                100.0 * expm1(low), 100.0 * expm1(high), 100.0 * r->buy_hold.total_return);
    }
    if (r->agent.constant_policy) {
        fprintf(out, "Warning: one action was taken in at least 99 %% of the bars: a constant "
                     "policy.\n");
    }
}

static void print_costs(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_track *t = &r->track;
    const double bp = t->traded > 0.0 ? 1e4 / t->traded : NAN;
    fprintf(out, "Costs: %.2f in all", r->agent.costs);
    if (t->traded > 0.0) {
        fprintf(out, " (%.2f bp of what was traded)", r->agent.costs * bp);
    }
    fprintf(out,
            ": fees %.2f, half-spread %.2f, slippage %.2f, impact %.2f, financing %.2f; price "
            "profit before costs %.2f.\n",
            t->fees, t->spread, t->slippage, t->impact, t->financing, t->price_pnl);
    fprintf(out, "Orders: %llu sent, %llu filled; %llu margin calls. Ledger residual %.1e.\n",
            (unsigned long long)t->orders_sent, (unsigned long long)t->orders_filled,
            (unsigned long long)t->margin_calls, t->ledger_residual);
}

void dqn_trading_report_print(const struct dqn_trading_report *r, FILE *out) {
    char first[32], last[32];
    format_day(first, r->first_time_ns);
    format_day(last, r->last_time_ns);
    fprintf(out, "\nTrading report: %s split, %zu bars from %s to %s, %.0f bars a year (%s)\n",
            split_names[r->split], r->bars, first, last, r->bars_per_year,
            r->bars_per_year_set ? "as configured" : "measured");
    print_verdict(r, out);
    fprintf(out, "  %-15s %9s %9s %9s %9s %9s\n", "", "return", "Sharpe", "drawdown", "turnover",
            "exposure");
    print_row(out, "agent", &r->agent);
    print_row(out, "flat", &r->flat);
    print_row(out, "buy and hold", &r->buy_hold);
    print_row(out, "short and hold", &r->short_hold);
    if (r->random_runs > 0) {
        fprintf(out, "  %-15s %8.2f%%  (5 %% to 95 %%: %.2f%% to %.2f%%)\n", "random, mean",
                100.0 * expm1(r->random_mean), 100.0 * expm1(r->random_low),
                100.0 * expm1(r->random_high));
    }
    print_costs(r, out);
    if (r->has_optimum) {
        fprintf(
            out,
            "Known optimum of this market (threshold %.2f): %.5f a bar; the agent's mean reward "
            "%.5f is %.1f %% of it.\n",
            r->optimum_threshold, r->optimum_reward, r->agent_reward,
            100.0 * r->agent_reward / r->optimum_reward);
    }
}

/* ---- JSON
 * --------------------------------------------------------------------------------------------- */

static void json_number(FILE *out, const char *name, double value, const char *after) {
    if (isfinite(value)) {
        fprintf(out, "\"%s\": %.10g%s", name, value, after);
    } else {
        fprintf(out, "\"%s\": null%s", name, after);
    }
}

static void json_performance(FILE *out, const char *name, const struct dqn_performance *p) {
    fprintf(out, "\"%s\": {", name);
    json_number(out, "total_return", p->total_return, ", ");
    json_number(out, "log_return", p->log_return, ", ");
    json_number(out, "sharpe", p->sharpe, ", ");
    json_number(out, "sortino", p->sortino, ", ");
    json_number(out, "max_drawdown", p->max_drawdown, ", ");
    json_number(out, "turnover", p->turnover, ", ");
    json_number(out, "exposure", p->exposure_abs, ", ");
    json_number(out, "costs", p->costs, "}, ");
}

void dqn_trading_report_json(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "{\"split\": \"%s\", \"bars\": %zu, ", split_names[r->split], r->bars);
    json_number(out, "bars_per_year", r->bars_per_year, ", ");
    json_performance(out, "agent", &r->agent);
    json_performance(out, "buy_hold", &r->buy_hold);
    json_performance(out, "short_hold", &r->short_hold);
    json_number(out, "interval_low", r->interval.log_return_low, ", ");
    json_number(out, "interval_high", r->interval.log_return_high, ", ");
    json_number(out, "random_mean", r->random_mean, ", ");
    json_number(out, "random_high", r->random_high, ", ");
    json_number(out, "random_percentile", r->random_percentile, ", ");
    json_number(out, "optimum_reward", r->has_optimum ? r->optimum_reward : NAN, ", ");
    json_number(out, "agent_reward", r->has_optimum ? r->agent_reward : NAN, ", ");
    json_number(out, "optimum_threshold", r->has_optimum ? r->optimum_threshold : NAN, ", ");
    json_number(out, "agent_threshold", r->sees_hidden ? r->agent_threshold : NAN, ", ");
    json_number(out, "agreement", r->sees_hidden ? r->agreement : NAN, ", ");
    json_number(out, "agent_turnover", r->agent.turnover, ", ");
    json_number(out, "random_turnover", r->random_turnover, ", ");
    json_number(out, "ledger_residual", r->track.ledger_residual, "}\n");
}
