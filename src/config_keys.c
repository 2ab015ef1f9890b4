/* The key table, made from the schema, and the search for the nearest valid name. */
#include <stddef.h>
#include <string.h>

#include "cli.h"
#include "config_parts.h"

struct section {
    const char *name;
    const struct dqn_key *keys;
    size_t n, offset;
};

/* One function a section: the local name `self` lets a schema line reach its own struct. */
#define KEY_ENTRY(kind, key, member, def, range, unit, resume, help)                               \
    {DQN_KEY_##kind,         DQN_RESUME_##resume,           key, def, range, unit, help,           \
     offsetof(self, member), sizeof(((self *)NULL)->member)},
#define SECTION_FUNCTION(name_text, member, list)                                                  \
    static struct section section_##member(void) {                                                 \
        typedef struct dqn_config_##member self;                                                   \
        static const struct dqn_key keys[] = {list(KEY_ENTRY)};                                    \
        return (struct section){name_text, keys, DQN_COUNT_OF(keys),                               \
                                offsetof(struct dqn_config, member)};                              \
    }
DQN_CONFIG_SECTIONS(SECTION_FUNCTION)

#define SECTION_POINTER(name, member, list) section_##member,
static struct section (*const section_table[])(void) = {DQN_CONFIG_SECTIONS(SECTION_POINTER)};

size_t dqn_key_count(void) {
    size_t n = 0;
    for (size_t s = 0; s < DQN_COUNT_OF(section_table); s++) {
        n += section_table[s]().n;
    }
    return n;
}

struct dqn_key_ref dqn_key_at(size_t i) {
    for (size_t s = 0; s < DQN_COUNT_OF(section_table); s++) {
        const struct section section = section_table[s]();
        if (i < section.n) {
            const struct dqn_key *key = &section.keys[i];
            struct dqn_key_ref ref = {
                .section = section.name, .key = key, .offset = section.offset + key->offset};
            snprintf(ref.path, sizeof ref.path, "%s%s%s", section.name,
                     section.name[0] != '\0' ? "." : "", key->name);
            return ref;
        }
        i -= section.n;
    }
    dqn_check_failed("key index is in the table", __FILE__, __LINE__);
}

bool dqn_key_find(const char *path, struct dqn_key_ref *out) {
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        if (strcmp(ref.path, path) == 0) {
            *out = ref;
            return true;
        }
    }
    return false;
}

bool dqn_key_is_group(const char *path) {
    const size_t length = strlen(path);
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        if (strncmp(ref.path, path, length) == 0 && ref.path[length] == '.') {
            return true;
        }
    }
    return false;
}

bool dqn_choice_entry(const char *range, int index, char *out, size_t size) {
    const char *start = range[0] == '|' ? range + 1 : range;
    for (int i = 0; i < index; i++) {
        start = strchr(start, '|');
        if (start == NULL) {
            return false;
        }
        start++;
    }
    const size_t length = strcspn(start, "|");
    snprintf(out, size, "%.*s", (int)length, start);
    return true;
}

/* How many edits still count as a slip. */
static size_t near_limit(const char *text) {
    const size_t third = strlen(text) / 3;
    return third < 1 ? 1 : third > 4 ? 4 : third;
}

void dqn_choice_nearest(const char *range, const char *text, char *out, size_t size) {
    char entry[64];
    /* In words of three letters one change is too much: gpu is not cpu. */
    size_t best = strlen(text) > 3 ? near_limit(text) + 1 : 0;
    out[0] = '\0';
    for (int i = 0; dqn_choice_entry(range, i, entry, sizeof entry); i++) {
        const size_t d = dqn_edit_distance(text, entry);
        if (d < best) {
            best = d;
            snprintf(out, size, "%s", entry);
        }
    }
}

static const char *last_part(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL ? dot + 1 : path;
}

/* The same key name in another section; false when no section has it. */
static bool suggest_section(const char *path, char *text, size_t size) {
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        if (strcmp(ref.key->name, last_part(path)) != 0) {
            continue;
        }
        if (ref.section[0] == '\0') {
            snprintf(text, size, "%s is a key of the top level", ref.path);
        } else {
            snprintf(text, size, "%s is a key of section %s", ref.path, ref.section);
        }
        return true;
    }
    return false;
}

/* Nearest by the whole path, or else by the last part alone; "" when nothing is near. */
static void suggest_nearest(const char *path, char *out, size_t size) {
    size_t best = near_limit(path) + 1;
    size_t best_part = near_limit(last_part(path)) + 1;
    char part[96] = "";
    out[0] = '\0';
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        const size_t d = dqn_edit_distance(path, ref.path);
        if (d < best) {
            best = d;
            snprintf(out, size, "%s", ref.path);
        }
        const size_t d_part = dqn_edit_distance(last_part(path), last_part(ref.path));
        if (d_part < best_part) {
            best_part = d_part;
            snprintf(part, sizeof part, "%s", ref.path);
        }
    }
    /* A part that is nearer than the path points at the right key in the wrong section. */
    if (part[0] != '\0' && (out[0] == '\0' || best_part < best)) {
        snprintf(out, size, "%s", part);
    }
    for (size_t s = 0; s < DQN_COUNT_OF(section_table); s++) {
        const struct section section = section_table[s]();
        const size_t d = dqn_edit_distance(path, section.name);
        if (section.name[0] != '\0' && d <= near_limit(path) && d < best) {
            best = d;
            snprintf(out, size, "%s", section.name);
        }
    }
}

void dqn_key_suggest(const char *path, char *text, size_t size) {
    char fixed[96];
    char nearest[96];
    snprintf(fixed, sizeof fixed, "%s", path);
    for (char *c = fixed; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    struct dqn_key_ref ref;
    if (dqn_key_find(fixed, &ref)) {
        snprintf(text, size, "write %s", ref.path);
        return;
    }
    if (suggest_section(fixed, text, size)) {
        return;
    }
    suggest_nearest(fixed, nearest, sizeof nearest);
    if (nearest[0] != '\0') {
        snprintf(text, size, "did you mean %s?", nearest);
    } else {
        snprintf(text, size, "--help lists the keys");
    }
}
