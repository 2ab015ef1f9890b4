/* dqn-bench on the GPU: figures that only it has, and that they can be true. */
#include "bench.h"
#include "cuda_pair.h"

static const char text[] =
    "env: {name: cartpole, lanes: 64}\n"
    "device: cuda\n"
    "threads: 1\n"
    "net: {hidden: [64, 64]}\n"
    "replay: {capacity: 20000}\n"
    "learner: {batch: 64}\n"
    "train: {env_steps: 200000, epoch_steps: 12800, learning_starts: 1000, replay_ratio: 0.03125}\n"
    "eval: {episodes: 4}\n";

/* Skips where times mean nothing: without a GPU, and reduced. */
static struct dqn_config *load(void) {
    need_gpu();
    skip_reduced("nothing but times");
    struct dqn_config *config = calloc(1, sizeof *config);
    cr_assert_not_null(config);
    OK(dqn_config_parse(config, "test", ".", text, 0, NULL));
    return config;
}

static void is_share(double value, const char *what) {
    cr_expect(value > 0.0 && value <= 1.0, "%s is %g", what, value);
}

Test(cuda_bench, step) {
    struct dqn_config *config = load();
    struct dqn_bench_result r;
    OK(dqn_bench_step(config, 1, &r));
    cr_log_info("%.2f us, of which %.2f us priorities, busy %.4f, %llu bytes planned, %llu taken",
                r.us, r.per_us, r.busy, (unsigned long long)r.device_bytes,
                (unsigned long long)r.device_bytes_taken);
    is_share(r.busy, "busy");
    cr_expect_geq(r.per_share, 0.0);
    cr_expect_lt(r.per_share, 1.0);
    cr_expect_eq(r.host_waits, 0);
    cr_expect_gt(r.device_bytes_taken, 0);
    free(config);
}

Test(cuda_bench, collect) {
    struct dqn_config *config = load();
    struct dqn_bench_result r;
    OK(dqn_bench_collect(config, 2, &r));
    is_share(r.busy, "busy");
    cr_expect_eq(r.host_waits, 0);
    cr_expect_gt(r.device_bytes_taken, 0);
    free(config);
}

Test(cuda_bench, epoch) {
    struct dqn_config *config = load();
    struct dqn_bench_epoch_result r[2];
    OK(dqn_bench_epoch(config, &r[0], &r[1]));
    for (int i = 0; i < 2; i++) {
        cr_log_info("replay on the %s: %.4f s, sampling %.4f, updates %.4f, waits %.4f (%g), busy "
                    "%.4f, %llu taken",
                    r[i].replay_on_gpu ? "GPU" : "CPU", r[i].seconds, r[i].sample_s, r[i].update_s,
                    r[i].host_wait_s, r[i].host_waits, r[i].busy,
                    (unsigned long long)r[i].device_bytes_taken);
        cr_assert(r[i].ran);
        cr_expect_eq(r[i].replay_on_gpu, i == 0);
        is_share(r[i].busy, "busy");
        cr_expect_gt(r[i].sample_s, 0.0);
        cr_expect_geq(r[i].update_s, 0.0);
        /* the second run may find room in what the first one left to the process */
        cr_expect(i > 0 || r[i].device_bytes_taken > 0);
        cr_expect_float_eq(r[i].updates_per_s * r[i].seconds, 400.0, 1.0);
    }
    cr_expect_eq(r[0].host_waits, 0.0);
    cr_expect_eq(r[0].host_wait_s, 0.0);
    cr_expect_gt(r[1].host_waits, 400.0, "a batch and an update wait each");
    cr_expect_gt(r[1].host_wait_s, 0.0);
    cr_expect_lt(r[1].sample_s + r[1].update_s + r[1].host_wait_s, r[1].seconds);
    free(config);
}
