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

Test(cuda_run, two_runs_of_a_seed_are_equal) {
    need_gpu();
    skip_reduced("the kernels of a resume");
    const char *first = run_folder(), *second = run_folder();
    struct run run = cuda_run(run_trading);
    run.folder = first;
    run_train(&run);
    run.folder = second;
    run_train(&run);
    char why[512];
    cr_expect(h5_equal(run_file(first, "epoch-000003.h5"), run_file(second, "epoch-000003.h5"), why,
                       sizeof why),
              "%s", why);
    run_remove(first);
    run_remove(second);
}

Test(cuda_run, population) {
    need_gpu();
    const struct run cartpole = cuda_run(run_cartpole), trading = cuda_run(run_trading);
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
