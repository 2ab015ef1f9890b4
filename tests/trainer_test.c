/* Whole runs: how many updates and target copies a run makes, what ends it, what it starts from,
 * and which evaluation is its best. */
#include "trainer_support.h"

#include "trainer_parts.h"

/* ---- how many updates ---- */

/* The rule in whole numbers, for ratios p / q. */
static uint64_t updates_by_fraction(uint64_t p, uint64_t q, uint64_t starts, uint64_t env_steps) {
    return env_steps > starts ? (uint64_t)((__uint128_t)p * (env_steps - starts) / q) : 0;
}

static const struct ratio {
    uint64_t p, q;
} ratios[] = {{29, 100}, {1, 3}, {1, 16}, {5, 2}, {1, 1}, {7, 1}, {1, 1000}, {999, 1000}, {2, 7}};

Test(trainer, updates_are_the_ratio_of_env_steps) {
    for (size_t r = 0; r < DQN_COUNT_OF(ratios); r++) {
        const uint64_t p = ratios[r].p, q = ratios[r].q;
        for (uint64_t starts = 0; starts <= 1000; starts += 500) {
            const struct dqn_config_train train = {.learning_starts = (int64_t)starts,
                                                   .replay_ratio = (double)p / (double)q};
            for (uint64_t steps = 0; steps < 30000; steps++) {
                cr_assert_eq(dqn_updates_due(&train, steps),
                             updates_by_fraction(p, q, starts, steps), "%zu/%zu at %zu", (size_t)p,
                             (size_t)q, (size_t)steps);
            }
            for (uint64_t steps = 30000; steps < (uint64_t)1 << 33; steps = steps * 3 / 2 + 1) {
                cr_assert_eq(dqn_updates_due(&train, steps),
                             updates_by_fraction(p, q, starts, steps), "%zu/%zu at %zu", (size_t)p,
                             (size_t)q, (size_t)steps);
            }
        }
    }
}

/* Real runs with 1, 4 and 4096 lanes: the number is kept at the end, and at every stop between it
 * is the number due, once a batch is there. */
Test(trainer, updates_do_not_depend_on_lanes) {
    static const struct {
        const char *lanes, *ratio;
        uint64_t p, q, env_steps, stop;
    } table[] = {{"env.lanes=1", "train.replay_ratio=0.29", 29, 100, 1000, 777},
                 {"env.lanes=4", "train.replay_ratio=0.3333333333333333", 1, 3, 1000, 776},
                 {"env.lanes=4", "train.replay_ratio=2.5", 5, 2, 600, 404},
                 {"env.lanes=4096", "train.replay_ratio=0.0625", 1, 16, 16384, 8192}};
    for (size_t i = 0; i < DQN_COUNT_OF(table); i++) {
        char steps[64], epoch[64];
        snprintf(steps, sizeof steps, "train.env_steps=%zu", (size_t)table[i].env_steps);
        snprintf(epoch, sizeof epoch, "train.epoch_steps=%zu", (size_t)table[i].env_steps);
        struct run run = {.set = {table[i].lanes, table[i].ratio, steps, "replay.capacity=20000",
                                  "learner.batch=4", "train.learning_starts=100", epoch}};
        struct dqn_trainer *t = run_train(&run);
        cr_expect_eq(counters_of(t)->env_steps, table[i].env_steps);
        cr_expect_eq(counters_of(t)->updates,
                     updates_by_fraction(table[i].p, table[i].q, 100, table[i].env_steps));
        cr_expect_eq(counters_of(t)->draws, counters_of(t)->updates);
        dqn_trainer_destroy(t);
        run.stop_at = table[i].stop;
        t = run_train(&run);
        const uint64_t due =
            updates_by_fraction(table[i].p, table[i].q, 100, counters_of(t)->env_steps);
        const uint64_t done = counters_of(t)->updates;
        /* A stop comes at the next step: the updates of the last vector step may be missing. */
        cr_expect(done <= due && counters_of(t)->env_steps == table[i].stop, "%zu of %zu",
                  (size_t)done, (size_t)due);
        dqn_trainer_destroy(t);
    }
}

/* ---- target copies ---- */

/* Copies every 501 updates, a row of updates 10 env steps apart with 4 lanes: the unit is updates
 * whatever the lanes, and saving and loading in between changes nothing. */
Test(trainer, target_copies_are_counted_in_updates) {
    const char *whole_folder = new_folder(), *parts_folder = new_folder();
    struct run run = {.set = {"learner.target_updates=501", "train.replay_ratio=0.1",
                              "train.env_steps=30000", "train.epoch_steps=30000",
                              "train.learning_starts=0", "net.hidden=[4]", "learner.batch=4"},
                      .folder = whole_folder};
    struct dqn_trainer *whole = run_train(&run);
    cr_expect_eq(counters_of(whole)->updates, 3000u);
    cr_expect_eq(counters_of(whole)->target_copies, 3000u / 501u);
    run.folder = parts_folder;
    /* 5004 env steps are 500 updates and 5020 are 502: the first copy is between. */
    static const uint64_t stops[] = {5004, 5020, 10000, 17000, 29996};
    for (size_t i = 0; i < DQN_COUNT_OF(stops); i++) {
        run.stop_at = stops[i];
        struct dqn_trainer *t = run_train(&run);
        const struct dqn_counters *c = counters_of(t);
        cr_expect_eq(c->target_copies, c->updates / 501, "after %zu updates: %zu copies",
                     (size_t)c->updates, (size_t)c->target_copies);
        cr_expect_leq(c->updates, stops[i] / 10);
        cr_expect_geq(c->updates + 1, stops[i] / 10);
        dqn_trainer_destroy(t);
        run.resume = file_in(parts_folder, "epoch-000000-partial.h5");
    }
    run.stop_at = 0;
    struct dqn_trainer *parts = run_train(&run);
    cr_expect_null(first_difference(whole, parts), "%s", first_difference(whole, parts));
    dqn_trainer_destroy(whole);
    dqn_trainer_destroy(parts);
    remove_tree(whole_folder);
    remove_tree(parts_folder);
}

/* Rewards of -1 only: action values become negative, so nothing cuts them off at 0. */
Test(trainer, values_of_a_task_of_costs_are_negative) {
    const struct run run = {.set = {"env.name=acrobot", "learner.gamma=0.9"},
                            .folder = new_folder()};
    run_and_forget(&run);
    size_t n_rows = 0;
    double *rows = history_of(file_in(run.folder, "epoch-000003.h5"), &n_rows);
    cr_assert_eq(n_rows, 3u);
    const double q = rows[2 * DQN_METRIC_COUNT + DQN_METRIC_q_mean];
    /* Towards -10, from 0 at the start. */
    cr_expect(q < -1 && q > -11, "%g", q);
    free(rows);
    remove_tree(run.folder);
}

/* ---- what ends a run ---- */

/* AdamW with decay 1 and step size 10 multiplies the parameters by about -9 an update until they
 * leave float. */
Test(trainer, divergence_ends_the_run_with_update_and_tensor) {
    const struct run run = {
        .set = {"learner.lr=10", "learner.weight_decay=1", "learner.max_nonfinite=5"}};
    struct dqn_trainer *t = NULL;
    bool stopped = false;
    OK(run_create(&run, &t));
    cr_assert_eq(dqn_trainer_run(t, &stopped), DQN_ERR_NONFINITE);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_NONFINITE), 6);
    const struct dqn_counters *c = counters_of(t);
    cr_expect(c->failed == 1 && c->nonfinite_streak == 5 && c->updates < 200);
    char update[64];
    snprintf(update, sizeof update, "lastly in update %zu;", (size_t)c->nonfinite_update);
    cr_expect_not_null(strstr(dqn_error_text(), update), "%s", dqn_error_text());
    static const char *const tensors[] = {"", "the loss of", "the gradient of",
                                          "the parameters of"};
    cr_expect(c->nonfinite_where >= 1 && c->nonfinite_where <= 3);
    cr_expect_not_null(strstr(dqn_error_text(), tensors[c->nonfinite_where & 3]), "%s",
                       dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "learner.lr"), "%s", dqn_error_text());
    const float *params = buffer_of(t, "nn/params");
    for (size_t i = 0; i < dqn_trainer_net(t)->n_params; i++) {
        cr_expect(isfinite(params[i]), "parameter %zu", i);
    }
    dqn_trainer_destroy(t);
}

/* With patience 2 a run ends at the first epoch that is 2 after the best so far, also when it was
 * interrupted in between. */
Test(trainer, patience_ends_a_run_that_does_not_improve) {
    struct run run = {.set = {"train.patience=2", "train.env_steps=20000", "train.epoch_steps=400",
                              "learner.lr=1e-5", "train.replay_ratio=0.05",
                              "checkpoint.keep_last=100"},
                      .folder = new_folder()};
    struct dqn_trainer *whole = run_train(&run);
    char name[64];
    const size_t last = (size_t)dqn_trainer_epochs(whole);
    cr_assert(last >= 3 && last < 50, "%zu epochs", last);
    snprintf(name, sizeof name, "epoch-%06zu.h5", last);
    size_t n_rows = 0;
    double *rows = history_of(file_in(run.folder, name), &n_rows), best = -INFINITY;
    size_t best_epoch = 0;
    cr_assert_eq(n_rows, last);
    for (size_t e = 1; e <= last; e++) {
        const double score = rows[(e - 1) * DQN_METRIC_COUNT + DQN_METRIC_eval_return];
        if (score > best) {
            best = score;
            best_epoch = e;
        }
        cr_expect_eq(e - best_epoch >= 2, e == last, "epoch %zu of %zu", e, last);
    }
    const char *whole_folder = run.folder;
    run.folder = new_folder();
    run.stop_at = 400 * (last - 1) + 200; /* one worse epoch is behind */
    run_and_forget(&run);
    run.stop_at = 0;
    snprintf(name, sizeof name, "epoch-%06zu-partial.h5", last - 1);
    run.resume = file_in(run.folder, name);
    struct dqn_trainer *parts = run_train(&run);
    cr_expect_eq((size_t)dqn_trainer_epochs(parts), last);
    cr_expect_null(first_difference(whole, parts), "%s", first_difference(whole, parts));
    free(rows);
    dqn_trainer_destroy(whole);
    dqn_trainer_destroy(parts);
    remove_tree(whole_folder);
    remove_tree(run.folder);
}

/* What was trained until the evaluation is saved, and goes on as if nothing had been. */
Test(trainer, an_evaluation_that_does_not_end_loses_nothing) {
    struct run run = {.set = {"env.name=mountain_car", "collect.n_step=3"}, .folder = new_folder()};
    struct dqn_trainer *whole = run_train(&run), *endless = NULL;
    const char *whole_folder = run.folder;
    bool stopped = true;
    char said[512];
    run.folder = new_folder();
    run.eval_steps = 1;
    OK(run_create(&run, &endless));
    cr_assert_eq(dqn_trainer_run(endless, &stopped), DQN_ERR_ENDLESS, "%s", dqn_error_text());
    cr_expect_not(stopped);
    cr_expect_not_null(strstr(dqn_error_text(), "did not end within 1 step; "));
    cr_expect_not_null(strstr(dqn_error_text(), "needs a time limit"));
    snprintf(said, sizeof said, "is saved, and dqn-train --resume %s goes on", run.folder);
    cr_expect_not_null(strstr(dqn_error_text(), said), "%s", dqn_error_text());
    dqn_trainer_destroy(endless);
    run.eval_steps = 0;
    run.resume = file_in(run.folder, "epoch-000000-partial.h5");
    struct dqn_trainer *parts = run_train(&run);
    cr_expect_null(first_difference(whole, parts), "%s", first_difference(whole, parts));
    dqn_trainer_destroy(whole);
    dqn_trainer_destroy(parts);
    remove_tree(whole_folder);
    remove_tree(run.folder);
    /* Without a folder there is nothing to go on with. */
    const struct run nowhere = {.set = {"env.name=mountain_car"}, .eval_steps = 1};
    OK(run_create(&nowhere, &endless));
    cr_expect_eq(dqn_trainer_run(endless, &stopped), DQN_ERR_ENDLESS);
    cr_expect_null(strstr(dqn_error_text(), "--resume"), "%s", dqn_error_text());
    dqn_trainer_destroy(endless);
}

/* A stop whose save fails is no stop after which all is saved. */
Test(trainer, a_stop_that_cannot_be_saved_is_an_error) {
    struct run run = {.folder = new_folder(), .stop_at = 300};
    struct dqn_trainer *t = NULL;
    bool stopped = true;
    OK(run_create(&run, &t));
    remove_tree(run.folder);
    cr_expect_eq(dqn_trainer_run(t, &stopped), DQN_ERR_DISK, "%s", dqn_error_text());
    cr_expect_not(stopped);
    dqn_trainer_destroy(t);
}

/* ---- what a run starts from ---- */

Test(trainer, init_from_takes_the_parameters_alone) {
    struct run run = {.set = {"seed=3"}, .folder = new_folder()};
    struct dqn_trainer *first = run_train(&run), *second = NULL;
    const struct run next = {.set = {"seed=4", "learner.lr=3e-4", "replay.capacity=700"},
                             .init_from = file_in(run.folder, "epoch-000003.h5")};
    OK(run_create(&next, &second));
    const size_t bytes = dqn_trainer_net(first)->n_params * sizeof(float);
    const float *params = buffer_of(first, "nn/params");
    cr_expect_arr_eq(buffer_of(second, "nn/params"), params, bytes);
    cr_expect_arr_eq(buffer_of(second, "nn/target"), params, bytes);
    static const char zero[64 * 1024];
    cr_assert(bytes <= sizeof zero);
    cr_expect_arr_eq(buffer_of(second, "nn/moment1"), zero, bytes);
    cr_expect_arr_eq(counters_of(second), zero, sizeof(struct dqn_counters));
    cr_expect_eq(dqn_trainer_epochs(second), 0u);
    bool stopped = false;
    OK(dqn_trainer_run(second, &stopped));
    cr_expect_eq(counters_of(second)->updates, 700u);
    dqn_trainer_destroy(second);
    static const char *const others[] = {"net.hidden=[17]", "net.activation=tanh",
                                         "net.dueling=true", "env.name=acrobot"};
    for (size_t i = 0; i < DQN_COUNT_OF(others); i++) {
        const struct run other = {.set = {others[i]}, .init_from = next.init_from};
        cr_expect_eq(run_create(&other, &second), DQN_ERR_CHECKPOINT, "%s", others[i]);
        cr_expect_not_null(strstr(dqn_error_text(), "its network is cartpole, 4-"), "%s",
                           dqn_error_text());
    }
    dqn_trainer_destroy(first);
    remove_tree(run.folder);
}

/* ---- the best ---- */

Test(trainer, nan_and_ties_are_never_the_best) {
    cr_expect(dqn_score_is_better(1.0, 0.5) && dqn_score_is_better(-1e9, -INFINITY));
    cr_expect_not(dqn_score_is_better(0.5, 0.5));
    cr_expect_not(dqn_score_is_better(NAN, -INFINITY));
    cr_expect_not(dqn_score_is_better(NAN, NAN));
    cr_expect_not(dqn_score_is_better(-INFINITY, -INFINITY));
}

/* The best of the history is what best.h5 holds and what the trainer tells. */
Test(trainer, best_file_is_the_best_epoch) {
    const struct run run = {.set = {"train.epoch_steps=300", "checkpoint.keep_last=100"},
                            .folder = new_folder()};
    struct dqn_trainer *t = run_train(&run);
    size_t n_rows = 0, best = 0, size = 0, best_size = 0;
    double *rows = history_of(file_in(run.folder, "epoch-000010.h5"), &n_rows);
    cr_assert_eq(n_rows, 10u);
    for (size_t e = 1; e < n_rows; e++) {
        if (rows[e * DQN_METRIC_COUNT + DQN_METRIC_eval_return] >
            rows[best * DQN_METRIC_COUNT + DQN_METRIC_eval_return]) {
            best = e;
        }
    }
    uint64_t epoch = 0;
    cr_expect_eq(dqn_trainer_best_score(t, 0, &epoch),
                 rows[best * DQN_METRIC_COUNT + DQN_METRIC_eval_return]);
    cr_expect_eq(epoch, best + 1);
    char name[64];
    snprintf(name, sizeof name, "epoch-%06zu.h5", best + 1);
    char *wanted = read_file(file_in(run.folder, name), &size);
    char *found = read_file(file_in(run.folder, "best.h5"), &best_size);
    cr_expect(size == best_size && memcmp(wanted, found, size) == 0);
    free(wanted);
    free(found);
    free(rows);
    dqn_trainer_destroy(t);
    remove_tree(run.folder);
}
