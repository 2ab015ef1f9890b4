#include "bench_time.h"

#include <math.h>
#include <stdlib.h>

enum { WINDOWS = 9, BUSY_WINDOWS = 3 };
static const double window_s = 0.2;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* *spent: seconds, with the wait. */
static enum dqn_status run_window(struct dqn_program *program, struct dqn_queue *q, size_t runs,
                                  double *spent) {
    const double begun = dqn_clock_s();
    for (size_t i = 0; i < runs; i++) {
        DQN_TRY(dqn_program_run(program, q));
    }
    DQN_TRY(q->device->backend->queue->wait(q));
    *spent = dqn_clock_s() - begun;
    return DQN_OK;
}

/* Eager, captured, replayed; then two windows find the number of runs that fill one. */
static enum dqn_status warm_up(struct dqn_program *program, struct dqn_queue *q, size_t *runs) {
    double spent = 0.0;
    DQN_TRY(run_window(program, q, 3, &spent));
    *runs = 1;
    for (int i = 0; i < 2; i++) {
        DQN_TRY(run_window(program, q, *runs, &spent));
        *runs = (size_t)fmax(1.0, (double)*runs * window_s / spent);
    }
    return DQN_OK;
}

enum dqn_status dqn_bench_draw_and_update(struct dqn_replay *replay, struct dqn_queue *q,
                                          const struct dqn_config_learner *config,
                                          const struct dqn_buffer *ok, int n) {
    for (int i = 0; i < n; i++) {
        struct dqn_replay_batch batch;
        for (size_t slot = 0; slot < (size_t)config->accumulate; slot++) {
            DQN_TRY(dqn_replay_sample(replay, q, slot, &batch));
        }
        DQN_TRY(dqn_replay_update(replay, q, ok->data));
    }
    return DQN_OK;
}

double dqn_bench_share(double seconds, double of) {
    return seconds < 0.0 ? NAN : seconds > of ? 1.0 : seconds / of;
}

/* Share of the windows' time in which work was in flight. */
static enum dqn_status measure_busy(struct dqn_program *program, struct dqn_queue *q, size_t runs,
                                    double *busy) {
    const struct dqn_queue_ops *queue = q->device->backend->queue;
    double spent = 0.0, in_flight = 0.0;
    *busy = NAN;
    for (int w = 0; w < BUSY_WINDOWS && queue->busy_begin != NULL; w++) {
        double window = 0.0, seconds = 0.0;
        DQN_TRY(queue->busy_begin(q));
        DQN_TRY(run_window(program, q, runs, &window));
        DQN_TRY(queue->busy_end(q, &seconds));
        spent += window;
        in_flight += seconds < 0.0 ? NAN : seconds;
        *busy = dqn_bench_share(in_flight, spent);
    }
    return DQN_OK;
}

enum dqn_status dqn_bench_time(struct dqn_program *program, struct dqn_queue *q, double ops,
                               double scale, struct dqn_bench_result *out) {
    size_t runs = 0;
    double rate[WINDOWS];
    DQN_TRY(warm_up(program, q, &runs));
    const uint64_t waits = dqn_queue_waits();
    for (int w = 0; w < WINDOWS; w++) {
        double spent = 0.0;
        DQN_TRY(run_window(program, q, runs, &spent));
        rate[w] = (double)runs * ops / spent;
    }
    out->host_waits = dqn_queue_waits() - waits - WINDOWS;
    out->n = WINDOWS * (uint64_t)((double)runs * ops);
    qsort(rate, WINDOWS, sizeof rate[0], by_value);
    out->us = 1e6 / rate[WINDOWS / 2];
    out->per_s = rate[WINDOWS / 2] * scale;
    out->per_s_min = rate[0] * scale;
    out->per_s_max = rate[WINDOWS - 1] * scale;
    return measure_busy(program, q, runs, &out->busy);
}

enum dqn_status dqn_bench_taken(const struct dqn_device *device, uint64_t free_begun,
                                uint64_t *out) {
    uint64_t free_bytes = 0, total_bytes = 0;
    *out = 0;
    if (device->backend == dqn_backend_find("cpu")) {
        return DQN_OK;
    }
    DQN_TRY(device->backend->memory->info(device, &free_bytes, &total_bytes));
    *out = free_bytes < free_begun ? free_begun - free_bytes : 0;
    return DQN_OK;
}
