/* The device's memory, as its driver counts it, against what a run says that it holds, and over
 * many epochs. No other program may use the GPU meanwhile. */
#include "cuda_short_runs.h"
#include "metrics.h"
#include "trainer_parts.h"

#include <inttypes.h>

/* ---- the plan -----------------------------------------------------------------------------------
 */

/* What a trainer takes beside the bytes that it names: three queues (steps, readback, checkpoints)
 * of 4.5 MB each, and the driver's steps of 2 MB, of which about 16 buffers of a megabyte and more
 * use half of one each: seen 13 to 23 MB. Context, libraries and kernels are there before. */
enum { BESIDE = 32000000 };

static void takes_its_plan(size_t capacity, bool saves) {
    char rows[64];
    snprintf(rows, sizeof rows, "replay.capacity=%zu", capacity);
    const char *const set[] = {"device=cuda", rows};
    const struct dqn_trainer_options options = {.folder = saves ? run_folder() : NULL,
                                                .quiet = true};
    struct dqn_trainer *t = NULL;
    const uint64_t before = free_on_gpu();
    OK(run_create(&t, run_trading, 2, set, options));
    const uint64_t after = free_on_gpu(), said = dqn_trainer_device_bytes(t);
    const uint64_t planned = dqn_arena_planned_bytes(t->arena, &t->device);
    const uint64_t copy = dqn_checkpoint_bytes(t->arena, true), least = (uint64_t)425 * capacity;
    cr_log_info("%zu rows, saves %d: %" PRIu64 " bytes said, %" PRId64 " taken", capacity, saves,
                said, (int64_t)(before - after));
    cr_expect_eq(said, saves ? planned + copy : planned);
    cr_expect(planned > least && copy > least, "425 bytes a row are in both");
    cr_expect_leq(fabs((double)before - (double)after - (double)said), 0.02 * (double)said + BESIDE,
                  "%zu rows, saves %d: %" PRIu64 " bytes said, %" PRId64 " taken", capacity, saves,
                  said, (int64_t)(before - after));
    dqn_trainer_destroy(t);
    if (saves) {
        run_remove(options.folder);
    }
}

Test(cuda_memory, a_run_takes_what_it_says) {
    static const size_t all[] = {100000, 1000000}, few[] = {100000};
    const struct sizes capacities = SIZES(all, few);
    need_gpu();
    const char *const set[] = {"device=cuda"};
    const struct dqn_trainer_options options = {.quiet = true};
    struct dqn_trainer *first = NULL;
    OK(run_create(&first, run_trading, 1, set, options));
    dqn_trainer_destroy(first);
    for (size_t i = 0; i < capacities.n; i++) {
        takes_its_plan(capacities.v[i], false);
        takes_its_plan(capacities.v[i], true);
    }
}

/* ---- many epochs --------------------------------------------------------------------------------
 */

enum { FLAT_BYTES = 2 << 20 /* a step of the driver */ };

struct watch {
    const struct dqn_trainer *trainer;
    uint64_t epochs, from; /* epochs seen; from this one on nothing grows */
    uint64_t free_then, least, most;
};

/* Without opening the device again. */
static uint64_t free_now(const struct dqn_trainer *t) {
    uint64_t available = 0, total = 0;
    OK(t->device.backend->memory->info(&t->device, &available, &total));
    return available;
}

static void look(void *context, const double *row) {
    struct watch *w = context;
    w->epochs = (uint64_t)row[DQN_METRIC_epoch];
    if (w->epochs < w->from || (w->epochs - w->from) % 10 != 0) {
        return;
    }
    const uint64_t now = free_now(w->trainer);
    w->free_then = w->free_then == 0 ? now : w->free_then;
    w->least = w->least == 0 || now < w->least ? now : w->least;
    w->most = now > w->most ? now : w->most;
}

/* A thousand epochs of 64 env steps, evaluated and saved every 25: after a tenth of them everything
 * has happened that allocates (programs are captured, kernels and libraries loaded). */
Test(cuda_memory, flat_over_a_thousand_epochs, .timeout = 300) {
    const uint64_t n = reduced(1000, 100);
    char steps[64];
    snprintf(steps, sizeof steps, "train.env_steps=%" PRIu64, 64 * n);
    const char *const set[] = {"device=cuda",
                               steps,
                               "train.epoch_steps=64",
                               "train.learning_starts=64",
                               "eval.every_epochs=25",
                               "eval.episodes=2",
                               "checkpoint.every_epochs=25",
                               "checkpoint.keep_last=2"};
    struct watch watch = {.from = reduced(100, 50)};
    bool stopped = false;
    need_gpu();
    const struct dqn_trainer_options options = {
        .folder = run_folder(), .quiet = true, .on_epoch = look, .context = &watch};
    struct dqn_trainer *t = NULL;
    OK(run_create(&t, run_cartpole, DQN_COUNT_OF(set), set, options));
    watch.trainer = t;
    const double began = dqn_clock_s();
    OK(dqn_trainer_run(t, &stopped));
    cr_expect_eq(watch.epochs, n);
    const uint64_t end = free_now(t);
    cr_log_info("%" PRIu64 " epochs in %.1f s: free %" PRIu64 " after epoch %" PRIu64 ", %" PRIu64
                " at the end, between %" PRIu64 " and %" PRIu64,
                n, dqn_clock_s() - began, watch.free_then, watch.from, end, watch.least,
                watch.most);
    cr_assert_gt(watch.free_then, 0);
    cr_expect_leq(fabs((double)end - (double)watch.free_then), FLAT_BYTES);
    cr_expect_leq(watch.most - watch.least, FLAT_BYTES, "also in between");
    dqn_trainer_destroy(t);
    run_remove(options.folder);
}
