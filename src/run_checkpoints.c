/* The checkpoints of a run folder: names, best, retention, which one to resume from. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint.h"
#include "run_folder.h"
#include "sealed_file.h"

enum { COPY_BYTES = 1 << 20, SUPERSEDED_MAX = 10000 };

static const struct dqn_file_ops *or_system(const struct dqn_file_ops *ops) {
    return ops != NULL ? ops : &dqn_file_ops_system;
}

/* ---- names ---- */

static int format_name(char *out, size_t size, uint64_t epochs, bool partial) {
    return snprintf(out, size, "epoch-%06" PRIu64 "%s.h5", epochs, partial ? "-partial" : "");
}

static enum dqn_status join(char *out, size_t size, const char *folder, const char *name) {
    const int n = snprintf(out, size, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= size) {
        return dqn_fail(DQN_ERR_DISK, "%s: the path is longer than %zu bytes; use a shorter one",
                        folder, size - 1);
    }
    return DQN_OK;
}

enum dqn_status dqn_run_folder_file(char *out, size_t size, const char *folder, uint64_t epochs,
                                    bool partial) {
    char name[64];
    format_name(name, sizeof name, epochs, partial);
    return join(out, size, folder, name);
}

bool dqn_run_folder_parse(const char *name, uint64_t *epochs, bool *partial) {
    static const char prefix[] = "epoch-";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    const char *digits = name + sizeof prefix - 1;
    const size_t n = strspn(digits, "0123456789");
    if (n == 0) {
        return false;
    }
    errno = 0;
    *epochs = strtoull(digits, NULL, 10);
    *partial = digits[n] == '-';
    char expected[64];
    format_name(expected, sizeof expected, *epochs, *partial);
    return errno == 0 && strcmp(name, expected) == 0;
}

/* ---- lists ---- */

struct entry {
    uint64_t epochs;
    bool partial;
};

struct list {
    size_t n;
    struct entry *entries; /* oldest first */
};

static int compare_entries(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->epochs != y->epochs) {
        return x->epochs > y->epochs ? 1 : -1;
    }
    return (int)x->partial - (int)y->partial;
}

static bool is_regular(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The regular files of a folder that have a checkpoint's name. */
static enum dqn_status list_folder(struct list *out, const char *path) {
    *out = (struct list){.n = 0};
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be listed: %s", path, strerror(errno));
    }
    enum dqn_status status = DQN_OK;
    for (const struct dirent *item = readdir(folder); item != NULL; item = readdir(folder)) {
        struct entry entry;
        char file[DQN_TEXT_MAX];
        if (!dqn_run_folder_parse(item->d_name, &entry.epochs, &entry.partial)) {
            continue;
        }
        DQN_TRY_GOTO(join(file, sizeof file, path, item->d_name));
        if (!is_regular(file)) {
            continue;
        }
        struct entry *grown = realloc(out->entries, (out->n + 1) * sizeof *grown);
        if (grown == NULL) {
            status = dqn_fail(DQN_ERR_MEMORY, "no memory for the list of %s", path);
            goto done;
        }
        out->entries = grown;
        out->entries[out->n++] = entry;
    }
    if (out->n > 1) {
        qsort(out->entries, out->n, sizeof *out->entries, compare_entries);
    }
done:
    closedir(folder);
    if (status != DQN_OK) {
        free(out->entries);
        *out = (struct list){.n = 0};
    }
    return status;
}

static enum dqn_status entry_path(char *out, size_t size, const char *folder,
                                  const struct entry *entry) {
    return dqn_run_folder_file(out, size, folder, entry->epochs, entry->partial);
}

/* ---- best ---- */

/* With the permission bits of what is copied, as a link would have. */
static enum dqn_status copy_file(const char *from, const char *to, const struct dqn_file_ops *ops) {
    enum dqn_status status = DQN_OK;
    void *block = NULL;
    int in = -1, out = -1;
    DQN_TRY_GOTO(dqn_alloc(&block, 1, COPY_BYTES, "block of a copy"));
    in = ops->open(ops->context, from, O_RDONLY, 0);
    out = dqn_file_create_temporary(ops, to, from, O_WRONLY);
    bool failed = in < 0 || out < 0;
    for (off_t at = 0; !failed;) {
        const ssize_t n = dqn_file_read_at(ops, in, block, COPY_BYTES, at);
        if (n == 0) {
            break;
        }
        failed = n < 0 || dqn_file_write_at(ops, out, block, (size_t)n, at) != 0;
        at += n;
    }
    failed = failed || ops->fsync(ops->context, out) != 0;
    if (failed) {
        status = dqn_fail(DQN_ERR_DISK, "%s: copying %s failed: %s", to, from, strerror(errno));
    }
done:
    if (in >= 0) {
        ops->close(ops->context, in);
    }
    if (out >= 0 && ops->close(ops->context, out) != 0 && status == DQN_OK) {
        status = dqn_fail(DQN_ERR_DISK, "%s: closing failed: %s", to, strerror(errno));
    }
    free(block);
    return status;
}

enum dqn_status dqn_run_folder_set_best(const char *folder, const char *file,
                                        const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    char best[DQN_TEXT_MAX], temporary[DQN_TEXT_MAX];
    DQN_TRY(join(best, sizeof best, folder, "best.h5"));
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, best));
    ops->unlink(ops->context, temporary);
    if (ops->link(ops->context, file, temporary) != 0) {
        const enum dqn_status status = copy_file(file, temporary, ops);
        if (status != DQN_OK) {
            ops->unlink(ops->context, temporary);
            return status;
        }
    }
    const enum dqn_status status = dqn_file_commit(ops, temporary, best);
    /* rename does nothing, and leaves both names, where best.h5 was this file already. */
    ops->unlink(ops->context, temporary);
    return status;
}

/* ---- retention ---- */

enum dqn_status dqn_run_folder_prune(const char *folder, const char *newest, int64_t keep_last,
                                     const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    const char *slash = strrchr(newest, '/');
    struct entry last;
    if (keep_last <= 0 ||
        !dqn_run_folder_parse(slash != NULL ? slash + 1 : newest, &last.epochs, &last.partial)) {
        return DQN_OK;
    }
    struct list list;
    DQN_TRY(list_folder(&list, folder));
    enum dqn_status status = DQN_OK;
    int64_t kept = 0;
    for (size_t i = list.n; i > 0; i--) {
        char file[DQN_TEXT_MAX];
        DQN_TRY_GOTO(entry_path(file, sizeof file, folder, &list.entries[i - 1]));
        if (compare_entries(&list.entries[i - 1], &last) > 0 || !dqn_seal_has_magic(file)) {
            continue;
        }
        if (kept < keep_last) {
            kept++;
        } else if (ops->unlink(ops->context, file) != 0 && errno != ENOENT) {
            status = dqn_fail(DQN_ERR_DISK, "%s: cannot be removed: %s", file, strerror(errno));
            goto done;
        }
    }
done:
    free(list.entries);
    return status;
}

/* A free name "superseded-<k>-<name>"; the caller holds the folder's lock. */
static enum dqn_status superseded_name(char *out, size_t size, const char *folder,
                                       const char *name) {
    for (int k = 1; k <= SUPERSEDED_MAX; k++) {
        char free_name[128];
        snprintf(free_name, sizeof free_name, "superseded-%d-%s", k, name);
        DQN_TRY(join(out, size, folder, free_name));
        if (access(out, F_OK) != 0) {
            return DQN_OK;
        }
    }
    return dqn_fail(DQN_ERR_DISK, "%s: there are too many superseded files; remove some", folder);
}

static enum dqn_status set_aside(const char *folder, const struct entry *entry,
                                 const struct dqn_file_ops *ops) {
    char name[64], from[DQN_TEXT_MAX], to[DQN_TEXT_MAX];
    format_name(name, sizeof name, entry->epochs, entry->partial);
    DQN_TRY(join(from, sizeof from, folder, name));
    DQN_TRY(superseded_name(to, sizeof to, folder, name));
    if (ops->rename(ops->context, from, to) != 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be renamed: %s", from, strerror(errno));
    }
    dqn_info("%s: later than the checkpoint resumed from; kept as %s", from, to);
    return DQN_OK;
}

/* The best of the time line that is left stays under another name too. */
static enum dqn_status keep_best(const char *folder, const struct dqn_file_ops *ops) {
    char best[DQN_TEXT_MAX], to[DQN_TEXT_MAX];
    DQN_TRY(join(best, sizeof best, folder, "best.h5"));
    if (!is_regular(best)) {
        return DQN_OK;
    }
    DQN_TRY(superseded_name(to, sizeof to, folder, "best.h5"));
    if (ops->link(ops->context, best, to) != 0) {
        return copy_file(best, to, ops);
    }
    return DQN_OK;
}

enum dqn_status dqn_run_folder_supersede(const char *folder, const char *file,
                                         const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    struct dqn_checkpoint *checkpoint = NULL;
    DQN_TRY(dqn_checkpoint_open(&checkpoint, file));
    const struct entry from = {dqn_checkpoint_epochs(checkpoint),
                               dqn_checkpoint_is_partial(checkpoint)};
    dqn_checkpoint_close(checkpoint);
    struct list list;
    DQN_TRY(list_folder(&list, folder));
    enum dqn_status status = DQN_OK;
    bool any = false;
    for (size_t i = 0; i < list.n; i++) {
        if (compare_entries(&list.entries[i], &from) > 0) {
            if (!any) {
                DQN_TRY_GOTO(keep_best(folder, ops));
            }
            any = true;
            DQN_TRY_GOTO(set_aside(folder, &list.entries[i], ops));
        }
    }
    if (any) {
        status = dqn_file_sync_folder(ops, file);
    }
done:
    free(list.entries);
    return status;
}

/* ---- which one ---- */

/* The newest good one among the first n; "" when there is none. */
static void newest_good(char *out, size_t size, const char *folder, const struct list *list,
                        size_t n) {
    for (size_t i = n; i > 0; i--) {
        if (entry_path(out, size, folder, &list->entries[i - 1]) == DQN_OK &&
            dqn_checkpoint_verify(out) == DQN_OK) {
            return;
        }
    }
    if (join(out, size, folder, "best.h5") == DQN_OK && dqn_checkpoint_verify(out) == DQN_OK) {
        return;
    }
    out[0] = '\0';
}

/* Says that `file`, whose reason is in the error text, is damaged, and which one is not. */
static enum dqn_status damaged(enum dqn_status status, const char *folder, const struct list *list,
                               size_t n) {
    char reason[2048], good[DQN_TEXT_MAX];
    snprintf(reason, sizeof reason, "%s", dqn_error_text());
    newest_good(good, sizeof good, folder, list, n);
    if (good[0] == '\0') {
        return dqn_fail(status, "%s; there is no good checkpoint beside it", reason);
    }
    return dqn_fail(status, "%s; the newest good one is %s: name it to go on from there", reason,
                    good);
}

/* Whether a folder has such a file; a person may have put a link there. */
static bool has_file(const char *folder, const char *name) {
    char file[DQN_TEXT_MAX];
    struct stat info;
    return join(file, sizeof file, folder, name) == DQN_OK && stat(file, &info) == 0 &&
           S_ISREG(info.st_mode);
}

static bool has_best(const char *folder) {
    return has_file(folder, "best.h5");
}

/* The folder that has the checkpoints, best.h5 among them: `path` or, where it has none,
 * path/latest. */
static enum dqn_status find_run(char *out, size_t size, const char *path, struct list *list) {
    DQN_TRY(join(out, size, path, "."));
    out[strlen(out) - 2] = '\0';
    DQN_TRY(list_folder(list, out));
    if (list->n > 0 || has_best(out)) {
        return DQN_OK;
    }
    char latest[DQN_TEXT_MAX];
    DQN_TRY(join(latest, sizeof latest, path, "latest"));
    struct stat info;
    if (stat(latest, &info) == 0 && S_ISDIR(info.st_mode)) {
        char *real = realpath(latest, NULL); /* later runs move the link */
        const bool fits = real != NULL && strlen(real) < size;
        if (fits) {
            snprintf(out, size, "%s", real);
        }
        free(real);
        if (!fits) {
            return dqn_fail(DQN_ERR_DISK, "%s: cannot be followed", latest);
        }
        free(list->entries);
        DQN_TRY(list_folder(list, out));
    }
    if (list->n == 0 && !has_best(out)) {
        const bool begun = has_file(out, "config.yaml");
        return dqn_fail(DQN_ERR_CHECKPOINT, "%s: there is no checkpoint in this folder%s%s%s", out,
                        begun ? "; start the run again: dqn-train " : "", begun ? out : "",
                        begun ? "/config.yaml" : "");
    }
    return DQN_OK;
}

static enum dqn_status is_folder(const char *path, bool *folder) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be opened: %s", path, strerror(errno));
    }
    *folder = S_ISDIR(info.st_mode);
    return DQN_OK;
}

static enum dqn_status resolve_file(char *out, size_t size, const char *path) {
    if (strlen(path) >= size) {
        return dqn_fail(DQN_ERR_DISK, "%s: the path is longer than %zu bytes", path, size - 1);
    }
    snprintf(out, size, "%s", path);
    const enum dqn_status status = dqn_checkpoint_verify(path);
    if (status != DQN_ERR_CHECKPOINT) {
        return status;
    }
    char reason[2048], folder[DQN_TEXT_MAX];
    snprintf(reason, sizeof reason, "%s", dqn_error_text());
    struct list list = {.n = 0};
    if (dqn_file_folder(folder, sizeof folder, path) != DQN_OK ||
        list_folder(&list, folder) != DQN_OK) {
        return dqn_fail(status, "%s", reason);
    }
    dqn_fail(status, "%s", reason);
    damaged(status, folder, &list, list.n);
    free(list.entries);
    return status;
}

enum dqn_status dqn_run_folder_resolve(char *out, size_t size, const char *path) {
    bool folder = false;
    DQN_TRY(is_folder(path, &folder));
    if (!folder) {
        return resolve_file(out, size, path);
    }
    char run[DQN_TEXT_MAX];
    struct list list = {.n = 0};
    enum dqn_status status = find_run(run, sizeof run, path, &list);
    if (status == DQN_OK) {
        status = list.n > 0 ? entry_path(out, size, run, &list.entries[list.n - 1])
                            : join(out, size, run, "best.h5");
    }
    if (status == DQN_OK) {
        status = dqn_checkpoint_verify(out);
        if (status == DQN_ERR_CHECKPOINT && list.n > 0) {
            damaged(status, run, &list, list.n - 1);
        }
    }
    free(list.entries);
    return status;
}

enum dqn_status dqn_run_folder_best(char *out, size_t size, const char *path) {
    bool folder = false, best = false;
    char run[DQN_TEXT_MAX];
    struct list list = {.n = 0};
    DQN_TRY(is_folder(path, &folder));
    if (folder) {
        DQN_TRY(find_run(run, sizeof run, path, &list));
        free(list.entries);
        best = has_best(run);
    }
    return best ? join(out, size, run, "best.h5") : dqn_run_folder_resolve(out, size, path);
}

/* ---- verify ---- */

static enum dqn_status verify_one(const char *path, FILE *report) {
    const enum dqn_status status = dqn_checkpoint_verify(path);
    if (status == DQN_OK) {
        fprintf(report, "ok       %s\n", path);
    } else {
        fprintf(report, "damaged  %s\n", dqn_error_text());
    }
    return status;
}

static enum dqn_status verify_folder(const char *run, const struct list *list, FILE *report) {
    char file[DQN_TEXT_MAX];
    enum dqn_status status = DQN_OK;
    for (size_t i = 0; i < list->n; i++) {
        DQN_TRY(entry_path(file, sizeof file, run, &list->entries[i]));
        status = verify_one(file, report);
    }
    if (status != DQN_OK) {
        damaged(status, run, list, list->n - 1);
    }
    if (!has_best(run)) {
        return status;
    }
    char newest[2048];
    snprintf(newest, sizeof newest, "%s", dqn_error_text());
    DQN_TRY(join(file, sizeof file, run, "best.h5"));
    const enum dqn_status best = verify_one(file, report);
    return status == DQN_OK ? best : dqn_fail(status, "%s", newest);
}

enum dqn_status dqn_run_folder_verify(const char *path, FILE *report) {
    bool folder = false;
    DQN_TRY(is_folder(path, &folder));
    if (!folder) {
        return verify_one(path, report);
    }
    char run[DQN_TEXT_MAX];
    struct list list = {.n = 0};
    enum dqn_status status = find_run(run, sizeof run, path, &list);
    if (status == DQN_OK) {
        status = verify_folder(run, &list, report);
    }
    free(list.entries);
    return status;
}
