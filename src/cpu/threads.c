#include "threads.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* How long a thread spins before it sleeps: longer than the serial parts of a training step, short
 * against a scheduler's time slice. */
#define SPIN_S 50e-6

enum { CACHE_LINE = 64 };

/* A thread's part of the job: indices [end - left, end). Other threads help when they are done with
 * their own. The same index of the same split goes to the same thread where nobody is late, so
 * what it works on stays in that core's cache. */
struct part {
    alignas(CACHE_LINE) atomic_size_t left;
    size_t end;
};

struct dqn_cpu_pool {
    size_t n_workers;
    struct worker *worker; /* [n_workers] */
    size_t started;        /* of them: fewer when a thread could not start */
    struct part *part;     /* [n_workers + 1], the caller's first */
    /* The job. Written by the caller while every part is used up, read after a claim. */
    void (*body)(void *context, size_t i);
    void *context;
    alignas(CACHE_LINE) atomic_size_t unfinished; /* indices whose body has not returned */
    /* Sleeping. Each side announces its sleep first and checks the work again after that; the other
     * side publishes first and looks for sleepers after that. All four are sequentially consistent,
     * so at least one side sees the other. */
    alignas(CACHE_LINE) atomic_size_t sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
};

struct worker {
    pthread_t thread;
    struct dqn_cpu_pool *pool;
    size_t part; /* its own one */
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

static void finish_one(struct dqn_cpu_pool *pool) {
    if (atomic_fetch_sub(&pool->unfinished, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Takes indices of one part until none is left. A claim holds the job open, so the job is read
 * after it. */
static void work_off_part(struct dqn_cpu_pool *pool, struct part *part) {
    size_t left = atomic_load_explicit(&part->left, memory_order_acquire);
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&part->left, &left, left - 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            pool->body(pool->context, part->end - left);
            finish_one(pool);
            left = atomic_load_explicit(&part->left, memory_order_acquire);
        }
    }
}

/* The own part, then what is left of the others'. */
static void work_off(struct dqn_cpu_pool *pool, size_t own) {
    const size_t n_parts = pool->n_workers + 1;
    for (size_t i = 0; i < n_parts; i++) {
        work_off_part(pool, &pool->part[(own + i) % n_parts]);
    }
}

static void sleep_until_work(struct dqn_cpu_pool *pool, const struct part *own) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&own->left) == 0 && !atomic_load(&pool->stop)) {
        pthread_cond_wait(&pool->work, &pool->lock);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument) {
    const struct worker *self = argument;
    struct dqn_cpu_pool *pool = self->pool;
    const struct part *own = &pool->part[self->part];
    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        if (!spin(&own->left, false)) {
            sleep_until_work(pool, own);
        }
        work_off(pool, self->part);
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
    const size_t n_parts = pool->n_workers + 1;
    pool->body = body;
    pool->context = context;
    atomic_store_explicit(&pool->unfinished, n, memory_order_relaxed);
    size_t end = n;
    for (size_t p = n_parts; p-- > 0;) {
        const size_t count = n / n_parts + (p < n % n_parts ? 1 : 0);
        pool->part[p].end = end;
        atomic_store(&pool->part[p].left, count);
        end -= count;
    }
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
    }
    work_off(pool, 0);
    wait_until_done(pool);
}

size_t dqn_cpu_pool_threads(const struct dqn_cpu_pool *pool) {
    return pool->n_workers + 1;
}

/* Zero-filled, at the start of a cache line. */
static enum dqn_status alloc_lines(void **out, size_t count, size_t size) {
    size_t bytes = 0;
    DQN_TRY(dqn_size_mul(count, size, &bytes)); /* `size` is a multiple of a line */
    *out = aligned_alloc(CACHE_LINE, bytes);
    if (*out == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no host memory for a pool of threads (%zu bytes)", bytes);
    }
    memset(*out, 0, bytes);
    return DQN_OK;
}

static enum dqn_status start_workers(struct dqn_cpu_pool *pool, size_t n) {
    for (size_t t = 0; t < n; t++) {
        struct worker *worker = &pool->worker[t];
        worker->pool = pool;
        worker->part = t + 1;
        const int error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error != 0) {
            return dqn_fail(DQN_ERR_DEVICE,
                            "thread %zu of %zu cannot be started: %s; ask for fewer threads", t + 2,
                            n + 1, strerror(error));
        }
        pool->started++;
    }
    return DQN_OK;
}

enum dqn_status dqn_cpu_pool_create(struct dqn_cpu_pool **out, size_t threads) {
    DQN_CHECK(threads >= 1);
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(alloc_lines(&memory, 1, sizeof(struct dqn_cpu_pool)));
    struct dqn_cpu_pool *pool = memory;
    pool->n_workers = threads - 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(alloc_lines(&memory, threads, sizeof *pool->part));
    pool->part = memory;
    DQN_TRY_GOTO(dqn_alloc(&memory, threads, sizeof *pool->worker, "thread pool"));
    pool->worker = memory;
    DQN_TRY_GOTO(start_workers(pool, pool->n_workers));
    *out = pool;
done:
    if (status != DQN_OK) {
        dqn_cpu_pool_destroy(pool);
    }
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
    for (size_t t = 0; t < pool->started; t++) {
        pthread_join(pool->worker[t].thread, NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->worker);
    free(pool->part);
    free(pool);
}
