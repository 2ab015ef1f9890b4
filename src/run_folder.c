/* Creating, locking and probing run folders. Their checkpoints are in run_checkpoints.c. */
#include "run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 200, RUNS_MAX = 1000000, CLAIM_TRIES = 1000 };

static const struct dqn_file_ops *or_system(const struct dqn_file_ops *ops) {
    return ops != NULL ? ops : &dqn_file_ops_system;
}

static enum dqn_status too_long(const char *path, size_t size) {
    return dqn_fail(DQN_ERR_CONFIG, "%s: the path is longer than %zu bytes; use a shorter one",
                    path, size - 1);
}

static enum dqn_status join(char *out, size_t size, const char *folder, const char *name) {
    const int n = snprintf(out, size, "%s/%s", folder, name);
    return n < 0 || (size_t)n >= size ? too_long(folder, size) : DQN_OK;
}

/* ---- lock ---- */

/* The lock is the system's and ends with the process; the text inside only helps people. */
static enum dqn_status take_lock(struct dqn_run_folder *folder, const struct dqn_file_ops *ops) {
    char path[DQN_TEXT_MAX];
    DQN_TRY(join(path, sizeof path, folder->path, "lock"));
    const int fd = ops->open(ops->context, path, O_RDWR | O_CREAT, 0666);
    if (fd < 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be created: %s", path, strerror(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        if (error == EWOULDBLOCK) {
            char owner[64] = "";
            const ssize_t n = dqn_file_read_at(NULL, fd, owner, sizeof owner - 1, 0);
            owner[n > 0 ? strcspn(owner, "\n") : 0] = '\0';
            close(fd);
            return dqn_fail(DQN_ERR_BUSY,
                            "%s: another run trains in this folder (process %s); wait for its end, "
                            "or start a new run",
                            folder->path, owner[0] != '\0' ? owner : "unknown");
        }
        dqn_warn("%s: this file system has no locks (%s); nothing keeps a second run out", path,
                 strerror(error));
    }
    char owner[32];
    const int n = snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
    if (ops->ftruncate(ops->context, fd, 0) != 0 ||
        dqn_file_write_at(ops, fd, owner, (size_t)n, 0) != 0) {
        const int error = errno;
        close(fd);
        return dqn_fail(DQN_ERR_DISK, "%s: writing failed: %s", path, strerror(error));
    }
    folder->lock = fd;
    return DQN_OK;
}

void dqn_run_folder_close(struct dqn_run_folder *folder) {
    if (folder->lock >= 0) {
        close(folder->lock);
        folder->lock = -1;
    }
}

/* ---- probes ---- */

enum dqn_status dqn_run_folder_probe(const char *path, const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    char probe[DQN_TEXT_MAX], temporary[DQN_TEXT_MAX];
    DQN_TRY(join(probe, sizeof probe, path, "probe"));
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, probe));
    static const char zeros[4096];
    const int fd = ops->open(ops->context, temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        if (dqn_file_write_at(ops, fd, zeros, sizeof zeros, 0) != 0 ||
            ops->fsync(ops->context, fd) != 0) {
            error = errno;
        }
        if (ops->close(ops->context, fd) != 0 && error == 0) {
            error = errno;
        }
        if (ops->unlink(ops->context, temporary) != 0 && error == 0) {
            error = errno;
        }
    }
    if (error != 0) {
        return dqn_fail(DQN_ERR_DISK,
                        "%s: files cannot be written here: %s; choose another folder with `output`",
                        path, strerror(error));
    }
    return DQN_OK;
}

enum dqn_status dqn_run_folder_judge_space(const char *path, uint64_t bytes, int64_t keep_last,
                                           uint64_t free_bytes) {
    const uint64_t files = (keep_last > 0 ? (uint64_t)keep_last : 1) + 2;
    const bool overflow = bytes > 0 && files > UINT64_MAX / bytes;
    const uint64_t wanted = overflow ? UINT64_MAX : bytes * files;
    char one[32], all[32], here[32];
    dqn_format_bytes(one, sizeof one, bytes);
    dqn_format_bytes(all, sizeof all, wanted);
    dqn_format_bytes(here, sizeof here, free_bytes);
    if (free_bytes / 2 < bytes) {
        return dqn_fail(DQN_ERR_DISK,
                        "%s: %s are free, but a checkpoint takes %s and two must fit while one "
                        "replaces the other; free some space, choose another `output`, or set "
                        "checkpoint.replay: false",
                        path, here, one);
    }
    if (free_bytes < wanted) {
        dqn_warn("%s: %s are free, but %" PRIu64 " checkpoints (kept, best, and the one being "
                 "written) of %s take up to %s",
                 path, here, files, one, all);
    }
    return DQN_OK;
}

enum dqn_status dqn_run_folder_check_space(const char *path, uint64_t bytes, int64_t keep_last) {
    struct statvfs info;
    if (statvfs(path, &info) != 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: its free space cannot be asked for: %s", path,
                        strerror(errno));
    }
    return dqn_run_folder_judge_space(path, bytes, keep_last,
                                      (uint64_t)info.f_bavail * info.f_frsize);
}

/* Under the lock no temporary can be in use. */
static enum dqn_status remove_temporaries(const char *path, const struct dqn_file_ops *ops) {
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be listed: %s", path, strerror(errno));
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char file[DQN_TEXT_MAX];
        const int n = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (n > 0 && (size_t)n < sizeof file && dqn_file_is_temporary(entry->d_name)) {
            if (ops->unlink(ops->context, file) == 0) {
                dqn_info("%s: removed, left over from an interrupted save", file);
            }
        }
    }
    closedir(folder);
    return DQN_OK;
}

/* ---- opening ---- */

/* That the names of all files fit behind the folder's path: a save may not fail for that. */
static enum dqn_status check_room(const char *path) {
    static const char longest[] = "/.tmp-4194304-superseded-1000000-epoch-1000000-partial.h5";
    enum { MOST = DQN_TEXT_MAX - sizeof longest };
    if (strlen(path) > MOST) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "%s: the path of this run's folder has %zu bytes; it may have %d, so that "
                        "its files have names; use a shorter output or name",
                        path, strlen(path), (int)MOST);
    }
    return DQN_OK;
}

enum dqn_status dqn_run_folder_open(struct dqn_run_folder *out, const char *path,
                                    const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    *out = (struct dqn_run_folder){.lock = -1};
    snprintf(out->path, sizeof out->path, "%s", path);
    DQN_TRY(check_room(path));
    enum dqn_status status = take_lock(out, ops);
    if (status == DQN_OK) {
        status = remove_temporaries(path, ops);
    }
    if (status == DQN_OK) {
        status = dqn_run_folder_probe(path, ops);
    }
    if (status != DQN_OK) {
        dqn_run_folder_close(out);
    }
    return status;
}

static enum dqn_status check_name(const char *name) {
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL ||
        strlen(name) > NAME_MAX_BYTES || !dqn_text_is_plain(name)) {
        return dqn_fail(
            DQN_ERR_CONFIG,
            "name = \"%s\": a run's name has 1 to %d bytes of UTF-8, no slash, no "
            "control character, and does not start with a dot; give another with --name",
            name, NAME_MAX_BYTES);
    }
    return DQN_OK;
}

/* mkdir tells in one step whether the name was free, so no two runs get the same folder. */
static enum dqn_status claim_folder(char *out, size_t size, const char *output, const char *name,
                                    struct dqn_made_folders *above,
                                    const struct dqn_file_ops *ops) {
    int tries = CLAIM_TRIES;
    for (int i = 1; i <= RUNS_MAX; i++) {
        const int n = snprintf(out, size, "%s/%s-%d", output, name, i);
        if (n < 0 || (size_t)n >= size) {
            return too_long(output, size);
        }
        int failed = ops->mkdir(ops->context, out, 0777);
        /* A run that did not begin took the output folder back just now. */
        while (failed != 0 && errno == ENOENT && tries-- > 0) {
            DQN_TRY(dqn_made_folders_make(above, output, ops));
            failed = ops->mkdir(ops->context, out, 0777);
        }
        if (failed == 0) {
            return DQN_OK;
        }
        if (errno != EEXIST) {
            return dqn_fail(DQN_ERR_DISK, "%s: the folder cannot be made: %s", out,
                            strerror(errno));
        }
    }
    return dqn_fail(DQN_ERR_DISK, "%s: there are %d runs named %s; choose another --name", output,
                    RUNS_MAX, name);
}

/* ---- output/latest ---- */

/* Whether something is there that is not a link of ours: a person's own file or folder. */
static bool is_foreign(const char *latest) {
    struct stat info;
    return lstat(latest, &info) == 0 && !S_ISLNK(info.st_mode);
}

/* Makes output/latest a link with this text. A run can do without, so trouble is only said. */
static enum dqn_status point_latest(const char *output, const char *text,
                                    const struct dqn_file_ops *ops) {
    char latest[DQN_TEXT_MAX], temporary[DQN_TEXT_MAX];
    DQN_TRY(join(latest, sizeof latest, output, "latest"));
    if (is_foreign(latest)) {
        return dqn_fail(DQN_ERR_DISK,
                        "it is no link, so it is left as it is; rename it to have the link");
    }
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, latest));
    ops->unlink(ops->context, temporary);
    if (ops->symlink(ops->context, text, temporary) != 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be made: %s", latest, strerror(errno));
    }
    return dqn_file_commit(ops, temporary, latest);
}

void dqn_run_folder_point_latest(const char *path, const struct dqn_file_ops *ops) {
    char output[DQN_TEXT_MAX];
    const char *slash = strrchr(path, '/');
    if (dqn_file_folder(output, sizeof output, path) != DQN_OK ||
        point_latest(output, slash != NULL ? slash + 1 : path, or_system(ops)) != DQN_OK) {
        dqn_warn("%s/latest does not point at this run: %s", output, dqn_error_text());
    }
}

/* ---- creating ---- */

/* A folder of its own. */
static enum dqn_status open_new(struct dqn_run_folder *out, const char *path,
                                const struct dqn_file_ops *ops) {
    enum dqn_status status = dqn_run_folder_open(out, path, ops);
    if (status == DQN_OK) {
        status = dqn_file_sync_folder(ops, path);
    }
    if (status != DQN_OK) {
        char lock[DQN_TEXT_MAX + 8];
        snprintf(lock, sizeof lock, "%s/lock", path);
        dqn_run_folder_close(out);
        ops->unlink(ops->context, lock);
        rmdir(path); /* only when empty */
    }
    return status;
}

enum dqn_status dqn_run_folder_create(struct dqn_run_folder *out, const char *output,
                                      const char *name, const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    *out = (struct dqn_run_folder){.lock = -1};
    char path[DQN_TEXT_MAX];
    struct dqn_made_folders above = {0};
    DQN_TRY(check_name(name));
    if (output[0] == '\0') {
        return dqn_fail(DQN_ERR_CONFIG, "output = \"\": name a folder");
    }
    DQN_TRY(dqn_made_folders_make(&above, output, ops));
    enum dqn_status status = claim_folder(path, sizeof path, output, name, &above, ops);
    if (status == DQN_OK) {
        status = open_new(out, path, ops);
    }
    if (status == DQN_OK) {
        out->above = above;
    } else {
        dqn_made_folders_remove(&above);
    }
    return status;
}

/* ---- a run that did not begin ---- */

/* What it may have in its folder. */
static const char *const own[] = {"config.yaml", "metrics.csv", "metrics.csv.new", "lock"};

static bool holds_more(const char *path) {
    DIR *folder = opendir(path);
    bool more = folder == NULL;
    for (const struct dirent *entry = more ? NULL : readdir(folder); entry != NULL;
         entry = readdir(folder)) {
        bool known = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        for (size_t i = 0; i < DQN_COUNT_OF(own); i++) {
            known = known || strcmp(entry->d_name, own[i]) == 0;
        }
        more = more || !known;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return more;
}

void dqn_run_folder_discard(struct dqn_run_folder *folder, const struct dqn_file_ops *ops) {
    ops = or_system(ops);
    char config[DQN_TEXT_MAX + 16];
    struct dqn_run_folder_undo undo;
    const bool more = holds_more(folder->path);
    dqn_run_folder_close(folder);
    if (more) {
        return;
    }
    dqn_run_folder_undo_plan(&undo, folder);
    snprintf(config, sizeof config, "%s/config.yaml", folder->path);
    ops->unlink(ops->context, config);
    dqn_run_folder_undo(&undo);
}

void dqn_run_folder_undo_plan(struct dqn_run_folder_undo *out,
                              const struct dqn_run_folder *folder) {
    out->above = folder->above;
    snprintf(out->folder, sizeof out->folder, "%s", folder->path);
    snprintf(out->lock, sizeof out->lock, "%s/lock", folder->path);
    snprintf(out->metrics, sizeof out->metrics, "%s/metrics.csv", folder->path);
    snprintf(out->fresh_metrics, sizeof out->fresh_metrics, "%s/metrics.csv.new", folder->path);
}

void dqn_run_folder_undo(const struct dqn_run_folder_undo *undo) {
    unlink(undo->fresh_metrics); /* first: what is not there cannot take the other's place */
    unlink(undo->metrics);
    unlink(undo->lock);
    if (rmdir(undo->folder) == 0) {
        dqn_made_folders_remove(&undo->above);
    }
}

enum dqn_status dqn_run_folder_write_config(const char *path, const char *text,
                                            const struct dqn_file_ops *ops) {
    char file[DQN_TEXT_MAX];
    DQN_TRY(join(file, sizeof file, path, "config.yaml"));
    return dqn_file_replace(ops, file, text, strlen(text));
}
