#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

struct job {
    dqn_parallel_body body;
    void *context;
    size_t n;
    atomic_size_t next; /* the lowest piece that nobody has taken */
    pthread_mutex_t lock;
    enum dqn_status status; /* of piece `failed`, with its text */
    size_t failed;
    char text[2048];
};

static void keep_error(struct job *job, size_t i, enum dqn_status status) {
    pthread_mutex_lock(&job->lock);
    if (job->status == DQN_OK || i < job->failed) {
        job->status = status;
        job->failed = i;
        snprintf(job->text, sizeof job->text, "%s", dqn_error_text());
    }
    pthread_mutex_unlock(&job->lock);
}

/* Pieces are taken in order: when one fails, all before it were taken, and are finished. */
static void *work_off(void *argument) {
    struct job *job = argument;
    for (size_t i = atomic_fetch_add(&job->next, 1); i < job->n;
         i = atomic_fetch_add(&job->next, 1)) {
        const enum dqn_status status = job->body(job->context, i);
        if (status != DQN_OK) {
            keep_error(job, i, status);
            atomic_store(&job->next, job->n);
        }
    }
    return NULL;
}

static size_t count_threads(size_t threads, size_t n) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads > 0 ? threads : cores > 0 ? (size_t)cores : 1;
    threads = threads < n ? threads : n;
    return threads < DQN_PARALLEL_MAX ? threads : DQN_PARALLEL_MAX;
}

enum dqn_status dqn_parallel(size_t threads, size_t n, dqn_parallel_body body, void *context) {
    struct job job = {.body = body, .context = context, .n = n, .status = DQN_OK};
    pthread_t worker[DQN_PARALLEL_MAX];
    const size_t wanted = count_threads(threads, n);
    size_t started = 0;
    pthread_mutex_init(&job.lock, NULL);
    while (started + 1 < wanted && pthread_create(&worker[started], NULL, work_off, &job) == 0) {
        started++;
    }
    work_off(&job);
    while (started > 0) {
        pthread_join(worker[--started], NULL);
    }
    pthread_mutex_destroy(&job.lock);
    return job.status == DQN_OK ? DQN_OK : dqn_fail(job.status, "%s", job.text);
}
