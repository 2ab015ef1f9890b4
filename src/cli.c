#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 128 };

size_t dqn_edit_distance(const char *a, const char *b) {
    size_t row[WORD_MAX + 1];
    const size_t n = strnlen(b, WORD_MAX);
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            const size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            const size_t added = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            row[j + 1] = replaced < added ? replaced : added;
        }
    }
    return row[n];
}

static const struct dqn_cli_option *find(const struct dqn_cli_spec *spec, const char *name,
                                         size_t length) {
    for (size_t i = 0; i < spec->n_options; i++) {
        if (strlen(spec->options[i].name) == length &&
            memcmp(spec->options[i].name, name, length) == 0) {
            return &spec->options[i];
        }
    }
    return NULL;
}

static enum dqn_status unknown(const struct dqn_cli_spec *spec, const char *name) {
    const struct dqn_cli_option *nearest = &spec->options[0];
    for (size_t i = 1; i < spec->n_options; i++) {
        if (dqn_edit_distance(name, spec->options[i].name) <
            dqn_edit_distance(name, nearest->name)) {
            nearest = &spec->options[i];
        }
    }
    return dqn_fail(DQN_ERR_CONFIG, "%s has no option %s; did you mean %s? %s --help lists all",
                    spec->program, name, nearest->name, spec->program);
}

static enum dqn_status add_argument(struct dqn_cli *cli, const char *word) {
    if (cli->n_arguments == cli->spec->max_arguments || cli->n_arguments == DQN_CLI_MAX) {
        return dqn_fail(DQN_ERR_CONFIG, "'%s' is one word too many; usage: %s %s", word,
                        cli->spec->program, cli->spec->usage);
    }
    if (word[0] == '\0') {
        return dqn_fail(DQN_ERR_CONFIG, "a word of the command line is empty; usage: %s %s",
                        cli->spec->program, cli->spec->usage);
    }
    cli->argument[cli->n_arguments++] = word;
    return DQN_OK;
}

/* Takes the option at argv[*at], and its value with it. */
static enum dqn_status add_option(struct dqn_cli *cli, int argc, char *const *argv, int *at) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct dqn_cli_option *option = find(cli->spec, word, length);
    if (option == NULL) {
        return unknown(cli->spec, word);
    }
    const char *value = NULL;
    if (option->value == NULL && equals != NULL) {
        return dqn_fail(DQN_ERR_CONFIG, "%s takes no value", option->name);
    }
    if (option->value != NULL) {
        value = equals != NULL ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
        if (value != NULL && value[0] == '\0') {
            return dqn_fail(DQN_ERR_CONFIG, "%s has an empty value; it takes %s", option->name,
                            option->value);
        }
        if (value == NULL) {
            return dqn_fail(DQN_ERR_CONFIG, "%s needs a value: %s %s", option->name, option->name,
                            option->value);
        }
    }
    if (cli->n_given == DQN_CLI_MAX) {
        return dqn_fail(DQN_ERR_CONFIG, "more than %d options", DQN_CLI_MAX);
    }
    cli->given[cli->n_given].option = option;
    cli->given[cli->n_given++].value = value;
    return DQN_OK;
}

enum dqn_status dqn_cli_parse(struct dqn_cli *cli, const struct dqn_cli_spec *spec, int argc,
                              char *const *argv) {
    memset(cli, 0, sizeof *cli);
    cli->spec = spec;
    bool words_only = false;
    for (int i = 1; i < argc; i++) {
        if (!words_only && strcmp(argv[i], "--") == 0) {
            words_only = true;
        } else if (!words_only && argv[i][0] == '-' && argv[i][1] != '\0') {
            DQN_TRY(add_option(cli, argc, argv, &i));
        } else {
            DQN_TRY(add_argument(cli, argv[i]));
        }
    }
    return DQN_OK;
}

bool dqn_cli_has(const struct dqn_cli *cli, const char *name) {
    for (size_t i = 0; i < cli->n_given; i++) {
        if (strcmp(cli->given[i].option->name, name) == 0) {
            return true;
        }
    }
    return false;
}

size_t dqn_cli_values(const struct dqn_cli *cli, const char *name, const char **values,
                      size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < cli->n_given && n < max; i++) {
        if (strcmp(cli->given[i].option->name, name) == 0) {
            values[n++] = cli->given[i].value;
        }
    }
    return n;
}

const char *dqn_cli_value(const struct dqn_cli *cli, const char *name) {
    const char *values[DQN_CLI_MAX];
    const size_t n = dqn_cli_values(cli, name, values, DQN_CLI_MAX);
    return n > 0 ? values[n - 1] : NULL;
}

enum dqn_status dqn_cli_count(const struct dqn_cli *cli, const char *name, size_t most,
                              size_t otherwise, size_t *out) {
    const char *text = dqn_cli_value(cli, name);
    char *end = NULL;
    const long n = text != NULL ? strtol(text, &end, 10) : (long)otherwise;
    if (text != NULL && (end == text || *end != '\0' || n < 1 || (size_t)n > most)) {
        return dqn_fail(DQN_ERR_CONFIG, "%s %s: give a whole number from 1 to %zu", name, text,
                        most);
    }
    *out = (size_t)n;
    return DQN_OK;
}

void dqn_cli_help(const struct dqn_cli_spec *spec, FILE *out) {
    fprintf(out, "usage: %s %s\n\n%s\n\noptions:\n", spec->program, spec->usage, spec->about);
    for (size_t i = 0; i < spec->n_options; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", spec->options[i].name,
                 spec->options[i].value != NULL ? spec->options[i].value : "");
        fprintf(out, "  %-28s %s\n", left, spec->options[i].help);
    }
}

void dqn_cli_completion(const struct dqn_cli_spec *spec, FILE *out) {
    fprintf(out, "# Load with: source <(%s --completion)\ncomplete -o default -W '", spec->program);
    for (size_t i = 0; i < spec->n_options; i++) {
        fprintf(out, "%s%s", i == 0 ? "" : " ", spec->options[i].name);
    }
    fprintf(out, "' %s\n", spec->program);
}

void dqn_cli_start(void) {
    /* Reading only, on the standard output too: a write there fails, and is noticed at the end. */
    static const int flags[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            const int opened = open("/dev/null", flags[fd]); /* the lowest number is taken */
            DQN_CHECK(opened == fd || opened < 0);
        }
    }
    signal(SIGXFSZ, SIG_IGN);
}

enum dqn_status dqn_cli_finish_output(void) {
    errno = 0;
    const bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (!lost) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_DISK,
                    "the standard output could not be written in full%s%s: what was printed is not "
                    "complete; give it a place with space and run again",
                    errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
}
