/* The epoch benchmark: the trainer itself, with the replay on either side. */
#include <stdlib.h>

#include "bench.h"
#include "metrics.h"
#include "trainer.h"

enum { EPOCHS = 4 }; /* the first one captures programs and warms up */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The timed epochs of a run. */
struct timed {
    size_t n, n_timed;
    double seconds[EPOCHS], updates[EPOCHS], steps[EPOCHS], waits;
    double on_gpu; /* the replay's place in the last one */
};

static void take_epoch(void *context, const double *row) {
    struct timed *timed = context;
    if (timed->n++ == 0 || timed->n_timed == EPOCHS) {
        return;
    }
    timed->seconds[timed->n_timed] = row[DQN_METRIC_seconds];
    timed->updates[timed->n_timed] = row[DQN_METRIC_updates_per_s];
    timed->steps[timed->n_timed] = row[DQN_METRIC_env_steps_per_s];
    timed->waits += row[DQN_METRIC_host_waits];
    timed->on_gpu = row[DQN_METRIC_replay_gpu];
    timed->n_timed++;
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static void summarise(struct timed *timed, struct dqn_bench_epoch_result *out) {
    out->ran = timed->n_timed > 0;
    if (out->ran) {
        out->seconds = median(timed->seconds, timed->n_timed);
        out->updates_per_s = median(timed->updates, timed->n_timed);
        out->env_steps_per_s = median(timed->steps, timed->n_timed);
        out->host_waits = timed->waits / (double)timed->n_timed;
        out->replay_on_gpu = timed->on_gpu != 0.0;
    }
}

/* Four epochs of training, evaluated once, at the end. */
static enum dqn_status time_epochs(const struct dqn_config *config, int replay_device,
                                   struct dqn_bench_epoch_result *out) {
    struct dqn_config *c = NULL;
    struct dqn_trainer *trainer = NULL;
    struct timed timed = {0};
    DQN_TRY(dqn_alloc((void **)&c, 1, sizeof *c, "a configuration"));
    *c = *config;
    c->train.env_steps = EPOCHS * c->train.epoch_steps;
    c->eval.every_epochs = EPOCHS;
    c->train.patience = 0;
    c->replay.device = replay_device;
    const struct dqn_trainer_options options = {
        .config = c, .quiet = true, .on_epoch = take_epoch, .context = &timed};
    bool stopped = false;
    enum dqn_status status = dqn_trainer_create(&trainer, &options);
    if (status == DQN_OK) {
        status = dqn_trainer_run(trainer, &stopped);
    }
    summarise(&timed, out);
    dqn_trainer_destroy(trainer);
    free(c);
    return status;
}

enum dqn_status dqn_bench_epoch(const struct dqn_config *config,
                                struct dqn_bench_epoch_result *replay_with_learner,
                                struct dqn_bench_epoch_result *replay_on_cpu) {
    *replay_with_learner = (struct dqn_bench_epoch_result){0};
    *replay_on_cpu = (struct dqn_bench_epoch_result){0};
    DQN_TRY(time_epochs(config, DQN_DEVICE_AUTO, replay_with_learner));
    if (!replay_with_learner->replay_on_gpu) {
        return DQN_OK; /* there is no other side to put it on */
    }
    return time_epochs(config, DQN_DEVICE_CPU, replay_on_cpu);
}
