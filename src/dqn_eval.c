/* dqn-eval: what a trained agent is worth on data or episodes that training did not see. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents.h"
#include "checkpoint.h"
#include "cli.h"
#include "evaluator.h"
#include "greedy_policy.h"
#include "latest_action.h"
#include "market/trading_report.h"
#include "report_folder.h"
#include "run_folder.h"
#include "unfinished.h"
#include "versions.h"
#include "walk_eval.h"
#include "walk_forward.h"

static const struct dqn_cli_option options[] = {
    {"--split", "train|validation|test", "trading: which part of the data; default test"},
    {"--report", "DIR", "trading: write report.html, report.json and tables into a folder"},
    {"--steps", NULL, "with --report: also steps.csv, every step with everything about it"},
    {"--trials", "N", "with --report: agents tried before this one was chosen; default 1"},
    {"--latest", "FILE", "trading: the action after the newest bar of a file, with its Q values"},
    {"--exposure", "X", "with --latest: position held, of equity, -1 to 1; default 0"},
    {"--episodes", "N", "other environments: greedy episodes; default 100"},
    {"--set", "KEY=VALUE", "evaluate under another setting, such as fill.cost_scale=2"},
    {"--json", NULL, "print one JSON object"},
    {"--version", NULL, "print the versions of program and libraries, then stop"},
    {"--help", NULL, "print this text, then stop"},
};

static const struct dqn_cli_spec spec = {
    .program = "dqn-eval",
    .usage = "CHECKPOINT|FOLDER [options]",
    .about =
        "Evaluates the greedy policy of a checkpoint; of the folder of a run, or of runs\n"
        "(the newest run), that of best.h5; of the newest checkpoint where there is none yet.\n"
        "Of a walk-forward's folder: those of all folds, chained to one out-of-sample account.\n"
        "Trading: one pass over a split with all costs, beside flat, buy and hold, short and\n"
        "hold, and random runs (docs/report.md). Other environments: fresh episodes.",
    .options = options,
    .n_options = DQN_COUNT_OF(options),
    .max_arguments = 1};

/* Episodes of training's evaluations have round numbers of epochs; these are far from them. */
static const uint64_t fresh_round = (uint64_t)1 << 31;

struct subject {
    char file[DQN_TEXT_MAX];
    struct dqn_checkpoint *checkpoint;
    struct dqn_config config;
    struct dqn_net net;
    enum dqn_env_id env;
    struct dqn_device device;
    bool device_open;
    struct dqn_queue *queue;
    struct dqn_arena *arena;
    struct dqn_buffer *params, *agents, *env_params;
    struct dqn_evaluator *evaluator;
};

static void close_subject(struct subject *s) {
    dqn_evaluator_destroy(s->evaluator);
    if (s->queue != NULL) {
        s->device.backend->queue->destroy(s->queue);
    }
    dqn_arena_destroy(s->arena);
    if (s->device_open) {
        s->device.backend->memory->close(&s->device);
    }
    dqn_checkpoint_close(s->checkpoint);
}

static enum dqn_status open_subject(struct subject *s, const char *path,
                                    const struct dqn_cli *cli) {
    const char *overrides[DQN_CLI_MAX];
    const size_t n = dqn_cli_values(cli, "--set", overrides, DQN_CLI_MAX);
    DQN_TRY(dqn_run_folder_best(s->file, sizeof s->file, path));
    DQN_TRY(dqn_checkpoint_open(&s->checkpoint, s->file));
    DQN_TRY(dqn_config_parse(&s->config, s->file, ".", dqn_checkpoint_config(s->checkpoint), n,
                             overrides));
    s->env = (enum dqn_env_id)s->config.env.name;
    DQN_TRY(dqn_net_init(&s->net, dqn_env_observations(s->env), dqn_env_actions(s->env),
                         &s->config.net));
    const struct dqn_backend *cpu = dqn_backend_find("cpu");
    const struct dqn_device_options device = {.threads = (int)s->config.run.threads};
    DQN_TRY(cpu->memory->open(&s->device, &device));
    s->device_open = true;
    DQN_TRY(cpu->queue->create(&s->device, &s->queue));
    DQN_TRY(dqn_arena_create(&s->arena));
    return dqn_arena_add(s->arena, &s->params, &s->device, DQN_F32, 0, "nn/params", 2, (size_t)1,
                         s->net.n_params);
}

static enum dqn_status load_params(struct subject *s) {
    static const char *const names[] = {"nn/params"};
    DQN_TRY(dqn_arena_commit(s->arena, NULL));
    return dqn_checkpoint_load_buffers(s->checkpoint, s->arena, s->queue, names,
                                       DQN_COUNT_OF(names));
}

/* ---- trading
 * ---------------------------------------------------------------------------------------- */

static enum dqn_status parse_split(const char *name, enum dqn_split *out) {
    static const char *const names[] = {"train", "validation", "test"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        if (name != NULL && strcmp(name, names[i]) == 0) {
            *out = (enum dqn_split)i;
            return DQN_OK;
        }
    }
    *out = DQN_SPLIT_TEST;
    return name == NULL
               ? DQN_OK
               : dqn_fail(DQN_ERR_CONFIG, "--split %s: give train, validation or test", name);
}

/* What a trading checkpoint holds besides its network. */
struct frozen {
    double mean[DQN_MARKET_FEATURES], std[DQN_MARKET_FEATURES];
};

static enum dqn_status load_frozen(struct subject *s, struct frozen *out) {
    DQN_TRY(dqn_checkpoint_field_read(s->checkpoint, "market/feature_mean", DQN_F64,
                                      DQN_MARKET_FEATURES, out->mean));
    DQN_TRY(dqn_checkpoint_field_read(s->checkpoint, "market/feature_std", DQN_F64,
                                      DQN_MARKET_FEATURES, out->std));
    return load_params(s);
}

/* A number given to an option; `text` NULL = `none`. */
static enum dqn_status parse_number(const char *option, const char *text, double none, double low,
                                    double high, double *out) {
    char *end = NULL;
    *out = text != NULL ? strtod(text, &end) : none;
    if (text != NULL && (*text == '\0' || *end != '\0' || !(*out >= low && *out <= high))) {
        return dqn_fail(DQN_ERR_CONFIG, "%s %s: give a number from %g to %g", option, text, low,
                        high);
    }
    return DQN_OK;
}

static enum dqn_status parse_trials(const struct dqn_cli *cli, double *out) {
    return parse_number("--trials", dqn_cli_value(cli, "--trials"), 1.0, 1.0, 1e9, out);
}

/* Before any work: that the report's files, where they were asked for, can be written, and are none
 * of those that are read. */
static enum dqn_status check_report(const struct dqn_cli *cli, const struct dqn_config *config,
                                    const char *checkpoint, const char *walk) {
    const char *folder = dqn_cli_value(cli, "--report");
    const bool steps = dqn_cli_has(cli, "--steps");
    if (folder == NULL) {
        return DQN_OK;
    }
    DQN_TRY(dqn_report_folder_check_apart(folder, steps, config, checkpoint, walk));
    return dqn_report_folder_check(folder, steps);
}

/* The files, where they were asked for, and the report on the standard output. */
static enum dqn_status write_report(const struct dqn_trading_report *report,
                                    const struct dqn_cli *cli) {
    const char *folder = dqn_cli_value(cli, "--report");
    if (folder != NULL) {
        DQN_TRY(dqn_report_folder_write(report, folder, dqn_cli_has(cli, "--steps")));
        dqn_info("report: %s/report.html", folder);
    }
    (dqn_cli_has(cli, "--json") ? dqn_trading_report_json : dqn_trading_report_print)(report,
                                                                                      stdout);
    return DQN_OK;
}

/* Says what data the agent was trained on. */
static enum dqn_status compare_data(struct dqn_trading_report *report, const struct subject *s) {
    char *digest = NULL;
    DQN_TRY(dqn_checkpoint_text(s->checkpoint, "market_sha256", &digest));
    dqn_trading_report_trained_on(report, digest);
    free(digest);
    return DQN_OK;
}

static enum dqn_status evaluate_trading(struct subject *s, const struct dqn_cli *cli) {
    struct frozen frozen;
    enum dqn_split split;
    double trials = 1.0;
    DQN_TRY(parse_trials(cli, &trials));
    DQN_TRY(parse_split(dqn_cli_value(cli, "--split"), &split));
    DQN_TRY(check_report(cli, &s->config, s->file, NULL));
    DQN_TRY(load_frozen(s, &frozen));
    struct dqn_market *market = NULL;
    struct dqn_greedy_policy *policy = NULL;
    struct dqn_trading_report report = {0};
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_market_create(&market, &s->config, frozen.mean, frozen.std));
    DQN_TRY_GOTO(dqn_greedy_policy_create(&policy, &s->net, s->params->data));
    DQN_TRY_GOTO(dqn_trading_report_create(&report, &s->config, market, split,
                                           dqn_greedy_policy_action, policy));
    snprintf(report.subject, sizeof report.subject, "%s", s->file);
    DQN_TRY_GOTO(compare_data(&report, s));
    if (dqn_cli_has(cli, "--report")) {
        void *const contexts[] = {policy};
        DQN_TRY_GOTO(dqn_trading_report_extend(&report, &s->config, dqn_greedy_policy_action,
                                               contexts, trials));
    }
    DQN_TRY_GOTO(write_report(&report, cli));
done:
    dqn_trading_report_destroy(&report);
    dqn_greedy_policy_destroy(policy);
    dqn_market_destroy(market);
    return status;
}

/* Bars of another length than in training: the observation then means something else. Says
 * nothing of files that do not know their bars' length. */
static enum dqn_status compare_bar_length(const struct subject *s, const char *file,
                                          double seconds) {
    char *text = NULL;
    DQN_TRY(dqn_checkpoint_text(s->checkpoint, "market_bar_seconds", &text));
    const double trained = text != NULL ? strtod(text, NULL) : 0.0;
    free(text);
    if (trained > 0.0 && fabs(seconds - trained) > 0.01 * trained) {
        char here[32], there[32];
        dqn_warn("%s has bars of %s, and this agent was trained on bars of %s: what it learned "
                 "does not hold for others; give it bars of that length",
                 file, dqn_format_length(here, sizeof here, seconds),
                 dqn_format_length(there, sizeof there, trained));
    }
    return DQN_OK;
}

static enum dqn_status latest_action(struct subject *s, const struct dqn_cli *cli) {
    struct frozen frozen;
    struct dqn_latest latest;
    struct dqn_greedy_policy *policy = NULL;
    double exposure = 0.0;
    const double most = s->config.env.max_leverage;
    DQN_TRY(
        parse_number("--exposure", dqn_cli_value(cli, "--exposure"), 0.0, -most, most, &exposure));
    DQN_TRY(load_frozen(s, &frozen));
    DQN_TRY(dqn_greedy_policy_create(&policy, &s->net, s->params->data));
    const char *const file = dqn_cli_value(cli, "--latest");
    enum dqn_status status =
        dqn_latest_find(&latest, &s->config, file, frozen.mean, frozen.std, policy, exposure);
    if (status == DQN_OK) {
        status = compare_bar_length(s, file, latest.bar_seconds);
    }
    if (status == DQN_OK) {
        (dqn_cli_has(cli, "--json") ? dqn_latest_json : dqn_latest_print)(&latest, stdout);
    }
    dqn_greedy_policy_destroy(policy);
    return status;
}

/* ---- other environments
 * ------------------------------------------------------------------------------- */

static enum dqn_status prepare_episodes(struct subject *s, size_t episodes) {
    const struct dqn_device *device = &s->device;
    DQN_TRY(dqn_arena_add(s->arena, &s->agents, device, DQN_U64, 0, "agents", 2, (size_t)1,
                          sizeof(struct dqn_agent) / sizeof(uint64_t)));
    DQN_TRY(dqn_arena_add(s->arena, &s->env_params, device, DQN_U8, DQN_BUFFER_SHARED, "env/params",
                          1, dqn_env_params_bytes(s->env)));
    const struct dqn_evaluator_options evaluator = {.env = s->env,
                                                    .n_agents = 1,
                                                    .episodes = episodes,
                                                    .max_steps = dqn_evaluator_limit(s->env),
                                                    .epsilon = s->config.eval.epsilon,
                                                    .net = &s->net,
                                                    .agents = s->agents,
                                                    .env_params = s->env_params};
    DQN_TRY(dqn_evaluator_create(&s->evaluator, s->arena, device, "eval", &evaluator));
    DQN_TRY(load_params(s));
    /* The CPU's device memory is host memory. */
    dqn_agent_from_config(s->agents->data, &s->config);
    dqn_env_default_params(s->env, s->env_params->data);
    return DQN_OK;
}

static enum dqn_status evaluate_episodes(struct subject *s, const struct dqn_cli *cli) {
    size_t episodes = 0;
    struct dqn_evaluation r;
    DQN_TRY(dqn_cli_count(cli, "--episodes", 100000, 100, &episodes));
    DQN_TRY(prepare_episodes(s, episodes));
    DQN_TRY(dqn_evaluator_run(s->evaluator, s->queue, s->params, fresh_round, &r));
    if (dqn_cli_has(cli, "--json")) {
        printf("{\"environment\": \"%s\", \"episodes\": %llu, \"return_mean\": %.10g, "
               "\"return_std\": %.10g, \"return_min\": %.10g, \"return_max\": %.10g, "
               "\"length_mean\": %.10g}\n",
               dqn_env_name(s->env), (unsigned long long)r.episodes, r.return_mean, r.return_std,
               r.return_min, r.return_max, r.length_mean);
    } else {
        printf("%s: %s, %llu greedy episodes: return %.2f (std %.2f, %.2f to %.2f), length %.1f\n",
               s->file, dqn_env_name(s->env), (unsigned long long)r.episodes, r.return_mean,
               r.return_std, r.return_min, r.return_max, r.length_mean);
    }
    return DQN_OK;
}

/* ---- main
 * --------------------------------------------------------------------------------------------- */

/* Options that would have no effect are refused: who gives one wants it. */
static enum dqn_status check_options(const struct dqn_cli *cli, bool trading) {
    static const char *const needs[][2] = {
        {"--steps", "--report"}, {"--trials", "--report"}, {"--exposure", "--latest"}};
    static const char *const of_evaluation[] = {"--split", "--report"};
    for (size_t i = 0; i < DQN_COUNT_OF(needs); i++) {
        if (dqn_cli_has(cli, needs[i][0]) && !dqn_cli_has(cli, needs[i][1])) {
            return dqn_fail(DQN_ERR_CONFIG, "%s goes with %s, which was not given", needs[i][0],
                            needs[i][1]);
        }
    }
    for (size_t i = 0; dqn_cli_has(cli, "--latest") && i < DQN_COUNT_OF(of_evaluation); i++) {
        if (dqn_cli_has(cli, of_evaluation[i])) {
            return dqn_fail(
                DQN_ERR_CONFIG,
                "%s does not go with --latest, which looks at one bar; give one of them",
                of_evaluation[i]);
        }
    }
    if (trading && dqn_cli_has(cli, "--episodes")) {
        return dqn_fail(DQN_ERR_CONFIG, "--episodes is for other environments; trading walks a "
                                        "whole split once: see --split");
    }
    return DQN_OK;
}

static enum dqn_status evaluate_subject(struct subject *s, const struct dqn_cli *cli) {
    static const char *const of_trading[] = {"--split", "--report", "--latest"};
    DQN_TRY(check_options(cli, s->env == DQN_ENV_trading));
    if (s->env == DQN_ENV_trading) {
        return dqn_cli_has(cli, "--latest") ? latest_action(s, cli) : evaluate_trading(s, cli);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(of_trading); i++) {
        if (dqn_cli_has(cli, of_trading[i])) {
            return dqn_fail(DQN_ERR_CONFIG, "%s is for the trading environment, not for %s",
                            of_trading[i], dqn_env_name(s->env));
        }
    }
    return evaluate_episodes(s, cli);
}

/* ---- walk-forward
 * --------------------------------------------------------------------------------------- */

static enum dqn_status report_walk(const struct dqn_config *config, const char *folder,
                                   const struct dqn_cli *cli) {
    struct dqn_walk_eval *eval = NULL;
    double trials = 1.0;
    DQN_TRY(parse_trials(cli, &trials));
    DQN_TRY(check_report(cli, config, NULL, folder));
    DQN_TRY(dqn_walk_eval_create(&eval, config, folder));
    enum dqn_status status = DQN_OK;
    if (dqn_cli_has(cli, "--report")) {
        status = dqn_walk_eval_extend(eval, trials);
    }
    if (status == DQN_OK) {
        status = write_report(dqn_walk_eval_report(eval), cli);
    }
    dqn_walk_eval_destroy(eval);
    return status;
}

/* The networks of all folds, each over its own test. */
static enum dqn_status evaluate_walk(const char *folder, const struct dqn_cli *cli) {
    static const char *const of_runs[] = {"--split", "--latest", "--episodes"};
    char file[DQN_TEXT_MAX + 16];
    const char *overrides[DQN_CLI_MAX];
    const size_t n = dqn_cli_values(cli, "--set", overrides, DQN_CLI_MAX);
    struct dqn_config *config = NULL;
    for (size_t i = 0; i < DQN_COUNT_OF(of_runs); i++) {
        if (dqn_cli_has(cli, of_runs[i])) {
            return dqn_fail(DQN_ERR_CONFIG,
                            "%s: %s is a walk-forward, which is evaluated on the tests of its "
                            "folds; %s goes with one of its runs, such as %s/fold-01-seed-1",
                            of_runs[i], folder, of_runs[i], folder);
        }
    }
    DQN_TRY(check_options(cli, true));
    snprintf(file, sizeof file, "%s/config.yaml", folder);
    DQN_TRY(dqn_alloc((void **)&config, 1, sizeof *config, "a configuration"));
    enum dqn_status status = dqn_config_load(config, file, n, overrides);
    if (status == DQN_OK) {
        status = report_walk(config, folder, cli);
    }
    free(config);
    return status;
}

static enum dqn_status evaluate(const struct dqn_cli *cli) {
    if (cli->n_arguments == 0) {
        return dqn_fail(DQN_ERR_CONFIG, "no checkpoint was given; usage: dqn-eval %s", spec.usage);
    }
    char folder[DQN_TEXT_MAX];
    if (dqn_walk_find(folder, sizeof folder, cli->argument[0])) {
        return evaluate_walk(folder, cli);
    }
    struct subject *s = NULL;
    DQN_TRY(dqn_alloc((void **)&s, 1, sizeof *s, "the evaluation"));
    enum dqn_status status = open_subject(s, cli->argument[0], cli);
    if (status == DQN_OK) {
        status = evaluate_subject(s, cli);
    }
    close_subject(s);
    free(s);
    return status;
}

static enum dqn_status start(int argc, char **argv) {
    struct dqn_cli *cli = NULL;
    DQN_TRY(dqn_alloc((void **)&cli, 1, sizeof *cli, "the command line"));
    enum dqn_status status = dqn_cli_parse(cli, &spec, argc, argv);
    if (status == DQN_OK && dqn_cli_has(cli, "--help")) {
        dqn_cli_help(&spec, stdout);
    } else if (status == DQN_OK && dqn_cli_has(cli, "--version")) {
        dqn_versions_print(stdout);
    } else if (status == DQN_OK) {
        status = dqn_versions_check();
        status = status == DQN_OK ? evaluate(cli) : status;
    }
    free(cli);
    return status;
}

int main(int argc, char **argv) {
    dqn_cli_start();
    dqn_unfinished_watch();
    enum dqn_status status = start(argc, argv);
    status = status == DQN_OK ? dqn_cli_finish_output() : status;
    if (status != DQN_OK) {
        fprintf(stderr, "dqn-eval: %s\n", dqn_error_text());
    }
    return dqn_status_exit_code(status);
}
