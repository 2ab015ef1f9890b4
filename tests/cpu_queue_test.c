/* The thread pool, and plain and late queues of the CPU. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "cpu/threads.h"
#include "status_checks.h"

static const struct dqn_memory_ops *memory;
static const struct dqn_queue_ops *queue;

static struct dqn_device open_device(int threads, bool late) {
    const struct dqn_device_options options = {.threads = threads, .late_queue = late};
    struct dqn_device device;
    memory = dqn_cpu_backend.memory;
    queue = dqn_cpu_backend.queue;
    OK(memory->open(&device, &options));
    return device;
}

/* ---- pool ---- */

struct counts {
    size_t n;
    unsigned char *seen; /* [n] */
    atomic_size_t total;
};

static void count(void *context, size_t i) {
    struct counts *c = context;
    cr_assert_lt(i, c->n);
    c->seen[i]++; /* each index is one task's own */
    atomic_fetch_add(&c->total, i);
}

Test(cpu_queue, pool_runs_each_index_once) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 1000};
    for (size_t threads = 1; threads <= 5; threads++) {
        struct dqn_cpu_pool *pool;
        OK(dqn_cpu_pool_create(&pool, threads));
        cr_assert_eq(dqn_cpu_pool_threads(pool), threads);
        for (int round = 0; round < 200; round++) {
            const size_t n = sizes[round % DQN_COUNT_OF(sizes)];
            unsigned char seen[1000] = {0};
            struct counts c = {.n = n, .seen = seen};
            dqn_cpu_for(pool, n, count, &c);
            for (size_t i = 0; i < n; i++) {
                cr_assert_eq(seen[i], 1, "index %zu of %zu ran %d times", i, n, seen[i]);
            }
            cr_assert_eq(atomic_load(&c.total), n > 0 ? n * (n - 1) / 2 : 0);
        }
        dqn_cpu_pool_destroy(pool);
    }
}

/* Workers that went to sleep wake up again: pauses far above the pool's spinning time. */
Test(cpu_queue, pool_wakes_from_sleep) {
    struct dqn_cpu_pool *pool;
    OK(dqn_cpu_pool_create(&pool, 3));
    for (int round = 0; round < 30; round++) {
        unsigned char seen[8] = {0};
        struct counts c = {.n = 8, .seen = seen};
        usleep(2000);
        dqn_cpu_for(pool, 8, count, &c);
        cr_assert_eq(atomic_load(&c.total), 28);
    }
    dqn_cpu_pool_destroy(pool);
}

static void nap(void *context, size_t i) {
    (void)context;
    const struct timespec pause = {.tv_nsec = i == 0 ? 5000000 : 0};
    nanosleep(&pause, NULL);
}

static void long_nap(void *context, size_t i) {
    (void)i;
    nap(context, 0);
}

/* Four naps of 5 ms in four threads take less than their sum: all threads work. */
Test(cpu_queue, pool_is_parallel_and_idle_costs_nothing) {
    struct dqn_cpu_pool *pool;
    OK(dqn_cpu_pool_create(&pool, 4));
    double best = 1;
    for (int round = 0; round < 20; round++) {
        const double start = dqn_clock_s();
        dqn_cpu_for(pool, 4, long_nap, NULL);
        const double taken = dqn_clock_s() - start;
        best = taken < best ? taken : best;
    }
    cr_assert_lt(best, 0.015, "four tasks of 5 ms took %.1f ms", best * 1e3);
    /* Idle: three workers that spin would burn 600 ms of CPU in 200 ms. */
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double burnt =
        (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    cr_assert_lt(burnt, 0.02, "an idle pool used %.1f ms of CPU", burnt * 1e3);
    /* A caller that finishes first sleeps until the slow task is done. */
    for (int round = 0; round < 20; round++) {
        dqn_cpu_for(pool, 8, nap, NULL);
    }
    dqn_cpu_pool_destroy(pool);
}

/* ---- device and memory ---- */

Test(cpu_queue, description_and_memory) {
    struct dqn_device device = open_device(2, false);
    cr_assert_eq(strncmp(device.description, "cpu: 2 threads, OpenBLAS ", 25), 0, "%s",
                 device.description);
    cr_assert_eq(device.backend, &dqn_cpu_backend);
    unsigned char *data;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    for (size_t s = 0; s < DQN_COUNT_OF(sizes); s++) {
        void *block;
        OK(memory->alloc(&device, &block, sizes[s], s % 2 == 1));
        data = block;
        cr_assert_eq((uintptr_t)data % 64, 0);
        for (size_t i = 0; i < sizes[s]; i++) {
            cr_assert_eq(data[i], 0);
        }
        memory->free(&device, block, s % 2 == 1);
    }
    uint64_t free_bytes, total_bytes;
    OK(memory->info(&device, &free_bytes, &total_bytes));
    cr_assert(free_bytes > 0 && free_bytes <= total_bytes);
    void *block = &device;
    cr_assert_eq(memory->alloc(&device, &block, total_bytes + 1, false), DQN_ERR_DEVICE_MEMORY);
    cr_assert_null(block);
    cr_assert_not_null(strstr(dqn_error_text(), "asked for"), "%s", dqn_error_text());
    cr_assert_eq(memory->alloc(&device, &block, SIZE_MAX, false), DQN_ERR_DEVICE_MEMORY);
    memory->close(&device);
}

Test(cpu_queue, zero_threads_means_one_a_core) {
    struct dqn_device device = open_device(0, false);
    char want[64];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(want, sizeof want, "cpu: %ld thread%s,", cores, cores == 1 ? "" : "s");
    cr_assert_eq(strncmp(device.description, want, strlen(want)), 0, "%s", device.description);
    memory->close(&device);
}

/* ---- queues ---- */

Test(cpu_queue, plain_queue_runs_at_once) {
    struct dqn_device device = open_device(1, false);
    struct dqn_queue *q;
    OK(queue->create(&device, &q));
    cr_assert_eq(q->device, &device);
    int from = 5, to = 0;
    OK(memory->copy(q, &to, &from, sizeof to, DQN_COPY_TO_HOST));
    cr_assert_eq(to, 5);
    OK(memory->zero(q, &to, sizeof to));
    cr_assert_eq(to, 0);
    OK(memory->copy(q, NULL, NULL, 0, DQN_COPY_TO_DEVICE));
    const uint64_t waits = dqn_queue_waits();
    OK(queue->wait(q));
    cr_assert_eq(dqn_queue_waits(), waits + 1);
    cr_assert_null(queue->capture_begin);
    cr_assert_null(queue->busy_begin);
    queue->destroy(q);
    queue->destroy(NULL);
    memory->close(&device);
}

/* A probe right after the submit still sees the old value; after the wait the new one. The probe
 * may lose the race now and then on a busy machine: most of 50 must win it. */
Test(cpu_queue, late_queue_is_late) {
    struct dqn_device device = open_device(2, true);
    struct dqn_queue *q;
    OK(queue->create(&device, &q));
    int stale = 0;
    const double begun = dqn_clock_s(), waited = dqn_queue_waited_s();
    for (int round = 1; round <= 50; round++) {
        const int from = round;
        atomic_int to = 0;
        OK(memory->copy(q, &to, &from, sizeof from, DQN_COPY_TO_HOST));
        stale += atomic_load(&to) == 0;
        OK(queue->wait(q));
        cr_assert_eq(atomic_load(&to), round);
    }
    cr_assert_geq(stale, 25, "only %d of 50 operations were late", stale);
    cr_assert_gt(dqn_queue_waited_s() - waited, 25 * 10e-6); /* the worker pauses for 20 us */
    cr_assert_leq(dqn_queue_waited_s() - waited, dqn_clock_s() - begun);
    queue->destroy(q);
    memory->close(&device);
}

struct append_args {
    uint64_t *list;
    uint64_t value;
    size_t *n;
};

static enum dqn_status append(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    const struct append_args *args = arguments;
    args->list[(*args->n)++] = args->value;
    return DQN_OK;
}

static enum dqn_status fail_with(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    return dqn_fail(DQN_ERR_DATA, "operation %d failed", *(const int *)arguments);
}

/* More operations than the ring has slots, in order, with their own copies of the arguments. */
Test(cpu_queue, late_queue_keeps_order) {
    struct dqn_device device = open_device(1, true);
    struct dqn_queue *q;
    OK(queue->create(&device, &q));
    enum { N = 3000 };
    uint64_t *list = calloc(N, sizeof *list);
    size_t n = 0;
    for (uint64_t i = 0; i < N; i++) {
        const struct append_args args = {list, i * i, &n};
        OK(dqn_cpu_submit(q, append, &args, sizeof args));
    }
    OK(queue->wait(q));
    cr_assert_eq(n, N);
    for (uint64_t i = 0; i < N; i++) {
        cr_assert_eq(list[i], i * i);
    }
    free(list);
    queue->destroy(q);
    memory->close(&device);
}

/* A plain queue returns an error from the operation; a late one from the next wait, once, and
 * leaves out what came after it. */
Test(cpu_queue, errors) {
    for (int late = 0; late <= 1; late++) {
        struct dqn_device device = open_device(1, late);
        struct dqn_queue *q;
        OK(queue->create(&device, &q));
        uint64_t list[4] = {0};
        size_t n = 0;
        const int first = 1, second = 2;
        const struct append_args after = {list, 7, &n};
        enum dqn_status status = dqn_cpu_submit(q, fail_with, &first, sizeof first);
        if (late) {
            cr_assert_eq(status, DQN_OK);
            OK(dqn_cpu_submit(q, fail_with, &second, sizeof second));
            OK(dqn_cpu_submit(q, append, &after, sizeof after));
            status = queue->wait(q);
        }
        cr_assert_eq(status, DQN_ERR_DATA);
        cr_assert_str_eq(dqn_error_text(), "operation 1 failed");
        cr_assert_eq(n, 0);
        OK(queue->wait(q));
        OK(dqn_cpu_submit(q, append, &after, sizeof after));
        OK(queue->wait(q));
        cr_assert_eq(n, 1);
        queue->destroy(q);
        memory->close(&device);
    }
}

static enum dqn_status slow(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    (void)arguments;
    usleep(3000);
    return DQN_OK;
}

/* What queue b does after the event comes after what queue a did before it. */
Test(cpu_queue, events_order_two_queues) {
    for (int late = 0; late <= 1; late++) {
        struct dqn_device device = open_device(2, late);
        struct dqn_queue *a, *b;
        struct dqn_event *event;
        OK(queue->create(&device, &a));
        OK(queue->create(&device, &b));
        OK(queue->event_create(&device, &event));
        OK(queue->event_wait(b, event)); /* never recorded: nothing to wait for */
        for (int round = 1; round <= 20; round++) {
            int value = 0, seen = -1;
            OK(dqn_cpu_submit(a, slow, "", 1));
            OK(memory->copy(a, &value, &round, sizeof value, DQN_COPY_ON_DEVICE));
            OK(queue->event_record(a, event));
            OK(queue->event_wait(b, event));
            OK(memory->copy(b, &seen, &value, sizeof seen, DQN_COPY_ON_DEVICE));
            OK(queue->wait(b));
            cr_assert_eq(seen, round);
            OK(queue->wait(a));
        }
        /* An error on the way does not swallow the record. */
        const int one = 1;
        if (late) {
            OK(dqn_cpu_submit(a, fail_with, &one, sizeof one));
            OK(queue->event_record(a, event));
            OK(queue->event_wait(b, event));
            OK(queue->wait(b));
            cr_assert_eq(queue->wait(a), DQN_ERR_DATA);
        }
        queue->event_destroy(event);
        queue->event_destroy(NULL);
        queue->destroy(a);
        queue->destroy(b);
        memory->close(&device);
    }
}

struct exclusive {
    atomic_int inside;
    atomic_int worst;
};

static void look(void *context, size_t i) {
    (void)i;
    struct exclusive *e = context;
    cr_assert_eq(atomic_load(&e->inside), 1);
}

static enum dqn_status use_pool(struct dqn_cpu_pool *pool, const void *arguments) {
    struct exclusive *e = *(struct exclusive *const *)arguments;
    const int inside = atomic_fetch_add(&e->inside, 1) + 1;
    if (inside > atomic_load(&e->worst)) {
        atomic_store(&e->worst, inside);
    }
    dqn_cpu_for(pool, 16, look, e);
    usleep(100);
    atomic_fetch_sub(&e->inside, 1);
    return DQN_OK;
}

/* The pool serves one caller at a time: two late queues take turns. */
Test(cpu_queue, late_queues_share_the_pool) {
    struct dqn_device device = open_device(2, true);
    struct dqn_queue *a, *b;
    OK(queue->create(&device, &a));
    OK(queue->create(&device, &b));
    struct exclusive e = {0};
    struct exclusive *const at = &e;
    for (int round = 0; round < 100; round++) {
        OK(dqn_cpu_submit(round % 2 == 0 ? a : b, use_pool, &at, sizeof at));
    }
    OK(queue->wait(a));
    OK(queue->wait(b));
    cr_assert_eq(atomic_load(&e.worst), 1);
    queue->destroy(a);
    queue->destroy(b);
    memory->close(&device);
}
