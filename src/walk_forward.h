/* Walk-forward: train, select and test over folds that move through time (docs/trading.md).
 *
 * A fold's bars are: training | embargo | validation | embargo | test, and the next fold lies one
 * test length later. Every fold is trained with several seeds, each an ordinary run in a folder of
 * its own (fold-01-seed-1, ...); its best parameters by validation are tested once. The test parts
 * of each fold's median seed (by validation) are chained to one out-of-sample curve. */
#ifndef DQN_WALK_FORWARD_H
#define DQN_WALK_FORWARD_H

#include <stdatomic.h>
#include <stdio.h>

#include "config.h"
#include "market/trading_setup.h"

struct dqn_fold {
    size_t first[DQN_SPLITS], last[DQN_SPLITS]; /* bars [first, last) of each part */
};

/* One bar of a test pass. */
struct dqn_walk_step {
    int64_t time_ns; /* stamp of the bar that the step ends at */
    double exposure; /* after the step */
    double gain;     /* log return of equity; with reward.kind linear its change over the start */
    double market;   /* log return of the price */
};

/* One seed of one fold. Sums are over the steps of a pass over the part. */
struct dqn_walk_run {
    int64_t seed;
    double validation, test; /* sums of gains */
    double turnover;         /* of validation: value traded over equity, summed over the steps */
    uint64_t best_epoch;     /* that validation chose */
    size_t n;
    struct dqn_walk_step *steps; /* [n] of the test */
};

struct dqn_walk {
    size_t n_folds, n_seeds, n_bars;
    struct dqn_fold *folds;    /* [n_folds] */
    struct dqn_walk_run *runs; /* [n_folds * n_seeds], fold by fold */
    size_t done;               /* so many runs are finished, in order */
    bool linear;               /* gains are changes over the start and add up; else log returns */
    double bars_per_year;
    char market_sha256[65]; /* of the data that the folds lie on */
};

/* The folds that fit in n_bars.
 * DQN_ERR_CONFIG for a part of 0 bars, DQN_ERR_DATA when not one fold fits, naming what it takes.
 * The caller frees *folds. */
enum dqn_status dqn_walk_plan(const struct dqn_config *config, size_t n_bars,
                              struct dqn_fold **folds, size_t *n_folds);

struct dqn_walk_options {
    const struct dqn_config *config;
    const char *folder; /* of the run; what is finished in it is not run again */
    bool quiet;
    const atomic_int *stop; /* not 0: end at the next step, of a pass too; NULL = never */
    atomic_bool *reading;   /* gets true while data is read, which does not look at `stop`, and all
                               is saved: a signal may end the process; NULL = nobody asks */
    uint64_t stop_at_steps; /* ends the run in progress there; 0 = never (tests) */
    bool points_latest;     /* output/latest leads to the folder once a run begins */
};

/* What can be said of a walk-forward before anything is made or read: DQN_ERR_CONFIG for another
 * environment than trading, DQN_ERR_DATA where data.file can be read only once. */
enum dqn_status dqn_walk_check(const struct dqn_config *config);

/* Runs what is not finished, and writes walk-forward.json and, at the end, out-of-sample.csv into
 * the folder. *stopped: it was interrupted, and goes on when called again. `out` may be NULL. After
 * an error with which not one run could begin nothing that was made is left. */
enum dqn_status dqn_walk_forward(const struct dqn_walk_options *options, struct dqn_walk *out,
                                 bool *stopped);
void dqn_walk_free(struct dqn_walk *walk);

/* The results of a finished walk-forward from its folder, and its data, which are described as
 * dqn_bars_load does. The caller frees both.
 * DQN_ERR_CHECKPOINT when it is not finished, naming the command that goes on. */
enum dqn_status dqn_walk_load(const struct dqn_config *config, const char *folder,
                              struct dqn_walk *out, struct dqn_bars *bars);
/* The configuration of one run: an ordinary one with the fold's bars. */
void dqn_walk_run_config(struct dqn_config *out, const struct dqn_config *config,
                         const struct dqn_fold *fold, int64_t seed);
/* The file with the parameters that validation chose in a run (folds from 0). */
enum dqn_status dqn_walk_run_best(char *out, size_t size, const char *folder, size_t fold,
                                  int64_t seed);

/* Index of the seed with the median validation result of a fold: of an even number the lower of
 * the middle two. Of several with that very result the one that traded least on validation, and of
 * those the earlier in the order of seeds that makes it the middle one. */
size_t dqn_walk_median_seed(const struct dqn_walk *walk, size_t fold);

/* The table of folds and the figures of the chained curve. */
enum dqn_status dqn_walk_print(const struct dqn_walk *walk, FILE *out);
/* Writes walk-forward.json and, when all runs are done, out-of-sample.csv. */
enum dqn_status dqn_walk_write(const struct dqn_walk *walk, const struct dqn_config *config,
                               const char *folder);

/* DQN_ERR_CONFIG, naming both, when `output` is one of the files in such a folder that the report
 * is made from: each run's best.h5 and test.csv. */
enum dqn_status dqn_walk_check_apart(const char *folder, const char *output);

/* Whether `path` is the folder of a walk-forward run, or an output folder whose `latest` is one;
 * then `folder` becomes that run's folder. */
bool dqn_walk_find(char *folder, size_t size, const char *path);
/* --verify: a line for each checkpoint of each run of such a folder on `report`. The first run's
 * error that there is, after all were looked at (see dqn_run_folder_verify). */
enum dqn_status dqn_walk_verify(const char *folder, FILE *report);

#endif
