/* Command lines: what is taken, what is refused, and the texts made from the table. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct dqn_cli_option options[] = {
    {"--set", "KEY=VALUE", "set a key"},
    {"--resume", "PATH", "go on"},
    {"--quiet", NULL, "say less"},
};
static const struct dqn_cli_spec spec = {.program = "prog",
                                         .usage = "CONFIG [options]",
                                         .about = "Does it.",
                                         .options = options,
                                         .n_options = DQN_COUNT_OF(options),
                                         .max_arguments = 1};

static struct dqn_cli cli;

/* Parses up to seven words. */
static enum dqn_status parse(const char *const *words) {
    char *argv[8] = {strdup("prog")};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = strdup(words[argc - 1]);
    }
    return dqn_cli_parse(&cli, &spec, argc, argv);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

Test(cli, options_and_words_in_any_order) {
    const char *sets[4];
    cr_assert_eq(PARSE("--set", "a=1", "run.yaml", "--set=b=2", "--quiet"), DQN_OK);
    cr_expect_eq(cli.n_arguments, 1);
    cr_expect_str_eq(cli.argument[0], "run.yaml");
    cr_expect(dqn_cli_has(&cli, "--quiet"));
    cr_expect(!dqn_cli_has(&cli, "--resume"));
    cr_expect_null(dqn_cli_value(&cli, "--resume"));
    cr_expect_eq(dqn_cli_values(&cli, "--set", sets, 4), 2);
    cr_expect_str_eq(sets[0], "a=1");
    cr_expect_str_eq(sets[1], "b=2");
    cr_expect_str_eq(dqn_cli_value(&cli, "--set"), "b=2");
}

Test(cli, names_with_a_leading_hyphen_come_after_two_hyphens) {
    cr_assert_eq(PARSE("--quiet", "--", "-run.yaml"), DQN_OK);
    cr_expect_str_eq(cli.argument[0], "-run.yaml");
    cr_assert_eq(PARSE("--set", "name=-x", "--resume", "--quiet"), DQN_OK);
    cr_expect_str_eq(dqn_cli_value(&cli, "--resume"), "--quiet");
}

Test(cli, wrong_words_are_refused) {
    cr_expect_eq(PARSE("--qiuet"), DQN_ERR_CONFIG);
    cr_expect_not_null(strstr(dqn_error_text(), "--qiuet; did you mean --quiet?"));
    cr_expect_eq(PARSE("--resume"), DQN_ERR_CONFIG);
    cr_expect_str_eq(dqn_error_text(), "--resume needs a value: --resume PATH");
    cr_expect_eq(PARSE("--quiet=1"), DQN_ERR_CONFIG);
    cr_expect_eq(PARSE("a.yaml", "b.yaml"), DQN_ERR_CONFIG);
    cr_expect_not_null(strstr(dqn_error_text(), "'b.yaml' is one word too many"));
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_CONFIG), 2);
}

Test(cli, help_and_completion_name_every_option) {
    void (*const print[])(const struct dqn_cli_spec *, FILE *) = {dqn_cli_help, dqn_cli_completion};
    for (size_t p = 0; p < DQN_COUNT_OF(print); p++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        print[p](&spec, out);
        fclose(out);
        for (size_t i = 0; i < DQN_COUNT_OF(options); i++) {
            cr_expect_not_null(strstr(text, options[i].name), "%s", text);
        }
        cr_expect_not_null(strstr(text, "prog"));
        free(text);
    }
}

Test(cli, edit_distances_of_known_pairs) {
    cr_expect_eq(dqn_edit_distance("kitten", "sitting"), 3);
    cr_expect_eq(dqn_edit_distance("", "abc"), 3);
    cr_expect_eq(dqn_edit_distance("abc", ""), 3);
    cr_expect_eq(dqn_edit_distance("same", "same"), 0);
}

Test(cli, output_that_was_lost_is_an_error) {
    cr_assert_eq(dqn_cli_finish_output(), DQN_OK);
    const int kept = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
    cr_assert(kept >= 0 && full >= 0);
    dup2(full, STDOUT_FILENO);
    printf("a line\n");
    const enum dqn_status status = dqn_cli_finish_output();
    const enum dqn_status again = dqn_cli_finish_output(); /* the stream remembers */
    dup2(kept, STDOUT_FILENO);
    clearerr(stdout);
    close(full);
    close(kept);
    cr_expect_eq(status, DQN_ERR_DISK);
    cr_expect_eq(again, DQN_ERR_DISK);
    cr_expect_not_null(strstr(dqn_error_text(), "the standard output could not be written"));
    cr_expect_eq(dqn_cli_finish_output(), DQN_OK);
}

/* An option that counts: the last one given, within its range, or nothing at all. */
Test(cli, counts) {
    static const char *const refused[] = {"0", "-1", "9", "2x", "x", "99999999999999999999", "1.5"};
    size_t n = 0;
    cr_assert_eq(PARSE("run.yaml"), DQN_OK);
    cr_expect_eq(dqn_cli_count(&cli, "--resume", 8, 3, &n), DQN_OK);
    cr_expect_eq(n, 3);
    cr_assert_eq(PARSE("--resume", "1", "--resume", "8"), DQN_OK);
    cr_expect_eq(dqn_cli_count(&cli, "--resume", 8, 3, &n), DQN_OK);
    cr_expect_eq(n, 8);
    for (size_t i = 0; i < DQN_COUNT_OF(refused); i++) {
        cr_assert_eq(PARSE("--resume", refused[i]), DQN_OK);
        cr_expect_eq(dqn_cli_count(&cli, "--resume", 8, 3, &n), DQN_ERR_CONFIG, "%s", refused[i]);
        cr_expect_not_null(strstr(dqn_error_text(), "give a whole number from 1 to 8"));
    }
    cr_expect_eq(n, 8);
}
