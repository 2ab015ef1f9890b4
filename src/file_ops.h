/* The file system calls that write a run's files, behind a table, so that tests can let any of
 * them fail; and what is built on them: whole writes, folder syncs, atomic replacement. */
#ifndef DQN_FILE_OPS_H
#define DQN_FILE_OPS_H

#include <stdio.h>
#include <sys/types.h>

#include "base.h"

/* Each entry behaves as the POSIX call of its name: -1 and errno on failure. */
struct dqn_file_ops {
    void *context; /* first argument of all */
    int (*open)(void *context, const char *path, int flags, int mode);
    ssize_t (*pwrite)(void *context, int fd, const void *data, size_t size, off_t offset);
    ssize_t (*pread)(void *context, int fd, void *data, size_t size, off_t offset);
    int (*ftruncate)(void *context, int fd, off_t size);
    int (*fchmod)(void *context, int fd, int mode);
    int (*fsync)(void *context, int fd);
    int (*close)(void *context, int fd);
    int (*rename)(void *context, const char *from, const char *to);
    int (*link)(void *context, const char *from, const char *to);
    int (*symlink)(void *context, const char *target, const char *path);
    int (*unlink)(void *context, const char *path);
    int (*mkdir)(void *context, const char *path, int mode);
};

/* The system's own calls. Wherever a function takes `ops`, NULL means these. */
extern const struct dqn_file_ops dqn_file_ops_system;

/* Writes all of it, however many calls it takes. Returns 0, or -1 and errno. */
int dqn_file_write_at(const struct dqn_file_ops *ops, int fd, const void *data, size_t size,
                      off_t offset);
/* Reads up to `size` bytes; fewer only at the file's end. Returns their number, or -1 and errno. */
ssize_t dqn_file_read_at(const struct dqn_file_ops *ops, int fd, void *data, size_t size,
                         off_t offset);

/* "<folder of path>/.tmp-<pid>-<name of path>". DQN_ERR_DISK when that is too long. */
enum dqn_status dqn_file_temporary(char *out, size_t size, const char *path);
/* Whether a file name (without folder) is one that dqn_file_temporary makes. */
bool dqn_file_is_temporary(const char *name);

/* Before a file that a person names is written, and best before the work for it: DQN_ERR_DISK when
 * something of that name is there that is no plain file (a symbolic link, folder, pipe, socket,
 * device), which would be replaced, and when its folder is missing or takes no files. */
enum dqn_status dqn_file_check_target(const char *path);
/* Folder of a file's path: "." where it has none. DQN_ERR_CONFIG when it is too long. */
enum dqn_status dqn_file_folder(char *out, size_t size, const char *path);
/* DQN_ERR_CONFIG, naming both, when `output` is a plain file that is read as `input`, by whatever
 * path, hard or symbolic link: writing would replace it. */
enum dqn_status dqn_file_check_apart(const char *output, const char *input);
/* DQN_ERR_DISK when `folder` is a symbolic link that leads nowhere, so that no folder can be made
 * in its place; `path` is what the message names. */
enum dqn_status dqn_file_check_link(const char *path, const char *folder);
/* DQN_ERR_DISK when no file or folder can be made in `folder`; `path` is what the message names. */
enum dqn_status dqn_file_check_folder(const char *path, const char *folder);
/* Opens a temporary for writing (`flags` O_WRONLY or O_RDWR), emptied. It has the permission bits
 * of the plain file `path`, which it will replace; without such a file those that the umask leaves.
 * A file descriptor, or -1 and errno, also where a symbolic link has its name. */
int dqn_file_create_temporary(const struct dqn_file_ops *ops, const char *temporary,
                              const char *path, int flags);
/* The same as a stream; NULL and errno. */
FILE *dqn_file_open_temporary(const char *temporary, const char *path);
/* Whether it means the standard output: "-", or a name of it such as /dev/stdout, also one that
 * symbolic links lead to. */
bool dqn_file_is_standard_output(const char *path);
/* Whether bytes go through it and are not kept: a pipe, a terminal or another device of characters,
 * itself or by a symbolic link. */
bool dqn_file_is_stream(const char *path);

/* Replaces `path` by the finished file `temporary` in the same folder and syncs the folder. After
 * DQN_ERR_DISK the temporary is gone, and `path` is either the old file or the new one, complete.
 */
enum dqn_status dqn_file_commit(const struct dqn_file_ops *ops, const char *temporary,
                                const char *path);
/* fsync of the folder that holds `path`. */
enum dqn_status dqn_file_sync_folder(const struct dqn_file_ops *ops, const char *path);
/* Writes a small file so that `path` is at any moment the old or the new one, complete. */
enum dqn_status dqn_file_replace(const struct dqn_file_ops *ops, const char *path, const void *data,
                                 size_t size);

#endif
