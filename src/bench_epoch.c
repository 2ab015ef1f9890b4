/* The epoch benchmark: the trainer itself, with the replay on either side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_time.h"
#include "metrics.h"
#include "trainer_parts.h"

enum { TIMED = 3, EPOCHS = TIMED + 2, DRAWS_A_PROGRAM = 16 };

/* ---- the epochs ------------------------------------------------------------------------------ */

struct timed {
    struct dqn_trainer *trainer;
    size_t n; /* epochs so far */
    struct dqn_bench_epoch_result epoch[TIMED];
    double busy; /* of the last epoch */
};

static struct dqn_bench_epoch_result describe_epoch(const struct dqn_trainer *t,
                                                    const double *row) {
    return (struct dqn_bench_epoch_result){.ran = true,
                                           .replay_on_gpu = row[DQN_METRIC_replay_gpu] != 0.0,
                                           .seconds = row[DQN_METRIC_seconds],
                                           .updates_per_s = row[DQN_METRIC_updates_per_s],
                                           .env_steps_per_s = row[DQN_METRIC_env_steps_per_s],
                                           .sample_s = t->times.replay.sample_s,
                                           .update_s = t->times.replay.update_s,
                                           .host_waits = row[DQN_METRIC_host_waits],
                                           .host_wait_s = t->times.waited_s,
                                           .device_bytes =
                                               dqn_arena_planned_bytes(t->arena, &t->device)};
}

static void take_epoch(void *context, const double *row) {
    struct timed *timed = context;
    struct dqn_trainer *t = timed->trainer;
    const size_t n = timed->n++;
    if (n >= 1 && n <= TIMED) {
        timed->epoch[n - 1] = describe_epoch(t, row);
    }
    if (t->time_device) {
        timed->busy = dqn_bench_share(t->times.busy_s, row[DQN_METRIC_seconds]);
    }
    t->time_device = timed->n == EPOCHS - 1 && t->device.backend->queue->busy_begin != NULL;
}

static int by_seconds(const void *a, const void *b) {
    const struct dqn_bench_epoch_result *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* ---- the replay by itself -------------------------------------------------------------------- */

/* Draw and gather as dqn_replay_sample enqueues them, but without the state that an update ends. */
static enum dqn_status draw(struct dqn_trainer *t, struct dqn_queue *q) {
    struct dqn_replay_batch batch;
    struct dqn_draw_args draw;
    struct dqn_gather_args gather;
    struct dqn_priority_args priority;
    bool gathered = false;
    DQN_CHECK(dqn_replay_describe(t->replay, &batch, &draw, &gather, &priority));
    DQN_TRY(dqn_draw(q, &draw, &gather, &gathered));
    return gathered ? DQN_OK : q->device->backend->replay->gather(q, &gather);
}

static enum dqn_status run_draws(void *context, struct dqn_queue *q) {
    struct dqn_trainer *t = context;
    for (int64_t i = 0; i < DRAWS_A_PROGRAM * t->config.learner.accumulate; i++) {
        DQN_TRY(draw(t, q));
    }
    return DQN_OK;
}

static enum dqn_status run_draws_and_updates(void *context, struct dqn_queue *q) {
    struct dqn_trainer *t = context;
    return dqn_bench_draw_and_update(t->replay, q, &t->config.learner, dqn_learner_ok(t->learner),
                                     DRAWS_A_PROGRAM);
}

/* *us: microseconds that the replay's part of an update takes, as fn enqueues it. */
static enum dqn_status time_replay(struct dqn_trainer *t, dqn_program_fn fn, double *us) {
    struct dqn_bench_result result = {0};
    struct dqn_program *program = NULL;
    DQN_TRY(dqn_program_record(&program, fn, t));
    const enum dqn_status status = dqn_bench_time(program, t->queue, DRAWS_A_PROGRAM, 1.0, &result);
    dqn_program_destroy(program);
    *us = result.us;
    return status;
}

/* What the replay takes on the device, of the epoch of which *out tells. */
static enum dqn_status add_replay_times(struct dqn_trainer *t, struct dqn_bench_epoch_result *out) {
    const double updates = out->updates_per_s * out->seconds;
    double draw_us = 0.0, both_us = 0.0;
    out->sample_s = out->update_s = 0.0;
    if (updates == 0.0) {
        return DQN_OK;
    }
    DQN_TRY(time_replay(t, run_draws, &draw_us));
    DQN_TRY(time_replay(t, run_draws_and_updates, &both_us));
    out->sample_s = draw_us * updates / 1e6;
    out->update_s = fmax(0.0, both_us - draw_us) * updates / 1e6;
    return DQN_OK;
}

/* ---- both placements ------------------------------------------------------------------------- */

static enum dqn_status summarise(struct timed *timed, struct dqn_bench_epoch_result *out) {
    struct dqn_trainer *t = timed->trainer;
    qsort(timed->epoch, TIMED, sizeof timed->epoch[0], by_seconds);
    *out = timed->epoch[TIMED / 2];
    out->busy = timed->busy;
    snprintf(out->device, sizeof out->device, "%s", t->device.description);
    DQN_TRY(dqn_bench_taken(&t->device, t->free_begun, &out->device_bytes_taken));
    if (!out->replay_on_gpu) {
        return DQN_OK;
    }
    if (dqn_replay_device(t->replay) != &t->device) {
        return dqn_fail(DQN_ERR_DEVICE, "the replay failed on the GPU: %s",
                        dqn_replay_why_moved(t->replay));
    }
    return add_replay_times(t, out);
}

static enum dqn_status train(const struct dqn_config *config, struct dqn_bench_epoch_result *out) {
    struct timed timed = {.busy = NAN};
    const struct dqn_trainer_options options = {
        .config = config, .quiet = true, .on_epoch = take_epoch, .context = &timed};
    bool stopped = false;
    DQN_TRY(dqn_trainer_create(&timed.trainer, &options));
    enum dqn_status status = dqn_trainer_run(timed.trainer, &stopped);
    if (status == DQN_OK) {
        status = summarise(&timed, out);
    }
    dqn_trainer_destroy(timed.trainer);
    return status;
}

/* Evaluated once, at the end. */
static enum dqn_status time_epochs(const struct dqn_config *config, int replay_device,
                                   struct dqn_bench_epoch_result *out) {
    struct dqn_config *c = NULL;
    DQN_TRY(dqn_alloc((void **)&c, 1, sizeof *c, "a configuration"));
    *c = *config;
    c->train.env_steps = EPOCHS * c->train.epoch_steps;
    c->eval.every_epochs = EPOCHS;
    c->train.patience = 0;
    c->replay.device = replay_device;
    const enum dqn_status status = train(c, out);
    free(c);
    return status;
}

enum dqn_status dqn_bench_epoch(const struct dqn_config *config,
                                struct dqn_bench_epoch_result *replay_with_learner,
                                struct dqn_bench_epoch_result *replay_on_cpu) {
    *replay_with_learner = (struct dqn_bench_epoch_result){0};
    *replay_on_cpu = (struct dqn_bench_epoch_result){0};
    const bool demanded = config->replay.device == DQN_DEVICE_CUDA;
    DQN_TRY(time_epochs(config, demanded ? DQN_DEVICE_CUDA : DQN_DEVICE_AUTO, replay_with_learner));
    if (!replay_with_learner->replay_on_gpu) {
        return DQN_OK; /* there is no other side to put it on */
    }
    return time_epochs(config, DQN_DEVICE_CPU, replay_on_cpu);
}
