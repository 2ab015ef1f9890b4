#include "walk_eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "backend.h"
#include "checkpoint.h"
#include "greedy_policy.h"
#include "market/market_parts.h"
#include "walk_forward.h"

struct dqn_walk_eval {
    struct dqn_config config; /* of fold 1, as an ordinary run */
    struct dqn_walk walk;
    struct dqn_bars bars; /* until the market has them */
    struct dqn_market *market;
    struct dqn_report_fold *folds;     /* [n_folds] */
    struct dqn_report_seed *seeds;     /* [n_folds * n_seeds] */
    struct trading_range *ranges;      /* [n_folds * n_segments] */
    struct dqn_part_statistics *parts; /* [n_folds] */
    void **policies;                   /* [n_folds] struct dqn_greedy_policy */
    char trained_sha256[65];
    struct dqn_trading_report report;
};

/* ---- networks -------------------------------------------------------------------------------- */

/* What reads parameters from a checkpoint. */
struct loader {
    struct dqn_net net;
    struct dqn_device device;
    bool device_open;
    struct dqn_queue *queue;
    struct dqn_arena *arena;
    struct dqn_buffer *params;
};

static enum dqn_status open_loader(struct loader *l, const struct dqn_config *config) {
    const enum dqn_env_id env = (enum dqn_env_id)config->env.name;
    memset(l, 0, sizeof *l);
    DQN_TRY(dqn_net_init(&l->net, dqn_env_observations(env), dqn_env_actions(env), &config->net));
    const struct dqn_backend *cpu = dqn_backend_find("cpu");
    const struct dqn_device_options device = {.threads = 1};
    DQN_TRY(cpu->memory->open(&l->device, &device));
    l->device_open = true;
    DQN_TRY(cpu->queue->create(&l->device, &l->queue));
    DQN_TRY(dqn_arena_create(&l->arena));
    DQN_TRY(dqn_arena_add(l->arena, &l->params, &l->device, DQN_F32, 0, "nn/params", 2, (size_t)1,
                          l->net.n_params));
    return dqn_arena_commit(l->arena, NULL);
}

static void close_loader(struct loader *l) {
    if (l->queue != NULL) {
        l->device.backend->queue->destroy(l->queue);
    }
    dqn_arena_destroy(l->arena);
    if (l->device_open) {
        l->device.backend->memory->close(&l->device);
    }
}

/* Network, feature statistics and the digest of the data, from the checkpoint of one run. */
static enum dqn_status read_checkpoint(struct dqn_walk_eval *e, struct loader *l, size_t fold,
                                       const struct dqn_checkpoint *file) {
    static const char *const names[] = {"nn/params"};
    struct dqn_part_statistics *part = &e->parts[fold];
    struct dqn_greedy_policy *policy = NULL;
    char *digest = NULL;
    DQN_TRY(dqn_checkpoint_field_read(file, "market/feature_mean", DQN_F64, DQN_MARKET_FEATURES,
                                      part->mean));
    DQN_TRY(dqn_checkpoint_field_read(file, "market/feature_std", DQN_F64, DQN_MARKET_FEATURES,
                                      part->std));
    DQN_TRY(dqn_checkpoint_load_buffers(file, l->arena, l->queue, names, DQN_COUNT_OF(names)));
    DQN_TRY(dqn_greedy_policy_create(&policy, &l->net, l->params->data));
    e->policies[fold] = policy;
    DQN_TRY(dqn_checkpoint_text(file, "market_sha256", &digest));
    snprintf(e->trained_sha256, sizeof e->trained_sha256, "%s", digest != NULL ? digest : "");
    free(digest);
    return DQN_OK;
}

static enum dqn_status load_fold(struct dqn_walk_eval *e, struct loader *l, const char *folder,
                                 size_t fold) {
    char path[DQN_TEXT_MAX];
    const size_t chosen = dqn_walk_median_seed(&e->walk, fold);
    struct dqn_checkpoint *file = NULL;
    e->parts[fold].first = e->walk.folds[fold].first[DQN_SPLIT_TEST];
    e->parts[fold].last = e->walk.folds[fold].last[DQN_SPLIT_TEST];
    DQN_TRY(dqn_walk_run_best(path, sizeof path, folder, fold,
                              e->walk.runs[fold * e->walk.n_seeds + chosen].seed));
    DQN_TRY(dqn_checkpoint_open(&file, path));
    const enum dqn_status status = read_checkpoint(e, l, fold, file);
    dqn_checkpoint_close(file);
    return status;
}

static enum dqn_status load_folds(struct dqn_walk_eval *e, const char *folder) {
    struct loader loader;
    enum dqn_status status = open_loader(&loader, &e->config);
    for (size_t fold = 0; fold < e->walk.n_folds && status == DQN_OK; fold++) {
        status = load_fold(e, &loader, folder, fold);
    }
    close_loader(&loader);
    return status;
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* Total return of a pass whose gains have this sum. */
static double total_return(const struct dqn_walk *walk, double sum) {
    return walk->linear ? sum : expm1(sum);
}

static void describe_seeds(struct dqn_walk_eval *e, size_t fold) {
    const struct dqn_walk *walk = &e->walk;
    struct dqn_report_seed *seeds = e->seeds + fold * walk->n_seeds;
    for (size_t i = 0; i < walk->n_seeds; i++) {
        const struct dqn_walk_run *run = &walk->runs[fold * walk->n_seeds + i];
        seeds[i] =
            (struct dqn_report_seed){.seed = run->seed,
                                     .best_epoch = run->best_epoch,
                                     .validation_return = total_return(walk, run->validation),
                                     .test_return = total_return(walk, run->test)};
    }
    seeds[dqn_walk_median_seed(walk, fold)].chosen = true;
    e->folds[fold].seeds = seeds;
    e->folds[fold].n_seeds = walk->n_seeds;
}

static enum dqn_status describe_fold(struct dqn_walk_eval *e, size_t i) {
    const struct dqn_fold *fold = &e->walk.folds[i];
    const struct dqn_bars *bars = &e->market->bars;
    struct dqn_report_fold *out = &e->folds[i];
    struct dqn_part_ranges found = {.range = e->ranges + i * bars->n_segments};
    describe_seeds(e, i);
    for (int split = 0; split < DQN_SPLITS; split++) {
        out->bars[split] = fold->last[split] - fold->first[split];
        out->first_ns[split] = bars->time_ns[fold->first[split]];
        out->last_ns[split] = bars->time_ns[fold->last[split] - 1];
    }
    dqn_part_ranges_find(bars, fold->first[DQN_SPLIT_TEST], fold->last[DQN_SPLIT_TEST], &found);
    if (found.n == 0) {
        return dqn_fail(DQN_ERR_DATA,
                        "fold %zu: no stretch of its test bars %zu to %zu is left "
                        "after the features' warm-up",
                        i + 1, fold->first[DQN_SPLIT_TEST], fold->last[DQN_SPLIT_TEST] - 1);
    }
    out->part = (struct dqn_report_part){
        .ranges = found.range, .n_ranges = found.n, .transitions = found.transitions};
    return dqn_part_median_volume(bars, fold->first[DQN_SPLIT_TRAIN], fold->last[DQN_SPLIT_TRAIN],
                                  &out->part.median_volume);
}

static enum dqn_status describe_folds(struct dqn_walk_eval *e) {
    for (size_t i = 0; i < e->walk.n_folds; i++) {
        DQN_TRY(describe_fold(e, i));
    }
    return DQN_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum dqn_status allocate(struct dqn_walk_eval *e) {
    const size_t n = e->walk.n_folds;
    DQN_TRY(dqn_alloc((void **)&e->folds, n, sizeof *e->folds, "folds"));
    DQN_TRY(dqn_alloc((void **)&e->seeds, n * e->walk.n_seeds, sizeof *e->seeds, "seeds"));
    DQN_TRY(dqn_alloc((void **)&e->parts, n, sizeof *e->parts, "feature statistics"));
    return dqn_alloc((void **)&e->policies, n, sizeof *e->policies, "networks");
}

/* One market for all folds: each test part has the features that its network was trained for. */
static enum dqn_status make_market(struct dqn_walk_eval *e) {
    const size_t n = e->walk.n_folds;
    DQN_TRY(
        dqn_market_from_bars(&e->market, &e->config, &e->bars, e->parts[0].mean, e->parts[0].std));
    DQN_TRY(dqn_market_normalise_parts(e->market, &e->config, e->parts, n));
    return dqn_alloc((void **)&e->ranges, n * e->market->bars.n_segments, sizeof *e->ranges,
                     "market ranges");
}

static enum dqn_status make_report(struct dqn_walk_eval *e, const struct dqn_config *config,
                                   const char *folder) {
    DQN_TRY(dqn_walk_load(config, folder, &e->walk, &e->bars));
    dqn_walk_run_config(&e->config, config, &e->walk.folds[0], config->run.seed);
    DQN_TRY(allocate(e));
    DQN_TRY(load_folds(e, folder));
    DQN_TRY(make_market(e));
    DQN_TRY(describe_folds(e));
    const struct dqn_report_walk walk = {
        .mode = dqn_config_choice("walk_forward.mode", config->walk_forward.mode),
        .warm_start = config->walk_forward.warm_start,
        .embargo =
            e->walk.folds[0].first[DQN_SPLIT_VALIDATION] - e->walk.folds[0].last[DQN_SPLIT_TRAIN],
        .test_evaluations = e->walk.done};
    DQN_TRY(dqn_trading_report_create_walk(&e->report, &e->config, e->market, &walk, e->folds,
                                           e->walk.n_folds, dqn_greedy_policy_action, e->policies));
    dqn_trading_report_trained_on(&e->report, e->trained_sha256);
    return DQN_OK;
}

enum dqn_status dqn_walk_eval_create(struct dqn_walk_eval **out, const struct dqn_config *config,
                                     const char *folder) {
    struct dqn_walk_eval *e = NULL;
    *out = NULL;
    DQN_TRY(dqn_alloc((void **)&e, 1, sizeof *e, "a walk-forward's report"));
    const enum dqn_status status = make_report(e, config, folder);
    if (status != DQN_OK) {
        dqn_walk_eval_destroy(e);
        return status;
    }
    snprintf(e->report.subject, sizeof e->report.subject, "%s", folder);
    *out = e;
    return DQN_OK;
}

void dqn_walk_eval_destroy(struct dqn_walk_eval *e) {
    if (e == NULL) {
        return;
    }
    dqn_trading_report_destroy(&e->report);
    for (size_t i = 0; e->policies != NULL && i < e->walk.n_folds; i++) {
        dqn_greedy_policy_destroy(e->policies[i]);
    }
    free(e->policies);
    free(e->parts);
    free(e->ranges);
    free(e->seeds);
    free(e->folds);
    dqn_market_destroy(e->market);
    dqn_bars_free(&e->bars);
    dqn_walk_free(&e->walk);
    free(e);
}

enum dqn_status dqn_walk_eval_extend(struct dqn_walk_eval *e, double trials) {
    return dqn_trading_report_extend(&e->report, &e->config, dqn_greedy_policy_action, e->policies,
                                     trials);
}

struct dqn_trading_report *dqn_walk_eval_report(struct dqn_walk_eval *e) {
    return &e->report;
}
