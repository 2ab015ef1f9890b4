/* Command lines of the programs: one table of options a program, from which parsing, --help and
 * shell completion follow. */
#ifndef DQN_CLI_H
#define DQN_CLI_H

#include <stdio.h>

#include "base.h"

struct dqn_cli_option {
    const char *name;  /* "--resume" */
    const char *value; /* what follows it, for the help text; NULL = a flag */
    const char *help;
};

struct dqn_cli_spec {
    const char *program; /* "dqn-train" */
    const char *usage;   /* "CONFIG [options]" */
    const char *about;   /* what it does, a line or more */
    const struct dqn_cli_option *options;
    size_t n_options;
    size_t max_arguments; /* words that are no options */
};

enum { DQN_CLI_MAX = 256 };

/* What was given, in order. Points into argv. */
struct dqn_cli {
    const struct dqn_cli_spec *spec;
    size_t n_arguments;
    const char *argument[DQN_CLI_MAX];
    size_t n_given;
    struct {
        const struct dqn_cli_option *option;
        const char *value; /* NULL for flags */
    } given[DQN_CLI_MAX];
};

/* Takes argv apart: "--name value", "--name=value", flags; after "--" every word is an argument.
 * DQN_ERR_CONFIG for unknown options (naming the nearest), missing or empty values, too many words.
 */
enum dqn_status dqn_cli_parse(struct dqn_cli *cli, const struct dqn_cli_spec *spec, int argc,
                              char *const *argv);
bool dqn_cli_has(const struct dqn_cli *cli, const char *name);
/* The last value given; NULL when there was none. */
const char *dqn_cli_value(const struct dqn_cli *cli, const char *name);
/* The whole number that an option gives, `otherwise` without it. DQN_ERR_CONFIG, with the range,
 * when it is none from 1 to most. */
enum dqn_status dqn_cli_count(const struct dqn_cli *cli, const char *name, size_t most,
                              size_t otherwise, size_t *out);
/* All values of a repeated option, in order; the number of them. */
size_t dqn_cli_values(const struct dqn_cli *cli, const char *name, const char **values, size_t max);

/* Usage, about, options. */
void dqn_cli_help(const struct dqn_cli_spec *spec, FILE *out);
/* A bash completion script. */
void dqn_cli_completion(const struct dqn_cli_spec *spec, FILE *out);

/* For the start of a program.
 * A standard descriptor that the caller closed is opened on /dev/null: else the next file gets its
 * number, and messages land in it. What is printed to a closed standard output still counts as
 * lost. A write beyond the limit on file sizes (ulimit -f) fails with EFBIG, and the program says
 * so, instead of ending it by SIGXFSZ. */
void dqn_cli_start(void);

/* Hands on what was printed to the standard output and sees that all of it arrived; a program calls
 * it at the end of its work. DQN_ERR_DISK where any of it was lost (a full disk, a closed pipe). */
enum dqn_status dqn_cli_finish_output(void);

/* Edit distance of two words, for suggestions. */
size_t dqn_edit_distance(const char *a, const char *b);

#endif
