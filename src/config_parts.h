/* What the parts of the configuration share: the key table made from the schema, values as text,
 * and where a value was written. For src/config*.c and their tests. */
#ifndef DQN_CONFIG_PARTS_H
#define DQN_CONFIG_PARTS_H

#include "config.h"

enum dqn_key_kind {
    DQN_KEY_BOOL,
    DQN_KEY_INT,
    DQN_KEY_REAL,
    DQN_KEY_TEXT,
    DQN_KEY_CHOICE,
    DQN_KEY_INTS,
    DQN_KEY_REALS,
    DQN_KEY_TEXTS
};

enum dqn_key_resume { DQN_RESUME_MAY, DQN_RESUME_IGNORED, DQN_RESUME_REFUSED };

/* A line of the schema. */
struct dqn_key {
    enum dqn_key_kind kind;
    enum dqn_key_resume resume;
    const char *name; /* without the section */
    const char *def, *range, *unit, *help;
    size_t offset, bytes; /* of the member in its section's struct */
};

/* A key with its section. */
struct dqn_key_ref {
    const char *section; /* "" for the keys without one */
    const struct dqn_key *key;
    size_t offset; /* in struct dqn_config */
    char path[96]; /* "section.key" */
};

size_t dqn_key_count(void);
struct dqn_key_ref dqn_key_at(size_t i);
/* False when there is no such key. */
bool dqn_key_find(const char *path, struct dqn_key_ref *out);
/* Whether keys start with "path.". */
bool dqn_key_is_group(const char *path);
/* The text after "x is unknown": the nearest valid name, or where to look. */
void dqn_key_suggest(const char *path, char *text, size_t size);
/* The nearest of "a|b|c" to a text; "" when none is near. */
void dqn_choice_nearest(const char *range, const char *text, char *out, size_t size);
/* Copies entry `index` of "a|b|c" (a leading bar is skipped); false when there is none. */
bool dqn_choice_entry(const char *range, int index, char *out, size_t size);

/* A scalar as it was written. */
struct dqn_scalar {
    const char *text;
    bool quoted; /* then it is text, whatever it looks like */
    int line, column;
};

/* Parses and checks one value into a config. `values` has one element for a single scalar and
 * `is_list` tells a list from that. On failure the text says "path = value ..." without the place,
 * and *at is the scalar that is wrong. */
enum dqn_status dqn_key_set(struct dqn_config *config, const struct dqn_key_ref *ref,
                            const struct dqn_scalar *values, size_t n, bool is_list, size_t *at);

/* The range "(0, 1]" holds the number; else the text says on which side it is out. `name` is
 * "path = value". Reals and whole numbers, the latter exact. */
enum dqn_status dqn_range_check_real(const char *range, const char *name, double value);
enum dqn_status dqn_range_check_int(const char *range, const char *name, int64_t value);

/* Shortest decimal text that reads back to the same double, in any locale. */
const char *dqn_real_text(char *text, size_t size, double value);
/* Writes a key's value as YAML. */
void dqn_key_write(FILE *out, const struct dqn_config *config, const struct dqn_key_ref *ref);

/* Reads YAML text of `bytes` bytes into config. Errors name source:line:column. */
enum dqn_status dqn_config_yaml(struct dqn_config *config, const char *source, const char *text,
                                size_t bytes);

/* The rules that join several keys. The text has no place. */
enum dqn_status dqn_config_rules(const struct dqn_config *config);

#endif
