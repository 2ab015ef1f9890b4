/* dqn-data: looks at market data, checks that features do not see the future, converts files to
 * HDF5, writes synthetic markets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "file_ops.h"
#include "market/bars_write.h"
#include "market/features_check.h"
#include "market/timezone.h"
#include "unfinished.h"
#include "versions.h"

static const struct dqn_cli_option options[] = {
    {"--config", "FILE", "take data, synthetic and fill settings from a configuration"},
    {"--set", "KEY=VALUE", "change a setting, such as data.timezone=EST; may be repeated"},
    {"--parts", "N", "check: random prefixes and suffixes; default 20"},
    {"--quiet", NULL, "print warnings and errors only"},
    {"--version", NULL, "print the versions of program and libraries, then stop"},
    {"--help", NULL, "print this text, then stop"},
};

static const struct dqn_cli_spec spec = {
    .program = "dqn-data",
    .usage = "describe|check|convert|synth ...",
    .about =
        "  describe FILE...         load market data and say what was found\n"
        "  check FILE               compute features on parts of the data: they must not depend "
        "on\n"
        "                           what comes later, nor on where the file began\n"
        "  convert FILE... OUT.h5   write the loaded bars as HDF5 (several files are joined)\n"
        "  synth MARKET OUT.csv     write a synthetic market; OUT.h5 for HDF5, - for the standard\n"
        "                           output\n"
        "Files: CSV in many layouts, gzip, JSON rows, HDF5; see docs/market-data.md. Without "
        "FILE,\n"
        "describe and check take data.file, or the synthetic market.",
    .options = options,
    .n_options = DQN_COUNT_OF(options),
    .max_arguments = 200};

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* The configuration, with data.file set to the files given. */
static enum dqn_status load_config(struct dqn_config *config, const struct dqn_cli *cli,
                                   size_t first_file, size_t n_files) {
    const char *overrides[DQN_CLI_MAX];
    const char *const path = dqn_cli_value(cli, "--config");
    const size_t n = dqn_cli_values(cli, "--set", overrides, DQN_CLI_MAX);
    if (path != NULL) {
        DQN_TRY(dqn_config_load(config, path, n, overrides));
    } else {
        DQN_TRY(dqn_config_parse(config, "defaults", ".", "seed: 1\n", n, overrides));
    }
    if (n_files == 0) {
        return DQN_OK;
    }
    if (n_files > DQN_LIST_MAX) {
        return dqn_fail(DQN_ERR_CONFIG, "%zu files; %d are the limit, use a pattern such as *.csv",
                        n_files, DQN_LIST_MAX);
    }
    config->data.file.n = n_files;
    for (size_t i = 0; i < n_files; i++) {
        const char *const file = cli->argument[first_file + i];
        char folder[DQN_TEXT_MAX];
        const bool relative = file[0] != '/' && getcwd(folder, sizeof(folder)) != NULL;
        const int used = snprintf(config->data.file.v[i], DQN_TEXT_MAX, "%s%s%s",
                                  relative ? folder : "", relative ? "/" : "", file);
        if (used < 0 || used >= DQN_TEXT_MAX) {
            return dqn_fail(DQN_ERR_CONFIG, "%s: the path is longer than %d characters", file,
                            DQN_TEXT_MAX - 1);
        }
    }
    return DQN_OK;
}

static enum dqn_status run_describe(const struct dqn_cli *cli, struct dqn_config *config) {
    struct dqn_bars bars;
    DQN_TRY(load_config(config, cli, 1, cli->n_arguments - 1));
    dqn_info_to(stdout);
    DQN_TRY(dqn_bars_load(&bars, config, false));
    dqn_bars_free(&bars);
    return DQN_OK;
}

static enum dqn_status compare_parts(struct dqn_features_check *check, const struct dqn_bars *bars,
                                     const struct dqn_config *config, size_t parts) {
    const struct dqn_config_fill *const fill = &config->fill;
    struct dqn_zone *zone = NULL;
    DQN_TRY(dqn_zone_create(&zone, config->data.timezone));
    const struct dqn_feature_options look = {.taker = fill->taker_bps * 1e-4,
                                             .half_spread = fill->half_spread_bps * 1e-4,
                                             .slip = fill->slip_bps * 1e-4,
                                             .slip_vol = fill->slip_vol,
                                             .cost_scale = fill->cost_scale,
                                             .zone = zone};
    const enum dqn_status status = dqn_features_check(check, bars, &look, dqn_features_compute,
                                                      parts, (uint64_t)config->run.seed);
    dqn_zone_destroy(zone);
    return status;
}

static enum dqn_status check_bars(const struct dqn_bars *bars, const struct dqn_config *config,
                                  size_t parts) {
    struct dqn_features_check check;
    size_t failed = 0;
    DQN_TRY(compare_parts(&check, bars, config, parts));
    printf("%-18s %14s %14s\n", "feature", "later bars cut", "earlier cut");
    for (size_t f = 0; f < DQN_MARKET_FEATURES; f++) {
        printf("%-18s %14.3g %14.3g\n", dqn_feature_name(f), check.prefix[f], check.suffix[f]);
    }
    if (!dqn_features_check_passes(&check, &failed)) {
        return dqn_fail(
            DQN_ERR_DATA,
            "feature %s differs by %g when later bars are cut off (0 is allowed) and by "
            "%g when earlier ones are (below %g is allowed)",
            dqn_feature_name(failed), check.prefix[failed], check.suffix[failed],
            DQN_FEATURES_CHECK_LATE);
    }
    printf("passed: %zu prefix%s, %zu suffix%s\n", check.n_prefixes,
           check.n_prefixes == 1 ? "" : "es", check.n_suffixes, check.n_suffixes == 1 ? "" : "es");
    return DQN_OK;
}

static enum dqn_status run_check(const struct dqn_cli *cli, struct dqn_config *config) {
    struct dqn_bars bars;
    size_t parts = 0;
    DQN_TRY(dqn_cli_count(cli, "--parts", 100000, 20, &parts));
    DQN_TRY(load_config(config, cli, 1, cli->n_arguments - 1));
    DQN_TRY(dqn_bars_load(&bars, config, false));
    const enum dqn_status status = check_bars(&bars, config, parts);
    dqn_bars_free(&bars);
    return status;
}

/* One line of what a file holds now; its size only where it has one (no pipe). */
static void say_written(const struct dqn_bars *bars, const char *path) {
    char span[128], bytes[32];
    struct stat info;
    const bool sized = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    dqn_info("written: %s: %s%s%s", path, dqn_bars_span_text(span, sizeof(span), bars),
             sized ? ", " : "",
             sized ? dqn_format_bytes(bytes, sizeof(bytes), (uint64_t)info.st_size) : "");
}

static bool names_hdf5(const char *path) {
    return ends_with(path, ".h5") || ends_with(path, ".hdf5");
}

/* Before any work: that it is none of the inputs, and can be written. */
static enum dqn_status check_output(const char *path, const struct dqn_config *config) {
    DQN_TRY(dqn_bars_check_apart(config, path));
    return names_hdf5(path) ? dqn_file_check_target(path) : dqn_bars_check_csv_target(path);
}

static enum dqn_status write_bars(const struct dqn_bars *bars, const char *path,
                                  const struct dqn_config *config) {
    DQN_TRY(names_hdf5(path) ? dqn_bars_write_hdf5(bars, path, &config->data)
                             : dqn_bars_write_csv(bars, path));
    if (!dqn_file_is_standard_output(path)) {
        say_written(bars, path);
    }
    return DQN_OK;
}

static enum dqn_status run_convert(const struct dqn_cli *cli, struct dqn_config *config) {
    struct dqn_bars bars;
    if (cli->n_arguments < 3) {
        return dqn_fail(DQN_ERR_CONFIG, "convert needs FILE and OUT.h5; see dqn-data --help");
    }
    const char *const out = cli->argument[cli->n_arguments - 1];
    if (!names_hdf5(out)) {
        return dqn_fail(DQN_ERR_CONFIG, "%s: the output's name must end in .h5", out);
    }
    DQN_TRY(load_config(config, cli, 1, cli->n_arguments - 2));
    DQN_TRY(check_output(out, config));
    DQN_TRY(dqn_bars_load(&bars, config, false));
    const enum dqn_status status = write_bars(&bars, out, config);
    dqn_bars_free(&bars);
    return status;
}

/* Index of a synthetic market; with every name in `list` on the way. -1 when there is none. */
static int find_market(const char *wanted, char *list, size_t size) {
    int found = -1;
    size_t used = 0;
    list[0] = '\0';
    for (int i = 0;; i++) {
        const char *const name = dqn_config_choice("synthetic.market", i);
        if (strcmp(name, "?") == 0) {
            return found;
        }
        found = strcmp(name, wanted) == 0 ? i : found;
        const int n = snprintf(list + used, size - used, "%s%s", i > 0 ? ", " : "", name);
        used = n > 0 && (size_t)n < size - used ? used + (size_t)n : used;
    }
}

static void print_help(void) {
    char markets[512];
    dqn_cli_help(&spec, stdout);
    find_market("", markets, sizeof(markets));
    printf("\nmarkets of synth: %s\n", markets);
}

static enum dqn_status run_synth(const struct dqn_cli *cli, struct dqn_config *config) {
    struct dqn_bars bars;
    if (cli->n_arguments != 3) {
        return dqn_fail(DQN_ERR_CONFIG, "synth needs MARKET and OUT.csv; see dqn-data --help");
    }
    if (cli->argument[2][0] == 0) {
        return dqn_fail(DQN_ERR_CONFIG, "synth: the output has an empty name; give a file, or -");
    }
    DQN_TRY(load_config(config, cli, 0, 0));
    const char *const wanted = cli->argument[1];
    char markets[512];
    const int market = find_market(wanted, markets, sizeof(markets));
    if (market < 0) {
        return dqn_fail(DQN_ERR_CONFIG, "synth %s: the markets are %s", wanted, markets);
    }
    config->synthetic.market = market;
    config->data.file.n = 0;
    DQN_TRY(check_output(cli->argument[2], config));
    DQN_TRY(dqn_bars_load(&bars, config, false));
    const enum dqn_status status = write_bars(&bars, cli->argument[2], config);
    dqn_bars_free(&bars);
    return status;
}

static enum dqn_status run(const struct dqn_cli *cli) {
    static const struct {
        const char *name;
        enum dqn_status (*run)(const struct dqn_cli *cli, struct dqn_config *config);
    } commands[] = {{"describe", run_describe},
                    {"check", run_check},
                    {"convert", run_convert},
                    {"synth", run_synth}};
    void *memory = NULL;
    const char *const name = cli->n_arguments > 0 ? cli->argument[0] : "";
    for (size_t i = 0; i < DQN_COUNT_OF(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_config), "configuration"));
            const enum dqn_status status = commands[i].run(cli, memory);
            free(memory);
            return status;
        }
    }
    return dqn_fail(DQN_ERR_CONFIG,
                    "%s%s%s: give describe, check, convert or synth; see dqn-data --help",
                    name[0] != 0 ? "\"" : "", name[0] != 0 ? name : "no command",
                    name[0] != 0 ? "\" is no command" : "");
}

int main(int argc, char **argv) {
    dqn_cli_start();
    dqn_unfinished_watch();
    struct dqn_cli cli;
    enum dqn_status status = dqn_cli_parse(&cli, &spec, argc, argv);
    if (status == DQN_OK && dqn_cli_has(&cli, "--help")) {
        print_help();
    } else if (status == DQN_OK && dqn_cli_has(&cli, "--version")) {
        dqn_versions_print(stdout);
    } else if (status == DQN_OK) {
        dqn_log_set_quiet(dqn_cli_has(&cli, "--quiet"));
        status = run(&cli);
    }
    status = status == DQN_OK ? dqn_cli_finish_output() : status;
    if (status != DQN_OK) {
        fprintf(stderr, "dqn-data: %s\n", dqn_error_text());
    }
    return dqn_status_exit_code(status);
}
