/* dqn-train: trains an agent as a configuration says. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "cli.h"
#include "greedy_policy.h"
#include "market/trading_report.h"
#include "run_folder.h"
#include "trainer.h"
#include "versions.h"
#include "walk_forward.h"

static const struct dqn_cli_option options[] = {
    {"--set", "KEY=VALUE", "set a configuration key; may be repeated"},
    {"--device", "auto|cpu|cuda[:N]", "where to compute"},
    {"--resume", "FILE|FOLDER", "go on from a checkpoint, or from the newest of a run"},
    {"--init-from", "FILE", "start with the network of a checkpoint"},
    {"--name", "NAME", "name of the run's folder"},
    {"--quiet", NULL, "print warnings and errors only"},
    {"--verify", "FILE|FOLDER", "check the integrity of checkpoints, then stop"},
    {"--print-config", NULL, "print every key with its value, then stop"},
    {"--config-doc", NULL, "print the table of all keys as Markdown, then stop"},
    {"--completion", NULL, "print a bash completion script, then stop"},
    {"--version", NULL, "print the versions of program and libraries, then stop"},
    {"--help", NULL, "print this text with all keys, then stop"},
};

static const struct dqn_cli_spec spec = {
    .program = "dqn-train",
    .usage = "CONFIG [--set KEY=VALUE]... [options]",
    .about = "Trains a deep Q-network as the YAML file CONFIG says. Each run gets a folder of its "
             "own under\n`output`; an interrupted run goes on exactly with --resume.",
    .options = options,
    .n_options = DQN_COUNT_OF(options),
    .max_arguments = 1};

/* ---- signals: the handler sets a flag, the trainer stops at the next step boundary
 * ---------------- */

static atomic_int stop_signal; /* lock-free: a handler on any thread may write it */

/* What a signal finds. Where nothing is to be saved, it ends the process at once. */
enum phase { PREPARING, TRAINING, REPORTING };
static atomic_int phase = TRAINING;

static struct dqn_run_folder_undo undo; /* PREPARING a new run: its folder goes again */
static atomic_bool undo_planned;

static atomic_bool walk_reads; /* inside a walk-forward, all of it saved so far */
static char all_saved[DQN_TEXT_MAX + 80];

#define SAVED_TEXT "interrupted; everything is saved: dqn-train --resume %s"

/* The handler's line, made beforehand. */
static void plan_all_saved(const char *folder) {
    snprintf(all_saved, sizeof all_saved, "warning: " SAVED_TEXT "\n",
             dqn_text_is_plain(folder) ? folder : "FOLDER");
}

/* While a run's folder is made, signals wait until it is known how to remove it. A mask would not
 * do: libraries have threads of their own. */
static atomic_bool opening;
static atomic_int held_signal;

static void leave_at_once(int number) {
    static const char preparing[] =
        "warning: interrupted before the training began; no run was changed\n";
    static const char reporting[] = "warning: interrupted inside the report; the training is "
                                    "complete and saved, and dqn-eval makes the report\n";
    const int now = atomic_load(&phase);
    const char *const text = now == PREPARING   ? preparing
                             : now == REPORTING ? reporting
                                                : all_saved;
    if (now == PREPARING && atomic_load(&undo_planned)) {
        dqn_run_folder_undo(&undo);
    }
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
    _exit(128 + number);
}

/* The first one asks for a clean end; so does a second, which a person presses without thinking; a
 * third one ends the process at once. Files are complete at any moment. Where nothing is to be
 * saved the first one ends the process at once too. */
static void on_signal(int number) {
    static atomic_int n_signals;
    if (atomic_load(&opening)) {
        atomic_store(&held_signal, number);
        return;
    }
    if (atomic_load(&phase) != TRAINING || atomic_load(&walk_reads)) {
        leave_at_once(number);
    }
    atomic_store(&stop_signal, number);
    if (atomic_fetch_add(&n_signals, 1) > 0) {
        signal(number, SIG_DFL);
    }
}

static void stop_holding(void) {
    atomic_store(&opening, false);
    const int number = atomic_load(&held_signal);
    if (number != 0) {
        on_signal(number);
    }
}

static void handle(int number, const struct sigaction *action) {
    struct sigaction before;
    /* What the caller has set to be ignored stays ignored: nohup. */
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(number, action, NULL);
    }
}

static void install_handlers(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    handle(SIGINT, &action);
    handle(SIGTERM, &action);
    handle(SIGHUP, &action);
    /* A reader that goes away (| head) must not end the training. */
    signal(SIGPIPE, SIG_IGN);
}

/* ---- configuration
 * ----------------------------------------------------------------------------------- */

enum { OVERRIDES_MAX = DQN_CLI_MAX + 8 };

struct overrides {
    size_t n;
    const char *text[OVERRIDES_MAX];
    char device[64], device_index[64], name[DQN_TEXT_MAX + 8];
};

/* --set in order, then the options that stand for keys. */
static enum dqn_status collect_overrides(const struct dqn_cli *cli, struct overrides *o) {
    o->n = dqn_cli_values(cli, "--set", o->text, DQN_CLI_MAX);
    const char *device = dqn_cli_value(cli, "--device");
    if (device != NULL) {
        const char *colon = strchr(device, ':');
        const int length = colon != NULL ? (int)(colon - device) : (int)strlen(device);
        if (length > 32) {
            return dqn_fail(DQN_ERR_CONFIG, "--device %s: give auto, cpu, cuda or cuda:N", device);
        }
        snprintf(o->device, sizeof o->device, "device=%.*s", length, device);
        o->text[o->n++] = o->device;
        if (colon != NULL) {
            snprintf(o->device_index, sizeof o->device_index, "device_index=%.32s", colon + 1);
            o->text[o->n++] = o->device_index;
        }
    }
    const char *name = dqn_cli_value(cli, "--name");
    if (name != NULL) {
        snprintf(o->name, sizeof o->name, "name=%s", name);
        o->text[o->n++] = o->name;
    }
    return DQN_OK;
}

static void say_difference(void *context, const char *line) {
    (void)context;
    dqn_info("resume: %s", line);
}

/* The configuration of a run that goes on: the checkpoint's, changed by CONFIG and --set where a
 * key may change. */
static enum dqn_status load_resumed(const struct dqn_cli *cli, const struct overrides *o,
                                    const char *file, struct dqn_config *config) {
    struct dqn_checkpoint *checkpoint = NULL;
    struct dqn_config *saved = NULL;
    DQN_TRY(dqn_checkpoint_open(&checkpoint, file));
    enum dqn_status status = dqn_alloc((void **)&saved, 1, sizeof *saved, "a configuration");
    const char *text = dqn_checkpoint_config(checkpoint);
    if (status == DQN_OK) {
        status = dqn_config_parse(saved, file, ".", text, 0, NULL);
    }
    if (status == DQN_OK) {
        status = cli->n_arguments > 0 ? dqn_config_load(config, cli->argument[0], o->n, o->text)
                                      : dqn_config_parse(config, file, ".", text, o->n, o->text);
    }
    if (status == DQN_OK) {
        status = dqn_config_resume(config, saved, say_difference, NULL);
    }
    free(saved);
    dqn_checkpoint_close(checkpoint);
    return status;
}

/* The same for a walk-forward, whose folder has a configuration and no checkpoint. */
static enum dqn_status load_walk(const struct dqn_cli *cli, const struct overrides *o,
                                 const char *folder, struct dqn_config *config) {
    char file[DQN_TEXT_MAX + 16];
    struct dqn_config *saved = NULL;
    snprintf(file, sizeof file, "%s/config.yaml", folder);
    DQN_TRY(dqn_alloc((void **)&saved, 1, sizeof *saved, "a configuration"));
    enum dqn_status status = dqn_config_load(saved, file, 0, NULL);
    if (status == DQN_OK) {
        const char *given = cli->n_arguments > 0 ? cli->argument[0] : file;
        status = dqn_config_load(config, given, o->n, o->text);
    }
    if (status == DQN_OK) {
        status = dqn_config_resume(config, saved, say_difference, NULL);
    }
    free(saved);
    return status;
}

/* `resume`: a checkpoint, or with `walk` the folder of a walk-forward; NULL = a new run. */
static enum dqn_status load_config(const struct dqn_cli *cli, const char *resume, bool walk,
                                   struct dqn_config *config) {
    struct overrides *o = NULL;
    DQN_TRY(dqn_alloc((void **)&o, 1, sizeof *o, "overrides"));
    enum dqn_status status = collect_overrides(cli, o);
    if (status == DQN_OK && resume != NULL && walk) {
        status = load_walk(cli, o, resume, config);
    } else if (status == DQN_OK && resume != NULL) {
        status = load_resumed(cli, o, resume, config);
    } else if (status == DQN_OK && cli->n_arguments == 0) {
        status = dqn_fail(DQN_ERR_CONFIG,
                          "no configuration was given; try: dqn-train configs/trading.yaml");
    } else if (status == DQN_OK) {
        status = dqn_config_load(config, cli->argument[0], o->n, o->text);
    }
    free(o);
    return status;
}

/* ---- a run
 * ---------------------------------------------------------------------------------------------- */

/* From here on a signal ends the process at once. */
static void saved_all(void) {
    fflush(stdout);
    atomic_store(&phase, REPORTING);
    if (atomic_load(&stop_signal) != 0) { /* it came just before */
        leave_at_once(atomic_load(&stop_signal));
    }
}

static enum dqn_status report_trading(struct dqn_trainer *trainer) {
    const struct dqn_market *market = dqn_trainer_market(trainer);
    const struct dqn_net *net = dqn_trainer_net(trainer);
    float *params = NULL;
    struct dqn_greedy_policy *policy = NULL;
    struct dqn_trading_report report = {0};
    enum dqn_status status =
        dqn_alloc((void **)&params, net->n_params, sizeof *params, "parameters");
    DQN_TRY_GOTO(status);
    DQN_TRY_GOTO(dqn_trainer_best_params(trainer, params));
    DQN_TRY_GOTO(dqn_greedy_policy_create(&policy, net, params));
    DQN_TRY_GOTO(dqn_trading_report_create(&report, dqn_trainer_config(trainer), market,
                                           DQN_SPLIT_TEST, dqn_greedy_policy_action, policy));
    dqn_trading_report_print(&report, stdout);
done:
    dqn_trading_report_destroy(&report);
    dqn_greedy_policy_destroy(policy);
    free(params);
    return status;
}

static enum dqn_status report_run(struct dqn_trainer *trainer, const char *folder, bool quiet) {
    uint64_t epoch = 0;
    const double score = dqn_trainer_best_score(trainer, 0, &epoch);
    if (quiet) {
        return DQN_OK;
    }
    if (epoch > 0) {
        printf("\nbest evaluation: %.6g in epoch %llu; %s/best.h5\n", score,
               (unsigned long long)epoch, folder);
    }
    if (dqn_trainer_market(trainer) == NULL) {
        return DQN_OK;
    }
    saved_all();
    return report_trading(trainer);
}

/* Once the trainer stands: what only a run that really begins may change in its folder. */
static enum dqn_status begin_in_folder(const char *folder, const char *resume,
                                       const char *config_text) {
    if (resume != NULL) {
        DQN_TRY(dqn_run_folder_supersede(folder, resume, NULL));
    }
    DQN_TRY(dqn_run_folder_write_config(folder, config_text, NULL));
    if (resume == NULL) {
        dqn_run_folder_point_latest(folder, NULL);
    }
    return DQN_OK;
}

/* *begun: the trainer was created and its configuration written, the folder belongs to a run. */
static enum dqn_status train(const struct dqn_config *config, const char *config_text,
                             const char *folder, const char *resume, const char *init_from,
                             bool quiet, bool *begun, bool *stopped) {
    const struct dqn_trainer_options trainer_options = {.config = config,
                                                        .folder = folder,
                                                        .resume = resume,
                                                        .init_from = init_from,
                                                        .quiet = quiet,
                                                        .stop = &stop_signal};
    struct dqn_trainer *trainer = NULL;
    atomic_store(&phase, PREPARING);
    const enum dqn_status created = dqn_trainer_create(&trainer, &trainer_options);
    atomic_store(&phase, TRAINING);
    DQN_TRY(created);
    enum dqn_status status = begin_in_folder(folder, resume, config_text);
    *begun = status == DQN_OK;
    if (status == DQN_OK) {
        status = dqn_trainer_run(trainer, stopped);
    }
    if (status == DQN_OK && !*stopped) {
        status = report_run(trainer, folder, quiet);
    }
    dqn_trainer_destroy(trainer);
    return status;
}

static enum dqn_status train_walk(const struct dqn_config *config, const char *folder,
                                  const struct dqn_cli *cli, bool *stopped) {
    const struct dqn_walk_options walk_options = {.config = config,
                                                  .points_latest = true,
                                                  .folder = folder,
                                                  .quiet = dqn_cli_has(cli, "--quiet"),
                                                  .stop = &stop_signal,
                                                  .reading = &walk_reads};
    return dqn_walk_forward(&walk_options, NULL, stopped);
}

/* "cartpole" of "configs/cartpole.yaml". */
static void run_name(const struct dqn_config *config, char *out, size_t size) {
    if (config->run.name[0] != '\0') {
        snprintf(out, size, "%s", config->run.name);
        return;
    }
    const char *slash = strrchr(config->path, '/');
    snprintf(out, size, "%s", slash != NULL ? slash + 1 : config->path);
    char *dot = strrchr(out, '.');
    if (dot != NULL && dot != out) {
        *dot = '\0';
    }
    if (out[0] == '\0') {
        snprintf(out, size, "run");
    }
}

static enum dqn_status open_folder(const struct dqn_config *config, const char *resume, bool walk,
                                   struct dqn_run_folder *folder) {
    char output[DQN_TEXT_MAX], name[DQN_TEXT_MAX];
    if (resume != NULL && walk) {
        return dqn_run_folder_open(folder, resume, NULL);
    }
    if (resume != NULL) {
        DQN_TRY(dqn_file_folder(output, sizeof output, resume));
        return dqn_run_folder_open(folder, output, NULL);
    }
    run_name(config, name, sizeof name);
    DQN_TRY(dqn_config_path(config, config->run.output, output, sizeof output));
    return dqn_run_folder_create(folder, output, name, NULL);
}

/* The file that --resume means, links followed. It must lie in a run's folder, because the run goes
 * on in there: its config.yaml, metrics.csv and checkpoints are written over. */
static enum dqn_status find_resume(const char *wanted, char *out, size_t size) {
    char found[DQN_TEXT_MAX], folder[DQN_TEXT_MAX], file[DQN_TEXT_MAX + 16];
    DQN_TRY(dqn_run_folder_resolve(found, sizeof found, wanted));
    char *real = realpath(found, NULL);
    if (real == NULL || strlen(real) >= size) {
        free(real);
        return dqn_fail(DQN_ERR_DISK, "%s: its real path cannot be found: %s", found,
                        strerror(errno));
    }
    snprintf(out, size, "%s", real);
    free(real);
    DQN_TRY(dqn_file_folder(folder, sizeof folder, out));
    static const char *const own[] = {"config.yaml", "lock"};
    for (size_t i = 0; i < DQN_COUNT_OF(own); i++) {
        snprintf(file, sizeof file, "%s/%s", folder, own[i]);
        if (access(file, F_OK) != 0) {
            return dqn_fail(DQN_ERR_CONFIG,
                            "%s: %s is no run's folder (it has no %s), so the run cannot go on in "
                            "it; give the checkpoint in its run folder, or start a new run from it "
                            "with --init-from",
                            out, folder, own[i]);
        }
    }
    return DQN_OK;
}

static enum dqn_status run(const struct dqn_cli *cli, struct dqn_config *config, bool *stopped) {
    char resume[DQN_TEXT_MAX];
    const char *wanted = dqn_cli_value(cli, "--resume");
    if (wanted != NULL && dqn_cli_has(cli, "--init-from")) {
        return dqn_fail(DQN_ERR_CONFIG, "--resume goes on with the network of its checkpoint, and "
                                        "--init-from asks for another: give one of them");
    }
    const bool walk_again = wanted != NULL && dqn_walk_find(resume, sizeof resume, wanted);
    if (wanted != NULL && !walk_again) {
        DQN_TRY(find_resume(wanted, resume, sizeof resume));
    }
    DQN_TRY(load_config(cli, wanted != NULL ? resume : NULL, walk_again, config));
    if (dqn_cli_has(cli, "--print-config")) {
        char *text = NULL;
        DQN_TRY(dqn_config_print(config, &text));
        fputs(text, stdout);
        free(text);
        return DQN_OK;
    }
    const bool walks = config->walk_forward.train > 0;
    const char *init_from = dqn_cli_value(cli, "--init-from");
    if (walks && init_from != NULL) {
        return dqn_fail(DQN_ERR_CONFIG, "--init-from does not go with walk_forward, whose runs "
                                        "start afresh; see walk_forward.warm_start");
    }
    if (walks) {
        DQN_TRY(dqn_walk_check(config));
    } else if (init_from != NULL) {
        DQN_TRY(dqn_trainer_check_init_from(config, init_from));
    }
    struct dqn_run_folder folder;
    char *text = NULL;
    DQN_TRY(dqn_config_print(config, &text));
    atomic_store(&opening, true);
    install_handlers();
    enum dqn_status status =
        open_folder(config, wanted != NULL ? resume : NULL, walk_again, &folder);
    bool begun = false;
    if (status == DQN_OK) {
        if (wanted == NULL && !walks) {
            dqn_run_folder_undo_plan(&undo, &folder);
            atomic_store(&undo_planned, true);
        }
        plan_all_saved(folder.path);
        if (walks) {
            status = dqn_run_folder_write_config(folder.path, text, NULL);
        }
        stop_holding();
        if (walks) {
            status = status == DQN_OK ? train_walk(config, folder.path, cli, stopped) : status;
            begun = status == DQN_OK || *stopped; /* else a folder with results stays, too */
        } else {
            status = train(config, text, folder.path, wanted != NULL ? resume : NULL, init_from,
                           dqn_cli_has(cli, "--quiet"), &begun, stopped);
        }
        if (status == DQN_OK && *stopped) {
            dqn_warn(SAVED_TEXT, folder.path);
        }
        if (!begun && wanted == NULL) {
            dqn_run_folder_discard(&folder, NULL);
        } else {
            dqn_run_folder_close(&folder);
        }
    }
    free(text);
    return status;
}

/* Options that print something and stop. True when one was given. */
static bool print_and_stop(const struct dqn_cli *cli) {
    if (dqn_cli_has(cli, "--help")) {
        dqn_cli_help(&spec, stdout);
        printf("\nconfiguration keys (see docs/config.md):\n");
        dqn_config_help(stdout);
    } else if (dqn_cli_has(cli, "--version")) {
        dqn_versions_print(stdout);
    } else if (dqn_cli_has(cli, "--config-doc")) {
        dqn_config_markdown(stdout);
    } else if (dqn_cli_has(cli, "--completion")) {
        dqn_cli_completion(&spec, stdout);
    } else {
        return false;
    }
    return true;
}

static enum dqn_status verify(const char *path) {
    char folder[DQN_TEXT_MAX];
    return dqn_walk_find(folder, sizeof folder, path) ? dqn_walk_verify(folder, stdout)
                                                      : dqn_run_folder_verify(path, stdout);
}

static enum dqn_status start(int argc, char **argv, bool *stopped) {
    struct dqn_cli *cli = NULL;
    struct dqn_config *config = NULL;
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_alloc((void **)&cli, 1, sizeof *cli, "the command line"));
    DQN_TRY_GOTO(dqn_alloc((void **)&config, 1, sizeof *config, "the configuration"));
    DQN_TRY_GOTO(dqn_cli_parse(cli, &spec, argc, argv));
    dqn_log_set_quiet(dqn_cli_has(cli, "--quiet"));
    if (print_and_stop(cli)) {
        goto done;
    }
    DQN_TRY_GOTO(dqn_versions_check());
    if (dqn_cli_has(cli, "--verify")) {
        status = verify(dqn_cli_value(cli, "--verify"));
    } else {
        status = run(cli, config, stopped);
    }
done:
    free(cli);
    free(config);
    return status;
}

int main(int argc, char **argv) {
    dqn_cli_start();
    bool stopped = false;
    enum dqn_status status = start(argc, argv, &stopped);
    if (status == DQN_OK) {
        status = dqn_cli_finish_output();
    }
    if (status != DQN_OK) {
        fprintf(stderr, "dqn-train: %s\n", dqn_error_text());
        return dqn_status_exit_code(status);
    }
    return stopped ? 128 + atomic_load(&stop_signal) : 0;
}
