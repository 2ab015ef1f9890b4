/* Whole runs on the GPU: two runs of one seed give equal bytes, resume is exact, each agent of a
 * population equals its run alone, and checkpoints go from GPU to CPU and back. */
#include "cuda_short_runs.h"
#include "h5_compare.h"

static const char *const kinds[] = {"replay.kind=uniform", "replay.kind=proportional",
                                    "replay.kind=rank"};

Test(cuda_run, resumes_exactly) {
    need_gpu();
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        struct run cartpole = cuda_run(run_cartpole), trading = cuda_run(run_trading);
        run_set(&cartpole, kinds[i]);
        run_set(&trading, kinds[i]);
        if (!is_reduced() || i == 2) {
            run_check_resume(cartpole, run_steps(1500), "epoch-000001-partial.h5",
                             "epoch-000003.h5");
        }
        if (!is_reduced() || i == 1) {
            run_check_resume(trading, run_steps(1200) + 3, "epoch-000002.h5", "epoch-000003.h5");
        }
    }
}

Test(cuda_run, resumes_exactly_in_tf32) {
    need_gpu();
    skip_reduced("the kernels of resumes_exactly, with fewer products");
    struct run cartpole = cuda_run(run_cartpole), trading = cuda_run(run_trading);
    run_set(&cartpole, "net.precision=tf32");
    run_set(&trading, "net.precision=tf32");
    run_check_resume(cartpole, 1500, "epoch-000001-partial.h5", "epoch-000003.h5");
    run_check_resume(trading, 1203, "epoch-000002.h5", "epoch-000003.h5");
}

static void expect_equal_runs(const char *text, const char *override) {
    const char *first = run_folder(), *second = run_folder();
    struct run run = cuda_run(text);
    char why[512];
    if (override != NULL) {
        run_set(&run, override);
    }
    run.folder = first;
    run_train(&run);
    run.folder = second;
    run_train(&run);
    cr_expect(h5_equal(run_file(first, "epoch-000003.h5"), run_file(second, "epoch-000003.h5"), why,
                       sizeof why),
              "%s: %s", override != NULL ? override : "as it is", why);
    run_remove(first);
    run_remove(second);
}

/* By two kernels an update (cartpole) and by operations (trading accumulates batches; sums and
 * norms that the two do not serve). */
Test(cuda_run, two_runs_of_a_seed_are_equal) {
    need_gpu();
    skip_reduced("the kernels of a resume");
    expect_equal_runs(run_cartpole, NULL);
    expect_equal_runs(run_trading, NULL);
    expect_equal_runs(run_cartpole, "net.precision=tf32");
    expect_equal_runs(run_trading, "net.precision=tf32");
    expect_equal_runs(run_cartpole, "replay.sums=scan");
    expect_equal_runs(run_cartpole, "replay.weight_norm=buffer");
}

Test(cuda_run, population) {
    need_gpu();
    struct run cartpole = cuda_run(run_cartpole), trading = cuda_run(run_trading);
    if (is_reduced()) { /* these are four runs: as short as steps still repeat, in a program */
        run_set(&cartpole, "train.env_steps=400");
    }
    run_check_population(&cartpole);
    if (!is_reduced()) {
        run_check_population(&trading);
    }
}

/* Half on one side, half on the other. What is exact on both sides is compared with a run that
 * stayed: the environment's random starts make trajectories part as soon as an action differs, so
 * that is the position of the run alone. */
Test(cuda_run, checkpoints_go_to_the_other_backend) {
    need_gpu();
    static const char *const devices[][2] = {{"cuda", "cpu"}, {"cpu", "cuda"}};
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(devices), 1); i++) {
        const char *stayed = run_folder(), *moved = run_folder();
        struct run run = cuda_run(run_trading);
        run.device = devices[i][0];
        run.folder = stayed;
        run_train(&run);
        run.folder = moved;
        run.stop_at = run_steps(900);
        run_train(&run);
        run.stop_at = 0;
        run.device = devices[i][1];
        run.resume = run_file(moved, "epoch-000001-partial.h5");
        run_train(&run);
        static const char *const names[] = {"replay/ring", "host/progress/updates",
                                            "host/progress/vector_steps"};
        for (size_t n = 0; n < DQN_COUNT_OF(names); n++) {
            char why[512];
            cr_expect(h5_dataset_equal(run_file(stayed, "epoch-000003.h5"),
                                       run_file(moved, "epoch-000003.h5"), names[n], why,
                                       sizeof why),
                      "%s to %s: %s", devices[i][0], devices[i][1], why);
        }
        run_remove(stayed);
        run_remove(moved);
    }
}

/* A checkpoint that the other side has loaded and saved at once, and the first side again, is what
 * it was: all of its datasets, the text of the configuration apart, which names the device. */
static void check_round_trip(struct run run, const char *const devices[2]) {
    enum { TRIPS = 3 };
    static const char partial[] = "epoch-000001-partial.h5";
    const char *file[TRIPS], *folder[TRIPS];
    run.stop_at = run_steps(900); /* later trips are there when they start */
    for (int trip = 0; trip < TRIPS; trip++) {
        char why[512];
        folder[trip] = run.folder = run_folder();
        file[trip] = run_file(run.folder, partial);
        run.device = devices[trip % 2];
        run.resume = trip == 0 ? NULL : file[trip - 1];
        run_train(&run);
        cr_expect(trip == 0 || h5_equal_but_config(file[0], file[trip], why, sizeof why),
                  "%s, from %s to %s, trip %d: %s", run.overrides[run.n_overrides - 1], devices[0],
                  devices[1], trip, why);
    }
    for (int trip = 0; trip < TRIPS; trip++) {
        run_remove(folder[trip]);
    }
}

Test(cuda_run, checkpoints_pass_through_the_other_backend) {
    need_gpu();
    static const char *const devices[][2] = {{"cuda", "cpu"}, {"cpu", "cuda"}};
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(devices), 1); i++) {
        struct run proportional = cuda_run(run_trading), rank = cuda_run(run_trading);
        run_set(&rank, "replay.rank_interval=7"); /* whose order is saved */
        run_set(&rank, "replay.kind=rank");
        run_set(&proportional, "replay.kind=proportional");
        check_round_trip(proportional, devices[i]);
        check_round_trip(rank, devices[i]);
    }
}
