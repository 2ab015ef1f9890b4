/* Fallbacks on a GPU, each forced by DQN_TEST_FAULT (kernels/cuda_common.cuh): what is decided at
 * start, a replay on the CPU beside a GPU learner, replay kernels that fail later on, lost
 * contexts. tests/fallback_test.c has what can be seen without a GPU. */
#include "cuda_short_runs.h"
#include "h5_compare.h"
#include "memory_plan.h"
#include "trainer_parts.h"

#include <inttypes.h>
#include <unistd.h>

/* Importance weights are 1, so that nothing but integers and copies lies between the two replays:
 * runs with either are equal byte for byte, as long as both take updates operation by operation. */
static void operation_by_operation(void) {
    setenv("DQN_TEST_COMPOSED", "1", 1);
}

static const char *const kinds[][3] = {
    {"replay.kind=uniform", "replay.beta.end=0", "replay.weight_norm=batch"},
    {"replay.kind=proportional", "replay.beta.end=0", "replay.weight_norm=batch"},
    {"replay.kind=rank", "replay.beta.end=0", "replay.weight_norm=batch"},
    {"replay.kind=proportional", "replay.beta.end=0", "replay.weight_norm=buffer"},
};

struct outcome {
    enum dqn_status status;
    char error[1024];
    bool cpu, apart; /* where it ended */
    char why[768], replay_why[768];
};

/* Creates and runs under a fault. */
static struct outcome try_run(const char *fault, const char *device, size_t n, const char *a,
                              const char *b, const char *folder) {
    const char *set[4 + SHORT_SETS] = {device, "replay.beta.start=0", a, b};
    const struct dqn_trainer_options options = {.folder = folder, .quiet = true};
    struct dqn_trainer *t = NULL;
    struct outcome outcome = {.status = DQN_OK};
    bool stopped = false;
    n = shorten(run_cartpole, set, 2 + n);
    if (fault != NULL) {
        setenv("DQN_TEST_FAULT", fault, 1);
    }
    outcome.status = run_create(&t, run_cartpole, n, set, options);
    if (outcome.status == DQN_OK) {
        outcome.status = dqn_trainer_run(t, &stopped);
        outcome.cpu = t->place.cpu;
        outcome.apart = dqn_replay_device(t->replay) != &t->device;
        snprintf(outcome.why, sizeof outcome.why, "%s", t->place.why);
        snprintf(outcome.replay_why, sizeof outcome.replay_why, "%s", dqn_trainer_why_replay(t));
    }
    dqn_trainer_destroy(t); /* before the text is read, as programs do, and with the fault */
    snprintf(outcome.error, sizeof outcome.error, "%s", dqn_error_text());
    unsetenv("DQN_TEST_FAULT");
    return outcome;
}

/* ---- at start -----------------------------------------------------------------------------------
 */

static void starts_on_the_cpu(const char *fault, const char *word) {
    const struct outcome automatic = try_run(fault, "device=auto", 0, NULL, NULL, NULL);
    cr_expect_eq(automatic.status, DQN_OK, "%s: %s", fault, automatic.error);
    cr_expect(automatic.cpu && !automatic.apart, "%s", fault);
    cr_expect_not_null(strstr(automatic.why, word), "%s: %s", fault, automatic.why);
    cr_expect_null(strchr(automatic.why, '\n'));
    const struct outcome demanded = try_run(fault, "device=cuda", 0, NULL, NULL, NULL);
    cr_expect_eq(dqn_status_exit_code(demanded.status), 4, "%s: %s", fault, demanded.error);
    cr_expect_not_null(strstr(demanded.error, word), "%s: %s", fault, demanded.error);
    const struct outcome cpu = try_run(fault, "device=cpu", 0, NULL, NULL, NULL);
    cr_expect_eq(cpu.status, DQN_OK, "%s: %s", fault, cpu.error);
    cr_expect_str_empty(cpu.why);
}

Test(cuda_fallback, no_driver_or_device) {
    (void)need_cuda_build();
    starts_on_the_cpu("no_driver", "driver");
    starts_on_the_cpu("no_device", "CUDA_VISIBLE_DEVICES");
}

Test(cuda_fallback, no_kernel_or_memory) {
    need_gpu();
    starts_on_the_cpu("launch:k_probe", "k_probe");
    starts_on_the_cpu("oom_all", "free");
    starts_on_the_cpu("free:1000", "1.0 kB free");
}

/* Whether as much of the device's memory is free as before, but for 64 MB that the driver keeps.
 * Other programs on the GPU come and go, and what they take is waited for; a leak stays. */
static bool comes_back(uint64_t before) {
    enum { PATIENCE = 200 /* seconds */ };
    for (int second = 0; second < PATIENCE; second++) {
        if (free_on_gpu() + 64000000 >= before) {
            return true;
        }
        sleep(1);
    }
    return false;
}

/* The k-th allocation fails, once or from then on: the run ends well on one of the three places,
 * and the device's memory comes back. */
Test(cuda_fallback, every_allocation, .timeout = 500) {
    static const size_t all[] = {1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64};
    static const size_t few[] = {16};
    const struct sizes at = SIZES(all, few);
    const struct outcome first = try_run(NULL, "device=auto", 0, NULL, NULL, NULL);
    cr_expect_eq(first.status, DQN_OK, "%s", first.error);
    const uint64_t before = free_on_gpu();
    for (size_t i = 0; i < at.n; i++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            char fault[32];
            snprintf(fault, sizeof fault, "%s:%zu", for_ever ? "oom_from" : "oom_at", at.v[i]);
            const struct outcome run = try_run(fault, "device=auto", 0, NULL, NULL, NULL);
            cr_expect_eq(run.status, DQN_OK, "%s: %s", fault, run.error);
            cr_expect(!run.cpu || (run.why[0] != '\0' && !run.apart), "%s", fault);
            cr_expect(!run.apart || run.replay_why[0] != '\0', "%s", fault);
        }
    }
    if (!is_reduced()) { /* memory of a tool around the test comes and goes */
        cr_expect(comes_back(before), "of %" PRIu64 " bytes %" PRIu64 " are free", before,
                  free_on_gpu());
    }
}

/* Room for all but the replay, by the plan and by an allocation that fails. The states of a million
 * rows of 4 floats are 16 MB; nothing else of this run is as large. */
Test(cuda_fallback, the_replay_alone_does_not_fit) {
    need_gpu();
    static const char *const faults[] = {"free:40000000", "oom:16000000"};
    static const char *const devices[] = {"device=auto", "device=cuda"};
    const char *capacity = "replay.capacity=1000000";
    for (size_t f = 0; f < DQN_COUNT_OF(faults); f++) {
        for (size_t d = 0; d < DQN_COUNT_OF(devices); d++) {
            const struct outcome run = try_run(faults[f], devices[d], 1, capacity, NULL, NULL);
            cr_expect_eq(run.status, DQN_OK, "%s: %s", faults[f], run.error);
            cr_expect(run.apart && !run.cpu, "%s %s", faults[f], devices[d]);
            cr_expect_not_null(strstr(run.replay_why, "free"), "%s", run.replay_why);
        }
        const struct outcome demanded =
            try_run(faults[f], "device=cuda", 2, capacity, "replay.device=cuda", NULL);
        cr_expect_eq(dqn_status_exit_code(demanded.status), 4, "%s", demanded.error);
        cr_expect_not_null(strstr(demanded.error, "free"), "%s", demanded.error);
    }
}

/* Skips where the GPU has no kernels that take a whole update: before compute capability 9. */
static void need_updates_at_once(void) {
    const struct dqn_device_options options = {0};
    struct dqn_device device = {0};
    int major = 0;
    const struct dqn_backend *cuda = gpu_open(&device, &options);
    const char *at = strstr(device.description, ", compute ");
    cr_assert(at != NULL && sscanf(at, ", compute %d.", &major) == 1, "%s", device.description);
    cuda->memory->close(&device);
    if (major < 9) {
        cr_skip_test("this GPU takes updates operation by operation");
    }
}

/* ---- later on -----------------------------------------------------------------------------------
 */

/* Whether the fault refuses this kernel. */
static bool refuses(const char *fault, const char *kernel) {
    return fault != NULL && strncmp(fault, "refuse:", 7) == 0 && strcmp(fault + 7, kernel) == 0;
}

static void runs_equal(const char *fault, const char *what, const char *replay_device, size_t kind,
                       const char *reference, bool exact, bool apart) {
    const char *folder = run_folder();
    const char *overrides[6 + SHORT_SETS] = {"device=cuda",  "replay.beta.start=0", kinds[kind][0],
                                             kinds[kind][1], kinds[kind][2],        replay_device};
    const size_t n = shorten(run_cartpole, overrides, 6);
    const struct dqn_trainer_options options = {.folder = folder, .quiet = true};
    struct dqn_trainer *t = NULL;
    bool stopped = false;
    if (fault != NULL) {
        setenv("DQN_TEST_FAULT", fault, 1);
    }
    OK(run_create(&t, run_cartpole, n, overrides, options));
    OK(dqn_trainer_run(t, &stopped));
    unsetenv("DQN_TEST_FAULT");
    cr_expect_eq(dqn_replay_device(t->replay) != &t->device, apart, "%s", what);
    cr_expect(!t->place.cpu, "%s", what);
    cr_expect_eq(dqn_learner_is_composed(t->learner),
                 refuses(fault, "k_step_rows") || refuses(fault, "k_step_weights"), "%s", what);
    cr_expect_eq(dqn_collector_is_composed(t->collector), refuses(fault, "k_step_cartpole"), "%s",
                 what);
    dqn_trainer_destroy(t);
    char why[512];
    cr_expect(!exact || h5_equal_but_config(run_file(reference, "epoch-000003.h5"),
                                            run_file(folder, "epoch-000003.h5"), why, sizeof why),
              "%s, %s: %s", what, kinds[kind][0], why);
    run_remove(folder);
}

/* The run that all others of a kind must equal: the replay on the GPU, steps captured. */
static const char *make_reference(size_t kind) {
    const char *folder = run_folder();
    struct run run = cuda_run(run_cartpole);
    run.folder = folder;
    run_set(&run, kinds[kind][0]);
    run_set(&run, "replay.beta.start=0");
    run_set(&run, kinds[kind][1]);
    run_set(&run, kinds[kind][2]);
    run_set(&run, "replay.device=cuda");
    run_train(&run);
    return folder;
}

Test(cuda_fallback, replay_on_the_cpu_equals_the_replay_on_the_gpu) {
    need_gpu();
    operation_by_operation();
    for (size_t kind = is_reduced() ? 1 : 0; kind < reduced(DQN_COUNT_OF(kinds), 2); kind++) {
        const char *reference = make_reference(kind);
        runs_equal(NULL, "replay.device=cpu", "replay.device=cpu", kind, reference, true, true);
        runs_equal("pinned", "no page-locked memory", "replay.device=auto", kind, reference, true,
                   false);
        run_remove(reference);
    }
}

/* Each kernel of the replay fails at its first launch, after it ran: the replay moves, and the run
 * ends with the bytes of the run in which nothing failed. After a failed draw the next random
 * numbers are taken, so those runs only have to end well. */
Test(cuda_fallback, failing_replay_kernels, .timeout = 500) {
    need_gpu();
    skip_reduced("the kernels of a replay on the CPU");
    operation_by_operation();
    static const struct {
        const char *kernel;
        size_t kind;
        bool exact;
    } cases[] = {
        {"k_insert_rows", 0, true},  {"k_gather_rows", 0, true},  {"k_move_ring", 0, true},
        {"k_draw_rows", 0, false},   {"k_insert_rows", 1, true},  {"k_take_rows", 1, true},
        {"k_update_rows", 1, true},  {"k_draw_rows", 1, false},   {"k_insert_rows", 2, true},
        {"k_fill_keys", 2, false},   {"k_update_rows", 2, false}, {"k_take_order", 2, false},
        {"k_note_ranked", 2, false}, {"k_weigh_rows", 1, false},  {"k_find_minimum", 3, false},
    };
    const char *references[DQN_COUNT_OF(kinds)];
    for (size_t kind = 0; kind < DQN_COUNT_OF(kinds); kind++) {
        references[kind] = make_reference(kind);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        char fault[64];
        snprintf(fault, sizeof fault, "launch:%s", cases[i].kernel);
        runs_equal(fault, cases[i].kernel, "replay.device=auto", cases[i].kind,
                   references[cases[i].kind], cases[i].exact, true);
    }
    for (size_t kind = 0; kind < DQN_COUNT_OF(kinds); kind++) {
        run_remove(references[kind]);
    }
}

/* The sums cannot be rebuilt when a run is taken up: it goes on with the replay on the CPU. */
Test(cuda_fallback, failing_rebuild) {
    need_gpu();
    skip_reduced("the kernels of a replay on the CPU");
    operation_by_operation();
    const char *whole = make_reference(1), *parts = run_folder();
    struct run run = cuda_run(run_cartpole);
    run_set(&run, kinds[1][0]);
    run_set(&run, "replay.beta.start=0");
    run_set(&run, kinds[1][1]);
    run.folder = parts;
    run.stop_at = run_steps(1500);
    run_train(&run);
    run.stop_at = 0;
    run.resume = run_file(parts, "epoch-000001-partial.h5");
    setenv("DQN_TEST_FAULT", "launch:k_sum_level", 1);
    run_train(&run);
    unsetenv("DQN_TEST_FAULT");
    char why[512];
    cr_expect(h5_equal_but_config(run_file(whole, "epoch-000003.h5"),
                                  run_file(parts, "epoch-000003.h5"), why, sizeof why),
              "%s", why);
    struct dqn_checkpoint *file = NULL;
    char *text = NULL;
    OK(dqn_checkpoint_open(&file, run_file(parts, "epoch-000003.h5")));
    OK(dqn_checkpoint_text(file, "replay_device_why", &text));
    cr_assert_not_null(text);
    cr_expect_not_null(strstr(text, "k_sum_level"), "%s", text);
    free(text);
    dqn_checkpoint_close(file);
    run_remove(whole);
    run_remove(parts);
}

/* A kernel of an update at once that CUDA refuses, from its first launch on: nothing has changed
 * then, the replay stays on the GPU, also where it was demanded there, and the run ends with the
 * bytes of one that took its updates operation by operation from the start. With sorted draws all
 * runs do. */
Test(cuda_fallback, refused_updates, .timeout = 500) {
    static const char *const kernels[] = {"k_step_rows", "k_step_weights"};
    need_updates_at_once();
    skip_reduced("the kernels of other tests");
    for (size_t kind = 0; kind < 2; kind++) {
        operation_by_operation();
        const char *reference = make_reference(kind);
        unsetenv("DQN_TEST_COMPOSED");
        for (size_t i = 0; i < DQN_COUNT_OF(kernels); i++) {
            char fault[64];
            snprintf(fault, sizeof fault, "refuse:%s", kernels[i]);
            runs_equal(fault, kernels[i], "replay.device=cuda", kind, reference, true, false);
        }
        run_remove(reference);
    }
}

/* The collector's second kernel: the actions are not taken or counted again. Its operations give
 * its bytes, so the run equals the one in which nothing was refused. */
Test(cuda_fallback, refused_steps, .timeout = 500) {
    need_gpu();
    skip_reduced("the kernels of other tests");
    for (size_t kind = 0; kind < 3; kind++) {
        const char *reference = make_reference(kind);
        runs_equal("refuse:k_step_cartpole", "k_step_cartpole", "replay.device=cuda", kind,
                   reference, true, false);
        run_remove(reference);
    }
}

struct fatal {
    const char *composed, *fault, *set, *word;
};

static void ends_the_run(const struct fatal *fatal) {
    setenv("DQN_TEST_COMPOSED", fatal->composed, 1);
    const struct outcome run = try_run(fatal->fault, "device=cuda", 1, fatal->set, NULL, NULL);
    cr_expect_eq(dqn_status_exit_code(run.status), 4, "%s: %s", fatal->fault, run.error);
    cr_expect_not_null(strstr(run.error, fatal->word), "%s: %s", fatal->fault, run.error);
}

/* Where the replay was demanded on the GPU, and for all other kernels, a failure ends the run. */
Test(cuda_fallback, failures_that_end_the_run) {
    need_gpu();
    static const struct fatal cases[] = {
        {"1", "launch:k_insert_rows", "replay.device=cuda", "collect: "},
        {"1", "launch:k_act", "replay.device=auto", "collect: "},
        {"0", "launch:k_step_cartpole", "replay.device=auto", "collect: "},
        {"0", "wait", "replay.device=auto", "the test fault wait"},
        {"1", "join", "replay.device=auto", "update: CUDA error 999 (unknown error) at"},
    };
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        ends_the_run(&cases[i]);
    }
}

/* What they have done cannot be done again. */
Test(cuda_fallback, failures_of_updates_at_once_end_the_run) {
    need_updates_at_once();
    ends_the_run(&(struct fatal){"0", "launch:k_step_rows", "replay.device=auto", "update: "});
    ends_the_run(&(struct fatal){"0", "launch:k_step_weights", "replay.device=auto", "update: "});
}

static bool begins_with_a_phase(const char *text) {
    static const char *const phases[] = {"collect: ", "update: ", "collect or update",
                                         "evaluate: "};
    size_t i = 0;
    while (i < DQN_COUNT_OF(phases) && strncmp(text, phases[i], strlen(phases[i])) != 0) {
        i++;
    }
    return i < DQN_COUNT_OF(phases);
}

/* A lost context: one report with the phase, exit code 4, nothing moved and nothing written; the
 * run goes on from its last file, here on the CPU, as this process has lost the GPU. */
static void loses_the_context(const char *kernel, const char *phase) {
    need_gpu();
    const char *folder = run_folder();
    struct run run = cuda_run(run_cartpole);
    run.folder = folder;
    run.stop_at = run_steps(1500);
    run_train(&run);
    const char *left = run_file(folder, "epoch-000001-partial.h5");
    struct dqn_trainer *t = NULL;
    bool stopped = false;
    char fault[64];
    const char *set[1 + SHORT_SETS] = {"device=cuda"};
    const size_t n = shorten(run_cartpole, set, 1);
    const struct dqn_trainer_options options = {.folder = folder, .resume = left, .quiet = true};
    OK(run_create(&t, run_cartpole, n, set, options));
    snprintf(fault, sizeof fault, "illegal:%s", kernel);
    setenv("DQN_TEST_FAULT", fault, 1);
    const enum dqn_status status = dqn_trainer_run(t, &stopped);
    cr_expect_eq(dqn_replay_device(t->replay), &t->device, "nothing is moved");
    dqn_trainer_destroy(t); /* before the text is read, as programs do */
    unsetenv("DQN_TEST_FAULT");
    cr_expect_eq(dqn_status_exit_code(status), 4, "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "lost"), "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), phase), "%s", dqn_error_text());
    cr_expect(begins_with_a_phase(dqn_error_text()), "%s", dqn_error_text());
    OK(dqn_checkpoint_verify(left));
    FILE *next = fopen(run_file(folder, "epoch-000002.h5"), "rb");
    cr_expect_null(next, "nothing is written");
    run.stop_at = 0;
    run.device = "cpu";
    run.resume = left;
    run_train(&run);
    OK(dqn_checkpoint_verify(run_file(folder, "epoch-000003.h5")));
    run_remove(folder);
}

Test(cuda_fallback, context_lost_in_collect) {
    loses_the_context("k_act", "collect");
}

/* The last kernel of the collector's step: what comes next finds it. */
Test(cuda_fallback, context_lost_in_the_environments) {
    loses_the_context("k_step_cartpole", "update");
}

Test(cuda_fallback, context_lost_in_insert) {
    operation_by_operation();
    loses_the_context("k_insert_rows", "collect");
}

Test(cuda_fallback, context_lost_in_sample) {
    operation_by_operation();
    loses_the_context("k_draw_rows", "update");
}

Test(cuda_fallback, context_lost_in_update) {
    operation_by_operation();
    loses_the_context("k_apply_norm", "update");
}

Test(cuda_fallback, context_lost_in_the_first_kernel_of_an_update) {
    need_updates_at_once();
    loses_the_context("k_step_rows", "update");
}

/* The last work of the update: what comes next finds it. */
Test(cuda_fallback, context_lost_in_the_second_kernel_of_an_update) {
    need_updates_at_once();
    loses_the_context("k_step_weights", "collect");
}

static void fail_waits(void *context, const double *row) {
    (void)context, (void)row;
    setenv("DQN_TEST_FAULT", "wait", 1);
}

/* The device fails after the epoch's numbers were read, while the checkpoint's copy is on its way:
 * the writer's thread finds it, the run ends with the phase, and no file is left. */
Test(cuda_fallback, device_fails_during_a_save) {
    need_gpu();
    const char *folder = run_folder();
    struct dqn_trainer *t = NULL;
    bool stopped = false;
    const char *set[3 + SHORT_SETS] = {"device=cuda", "eval.every_epochs=5"};
    size_t n = shorten(run_cartpole, set, 2);
    set[n++] = is_reduced() ? "train.env_steps=200" : "train.env_steps=1000"; /* one epoch */
    const struct dqn_trainer_options options = {
        .folder = folder, .quiet = true, .on_epoch = fail_waits};
    OK(run_create(&t, run_cartpole, n, set, options));
    const enum dqn_status status = dqn_trainer_run(t, &stopped);
    unsetenv("DQN_TEST_FAULT");
    cr_expect_eq(dqn_status_exit_code(status), 4, "%d: %s", (int)status, dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "save: "), "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "test fault wait"), "%s", dqn_error_text());
    FILE *file = fopen(run_file(folder, "epoch-000001.h5"), "rb");
    cr_expect_null(file, "nothing is written");
    dqn_trainer_destroy(t);
    run_remove(folder);
}

/* The first launch after the fault was set is the evaluation's. */
Test(cuda_fallback, context_lost_in_evaluate) {
    skip_reduced("the second epoch has no evaluation then");
    loses_the_context("k_clear_lane_sums", "evaluate");
}

/* ---- memory plan --------------------------------------------------------------------------------
 */

/* Columns as in tests/fallback_test.c: 425 bytes a row, 20 beside. The tree of 32 children: levels
 * of 3125, 98 and 4 sums (1M rows: 31250, 977 and 31), each rounded up to 32, of 8 bytes; a batch
 * row's mass and replaced priority, 12 bytes; minimum and tickets, 16. Nothing here asks the
 * device. */
static void replay_bytes(size_t capacity, uint64_t expected, uint64_t budget) {
    const struct dqn_device device = {.backend = dqn_backend_find("cuda")};
    const struct dqn_config_replay config = {
        .kind = DQN_REPLAY_PROPORTIONAL, .sums = DQN_SUMS_TREE, .capacity = (int64_t)capacity};
    struct dqn_arena *arena = NULL;
    struct dqn_buffer agents = {.bytes = 0}, counters = {.bytes = 0};
    struct dqn_replay *replay = NULL;
    const struct dqn_replay_options options = {.config = &config,
                                               .n_agents = 1,
                                               .obs = 51,
                                               .obs_ld = 52,
                                               .batch = 64,
                                               .n_batches = 1,
                                               .agents = &agents,
                                               .counters = &counters};
    OK(dqn_arena_create(&arena));
    OK(dqn_replay_create(&replay, arena, &device, &options));
    struct dqn_memory_plan plan;
    dqn_memory_plan_make(&plan, arena, &device);
    cr_log_info("%zu rows on the GPU: %llu bytes", capacity,
                (unsigned long long)plan.bytes[DQN_PLAN_REPLAY]);
    cr_expect_eq(plan.bytes[DQN_PLAN_REPLAY], expected, "%llu",
                 (unsigned long long)plan.bytes[DQN_PLAN_REPLAY]);
    cr_expect_leq(plan.total, budget);
    dqn_replay_destroy(replay);
    dqn_arena_destroy(arena);
}

Test(cuda_fallback, memory_plan) {
    (void)need_cuda_build();
    replay_bytes(100000, 425 * 100000 + 20 + 8 * (3136 + 128 + 32) + 64 * 12 + 16, 47000000);
    replay_bytes(1000000, 425 * 1000000 + 20 + 8 * (31264 + 992 + 32) + 64 * 12 + 16, 470000000);
}
