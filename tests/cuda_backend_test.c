/* The CUDA device itself: memory, queues, events, graphs, and the faults that must end in an error
 * text and not in a crash. */
#include <time.h>

#include "cuda_pair.h"
#include "program.h"

static const struct dqn_device_options options = {.threads = 1};

/* Opening fails and says why. Runs without a GPU as well: the fault comes before the driver. */
static void must_not_open(const char *fault, const char *word) {
    const struct dqn_backend *cuda = need_cuda_build();
    struct dqn_device device;
    setenv("DQN_TEST_FAULT", fault, 1);
    cr_assert_eq(cuda->memory->open(&device, &options), DQN_ERR_DEVICE);
    cr_assert_not_null(strstr(dqn_error_text(), word), "%s", dqn_error_text());
    cr_assert_null(device.impl);
}

Test(cuda_backend, no_driver) {
    must_not_open("no_driver", "driver");
}

Test(cuda_backend, no_device) {
    must_not_open("no_device", "CUDA_VISIBLE_DEVICES");
}

Test(cuda_backend, no_such_index) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    struct dqn_device device;
    const struct dqn_device_options far = {.index = 63};
    cr_assert_eq(pair.side[GPU].backend->memory->open(&device, &far), DQN_ERR_DEVICE);
    cr_assert_not_null(strstr(dqn_error_text(), "device_index = 63"), "%s", dqn_error_text());
    pair_close(&pair);
}

Test(cuda_backend, memory_is_zero_and_copies_arrive) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    const struct dqn_memory_ops *memory = gpu->backend->memory;
    cr_log_info("%s", gpu->device.description);
    enum { N = 1 << 20 };
    unsigned char *host = NULL, *device = NULL, *other = NULL;
    OK(memory->alloc(&gpu->device, (void **)&host, N, true));
    OK(memory->alloc(&gpu->device, (void **)&device, N, false));
    OK(memory->alloc(&gpu->device, (void **)&other, N, false));
    cr_assert_eq(host[0] | host[N - 1], 0);
    memset(host, 1, N);
    OK(memory->copy(gpu->q, host, device, N, DQN_COPY_TO_HOST));
    OK(gpu->backend->queue->wait(gpu->q));
    for (size_t i = 0; i < N; i++) {
        cr_assert_eq(host[i], 0);
        host[i] = (unsigned char)(i * 7);
    }
    OK(memory->copy(gpu->q, device, host, N, DQN_COPY_TO_DEVICE));
    OK(memory->copy(gpu->q, other, device, N, DQN_COPY_ON_DEVICE));
    OK(memory->zero(gpu->q, other, 5));
    OK(gpu->backend->queue->wait(gpu->q));
    OK(memory->copy(gpu->q, host, other, N, DQN_COPY_TO_HOST));
    const uint64_t waits = dqn_queue_waits();
    OK(gpu->backend->queue->wait(gpu->q));
    cr_assert_eq(dqn_queue_waits(), waits + 1);
    for (size_t i = 0; i < N; i++) {
        cr_assert_eq(host[i], i < 5 ? 0 : (unsigned char)(i * 7));
    }
    memory->free(&gpu->device, host, true);
    memory->free(&gpu->device, device, false);
    memory->free(&gpu->device, other, false);
    pair_close(&pair);
}

/* A second queue copies what the first wrote, after an event, many times. */
Test(cuda_backend, events_order_queues) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    const struct dqn_queue_ops *ops = gpu->backend->queue;
    const struct dqn_memory_ops *memory = gpu->backend->memory;
    struct dqn_queue *second = NULL;
    struct dqn_event *written = NULL, *read = NULL;
    uint64_t *device = NULL, *source = NULL, *host = NULL;
    enum { ROUNDS = 64 };
    const size_t n = reduced(1 << 18, 1 << 12);
    OK(ops->create(&gpu->device, &second));
    OK(ops->event_create(&gpu->device, &written));
    OK(ops->event_create(&gpu->device, &read));
    OK(memory->alloc(&gpu->device, (void **)&device, n * sizeof *device, false));
    OK(memory->alloc(&gpu->device, (void **)&source, ROUNDS * n * sizeof *source, true));
    OK(memory->alloc(&gpu->device, (void **)&host, ROUNDS * sizeof *host, true));
    for (size_t i = 0; i < ROUNDS * n; i++) {
        source[i] = i / n + 1;
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        OK(ops->event_wait(gpu->q, read)); /* never recorded in round 0: no wait */
        OK(memory->copy(gpu->q, device, source + i * n, n * sizeof *device, DQN_COPY_TO_DEVICE));
        OK(ops->event_record(gpu->q, written));
        OK(ops->event_wait(second, written));
        OK(memory->copy(second, &host[i], &device[n - 1], sizeof *host, DQN_COPY_TO_HOST));
        OK(ops->event_record(second, read));
    }
    OK(ops->wait(second));
    for (size_t i = 0; i < ROUNDS; i++) {
        cr_assert_eq(host[i], i + 1);
    }
    ops->destroy(second);
    ops->event_destroy(written);
    ops->event_destroy(read);
    memory->free(&gpu->device, device, false);
    memory->free(&gpu->device, source, true);
    memory->free(&gpu->device, host, true);
    pair_close(&pair);
}

/* ---- the clock of work in flight ---- */

struct zeroing {
    const struct dqn_memory_ops *memory;
    void *data;
    size_t bytes, n;
};

static enum dqn_status zero_often(void *context, struct dqn_queue *q) {
    const struct zeroing *z = context;
    for (size_t i = 0; i < z->n; i++) {
        DQN_TRY(z->memory->zero(q, z->data, z->bytes));
    }
    return DQN_OK;
}

enum { PAUSE_MS = 20 };

/* The host does something else. */
static void pause_host(void) {
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
}

/* Runs work (called, then as a graph), with a pause of the host before each and none while it
 * runs; gives what the clock says, and the time of the runs by the host's clock. */
static void time_work(const struct side *gpu, struct zeroing *z, double *busy_s, double *runs_s) {
    const struct dqn_queue_ops *ops = gpu->backend->queue;
    struct dqn_program *program = NULL;
    OK(dqn_program_record(&program, zero_often, z));
    *runs_s = 0.0;
    OK(ops->busy_begin(gpu->q));
    for (int run = 0; run < 4; run++) { /* 0 is called, 1 captured and launched, others launched */
        pause_host();
        const double begun = dqn_clock_s();
        OK(dqn_program_run(program, gpu->q));
        OK(ops->wait(gpu->q));
        *runs_s += dqn_clock_s() - begun;
    }
    pause_host();
    OK(ops->busy_end(gpu->q, busy_s));
    dqn_program_destroy(program);
}

/* Most of the time of large work, and none of the host's pauses. */
Test(cuda_backend, clock_of_work_in_flight) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    const struct dqn_memory_ops *memory = gpu->backend->memory;
    struct zeroing z = {.memory = memory, .bytes = (size_t)1 << 28, .n = reduced(100, 2)};
    OK(memory->alloc(&gpu->device, &z.data, z.bytes, false));
    OK(zero_often(&z, gpu->q)); /* the clocks of the GPU rise */
    OK(gpu->backend->queue->wait(gpu->q));
    double busy_s = 0.0, runs_s = 0.0;
    time_work(gpu, &z, &busy_s, &runs_s);
    cr_log_info("%.2f ms in flight of %.2f ms", 1e3 * busy_s, 1e3 * runs_s);
    cr_expect_leq(busy_s, runs_s * 1.001 + 1e-5, "pauses of %d ms", PAUSE_MS);
    cr_expect_gt(busy_s, runs_s * reduced(50, 1) / 100.0);
    memory->free(&gpu->device, z.data, false);
    pair_close(&pair);
}

/* More flights than the clock has room for at once; then again, from 0. */
Test(cuda_backend, clock_of_many_flights) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    const struct dqn_queue_ops *ops = gpu->backend->queue;
    void *data = NULL;
    OK(gpu->backend->memory->alloc(&gpu->device, &data, 4096, false));
    double many_s = 0.0, one_s = 0.0;
    const double begun = dqn_clock_s();
    OK(ops->busy_begin(gpu->q));
    for (size_t i = 0; i < reduced(10000, 5000); i++) {
        OK(gpu->backend->memory->zero(gpu->q, data, 4096));
        OK(ops->wait(gpu->q));
    }
    const uint64_t waits = dqn_queue_waits();
    OK(ops->busy_end(gpu->q, &many_s));
    cr_expect_eq(dqn_queue_waits(), waits + 1);
    cr_expect_lt(many_s, dqn_clock_s() - begun);
    OK(ops->busy_begin(gpu->q));
    OK(gpu->backend->memory->zero(gpu->q, data, 4096));
    OK(ops->busy_end(gpu->q, &one_s)); /* ends what was not waited for */
    cr_log_info("%.2f ms in flight, and %.2f us of one", 1e3 * many_s, 1e6 * one_s);
    cr_expect_gt(one_s, 0.0);
    cr_expect_gt(many_s, 100.0 * one_s);
    OK(gpu->backend->memory->zero(gpu->q, data, 4096));
    OK(ops->busy_begin(gpu->q));
    OK(ops->busy_end(gpu->q, &one_s));
    cr_expect_eq(one_s, 0.0, "%g s without work", one_s);
    gpu->backend->memory->free(&gpu->device, data, false);
    pair_close(&pair);
}

/* Failed allocations name sizes, leave the device usable and do not show up in later calls. */
Test(cuda_backend, out_of_memory) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    const struct dqn_memory_ops *memory = gpu->backend->memory;
    void *data = NULL;
    static const char *const faults[] = {"oom_all", "oom:1000", "oom_at:1", "oom_from:1"};
    cr_assert_eq(memory->alloc(&gpu->device, &data, (size_t)1 << 50, false),
                 DQN_ERR_DEVICE_MEMORY); /* a real one; allocation 1 of this device */
    cr_assert_null(data);
    OK(memory->zero(gpu->q, data, 0));
    for (size_t i = 0; i < DQN_COUNT_OF(faults); i++) {
        struct dqn_device device;
        setenv("DQN_TEST_FAULT", faults[i], 1);
        OK(gpu->backend->memory->open(&device, &options));
        cr_assert_eq(memory->alloc(&device, &data, 1000, false), DQN_ERR_DEVICE_MEMORY, "%s",
                     faults[i]);
        cr_assert_not_null(strstr(dqn_error_text(), "free"), "%s", dqn_error_text());
        unsetenv("DQN_TEST_FAULT");
        OK(memory->alloc(&device, &data, 1000, false));
        memory->free(&device, data, false);
        memory->close(&device);
    }
    setenv("DQN_TEST_FAULT", "pinned", 1); /* plain memory steps in */
    OK(memory->alloc(&gpu->device, &data, 4096, true));
    unsetenv("DQN_TEST_FAULT");
    OK(memory->zero(gpu->q, NULL, 0));
    memory->free(&gpu->device, data, true);
    OK(gpu->backend->queue->wait(gpu->q));
    pair_close(&pair);
}

static enum dqn_status act_once(const struct side *gpu, void *scratch) {
    const struct dqn_act_args args = {.n_agents = 1,
                                      .lanes = 1,
                                      .actions = 2,
                                      .actions_ld = 4,
                                      .agents = scratch,
                                      .counters = scratch,
                                      .purpose = DQN_RNG_POLICY,
                                      .q = scratch,
                                      .action = scratch};
    return gpu->backend->nn->act(gpu->q, &args);
}

/* A failing launch is an error by name; the next one works. */
Test(cuda_backend, failing_launch) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    void *scratch = NULL;
    OK(gpu->backend->memory->alloc(&gpu->device, &scratch, 4096, false));
    setenv("DQN_TEST_FAULT", "launch:k_act", 1);
    cr_assert_eq(act_once(gpu, scratch), DQN_ERR_DEVICE);
    cr_assert_not_null(strstr(dqn_error_text(), "k_act"), "%s", dqn_error_text());
    unsetenv("DQN_TEST_FAULT");
    OK(act_once(gpu, scratch));
    OK(gpu->backend->queue->wait(gpu->q));
    gpu->backend->memory->free(&gpu->device, scratch, false);
    pair_close(&pair);
}

/* A lost context is said once; everything after it fails in order, and closing is quiet. */
Test(cuda_backend, lost_context) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct side *gpu = &pair.side[GPU];
    void *scratch = NULL, *more = NULL;
    OK(gpu->backend->memory->alloc(&gpu->device, &scratch, 4096, false));
    setenv("DQN_TEST_FAULT", "illegal:k_act", 1);
    OK(act_once(gpu, scratch));
    cr_assert_eq(gpu->backend->queue->wait(gpu->q), DQN_ERR_DEVICE);
    cr_assert_not_null(strstr(dqn_error_text(), "lost"), "%s", dqn_error_text());
    cr_assert_neq(gpu->backend->memory->alloc(&gpu->device, &more, 4096, false), DQN_OK);
    gpu->backend->memory->free(&gpu->device, scratch, false);
    pair_close(&pair);
}
