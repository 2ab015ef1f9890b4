/* What a walk-forward found: the table of folds, the chained out-of-sample curve, and both as
 * files. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file_ops.h"
#include "market/performance.h"
#include "market/trading_report.h"
#include "walk_forward.h"

static const struct dqn_walk_run *fold_runs(const struct dqn_walk *walk, size_t fold) {
    return walk->runs + fold * walk->n_seeds;
}

static bool fold_is_done(const struct dqn_walk *walk, size_t fold) {
    return walk->done >= (fold + 1) * walk->n_seeds;
}

static bool all_done(const struct dqn_walk *walk) {
    return walk->done == walk->n_folds * walk->n_seeds;
}

/* Median (of an even number the mean of the middle two), lowest and highest test result of a fold's
 * seeds. */
struct range {
    double median, low, high;
};

static enum dqn_status test_range(const struct dqn_walk *walk, size_t fold, struct range *out) {
    double *tests = NULL;
    DQN_TRY(dqn_alloc((void **)&tests, walk->n_seeds, sizeof *tests, "test results"));
    for (size_t i = 0; i < walk->n_seeds; i++) {
        tests[i] = fold_runs(walk, fold)[i].test;
    }
    out->median = dqn_quantile(tests, walk->n_seeds, 0.5);
    out->low = tests[0];
    out->high = tests[walk->n_seeds - 1];
    free(tests);
    return DQN_OK;
}

/* ---- the chained curve ----------------------------------------------------------------------- */

/* A chain of test passes: sums of gains and of the market's log returns, and the usual figures. */
struct chain {
    size_t steps;
    double gain, market;
    struct dqn_performance performance;
};

/* The track of equity 1 that earns the median seeds' gains one after the other: they multiply, or
 * with the linear reward add up. */
static enum dqn_status chain_folds(const struct dqn_walk *walk, struct chain *chain) {
    struct dqn_track track;
    memset(chain, 0, sizeof *chain);
    for (size_t fold = 0; fold < walk->n_folds; fold++) {
        chain->steps += fold_runs(walk, fold)[dqn_walk_median_seed(walk, fold)].n;
    }
    DQN_TRY(dqn_track_create(&track, chain->steps));
    track.start_equity = 1.0;
    for (size_t fold = 0; fold < walk->n_folds; fold++) {
        const struct dqn_walk_run *run = &fold_runs(walk, fold)[dqn_walk_median_seed(walk, fold)];
        for (size_t i = 0; i < run->n; i++) {
            chain->gain += run->steps[i].gain;
            chain->market += run->steps[i].market;
            track.equity[track.n] = track.adverse_equity[track.n] =
                walk->linear ? 1.0 + chain->gain : exp(chain->gain);
            track.exposure[track.n] = run->steps[i].exposure;
            track.bar[track.n] = track.n;
            track.n++;
        }
    }
    dqn_performance_compute(&track, walk->bars_per_year, 0.0, &chain->performance);
    dqn_track_destroy(&track);
    return DQN_OK;
}

/* ---- on the screen --------------------------------------------------------------------------- */

static enum dqn_status print_fold(const struct dqn_walk *walk, size_t fold, FILE *out) {
    const struct dqn_fold *f = &walk->folds[fold];
    const size_t chosen = dqn_walk_median_seed(walk, fold);
    struct range range;
    DQN_TRY(test_range(walk, fold, &range));
    fprintf(out, "%4zu  %7zu-%-8zu %7zu-%-8zu %7zu-%-8zu", fold + 1, f->first[0], f->last[0] - 1,
            f->first[1], f->last[1] - 1, f->first[2], f->last[2] - 1);
    fprintf(out, "  test %+.2f, %+.2f to %+.2f\n", 100.0 * range.median, 100.0 * range.low,
            100.0 * range.high);
    for (size_t i = 0; i < walk->n_seeds; i++) {
        const struct dqn_walk_run *run = &fold_runs(walk, fold)[i];
        fprintf(out,
                "      seed %-4" PRId64 " validation %+9.2f   test %+9.2f   epoch %" PRIu64
                "%s%s%s\n",
                run->seed, 100.0 * run->validation, 100.0 * run->test, run->best_epoch,
                i == chosen ? "   " : "", i == chosen ? dqn_seed_choice(walk->n_seeds) : "",
                i == chosen ? " by validation" : "");
    }
    return DQN_OK;
}

enum dqn_status dqn_walk_print(const struct dqn_walk *walk, FILE *out) {
    struct chain chain;
    char yearly[32];
    fprintf(out,
            "\nWalk-forward: %zu fold%s, %zu seed%s each; %zu run%s, each tested once. Sums of "
            "log returns in %%.\n",
            walk->n_folds, dqn_plural(walk->n_folds), walk->n_seeds, dqn_plural(walk->n_seeds),
            walk->done, dqn_plural(walk->done));
    fprintf(out, "fold  training bars    validation       test             median of the seeds, "
                 "range\n");
    for (size_t fold = 0; fold < walk->n_folds && fold_is_done(walk, fold); fold++) {
        DQN_TRY(print_fold(walk, fold, out));
    }
    if (!all_done(walk)) {
        return DQN_OK;
    }
    DQN_TRY(chain_folds(walk, &chain));
    dqn_format_yearly(yearly, sizeof yearly, walk->bars_per_year);
    fprintf(out,
            "out of sample, the %s seeds chained: %zu step%s, log return %+.2f %% (the "
            "market %+.2f %%),\n",
            dqn_seed_choice(walk->n_seeds), chain.steps, dqn_plural(chain.steps),
            100.0 * chain.gain, 100.0 * chain.market);
    fprintf(out, "Sharpe ratio %.2f (%s bar%s a year), largest drawdown %.2f %%\n",
            chain.performance.sharpe, yearly, strcmp(yearly, "1") == 0 ? "" : "s",
            100.0 * chain.performance.max_drawdown);
    return DQN_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* JSON has no NaN: null. */
static void put_real(FILE *out, const char *name, double value, const char *after) {
    if (isfinite(value)) {
        fprintf(out, "\"%s\": %.17g%s", name, value, after);
    } else {
        fprintf(out, "\"%s\": null%s", name, after);
    }
}

static void put_runs(const struct dqn_walk *walk, size_t fold, FILE *out) {
    fprintf(out, "      \"runs\": [");
    for (size_t i = 0; i < walk->n_seeds && fold * walk->n_seeds + i < walk->done; i++) {
        const struct dqn_walk_run *run = &fold_runs(walk, fold)[i];
        fprintf(out, "%s\n        {\"seed\": %" PRId64 ", \"best_epoch\": %" PRIu64 ", ",
                i > 0 ? "," : "", run->seed, run->best_epoch);
        put_real(out, "validation", run->validation, ", ");
        put_real(out, "test", run->test, "}");
    }
    fprintf(out, "]");
}

static enum dqn_status put_fold(const struct dqn_walk *walk, size_t fold, FILE *out) {
    static const char *const names[DQN_SPLITS] = {"training", "validation", "test"};
    const struct dqn_fold *f = &walk->folds[fold];
    fprintf(out, "%s\n    {", fold > 0 ? "," : "");
    for (int i = 0; i < DQN_SPLITS; i++) {
        fprintf(out, "\"%s_bars\": [%zu, %zu], ", names[i], f->first[i], f->last[i]);
    }
    fprintf(out, "\n");
    put_runs(walk, fold, out);
    if (fold_is_done(walk, fold)) {
        struct range range;
        DQN_TRY(test_range(walk, fold, &range));
        fprintf(out, ",\n      \"median_seed_by_validation\": %" PRId64 ", ",
                fold_runs(walk, fold)[dqn_walk_median_seed(walk, fold)].seed);
        put_real(out, "test_median", range.median, ", ");
        put_real(out, "test_low", range.low, ", ");
        put_real(out, "test_high", range.high, "");
    }
    fprintf(out, "}");
    return DQN_OK;
}

static enum dqn_status put_all(const struct dqn_walk *walk, const struct dqn_config *config,
                               FILE *out) {
    fprintf(out, "{\"complete\": %s, \"mode\": \"%s\", \"warm_start\": %s, \"bars\": %zu,\n",
            all_done(walk) ? "true" : "false",
            dqn_config_choice("walk_forward.mode", config->walk_forward.mode),
            config->walk_forward.warm_start ? "true" : "false", walk->n_bars);
    fprintf(out,
            "  \"runs_done\": %zu, \"test_evaluations\": %zu, \"seed_choice\": \"%s validation "
            "return\",\n  \"folds\": [",
            walk->done, walk->done, dqn_seed_choice(walk->n_seeds));
    for (size_t fold = 0; fold < walk->n_folds; fold++) {
        DQN_TRY(put_fold(walk, fold, out));
    }
    fprintf(out, "]");
    if (all_done(walk)) {
        struct chain chain;
        DQN_TRY(chain_folds(walk, &chain));
        fprintf(out, ",\n  \"out_of_sample\": {\"steps\": %zu, ", chain.steps);
        put_real(out, "log_return", chain.gain, ", ");
        put_real(out, "market_log_return", chain.market, ", ");
        put_real(out, "bars_per_year", walk->bars_per_year, ", ");
        put_real(out, "sharpe", chain.performance.sharpe, ", ");
        put_real(out, "max_drawdown", chain.performance.max_drawdown, "}");
    }
    fprintf(out, "}\n");
    return DQN_OK;
}

static enum dqn_status put_curve(const struct dqn_walk *walk, const struct dqn_config *config,
                                 FILE *out) {
    double sum = 0.0;
    (void)config;
    fprintf(out, "time_ns,fold,seed,exposure,gain,market,sum\n");
    for (size_t fold = 0; fold < walk->n_folds; fold++) {
        const struct dqn_walk_run *run = &fold_runs(walk, fold)[dqn_walk_median_seed(walk, fold)];
        for (size_t i = 0; i < run->n; i++) {
            const struct dqn_walk_step *s = &run->steps[i];
            sum += s->gain;
            fprintf(out, "%" PRId64 ",%zu,%" PRId64 ",%.9g,%.17g,%.17g,%.17g\n", s->time_ns,
                    fold + 1, run->seed, s->exposure, s->gain, s->market, sum);
        }
    }
    return DQN_OK;
}

/* A file made in memory and put in place at once. */
static enum dqn_status write_file(const struct dqn_walk *walk, const struct dqn_config *config,
                                  const char *folder, const char *name,
                                  enum dqn_status (*put)(const struct dqn_walk *,
                                                         const struct dqn_config *, FILE *)) {
    char path[DQN_TEXT_MAX + 32], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "%s: no memory for its text: %s", name, strerror(errno));
    }
    enum dqn_status status = put(walk, config, out);
    const bool bad = ferror(out) != 0;
    if ((fclose(out) != 0 || bad) && status == DQN_OK) {
        status = dqn_fail(DQN_ERR_MEMORY, "%s: no memory for its text", name);
    }
    if (status == DQN_OK) {
        status = dqn_file_replace(&dqn_file_ops_system, path, text, size);
    }
    free(text);
    return status;
}

enum dqn_status dqn_walk_write(const struct dqn_walk *walk, const struct dqn_config *config,
                               const char *folder) {
    DQN_TRY(write_file(walk, config, folder, "walk-forward.json", put_all));
    return all_done(walk) ? write_file(walk, config, folder, "out-of-sample.csv", put_curve)
                          : DQN_OK;
}
