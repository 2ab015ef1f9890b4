#include "run_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents.h"
#include "h5_compare.h"
#include "remove_tree.h"

const char run_cartpole[] =
    "env: {name: cartpole, lanes: 4}\n"
    "threads: 1\n"
    "net: {hidden: [32, 16]}\n"
    "collect: {eps_steps: 2000, n_step: 3}\n"
    "replay: {capacity: 1500}\n"
    "learner: {batch: 16, lr: 1e-3, target_updates: 40, lr_schedule: cosine}\n"
    "train: {env_steps: 3000, epoch_steps: 1000, learning_starts: 200, replay_ratio: 0.25}\n"
    "eval: {episodes: 3}\n";

const char run_trading[] =
    "env: {name: trading, lanes: 3, episode_bars: 64}\n"
    "threads: 1\n"
    "synthetic: {bars: 4000}\n"
    "net: {hidden: [24]}\n"
    "collect: {eps_steps: 2000, n_step: 2}\n"
    "replay: {capacity: 1000}\n"
    "learner: {batch: 16, gamma: 0.9, target: soft, accumulate: 2}\n"
    "train: {env_steps: 1800, epoch_steps: 600, learning_starts: 200, replay_ratio: 0.1}\n"
    "eval: {episodes: 2}\n";

static struct dqn_config *load(const struct run *run) {
    struct dqn_config *config = calloc(1, sizeof *config);
    const char *overrides[DQN_COUNT_OF(run->overrides) + 1];
    char device[32];
    snprintf(device, sizeof device, "device=%s", run->device != NULL ? run->device : "cpu");
    overrides[0] = device;
    memcpy(overrides + 1, run->overrides, sizeof run->overrides);
    const enum dqn_status status =
        dqn_config_parse(config, "test", ".", run->text, run->n_overrides + 1, overrides);
    cr_assert_eq(status, DQN_OK, "%s", dqn_error_text());
    return config;
}

enum dqn_status run_create(struct dqn_trainer **out, const char *text, size_t n,
                           const char *const *set, struct dqn_trainer_options options) {
    struct dqn_config *config = calloc(1, sizeof *config);
    cr_assert_eq(dqn_config_parse(config, "test", ".", text, n, set), DQN_OK, "%s",
                 dqn_error_text());
    options.config = config;
    const enum dqn_status status = dqn_trainer_create(out, &options);
    free(config);
    return status;
}

void run_train(const struct run *run) {
    struct dqn_config *config = load(run);
    const struct dqn_trainer_options options = {.config = config,
                                                .folder = run->folder,
                                                .resume = run->resume,
                                                .quiet = true,
                                                .late_queue = run->late,
                                                .replay_apart = run->apart,
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
const char *run_folder(void) {
    char *path = strdup("/tmp/dqn-resume-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

const char *run_file(const char *in, const char *name) {
    char *path = malloc(512);
    snprintf(path, 512, "%s/%s", in, name);
    return path;
}

void run_remove(const char *path) {
    remove_tree(path);
}

/* Stops a copy of `run` at `stop_at`, which leaves `left` in its folder, takes it up from there and
 * compares the end with the run that was never stopped. */
void run_check_resume(struct run run, uint64_t stop_at, const char *left, const char *last) {
    const char *whole = run_folder(), *parts = run_folder();
    run.folder = whole;
    run_train(&run);
    run.folder = parts;
    run.stop_at = stop_at;
    run_train(&run);
    run.stop_at = 0;
    run.resume = run_file(parts, left);
    run_train(&run);
    char why[512];
    cr_expect(h5_equal(run_file(whole, last), run_file(parts, last), why, sizeof why), "%s", why);
    run_remove(whole);
    run_remove(parts);
}

/* A buffer's bytes on the host; the caller frees them. */
static char *fetch(const struct dqn_buffer *buffer) {
    char *bytes = malloc(buffer->bytes);
    const struct dqn_backend *backend = buffer->device->backend;
    struct dqn_queue *queue = NULL;
    cr_assert_eq(backend->queue->create(buffer->device, &queue), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(backend->memory->copy(queue, bytes, buffer->data, buffer->bytes, DQN_COPY_TO_HOST),
                 DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(backend->queue->wait(queue), DQN_OK, "%s", dqn_error_text());
    backend->queue->destroy(queue);
    return bytes;
}

/* Agent k of `all` (of n agents) against the only one of `alone`; the number of buffers compared.
 */
static size_t compare_agent(const struct dqn_arena *all, const struct dqn_arena *alone, size_t k,
                            size_t n) {
    size_t n_compared = 0;
    for (size_t i = 0; i < dqn_arena_count(alone); i++) {
        const struct dqn_buffer *one = dqn_arena_at(alone, i);
        if ((one->flags & DQN_BUFFER_SAVED) == 0 || (one->flags & DQN_BUFFER_SHARED) != 0) {
            continue;
        }
        const struct dqn_buffer *many = dqn_arena_find(all, one->name);
        cr_assert_eq(many->bytes, n * one->bytes, "%s", one->name);
        char *bytes = fetch(one), *all_bytes = fetch(many);
        cr_expect_arr_eq(all_bytes + k * one->bytes, bytes, one->bytes, "agent %zu: %s differs", k,
                         one->name);
        free(bytes);
        free(all_bytes);
        n_compared++;
    }
    return n_compared;
}

/* Three agents with different seeds and scalars, trained together and each alone. */
void run_check_population(const struct run *run) {
    enum { K = 3 };
    struct dqn_config *config = load(run);
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
        n_compared += compare_agent(dqn_trainer_arena(all), dqn_trainer_arena(alone), k, K);
        dqn_trainer_destroy(alone);
    }
    cr_expect_gt(n_compared, K * 20);
    dqn_trainer_destroy(all);
    free(config);
}
