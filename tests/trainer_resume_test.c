/* What a resumed run goes on with: schedules, streams, replay, best score, metrics.csv, agents; and
 * which keys may change. That the whole state is equal in the end is resume_test's. */
#include "trainer_support.h"

#include "trainer_parts.h"

static double *column(const double *rows, size_t n_rows, enum dqn_metric metric) {
    double *values = calloc(n_rows, sizeof *values);
    for (size_t i = 0; i < n_rows; i++) {
        values[i] = rows[i * DQN_METRIC_COUNT + metric];
    }
    return values;
}

/* ---- schedules ---- */

/* The schedules of the README in long hand; progress from 0 to 1. */
static double schedule_by_hand(const char *kind, double start, double end, double progress) {
    progress = fmin(progress, 1.0);
    if (strcmp(kind, "constant") == 0) {
        return start;
    }
    const double share = strcmp(kind, "cosine") == 0 ? (1 - cos(M_PI * progress)) / 2 : progress;
    return start * (1 - share) + end * share;
}

/* Learning rate and beta are means over the updates of an epoch, epsilon is that at its end. */
static void check_trace(const double *rows, size_t n_rows, const char *kind) {
    size_t update = 0;
    for (size_t e = 0; e < n_rows; e++) {
        const double *row = rows + e * DQN_METRIC_COUNT;
        const size_t until = (size_t)row[DQN_METRIC_updates], n = until - update;
        double lr = 0, beta = 0;
        for (; update < until; update++) {
            lr += schedule_by_hand(kind, 1e-3, 1e-4, (double)update / 700) / (double)n;
            beta += schedule_by_hand("linear", 0.4, 1, (double)update / 600) / (double)n;
        }
        const double epsilon =
            schedule_by_hand("linear", 1, 0.05, row[DQN_METRIC_env_steps] / 2000);
        /* Sums of some hundred doubles; seen 3e-15 of the value. */
        cr_expect_float_eq(row[DQN_METRIC_learning_rate] / lr, 1, 1e-13, "%s, epoch %zu", kind, e);
        cr_expect_float_eq(row[DQN_METRIC_beta] / beta, 1, 1e-13, "epoch %zu", e);
        cr_expect_leq(row[DQN_METRIC_beta], 1.0);
        cr_expect_float_eq(row[DQN_METRIC_epsilon], epsilon, 1e-15, "epoch %zu", e);
    }
}

Test(trainer_resume, schedules_go_on) {
    static const char *const kinds[] = {"constant", "linear", "cosine"};
    for (size_t k = 0; k < DQN_COUNT_OF(kinds); k++) {
        char kind[64];
        snprintf(kind, sizeof kind, "learner.lr_schedule=%s", kinds[k]);
        struct run run = {.set = {kind, "learner.lr_end=1e-4", "train.epoch_steps=500",
                                  "replay.beta.updates=600"},
                          .folder = new_folder()};
        run_and_forget(&run);
        size_t n_whole = 0, n_parts = 0;
        double *whole = history_of(file_in(run.folder, "epoch-000006.h5"), &n_whole);
        remove_tree(run.folder);
        run.folder = new_folder();
        run.stop_at = 1200;
        run_and_forget(&run);
        run.stop_at = 0;
        run.resume = file_in(run.folder, "epoch-000002-partial.h5");
        run_and_forget(&run);
        double *parts = history_of(file_in(run.folder, "epoch-000006.h5"), &n_parts);
        cr_assert(n_whole == 6 && n_parts == 6);
        check_trace(whole, n_whole, kinds[k]);
        cr_expect_arr_eq(whole, parts, 6 * DQN_METRIC_COUNT * sizeof *whole, "%s", kinds[k]);
        free(whole);
        free(parts);
        remove_tree(run.folder);
    }
}

/* A longer run keeps the slopes it began with: lr_updates and beta.updates of 0 were resolved. */
Test(trainer_resume, a_changed_value_is_in_force_from_there_on) {
    struct run run = {.set = {"learner.lr=1e-3"}, .folder = new_folder(), .stop_at = 2004};
    run_and_forget(&run);
    const struct run next = {.set = {"learner.lr=5e-4", "collect.eps_end=0.5"},
                             .folder = run.folder,
                             .resume = file_in(run.folder, "epoch-000002.h5")};
    run_and_forget(&next);
    size_t n_rows = 0;
    double *rows = history_of(file_in(run.folder, "epoch-000003.h5"), &n_rows);
    cr_assert_eq(n_rows, 3u);
    double *lr = column(rows, n_rows, DQN_METRIC_learning_rate);
    double *epsilon = column(rows, n_rows, DQN_METRIC_epsilon);
    cr_expect_float_eq(lr[1] / 1e-3, 1, 1e-13);
    cr_expect_float_eq(lr[2] / 5e-4, 1, 1e-13);
    cr_expect(epsilon[1] == 0.05 && epsilon[2] == 0.5);
    free(rows);
    free(lr);
    free(epsilon);
    remove_tree(run.folder);
}

/* ---- state ---- */

/* Right after loading every saved buffer has the bytes it was saved with, and the host stands where
 * it stood: fill, cursor, priorities, windows, lanes, counters, best. */
Test(trainer_resume, everything_saved_is_back_before_the_first_step) {
    static const char *const kinds[] = {"replay.kind=uniform", "replay.kind=proportional",
                                        "replay.kind=rank"};
    static const uint64_t stops[] = {100, 900, 2500}; /* before updates; part filled; wrapped */
    for (size_t i = 0; i < 9; i++) {
        struct run run = {.set = {kinds[i / 3], "collect.n_step=3", "train.epoch_steps=300"},
                          .folder = new_folder(),
                          .stop_at = stops[i % 3]};
        struct dqn_trainer *before = run_train(&run), *after = NULL;
        char name[64];
        snprintf(name, sizeof name, "epoch-%06zu-partial.h5", (size_t)before->at.epochs);
        run.resume = file_in(run.folder, name);
        OK(run_create(&run, &after));
        cr_expect_null(first_difference(before, after), "%s at %zu: %s", kinds[i / 3],
                       (size_t)run.stop_at, first_difference(before, after));
        cr_expect_arr_eq(&before->at, &after->at, sizeof before->at);
        cr_expect_eq(dqn_replay_size(before->replay), dqn_replay_size(after->replay));
        cr_expect_eq(((const struct dqn_ring *)buffer_of(after, "replay/ring"))->size,
                     dqn_replay_size(after->replay));
        cr_expect_eq(before->best_score[0], after->best_score[0]);
        cr_expect_eq(before->best_epoch[0], after->best_epoch[0]);
        dqn_trainer_destroy(before);
        dqn_trainer_destroy(after);
        remove_tree(run.folder);
    }
}

/* All actions are random and all lie in the replay: those after a resume are the uninterrupted
 * run's, and not those of its beginning; so are the rows drawn. */
Test(trainer_resume, random_streams_go_on) {
    struct run run = {.set = {"collect.eps_start=1", "collect.eps_end=1", "replay.capacity=4000",
                              "train.env_steps=4000"},
                      .folder = new_folder(),
                      .stop_at = 2002};
    run_and_forget(&run);
    run.stop_at = 0;
    run.resume = file_in(run.folder, "epoch-000002-partial.h5");
    struct dqn_trainer *parts = run_train(&run);
    const char *parts_folder = run.folder;
    run.folder = NULL;
    run.resume = NULL;
    struct dqn_trainer *whole = run_train(&run);
    const uint32_t *a = buffer_of(whole, "replay/actions"), *b = buffer_of(parts, "replay/actions");
    size_t same = 0;
    for (size_t i = 0; i < 2000; i++) {
        cr_assert_eq(a[2000 + i], b[2000 + i], "action %zu", i);
        same += b[2000 + i] == b[i];
    }
    /* Two actions: half agree by chance, 2000 trials, 22 is one standard deviation. */
    cr_expect(same > 880 && same < 1120, "%zu", same);
    const float *starts = buffer_of(parts, "replay/states");
    size_t repeated = 0;
    for (size_t i = 0; i < 2000; i++) {
        repeated += memcmp(starts + 4 * (2000 + i), starts + 4 * i, 4 * sizeof *starts) == 0;
    }
    cr_expect_eq(repeated, 0u);
    cr_expect_arr_eq(buffer_of(whole, "batch/index"), buffer_of(parts, "batch/index"),
                     16 * sizeof(int64_t));
    cr_expect_null(first_difference(whole, parts), "%s", first_difference(whole, parts));
    dqn_trainer_destroy(whole);
    dqn_trainer_destroy(parts);
    remove_tree(parts_folder);
}

Test(trainer_resume, three_agents_go_on) {
    struct dqn_config *config = run_config(&(struct run){.set = {NULL}});
    dqn_agent_resolve_schedules(config);
    struct dqn_agent agents[3];
    for (size_t k = 0; k < 3; k++) {
        dqn_agent_from_config(&agents[k], config);
        agents[k].seed = 30 + k;
        agents[k].lr_start *= 1 + (double)k;
        agents[k].alpha = 0.3 * (double)k;
    }
    struct run run = {.n_agents = 3, .agents = agents};
    struct dqn_trainer *whole = run_train(&run);
    run.folder = new_folder();
    run.stop_at = 1604;
    run_and_forget(&run);
    run.stop_at = 0;
    run.resume = file_in(run.folder, "epoch-000001-partial.h5");
    struct dqn_trainer *parts = run_train(&run);
    cr_expect_null(first_difference(whole, parts), "%s", first_difference(whole, parts));
    for (size_t k = 0; k < 3; k++) {
        cr_expect_eq(whole->best_score[k], parts->best_score[k]);
        cr_expect_eq(whole->best_epoch[k], parts->best_epoch[k]);
    }
    /* A file of three agents is none for one. */
    struct dqn_trainer *one = NULL;
    run.n_agents = 1;
    run.resume = file_in(run.folder, "epoch-000003.h5");
    cr_expect_eq(run_create(&run, &one), DQN_ERR_CHECKPOINT, "%s", dqn_error_text());
    dqn_trainer_destroy(whole);
    dqn_trainer_destroy(parts);
    free(config);
    remove_tree(run.folder);
}

/* ---- without the replay ---- */

/* Nothing is learned until learning_starts rows are there again, also when the run is interrupted
 * and resumed in the midst of filling; then the number of updates is the rule's again. */
Test(trainer_resume, a_replay_that_was_not_saved_is_filled_first) {
    struct run run = {.set = {"checkpoint.replay=false"}, .folder = new_folder(), .stop_at = 1500};
    struct dqn_trainer *t = run_train(&run);
    const uint64_t updates = counters_of(t)->updates;
    cr_assert(updates >= 324 && updates <= 325, "%zu", (size_t)updates);
    dqn_trainer_destroy(t);
    run.resume = file_in(run.folder, "epoch-000001-partial.h5");
    run.set[0] = "checkpoint.replay=true";
    run.stop_at = 1600;
    t = run_train(&run);
    cr_expect_eq(dqn_replay_size(t->replay), 100u);
    cr_expect_eq(counters_of(t)->updates, updates);
    dqn_trainer_destroy(t);
    run.stop_at = 1692;
    t = run_train(&run);
    cr_expect_eq(dqn_replay_size(t->replay), 192u);
    cr_expect_eq(((const struct dqn_ring *)buffer_of(t, "replay/ring"))->size, 192u);
    cr_expect_eq(counters_of(t)->updates, updates);
    dqn_trainer_destroy(t);
    run.stop_at = 0;
    t = run_train(&run);
    cr_expect_eq(counters_of(t)->updates, 700u);
    dqn_trainer_destroy(t);
    remove_tree(run.folder);
}

/* ---- the best ---- */

/* After the best epoch a resumed run with worse epochs leaves best.h5 as it is, byte for byte. */
Test(trainer_resume, a_worse_epoch_leaves_the_best_file) {
    size_t n_checked = 0;
    for (int seed = 1; seed <= 20 && n_checked < 3; seed++) {
        char text[32], name[64];
        snprintf(text, sizeof text, "seed=%d", seed);
        struct run run = {.set = {text, "train.epoch_steps=500"}, .folder = new_folder()};
        struct dqn_trainer *t = run_train(&run);
        const uint64_t best = (uint64_t)t->best_epoch[0];
        dqn_trainer_destroy(t);
        remove_tree(run.folder);
        if (best == 6) {
            continue;
        }
        run.folder = new_folder();
        run.stop_at = best * 500 + 4;
        run_and_forget(&run);
        size_t size = 0, later_size = 0;
        char *kept = read_file(file_in(run.folder, "best.h5"), &size);
        snprintf(name, sizeof name, "epoch-%06zu-partial.h5", (size_t)best);
        run.resume = file_in(run.folder, name);
        run.stop_at = 0;
        t = run_train(&run);
        cr_expect_eq(t->best_epoch[0], (double)best);
        char *later = read_file(file_in(run.folder, "best.h5"), &later_size);
        cr_expect(size == later_size && memcmp(kept, later, size) == 0, "seed %d", seed);
        dqn_trainer_destroy(t);
        free(kept);
        free(later);
        remove_tree(run.folder);
        n_checked++;
    }
    cr_expect_eq(n_checked, 3u);
}

/* ---- metrics.csv ---- */

/* One header, epochs 1, 2, ... without a gap, every line with the header's number of columns. */
static void check_csv(const char *folder, size_t n_epochs) {
    size_t size = 0, epoch = 0, commas = 0;
    char *text = read_file(file_in(folder, "metrics.csv"), &size);
    cr_assert(size > 0 && text[size - 1] == '\n');
    for (char *rest = text, *line = strtok_r(rest, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        size_t n = 0;
        for (const char *c = line; *c != '\0'; c++) {
            n += *c == ',';
        }
        if (commas == 0) {
            commas = n;
            cr_expect_eq(strncmp(line, "epoch,agent,env_steps,updates,loss,", 35), 0, "%s", line);
            cr_expect_eq(n + 1, (size_t)DQN_METRIC_ALL);
            continue;
        }
        epoch++;
        cr_expect_eq(n, commas, "%s", line);
        cr_expect_eq((size_t)strtoul(line, NULL, 10), epoch, "%s", line);
        const char *end = strrchr(line, ',');
        cr_expect(strcmp(end, ",nan") != 0 || epoch > 0);
    }
    cr_expect_eq(epoch, n_epochs);
    free(text);
}

static void write_file(const char *path, const char *text, size_t size) {
    FILE *out = fopen(path, "wb");
    cr_assert_not_null(out);
    cr_assert_eq(fwrite(text, 1, size, out), size);
    cr_assert_eq(fclose(out), 0);
}

/* The file may hold more than the checkpoint (killed before a checkpoint), less (killed before a
 * line was written), or half a line. */
Test(trainer_resume, metrics_csv_is_one_table) {
    struct run run = {.set = {"train.epoch_steps=500", "checkpoint.keep_last=9"},
                      .folder = new_folder()};
    run_and_forget(&run);
    check_csv(run.folder, 6);
    const char *csv = file_in(run.folder, "metrics.csv");
    size_t size = 0;
    char *whole = read_file(csv, &size);
    const char *first_line_end = strchr(whole, '\n');
    const size_t header = (size_t)(first_line_end - whole) + 1;
    /* Whole; header alone; cut inside the second row; cut inside the header; nothing. */
    const size_t lengths[] = {size, header, header + 700 < size ? header + 500 : size, 20, 0};
    for (size_t i = 0; i < DQN_COUNT_OF(lengths); i++) {
        write_file(csv, whole, lengths[i]);
        run.resume = file_in(run.folder, "epoch-000003.h5");
        run_and_forget(&run);
        check_csv(run.folder, 6);
    }
    cr_assert_eq(unlink(csv), 0);
    run_and_forget(&run);
    check_csv(run.folder, 6);
    free(whole);
    remove_tree(run.folder);
}
