#include "report_passes.h"

#include <math.h>
#include <stdlib.h>

#include "../parallel.h"

size_t dqn_report_parts(const struct dqn_trading_report *r) {
    return r->n_folds > 0 ? r->n_folds : 1;
}

const struct dqn_report_part *dqn_report_part(const struct dqn_trading_report *r, size_t index) {
    return r->n_folds > 0 ? &r->folds[index].part : &r->part;
}

struct trading_params dqn_part_params(const struct trading_params *params,
                                      const struct dqn_report_part *part) {
    struct trading_params own = *params;
    own.ranges = part->ranges;
    own.n_ranges = part->n_ranges;
    own.transitions = part->transitions;
    own.median_volume = part->median_volume;
    return own;
}

/* ---- one pass -------------------------------------------------------------------------------- */

/* Where a pass stands: what its parts so far made of the account. */
struct pass {
    struct dqn_track *track;
    struct trading_step_record *records; /* NULL = not kept */
    const struct dqn_pass_policy *policy;
    size_t part;
    uint64_t steps_before; /* of the parts before this one */
    double factor, offset; /* the account's money from that of an account of the part alone */
    double closing_cost, closed_factor, closed_offset; /* with each part's last position closed */
};

/* Policies see the steps of the whole pass. */
static uint32_t choose(void *context, const float *observation, uint64_t step) {
    const struct pass *pass = context;
    const struct dqn_pass_policy *policy = pass->policy;
    return policy->choose(policy->context[policy->each ? pass->part : 0], observation,
                          pass->steps_before + step);
}

/* A part's step as one of the whole account. */
static void scale_record(struct trading_step_record *record, double factor, double offset) {
    double *const money[] = {&record->equity_before, &record->equity_after, &record->adverse_equity,
                             &record->units_before,  &record->units_after,  &record->ordered,
                             &record->filled,        &record->price_pnl,    &record->fees,
                             &record->spread,        &record->slippage,     &record->impact,
                             &record->financing,     &record->forgiven,     &record->traded};
    for (size_t i = 0; i < DQN_COUNT_OF(money); i++) {
        *money[i] *= factor;
    }
    record->equity_before += offset;
    record->equity_after += offset;
    record->adverse_equity += offset;
}

static void take_record(void *context, const struct trading_step_record *record) {
    struct pass *pass = context;
    struct trading_step_record scaled = *record;
    scale_record(&scaled, pass->factor, pass->offset);
    if (pass->records != NULL && pass->track->n < pass->track->capacity) {
        pass->records[pass->track->n] = scaled;
    }
    dqn_track_add(pass->track, &scaled);
}

/* Closes what a part ended with at its last close, in the books of `closed` alone. */
static double close_last(const struct trading_params *params, const struct trading_state *end,
                         double *cost) {
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
    *cost = record.fees + record.spread + record.slippage + record.impact;
    return state.equity;
}

/* Chains a finished part: with fixed notional gains add up, else wealth multiplies. */
static void chain_part(struct pass *pass, const struct trading_params *params,
                       const struct trading_state *end) {
    double cost = 0.0;
    const double closed = close_last(params, end, &cost), start = params->initial_equity;
    pass->closing_cost += pass->factor * cost;
    if (params->fixed_notional != 0) {
        pass->offset += end->equity - start;
        pass->closed_offset += closed - start;
    } else {
        pass->factor *= end->equity / start;
        pass->closed_factor *= closed / start;
    }
}

static enum dqn_status run_parts(const struct dqn_trading_report *r,
                                 const struct trading_params *params, struct pass *pass) {
    const struct dqn_env_key key = {
        .seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0), .episode = 0};
    bool ended = false;
    for (pass->part = 0; pass->part < dqn_report_parts(r) && !ended; pass->part++) {
        const struct dqn_report_part *part = dqn_report_part(r, pass->part);
        const struct trading_params own = dqn_part_params(params, part);
        struct trading_state end;
        pass->steps_before = pass->track->n;
        DQN_TRY((pass->policy->blind ? dqn_trading_run_blind : dqn_trading_run)(
            &own, key, choose, pass, take_record, pass, &end));
        chain_part(pass, &own, &end);
        ended = pass->track->n < pass->steps_before + part->transitions;
    }
    return pass->track->failed ? dqn_fail(DQN_ERR_INTERNAL, "a pass had more steps than planned")
                               : DQN_OK;
}

enum dqn_status dqn_pass_run(const struct dqn_trading_report *r,
                             const struct trading_params *params,
                             const struct dqn_pass_policy *policy, double risk_free,
                             struct dqn_track *track, struct trading_step_record *records,
                             struct dqn_performance *out) {
    struct pass pass = {
        .track = track, .records = records, .policy = policy, .factor = 1.0, .closed_factor = 1.0};
    DQN_TRY(dqn_track_create(track, r->split_bars));
    DQN_TRY(run_parts(r, params, &pass));
    if (out != NULL) {
        dqn_performance_compute(track, r->bars_per_year, risk_free, out);
        out->closing_cost = pass.closing_cost;
        out->closed_return = pass.closed_factor - 1.0 + pass.closed_offset / params->initial_equity;
        out->sharpe_daily =
            dqn_sharpe_daily(track, r->market->bars.time_ns, r->bars_per_year, risk_free);
    }
    return DQN_OK;
}

static uint32_t fixed_action(void *context, const float *observation, uint64_t step) {
    (void)observation;
    (void)step;
    return *(const uint32_t *)context;
}

enum dqn_status dqn_pass_run_fixed(const struct dqn_trading_report *r,
                                   const struct trading_params *params, uint32_t action,
                                   double risk_free, struct dqn_report_pass *out) {
    void *const context[] = {&action};
    const struct dqn_pass_policy policy = {
        .choose = fixed_action, .context = context, .blind = true};
    return dqn_pass_run(r, params, &policy, risk_free, &out->track, NULL, &out->figures);
}

/* ---- random runs ----------------------------------------------------------------------------- */

/* Draws actions by cumulated counts; all equal where the policy is to be uniform. */
struct drawn_policy {
    uint64_t run;
    const uint64_t *up_to; /* [45] counts of this action and all before it */
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

/* Equity at the band's points: rows of `grid` are points, columns runs. */
static void keep_band(const struct dqn_track *track, size_t bars, size_t run, size_t runs,
                      double *grid) {
    for (size_t point = 0; point < DQN_REPORT_BAND; point++) {
        size_t at = point * (bars - 1) / (DQN_REPORT_BAND - 1);
        at = at < track->n ? at : track->n - 1;
        grid[point * runs + run] = track->equity[at];
    }
}

/* What all runs share, and where each leaves its figures. */
struct random_job {
    const struct dqn_trading_report *report;
    const struct trading_params *params;
    uint64_t up_to[TRADING_ACTIONS];
    size_t runs;
    double *log_return, *turnover; /* [runs] */
    double *grid;                  /* [points of the band, runs] */
};

static enum dqn_status one_random(void *context, size_t run) {
    const struct random_job *job = context;
    struct dqn_track track;
    struct dqn_performance p = {0};
    struct drawn_policy drawn = {.run = run, .up_to = job->up_to};
    void *const drawn_context[] = {&drawn};
    const struct dqn_pass_policy policy = {
        .choose = drawn_action, .context = drawn_context, .blind = true};
    const enum dqn_status status =
        dqn_pass_run(job->report, job->params, &policy, 0.0, &track, NULL, &p);
    if (status == DQN_OK) {
        keep_band(&track, job->report->split_bars, run, job->runs, job->grid);
        job->log_return[run] = p.log_return;
        job->turnover[run] = p.turnover;
    }
    dqn_track_destroy(&track);
    return status;
}

static void judge_random(const struct random_job *job, struct dqn_random_runs *out) {
    const double n = (double)job->runs, agent = job->report->agent.log_return;
    for (size_t run = 0; run < job->runs; run++) {
        out->turnover += job->turnover[run] / n;
        out->mean += job->log_return[run] / n;
        out->percentile += job->log_return[run] < agent ? 100.0 / n : 0.0;
    }
    out->low = dqn_quantile(out->log_return, job->runs, 0.05);
    out->high = dqn_quantile(out->log_return, job->runs, 0.95);
    for (size_t point = 0; point < DQN_REPORT_BAND; point++) {
        double *const column = job->grid + point * job->runs;
        out->band_low[point] = dqn_quantile(column, job->runs, 0.05);
        out->band_high[point] = dqn_quantile(column, job->runs, 0.95);
    }
}

enum dqn_status dqn_random_run(const struct dqn_trading_report *r,
                               const struct trading_params *params, size_t runs, size_t threads,
                               const uint64_t *counts, struct dqn_random_runs *out) {
    struct random_job job = {.report = r, .params = params, .runs = runs};
    uint64_t sum = 0;
    enum dqn_status status = DQN_OK;
    for (size_t a = 0; a < TRADING_ACTIONS; a++) {
        sum += counts != NULL ? counts[a] : 1;
        job.up_to[a] = sum;
    }
    *out = (struct dqn_random_runs){.runs = runs};
    DQN_TRY_GOTO(dqn_alloc((void **)&out->log_return, runs, sizeof(double), "random runs"));
    DQN_TRY_GOTO(dqn_alloc((void **)&out->band_low, DQN_REPORT_BAND, sizeof(double), "a band"));
    DQN_TRY_GOTO(dqn_alloc((void **)&out->band_high, DQN_REPORT_BAND, sizeof(double), "a band"));
    DQN_TRY_GOTO(dqn_alloc((void **)&job.turnover, runs, sizeof(double), "random runs"));
    DQN_TRY_GOTO(dqn_alloc((void **)&job.grid, runs * DQN_REPORT_BAND, sizeof(double), "a band"));
    job.log_return = out->log_return;
    DQN_TRY_GOTO(dqn_parallel(threads, runs, one_random, &job));
    judge_random(&job, out);
done:
    free(job.turnover);
    free(job.grid);
    return status;
}

void dqn_random_none(struct dqn_random_runs *out) {
    *out = (struct dqn_random_runs){
        .mean = NAN, .low = NAN, .high = NAN, .turnover = NAN, .percentile = NAN};
}

void dqn_random_free(struct dqn_random_runs *random) {
    free(random->log_return);
    free(random->band_low);
    free(random->band_high);
    *random = (struct dqn_random_runs){0};
}
