/* Where the folds of a walk-forward lie. */
#include <stdlib.h>

#include "walk_forward.h"

/* Bars left out between the parts: no reward may reach over them. */
static int64_t embargo_bars(const struct dqn_config *config) {
    const int64_t n_step = config->collect.n_step, embargo = config->walk_forward.embargo;
    return embargo > n_step ? embargo : n_step;
}

static void place_fold(const struct dqn_config *config, size_t i, struct dqn_fold *fold) {
    const struct dqn_config_walk_forward *walk = &config->walk_forward;
    const size_t gap = (size_t)embargo_bars(config), begin = i * (size_t)walk->test;
    fold->first[DQN_SPLIT_TRAIN] = walk->mode == DQN_WALK_ANCHORED ? 0 : begin;
    fold->last[DQN_SPLIT_TRAIN] = begin + (size_t)walk->train;
    fold->first[DQN_SPLIT_VALIDATION] = fold->last[DQN_SPLIT_TRAIN] + gap;
    fold->last[DQN_SPLIT_VALIDATION] = fold->first[DQN_SPLIT_VALIDATION] + (size_t)walk->validation;
    fold->first[DQN_SPLIT_TEST] = fold->last[DQN_SPLIT_VALIDATION] + gap;
    fold->last[DQN_SPLIT_TEST] = fold->first[DQN_SPLIT_TEST] + (size_t)walk->test;
}

enum dqn_status dqn_walk_plan(const struct dqn_config *config, size_t n_bars,
                              struct dqn_fold **folds, size_t *n_folds) {
    const struct dqn_config_walk_forward *walk = &config->walk_forward;
    *folds = NULL;
    *n_folds = 0;
    if (walk->train <= DQN_MARKET_WARMUP || walk->validation < 2 || walk->test < 2) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "walk_forward: train, validation, test = %lld, %lld, %lld bars; train must "
                        "be above the %d bars that warm the features up, the others at least 2",
                        (long long)walk->train, (long long)walk->validation, (long long)walk->test,
                        DQN_MARKET_WARMUP);
    }
    const int64_t fold = walk->train + walk->validation + walk->test + 2 * embargo_bars(config);
    if ((int64_t)n_bars < fold) {
        return dqn_fail(DQN_ERR_DATA,
                        "walk_forward: a fold takes %lld bars (train %lld, validation %lld, test "
                        "%lld, twice an embargo of %lld) and the data has %zu: use shorter parts",
                        (long long)fold, (long long)walk->train, (long long)walk->validation,
                        (long long)walk->test, (long long)embargo_bars(config), n_bars);
    }
    const size_t n = 1 + (n_bars - (size_t)fold) / (size_t)walk->test;
    DQN_TRY(dqn_alloc((void **)folds, n, sizeof **folds, "folds"));
    for (size_t i = 0; i < n; i++) {
        place_fold(config, i, &(*folds)[i]);
    }
    *n_folds = n;
    return DQN_OK;
}

/* Whether seed j comes before seed i in the order of validation results. */
static bool before(const struct dqn_walk_run *runs, size_t j, size_t i) {
    return runs[j].validation < runs[i].validation ||
           (runs[j].validation == runs[i].validation && j < i);
}

static size_t middle_seed(const struct dqn_walk_run *runs, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t rank = 0;
        for (size_t j = 0; j < n; j++) {
            rank += before(runs, j, i);
        }
        if (rank == (n - 1) / 2) {
            return i;
        }
    }
    return 0;
}

size_t dqn_walk_median_seed(const struct dqn_walk *walk, size_t fold) {
    const struct dqn_walk_run *runs = walk->runs + fold * walk->n_seeds;
    size_t chosen = middle_seed(runs, walk->n_seeds);
    for (size_t i = 0; i < walk->n_seeds; i++) {
        if (runs[i].validation == runs[chosen].validation &&
            runs[i].turnover < runs[chosen].turnover) {
            chosen = i;
        }
    }
    return chosen;
}
