/* dqn-bench: times the parts of the training loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_text.h"
#include "cli.h"

enum { MOST_AGENTS = 1024 };

static const struct dqn_cli_option options[] = {
    {"--set", "KEY=VALUE", "set a configuration key; may be repeated"},
    {"--config", "FILE", "start from a configuration file instead of the defaults"},
    {"--agents", "N", "step, per, collect: a population of N agents in lockstep (1 to 1024; 1)"},
    {"--json", NULL, "print one JSON object a line"},
    {"--help", NULL, "print this text, then stop"},
};

static const struct dqn_cli_spec spec = {
    .program = "dqn-bench",
    .usage = "step|per|collect|epoch [--set KEY=VALUE]... [options]",
    .about =
        "Times parts of the training loop, median of nine windows of a fifth of a second:\n"
        "  step     optimizer steps: 51 inputs, net.hidden, 45 actions, from a full replay of\n"
        "           replay.capacity random rows; learner.batch, learner.double, replay.kind ...\n"
        "  per      the replay's part of it: draw and gather of learner.accumulate batches, and "
        "their\n"
        "           priority update\n"
        "  collect  vector steps of env.name with env.lanes lanes and the network as policy\n"
        "  epoch    epochs of train.epoch_steps env steps, without evaluation, with the replay on\n"
        "           the CPU and on the GPU side by side; the median of three\n"
        "\n"
        "What the figures are (names of the JSON in brackets, null where not measured):\n"
        "  prioritized replay [per_us, per_share]: what a step takes longer than the same step\n"
        "           with replay.kind=uniform, which is timed as well. The draw by priority, the\n"
        "           weights and the priority update; gathering the rows is in both\n"
        "  host waits [host_waits, host_wait_s]: how often the host waited for the device, and "
        "the\n"
        "           seconds; not the one wait that ends a window or an epoch\n"
        "  GPU busy [busy]: share of the time with work in flight, by timing events around each\n"
        "           graph, and from the first call after a wait to the next wait. Taken in "
        "windows\n"
        "           or an epoch of its own; idle is the rest\n"
        "  memory   planned [device_bytes]: the buffers. Taken [device_bytes_taken]: what of the\n"
        "           device's free memory is gone since before they were allocated, which is also\n"
        "           code, libraries, graphs and whatever other processes did\n"
        "  sampling and priority updates of an epoch [sample_s, priority_update_s]: with the\n"
        "           replay on the CPU the host's time in them, its waits left out. On the GPU "
        "they\n"
        "           run inside of graphs: what they take there by themselves after the last "
        "epoch,\n"
        "           times the updates of an epoch",
    .options = options,
    .n_options = DQN_COUNT_OF(options),
    .max_arguments = 1};

struct measurement {
    const char *name, *unit;
    enum dqn_status (*run)(const struct dqn_config *config, size_t n_agents,
                           struct dqn_bench_result *out);
};

static const struct measurement measurements[] = {
    {"step", "updates", dqn_bench_step},
    {"per", "draws and updates", dqn_bench_per},
    {"collect", "env steps", dqn_bench_collect},
};

static enum dqn_status run_epoch(const struct dqn_config *config, bool json) {
    struct dqn_bench_epoch_result with_learner, on_cpu;
    DQN_TRY(dqn_bench_epoch(config, &with_learner, &on_cpu));
    (json ? dqn_bench_print_epoch_json : dqn_bench_print_epoch)(&with_learner, &on_cpu);
    return DQN_OK;
}

static enum dqn_status find_measurement(const char *name, const struct measurement **out) {
    for (size_t i = 0; i < DQN_COUNT_OF(measurements); i++) {
        if (strcmp(name, measurements[i].name) == 0) {
            *out = &measurements[i];
            return DQN_OK;
        }
    }
    return dqn_fail(DQN_ERR_CONFIG, "'%s' is no benchmark; there are step, per, collect and epoch",
                    name);
}

static enum dqn_status load(const struct dqn_cli *cli, struct dqn_config *config) {
    const char *overrides[DQN_CLI_MAX];
    const size_t n = dqn_cli_values(cli, "--set", overrides, DQN_CLI_MAX);
    const char *file = dqn_cli_value(cli, "--config");
    return file != NULL ? dqn_config_load(config, file, n, overrides)
                        : dqn_config_parse(config, "defaults", ".", "seed: 1\n", n, overrides);
}

static enum dqn_status start(int argc, char **argv) {
    struct dqn_cli *cli = NULL;
    struct dqn_config *config = NULL;
    const struct measurement *m = NULL;
    size_t n_agents = 1;
    struct dqn_bench_result result;
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_alloc((void **)&cli, 1, sizeof *cli, "the command line"));
    DQN_TRY_GOTO(dqn_alloc((void **)&config, 1, sizeof *config, "the configuration"));
    DQN_TRY_GOTO(dqn_cli_parse(cli, &spec, argc, argv));
    if (dqn_cli_has(cli, "--help") || cli->n_arguments == 0) {
        dqn_cli_help(&spec, stdout);
        goto done;
    }
    DQN_TRY_GOTO(load(cli, config));
    DQN_TRY_GOTO(dqn_cli_count(cli, "--agents", MOST_AGENTS, 1, &n_agents));
    if (strcmp(cli->argument[0], "epoch") == 0) {
        status = n_agents > 1
                     ? dqn_fail(DQN_ERR_CONFIG, "--agents: an epoch is measured with one agent")
                     : run_epoch(config, dqn_cli_has(cli, "--json"));
        goto done;
    }
    DQN_TRY_GOTO(find_measurement(cli->argument[0], &m));
    DQN_TRY_GOTO(m->run(config, n_agents, &result));
    (dqn_cli_has(cli, "--json") ? dqn_bench_print_json : dqn_bench_print)(m->name, m->unit,
                                                                          &result);
done:
    free(cli);
    free(config);
    return status;
}

int main(int argc, char **argv) {
    dqn_cli_start();
    enum dqn_status status = start(argc, argv);
    status = status == DQN_OK ? dqn_cli_finish_output() : status;
    if (status != DQN_OK) {
        fprintf(stderr, "dqn-bench: %s\n", dqn_error_text());
    }
    return dqn_status_exit_code(status);
}
