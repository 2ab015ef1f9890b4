#include "file_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the system's calls ---- */

static int system_open(void *context, const char *path, int flags, int mode) {
    (void)context;
    return open(path, flags | O_CLOEXEC, (mode_t)mode);
}

static ssize_t system_pwrite(void *context, int fd, const void *data, size_t size, off_t offset) {
    (void)context;
    return pwrite(fd, data, size, offset);
}

static ssize_t system_pread(void *context, int fd, void *data, size_t size, off_t offset) {
    (void)context;
    return pread(fd, data, size, offset);
}

static int system_ftruncate(void *context, int fd, off_t size) {
    (void)context;
    return ftruncate(fd, size);
}

static int system_fchmod(void *context, int fd, int mode) {
    (void)context;
    return fchmod(fd, (mode_t)mode);
}

static int system_fsync(void *context, int fd) {
    (void)context;
    return fsync(fd);
}

static int system_close(void *context, int fd) {
    (void)context;
    return close(fd);
}

static int system_rename(void *context, const char *from, const char *to) {
    (void)context;
    return rename(from, to);
}

static int system_link(void *context, const char *from, const char *to) {
    (void)context;
    return link(from, to);
}

static int system_symlink(void *context, const char *target, const char *path) {
    (void)context;
    return symlink(target, path);
}

static int system_unlink(void *context, const char *path) {
    (void)context;
    return unlink(path);
}

static int system_mkdir(void *context, const char *path, int mode) {
    (void)context;
    return mkdir(path, (mode_t)mode);
}

const struct dqn_file_ops dqn_file_ops_system = {
    .open = system_open,
    .pwrite = system_pwrite,
    .pread = system_pread,
    .ftruncate = system_ftruncate,
    .fchmod = system_fchmod,
    .fsync = system_fsync,
    .close = system_close,
    .rename = system_rename,
    .link = system_link,
    .symlink = system_symlink,
    .unlink = system_unlink,
    .mkdir = system_mkdir,
};

static const struct dqn_file_ops *or_system(const struct dqn_file_ops *ops) {
    return ops != NULL ? ops : &dqn_file_ops_system;
}

/* ---- whole reads and writes ---- */

/* One call moves less than 2 GiB on Linux; smaller pieces also let a signal through. */
static const size_t piece_bytes = (size_t)1 << 30;

int dqn_file_write_at(const struct dqn_file_ops *ops, int fd, const void *data, size_t size,
                      off_t offset) {
    ops = or_system(ops);
    const unsigned char *from = data;
    while (size > 0) {
        const size_t piece = size < piece_bytes ? size : piece_bytes;
        const ssize_t n = ops->pwrite(ops->context, fd, from, piece, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return -1;
        }
        from += n;
        size -= (size_t)n;
        offset += n;
    }
    return 0;
}

ssize_t dqn_file_read_at(const struct dqn_file_ops *ops, int fd, void *data, size_t size,
                         off_t offset) {
    ops = or_system(ops);
    unsigned char *to = data;
    size_t done = 0;
    while (done < size) {
        const size_t piece = size - done < piece_bytes ? size - done : piece_bytes;
        const ssize_t n = ops->pread(ops->context, fd, to + done, piece, offset + (off_t)done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* ---- paths ---- */

enum dqn_status dqn_file_folder(char *out, size_t size, const char *path) {
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    if (length >= size) {
        return dqn_fail(DQN_ERR_CONFIG, "%s: the path is longer than %zu bytes; use a shorter one",
                        path, size - 1);
    }
    memcpy(out, slash == NULL ? "." : path, length);
    out[length] = '\0';
    return DQN_OK;
}

/* ---- temporaries ---- */

static const char temporary_prefix[] = ".tmp-";

enum dqn_status dqn_file_temporary(char *out, size_t size, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const int folder = (int)(name - path);
    const int n =
        snprintf(out, size, "%.*s%s%ld-%s", folder, path, temporary_prefix, (long)getpid(), name);
    if (n < 0 || (size_t)n >= size) {
        return dqn_fail(DQN_ERR_DISK, "%s: the path is longer than %zu bytes; use a shorter one",
                        path, size - 1);
    }
    return DQN_OK;
}

bool dqn_file_is_temporary(const char *name) {
    const size_t prefix = sizeof temporary_prefix - 1;
    if (strncmp(name, temporary_prefix, prefix) != 0) {
        return false;
    }
    const size_t digits = strspn(name + prefix, "0123456789");
    return digits > 0 && name[prefix + digits] == '-' && name[prefix + digits + 1] != '\0';
}

/* ---- what a person names ---- */

static const char *kind_name(mode_t mode) {
    return S_ISDIR(mode)    ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static enum dqn_status check_kind(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || S_ISREG(info.st_mode)) {
        return DQN_OK;
    }
    if (S_ISLNK(info.st_mode)) {
        return dqn_fail(DQN_ERR_DISK,
                        "%s: is a symbolic link, which a file would replace; name the file that it "
                        "leads to, or remove it before",
                        path);
    }
    return dqn_fail(DQN_ERR_DISK,
                    "%s: is %s, which a file would replace; name another file, or remove it before",
                    path, kind_name(info.st_mode));
}

enum dqn_status dqn_file_check_link(const char *path, const char *folder) {
    struct stat info;
    if (lstat(folder, &info) != 0 || !S_ISLNK(info.st_mode) || stat(folder, &info) == 0) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_DISK,
                    "%s: cannot be made: %s is a symbolic link that leads nowhere (%s); remove it, "
                    "or make what it leads to",
                    path, folder, strerror(errno));
}

enum dqn_status dqn_file_check_folder(const char *path, const char *folder) {
    struct stat info;
    DQN_TRY(dqn_file_check_link(path, folder));
    int error = stat(folder, &info) != 0 ? errno : 0;
    if (error == ENOENT) {
        return dqn_fail(DQN_ERR_DISK,
                        "%s: cannot be written: there is no folder %s; make it before, or name "
                        "another place",
                        path, folder);
    }
    if (error == 0 && !S_ISDIR(info.st_mode)) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be written: %s is no folder; name another place",
                        path, folder);
    }
    if (error == 0 && access(folder, W_OK | X_OK) != 0) {
        error = errno;
    }
    return error == 0 ? DQN_OK
                      : dqn_fail(DQN_ERR_DISK,
                                 "%s: cannot be written: the folder %s takes no files: %s; name "
                                 "another place",
                                 path, folder, strerror(error));
}

enum dqn_status dqn_file_check_target(const char *path) {
    char temporary[4096], folder[4096];
    struct stat info;
    DQN_TRY(check_kind(path));
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, path));
    DQN_TRY(dqn_file_folder(folder, sizeof folder, path));
    DQN_TRY(dqn_file_check_folder(path, folder));
    if (lstat(temporary, &info) != 0 && errno != ENOENT) { /* the longer name of the two */
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be written: %s; name another file", path,
                        strerror(errno));
    }
    return DQN_OK;
}

enum dqn_status dqn_file_check_apart(const char *output, const char *input) {
    struct stat out, in;
    if (stat(output, &out) != 0 || stat(input, &in) != 0 || !S_ISREG(out.st_mode) ||
        out.st_dev != in.st_dev || out.st_ino != in.st_ino) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_CONFIG,
                    "%s: is the same file as %s, which is read; writing would replace it: name "
                    "another output",
                    output, input);
}

int dqn_file_create_temporary(const struct dqn_file_ops *ops, const char *temporary,
                              const char *path, int flags) {
    ops = or_system(ops);
    struct stat old, now;
    const bool replaces = lstat(path, &old) == 0 && S_ISREG(old.st_mode);
    const int mode = replaces ? (int)(old.st_mode & 0777) : 0666;
    const int fd = ops->open(ops->context, temporary, flags | O_CREAT | O_TRUNC | O_NOFOLLOW, mode);
    if (fd < 0 || !replaces || (fstat(fd, &now) == 0 && (int)(now.st_mode & 0777) == mode)) {
        return fd;
    }
    if (ops->fchmod(ops->context, fd, mode) != 0) { /* bits that the umask took, or an old one's */
        const int error = errno;
        ops->close(ops->context, fd);
        ops->unlink(ops->context, temporary);
        errno = error;
        return -1;
    }
    return fd;
}

FILE *dqn_file_open_temporary(const char *temporary, const char *path) {
    const int fd = dqn_file_create_temporary(NULL, temporary, path, O_WRONLY);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (file == NULL && fd >= 0) {
        close(fd);
    }
    return file;
}

/* One symbolic link on: `path`, of 4096 bytes, gets where it leads. False when it is none. */
static bool follow_link(char *path) {
    char text[4096], folder[4096], to[2 * 4096];
    const ssize_t length = readlink(path, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    if (dqn_file_folder(folder, sizeof folder, path) != DQN_OK) {
        return false;
    }
    const int n = text[0] == '/' ? snprintf(to, sizeof to, "%s", text)
                                 : snprintf(to, sizeof to, "%s/%s", folder, text);
    if (length <= 0 || n >= 4096) {
        return false;
    }
    memcpy(path, to, (size_t)n + 1);
    return true;
}

bool dqn_file_is_standard_output(const char *path) {
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    char at[4096];
    bool more = snprintf(at, sizeof at, "%s", path) < (int)sizeof at;
    for (int links = 0; more && links < 40; links++) {
        for (size_t i = links == 0 ? 0 : 1; i < DQN_COUNT_OF(names); i++) {
            if (strcmp(at, names[i]) == 0) {
                return true;
            }
        }
        more = follow_link(at);
    }
    return false;
}

bool dqn_file_is_stream(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode));
}

/* ---- replacement ---- */

enum dqn_status dqn_file_sync_folder(const struct dqn_file_ops *ops, const char *path) {
    ops = or_system(ops);
    char folder[4096];
    enum dqn_status status = DQN_OK;
    DQN_TRY(dqn_file_folder(folder, sizeof folder, path));
    const int fd = ops->open(ops->context, folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: the folder cannot be opened to sync it: %s", folder,
                        strerror(errno));
    }
    /* Some file systems cannot sync folders and say EINVAL: they give no better promise. */
    if (ops->fsync(ops->context, fd) != 0 && errno != EINVAL) {
        status =
            dqn_fail(DQN_ERR_DISK, "%s: syncing the folder failed: %s", folder, strerror(errno));
    }
    ops->close(ops->context, fd);
    return status;
}

enum dqn_status dqn_file_commit(const struct dqn_file_ops *ops, const char *temporary,
                                const char *path) {
    ops = or_system(ops);
    if (ops->rename(ops->context, temporary, path) != 0) {
        const int error = errno;
        ops->unlink(ops->context, temporary);
        return dqn_fail(DQN_ERR_DISK, "%s: putting the finished file in place failed: %s", path,
                        strerror(error));
    }
    return dqn_file_sync_folder(ops, path);
}

enum dqn_status dqn_file_replace(const struct dqn_file_ops *ops, const char *path, const void *data,
                                 size_t size) {
    ops = or_system(ops);
    char temporary[4096];
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, path));
    const int fd = dqn_file_create_temporary(ops, temporary, path, O_WRONLY);
    if (fd < 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be created: %s", temporary, strerror(errno));
    }
    int error = 0;
    if (dqn_file_write_at(ops, fd, data, size, 0) != 0 || ops->fsync(ops->context, fd) != 0) {
        error = errno;
    }
    if (ops->close(ops->context, fd) != 0 && error == 0) {
        error = errno;
    }
    if (error != 0) {
        ops->unlink(ops->context, temporary);
        return dqn_fail(DQN_ERR_DISK, "%s: writing failed: %s", path, strerror(error));
    }
    return dqn_file_commit(ops, temporary, path);
}
