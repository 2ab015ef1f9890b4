/* Exact resume and the other equalities of whole runs: N + M epochs equal N epochs, a new trainer,
 * M epochs, byte for byte in every dataset of the last checkpoint; the same for a run stopped
 * inside an epoch, for 1, 2 and 3 threads, for a queue that runs operations late, and for each
 * agent of a population against the run alone. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents.h"
#include "h5_compare.h"
#include "trainer.h"

static const char cartpole_text[] =
    "env: {name: cartpole, lanes: 4}\n"
    "device: cpu\n"
    "threads: 1\n"
    "net: {hidden: [32, 16]}\n"
    "collect: {eps_steps: 2000, n_step: 3}\n"
    "replay: {capacity: 1500}\n"
    "learner: {batch: 16, lr: 1e-3, target_updates: 40, lr_schedule: cosine}\n"
    "train: {env_steps: 3000, epoch_steps: 1000, learning_starts: 200, replay_ratio: 0.25}\n"
    "eval: {episodes: 3}\n";

static const char trading_text[] =
    "env: {name: trading, lanes: 3, episode_bars: 64}\n"
    "device: cpu\n"
    "threads: 1\n"
    "synthetic: {bars: 4000}\n"
    "net: {hidden: [24]}\n"
    "collect: {eps_steps: 2000, n_step: 2}\n"
    "replay: {capacity: 1000}\n"
    "learner: {batch: 16, gamma: 0.9, target: soft, accumulate: 2}\n"
    "train: {env_steps: 1800, epoch_steps: 600, learning_starts: 200, replay_ratio: 0.1}\n"
    "eval: {episodes: 2}\n";

struct run {
    const char *text;
    const char *overrides[8];
    size_t n_overrides;
    uint64_t stop_at;   /* env steps; 0 = run to the end */
    const char *resume; /* file */
    const char *folder;
    bool late;
};

static struct dqn_config *load(const struct run *run) {
    struct dqn_config *config = calloc(1, sizeof *config);
    const enum dqn_status status =
        dqn_config_parse(config, "test", ".", run->text, run->n_overrides, run->overrides);
    cr_assert_eq(status, DQN_OK, "%s", dqn_error_text());
    return config;
}

static void train(const struct run *run) {
    struct dqn_config *config = load(run);
    const struct dqn_trainer_options options = {.config = config,
                                                .folder = run->folder,
                                                .resume = run->resume,
                                                .quiet = true,
                                                .late_queue = run->late,
                                                .stop_at_steps = run->stop_at};
    struct dqn_trainer *trainer = NULL;
    bool stopped = false;
    cr_assert_eq(dqn_trainer_create(&trainer, &options), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(dqn_trainer_run(trainer, &stopped), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(stopped, run->stop_at > 0);
    dqn_trainer_destroy(trainer);
    free(config);
}

/* A fresh folder for a run; leaked on purpose, the test's process ends soon. */
static const char *folder(void) {
    char *path = strdup("/tmp/dqn-resume-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static const char *file_in(const char *in, const char *name) {
    char *path = malloc(512);
    snprintf(path, 512, "%s/%s", in, name);
    return path;
}

static void remove_folder(const char *path) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    cr_assert_eq(system(command), 0);
}

/* Stops a copy of `run` at `stop_at`, which leaves `left` in its folder, takes it up from there and
 * compares the end with the run that was never stopped. */
static void check_resume(struct run run, uint64_t stop_at, const char *left, const char *last) {
    const char *whole = folder(), *parts = folder();
    run.folder = whole;
    train(&run);
    run.folder = parts;
    run.stop_at = stop_at;
    train(&run);
    run.stop_at = 0;
    run.resume = file_in(parts, left);
    train(&run);
    char why[512];
    cr_expect(h5_equal(file_in(whole, last), file_in(parts, last), why, sizeof why), "%s", why);
    remove_folder(whole);
    remove_folder(parts);
}

static const char *const kinds[] = {"replay.kind=uniform", "replay.kind=proportional",
                                    "replay.kind=rank"};

Test(resume, cartpole_inside_an_epoch) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = cartpole_text, .overrides = {kinds[i]}, .n_overrides = 1};
        check_resume(run, 1500, "epoch-000001-partial.h5", "epoch-000003.h5");
    }
}

Test(resume, cartpole_at_an_epochs_end) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = cartpole_text, .overrides = {kinds[i]}, .n_overrides = 1};
        check_resume(run, 2004, "epoch-000002.h5", "epoch-000003.h5");
    }
}

Test(resume, trading_inside_an_epoch) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = trading_text, .overrides = {kinds[i]}, .n_overrides = 1};
        check_resume(run, 900, "epoch-000001-partial.h5", "epoch-000003.h5");
    }
}

Test(resume, trading_at_an_epochs_end) {
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct run run = {.text = trading_text, .overrides = {kinds[i]}, .n_overrides = 1};
        check_resume(run, 1203, "epoch-000002.h5", "epoch-000003.h5");
    }
}

/* The order of a rank replay is saved where it is not a function of the priorities. */
Test(resume, rank_with_an_interval) {
    const struct run run = {.text = cartpole_text,
                            .overrides = {"replay.kind=rank", "replay.rank_interval=7"},
                            .n_overrides = 2};
    check_resume(run, 1508, "epoch-000001-partial.h5", "epoch-000003.h5");
}

Test(resume, threads_and_late_queue_change_nothing) {
    const char *const texts[] = {cartpole_text, trading_text};
    for (size_t i = 0; i < DQN_COUNT_OF(texts); i++) {
        struct run run = {.text = texts[i], .overrides = {"learner.batch=192"}, .n_overrides = 1};
        const char *one = folder();
        run.folder = one;
        train(&run);
        const char *const changes[] = {"threads=2", "threads=3", "threads=1"};
        for (size_t c = 0; c < DQN_COUNT_OF(changes); c++) {
            const char *other = folder();
            run.folder = other;
            run.overrides[1] = changes[c];
            run.n_overrides = 2;
            run.late = c == 2;
            train(&run);
            char why[512];
            cr_expect(h5_equal_but_config(file_in(one, "epoch-000003.h5"),
                                          file_in(other, "epoch-000003.h5"), why, sizeof why),
                      "%s: %s", changes[c], why);
            remove_folder(other);
        }
        remove_folder(one);
    }
}

/* Three agents with different seeds and scalars, trained together and each alone. */
static void check_population(const char *text) {
    enum { K = 3 };
    struct run run = {.text = text};
    struct dqn_config *config = load(&run);
    dqn_agent_resolve_schedules(config);
    struct dqn_agent agents[K];
    for (size_t k = 0; k < K; k++) {
        dqn_agent_from_config(&agents[k], config);
        agents[k].seed = 10 + k;
        agents[k].lr_start *= 1.0 + (double)k;
        agents[k].gamma -= 0.05 * (double)k;
        agents[k].alpha = 0.4 + 0.2 * (double)k;
        agents[k].eps_end = 0.1 * (double)k;
        agents[k].huber_delta = 0.5 + (double)k;
    }
    struct dqn_trainer *all = NULL, *alone = NULL;
    struct dqn_trainer_options options = {
        .config = config, .n_agents = K, .agents = agents, .quiet = true};
    bool stopped = false;
    cr_assert_eq(dqn_trainer_create(&all, &options), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(dqn_trainer_run(all, &stopped), DQN_OK, "%s", dqn_error_text());
    size_t n_compared = 0;
    for (size_t k = 0; k < K; k++) {
        options.n_agents = 1;
        options.agents = &agents[k];
        cr_assert_eq(dqn_trainer_create(&alone, &options), DQN_OK, "%s", dqn_error_text());
        cr_assert_eq(dqn_trainer_run(alone, &stopped), DQN_OK, "%s", dqn_error_text());
        const struct dqn_arena *arena = dqn_trainer_arena(alone);
        for (size_t i = 0; i < dqn_arena_count(arena); i++) {
            const struct dqn_buffer *one = dqn_arena_at(arena, i);
            if ((one->flags & DQN_BUFFER_SAVED) == 0 || strcmp(one->name, "replay/ring") == 0) {
                continue;
            }
            const struct dqn_buffer *many = dqn_arena_find(dqn_trainer_arena(all), one->name);
            cr_assert_eq(many->bytes, K * one->bytes, "%s", one->name);
            cr_expect_arr_eq((const char *)many->data + k * one->bytes, one->data, one->bytes,
                             "agent %zu: %s differs", k, one->name);
            n_compared++;
        }
        dqn_trainer_destroy(alone);
    }
    cr_expect_gt(n_compared, K * 20);
    dqn_trainer_destroy(all);
    free(config);
}

Test(population, each_agent_equals_its_run_alone_cartpole) {
    check_population(cartpole_text);
}

Test(population, each_agent_equals_its_run_alone_trading) {
    check_population(trading_text);
}

/* Training is the same with and without evaluation. */
Test(resume, evaluation_leaves_no_trace_in_training) {
    struct run run = {.text = cartpole_text};
    const char *often = folder(), *seldom = folder();
    run.folder = often;
    train(&run);
    run.folder = seldom;
    run.overrides[0] = "eval.every_epochs=3";
    run.overrides[1] = "eval.episodes=5";
    run.n_overrides = 2;
    train(&run);
    static const char *const names[] = {"nn/params", "nn/moment2", "replay/priorities",
                                        "env/states", "collect/obs"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        char why[512];
        cr_expect(h5_dataset_equal(file_in(often, "epoch-000003.h5"),
                                   file_in(seldom, "epoch-000003.h5"), names[i], why, sizeof why),
                  "%s", why);
    }
    remove_folder(often);
    remove_folder(seldom);
}
