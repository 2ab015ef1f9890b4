/* Whole runs of the CUDA tests, at full length or, with DQN_TEST_REDUCED=1, at a fifth of it and
 * without evaluations: each step of those is several kernels, too. */
#ifndef DQN_TESTS_CUDA_SHORT_RUNS_H
#define DQN_TESTS_CUDA_SHORT_RUNS_H

#include "cuda_pair.h"
#include "run_fixture.h"

enum { SHORT_SETS = 5 };

/* Appends to n overrides those that shorten the run of this text, if any; returns how many there
 * are then. `set` has room for SHORT_SETS more. */
static inline size_t shorten(const char *text, const char **set, size_t n) {
    static const char *const cartpole[SHORT_SETS] = {"train.env_steps=600", "train.epoch_steps=200",
                                                     "train.learning_starts=60", "eval.episodes=1",
                                                     "eval.every_epochs=100"};
    static const char *const trading[SHORT_SETS] = {"train.env_steps=360", "train.epoch_steps=120",
                                                    "train.learning_starts=60",
                                                    "synthetic.bars=1200", "eval.every_epochs=100"};
    const char *const *from = text == run_cartpole ? cartpole : trading;
    for (size_t i = 0; i < reduced(0, SHORT_SETS); i++) {
        set[n++] = from[i];
    }
    return n;
}

/* Env steps of a run at which something happens. A run that is captured stops where one of its
 * programs ends, so epochs cannot be much shorter. */
static inline uint64_t run_steps(uint64_t full) {
    return reduced(full, full / 5);
}

/* A run on the GPU. */
static inline struct run cuda_run(const char *text) {
    struct run run = {.text = text, .device = "cuda"};
    run.n_overrides = shorten(text, run.overrides, 0);
    return run;
}

static inline void run_set(struct run *run, const char *override) {
    cr_assert_lt(run->n_overrides, DQN_COUNT_OF(run->overrides));
    run->overrides[run->n_overrides++] = override;
}

#endif
