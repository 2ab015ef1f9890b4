/* The CUDA device itself: memory, queues, events, graphs, and the faults that must end in an error
 * text and not in a crash. */
#include "cuda_pair.h"

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
