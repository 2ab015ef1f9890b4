/* Resume rules of every configuration key: each in turn gets another value, and what happens is
 * what the schema says. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

enum rule { MAY, IGNORED, REFUSED };

struct key {
    const char *section, *name, *kind, *value, *range;
    enum rule rule;
};

#define LIST_KEY(kind, key, member, def, range, unit, resume, help)                                \
    {NULL, key, #kind, def, range, resume},
#define LIST_SECTION(name, member, list) {name, NULL, NULL, NULL, NULL, MAY}, list(LIST_KEY)

/* Sections are lines without a key's name. */
static const struct key keys[] = {DQN_CONFIG_SECTIONS(LIST_SECTION)};

/* The synthetic market with which every other value is allowed. */
static const char base_text[] = "synthetic: {market: ou}\n";

/* Values that differ from the default and are allowed together with all other defaults. */
static const char *const particular[][2] = {{"net.hidden", "[8, 8]"},
                                            {"data.file", "[x.csv]"},
                                            {"data.columns", "[timestamp, open, high, low, close]"},
                                            {"data.split", "[0.5, 0.25, 0.25]"},
                                            {"data.split_bars", "[0, 9, 9, 12, 12, 15]"},
                                            {"data.timezone", "Europe/Berlin"},
                                            {"env.observation", "oracle"},
                                            {"env.name", "cartpole"},
                                            {"fill.fixed_cost", "0.001"},
                                            {"learner.lr_end", "1e-4"}};

/* Another value of the key: the second choice, the other truth, or a number near the default. */
static void other_value(const struct key *key, const char *path, char *out, size_t size) {
    for (size_t i = 0; i < sizeof particular / sizeof particular[0]; i++) {
        if (strcmp(path, particular[i][0]) == 0) {
            snprintf(out, size, "%s", particular[i][1]);
            return;
        }
    }
    if (strcmp(key->kind, "BOOL") == 0) {
        snprintf(out, size, "%s", strcmp(key->value, "true") == 0 ? "false" : "true");
    } else if (strcmp(key->kind, "CHOICE") == 0) {
        char choices[256];
        snprintf(choices, sizeof choices, "%s", key->range);
        char *rest = choices, *choice = strtok_r(rest, "|", &rest);
        while (choice != NULL && strcmp(choice, key->value) == 0) {
            choice = strtok_r(NULL, "|", &rest);
        }
        snprintf(out, size, "%s", choice);
    } else if (strcmp(key->kind, "INT") == 0) {
        const long long value = strtoll(key->value, NULL, 10);
        snprintf(out, size, "%lld", strstr(key->range, ", 1]") != NULL ? 1 - value : value + 1);
    } else if (strcmp(key->kind, "REAL") == 0) {
        const double value = strtod(key->value, NULL);
        snprintf(out, size, "%.17g", value != 0 ? value * 0.75 : 0.0625);
    } else {
        snprintf(out, size, "other");
    }
}

struct said {
    int n;
    char line[512];
};

static void keep_line(void *context, const char *line) {
    struct said *said = context;
    said->n++;
    snprintf(said->line, sizeof said->line, "%s", line);
}

static struct dqn_config saved, changed;

/* fixed_notional and linear come together or not at all. */
static void parse_changed(const char *path, const char *set) {
    const bool together = strcmp(path, "env.sizing") == 0 || strcmp(path, "reward.kind") == 0;
    const char *const overrides[] = {
        set, strcmp(path, "env.sizing") == 0 ? "reward.kind=linear" : "env.sizing=fixed_notional"};
    const size_t n = together ? 2 : 1;
    cr_expect_eq(dqn_config_parse(&changed, "test", ".", base_text, n, overrides), DQN_OK, "%s",
                 dqn_error_text());
}

static void check_refused(const struct key *key, const char *path, enum dqn_status status) {
    const char *text = dqn_error_text();
    char old[128];
    snprintf(old, sizeof old, "%s",
             strcmp(path, "synthetic.market") == 0 ? "ou"
             : strcmp(path, "reward.kind") == 0    ? "equity"
                                                   : key->value);
    if (strcmp(key->kind, "REAL") == 0) {
        snprintf(old, sizeof old, "%g", strtod(key->value, NULL));
    }
    cr_expect_eq(status, DQN_ERR_CONFIG, "%s was accepted", path);
    cr_expect_not_null(strstr(text, old), "%s: the old value %s is missing", text, old);
    /* Of the two keys that change together the first is named. */
    cr_expect(strncmp(text, path, strlen(path)) == 0 || strcmp(path, "reward.kind") == 0, "%s",
              text);
}

static void check_key(const struct key *key, const char *path, const char *value) {
    char set[256];
    struct said said = {0};
    snprintf(set, sizeof set, "%s=%s", path, value);
    parse_changed(path, set);
    const enum dqn_status status = dqn_config_resume(&changed, &saved, keep_line, &said);
    if (key->rule == REFUSED) {
        check_refused(key, path, status);
        return;
    }
    cr_expect_eq(status, DQN_OK, "%s: %s", path, dqn_error_text());
    cr_expect_eq(said.n, 1, "%s: %d lines", path, said.n);
    cr_expect_eq(strncmp(said.line, path, strlen(path)), 0, "%s", said.line);
    cr_expect_not_null(strstr(said.line, key->rule == MAY ? "now in force" : "ignored"), "%s",
                       said.line);
}

Test(resume_keys, each_key_follows_its_rule) {
    const char *section = "";
    size_t n[3] = {0};
    cr_assert_eq(dqn_config_parse(&saved, "test", ".", base_text, 0, NULL), DQN_OK, "%s",
                 dqn_error_text());
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].name == NULL) {
            section = keys[i].section;
            continue;
        }
        char path[128], value[128];
        snprintf(path, sizeof path, "%s%s%s", section, section[0] != '\0' ? "." : "", keys[i].name);
        other_value(&keys[i], path, value, sizeof value);
        check_key(&keys[i], path, value);
        n[keys[i].rule]++;
    }
    cr_log_info("%zu keys may change, %zu are ignored, %zu are refused", n[MAY], n[IGNORED],
                n[REFUSED]);
    cr_expect(n[MAY] > 30 && n[REFUSED] > 60);
}

/* What gives shape to the saved data is refused. */
Test(resume_keys, shapes_cannot_change) {
    static const char *const shapes[] = {"replay.capacity", "collect.n_step", "net.hidden",
                                         "env.lanes",       "env.name",       "net.dueling"};
    const char *section = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].name == NULL) {
            section = keys[i].section;
            continue;
        }
        char path[128];
        snprintf(path, sizeof path, "%s.%s", section, keys[i].name);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            if (strcmp(path, shapes[s]) == 0) {
                n++;
                cr_expect_eq(keys[i].rule, REFUSED, "%s", path);
            }
        }
    }
    cr_expect_eq(n, sizeof shapes / sizeof shapes[0]);
}
