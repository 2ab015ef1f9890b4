#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../file_ops.h"
#include "bars_read.h"

struct file_list {
    size_t n, capacity;
    char **paths;
};

static void free_list(struct file_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->paths[i]);
    }
    free(list->paths);
}

static enum dqn_status add_path(struct file_list *list, const char *path) {
    if (list->n == DQN_RAW_FILES_MAX) {
        return dqn_fail(
            DQN_ERR_DATA,
            "%s: more than %d files of market data; join some of them, or use a narrower pattern",
            path, DQN_RAW_FILES_MAX);
    }
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        char **const more = realloc(list->paths, capacity * sizeof(char *));
        if (more == NULL) {
            return dqn_fail(DQN_ERR_MEMORY, "no memory for the names of %zu data files", capacity);
        }
        list->paths = more;
        list->capacity = capacity;
    }
    list->paths[list->n] = strdup(path);
    if (list->paths[list->n] == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no memory for the name of a data file");
    }
    list->n++;
    return DQN_OK;
}

/* A name that exists is taken as it is; else it is a pattern. */
static enum dqn_status expand(struct file_list *list, const char *path) {
    struct stat state;
    if (stat(path, &state) == 0 || strpbrk(path, "*?[") == NULL) {
        return add_path(list, path);
    }
    glob_t found;
    memset(&found, 0, sizeof(found));
    const int code = glob(path, GLOB_ERR, NULL, &found);
    enum dqn_status status = DQN_OK;
    if (code != 0) {
        status = dqn_fail(DQN_ERR_DATA,
                          "%s: no file fits this pattern; check its folder and its name", path);
    }
    for (size_t i = 0; status == DQN_OK && i < found.gl_pathc; i++) {
        status = add_path(list, found.gl_pathv[i]);
    }
    globfree(&found);
    return status;
}

static enum dqn_status list_files(struct file_list *list, const struct dqn_config *config) {
    for (size_t i = 0; i < config->data.file.n; i++) {
        char path[DQN_TEXT_MAX];
        DQN_TRY(dqn_config_path(config, config->data.file.v[i], path, sizeof(path)));
        DQN_TRY(expand(list, path));
    }
    return DQN_OK;
}

/* HDF5 files are read by their library; their bytes are summed up here. */
static enum dqn_status hash_file(struct dqn_byte_source *source) {
    char bytes[65536];
    size_t got = 0;
    do {
        DQN_TRY(dqn_byte_source_read(source, bytes, sizeof(bytes), &got));
    } while (got > 0);
    return DQN_OK;
}

static enum dqn_status read_file(struct dqn_raw_rows *rows, size_t file,
                                 const struct dqn_config_data *config, struct dqn_sha256 *sha) {
    struct dqn_byte_source *source = NULL;
    DQN_TRY(dqn_byte_source_open(&source, rows->paths[file], sha));
    enum dqn_status status = DQN_OK;
    if (dqn_is_hdf5(rows->paths[file])) {
        DQN_TRY_GOTO(hash_file(source));
        DQN_TRY_GOTO(dqn_read_hdf5(rows, file, config));
    } else {
        DQN_TRY_GOTO(dqn_read_csv(rows, source, file, config));
    }
    DQN_TRY_GOTO(dqn_raw_settle_order(rows, config));
done:
    dqn_byte_source_close(source);
    return status;
}

/* Adds one file's notes to the whole's. */
static enum dqn_status join_info(struct dqn_bars_info *all, const struct dqn_bars_info *one,
                                 const char *path) {
    if (all->dialect[0] == 0) {
        snprintf(all->dialect, sizeof(all->dialect), "%s", one->dialect);
    } else if (strcmp(all->dialect, one->dialect) != 0) {
        snprintf(all->dialect, sizeof(all->dialect), "several layouts");
    }
    if (all->symbol[0] == 0) {
        memcpy(all->symbol, one->symbol, sizeof(all->symbol));
    } else if (one->symbol[0] != 0 && strcmp(all->symbol, one->symbol) != 0) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: the symbol is %s, but %s in the files before; give the files of one "
                        "symbol",
                        path, one->symbol, all->symbol);
    }
    all->n_duplicates += one->n_duplicates;
    all->n_repaired += one->n_repaired;
    all->n_empty += one->n_empty;
    all->n_first_of_two += one->n_first_of_two;
    all->spread_unused = all->spread_unused || one->spread_unused;
    all->reversed = all->reversed || one->reversed;
    return DQN_OK;
}

static void name_source(struct dqn_bars_info *info, const struct file_list *list) {
    if (list->n == 1) {
        snprintf(info->source, sizeof(info->source), "%s", list->paths[0]);
    } else {
        snprintf(info->source, sizeof(info->source), "%.400s ... %.400s (%zu files)",
                 list->paths[0], list->paths[list->n - 1], list->n);
    }
}

static enum dqn_status read_all(struct dqn_raw_rows *rows, const struct file_list *list,
                                const struct dqn_config_data *config, struct dqn_sha256 *sha) {
    struct dqn_bars_info all;
    memset(&all, 0, sizeof(all));
    for (size_t file = 0; file < list->n; file++) {
        struct dqn_raw_rows more;
        memset(&more, 0, sizeof(more));
        more.paths = (const char *const *)list->paths;
        more.unit = "";
        enum dqn_status status = read_file(&more, file, config, sha);
        if (status == DQN_OK) {
            status = join_info(&all, &more.info, list->paths[file]);
        }
        if (status != DQN_OK) {
            dqn_raw_free(&more);
            return status;
        }
        const char *const unit = file == 0 || strcmp(rows->unit, more.unit) == 0 ? more.unit : "";
        DQN_TRY(dqn_raw_append(rows, &more));
        rows->paths = (const char *const *)list->paths;
        rows->unit = unit;
    }
    rows->info = all;
    return list->n > 1 ? dqn_raw_merge_files(rows, config) : DQN_OK;
}

enum dqn_status dqn_bars_load_files(struct dqn_bars *out, const struct dqn_config *config) {
    struct file_list list = {0, 0, NULL};
    struct dqn_sha256 *sha = NULL;
    struct dqn_raw_rows rows;
    memset(&rows, 0, sizeof(rows));
    memset(out, 0, sizeof(*out));
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(list_files(&list, config));
    DQN_TRY_GOTO(dqn_sha256_create(&sha));
    DQN_TRY_GOTO(read_all(&rows, &list, &config->data, sha));
    name_source(&rows.info, &list);
    DQN_TRY_GOTO(dqn_sha256_text(sha, rows.info.sha256));
    DQN_TRY_GOTO(dqn_bars_from_rows(out, &rows, &config->data));
done:
    dqn_sha256_destroy(sha);
    dqn_raw_free(&rows);
    free_list(&list);
    return status;
}

enum dqn_status dqn_bars_check_apart(const struct dqn_config *config, const char *output) {
    struct file_list list = {0, 0, NULL};
    enum dqn_status status = dqn_file_check_apart(output, config->path);
    if (status == DQN_OK) {
        status = list_files(&list, config);
    }
    for (size_t i = 0; status == DQN_OK && i < list.n; i++) {
        status = dqn_file_check_apart(output, list.paths[i]);
    }
    free_list(&list);
    return status;
}

enum dqn_status dqn_bars_check_reread(const struct dqn_config *config, const char *why) {
    struct file_list list = {0, 0, NULL};
    enum dqn_status status = list_files(&list, config);
    for (size_t i = 0; status == DQN_OK && i < list.n; i++) {
        struct stat state;
        if (stat(list.paths[i], &state) == 0 && !S_ISREG(state.st_mode) &&
            !S_ISDIR(state.st_mode)) {
            status = dqn_fail(DQN_ERR_DATA,
                              "%s: is a %s, which gives its bytes once, but %s; save it to a file "
                              "first, and give that as data.file",
                              list.paths[i], S_ISFIFO(state.st_mode) ? "pipe" : "device", why);
        }
    }
    free_list(&list);
    return status;
}
