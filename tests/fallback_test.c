/* Fallbacks that need no GPU to be seen: a replay on another device than the learner's, a replay
 * that fails and moves, the memory plan, and where the parts of a run are placed. A CPU device
 * stands in for the GPU where one is needed; tests/cuda_fallback_test.c has the same on a GPU. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "h5_compare.h"
#include "memory_plan.h"
#include "recorded_backend.h"
#include "replay_parts.h"
#include "run_fixture.h"
#include "status_checks.h"
#include "trainer_parts.h"

static const char *const kinds[] = {"replay.kind=uniform", "replay.kind=proportional",
                                    "replay.kind=rank"};

/* ---- a replay apart ---------------------------------------------------------------------------
 */

/* Rows, batches, TD errors and counters that cross through staging give the bytes that they give
 * when they do not; also where the learner's queue is late, so that a missing wait shows. */
static void same_apart(const char *text, const char *kind, bool late) {
    const char *plain = run_folder(), *apart = run_folder();
    struct run run = {.text = text, .overrides = {kind}, .n_overrides = 1, .folder = plain};
    run_train(&run);
    run.folder = apart;
    run.apart = true;
    run.late = late;
    run_train(&run);
    char why[512];
    cr_expect(h5_equal(run_file(plain, "epoch-000003.h5"), run_file(apart, "epoch-000003.h5"), why,
                       sizeof why),
              "%s, late %d: %s", kind, late, why);
    run_remove(plain);
    run_remove(apart);
}

Test(replay_apart, equals_the_plain_replay) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        same_apart(run_cartpole, kinds[i], false);
        same_apart(run_trading, kinds[i], false);
    }
}

Test(replay_apart, equals_the_plain_replay_with_a_late_queue) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        same_apart(run_cartpole, kinds[i], true);
        same_apart(run_trading, kinds[i], true);
    }
}

/* Files are interchangeable: half with the replay apart, half plain, and the other way round. */
Test(replay_apart, checkpoints_go_both_ways) {
    for (int first_apart = 0; first_apart < 2; first_apart++) {
        const char *whole = run_folder(), *parts = run_folder();
        struct run run = {.text = run_trading, .folder = whole};
        run_train(&run);
        run.folder = parts;
        run.apart = first_apart == 1;
        run.stop_at = 900;
        run_train(&run);
        run.apart = !run.apart;
        run.stop_at = 0;
        run.resume = run_file(parts, "epoch-000001-partial.h5");
        run_train(&run);
        char why[512];
        cr_expect(h5_equal(run_file(whole, "epoch-000003.h5"), run_file(parts, "epoch-000003.h5"),
                           why, sizeof why),
                  "first apart %d: %s", first_apart, why);
        run_remove(whole);
        run_remove(parts);
    }
}

struct seen_epoch {
    struct dqn_trainer *trainer;
    size_t n;
};

/* The parts exclude each other: draws and priority updates leave their waits out. */
static void check_times(void *context, const double *row) {
    struct seen_epoch *seen = context;
    const struct dqn_epoch_times *times = &seen->trainer->times;
    const double sum = times->replay.sample_s + times->replay.update_s + times->waited_s;
    cr_expect_gt(times->replay.sample_s, 0.0);
    cr_expect_gt(times->replay.update_s, 0.0);
    cr_expect_gt(times->waited_s, 1e-6 * row[DQN_METRIC_host_waits], "%g s in %g waits",
                 times->waited_s, row[DQN_METRIC_host_waits]);
    cr_expect_lt(sum, row[DQN_METRIC_seconds], "%g s of %g s", sum, row[DQN_METRIC_seconds]);
    seen->n++;
}

/* Where an epoch's time goes, as dqn-bench epoch tells it. */
Test(replay_apart, times_of_an_epoch) {
    const char *const set[] = {"device=cpu"};
    struct seen_epoch seen = {0};
    const struct dqn_trainer_options options = {.quiet = true,
                                                .replay_apart = true,
                                                .late_queue = true,
                                                .on_epoch = check_times,
                                                .context = &seen};
    bool stopped = true;
    OK(run_create(&seen.trainer, run_cartpole, 1, set, options));
    OK(dqn_trainer_run(seen.trainer, &stopped));
    cr_expect_eq(seen.n, 3);
    dqn_trainer_destroy(seen.trainer);
}

/* ---- a replay that fails ------------------------------------------------------------------------
 */

/* The CPU backend with replay operations of which one fails. */
enum broken { INSERT, INSERTED, DRAW, GATHER, UPDATE, N_BROKEN };

static struct {
    enum broken operation;
    size_t at, n_calls; /* the at-th call of the operation fails; 0 = none */
    bool afterwards;    /* the operation is done all the same */
    bool in_capture;    /* instead: it fails when a program is captured */
} fault;

static bool fails_now(enum broken operation) {
    return operation == fault.operation && ++fault.n_calls == fault.at;
}

#define BROKEN(name, table, args_type, which)                                                      \
    static enum dqn_status broken_##name(struct dqn_queue *q, const args_type *args) {             \
        const bool fails =                                                                         \
            q->capturing ? which == fault.operation : !fault.in_capture && fails_now(which);       \
        if (!fails || (!q->capturing && fault.afterwards)) {                                       \
            DQN_TRY(recorded_##name(q, args));                                                     \
        }                                                                                          \
        return fails ? dqn_fail(DQN_ERR_DEVICE, "kernel k_" #name ": broken by the test")          \
                     : DQN_OK;                                                                     \
    }
BROKEN(insert, replay, struct dqn_insert_args, INSERT)
BROKEN(gather, replay, struct dqn_gather_args, GATHER)
BROKEN(draw, sampler, struct dqn_draw_args, DRAW)
BROKEN(update, sampler, struct dqn_priority_args, UPDATE)
BROKEN(inserted, sampler, struct dqn_inserted_args, INSERTED)

/* Copies inside of a capture are left out. */
static enum dqn_status copy(struct dqn_queue *q, void *dst, const void *src, size_t bytes,
                            enum dqn_copy_kind kind) {
    return q->capturing ? DQN_OK : recorded.real->memory->copy(q, dst, src, bytes, kind);
}

/* A capture in which an operation failed is an error itself. It is the only one. */
static enum dqn_status void_capture(struct dqn_queue *q, struct dqn_graph **out) {
    OK(recorded_capture_end(q, out));
    recorded_destroy(*out);
    *out = NULL;
    recorded.queue.capture_begin = NULL;
    return dqn_fail(DQN_ERR_DEVICE, "the capture is void");
}

static void make_broken_backend(void) {
    static struct dqn_memory_ops memory;
    recorded_make("broken");
    recorded.replay.insert = broken_insert;
    recorded.replay.gather = broken_gather;
    recorded.sampler.draw = broken_draw;
    recorded.sampler.update = broken_update;
    recorded.sampler.inserted = broken_inserted;
    memory = *recorded.real->memory;
    memory.copy = copy;
    recorded.backend.memory = &memory;
    recorded.queue.capture_begin = fault.in_capture ? recorded_capture_begin : NULL;
    recorded.queue.capture_end = void_capture;
}

/* A run whose learner's device is the broken backend, and whose replay may move to the CPU. */
static enum dqn_status train_broken(const char *text, const char *kind, const char *folder,
                                    bool refuge, bool *moved) {
    const struct dqn_trainer_options options = {.folder = folder};
    struct dqn_trainer *t = recorded_trainer(text, kind, options, make_broken_backend, refuge);
    bool stopped = false;
    const enum dqn_status status = dqn_trainer_run(t, &stopped);
    *moved = dqn_replay_device(t->replay) == &t->host_device;
    if (*moved) {
        cr_expect_not_null(strstr(dqn_replay_why_moved(t->replay), "broken by the test"));
        cr_expect(t->eager);
        cr_expect_not(dqn_replay_has_moved(t->replay), "settled");
    }
    dqn_trainer_destroy(t);
    return status;
}

/* Whichever operation fails, at its first call or a later one, before or after it took effect: the
 * run ends with the bytes of a run in which nothing failed. A draw that took effect and failed all
 * the same is left out: it is made again, with the next random numbers. */
static void survives(const char *text, const char *kind, enum broken operation, size_t at,
                     bool afterwards, const char *reference) {
    const char *folder = run_folder();
    bool moved = false;
    fault.operation = operation;
    fault.at = at;
    fault.n_calls = 0;
    fault.afterwards = afterwards;
    OK(train_broken(text, kind, folder, true, &moved));
    cr_assert(moved, "%s, operation %d", kind, operation);
    char why[512];
    cr_expect(h5_equal(run_file(reference, "epoch-000003.h5"), run_file(folder, "epoch-000003.h5"),
                       why, sizeof why),
              "%s, operation %d, call %zu, after it %d: %s", kind, operation, at, afterwards, why);
    run_remove(folder);
}

static void survives_all(const char *text, const char *kind) {
    static const size_t calls[] = {1, 75};
    const char *reference = run_folder();
    struct run run = {.text = text, .overrides = {kind}, .n_overrides = 1, .folder = reference};
    run_train(&run);
    for (int operation = 0; operation < N_BROKEN; operation++) {
        for (size_t i = 0; i < DQN_COUNT_OF(calls); i++) {
            survives(text, kind, (enum broken)operation, calls[i], false, reference);
            if (operation != DRAW) {
                survives(text, kind, (enum broken)operation, calls[i], true, reference);
            }
        }
    }
    run_remove(reference);
}

Test(replay_moves, uniform) {
    survives_all(run_cartpole, kinds[0]);
}

Test(replay_moves, proportional) {
    survives_all(run_cartpole, kinds[1]);
}

Test(replay_moves, rank) {
    survives_all(run_cartpole, kinds[2]);
}

/* With accumulated batches the rows drawn before the failure keep their TD errors. */
Test(replay_moves, accumulated_batches) {
    survives_all(run_trading, kinds[1]);
}

/* What was captured up to the failure has not run; the steps are called then. The first program
 * that is captured is of steps that insert and update, so each operation is in it. */
Test(replay_moves, while_a_program_is_captured) {
    const char *reference = run_folder();
    struct run run = {
        .text = run_cartpole, .overrides = {kinds[1]}, .n_overrides = 1, .folder = reference};
    run_train(&run);
    fault.in_capture = true;
    for (int operation = 0; operation < N_BROKEN; operation++) {
        survives(run_cartpole, kinds[1], (enum broken)operation, 0, false, reference);
    }
    run_remove(reference);
}

Test(replay_moves, without_a_refuge_the_run_ends) {
    const char *folder = run_folder();
    bool moved = true;
    fault.operation = UPDATE;
    fault.at = 3;
    fault.n_calls = 0;
    fault.afterwards = false;
    const enum dqn_status status = train_broken(run_cartpole, kinds[1], folder, false, &moved);
    cr_expect_eq(status, DQN_ERR_DEVICE);
    cr_expect_eq(dqn_status_exit_code(status), 4);
    cr_expect_not_null(strstr(dqn_error_text(), "update: "), "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "k_update"), "%s", dqn_error_text());
    cr_expect_not(moved);
    run_remove(folder);
}

/* ---- arenas -------------------------------------------------------------------------------------
 */

Test(arenas, drop_and_join) {
    struct dqn_arena *a = NULL, *b = NULL;
    struct dqn_buffer *kept = NULL, *gone = NULL, *comes = NULL;
    OK(dqn_arena_create(&a));
    OK(dqn_arena_create(&b));
    OK(dqn_arena_add(a, &gone, NULL, DQN_F32, 0, "replay/x", 1, (size_t)8));
    OK(dqn_arena_add(a, &kept, NULL, DQN_F32, 0, "nn/x", 1, (size_t)8));
    OK(dqn_arena_add(b, &comes, NULL, DQN_F32, 0, "replay/x", 1, (size_t)4));
    cr_expect_eq(dqn_arena_join(a, b), DQN_ERR_STATE);
    OK(dqn_arena_commit(a, NULL));
    OK(dqn_arena_commit(b, NULL));
    cr_expect_eq(dqn_arena_join(a, b), DQN_ERR_STATE);
    cr_expect_eq(dqn_arena_count(b), 1);
    dqn_arena_drop(a, "replay/");
    cr_expect_eq(dqn_arena_count(a), 1);
    ((float *)comes->data)[3] = 7.0f;
    OK(dqn_arena_join(a, b));
    dqn_arena_destroy(b);
    cr_expect_eq(dqn_arena_find(a, "replay/x"), comes);
    cr_expect_eq(dqn_arena_find(a, "nn/x"), kept);
    cr_expect_eq(((float *)comes->data)[3], 7.0f);
    dqn_arena_destroy(a);
}

/* ---- memory plan --------------------------------------------------------------------------------
 */

/* What the replay of `capacity` rows of 51 observations takes on the CPU: the columns by hand, 2 *
 * 51 floats, action, reward, discount, done, priority = 425 bytes a row; the ring's two numbers and
 * the running maximum; a binary tree of 64-bit sums over the next power of two; and the draws' 12
 * bytes a batch row. On the GPU the sums are the smaller part (tests/cuda_fallback_test.c). */
static void replay_bytes(size_t capacity, uint64_t expected, uint64_t budget) {
    const struct dqn_backend *cpu = dqn_backend_find("cpu");
    const struct dqn_device_options one = {.threads = 1};
    const struct dqn_config_replay config = {.kind = DQN_REPLAY_PROPORTIONAL,
                                             .capacity = (int64_t)capacity};
    struct dqn_device device;
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
    OK(cpu->memory->open(&device, &one));
    OK(dqn_arena_create(&arena));
    OK(dqn_replay_create(&replay, arena, &device, &options));
    struct dqn_memory_plan plan;
    dqn_memory_plan_make(&plan, arena, &device);
    char text[256];
    cr_log_info("%zu rows: %llu bytes; %s", capacity,
                (unsigned long long)plan.bytes[DQN_PLAN_REPLAY],
                dqn_memory_plan_text(text, sizeof text, &plan));
    cr_expect_eq(plan.bytes[DQN_PLAN_REPLAY], expected, "%llu",
                 (unsigned long long)plan.bytes[DQN_PLAN_REPLAY]);
    cr_expect_leq(plan.total, budget);
    cr_expect_eq(plan.total, dqn_arena_planned_bytes(arena, &device));
    dqn_replay_destroy(replay);
    dqn_arena_destroy(arena);
    cpu->memory->close(&device);
}

Test(memory_plan, replay_of_51_observations) {
    replay_bytes(100000, 425 * 100000 + 20 + 2 * 131072 * 8 + 64 * 12 + 8, 47000000);
    replay_bytes(1000000, 425 * 1000000 + 20 + 2 * 1048576 * 8 + 64 * 12 + 8, 470000000);
}

static enum dqn_status much_memory(const struct dqn_device *device, uint64_t *available,
                                   uint64_t *total) {
    (void)device;
    *available = *total = UINT64_C(1) << 40;
    return DQN_OK;
}

/* A run that saves holds its saved buffers twice where steps can be captured: the metric and the
 * line of the plan say so. A late CPU queue that could capture stands in for a GPU. */
Test(memory_plan, counts_the_checkpoints_copy) {
    const char *folder = run_folder();
    struct dqn_trainer *t = NULL;
    char line[512];
    const char *const set[] = {"device=cpu"};
    const struct dqn_trainer_options options = {
        .folder = folder, .quiet = true, .late_queue = true};
    OK(run_create(&t, run_cartpole, 1, set, options));
    const uint64_t planned = dqn_arena_planned_bytes(t->arena, &t->device);
    cr_expect_eq(dqn_trainer_device_bytes(t), planned, "a CPU has no copy");
    cr_expect_eq(dqn_saver_wanted_bytes(t), 0);
    struct dqn_queue_ops queue = *t->device.backend->queue;
    struct dqn_memory_ops memory = *t->device.backend->memory;
    struct dqn_backend capturing = *t->device.backend;
    queue.capture_begin = recorded_capture_begin;
    memory.info = much_memory;
    capturing.queue = &queue;
    capturing.memory = &memory;
    t->device.backend = &capturing;
    dqn_saver_destroy(t->saver);
    t->saver = NULL;
    OK(dqn_saver_create(t));
    const uint64_t copy = dqn_checkpoint_bytes(t->arena, true);
    cr_expect_gt(copy, 1500 * 40, "the replay is in it");
    cr_expect_eq(dqn_saver_wanted_bytes(t), copy);
    cr_expect_eq(dqn_trainer_device_bytes(t), planned + copy);
    FILE *said = tmpfile();
    dqn_info_to(said);
    dqn_trainer_say_devices(t);
    rewind(said);
    bool found = false;
    char expected[96], number[32];
    snprintf(expected, sizeof expected, "checkpoints' copy %s where there is room, page-locked",
             dqn_format_bytes(number, sizeof number, copy));
    while (!found && fgets(line, sizeof line, said) != NULL) {
        found = strstr(line, expected) != NULL;
    }
    cr_expect(found, "%s", expected);
    dqn_info_to(stderr);
    fclose(said);
    dqn_trainer_destroy(t);
    run_remove(folder);
}

Test(memory_plan, says_what_does_not_fit) {
    const struct dqn_memory_plan plan = {
        .bytes = {[DQN_PLAN_REPLAY] = 900, [DQN_PLAN_NETWORK] = 100}, .total = 1000};
    bool but_replay = true;
    OK(dqn_memory_plan_check(&plan, 1000, &but_replay));
    cr_expect_not(but_replay);
    cr_expect_eq(dqn_memory_plan_check(&plan, 999, &but_replay), DQN_ERR_DEVICE_MEMORY);
    cr_expect(but_replay);
    cr_expect_not_null(strstr(dqn_error_text(), "1.0 kB (replay 900 B, network 100 B) needed"),
                       "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "999 B free"), "%s", dqn_error_text());
    OK(dqn_memory_plan_check(&plan, 1000, NULL));
    cr_expect_eq(dqn_memory_plan_check(&plan, 99, &but_replay), DQN_ERR_DEVICE_MEMORY);
    cr_expect_not(but_replay);
}

/* ---- placement ----------------------------------------------------------------------------------
 */

static enum dqn_status create(const char *const *set, size_t n, size_t n_agents,
                              struct dqn_trainer **out) {
    const struct dqn_trainer_options options = {.n_agents = n_agents, .quiet = true};
    return run_create(out, run_cartpole, n, set, options);
}

/* Replays of more than 50 GB each, 1000 of them: refused before anything is allocated. */
Test(placement, host_memory_too_small) {
    const char *const set[] = {"device=cpu", "replay.capacity=1000000000"};
    struct dqn_trainer *t = NULL;
    cr_expect_eq(create(set, 2, 1000, &t), DQN_ERR_DEVICE_MEMORY, "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "needed"), "%s", dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "free"), "%s", dqn_error_text());
}

Test(placement, without_a_gpu) {
    setenv("DQN_TEST_FAULT", "no_driver", 1); /* where this build has a GPU backend */
    struct dqn_trainer *t = NULL;
    const char *const automatic[] = {"device=auto"};
    OK(create(automatic, 1, 1, &t));
    cr_expect(t->place.cpu);
    cr_expect(t->place.why[0] != '\0');
    cr_expect_eq(strchr(t->place.why, '\n'), NULL, "one line");
    cr_expect_str_empty(dqn_trainer_why_replay(t));
    dqn_trainer_destroy(t);
    const char *const cpu[] = {"device=cpu"};
    OK(create(cpu, 1, 1, &t));
    cr_expect_str_empty(t->place.why);
    dqn_trainer_destroy(t);
    const char *const demands[][2] = {{"device=cuda", "replay.device=auto"},
                                      {"device=auto", "replay.device=cuda"}};
    for (size_t i = 0; i < DQN_COUNT_OF(demands); i++) {
        const enum dqn_status status = create(demands[i], 2, 1, &t);
        cr_expect_eq(dqn_status_exit_code(status), 4, "%s %s: %s", demands[i][0], demands[i][1],
                     dqn_error_text());
    }
}

/* The way back, step by step: the replay alone where it is the cause, then everything. */
Test(placement, retreats) {
    struct dqn_config config = {0};
    config.run.device = DQN_DEVICE_AUTO;
    config.replay.device = DQN_DEVICE_AUTO;
    struct dqn_placement place = {.replay_failed = true};
    dqn_fail(DQN_ERR_DEVICE_MEMORY, "first");
    cr_assert(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE_MEMORY));
    cr_expect(place.apart && !place.cpu);
    cr_expect_str_eq(place.replay_why, "first");
    dqn_fail(DQN_ERR_DEVICE_MEMORY, "second");
    cr_assert(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE_MEMORY));
    cr_expect(place.cpu && !place.apart);
    cr_expect_str_empty(place.replay_why);
    cr_expect_not_null(strstr(place.why, "second"));
    cr_expect_not(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE_MEMORY));

    place = (struct dqn_placement){.cpu = false};
    cr_expect_not(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE), "not when opening");
    cr_expect_not(dqn_placement_retreat(&place, &config, DQN_ERR_CONFIG));
    config.run.device = DQN_DEVICE_CUDA;
    cr_expect_not(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE_MEMORY));
    place.replay_failed = true;
    cr_expect(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE_MEMORY));
    cr_expect(place.apart && !place.cpu);
    config.replay.device = DQN_DEVICE_CUDA;
    place = (struct dqn_placement){.replay_failed = true};
    cr_expect_not(dqn_placement_retreat(&place, &config, DQN_ERR_DEVICE_MEMORY));
}
