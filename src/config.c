/* Defaults, the file, overrides, paths, and what a resumed run may change. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_parts.h"

enum { MAX_FILE_BYTES = 4 * 1000 * 1000, OVERRIDE_MAX = 4096 };

/* Splits "a, b" at commas in place; brackets around it may be there. Returns the count, at most
 * one more than a list may have. */
static size_t split_list(char *text, struct dqn_scalar *values) {
    size_t length = strlen(text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text[length - 1] = '\0';
        text++;
    }
    if (text[strspn(text, " ")] == '\0') {
        return 0;
    }
    size_t n = 0;
    for (char *rest = text; rest != NULL && n <= DQN_LIST_MAX;) {
        char *part = strsep(&rest, ",");
        part += strspn(part, " ");
        for (length = strlen(part); length > 0 && part[length - 1] == ' '; length--) {
            part[length - 1] = '\0';
        }
        values[n++] = (struct dqn_scalar){.text = part};
    }
    return n;
}

/* A value given as one text: a default, or behind the '=' of an override. */
static enum dqn_status set_from_text(struct dqn_config *config, const struct dqn_key_ref *ref,
                                     char *text) {
    struct dqn_scalar values[DQN_LIST_MAX + 1] = {{0}};
    size_t at = 0;
    if (ref->key->kind >= DQN_KEY_INTS) {
        const size_t n = split_list(text, values);
        return dqn_key_set(config, ref, values, n, true, &at);
    }
    /* A shell has taken the quotes away, so a text is as good as quoted. */
    values[0] = (struct dqn_scalar){.text = text, .quoted = ref->key->kind == DQN_KEY_TEXT};
    return dqn_key_set(config, ref, values, 1, false, &at);
}

void dqn_config_defaults(struct dqn_config *config) {
    /* Padding and the unused ends of texts are zeros, so that equal configs are equal bytes. */
    memset(config, 0, sizeof *config);
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        char text[128];
        snprintf(text, sizeof text, "%s", ref.key->def);
        const enum dqn_status status = set_from_text(config, &ref, text);
        DQN_CHECK(status == DQN_OK);
    }
}

static enum dqn_status apply_override(struct dqn_config *config, const char *override) {
    char text[OVERRIDE_MAX];
    char suggestion[160];
    struct dqn_key_ref ref;
    if (strlen(override) >= sizeof text) {
        return dqn_fail(DQN_ERR_CONFIG, "--set %.40s...: is longer than %d bytes", override,
                        OVERRIDE_MAX - 1);
    }
    snprintf(text, sizeof text, "%s", override);
    char *value = strchr(text, '=');
    if (value == NULL || value == text) {
        return dqn_fail(DQN_ERR_CONFIG, "--set %.80s: write key=value, such as replay.alpha=0.5",
                        override);
    }
    *value++ = '\0';
    if (!dqn_key_find(text, &ref)) {
        if (dqn_key_is_group(text)) {
            return dqn_fail(DQN_ERR_CONFIG, "--set %.80s: %s is a section; name a key of it",
                            override, text);
        }
        dqn_key_suggest(text, suggestion, sizeof suggestion);
        return dqn_fail(DQN_ERR_CONFIG, "--set %.80s: %.80s is unknown; %s", override, text,
                        suggestion);
    }
    const enum dqn_status status = set_from_text(config, &ref, value);
    return status == DQN_OK ? DQN_OK : dqn_fail_prefix(status, "--set %.80s", override);
}

/* ---- paths ---------------------------------------------------------------------------------- */

/* Takes leading "./" and "../" off `path`, and for each of the latter a part off `folder`. */
static const char *climb(const char *path, char *folder) {
    for (;;) {
        if (strncmp(path, "./", 2) == 0) {
            path += 2;
        } else if (strncmp(path, "../", 3) == 0 || strcmp(path, "..") == 0) {
            path += path[2] == '/' ? 3 : 2;
            char *slash = strrchr(folder, '/');
            if (slash != NULL) {
                *slash = '\0';
            }
        } else {
            return path;
        }
        path += strspn(path, "/");
    }
}

enum dqn_status dqn_config_path(const struct dqn_config *config, const char *path, char *out,
                                size_t size) {
    char folder[DQN_TEXT_MAX];
    int length = 0;
    if (path[0] == '/') {
        length = snprintf(out, size, "%s", path);
    } else {
        snprintf(folder, sizeof folder, "%s", config->folder);
        const char *rest = climb(path, folder);
        length = snprintf(out, size, "%s/%s", folder, rest);
        /* "folder/" of an empty rest is the folder itself. */
        if (length > 1 && (size_t)length < size && rest[0] == '\0') {
            out[--length] = '\0';
        }
    }
    if (length < 0 || (size_t)length >= size) {
        return dqn_fail(DQN_ERR_CONFIG, "path %.80s... is longer than %zu bytes when absolute",
                        path, size - 1);
    }
    return DQN_OK;
}

/* Writes one path of the config absolute. */
static enum dqn_status make_absolute(const struct dqn_config *config, const char *name,
                                     char *path) {
    char text[DQN_TEXT_MAX] = {0};
    if (path[0] == '\0') {
        return DQN_OK;
    }
    const enum dqn_status status = dqn_config_path(config, path, text, sizeof text);
    if (status != DQN_OK) {
        return dqn_fail_prefix(status, "%s", name);
    }
    const size_t length = strlen(text);
    memset(path, 0, DQN_TEXT_MAX);
    memcpy(path, text, length);
    return DQN_OK;
}

/* Paths that were set so far and are relative start at config->folder. */
static enum dqn_status make_paths_absolute(struct dqn_config *config) {
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        void *member = (char *)config + ref.offset;
        if (strcmp(ref.key->unit, "path") != 0) {
            continue;
        }
        if (ref.key->kind == DQN_KEY_TEXT) {
            DQN_TRY(make_absolute(config, ref.path, member));
            continue;
        }
        struct dqn_texts *list = member;
        for (size_t j = 0; j < list->n; j++) {
            DQN_TRY(make_absolute(config, ref.path, list->v[j]));
        }
    }
    return DQN_OK;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* The same for paths that start at the present folder: defaults, and overrides, which a person
 * types. */
static enum dqn_status make_paths_absolute_here(struct dqn_config *config) {
    char folder[DQN_TEXT_MAX], here[DQN_TEXT_MAX];
    if (getcwd(here, sizeof here) == NULL) {
        return dqn_fail(DQN_ERR_CONFIG, "the present folder has no path: %s", strerror(errno));
    }
    memcpy(folder, config->folder, sizeof folder);
    memset(config->folder, 0, sizeof config->folder);
    memcpy(config->folder, here, strcmp(here, "/") == 0 ? 0 : strlen(here));
    const enum dqn_status status = make_paths_absolute(config);
    memcpy(config->folder, folder, sizeof folder);
    return status;
}

static enum dqn_status apply_overrides(struct dqn_config *config, size_t n_overrides,
                                       const char *const *overrides) {
    for (size_t i = 0; i < n_overrides; i++) {
        DQN_TRY(apply_override(config, overrides[i]));
    }
    return make_paths_absolute_here(config);
}

/* What follows once the file's keys are in. */
static enum dqn_status finish(struct dqn_config *config, const char *source, size_t n_overrides,
                              const char *const *overrides) {
    DQN_TRY(make_paths_absolute(config));
    DQN_TRY(apply_overrides(config, n_overrides, overrides));
    const enum dqn_status status = dqn_config_rules(config);
    return status == DQN_OK ? DQN_OK : dqn_fail_prefix(status, "%s", source);
}

enum dqn_status dqn_config_parse(struct dqn_config *config, const char *source, const char *folder,
                                 const char *text, size_t n_overrides,
                                 const char *const *overrides) {
    dqn_config_defaults(config);
    DQN_TRY(make_paths_absolute_here(config));
    if (strlen(folder) >= sizeof config->folder) {
        return dqn_fail(DQN_ERR_CONFIG, "%s: its folder's path is too long", source);
    }
    memcpy(config->folder, folder, strlen(folder));
    DQN_TRY(dqn_config_yaml(config, source, text, strlen(text)));
    return finish(config, source, n_overrides, overrides);
}

/* The file that was probably meant: with .yaml appended, or of that name under configs/. */
static void suggest_file(const char *path, char *text, size_t size) {
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const struct {
        const char *head, *name, *tail;
    } forms[] = {{"", path, ".yaml"}, {"configs/", base, ""}, {"configs/", base, ".yaml"}};
    text[0] = '\0';
    for (size_t i = 0; i < DQN_COUNT_OF(forms); i++) {
        char candidate[DQN_TEXT_MAX];
        snprintf(candidate, sizeof candidate, "%s%s%s", forms[i].head, forms[i].name,
                 forms[i].tail);
        if (access(candidate, R_OK) == 0) {
            snprintf(text, size, "; did you mean %s?", candidate);
            return;
        }
    }
}

static enum dqn_status read_all(int fd, const char *path, char **out, size_t *bytes) {
    char *text = NULL;
    size_t used = 0;
    DQN_TRY(dqn_alloc((void **)&text, MAX_FILE_BYTES + 2, 1, path));
    for (;;) {
        const ssize_t n = read(fd, text + used, MAX_FILE_BYTES + 1 - used);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            const int error = errno;
            free(text);
            return dqn_fail(DQN_ERR_CONFIG, "%s: cannot be read: %s", path, strerror(error));
        }
        used += (size_t)n;
        if (used > MAX_FILE_BYTES) {
            free(text);
            return dqn_fail(DQN_ERR_CONFIG, "%s: is larger than 4 MB; is this a config?", path);
        }
        if (n == 0) {
            *out = text;
            *bytes = used;
            return DQN_OK;
        }
    }
}

static enum dqn_status read_file(const char *path, char **text, size_t *bytes) {
    struct stat info;
    char suggestion[DQN_TEXT_MAX + 32];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        suggest_file(path, suggestion, sizeof suggestion);
        return dqn_fail(DQN_ERR_CONFIG, "%s: there is no such config file%s", path, suggestion);
    }
    if (fd < 0) {
        return dqn_fail(DQN_ERR_CONFIG, "%s: cannot be opened: %s", path, strerror(errno));
    }
    enum dqn_status status = DQN_OK;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        status = dqn_fail(DQN_ERR_CONFIG, "%s: is a folder; name a config file in it", path);
    } else {
        status = read_all(fd, path, text, bytes);
    }
    close(fd);
    return status;
}

/* Sets config->path and config->folder: the real folder, and the file's own name in it. */
static enum dqn_status set_place(struct dqn_config *config, const char *path) {
    char folder[PATH_MAX];
    char parent[PATH_MAX];
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (length >= sizeof parent) {
        return dqn_fail(DQN_ERR_CONFIG, "%.80s...: the path is too long", path);
    }
    snprintf(parent, sizeof parent, "%.*s", (int)length, length > 0 ? path : "");
    if (realpath(length > 0 ? parent : ".", folder) == NULL) {
        return dqn_fail(DQN_ERR_CONFIG, "%s: its folder cannot be found: %s",
                        path != NULL ? path : ".", strerror(errno));
    }
    if (strcmp(folder, "/") == 0) {
        folder[0] = '\0'; /* paths are made as folder + "/" + rest */
    }
    const char *base = path == NULL ? "" : slash != NULL ? slash + 1 : path;
    if (strlen(folder) + strlen(base) + 2 > sizeof config->path) {
        return dqn_fail(DQN_ERR_CONFIG, "%.80s...: the path is longer than %d bytes", folder,
                        DQN_TEXT_MAX - 1);
    }
    memcpy(config->folder, folder, strlen(folder));
    if (path != NULL) {
        const size_t used = strlen(folder);
        memcpy(config->path, folder, used);
        config->path[used] = '/';
        memcpy(config->path + used + 1, base, strlen(base));
    }
    return DQN_OK;
}

enum dqn_status dqn_config_load(struct dqn_config *config, const char *path, size_t n_overrides,
                                const char *const *overrides) {
    dqn_config_defaults(config);
    DQN_TRY(make_paths_absolute_here(config));
    if (path == NULL) {
        DQN_TRY(set_place(config, NULL));
        return finish(config, "config", n_overrides, overrides);
    }
    char *text = NULL;
    size_t bytes = 0;
    DQN_TRY(read_file(path, &text, &bytes));
    enum dqn_status status = set_place(config, path);
    if (status == DQN_OK) {
        status = dqn_config_yaml(config, path, text, bytes);
    }
    free(text);
    DQN_TRY(status);
    return finish(config, path, n_overrides, overrides);
}

/* ---- resume --------------------------------------------------------------------------------- */

static enum dqn_status value_text(const struct dqn_config *config, const struct dqn_key_ref *ref,
                                  char *text, size_t size) {
    char *whole = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&whole, &bytes);
    if (out == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "config: no host memory for its text");
    }
    dqn_key_write(out, config, ref);
    if (fclose(out) != 0) {
        free(whole);
        return dqn_fail(DQN_ERR_MEMORY, "config: no host memory for its text");
    }
    snprintf(text, size, "%s", whole);
    free(whole);
    return DQN_OK;
}

enum dqn_status dqn_config_resume(struct dqn_config *config, const struct dqn_config *saved,
                                  void (*said)(void *context, const char *line), void *context) {
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        char *now = (char *)config + ref.offset;
        const char *before = (const char *)saved + ref.offset;
        char now_text[256];
        char before_text[256];
        char line[768];
        if (memcmp(now, before, ref.key->bytes) == 0) {
            continue;
        }
        DQN_TRY(value_text(config, &ref, now_text, sizeof now_text));
        DQN_TRY(value_text(saved, &ref, before_text, sizeof before_text));
        if (ref.key->resume == DQN_RESUME_REFUSED) {
            return dqn_fail(DQN_ERR_CONFIG,
                            "%s = %s, but the checkpoint was made with %s, which cannot change in "
                            "a resumed run; set it back, or start a new run",
                            ref.path, now_text, before_text);
        }
        const bool may = ref.key->resume == DQN_RESUME_MAY;
        snprintf(line, sizeof line, "%s: the checkpoint has %s; %s is %s", ref.path, before_text,
                 now_text, may ? "now in force" : "ignored");
        if (!may) {
            memcpy(now, before, ref.key->bytes);
        }
        if (said != NULL) {
            said(context, line);
        }
    }
    return DQN_OK;
}

const char *dqn_config_choice(const char *section_key, int index) {
    static _Thread_local char text[4][64];
    static _Thread_local unsigned turn;
    struct dqn_key_ref ref;
    char *out = text[turn++ % DQN_COUNT_OF(text)];
    if (!dqn_key_find(section_key, &ref) ||
        !dqn_choice_entry(ref.key->range, index, out, sizeof text[0])) {
        snprintf(out, sizeof text[0], "?");
    }
    return out;
}
