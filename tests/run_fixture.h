/* Whole runs for tests: small configurations, training to a stop and on, comparisons of the last
 * checkpoints, populations against their agents alone. */
#ifndef DQN_TESTS_RUN_FIXTURE_H
#define DQN_TESTS_RUN_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer.h"

/* Seconds on one core each; without a device key. */
extern const char run_cartpole[];
extern const char run_trading[];

struct run {
    const char *text;
    const char *device; /* "cpu", the default, or "cuda" */
    const char *overrides[12];
    size_t n_overrides;
    uint64_t stop_at;   /* env steps; 0 = run to the end */
    const char *resume; /* file */
    const char *folder;
    bool late;
    bool apart; /* the replay on a CPU device of its own */
};

/* A trainer of `text` with n overrides; `options` without the configuration. The status is the
 * caller's business. */
enum dqn_status run_create(struct dqn_trainer **out, const char *text, size_t n,
                           const char *const *set, struct dqn_trainer_options options);
/* Trains; every failure fails the test. */
void run_train(const struct run *run);
/* A fresh folder under /tmp; its name is leaked on purpose, the test's process ends soon. */
const char *run_folder(void);
const char *run_file(const char *folder, const char *name);
void run_remove(const char *folder);

/* Stops a copy of `run` at `stop_at` env steps, which leaves the file `left`, takes it up from
 * there, and expects the file `last` to be equal to that of the run that was never stopped. */
void run_check_resume(struct run run, uint64_t stop_at, const char *left, const char *last);

/* Three agents with different seeds and scalars, trained together and each alone: all saved buffers
 * are equal byte for byte. */
void run_check_population(const struct run *run);

#endif
