#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* How long a thread spins before it sleeps: longer than the serial parts of a training step, short
 * against a scheduler's time slice. */
#define SPIN_S 50e-6

struct dqn_cpu_pool {
    size_t n_workers;
    pthread_t *worker;
    /* The job. Written by the caller while `unclaimed` is 0, read after a claim. */
    void (*body)(void *context, size_t i);
    void *context;
    size_t n;
    atomic_size_t unclaimed;  /* indices nobody has taken: > 0 means there is work */
    atomic_size_t unfinished; /* indices whose body has not returned */
    /* Sleeping. Each side announces its sleep first and checks the work again after that; the other
     * side publishes first and looks for sleepers after that. All four are sequentially consistent,
     * so at least one side sees the other. */
    atomic_size_t sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Spins until `value` is zero (or, with `want_zero` false, nonzero); false when time ran out. */
static bool spin(const atomic_size_t *value, bool want_zero) {
    const double end = dqn_clock_s() + SPIN_S;
    do {
        for (int i = 0; i < 16; i++) {
            if ((atomic_load_explicit(value, memory_order_acquire) == 0) == want_zero) {
                return true;
            }
            relax();
        }
    } while (dqn_clock_s() < end);
    return false;
}

/* Takes indices until none is left. A claim holds the job open, so the job is read after it. */
static void work_off(struct dqn_cpu_pool *pool) {
    size_t left = atomic_load_explicit(&pool->unclaimed, memory_order_acquire);
    while (left > 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->unclaimed, &left, left - 1,
                                                   memory_order_acq_rel, memory_order_acquire)) {
            continue;
        }
        pool->body(pool->context, pool->n - left);
        if (atomic_fetch_sub(&pool->unfinished, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
        left = atomic_load_explicit(&pool->unclaimed, memory_order_acquire);
    }
}

static void sleep_until_work(struct dqn_cpu_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->unclaimed) == 0 && !atomic_load(&pool->stop)) {
        pthread_cond_wait(&pool->work, &pool->lock);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument) {
    struct dqn_cpu_pool *pool = argument;
    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        if (!spin(&pool->unclaimed, false)) {
            sleep_until_work(pool);
        }
        work_off(pool);
    }
    return NULL;
}

static void wait_until_done(struct dqn_cpu_pool *pool) {
    if (spin(&pool->unfinished, true)) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->unfinished) > 0) {
        pthread_cond_wait(&pool->done, &pool->lock);
    }
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

void dqn_cpu_for(struct dqn_cpu_pool *pool, size_t n, void (*body)(void *context, size_t i),
                 void *context) {
    if (n <= 1 || pool->n_workers == 0) {
        for (size_t i = 0; i < n; i++) {
            body(context, i);
        }
        return;
    }
    pool->body = body;
    pool->context = context;
    pool->n = n;
    atomic_store_explicit(&pool->unfinished, n, memory_order_relaxed);
    atomic_store(&pool->unclaimed, n);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
    }
    work_off(pool);
    wait_until_done(pool);
}

size_t dqn_cpu_pool_threads(const struct dqn_cpu_pool *pool) {
    return pool->n_workers + 1;
}

enum dqn_status dqn_cpu_pool_create(struct dqn_cpu_pool **out, size_t threads) {
    DQN_CHECK(threads >= 1);
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_cpu_pool), "thread pool"));
    struct dqn_cpu_pool *pool = memory;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_alloc(&memory, threads, sizeof *pool->worker, "thread pool"));
    pool->worker = memory;
    for (size_t t = 1; t < threads; t++) {
        const int error = pthread_create(&pool->worker[pool->n_workers], NULL, worker_main, pool);
        if (error != 0) {
            status = dqn_fail(DQN_ERR_DEVICE,
                              "thread %zu of %zu cannot be started: %s; ask for fewer threads",
                              t + 1, threads, strerror(error));
            goto done;
        }
        pool->n_workers++;
    }
    *out = pool;
    return DQN_OK;
done:
    dqn_cpu_pool_destroy(pool);
    return status;
}

void dqn_cpu_pool_destroy(struct dqn_cpu_pool *pool) {
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t t = 0; t < pool->n_workers; t++) {
        pthread_join(pool->worker[t], NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->worker);
    free(pool);
}
