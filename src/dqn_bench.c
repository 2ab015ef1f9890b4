/* dqn-bench: times the parts of the training loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
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
        "  per      the replay's part of it: draw, gather, priority update\n"
        "  collect  vector steps of env.name with env.lanes lanes and the network as policy",
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

static void print_text(const struct measurement *m, const struct dqn_bench_result *r) {
    char bytes[32];
    printf("%s on %s\n", m->name, r->device);
    printf("  %.0f %s/s (%.0f to %.0f), %.2f us each, %llu timed, %llu host waits inside, %s "
           "planned\n",
           r->per_s, m->unit, r->per_s_min, r->per_s_max, r->us, (unsigned long long)r->n,
           (unsigned long long)r->host_waits,
           dqn_format_bytes(bytes, sizeof bytes, r->device_bytes));
}

static void print_json(const struct measurement *m, const struct dqn_bench_result *r) {
    printf("{\"bench\": \"%s\", \"unit\": \"%s\", \"per_s\": %.6g, \"per_s_min\": %.6g, "
           "\"per_s_max\": %.6g, \"us\": %.6g, \"n\": %llu, \"host_waits\": %llu, "
           "\"device_bytes\": %llu, \"device\": \"%s\"}\n",
           m->name, m->unit, r->per_s, r->per_s_min, r->per_s_max, r->us, (unsigned long long)r->n,
           (unsigned long long)r->host_waits, (unsigned long long)r->device_bytes, r->device);
}

/* The table of the replay's two places: what an epoch takes with each. */
static enum dqn_status run_epoch(const struct dqn_config *config, bool json) {
    struct dqn_bench_epoch_result r[2];
    DQN_TRY(dqn_bench_epoch(config, &r[0], &r[1]));
    if (!json) {
        printf("%-28s %10s %12s %14s %11s\n", "replay", "s an epoch", "updates/s", "env steps/s",
               "host waits");
    }
    for (int i = 1; i >= 0; i--) {
        const char *place = r[i].replay_on_gpu ? "gpu" : "cpu";
        if (!r[i].ran) {
            continue;
        }
        printf(json ? "{\"bench\": \"epoch\", \"replay\": \"%s\", \"seconds\": %.6g, "
                      "\"updates_per_s\": %.6g, \"env_steps_per_s\": %.6g, \"host_waits\": %.6g}\n"
                    : "%-28s %10.3f %12.0f %14.0f %11.0f\n",
               place, r[i].seconds, r[i].updates_per_s, r[i].env_steps_per_s, r[i].host_waits);
    }
    if (!json && r[1].ran) {
        printf("the epoch with the replay on the GPU takes %.1f %% of the other one's time\n",
               100.0 * r[0].seconds / r[1].seconds);
    }
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
    (dqn_cli_has(cli, "--json") ? print_json : print_text)(m, &result);
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
