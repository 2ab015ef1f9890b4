/* Exact resume and the other equalities of whole runs: N + M epochs equal N epochs, a new trainer,
 * M epochs, byte for byte in every dataset of the last checkpoint; the same for a run stopped
 * inside an epoch, for 1, 2 and 3 threads, for a queue that runs operations late, and for each
 * agent of a population against the run alone. */
#include <criterion/criterion.h>

#include "base.h"
#include "h5_compare.h"
#include "run_fixture.h"

static const char *const kinds[] = {"replay.kind=uniform", "replay.kind=proportional",
                                    "replay.kind=rank"};

Test(resume, cartpole_inside_an_epoch) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = run_cartpole, .overrides = {kinds[i]}, .n_overrides = 1};
        run_check_resume(run, 1500, "epoch-000001-partial.h5", "epoch-000003.h5");
    }
}

Test(resume, cartpole_at_an_epochs_end) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = run_cartpole, .overrides = {kinds[i]}, .n_overrides = 1};
        run_check_resume(run, 2004, "epoch-000002.h5", "epoch-000003.h5");
    }
}

Test(resume, trading_inside_an_epoch) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = run_trading, .overrides = {kinds[i]}, .n_overrides = 1};
        run_check_resume(run, 900, "epoch-000001-partial.h5", "epoch-000003.h5");
    }
}

Test(resume, trading_at_an_epochs_end) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = run_trading, .overrides = {kinds[i]}, .n_overrides = 1};
        run_check_resume(run, 1203, "epoch-000002.h5", "epoch-000003.h5");
    }
}

/* The order of a rank replay is saved where it is not a function of the priorities. */
Test(resume, rank_with_an_interval) {
    const struct run run = {.text = run_cartpole,
                            .overrides = {"replay.kind=rank", "replay.rank_interval=7"},
                            .n_overrides = 2};
    run_check_resume(run, 1508, "epoch-000001-partial.h5", "epoch-000003.h5");
}

Test(resume, threads_and_late_queue_change_nothing) {
    const char *const texts[] = {run_cartpole, run_trading};
    for (size_t i = 0; i < DQN_COUNT_OF(texts); i++) {
        struct run run = {.text = texts[i], .overrides = {"learner.batch=192"}, .n_overrides = 1};
        const char *one = run_folder();
        run.folder = one;
        run_train(&run);
        const char *const changes[] = {"threads=2", "threads=3", "threads=1"};
        for (size_t c = 0; c < DQN_COUNT_OF(changes); c++) {
            const char *other = run_folder();
            run.folder = other;
            run.overrides[1] = changes[c];
            run.n_overrides = 2;
            run.late = c == 2;
            run_train(&run);
            char why[512];
            cr_expect(h5_equal_but_config(run_file(one, "epoch-000003.h5"),
                                          run_file(other, "epoch-000003.h5"), why, sizeof why),
                      "%s: %s", changes[c], why);
            run_remove(other);
        }
        run_remove(one);
    }
}

Test(population, each_agent_equals_its_run_alone_cartpole) {
    const struct run run = {.text = run_cartpole};
    run_check_population(&run);
}

Test(population, each_agent_equals_its_run_alone_trading) {
    const struct run run = {.text = run_trading};
    run_check_population(&run);
}

/* Training is the same with and without evaluation. */
Test(resume, evaluation_leaves_no_trace_in_training) {
    struct run run = {.text = run_cartpole};
    const char *often = run_folder(), *seldom = run_folder();
    run.folder = often;
    run_train(&run);
    run.folder = seldom;
    run.overrides[0] = "eval.every_epochs=3";
    run.overrides[1] = "eval.episodes=5";
    run.n_overrides = 2;
    run_train(&run);
    static const char *const names[] = {"nn/params", "nn/moment2", "replay/priorities",
                                        "env/states", "collect/obs"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        char why[512];
        cr_expect(h5_dataset_equal(run_file(often, "epoch-000003.h5"),
                                   run_file(seldom, "epoch-000003.h5"), names[i], why, sizeof why),
                  "%s", why);
    }
    run_remove(often);
    run_remove(seldom);
}
