/* The runs of a walk-forward. */
#include "walk_forward.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint.h"
#include "file_ops.h"
#include "greedy_policy.h"
#include "run_folder.h"
#include "trainer.h"

static const double year_s = 365.2425 * 86400.0;

static enum dqn_status join(char *out, size_t size, const char *folder, const char *name) {
    const int n = snprintf(out, size, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= size) {
        return dqn_fail(DQN_ERR_DISK, "%s: the path is longer than %zu bytes; use a shorter one",
                        folder, size - 1);
    }
    return DQN_OK;
}

static enum dqn_status run_path(char *out, size_t size, const char *folder, size_t fold,
                                int64_t seed) {
    char name[64];
    snprintf(name, sizeof name, "fold-%02zu-seed-%" PRId64, fold + 1, seed);
    return join(out, size, folder, name);
}

enum dqn_status dqn_walk_run_best(char *out, size_t size, const char *folder, size_t fold,
                                  int64_t seed) {
    char run[DQN_TEXT_MAX];
    DQN_TRY(run_path(run, sizeof run, folder, fold, seed));
    return join(out, size, run, "best.h5");
}

static bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool has_checkpoint(const char *folder) {
    bool found = false;
    DIR *dir = opendir(folder);
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL;
         entry = readdir(dir)) {
        uint64_t epochs;
        bool partial;
        found = found || dqn_run_folder_parse(entry->d_name, &epochs, &partial);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

/* It has results, or its config.yaml, the first file of a run, says so. */
static bool is_walk(const char *folder) {
    char file[DQN_TEXT_MAX];
    struct dqn_config *config = NULL;
    if (join(file, sizeof file, folder, "walk-forward.json") == DQN_OK && is_file(file)) {
        return true;
    }
    if (join(file, sizeof file, folder, "config.yaml") != DQN_OK || !is_file(file) ||
        dqn_alloc((void **)&config, 1, sizeof *config, "a configuration") != DQN_OK) {
        return false;
    }
    const bool is =
        dqn_config_load(config, file, 0, NULL) == DQN_OK && config->walk_forward.train > 0;
    free(config);
    return is;
}

bool dqn_walk_find(char *folder, size_t size, const char *path) {
    static const char *const places[] = {"", "/latest"};
    for (size_t i = 0; i < DQN_COUNT_OF(places); i++) {
        const int n = snprintf(folder, size, "%s%s", path, places[i]);
        if (n >= 0 && (size_t)n < size && is_walk(folder)) {
            return true;
        }
    }
    return false;
}

/* ---- verify ---------------------------------------------------------------------------------- */

static int is_fold(const struct dirent *entry) {
    size_t fold;
    int64_t seed;
    int end = 0;
    return sscanf(entry->d_name, "fold-%zu-seed-%" SCNd64 "%n", &fold, &seed, &end) == 2 &&
           entry->d_name[end] == '\0';
}

/* Checks one run's folder. One that was killed before its first checkpoint has nothing to damage.
 */
static enum dqn_status verify_run(const char *folder, FILE *report) {
    char best[DQN_TEXT_MAX];
    DQN_TRY(join(best, sizeof best, folder, "best.h5"));
    if (!has_checkpoint(folder) && !is_file(best)) {
        fprintf(report, "nothing  %s: no checkpoint yet\n", folder);
        return DQN_OK;
    }
    return dqn_run_folder_verify(folder, report);
}

enum dqn_status dqn_walk_verify(const char *folder, FILE *report) {
    struct dirent **runs = NULL;
    char path[DQN_TEXT_MAX], first[2048];
    const int n = scandir(folder, &runs, is_fold, alphasort);
    enum dqn_status status = DQN_OK;
    if (n < 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be listed: %s", folder, strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        enum dqn_status now = join(path, sizeof path, folder, runs[i]->d_name);
        now = now == DQN_OK ? verify_run(path, report) : now;
        if (now != DQN_OK && status == DQN_OK) {
            status = now;
            snprintf(first, sizeof first, "%s", dqn_error_text());
        }
        free(runs[i]);
    }
    free(runs);
    return status == DQN_OK ? DQN_OK : dqn_fail(status, "%s", first);
}

/* ---- files that are read ----------------------------------------------------------------------
 */

enum dqn_status dqn_walk_check_apart(const char *folder, const char *output) {
    static const char *const names[] = {"best.h5", "test.csv"};
    struct dirent **runs = NULL;
    char path[DQN_TEXT_MAX];
    const int n = scandir(folder, &runs, is_fold, alphasort);
    enum dqn_status status =
        n < 0 ? dqn_fail(DQN_ERR_DISK, "%s: cannot be listed: %s", folder, strerror(errno))
              : DQN_OK;
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < DQN_COUNT_OF(names) && status == DQN_OK; k++) {
            const int length =
                snprintf(path, sizeof path, "%s/%s/%s", folder, runs[i]->d_name, names[k]);
            if (length > 0 && (size_t)length < sizeof path) { /* else none that can be read */
                status = dqn_file_check_apart(output, path);
            }
        }
        free(runs[i]);
    }
    free(runs);
    return status;
}

/* ---- test.csv: a finished run's result, written whole or not at all -------------------------- */

static const char result_head[] =
    "# validation %lf test %lf best_epoch %" SCNu64 " steps %zu turnover %lf";

static enum dqn_status write_result(const struct dqn_walk_run *run, const char *path) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "%s: no memory for its text: %s", path, strerror(errno));
    }
    fprintf(file, "# validation %.17g test %.17g best_epoch %" PRIu64 " steps %zu turnover %.17g\n",
            run->validation, run->test, run->best_epoch, run->n, run->turnover);
    fprintf(file, "time_ns,exposure,gain,market\n");
    for (size_t i = 0; i < run->n; i++) {
        const struct dqn_walk_step *s = &run->steps[i];
        fprintf(file, "%" PRId64 ",%.17g,%.17g,%.17g\n", s->time_ns, s->exposure, s->gain,
                s->market);
    }
    const bool bad = ferror(file) != 0;
    enum dqn_status status = DQN_OK;
    if (fclose(file) != 0 || bad) {
        status = dqn_fail(DQN_ERR_MEMORY, "%s: no memory for its text", path);
    } else {
        status = dqn_file_replace(&dqn_file_ops_system, path, text, size);
    }
    free(text);
    return status;
}

static enum dqn_status read_steps(FILE *file, const char *path, struct dqn_walk_run *run) {
    char line[256];
    /* files of before the turnover was kept have four numbers */
    run->turnover = 0.0;
    if (fgets(line, sizeof line, file) == NULL ||
        sscanf(line, result_head, &run->validation, &run->test, &run->best_epoch, &run->n,
               &run->turnover) < 4 ||
        run->n > SIZE_MAX / sizeof *run->steps || fgets(line, sizeof line, file) == NULL) {
        return dqn_fail(DQN_ERR_DATA, "%s: not a test result; remove it and resume again", path);
    }
    DQN_TRY(dqn_alloc((void **)&run->steps, run->n, sizeof *run->steps, "a test result"));
    for (size_t i = 0; i < run->n; i++) {
        struct dqn_walk_step *s = &run->steps[i];
        if (fgets(line, sizeof line, file) == NULL ||
            sscanf(line, "%" SCNd64 ",%lf,%lf,%lf", &s->time_ns, &s->exposure, &s->gain,
                   &s->market) != 4) {
            return dqn_fail(DQN_ERR_DATA,
                            "%s: step %zu of %zu cannot be read; remove the file and "
                            "resume again",
                            path, i + 1, run->n);
        }
    }
    return DQN_OK;
}

static enum dqn_status read_result(struct dqn_walk_run *run, const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be read: %s", path, strerror(errno));
    }
    const enum dqn_status status = read_steps(file, path, run);
    fclose(file);
    return status;
}

/* ---- stops ----------------------------------------------------------------------------------- */

static bool stop_wanted(const struct dqn_walk_options *o) {
    return o->stop != NULL && *o->stop != 0;
}

static void set_reading(const struct dqn_walk_options *o, bool reading) {
    if (o->reading != NULL) {
        atomic_store(o->reading, reading);
    }
}

/* From here on a signal may end the process. False where one came before: then nothing is read. */
static bool begin_reading(const struct dqn_walk_options *o) {
    set_reading(o, true);
    if (stop_wanted(o)) {
        set_reading(o, false);
        return false;
    }
    return true;
}

/* ---- passes over validation and test --------------------------------------------------------- */

struct pass {
    const struct dqn_market *market;
    bool linear;
    double start_equity, sum, turnover;
    struct dqn_walk_step *steps; /* NULL = only the sum */
    size_t n, capacity;
};

static void add_step(void *context, const struct trading_step_record *record) {
    struct pass *pass = context;
    const double gain = pass->linear
                            ? (record->equity_after - record->equity_before) / pass->start_equity
                            : record->log_return;
    pass->sum += gain;
    pass->turnover += record->traded / fabs(record->equity_before);
    if (pass->steps != NULL && pass->n < pass->capacity) {
        pass->steps[pass->n++] =
            (struct dqn_walk_step){.time_ns = pass->market->bars.time_ns[record->result_bar],
                                   .exposure = record->exposure_after,
                                   .gain = gain,
                                   .market = dqn_log(record->close / record->decision_price)};
    }
}

/* The greedy policy until a stop is asked for. */
struct stoppable_policy {
    struct dqn_greedy_policy *policy;
    const atomic_int *stop;
};

static uint32_t stoppable_action(void *context, const float *observation, uint64_t step) {
    const struct stoppable_policy *p = context;
    const bool stop = p->stop != NULL && *p->stop != 0;
    return stop ? DQN_POLICY_STOP : dqn_greedy_policy_action(p->policy, observation, step);
}

/* One greedy pass, flat at first, over a whole part. */
static enum dqn_status pass_over(const struct dqn_trainer *trainer, enum dqn_split split,
                                 struct stoppable_policy *policy, struct pass *pass) {
    const struct dqn_config *config = dqn_trainer_config(trainer);
    struct trading_params params;
    DQN_TRY(dqn_trading_params(&params, config, dqn_trainer_market(trainer), NULL, DQN_TRADING_EVAL,
                               split, 1));
    const struct dqn_env_key key = {.seed = (uint64_t)config->run.seed};
    pass->market = dqn_trainer_market(trainer);
    pass->linear = config->reward.kind == DQN_REWARD_LINEAR;
    pass->start_equity = config->env.initial_equity;
    return dqn_trading_run(&params, key, stoppable_action, policy, add_step, pass, NULL);
}

/* Validation and test of the parameters that validation chose. The one place that looks at test. */
static enum dqn_status judge(struct dqn_trainer *trainer, const atomic_int *stop,
                             struct dqn_walk_run *run) {
    const struct dqn_net *net = dqn_trainer_net(trainer);
    const struct dqn_market *market = dqn_trainer_market(trainer);
    float *params = NULL;
    struct dqn_greedy_policy *policy = NULL;
    struct pass validation = {0}, test = {.capacity = market->transitions[DQN_SPLIT_TEST]};
    enum dqn_status status =
        dqn_alloc((void **)&params, net->n_params, sizeof *params, "parameters");
    DQN_TRY_GOTO(status);
    DQN_TRY_GOTO(
        dqn_alloc((void **)&test.steps, test.capacity, sizeof *test.steps, "a test result"));
    DQN_TRY_GOTO(dqn_trainer_best_params(trainer, params));
    DQN_TRY_GOTO(dqn_greedy_policy_create(&policy, net, params));
    struct stoppable_policy stoppable = {policy, stop};
    DQN_TRY_GOTO(pass_over(trainer, DQN_SPLIT_VALIDATION, &stoppable, &validation));
    DQN_TRY_GOTO(pass_over(trainer, DQN_SPLIT_TEST, &stoppable, &test));
    dqn_trainer_best_score(trainer, 0, &run->best_epoch);
    run->validation = validation.sum;
    run->test = test.sum;
    run->turnover = validation.turnover;
    run->n = test.n;
    run->steps = test.steps;
    test.steps = NULL;
done:
    free(test.steps);
    dqn_greedy_policy_destroy(policy);
    free(params);
    return status;
}

/* ---- one run --------------------------------------------------------------------------------- */

void dqn_walk_run_config(struct dqn_config *out, const struct dqn_config *config,
                         const struct dqn_fold *fold, int64_t seed) {
    *out = *config;
    memset(&out->walk_forward, 0, sizeof out->walk_forward);
    out->walk_forward.seeds = 1;
    out->run.seed = seed;
    out->data.split_bars.n = 2 * DQN_SPLITS;
    for (int i = 0; i < DQN_SPLITS; i++) {
        out->data.split_bars.v[2 * i] = (int64_t)fold->first[i];
        out->data.split_bars.v[2 * i + 1] = (int64_t)fold->last[i];
    }
}

/* Where a run stands and what it starts from. */
struct run_place {
    char folder[DQN_TEXT_MAX], result[DQN_TEXT_MAX], resume[DQN_TEXT_MAX], init[DQN_TEXT_MAX];
};

static enum dqn_status find_place(struct run_place *place, const struct dqn_walk_options *o,
                                  size_t fold, int64_t seed) {
    memset(place, 0, sizeof *place);
    DQN_TRY(run_path(place->folder, sizeof place->folder, o->folder, fold, seed));
    DQN_TRY(join(place->result, sizeof place->result, place->folder, "test.csv"));
    if (has_checkpoint(place->folder)) {
        return dqn_run_folder_resolve(place->resume, sizeof place->resume, place->folder);
    }
    if (o->config->walk_forward.warm_start && fold > 0) {
        return dqn_walk_run_best(place->init, sizeof place->init, o->folder, fold - 1, seed);
    }
    return DQN_OK;
}

/* A folder that was made for a run goes again when the run does not begin. */
static void leave_run_folder(struct dqn_run_folder *folder, bool discard) {
    if (discard) {
        dqn_run_folder_discard(folder, NULL);
    } else {
        dqn_run_folder_close(folder);
    }
}

/* *made: it was not there. */
static enum dqn_status open_run_folder(struct dqn_run_folder *folder, const char *path,
                                       const struct dqn_config *config, bool *made) {
    *made = mkdir(path, 0777) == 0;
    if (!*made && errno != EEXIST) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be made: %s", path, strerror(errno));
    }
    char *text = NULL;
    enum dqn_status status = dqn_run_folder_open(folder, path, NULL);
    if (status == DQN_OK) {
        status = dqn_config_print(config, &text);
    }
    if (status == DQN_OK) {
        status = dqn_run_folder_write_config(path, text, NULL);
    }
    free(text);
    if (status != DQN_OK) {
        leave_run_folder(folder, *made);
    }
    return status;
}

/* Every run reads the data again, and all are of what the folds lie on. */
static enum dqn_status check_sha256(const char *sha256, const char *where,
                                    const struct dqn_walk *walk) {
    if (strcmp(sha256, walk->market_sha256) == 0) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_DATA,
                    "%s: the data changed while walk-forward ran (SHA-256 %.12s..., where the "
                    "folds lie %.12s...); all runs must be of the same: begin anew with data that "
                    "stay",
                    where, sha256, walk->market_sha256);
}

/* A run whose best.h5 was taken away can still be read. */
static enum dqn_status check_finished(const struct dqn_walk_options *o, const struct dqn_walk *walk,
                                      size_t fold, int64_t seed) {
    char path[DQN_TEXT_MAX], *sha256 = NULL;
    struct dqn_checkpoint *file = NULL;
    DQN_TRY(dqn_walk_run_best(path, sizeof path, o->folder, fold, seed));
    if (!is_file(path)) {
        return DQN_OK;
    }
    DQN_TRY(dqn_checkpoint_open(&file, path));
    enum dqn_status status = dqn_checkpoint_text(file, "market_sha256", &sha256);
    if (status == DQN_OK && sha256 != NULL) {
        status = check_sha256(sha256, path, walk);
    }
    free(sha256);
    dqn_checkpoint_close(file);
    return status;
}

/* *begun: the trainer was created, on the data of the folds; `points`: then latest leads here. */
static enum dqn_status train(const struct dqn_walk_options *o, const struct dqn_walk *walk,
                             const struct dqn_config *config, const struct run_place *place,
                             bool first, bool points, struct dqn_walk_run *run, bool *begun,
                             bool *stopped) {
    const struct dqn_trainer_options options = {
        .config = config,
        .folder = place->folder,
        .resume = place->resume[0] != '\0' ? place->resume : NULL,
        .init_from = place->init[0] != '\0' ? place->init : NULL,
        .quiet = o->quiet,
        .stop = o->stop,
        .stop_at_steps = o->stop_at_steps};
    struct dqn_trainer *trainer = NULL;
    *stopped = !begin_reading(o);
    if (*stopped) {
        return DQN_OK;
    }
    dqn_log_set_quiet(o->quiet || !first); /* the same data and network every time */
    enum dqn_status status = dqn_trainer_create(&trainer, &options);
    dqn_log_set_quiet(o->quiet);
    set_reading(o, false);
    if (status == DQN_OK) {
        const struct dqn_bars_info *info = &dqn_trainer_market(trainer)->bars.info;
        status = check_sha256(info->sha256, info->source, walk);
    }
    *begun = status == DQN_OK;
    if (*begun && points) {
        dqn_run_folder_point_latest(o->folder, NULL);
    }
    if (status == DQN_OK) {
        status = dqn_trainer_run(trainer, stopped);
    }
    if (status == DQN_OK && !*stopped) {
        status = judge(trainer, o->stop, run);
    }
    if (status == DQN_ERR_STOPPED) { /* all is saved: the run is judged when it goes on */
        *stopped = true;
        status = DQN_OK;
    }
    if (status == DQN_OK && !*stopped) {
        status = write_result(run, place->result);
    }
    dqn_trainer_destroy(trainer);
    return status;
}

/* Takes a finished run's result from its folder, or trains it to the end. *begun gets true when
 * there is one, or a checkpoint, or the training begins. */
static enum dqn_status do_run(const struct dqn_walk_options *o, const struct dqn_walk *walk,
                              size_t fold_index, struct dqn_config *config, struct run_place *place,
                              struct dqn_walk_run *run, bool *begun, bool *stopped) {
    const struct dqn_fold *fold = &walk->folds[fold_index];
    bool made = false, begins = false;
    DQN_TRY(find_place(place, o, fold_index, run->seed));
    *begun = *begun || is_file(place->result) || place->resume[0] != '\0';
    if (is_file(place->result)) {
        DQN_TRY(check_finished(o, walk, fold_index, run->seed));
        return read_result(run, place->result);
    }
    struct dqn_run_folder folder;
    dqn_walk_run_config(config, o->config, fold, run->seed);
    DQN_TRY(open_run_folder(&folder, place->folder, config, &made));
    if (!o->quiet) {
        dqn_info("fold %zu, seed %lld: training bars %zu-%zu, validation %zu-%zu, test %zu-%zu",
                 fold_index + 1, (long long)run->seed, fold->first[0], fold->last[0] - 1,
                 fold->first[1], fold->last[1] - 1, fold->first[2], fold->last[2] - 1);
    }
    const bool first = fold_index == 0 && run->seed == o->config->run.seed;
    const bool points = o->points_latest && !*begun;
    const enum dqn_status status =
        train(o, walk, config, place, first, points, run, &begins, stopped);
    leave_run_folder(&folder, made && status != DQN_OK && !begins);
    *begun = *begun || begins;
    return status;
}

/* ---- all runs -------------------------------------------------------------------------------- */

static enum dqn_status check_env(const struct dqn_config *config) {
    if (config->env.name != DQN_ENV_trading) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "walk_forward.train = %lld does not go with env.name = %s: walk-forward "
                        "is for the trading environment",
                        (long long)config->walk_forward.train,
                        dqn_config_choice("env.name", config->env.name));
    }
    return DQN_OK;
}

enum dqn_status dqn_walk_check(const struct dqn_config *config) {
    DQN_TRY(check_env(config));
    return dqn_bars_check_reread(config, "walk-forward reads the data again for each run");
}

/* Counts the bars, once, and places the folds. */
static enum dqn_status plan(const struct dqn_config *config, const struct dqn_bars *bars,
                            struct dqn_walk *walk) {
    const double span_s = 1e-9 * (double)(bars->time_ns[bars->n - 1] - bars->time_ns[0]);
    walk->n_bars = bars->n;
    snprintf(walk->market_sha256, sizeof walk->market_sha256, "%s", bars->info.sha256);
    walk->linear = config->reward.kind == DQN_REWARD_LINEAR;
    walk->bars_per_year = config->report.bars_per_year > 0.0
                              ? config->report.bars_per_year
                              : (double)(bars->n - 1) / (span_s / year_s);
    DQN_TRY(dqn_walk_plan(config, walk->n_bars, &walk->folds, &walk->n_folds));
    walk->n_seeds = (size_t)config->walk_forward.seeds;
    DQN_TRY(dqn_alloc((void **)&walk->runs, walk->n_folds * walk->n_seeds, sizeof *walk->runs,
                      "runs of the folds"));
    for (size_t i = 0; i < walk->n_folds * walk->n_seeds; i++) {
        walk->runs[i].seed = config->run.seed + (int64_t)(i % walk->n_seeds);
    }
    return DQN_OK;
}

/* *begun gets true as of do_run. */
static enum dqn_status run_all(const struct dqn_walk_options *o, struct dqn_walk *walk, bool *begun,
                               bool *stopped) {
    struct dqn_config *config = NULL;
    struct run_place *place = NULL;
    enum dqn_status status = dqn_alloc((void **)&config, 1, sizeof *config, "a configuration");
    DQN_TRY_GOTO(status);
    DQN_TRY_GOTO(dqn_alloc((void **)&place, 1, sizeof *place, "paths"));
    for (size_t i = 0; i < walk->n_folds * walk->n_seeds && !*stopped; i++) {
        const size_t fold = i / walk->n_seeds;
        if (stop_wanted(o)) { /* between runs */
            *stopped = true;
            break;
        }
        DQN_TRY_GOTO(do_run(o, walk, fold, config, place, &walk->runs[i], begun, stopped));
        if (!*stopped) {
            walk->done = i + 1;
            DQN_TRY_GOTO(dqn_walk_write(walk, o->config, o->folder));
        }
    }
done:
    free(place);
    free(config);
    return status;
}

/* All runs, from what there is. Results without a run that began go again, when they are new. */
static enum dqn_status go_on(const struct dqn_walk_options *o, struct dqn_walk *walk,
                             bool *stopped) {
    char results[DQN_TEXT_MAX];
    bool begun = false;
    DQN_TRY(join(results, sizeof results, o->folder, "walk-forward.json"));
    const bool made = !is_file(results);
    DQN_TRY(dqn_walk_write(walk, o->config, o->folder));
    const enum dqn_status status = run_all(o, walk, &begun, stopped);
    if (status != DQN_OK && made && !begun) {
        unlink(results);
    }
    return status;
}

/* Loads the data, and plans folds and runs on them. *bars is the caller's to free. */
static enum dqn_status plan_on_data(const struct dqn_config *config, bool quiet,
                                    struct dqn_walk *walk, struct dqn_bars *bars) {
    memset(walk, 0, sizeof *walk);
    memset(bars, 0, sizeof *bars);
    DQN_TRY(check_env(config));
    DQN_TRY(dqn_bars_load(bars, config, quiet));
    return plan(config, bars, walk);
}

enum dqn_status dqn_walk_forward(const struct dqn_walk_options *options, struct dqn_walk *out,
                                 bool *stopped) {
    struct dqn_walk walk;
    struct dqn_bars bars;
    *stopped = !begin_reading(options);
    if (*stopped) {
        if (out != NULL) {
            memset(out, 0, sizeof *out);
        }
        return DQN_OK;
    }
    enum dqn_status status = plan_on_data(options->config, true, &walk, &bars);
    dqn_bars_free(&bars);
    set_reading(options, false);
    if (status == DQN_OK && !options->quiet) {
        dqn_info("walk-forward: %zu fold%s of %zu seed%s over %zu bars", walk.n_folds,
                 dqn_plural(walk.n_folds), walk.n_seeds, dqn_plural(walk.n_seeds), walk.n_bars);
    }
    if (status == DQN_OK) {
        status = go_on(options, &walk, stopped);
    }
    if (status == DQN_OK && !*stopped && !options->quiet) {
        status = dqn_walk_print(&walk, stdout);
        printf("the page of it: dqn-eval %s --report DIR\n", options->folder);
    }
    if (status == DQN_OK && out != NULL) {
        *out = walk;
    } else {
        dqn_walk_free(&walk);
    }
    return status;
}

static enum dqn_status load_results(struct dqn_walk *walk, const char *folder) {
    const size_t n = walk->n_folds * walk->n_seeds;
    for (; walk->done < n; walk->done++) {
        struct dqn_walk_run *run = &walk->runs[walk->done];
        char place[DQN_TEXT_MAX], result[DQN_TEXT_MAX];
        DQN_TRY(run_path(place, sizeof place, folder, walk->done / walk->n_seeds, run->seed));
        DQN_TRY(join(result, sizeof result, place, "test.csv"));
        if (!is_file(result)) {
            return dqn_fail(DQN_ERR_CHECKPOINT,
                            "%s: this walk-forward is not finished: %zu of %zu run%s %s no "
                            "test.csv yet; go on with: dqn-train --resume %s",
                            folder, n - walk->done, n, dqn_plural(n),
                            n - walk->done == 1 ? "has" : "have", folder);
        }
        DQN_TRY(read_result(run, result));
    }
    return DQN_OK;
}

enum dqn_status dqn_walk_load(const struct dqn_config *config, const char *folder,
                              struct dqn_walk *out, struct dqn_bars *bars) {
    enum dqn_status status = plan_on_data(config, false, out, bars);
    status = status == DQN_OK ? load_results(out, folder) : status;
    if (status != DQN_OK) {
        dqn_bars_free(bars);
        dqn_walk_free(out);
    }
    return status;
}

void dqn_walk_free(struct dqn_walk *walk) {
    for (size_t i = 0; walk->runs != NULL && i < walk->n_folds * walk->n_seeds; i++) {
        free(walk->runs[i].steps);
    }
    free(walk->runs);
    free(walk->folds);
    memset(walk, 0, sizeof *walk);
}
