/* The trainer's checkpoints: what goes into one beside the arena, and how a run is taken up. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run_folder.h"
#include "trainer_parts.h"

struct dqn_saver {
    struct dqn_checkpoint_writer *writer;
    char *config_text;
};

/* ---- the fields that the host keeps -------------------------------------------------------------
 */

enum { FIELDS_MAX = 10 };

static size_t list_fields(struct dqn_trainer *t, struct dqn_checkpoint_field *fields) {
    const size_t k = t->n_agents, features = DQN_MARKET_FEATURES;
    size_t n = 0;
    fields[n++] = (struct dqn_checkpoint_field){"progress/epochs", DQN_U64, 0, {0}, &t->at.epochs};
    fields[n++] = (struct dqn_checkpoint_field){
        "progress/vector_steps", DQN_U64, 0, {0}, &t->at.vector_steps};
    fields[n++] =
        (struct dqn_checkpoint_field){"progress/updates", DQN_U64, 0, {0}, &t->at.updates};
    fields[n++] = (struct dqn_checkpoint_field){
        "progress/epochs_since_best", DQN_U64, 0, {0}, &t->at.epochs_since_best};
    fields[n++] = (struct dqn_checkpoint_field){"progress/rows", DQN_U64, 0, {0}, &t->at.rows};
    fields[n++] =
        (struct dqn_checkpoint_field){"progress/rows_needed", DQN_U64, 0, {0}, &t->at.rows_needed};
    fields[n++] = (struct dqn_checkpoint_field){"best/score", DQN_F64, 1, {k}, t->best_score};
    fields[n++] = (struct dqn_checkpoint_field){"best/epoch", DQN_F64, 1, {k}, t->best_epoch};
    if (t->market != NULL) {
        fields[n++] = (struct dqn_checkpoint_field){
            "market/feature_mean", DQN_F64, 1, {features}, t->market->mean};
        fields[n++] = (struct dqn_checkpoint_field){
            "market/feature_std", DQN_F64, 1, {features}, t->market->std};
    }
    return n;
}

/* ---- saving
 * ---------------------------------------------------------------------------------------- */

/* Where steps are captured, checkpoints are copied on the device first. */
static bool overlaps(const struct dqn_trainer *t) {
    return t->device.backend->queue->capture_begin != NULL;
}

uint64_t dqn_saver_wanted_bytes(const struct dqn_trainer *t) {
    return t->folder[0] != '\0' && overlaps(t)
               ? dqn_checkpoint_device_bytes(t->arena, t->config.checkpoint.replay, &t->device)
               : 0;
}

uint64_t dqn_saver_device_bytes(const struct dqn_trainer *t) {
    return t->saver != NULL ? dqn_checkpoint_writer_device_bytes(t->saver->writer) : 0;
}

enum dqn_status dqn_saver_create(struct dqn_trainer *t) {
    const bool replay = t->config.checkpoint.replay;
    struct dqn_saver *saver = NULL;
    DQN_TRY(dqn_alloc((void **)&saver, 1, sizeof *saver, "the saver"));
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_run_folder_check_space(t->folder, dqn_checkpoint_bytes(t->arena, replay),
                                            t->config.checkpoint.keep_last));
    DQN_TRY_GOTO(dqn_checkpoint_writer_create(&saver->writer, t->arena, replay, NULL));
    if (overlaps(t)) {
        dqn_checkpoint_writer_overlap(saver->writer, &t->device);
    }
    DQN_TRY_GOTO(dqn_config_print(&t->config, &saver->config_text));
    if (!replay && !t->quiet) {
        dqn_info("checkpoint.replay is false: checkpoints leave the replay out, and a resumed run "
                 "fills a new one before it learns on");
    }
    t->saver = saver;
done:
    if (status != DQN_OK) {
        dqn_saver_destroy(saver);
    }
    return status;
}

void dqn_saver_destroy(struct dqn_saver *saver) {
    if (saver != NULL) {
        dqn_checkpoint_writer_destroy(saver->writer);
        free(saver->config_text);
        free(saver);
    }
}

enum dqn_status dqn_saver_save(struct dqn_trainer *t, bool best, bool partial) {
    struct dqn_checkpoint_field fields[FIELDS_MAX];
    const size_t n_fields = list_fields(t, fields);
    char bar_seconds[32] = "";
    if (t->market != NULL) {
        snprintf(bar_seconds, sizeof bar_seconds, "%.17g", t->market->bar_seconds);
    }
    const struct dqn_checkpoint_text texts[] = {
        {"device", t->device.description},
        {"device_why", t->place.why},
        {"replay_device", dqn_replay_device(t->replay)->description},
        {"replay_device_why", dqn_trainer_why_replay(t)},
        {"environment", dqn_env_name(t->env)},
        {"market_source", t->market != NULL ? t->market->bars.info.source : ""},
        {"market_sha256", t->market != NULL ? t->market->bars.info.sha256 : ""},
        {"market_bar_seconds", bar_seconds}};
    size_t n_rows = 0;
    const double *history = dqn_metrics_history(t->metrics, &n_rows);
    const struct dqn_checkpoint_content content = {.config_text = t->saver->config_text,
                                                   .fields = fields,
                                                   .n_fields = n_fields,
                                                   .texts = texts,
                                                   .n_texts = DQN_COUNT_OF(texts),
                                                   .columns = dqn_metric_names,
                                                   .n_columns = DQN_METRIC_COUNT,
                                                   .history = history,
                                                   .n_rows = n_rows};
    const struct dqn_checkpoint_request request = {.folder = t->folder,
                                                   .epochs = t->at.epochs,
                                                   .partial = partial,
                                                   .best = best,
                                                   .keep_last = t->config.checkpoint.keep_last};
    return dqn_checkpoint_save(t->saver->writer, t->queue, &content, &request);
}

enum dqn_status dqn_saver_finish(struct dqn_trainer *t) {
    return dqn_checkpoint_wait(t->saver->writer);
}

/* ---- taking up
 * ------------------------------------------------------------------------------------- */

static enum dqn_status read_fields(struct dqn_trainer *t, const struct dqn_checkpoint *file) {
    struct dqn_checkpoint_field fields[FIELDS_MAX];
    const size_t n = list_fields(t, fields);
    for (size_t i = 0; i < n; i++) {
        const size_t count = fields[i].rank == 0 ? 1 : fields[i].shape[0];
        DQN_TRY(dqn_checkpoint_field_read(file, fields[i].name, fields[i].dtype, count,
                                          (void *)fields[i].data));
    }
    return DQN_OK;
}

static enum dqn_status read_history(struct dqn_trainer *t, const struct dqn_checkpoint *file) {
    double *rows = NULL;
    size_t n_rows = 0;
    DQN_TRY(dqn_checkpoint_history(file, dqn_metric_names, DQN_METRIC_COUNT, &rows, &n_rows));
    const enum dqn_status status = dqn_metrics_restore(t->metrics, rows, n_rows);
    free(rows);
    return status;
}

/* The market of the checkpoint must be the one at hand, or everything after would be nonsense. */
static enum dqn_status check_market(const struct dqn_trainer *t,
                                    const struct dqn_checkpoint *file) {
    if (t->market == NULL) {
        return DQN_OK;
    }
    char *digest = NULL;
    DQN_TRY(dqn_checkpoint_text(file, "market_sha256", &digest));
    const char *here = t->market->bars.info.sha256;
    enum dqn_status status = DQN_OK;
    if (digest == NULL || strcmp(digest, here) != 0) {
        status =
            dqn_fail(DQN_ERR_CHECKPOINT,
                     "%s was trained on market data with SHA-256 %s, but %s has %s: give it the "
                     "same data, or start a new run with --init-from",
                     dqn_checkpoint_path(file), digest != NULL ? digest : "(none)",
                     t->market->bars.info.source, here);
    }
    free(digest);
    return status;
}

/* A replay that was not saved is filled as far as before the first update. */
static void refill_first(struct dqn_trainer *t) {
    const uint64_t starts = (uint64_t)t->config.train.learning_starts;
    const uint64_t capacity = (uint64_t)t->config.replay.capacity;
    t->at.rows = 0;
    t->at.rows_needed = starts < capacity ? starts : capacity;
}

static enum dqn_status restore(struct dqn_trainer *t, const struct dqn_checkpoint *file) {
    DQN_TRY(check_market(t, file));
    DQN_TRY(dqn_checkpoint_load(file, t->arena, t->queue));
    DQN_TRY(read_fields(t, file));
    DQN_TRY(read_history(t, file));
    t->inside_epoch = dqn_checkpoint_is_partial(file);
    if (dqn_checkpoint_has_replay(file)) {
        return dqn_replay_restore(t->replay, t->queue, t->at.rows);
    }
    refill_first(t);
    dqn_warn("%s holds no replay: updates wait until it is filled again, so the run goes on "
             "otherwise than it would have",
             dqn_checkpoint_path(file));
    return DQN_OK;
}

enum dqn_status dqn_saver_restore(struct dqn_trainer *t, const char *path) {
    struct dqn_checkpoint *file = NULL;
    DQN_TRY(dqn_checkpoint_open(&file, path));
    const enum dqn_status status = restore(t, file);
    dqn_checkpoint_close(file);
    return status;
}

/* What a network of this configuration looks at and is, "cartpole, 4-64-64-2 relu, ..."; and its
 * size. */
static enum dqn_status describe_network(const struct dqn_config *config, char *text, size_t size,
                                        size_t *n_params) {
    const enum dqn_env_id env = (enum dqn_env_id)config->env.name;
    struct dqn_net net;
    char shape[512];
    DQN_TRY(dqn_net_init(&net, dqn_env_observations(env), dqn_env_actions(env), &config->net));
    *n_params = net.n_params;
    snprintf(text, size, "%s%s, %s", dqn_env_name(env),
             env == DQN_ENV_trading && config->env.observation == DQN_OBSERVE_ORACLE ? " (oracle)"
                                                                                     : "",
             dqn_net_describe(&net, shape, sizeof shape));
    return DQN_OK;
}

static enum dqn_status compare_networks(const struct dqn_checkpoint *file,
                                        const struct dqn_config *config, struct dqn_config *saved) {
    const char *path = dqn_checkpoint_path(file);
    char own[640], other[640];
    size_t n_own = 0, n_other = 0;
    DQN_TRY(dqn_config_parse(saved, path, ".", dqn_checkpoint_config(file), 0, NULL));
    DQN_TRY(describe_network(config, own, sizeof own, &n_own));
    DQN_TRY(describe_network(saved, other, sizeof other, &n_other));
    if (strcmp(own, other) != 0) {
        return dqn_fail(DQN_ERR_CHECKPOINT,
                        "%s: its network is %s; this run's is %s, which cannot start with its "
                        "parameters; give env and net the values that its config has",
                        path, other, own);
    }
    const struct dqn_buffer like = {
        .name = "nn/params", .dtype = DQN_F32, .rank = 2, .shape = {1, n_own}};
    return dqn_checkpoint_check_buffer(file, &like);
}

/* That the checkpoint's network is as the configuration's. */
static enum dqn_status check_network(const struct dqn_checkpoint *file,
                                     const struct dqn_config *config) {
    struct dqn_config *saved = NULL;
    DQN_TRY(dqn_alloc((void **)&saved, 1, sizeof *saved, "a configuration"));
    const enum dqn_status status = compare_networks(file, config, saved);
    free(saved);
    return status;
}

enum dqn_status dqn_trainer_check_init_from(const struct dqn_config *config, const char *path) {
    struct dqn_checkpoint *file = NULL;
    DQN_TRY(dqn_checkpoint_open(&file, path));
    const enum dqn_status status = check_network(file, config);
    dqn_checkpoint_close(file);
    return status;
}

enum dqn_status dqn_saver_init_from(struct dqn_trainer *t, const char *path) {
    static const char *const names[] = {"nn/params"};
    struct dqn_checkpoint *file = NULL;
    DQN_TRY(dqn_checkpoint_open(&file, path));
    enum dqn_status status = check_network(file, &t->config);
    if (status == DQN_OK) {
        status = dqn_checkpoint_load_buffers(file, t->arena, t->queue, names, DQN_COUNT_OF(names));
    }
    dqn_checkpoint_close(file);
    if (status == DQN_OK) {
        status = dqn_learner_copy_target(t->learner, t->queue);
    }
    return status;
}

enum dqn_status dqn_saver_read_statistics(const char *path, double *mean, double *std) {
    struct dqn_checkpoint *file = NULL;
    DQN_TRY(dqn_checkpoint_open(&file, path));
    enum dqn_status status =
        dqn_checkpoint_field_read(file, "market/feature_mean", DQN_F64, DQN_MARKET_FEATURES, mean);
    if (status == DQN_OK) {
        status = dqn_checkpoint_field_read(file, "market/feature_std", DQN_F64, DQN_MARKET_FEATURES,
                                           std);
    }
    dqn_checkpoint_close(file);
    return status;
}
