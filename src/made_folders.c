#include "made_folders.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another program may take back what it made above just before ours is made in it. */
enum { TRIES = 100 };

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static enum dqn_status cannot_make(const char *path, int error) {
    struct stat info;
    if (error == EEXIST && lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        DQN_TRY(dqn_file_check_link(path, path));
    }
    return dqn_fail(DQN_ERR_DISK, "%s: the folder cannot be made: %s", path,
                    strerror(error == EEXIST ? ENOTDIR : error));
}

/* One walk along the path. 0, or errno and the part that cannot be made. */
static int make_missing(struct dqn_made_folders *f, char *part, const struct dqn_file_ops *ops) {
    const size_t length = strlen(f->path);
    for (size_t i = 1; i <= length; i++) {
        if (f->path[i] != '/' && f->path[i] != '\0') {
            continue;
        }
        memcpy(part, f->path, i);
        part[i] = '\0';
        if (is_folder(part)) {
            continue;
        }
        if (ops->mkdir(ops->context, part, 0777) == 0) {
            f->made[i] = true;
        } else {
            const int error = errno; /* another program may have made it meanwhile */
            if (error != EEXIST || !is_folder(part)) {
                return error;
            }
        }
    }
    return 0;
}

enum dqn_status dqn_made_folders_make(struct dqn_made_folders *folders, const char *path,
                                      const struct dqn_file_ops *ops) {
    char part[DQN_TEXT_MAX];
    ops = ops != NULL ? ops : &dqn_file_ops_system;
    if (strlen(path) >= sizeof folders->path) {
        return dqn_fail(DQN_ERR_CONFIG, "%s: the path is longer than %zu bytes; use a shorter one",
                        path, sizeof folders->path - 1);
    }
    memcpy(folders->path, path, strlen(path) + 1);
    int error = ENOENT;
    for (int i = 0; i < TRIES && error == ENOENT; i++) {
        error = make_missing(folders, part, ops);
    }
    if (error == 0) {
        return DQN_OK;
    }
    const enum dqn_status status = cannot_make(part, error);
    dqn_made_folders_remove(folders);
    return status;
}

void dqn_made_folders_remove(const struct dqn_made_folders *folders) {
    char part[DQN_TEXT_MAX];
    for (size_t i = strlen(folders->path); i > 0; i--) {
        if (folders->made[i]) {
            memcpy(part, folders->path, i);
            part[i] = '\0';
            rmdir(part); /* fails where something is in it */
        }
    }
}
