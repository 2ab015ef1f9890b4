/* Walk-forward: where folds lie, what their statistics depend on, and that interrupted ones end as
 * whole ones do. */
#include "remove_tree.h"
#include "walk_eval.h"
#include "walk_forward.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dqn_config config;

static void load(const char *text, size_t n, const char *const *overrides) {
    cr_assert_eq(dqn_config_parse(&config, "test", ".", text, n, overrides), DQN_OK, "%s",
                 dqn_error_text());
}

/* ---- folds ---- */

static void check_parts(const struct dqn_fold *fold, const size_t expected[6]) {
    for (int i = 0; i < DQN_SPLITS; i++) {
        cr_expect_eq(fold->first[i], expected[2 * i]);
        cr_expect_eq(fold->last[i], expected[2 * i + 1]);
    }
}

Test(walk_folds, rolling_and_anchored_by_hand) {
    static const size_t rolling[3][6] = {{0, 1000, 1005, 1205, 1210, 1310},
                                         {100, 1100, 1105, 1305, 1310, 1410},
                                         {200, 1200, 1205, 1405, 1410, 1510}};
    for (int anchored = 0; anchored < 2; anchored++) {
        const char *const mode[] = {anchored ? "walk_forward.mode=anchored"
                                             : "walk_forward.mode=rolling"};
        load("walk_forward: {train: 1000, validation: 200, test: 100, embargo: 5}\n", 1, mode);
        struct dqn_fold *folds = NULL;
        size_t n = 0;
        cr_assert_eq(dqn_walk_plan(&config, 1609, &folds, &n), DQN_OK, "%s", dqn_error_text());
        cr_assert_eq(n, 3); /* a fourth would end at bar 1610 */
        for (size_t i = 0; i < n; i++) {
            size_t expected[6];
            memcpy(expected, rolling[i], sizeof expected);
            expected[0] = anchored ? 0 : expected[0];
            check_parts(&folds[i], expected);
        }
        free(folds);
    }
}

/* No n-step reward may reach from one part into the next. */
Test(walk_folds, the_embargo_is_at_least_n_step) {
    load("walk_forward: {train: 1000, validation: 200, test: 100, embargo: 5}\n"
         "collect: {n_step: 9}\n",
         0, NULL);
    struct dqn_fold *folds = NULL;
    size_t n = 0;
    cr_assert_eq(dqn_walk_plan(&config, 1318, &folds, &n), DQN_OK, "%s", dqn_error_text());
    cr_expect_eq(folds[0].first[1] - folds[0].last[0], 9);
    cr_expect_eq(folds[0].first[2] - folds[0].last[1], 9);
    free(folds);
}

Test(walk_folds, what_does_not_fit_is_refused) {
    struct dqn_fold *folds = NULL;
    size_t n = 0;
    load("walk_forward: {train: 1000, validation: 200, test: 100}\n", 0, NULL);
    cr_expect_eq(dqn_walk_plan(&config, 1301, &folds, &n), DQN_ERR_DATA);
    cr_expect_not_null(strstr(dqn_error_text(), "1302"), "%s", dqn_error_text());
    load("walk_forward: {train: 1000, test: 100}\n", 0, NULL);
    cr_expect_eq(dqn_walk_plan(&config, 9999, &folds, &n), DQN_ERR_CONFIG);
    load("walk_forward: {train: 512, validation: 200, test: 100}\n", 0, NULL);
    cr_expect_eq(dqn_walk_plan(&config, 9999, &folds, &n), DQN_ERR_CONFIG);
}

Test(walk_folds, median_seed_by_validation) {
    struct dqn_walk_run runs[] = {{.validation = 3.0}, {.validation = 1.0}, {.validation = 2.0},
                                  {.validation = 2.0}, {.validation = 2.0}, {.validation = 2.0}};
    struct dqn_walk walk = {.n_folds = 2, .n_seeds = 3, .runs = runs};
    cr_expect_eq(dqn_walk_median_seed(&walk, 0), 2);
    cr_expect_eq(dqn_walk_median_seed(&walk, 1), 1); /* of equal ones the second of three */
    walk.n_seeds = 2;
    cr_expect_eq(dqn_walk_median_seed(&walk, 0), 1); /* the lower of two */
    walk.n_seeds = 3;
    runs[4].turnover = 5.0;
    runs[3].turnover = 4.0;
    runs[5].turnover = 4.0;
    cr_expect_eq(dqn_walk_median_seed(&walk, 1), 0); /* of equal ones who traded least */
    runs[2].turnover = 9.0;
    runs[1].turnover = 0.0;
    cr_expect_eq(dqn_walk_median_seed(&walk, 0), 2); /* others' turnover does not count */
}

/* ---- explicit parts of a market ---- */

static const char parts_text[] = "synthetic: {bars: 4000}\n"
                                 "data: {split_bars: [1000, 2000, 2010, 2500, 2510, 3000]}\n";

/* Statistics of the market whose bars [first, last) have swollen ranges. */
static void statistics(size_t first, size_t last, double *mean, double *std) {
    struct dqn_bars bars = {0};
    struct dqn_market *market = NULL;
    load(parts_text, 0, NULL);
    cr_assert_eq(dqn_bars_load(&bars, &config, true), DQN_OK, "%s", dqn_error_text());
    for (size_t i = first; i < last; i++) {
        bars.high[i] *= 1.01;
    }
    cr_assert_eq(dqn_market_from_bars(&market, &config, &bars, NULL, NULL), DQN_OK, "%s",
                 dqn_error_text());
    memcpy(mean, market->mean, sizeof market->mean);
    memcpy(std, market->std, sizeof market->std);
    dqn_market_destroy(market);
}

/* Normalisation is fitted on the training bars: it changes with them and with no later ones, nor
 * with earlier ones farther back than the features look (those looking back at most 276 bars). */
Test(walk_parts, statistics_come_from_training_alone) {
    double mean[DQN_MARKET_FEATURES], std[DQN_MARKET_FEATURES];
    double other_mean[DQN_MARKET_FEATURES], other_std[DQN_MARKET_FEATURES];
    statistics(0, 0, mean, std);
    statistics(2000, 4000, other_mean, other_std);
    cr_expect_arr_eq(mean, other_mean, sizeof mean);
    cr_expect_arr_eq(std, other_std, sizeof std);
    statistics(1900, 2000, other_mean, other_std);
    cr_expect_neq(mean[9], other_mean[9]); /* upper wick */
    statistics(0, 400, other_mean, other_std);
    cr_expect_eq(mean[9], other_mean[9]);
}

Test(walk_parts, transitions_stay_inside_their_part) {
    struct dqn_market *market = NULL;
    load(parts_text, 0, NULL);
    cr_assert_eq(dqn_market_create(&market, &config, NULL, NULL), DQN_OK, "%s", dqn_error_text());
    for (int split = 0; split < DQN_SPLITS; split++) {
        cr_assert_eq(market->range_count[split], 1);
        const struct trading_range *range = &market->ranges[market->range_first[split]];
        cr_expect_eq(range->first, (uint64_t)config.data.split_bars.v[2 * split]);
        cr_expect_eq(range->last, (uint64_t)config.data.split_bars.v[2 * split + 1] - 1);
    }
    dqn_market_destroy(market);
}

Test(walk_parts, wrong_numbers_are_refused) {
    static const char *const wrong[] = {"data.split_bars=[0, 1000, 1000, 2000]",
                                        "data.split_bars=[0, 1000, 900, 2000, 2000, 3000]",
                                        "data.split_bars=[0, 1000, 1000, 2000, 2000, 4001]"};
    for (size_t i = 0; i < DQN_COUNT_OF(wrong); i++) {
        struct dqn_market *market = NULL;
        load(parts_text, 1, &wrong[i]);
        cr_expect_eq(dqn_market_create(&market, &config, NULL, NULL), DQN_ERR_CONFIG, "%s",
                     wrong[i]);
        cr_expect_not_null(strstr(dqn_error_text(), "data.split_bars"), "%s", dqn_error_text());
    }
}

/* ---- whole walk-forwards ---- */

static const char walk_text[] =
    "env: {name: trading, lanes: 4, episode_bars: 64}\n"
    "threads: 1\n"
    "device: cpu\n"
    "synthetic: {bars: 2000}\n"
    "walk_forward: {train: 900, validation: 300, test: 300, seeds: 2}\n"
    "net: {hidden: [8]}\n"
    "collect: {eps_steps: 500}\n"
    "replay: {capacity: 500}\n"
    "learner: {batch: 8, lr: 1e-2, target: soft}\n"
    "train: {env_steps: 800, epoch_steps: 400, learning_starts: 100, replay_ratio: 0.25}\n"
    "eval: {episodes: 2}\n";

/* A fresh folder, for remove_folder. */
static char *fresh_folder(void) {
    char *path = strdup("/tmp/dqn-walk-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static void walk(const char *folder, uint64_t stop_at, bool expect_stop, struct dqn_walk *out) {
    bool stopped = false;
    const struct dqn_walk_options options = {
        .config = &config, .folder = folder, .quiet = true, .stop_at_steps = stop_at};
    cr_assert_eq(dqn_walk_forward(&options, out, &stopped), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(stopped, expect_stop);
}

static void remove_folder(char *path) {
    remove_tree(path);
    free(path);
}

static void expect_equal(const struct dqn_walk *a, const struct dqn_walk *b) {
    cr_assert_eq(a->n_folds, b->n_folds);
    for (size_t i = 0; i < a->n_folds * a->n_seeds; i++) {
        cr_expect_eq(a->runs[i].validation, b->runs[i].validation, "run %zu", i);
        cr_expect_eq(a->runs[i].turnover, b->runs[i].turnover, "run %zu", i);
        cr_expect_eq(a->runs[i].test, b->runs[i].test, "run %zu", i);
        cr_assert_eq(a->runs[i].n, b->runs[i].n);
        cr_expect_arr_eq(a->runs[i].steps, b->runs[i].steps,
                         a->runs[i].n * sizeof *a->runs[i].steps, "run %zu", i);
    }
}

/* Stopped inside the first run, taken up, stopped in the second, ...: the end is bit for bit that
 * of a walk-forward that was left alone. */
Test(walk_forward, goes_on_where_it_stopped) {
    char *whole_folder = fresh_folder(), *parts_folder = fresh_folder();
    struct dqn_walk whole, parts, again;
    load(walk_text, 0, NULL);
    walk(whole_folder, 0, false, &whole);
    cr_assert_eq(whole.n_folds, 2);
    cr_assert_eq(whole.runs[0].n, 299);
    walk(parts_folder, 600, true, &parts);
    cr_expect_eq(parts.done, 0);
    dqn_walk_free(&parts);
    char found[DQN_TEXT_MAX];
    cr_expect(dqn_walk_find(found, sizeof found, parts_folder));
    cr_expect_str_eq(found, parts_folder);
    walk(parts_folder, 0, false, &parts);
    expect_equal(&whole, &parts);
    walk(parts_folder, 0, false, &again); /* all from test.csv */
    expect_equal(&whole, &again);
    dqn_walk_free(&whole);
    dqn_walk_free(&parts);
    dqn_walk_free(&again);
    remove_folder(whole_folder);
    remove_folder(parts_folder);
}

/* The test result is the sum of what an account of that exposure earns, and is read, not computed
 * again, when it is there. */
Test(walk_forward, finished_runs_are_not_run_again) {
    char *folder = fresh_folder();
    struct dqn_walk once, again;
    load(walk_text, 0, NULL);
    walk(folder, 0, false, &once);
    double sum = 0.0;
    for (size_t i = 0; i < once.runs[0].n; i++) {
        sum += once.runs[0].steps[i].gain;
    }
    cr_expect_eq(sum, once.runs[0].test);
    char path[DQN_TEXT_MAX];
    snprintf(path, sizeof path, "%s/fold-01-seed-1/test.csv", folder);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "# validation 0.5 test 0.25 best_epoch 7 steps 1\n"
                  "time_ns,exposure,gain,market\n123,-1,0.25,0.125\n");
    fclose(file);
    walk(folder, 0, false, &again);
    cr_expect_eq(again.runs[0].validation, 0.5);
    cr_expect_eq(again.runs[0].best_epoch, 7);
    cr_expect_eq(again.runs[0].turnover, 0.0); /* of a file that does not have it */
    cr_expect_eq(again.runs[1].turnover, once.runs[1].turnover);
    cr_expect_gt(once.runs[0].turnover + once.runs[1].turnover, 0.0);
    cr_expect_eq(again.runs[0].steps[0].time_ns, 123);
    cr_expect_eq(again.runs[0].steps[0].market, 0.125);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "# validation 0.5 test 0.25 best_epoch 7 steps 2\ntime_ns\n123,-1,0.25,0.125\n");
    fclose(file);
    bool stopped;
    const struct dqn_walk_options options = {.config = &config, .folder = folder, .quiet = true};
    cr_expect_eq(dqn_walk_forward(&options, NULL, &stopped), DQN_ERR_DATA);
    cr_expect_not_null(strstr(dqn_error_text(), "step 2 of 2"), "%s", dqn_error_text());
    dqn_walk_free(&once);
    dqn_walk_free(&again);
    remove_folder(folder);
}

static void cannot_begin(const char *folder, enum dqn_status expected) {
    bool stopped = false;
    const struct dqn_walk_options options = {.config = &config, .folder = folder, .quiet = true};
    cr_expect_eq(dqn_walk_forward(&options, NULL, &stopped), expected, "%s", dqn_error_text());
    cr_expect_not(stopped);
}

static bool has(const char *folder, const char *name) {
    char path[DQN_TEXT_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* What was made goes again, and what was there before stays. */
Test(walk_forward, runs_that_cannot_begin_leave_nothing) {
    static const char *const no_gpu[] = {"device=cuda", "device_index=63"};
    static const char *const warm[] = {"walk_forward.warm_start=true", "walk_forward.seeds=1"};
    char *folder = fresh_folder(), path[DQN_TEXT_MAX];
    load(walk_text, 2, no_gpu);
    cannot_begin(folder, DQN_ERR_DEVICE);
    cr_assert_eq(rmdir(folder), 0, "something is left");
    cr_assert_eq(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/fold-01-seed-1", folder);
    cr_assert_eq(mkdir(path, 0777), 0);
    cannot_begin(folder, DQN_ERR_DEVICE);
    cr_expect(has(folder, "fold-01-seed-1/lock"));
    cr_expect_not(has(folder, "walk-forward.json"));
    load(walk_text, 2, warm); /* a later run, whose network to start with is away */
    walk(folder, 0, false, NULL);
    snprintf(path, sizeof path, "%s/fold-02-seed-1", folder);
    remove_tree(path);
    snprintf(path, sizeof path, "%s/fold-01-seed-1/best.h5", folder);
    cr_assert_eq(unlink(path), 0);
    cannot_begin(folder, DQN_ERR_DISK);
    cr_expect_not(has(folder, "fold-02-seed-1"));
    cr_expect(has(folder, "fold-01-seed-1/test.csv"));
    cr_expect(has(folder, "walk-forward.json"));
    remove_folder(folder);
}

/* The first fold is the same; the second starts with another network. */
Test(walk_forward, warm_start_changes_later_folds_only) {
    static const char *const warm[] = {"walk_forward.warm_start=true"};
    char *cold_folder = fresh_folder(), *warm_folder = fresh_folder();
    struct dqn_walk a, b;
    load(walk_text, 0, NULL);
    walk(cold_folder, 0, false, &a);
    load(walk_text, 1, warm);
    walk(warm_folder, 0, false, &b);
    cr_expect_eq(a.runs[0].validation, b.runs[0].validation);
    cr_expect_eq(a.runs[1].validation, b.runs[1].validation);
    cr_expect(a.runs[2].validation != b.runs[2].validation ||
              a.runs[3].validation != b.runs[3].validation);
    dqn_walk_free(&a);
    dqn_walk_free(&b);
    remove_folder(cold_folder);
    remove_folder(warm_folder);
}

/* Gains of the linear reward are parts of the starting equity and add up: 1, 1.5, 0.75 is a
 * drawdown of one half; log returns of the same size would make it 1 - exp(-0.75). */
Test(walk_forward, linear_gains_add_up) {
    struct dqn_walk_step steps[] = {{.gain = 0.5}, {.gain = -0.75}};
    struct dqn_fold fold = {{0}, {0}};
    struct dqn_walk_run run = {.seed = 1, .n = 2, .steps = steps, .test = -0.25};
    struct dqn_walk done = {.n_folds = 1,
                            .n_seeds = 1,
                            .folds = &fold,
                            .runs = &run,
                            .done = 1,
                            .bars_per_year = 100.0};
    for (int linear = 0; linear < 2; linear++) {
        char *folder = fresh_folder(), path[DQN_TEXT_MAX], text[2000] = "", expected[64];
        load(walk_text, 0, NULL);
        done.linear = linear != 0;
        cr_assert_eq(dqn_walk_write(&done, &config, folder), DQN_OK, "%s", dqn_error_text());
        snprintf(path, sizeof path, "%s/walk-forward.json", folder);
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file);
        cr_assert_gt(fread(text, 1, sizeof text - 1, file), 0);
        fclose(file);
        snprintf(expected, sizeof expected, "\"max_drawdown\": %.6f",
                 linear ? 0.5 : 1.0 - exp(-0.75));
        /* digits of the double that is nearest */
        expected[strlen(expected) - (linear ? 5 : 1)] = '\0';
        cr_expect_not_null(strstr(text, expected), "%s lacks %s", text, expected);
        remove_folder(folder);
    }
}

/* ---- the report ---- */

/* What the report's account did in a fold is what the walk-forward's own pass did when it tested
 * it, and the chain is that of walk-forward.json. Other seeds, parts and dates are the plan's. */
/* With two seeds the row has the mean of their tests, and the run that stands for the fold is said
 * to be the lower one. */
Test(walk_report, even_number_of_seeds) {
    struct dqn_walk_step step = {.time_ns = 1, .exposure = 1.0, .gain = 0.1, .market = 0.1};
    struct dqn_walk_run runs[] = {
        {.seed = 1, .validation = 3.0, .test = 0.5, .n = 1, .steps = &step},
        {.seed = 2, .validation = 1.0, .test = 0.25, .n = 1, .steps = &step},
    };
    struct dqn_fold fold = {.first = {0, 10, 20}, .last = {10, 20, 30}};
    const struct dqn_walk two = {.n_folds = 1,
                                 .n_seeds = 2,
                                 .n_bars = 30,
                                 .folds = &fold,
                                 .runs = runs,
                                 .done = 2,
                                 .bars_per_year = 100.0};
    char *folder = fresh_folder(), *text = NULL, path[256], json[4096];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cr_assert_not_null(out);
    cr_assert_eq(dqn_walk_print(&two, out), DQN_OK, "%s", dqn_error_text());
    fclose(out);
    cr_expect_not_null(strstr(text, "test +37.50, +25.00 to +50.00\n"), "%s", text);
    cr_expect_not_null(strstr(text, "test    +50.00   epoch 0\n"), "%s", text);
    cr_expect_not_null(strstr(text, "test    +25.00   epoch 0   lower median by validation\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "out of sample, the lower median seeds chained: 1 step,"), "%s",
                       text);
    free(text);
    load("walk_forward: {train: 1000, validation: 200, test: 100, seeds: 2}\n", 0, NULL);
    cr_assert_eq(dqn_walk_write(&two, &config, folder), DQN_OK, "%s", dqn_error_text());
    snprintf(path, sizeof path, "%s/walk-forward.json", folder);
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in);
    json[fread(json, 1, sizeof json - 1, in)] = '\0';
    fclose(in);
    cr_expect_not_null(strstr(json, "\"seed_choice\": \"lower median validation return\""), "%s",
                       json);
    cr_expect_not_null(strstr(json, "\"median_seed_by_validation\": 2, \"test_median\": 0.375, "),
                       "%s", json);
    remove_folder(folder);
}

Test(walk_report, folds_are_those_of_the_walk_forward) {
    static const char *const quick[] = {"report.random_runs=5", "report.bootstrap=50",
                                        "walk_forward.seeds=3"};
    char *folder = fresh_folder();
    struct dqn_walk done;
    struct dqn_walk_eval *eval = NULL;
    load(walk_text, DQN_COUNT_OF(quick), quick);
    walk(folder, 0, false, &done);
    cr_assert_eq(dqn_walk_eval_create(&eval, &config, folder), DQN_OK, "%s", dqn_error_text());
    const struct dqn_trading_report *r = dqn_walk_eval_report(eval);
    double sum = 0.0, costs = 0.0;
    cr_assert_eq(r->n_folds, done.n_folds);
    cr_expect_eq(r->bars, 2 * 299);
    for (size_t i = 0; i < r->n_folds; i++) {
        const struct dqn_report_fold *fold = &r->folds[i];
        const size_t median = dqn_walk_median_seed(&done, i);
        const struct dqn_walk_run *run = &done.runs[3 * i + median];
        cr_assert_eq(fold->n_steps, run->n);
        cr_expect_eq(dqn_report_fold_chosen(fold)->seed, run->seed);
        /* the account of 1 is scaled by what the fold before left: 299 roundings; seen 2e-16 */
        cr_expect(fabs(fold->figures.total_return - expm1(run->test)) < 1e-13, "%.17g and %.17g",
                  fold->figures.total_return, expm1(run->test));
        for (size_t k = 0; k < run->n; k++) {
            const size_t step = fold->first_step + k;
            cr_assert_eq(r->market->bars.time_ns[r->track.bar[step]], run->steps[k].time_ns);
            cr_assert(fabs(r->track.exposure[step] - run->steps[k].exposure) < 1e-12);
        }
        for (size_t seed = 0; seed < 3; seed++) {
            cr_expect_eq(fold->seeds[seed].test_return, expm1(done.runs[3 * i + seed].test));
            cr_expect_eq(fold->seeds[seed].validation_return,
                         expm1(done.runs[3 * i + seed].validation));
        }
        for (int split = 0; split < DQN_SPLITS; split++) {
            const struct dqn_fold *plan = &done.folds[i];
            cr_expect_eq(fold->bars[split], plan->last[split] - plan->first[split]);
            cr_expect_eq(fold->first_ns[split], r->market->bars.time_ns[plan->first[split]]);
            cr_expect_eq(fold->last_ns[split], r->market->bars.time_ns[plan->last[split] - 1]);
        }
        sum += run->test;
        costs += fold->figures.costs;
    }
    cr_expect(fabs(r->agent.log_return - sum) < 1e-13);
    cr_expect(fabs(r->agent.costs - costs) < 1e-9 * (1.0 + costs));
    cr_expect_eq(r->walk.test_evaluations, 6);
    cr_expect(r->trained_sha256[0] != '\0' && !r->data_changed);
    dqn_walk_eval_destroy(eval);
    dqn_walk_free(&done);
    remove_folder(folder);
}

Test(walk_report, an_unfinished_walk_forward_has_none) {
    char *folder = fresh_folder();
    struct dqn_walk parts;
    struct dqn_walk_eval *eval = NULL;
    load(walk_text, 0, NULL);
    walk(folder, 600, true, &parts);
    cr_expect_eq(dqn_walk_eval_create(&eval, &config, folder), DQN_ERR_CHECKPOINT);
    cr_expect_not_null(strstr(dqn_error_text(), "4 of 4 runs have no test.csv yet"), "%s",
                       dqn_error_text());
    cr_expect_not_null(strstr(dqn_error_text(), "dqn-train --resume /tmp/dqn-walk-"), "%s",
                       dqn_error_text());
    cr_expect_null(eval);
    dqn_walk_free(&parts);
    remove_folder(folder);
}

/* The same walk-forward over other data: the verdict says so. */
Test(walk_report, other_data_are_a_warning) {
    static const char *const other[] = {"synthetic.seed=2", "report.random_runs=0"};
    char *folder = fresh_folder();
    struct dqn_walk done;
    struct dqn_walk_eval *eval = NULL;
    load(walk_text, 0, NULL);
    walk(folder, 0, false, &done);
    load(walk_text, 2, other);
    cr_assert_eq(dqn_walk_eval_create(&eval, &config, folder), DQN_OK, "%s", dqn_error_text());
    cr_expect(dqn_walk_eval_report(eval)->data_changed);
    dqn_walk_eval_destroy(eval);
    dqn_walk_free(&done);
    remove_folder(folder);
}
