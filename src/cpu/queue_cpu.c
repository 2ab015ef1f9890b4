/* Queues and events of the CPU. A plain queue runs each operation before submit returns. A late
 * queue copies it into a ring, and a worker runs it some microseconds later, in order, as a GPU
 * would: a module that reads results before it waited then sees old data. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_cpu.h"

enum { RING_SLOTS = 1024, ARGS_BYTES = 512, ERROR_BYTES = 1024 };
enum { LATE_NS = 20000 }; /* pause of the worker before it looks at new operations */

struct operation {
    dqn_cpu_run run;
    bool uses_pool;
    alignas(16) unsigned char args[ARGS_BYTES];
};

struct cpu_queue {
    struct dqn_queue base;
    struct dqn_cpu_device *device;
    /* Below: late queues only. */
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct operation *ring;   /* [RING_SLOTS] */
    uint64_t submitted, done; /* operations so far */
    bool stop;
    enum dqn_status error; /* the first since the last wait */
    char error_text[ERROR_BYTES];
};

struct dqn_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, reached; /* records submitted, and run */
};

/* ---- running ---- */

static enum dqn_status run_operation(struct cpu_queue *q, dqn_cpu_run run, bool uses_pool,
                                     const void *args) {
    if (!uses_pool) {
        return run(NULL, args);
    }
    pthread_mutex_lock(&q->device->pool_lock);
    const enum dqn_status status = run(q->device->pool, args);
    pthread_mutex_unlock(&q->device->pool_lock);
    return status;
}

static void keep_error(struct cpu_queue *q, enum dqn_status status) {
    q->error = status;
    strncpy(q->error_text, dqn_error_text(), sizeof q->error_text - 1);
}

/* Once an operation failed, the ones after it are left out, as they are where submit returns the
 * error; events still happen, or another queue would wait for ever. */
static void *worker_main(void *argument) {
    struct cpu_queue *q = argument;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->done == q->submitted && !q->stop) {
            pthread_cond_wait(&q->changed, &q->lock);
        }
        if (q->done == q->submitted) {
            break;
        }
        const uint64_t end = q->submitted;
        pthread_mutex_unlock(&q->lock);
        const struct timespec pause = {.tv_nsec = LATE_NS};
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&q->lock);
        while (q->done < end) {
            const struct operation *op = &q->ring[q->done % RING_SLOTS];
            if (q->error == DQN_OK || !op->uses_pool) {
                pthread_mutex_unlock(&q->lock);
                const enum dqn_status status = run_operation(q, op->run, op->uses_pool, op->args);
                pthread_mutex_lock(&q->lock);
                if (status != DQN_OK) {
                    keep_error(q, status);
                }
            }
            q->done++;
            pthread_cond_broadcast(&q->changed);
        }
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static enum dqn_status submit(struct cpu_queue *q, dqn_cpu_run run, bool uses_pool,
                              const void *args, size_t size) {
    if (!q->device->late) {
        return run_operation(q, run, uses_pool, args);
    }
    DQN_CHECK(size <= ARGS_BYTES);
    pthread_mutex_lock(&q->lock);
    while (q->submitted - q->done == RING_SLOTS) {
        pthread_cond_wait(&q->changed, &q->lock);
    }
    struct operation *op = &q->ring[q->submitted % RING_SLOTS];
    op->run = run;
    op->uses_pool = uses_pool;
    memcpy(op->args, args, size);
    q->submitted++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return DQN_OK;
}

enum dqn_status dqn_cpu_submit(struct dqn_queue *q, dqn_cpu_run run, const void *args,
                               size_t size) {
    return submit((struct cpu_queue *)q, run, true, args, size);
}

/* ---- queues ---- */

static enum dqn_status start_worker(struct cpu_queue *q) {
    void *ring = NULL;
    DQN_TRY(dqn_alloc(&ring, RING_SLOTS, sizeof(struct operation), "late queue"));
    q->ring = ring;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    const int error = pthread_create(&q->worker, NULL, worker_main, q);
    if (error != 0) {
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->lock);
        free(q->ring);
        return dqn_fail(DQN_ERR_DEVICE, "the worker of a late queue cannot be started: %s",
                        strerror(error));
    }
    return DQN_OK;
}

static enum dqn_status queue_create(const struct dqn_device *device, struct dqn_queue **out) {
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct cpu_queue), "queue"));
    struct cpu_queue *q = memory;
    q->base.device = device;
    q->device = device->impl;
    if (q->device->late) {
        const enum dqn_status status = start_worker(q);
        if (status != DQN_OK) {
            free(q);
            return status;
        }
    }
    *out = &q->base;
    return DQN_OK;
}

static void queue_destroy(struct dqn_queue *base) {
    if (base == NULL) {
        return;
    }
    struct cpu_queue *q = (struct cpu_queue *)base;
    if (q->device->late) {
        pthread_mutex_lock(&q->lock);
        q->stop = true;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
        pthread_join(q->worker, NULL);
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->lock);
        free(q->ring);
    }
    free(q);
}

static enum dqn_status wait_for_worker(struct cpu_queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->done != q->submitted) {
        pthread_cond_wait(&q->changed, &q->lock);
    }
    const enum dqn_status status = q->error;
    if (status != DQN_OK) {
        dqn_fail(status, "%s", q->error_text);
    }
    q->error = DQN_OK;
    pthread_mutex_unlock(&q->lock);
    return status;
}

static enum dqn_status queue_wait(struct dqn_queue *base) {
    struct cpu_queue *q = (struct cpu_queue *)base;
    const double begun = dqn_clock_s();
    const enum dqn_status status = q->device->late ? wait_for_worker(q) : DQN_OK;
    dqn_queue_count_wait(dqn_clock_s() - begun);
    return status;
}

/* ---- events ---- */

struct event_args {
    struct dqn_event *event;
    uint64_t record; /* which record of it */
};

static enum dqn_status event_create(const struct dqn_device *device, struct dqn_event **out) {
    (void)device;
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_event), "event"));
    struct dqn_event *event = memory;
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    *out = event;
    return DQN_OK;
}

static void event_destroy(struct dqn_event *event) {
    if (event == NULL) {
        return;
    }
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static enum dqn_status run_event_record(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    const struct event_args *args = arguments;
    pthread_mutex_lock(&args->event->lock);
    if (args->event->reached < args->record) {
        args->event->reached = args->record;
    }
    pthread_cond_broadcast(&args->event->changed);
    pthread_mutex_unlock(&args->event->lock);
    return DQN_OK;
}

static enum dqn_status run_event_wait(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    const struct event_args *args = arguments;
    pthread_mutex_lock(&args->event->lock);
    while (args->event->reached < args->record) {
        pthread_cond_wait(&args->event->changed, &args->event->lock);
    }
    pthread_mutex_unlock(&args->event->lock);
    return DQN_OK;
}

static enum dqn_status event_record(struct dqn_queue *q, struct dqn_event *event) {
    pthread_mutex_lock(&event->lock);
    const struct event_args args = {event, ++event->recorded};
    pthread_mutex_unlock(&event->lock);
    return submit((struct cpu_queue *)q, run_event_record, false, &args, sizeof args);
}

static enum dqn_status event_wait(struct dqn_queue *q, struct dqn_event *event) {
    pthread_mutex_lock(&event->lock);
    const struct event_args args = {event, event->recorded};
    pthread_mutex_unlock(&event->lock);
    return submit((struct cpu_queue *)q, run_event_wait, false, &args, sizeof args);
}

/* Programs are not captured: dqn_program calls the function each time. */
const struct dqn_queue_ops dqn_cpu_queue_ops = {
    .create = queue_create,
    .destroy = queue_destroy,
    .wait = queue_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
};
