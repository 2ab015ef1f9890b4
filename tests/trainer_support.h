/* What the tests of whole runs share: a run described in a few words, and its folder. */
#ifndef DQN_TESTS_TRAINER_SUPPORT_H
#define DQN_TESTS_TRAINER_SUPPORT_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents.h"
#include "arena.h"
#include "checkpoint.h"
#include "metrics.h"
#include "remove_tree.h"
#include "status_checks.h"
#include "trainer.h"

/* Cart-pole, small enough for a run in a tenth of a second. */
static const char small_text[] =
    "env: {name: cartpole, lanes: 4}\n"
    "device: cpu\n"
    "threads: 1\n"
    "net: {hidden: [16]}\n"
    "collect: {eps_steps: 2000}\n"
    "replay: {capacity: 1500}\n"
    "learner: {batch: 16, lr: 1e-3, target_updates: 40}\n"
    "train: {env_steps: 3000, epoch_steps: 1000, learning_starts: 200, replay_ratio: 0.25}\n"
    "eval: {episodes: 3}\n";

struct run {
    const char *set[8]; /* overrides, up to the first NULL */
    uint64_t stop_at;   /* env steps; 0 = run to the end */
    const char *folder;
    const char *resume; /* file */
    const char *init_from;
    uint64_t eval_steps; /* most of an evaluation's episode; 0 = the environment's */
    size_t n_agents;     /* 0 = 1 */
    const struct dqn_agent *agents;
};

static inline struct dqn_config *run_config(const struct run *run) {
    struct dqn_config *config = calloc(1, sizeof *config);
    size_t n = 0;
    while (n < DQN_COUNT_OF(run->set) && run->set[n] != NULL) {
        n++;
    }
    cr_assert_not_null(config);
    OK(dqn_config_parse(config, "test", ".", small_text, n, run->set));
    return config;
}

/* Creates the trainer; the status is the caller's business. */
static inline enum dqn_status run_create(const struct run *run, struct dqn_trainer **out) {
    struct dqn_config *config = run_config(run);
    const struct dqn_trainer_options options = {.config = config,
                                                .n_agents = run->n_agents,
                                                .agents = run->agents,
                                                .folder = run->folder,
                                                .resume = run->resume,
                                                .init_from = run->init_from,
                                                .quiet = true,
                                                .eval_steps = run->eval_steps,
                                                .stop_at_steps = run->stop_at};
    const enum dqn_status status = dqn_trainer_create(out, &options);
    free(config);
    return status;
}

/* Runs to its end or stop; the caller destroys the trainer. */
static inline struct dqn_trainer *run_train(const struct run *run) {
    struct dqn_trainer *trainer = NULL;
    bool stopped = false;
    OK(run_create(run, &trainer));
    OK(dqn_trainer_run(trainer, &stopped));
    cr_assert_eq(stopped, run->stop_at > 0);
    return trainer;
}

static inline void run_and_forget(const struct run *run) {
    dqn_trainer_destroy(run_train(run));
}

static inline const void *buffer_of(const struct dqn_trainer *trainer, const char *name) {
    const struct dqn_buffer *buffer = dqn_arena_find(dqn_trainer_arena(trainer), name);
    cr_assert_not_null(buffer, "%s", name);
    return buffer->data;
}

static inline const struct dqn_counters *counters_of(const struct dqn_trainer *trainer) {
    return buffer_of(trainer, "counters");
}

/* Name of the first saved buffer that differs; NULL = all are equal. At least 20 are compared. */
static inline const char *first_difference(const struct dqn_trainer *a,
                                           const struct dqn_trainer *b) {
    size_t n = 0;
    for (size_t i = 0; i < dqn_arena_count(dqn_trainer_arena(a)); i++) {
        const struct dqn_buffer *one = dqn_arena_at(dqn_trainer_arena(a), i);
        if ((one->flags & DQN_BUFFER_SAVED) == 0) {
            continue;
        }
        const struct dqn_buffer *other = dqn_arena_find(dqn_trainer_arena(b), one->name);
        if (other->bytes != one->bytes || memcmp(one->data, other->data, one->bytes) != 0) {
            return one->name;
        }
        n++;
    }
    return n >= 20 ? NULL : "too few buffers";
}

/* A fresh folder; the caller removes it. */
static inline const char *new_folder(void) {
    char *path = strdup("/tmp/dqn-trainer-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static inline const char *file_in(const char *folder, const char *name) {
    char *path = malloc(512);
    cr_assert_not_null(path);
    snprintf(path, 512, "%s/%s", folder, name);
    return path;
}

/* Whole file with a 0 behind it. */
static inline char *read_file(const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    cr_assert_not_null(in, "%s", path);
    cr_assert_eq(fseek(in, 0, SEEK_END), 0);
    *size = (size_t)ftell(in);
    rewind(in);
    char *data = calloc(1, *size + 1);
    cr_assert_eq(fread(data, 1, *size, in), *size);
    fclose(in);
    return data;
}

/* The history of a checkpoint, all saved columns: [*n_rows, DQN_METRIC_COUNT]. */
static inline double *history_of(const char *file, size_t *n_rows) {
    struct dqn_checkpoint *checkpoint = NULL;
    double *rows = NULL;
    OK(dqn_checkpoint_open(&checkpoint, file));
    OK(dqn_checkpoint_history(checkpoint, dqn_metric_names, DQN_METRIC_COUNT, &rows, n_rows));
    dqn_checkpoint_close(checkpoint);
    return rows;
}

#endif
