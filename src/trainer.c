/* The training loop. */
#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/schedule.h"
#include "trainer_parts.h"

uint64_t dqn_trainer_env_steps(const struct dqn_trainer *t) {
    return t->at.vector_steps * (uint64_t)t->config.env.lanes;
}

/* ---- which step comes next: a function of counters alone ----------------------------------------
 */

static bool update_is_due(const struct dqn_trainer *t, const struct dqn_progress_counters *at) {
    const uint64_t env_steps = at->vector_steps * (uint64_t)t->config.env.lanes;
    return at->rows >= (uint64_t)t->config.learner.batch && at->rows >= at->rows_needed &&
           at->updates < dqn_updates_due(&t->config.train, env_steps);
}

/* Env steps at which the running epoch ends; the last epoch ends with the run. */
static uint64_t epoch_end(const struct dqn_trainer *t) {
    const uint64_t total = (uint64_t)t->config.train.env_steps;
    const uint64_t end = (t->at.epochs + 1) * (uint64_t)t->config.train.epoch_steps;
    return end < total ? end : total;
}

static bool epoch_is_over(const struct dqn_trainer *t, const struct dqn_progress_counters *at) {
    return at->vector_steps * (uint64_t)t->config.env.lanes >= epoch_end(t) &&
           !update_is_due(t, at);
}

/* The next step, also taken by the counters. */
static enum dqn_action next_action(const struct dqn_trainer *t, struct dqn_progress_counters *at) {
    if (update_is_due(t, at)) {
        at->updates++;
        return DQN_UPDATE;
    }
    at->vector_steps++;
    if (at->vector_steps < (uint64_t)t->config.collect.n_step) {
        return DQN_COLLECT_FIRST;
    }
    at->rows += (uint64_t)t->config.env.lanes;
    return DQN_COLLECT;
}

/* The next steps up to the plan's length or the epoch's end; *at becomes where they lead. */
static void make_plan(const struct dqn_trainer *t, size_t length, struct dqn_plan *plan,
                      struct dqn_progress_counters *at) {
    memset(plan, 0, sizeof *plan);
    *at = t->at;
    while (plan->n < length && !epoch_is_over(t, at)) {
        plan->action[plan->n++] = (uint8_t)next_action(t, at);
    }
}

/* ---- running a plan
 * ------------------------------------------------------------------------------ */

static enum dqn_status run_actions(void *context, struct dqn_queue *q) {
    struct dqn_planned_program *planned = context;
    struct dqn_trainer *t = planned->trainer;
    for (size_t i = 0; i < planned->plan.n; i++) {
        const uint8_t action = planned->plan.action[i];
        const enum dqn_status status =
            action == DQN_UPDATE ? dqn_learner_update(t->learner, q)
                                 : dqn_collector_step(t->collector, q, action == DQN_COLLECT);
        planned->phase_said = status != DQN_OK;
        DQN_TRY(dqn_trainer_in_phase(status, action == DQN_UPDATE ? "update" : "collect"));
    }
    return DQN_OK;
}

/* The program of a plan: one a distinct plan. Plans of a steady run repeat, so they are few. */
static enum dqn_status find_program(struct dqn_trainer *t, const struct dqn_plan *plan,
                                    struct dqn_planned_program **out) {
    for (size_t i = 0; i < t->n_programs; i++) {
        if (memcmp(&t->programs[i]->plan, plan, sizeof *plan) == 0) {
            *out = t->programs[i];
            return DQN_OK;
        }
    }
    *out = NULL;
    if (t->n_programs == DQN_PROGRAMS_MAX) {
        return DQN_OK;
    }
    struct dqn_planned_program *planned = NULL;
    DQN_TRY(dqn_alloc((void **)&planned, 1, sizeof *planned, "a program"));
    planned->plan = *plan;
    planned->trainer = t;
    const enum dqn_status status = dqn_program_record(&planned->program, run_actions, planned);
    if (status != DQN_OK) {
        free(planned);
        return status;
    }
    t->programs[t->n_programs++] = planned;
    *out = planned;
    return DQN_OK;
}

void dqn_trainer_free_programs(struct dqn_trainer *t) {
    for (size_t i = 0; i < t->n_programs; i++) {
        dqn_program_destroy(t->programs[i]->program);
        free(t->programs[i]);
    }
    t->n_programs = 0;
}

/* Programs captured so far hold kernels that the device has refused since: they are made anew. */
static enum dqn_status forget_programs(struct dqn_trainer *t) {
    DQN_TRY(t->device.backend->queue->wait(t->queue));
    dqn_trainer_free_programs(t);
    return DQN_OK;
}

/* Parts that take their operations one by one since the device refused a kernel of theirs. */
static size_t count_composed(const struct dqn_trainer *t) {
    return (size_t)dqn_learner_is_composed(t->learner) +
           (size_t)dqn_collector_is_composed(t->collector);
}

/* As a program, or called where the host takes part in each step. When the replay fails while its
 * program is captured, it moves; it, and a learner or collector of which a kernel was refused then,
 * take the steps, of which none has run, as calls. */
static enum dqn_status run_steps(struct dqn_trainer *t, const struct dqn_plan *plan) {
    struct dqn_planned_program *planned = NULL;
    struct dqn_planned_program once = {.plan = *plan, .trainer = t};
    if (!t->eager) {
        DQN_TRY(find_program(t, plan, &planned));
    }
    if (planned == NULL) {
        return run_actions(&once, t->queue);
    }
    const enum dqn_status status = dqn_program_run(planned->program, t->queue);
    if (dqn_replay_failed(t->replay)) {
        DQN_TRY(dqn_replay_move(t->replay, t->queue));
    } else if (status != DQN_ERR_REFUSED) {
        return planned->phase_said ? status : dqn_trainer_in_phase(status, "collect or update");
    }
    return run_actions(&once, t->queue);
}

static enum dqn_status run_plan(struct dqn_trainer *t, const struct dqn_plan *plan) {
    const size_t n_composed = count_composed(t);
    DQN_TRY(run_steps(t, plan));
    if (count_composed(t) > n_composed) {
        DQN_TRY(dqn_trainer_in_phase(forget_programs(t), "collect or update"));
    }
    if (dqn_replay_has_moved(t->replay)) {
        DQN_TRY(dqn_trainer_settle_replay(t));
    }
    size_t emitting = 0;
    for (size_t i = 0; i < plan->n; i++) {
        emitting += plan->action[i] == DQN_COLLECT;
    }
    for (size_t i = 0; i < emitting; i++) {
        dqn_replay_note_inserted(t->replay, (size_t)t->config.env.lanes);
    }
    return DQN_OK;
}

static bool stop_wanted(const struct dqn_trainer *t) {
    return (t->stop != NULL && *t->stop != 0) ||
           (t->stop_at_steps > 0 && dqn_trainer_env_steps(t) >= t->stop_at_steps);
}

/* Runs to the epoch's end, or to the step boundary after a stop was asked for. Nothing in here
 * waits for the device. */
static enum dqn_status run_epoch_steps(struct dqn_trainer *t) {
    /* Where steps are captured a plan is long; else each step is its own, so that stops are prompt.
     */
    while (!epoch_is_over(t, &t->at) && !stop_wanted(t)) {
        const bool captures = t->device.backend->queue->capture_begin != NULL && !t->eager;
        struct dqn_plan plan;
        struct dqn_progress_counters after;
        make_plan(t, captures ? DQN_PLAN_MAX : 1, &plan, &after);
        DQN_TRY(run_plan(t, &plan));
        t->at = after;
        dqn_progress_update(&t->progress, dqn_trainer_env_steps(t), t->at.updates);
    }
    return DQN_OK;
}

/* ---- the end of an epoch
 * ------------------------------------------------------------------------- */

static double entropy(const uint64_t *counts, size_t n) {
    double total = 0.0, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        total += (double)counts[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (counts[i] > 0) {
            const double p = (double)counts[i] / total;
            sum -= p * log(p);
        }
    }
    return sum;
}

/* Episode statistics of one agent's lanes. */
static void add_lane_metrics(double *row, const struct dqn_lane *lanes, size_t n) {
    double episodes = 0.0, sum = 0.0, steps = 0.0, low = INFINITY, high = -INFINITY;
    for (size_t e = 0; e < n; e++) {
        episodes += (double)lanes[e].sum_episodes;
        sum += lanes[e].sum_return;
        steps += (double)lanes[e].sum_steps;
        low = fmin(low, lanes[e].min_return);
        high = fmax(high, lanes[e].max_return);
    }
    const bool any = episodes > 0.0;
    row[DQN_METRIC_episodes] = episodes;
    row[DQN_METRIC_return_mean] = any ? sum / episodes : NAN;
    row[DQN_METRIC_return_min] = any ? low : NAN;
    row[DQN_METRIC_return_max] = any ? high : NAN;
    row[DQN_METRIC_length_mean] = any ? steps / episodes : NAN;
}

static void add_update_metrics(double *row, const struct dqn_step_stats *s) {
    const double n = s->updates > 0.0 ? s->updates : NAN;
    row[DQN_METRIC_loss] = s->loss / n;
    row[DQN_METRIC_q_mean] = s->q_mean / n;
    row[DQN_METRIC_q_max] = s->q_max / n;
    row[DQN_METRIC_td_abs] = s->td_abs / n;
    row[DQN_METRIC_td_abs_max] = s->td_abs_max;
    row[DQN_METRIC_grad_norm] = s->grad_norm / n;
    row[DQN_METRIC_clip_rate] = s->clipped / n;
    row[DQN_METRIC_learning_rate] = s->lr / n;
    row[DQN_METRIC_beta] = s->beta / n;
    row[DQN_METRIC_weight_min] = s->weight_min / n;
}

static void make_row(const struct dqn_trainer *t, size_t k, bool evaluated, double *row) {
    const size_t lanes = (size_t)t->config.env.lanes;
    const struct dqn_counters *counters = dqn_readback_data(t->readback, DQN_READ_COUNTERS);
    const struct dqn_step_stats *stats = dqn_readback_data(t->readback, DQN_READ_STATS);
    const struct dqn_lane *lane = dqn_readback_data(t->readback, DQN_READ_LANES);
    const uint64_t *histogram = dqn_readback_data(t->readback, DQN_READ_HISTOGRAM);
    row[DQN_METRIC_epoch] = (double)t->at.epochs;
    row[DQN_METRIC_agent] = (double)k;
    row[DQN_METRIC_env_steps] = (double)dqn_trainer_env_steps(t);
    row[DQN_METRIC_updates] = (double)t->at.updates;
    add_update_metrics(row, &stats[k]);
    row[DQN_METRIC_epsilon] = dqn_schedule_epsilon(&t->agents[k], dqn_trainer_env_steps(t));
    row[DQN_METRIC_action_entropy] = entropy(histogram + k * t->net.actions, t->net.actions);
    add_lane_metrics(row, lane + k * lanes, lanes);
    row[DQN_METRIC_replay_fill] =
        (double)dqn_replay_size(t->replay) / (double)dqn_replay_capacity(t->replay);
    row[DQN_METRIC_nonfinite] = (double)counters[k].nonfinite;
    row[DQN_METRIC_priority_nan] = (double)counters[k].priority_nan;
    row[DQN_METRIC_priority_inf] = (double)counters[k].priority_inf;
    const struct dqn_evaluation *ev = &t->evaluation[k];
    row[DQN_METRIC_eval_return] = evaluated ? ev->return_mean : NAN;
    row[DQN_METRIC_eval_min] = evaluated ? ev->return_min : NAN;
    row[DQN_METRIC_eval_max] = evaluated ? ev->return_max : NAN;
    row[DQN_METRIC_eval_length] = evaluated ? ev->length_mean : NAN;
    row[DQN_METRIC_best_return] = t->best_epoch[k] > 0.0 ? t->best_score[k] : NAN;
}

static void add_clock_metrics(const struct dqn_trainer *t, double seconds, uint64_t waits,
                              double *row) {
    const double updates = (double)(t->at.updates - t->updates_begun);
    const double steps = (double)(dqn_trainer_env_steps(t) - t->steps_begun);
    row[DQN_METRIC_seconds] = seconds;
    row[DQN_METRIC_updates_per_s] = updates / seconds;
    row[DQN_METRIC_env_steps_per_s] = steps / seconds;
    row[DQN_METRIC_host_waits] = (double)waits;
    row[DQN_METRIC_gpu] = t->place.cpu ? 0.0 : 1.0;
    row[DQN_METRIC_replay_gpu] =
        dqn_replay_device(t->replay)->backend == dqn_backend_find("cpu") ? 0.0 : 1.0;
    row[DQN_METRIC_device_bytes] = (double)dqn_trainer_device_bytes(t);
}

/* Evaluates, and keeps the parameters of each agent whose score rose. */
static enum dqn_status evaluate(struct dqn_trainer *t) {
    const struct dqn_buffer *params = dqn_learner_params(t->learner);
    DQN_TRY(dqn_evaluator_run(t->evaluator, t->queue, params, t->at.epochs, t->evaluation));
    for (size_t k = 0; k < t->n_agents; k++) {
        if (!dqn_score_is_better(t->evaluation[k].return_mean, t->best_score[k])) {
            continue;
        }
        t->best_score[k] = t->evaluation[k].return_mean;
        t->best_epoch[k] = (double)t->at.epochs;
        const size_t at = k * t->net.n_params;
        DQN_TRY(t->device.backend->memory->copy(
            t->queue, (float *)t->best_params->data + at, (const float *)params->data + at,
            t->net.n_params * sizeof(float), DQN_COPY_ON_DEVICE));
    }
    t->improved = t->best_epoch[0] == (double)t->at.epochs;
    t->at.epochs_since_best = t->at.epochs - (uint64_t)t->best_epoch[0];
    return DQN_OK;
}

/* Too many non-finite updates in a row end the run. */
static enum dqn_status check_finite(const struct dqn_trainer *t) {
    static const char *const where[] = {"", "loss", "gradient", "parameters"};
    const struct dqn_counters *counters = dqn_readback_data(t->readback, DQN_READ_COUNTERS);
    for (size_t k = 0; k < t->n_agents; k++) {
        if (counters[k].failed != 0) {
            return dqn_fail(
                DQN_ERR_NONFINITE,
                "the %s of agent %zu was not finite in %llu update%s in a row, lastly in "
                "update %llu; lower learner.lr (now %g), or look at the rewards",
                where[counters[k].nonfinite_where & 3], k,
                (unsigned long long)counters[k].nonfinite_streak,
                dqn_plural(counters[k].nonfinite_streak),
                (unsigned long long)counters[k].nonfinite_update, t->agents[k].lr_start);
        }
    }
    return DQN_OK;
}

static enum dqn_status report_epoch(struct dqn_trainer *t, bool evaluated, double seconds,
                                    uint64_t waits) {
    if (t->at.updates > 0) {
        DQN_TRY(dqn_learner_dead_units(t->learner, t->queue, t->dead_units));
    }
    for (size_t k = 0; k < t->n_agents; k++) {
        double row[DQN_METRIC_ALL];
        make_row(t, k, evaluated, row);
        add_clock_metrics(t, seconds, waits, row);
        row[DQN_METRIC_dead_units] = t->at.updates > 0 ? t->dead_units[k] : NAN;
        DQN_TRY(dqn_metrics_add(t->metrics, row));
        if (t->on_epoch != NULL) {
            t->on_epoch(t->context, row);
        }
        dqn_progress_epoch(&t->progress, row,
                           evaluated && t->best_epoch[k] == (double)t->at.epochs);
    }
    return DQN_OK;
}

static bool run_is_over(const struct dqn_trainer *t) {
    const int64_t patience = t->config.train.patience;
    return dqn_trainer_env_steps(t) >= (uint64_t)t->config.train.env_steps ||
           (patience > 0 && t->at.epochs_since_best >= (uint64_t)patience);
}

static enum dqn_status begin_clock(struct dqn_trainer *t) {
    t->waits_begun = dqn_queue_waits();
    t->waited_begun_s = dqn_queue_waited_s();
    t->replay_begun = dqn_replay_clock(t->replay);
    t->steps_begun = dqn_trainer_env_steps(t);
    t->updates_begun = t->at.updates;
    if (t->time_device) {
        DQN_TRY(t->device.backend->queue->busy_begin(t->queue));
    }
    t->epoch_begun_s = dqn_clock_s();
    return DQN_OK;
}

/* Of the epoch up to here. */
static void take_times(struct dqn_trainer *t) {
    const struct dqn_replay_clock now = dqn_replay_clock(t->replay);
    t->times.replay.sample_s = now.sample_s - t->replay_begun.sample_s;
    t->times.replay.update_s = now.update_s - t->replay_begun.update_s;
    t->times.waited_s = dqn_queue_waited_s() - t->waited_begun_s;
}

static enum dqn_status read_epoch(struct dqn_trainer *t) {
    DQN_TRY(dqn_readback_take(t->readback, t->queue));
    return dqn_readback_wait(t->readback);
}

static enum dqn_status clear_epoch(struct dqn_trainer *t) {
    DQN_TRY(dqn_collector_clear_sums(t->collector, t->queue));
    return dqn_learner_clear_stats(t->learner, t->queue);
}

/* Reads what the epoch left, evaluates, keeps the best, saves. The only place where the host waits
 * for the device. *finished = false: a stop was asked for inside the evaluation; nothing has
 * changed then, and the epoch can be finished again. So it is with DQN_ERR_ENDLESS. */
static enum dqn_status finish_epoch(struct dqn_trainer *t, bool *finished) {
    const uint64_t waits = dqn_queue_waits() - t->waits_begun;
    take_times(t);
    t->at.epochs++;
    DQN_TRY(dqn_trainer_in_phase(read_epoch(t), "collect or update, found at the epoch's end"));
    const double seconds = dqn_clock_s() - t->epoch_begun_s;
    if (t->time_device) {
        DQN_TRY(t->device.backend->queue->busy_end(t->queue, &t->times.busy_s));
    }
    DQN_TRY(check_finite(t));
    const bool evaluated = t->at.epochs % (uint64_t)t->config.eval.every_epochs == 0 ||
                           dqn_trainer_env_steps(t) >= (uint64_t)t->config.train.env_steps;
    t->improved = false;
    if (evaluated) {
        const enum dqn_status status = dqn_trainer_in_phase(evaluate(t), "evaluate");
        if (status == DQN_ERR_STOPPED || status == DQN_ERR_ENDLESS) {
            t->at.epochs--;
            *finished = false;
            return status == DQN_ERR_STOPPED ? DQN_OK : status;
        }
        DQN_TRY(status);
    }
    *finished = true;
    DQN_TRY(report_epoch(t, evaluated, seconds, waits));
    DQN_TRY(dqn_trainer_in_phase(clear_epoch(t), "epoch's end"));
    const bool due = t->at.epochs % (uint64_t)t->config.checkpoint.every_epochs == 0;
    if (t->saver != NULL && (due || t->improved || run_is_over(t))) {
        DQN_TRY(dqn_trainer_in_phase(dqn_saver_save(t, t->improved, false), "save"));
    }
    return DQN_OK;
}

/* Saves a run that ends inside an epoch, behind all of its steps. */
static enum dqn_status save_inside_epoch(struct dqn_trainer *t) {
    dqn_progress_end(&t->progress);
    DQN_TRY(dqn_trainer_in_phase(t->device.backend->queue->wait(t->queue), "collect or update"));
    return t->saver != NULL ? dqn_trainer_in_phase(dqn_saver_save(t, false, true), "save") : DQN_OK;
}

/* After an evaluation whose episodes do not end: what was trained is not lost. The error's text
 * says what to set, and this one adds how to go on. */
static enum dqn_status give_up_evaluation(struct dqn_trainer *t) {
    char why[1024];
    snprintf(why, sizeof why, "%s", dqn_error_text());
    enum dqn_status status = save_inside_epoch(t);
    if (t->saver == NULL) {
        return dqn_fail(DQN_ERR_ENDLESS, "%s", why);
    }
    if (status == DQN_OK) {
        status = dqn_saver_finish(t);
    }
    if (status != DQN_OK) {
        return dqn_fail_prefix(status, "%s; what was trained cannot be saved", why);
    }
    return dqn_fail(DQN_ERR_ENDLESS,
                    "%s; what was trained is saved, and dqn-train --resume %s goes on with it", why,
                    t->folder);
}

enum dqn_status dqn_trainer_run(struct dqn_trainer *t, bool *stopped) {
    dqn_progress_begin(&t->progress, t->quiet, (uint64_t)t->config.train.env_steps,
                       dqn_trainer_env_steps(t), t->at.updates);
    bool finished = true;
    *stopped = false;
    while (finished && (t->inside_epoch || !run_is_over(t))) {
        finished = false;
        t->inside_epoch = false;
        DQN_TRY(begin_clock(t));
        DQN_TRY(run_epoch_steps(t));
        if (epoch_is_over(t, &t->at)) {
            const enum dqn_status status = finish_epoch(t, &finished);
            if (status == DQN_ERR_ENDLESS) {
                return give_up_evaluation(t);
            }
            DQN_TRY(status);
        }
        if (!finished) {
            DQN_TRY(save_inside_epoch(t));
        }
    }
    dqn_progress_end(&t->progress);
    if (t->saver != NULL) {
        DQN_TRY(dqn_trainer_in_phase(dqn_saver_finish(t), "save"));
    }
    *stopped = !finished;
    return DQN_OK;
}

/* ---- after training
 * -------------------------------------------------------------------------------- */

/* Evaluations of training use rounds 1, 2, ...; this one is far from all of them. */
static const uint64_t fresh_round = (uint64_t)1 << 31;

enum dqn_status dqn_trainer_score_best(struct dqn_trainer *t, struct dqn_evaluation *result) {
    const struct dqn_buffer *params =
        t->best_epoch[0] > 0.0 ? t->best_params : dqn_learner_params(t->learner);
    return dqn_evaluator_run(t->evaluator, t->queue, params, fresh_round, result);
}

enum dqn_status dqn_trainer_best_params(struct dqn_trainer *t, float *params) {
    const struct dqn_buffer *from =
        t->best_epoch[0] > 0.0 ? t->best_params : dqn_learner_params(t->learner);
    DQN_TRY(t->device.backend->memory->copy(t->queue, params, from->data, from->bytes,
                                            DQN_COPY_TO_HOST));
    return t->device.backend->queue->wait(t->queue);
}

const struct dqn_net *dqn_trainer_net(const struct dqn_trainer *t) {
    return &t->net;
}

const struct dqn_arena *dqn_trainer_arena(const struct dqn_trainer *t) {
    return t->arena;
}

const struct dqn_market *dqn_trainer_market(const struct dqn_trainer *t) {
    return t->market;
}

const struct dqn_config *dqn_trainer_config(const struct dqn_trainer *t) {
    return &t->config;
}

uint64_t dqn_trainer_epochs(const struct dqn_trainer *t) {
    return t->at.epochs;
}

double dqn_trainer_best_score(const struct dqn_trainer *t, size_t agent, uint64_t *epoch) {
    *epoch = (uint64_t)t->best_epoch[agent];
    return t->best_score[agent];
}
