/* Saving when the disk is full, when any system call fails, and when the process is killed: the
 * file before stays good, the new one is complete or not there, and nothing else is left. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "h5file.h"
#include "run_folder.h"
#include "sealed_file.h"
#include "status_checks.h"
#include "store_support.h"

static struct dqn_device device;
static struct dqn_queue *queue;
static char folder[256], first[512], second[512], best[512];

static void setup(void) {
    device.backend = &store_backend;
    queue = store_queue(&device);
    store_folder(folder, sizeof folder);
    snprintf(first, sizeof first, "%s/epoch-000001.h5", folder);
    snprintf(second, sizeof second, "%s/epoch-000002.h5", folder);
    snprintf(best, sizeof best, "%s/best.h5", folder);
    dqn_log_set_quiet(true);
}

static void teardown(void) {
    store_folder_remove(folder);
    store_queue_free(queue);
}

TestSuite(fault, .init = setup, .fini = teardown);

/* ---- calls that fail ---- */

struct faults {
    uint64_t calls;   /* so far */
    uint64_t fail_at; /* this call fails, counted from 1; 0 = none */
    bool for_ever;    /* and all after it */
    bool unlink_fails;
    int error;
    char trace[4096]; /* one letter a call, upper case for what finishes */
};

static bool fails(struct faults *f, char letter) {
    f->calls++;
    if (f->calls < sizeof f->trace) {
        f->trace[f->calls - 1] = letter;
    }
    const bool due =
        f->fail_at != 0 && (f->calls == f->fail_at || (f->for_ever && f->calls > f->fail_at));
    if (due) {
        errno = f->error;
    }
    return due;
}

static const struct dqn_file_ops *const real = &dqn_file_ops_system;

static int fault_open(void *c, const char *path, int flags, int mode) {
    return fails(c, 'o') ? -1 : real->open(NULL, path, flags, mode);
}
static ssize_t fault_pwrite(void *c, int fd, const void *data, size_t size, off_t offset) {
    return fails(c, 'w') ? -1 : real->pwrite(NULL, fd, data, size, offset);
}
static ssize_t fault_pread(void *c, int fd, void *data, size_t size, off_t offset) {
    return fails(c, 'r') ? -1 : real->pread(NULL, fd, data, size, offset);
}
static int fault_ftruncate(void *c, int fd, off_t size) {
    return fails(c, 't') ? -1 : real->ftruncate(NULL, fd, size);
}
static int fault_fchmod(void *c, int fd, int mode) {
    return fails(c, 'p') ? -1 : real->fchmod(NULL, fd, mode);
}
static int fault_fsync(void *c, int fd) {
    struct stat info;
    const bool is_folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    return fails(c, is_folder ? 'D' : 's') ? -1 : real->fsync(NULL, fd);
}
/* As close itself does, a failing one closes all the same. */
static int fault_close(void *c, int fd) {
    const bool failed = fails(c, 'c');
    const int error = errno;
    const int result = real->close(NULL, fd);
    errno = error;
    return failed ? -1 : result;
}
static int fault_rename(void *c, const char *from, const char *to) {
    return fails(c, 'R') ? -1 : real->rename(NULL, from, to);
}
static int fault_link(void *c, const char *from, const char *to) {
    return fails(c, 'l') ? -1 : real->link(NULL, from, to);
}
static int fault_symlink(void *c, const char *target, const char *path) {
    return fails(c, 'y') ? -1 : real->symlink(NULL, target, path);
}
/* Removing usually works where writing does not; whether it fails too is a choice of the test. */
static int fault_unlink(void *c, const char *path) {
    struct faults *f = c;
    if (f->unlink_fails && fails(f, 'u')) {
        return -1;
    }
    return real->unlink(NULL, path);
}
static int fault_mkdir(void *c, const char *path, int mode) {
    return fails(c, 'm') ? -1 : real->mkdir(NULL, path, mode);
}

static struct dqn_file_ops fault_ops(struct faults *f) {
    return (struct dqn_file_ops){.context = f,
                                 .open = fault_open,
                                 .pwrite = fault_pwrite,
                                 .pread = fault_pread,
                                 .ftruncate = fault_ftruncate,
                                 .fchmod = fault_fchmod,
                                 .fsync = fault_fsync,
                                 .close = fault_close,
                                 .rename = fault_rename,
                                 .link = fault_link,
                                 .symlink = fault_symlink,
                                 .unlink = fault_unlink,
                                 .mkdir = fault_mkdir};
}

static enum dqn_status save(const struct dqn_arena *arena, uint64_t epochs, bool is_best,
                            int64_t keep_last, const struct dqn_file_ops *ops) {
    struct dqn_checkpoint_writer *writer = NULL;
    const struct dqn_checkpoint_request request = {
        .folder = folder, .epochs = epochs, .best = is_best, .keep_last = keep_last};
    DQN_TRY(dqn_checkpoint_writer_create(&writer, arena, true, ops));
    enum dqn_status status = dqn_checkpoint_save(writer, queue, store_content(3), &request);
    if (status == DQN_OK) {
        status = dqn_checkpoint_wait(writer);
        char text[2048]; /* the error is told once */
        snprintf(text, sizeof text, "%s", dqn_error_text());
        cr_assert_eq(dqn_checkpoint_wait(writer), DQN_OK);
        if (status != DQN_OK) {
            dqn_fail(status, "%s", text);
        }
    }
    dqn_checkpoint_writer_destroy(writer);
    return status;
}

/* Whether a file is a good checkpoint with exactly the arena's contents. */
static bool holds(const char *path, const struct dqn_arena *arena, struct dqn_arena *scratch) {
    struct dqn_checkpoint *c = NULL;
    if (dqn_checkpoint_open(&c, path) != DQN_OK) {
        return false;
    }
    store_fill(scratch, 12345);
    const bool loaded = dqn_checkpoint_load(c, scratch, queue) == DQN_OK;
    dqn_checkpoint_close(c);
    return loaded && store_difference(arena, scratch, DQN_BUFFER_SAVED) == NULL;
}

/* Lets call after call fail. The second save replaces best.h5 and, by keep_last 1, would remove the
 * first file once it is through. */
static void sweep(int error, bool for_ever, bool unlink_fails) {
    struct dqn_arena *old = store_arena(&device, 5), *new = store_arena(&device, 5);
    struct dqn_arena *scratch = store_arena(&device, 5);
    store_fill(old, 1);
    store_fill(new, 2);
    size_t failed = 0;
    for (uint64_t at = 1;; at++) {
        struct faults f = {
            .fail_at = at, .for_ever = for_ever, .unlink_fails = unlink_fails, .error = error};
        const struct dqn_file_ops ops = fault_ops(&f);
        unlink(second);
        OK(save(old, 1, true, 0, NULL));
        const enum dqn_status status = save(new, 2, true, 1, &ops);
        if (status == DQN_OK) {
            cr_assert(holds(second, new, scratch) && holds(best, new, scratch));
        } else {
            failed++;
            cr_assert_eq(status, DQN_ERR_DISK, "call %ju: %s", (uintmax_t)at, dqn_error_text());
            cr_assert_not_null(strstr(dqn_error_text(), folder), "%s", dqn_error_text());
            cr_assert_not_null(strstr(dqn_error_text(), strerror(error)), "%s", dqn_error_text());
            cr_assert(holds(first, old, scratch), "call %ju", (uintmax_t)at);
            cr_assert(holds(best, old, scratch) || holds(best, new, scratch));
            cr_assert(access(second, F_OK) != 0 || holds(second, new, scratch));
        }
        if (!unlink_fails) {
            cr_assert_eq(store_count(folder, ".tmp-"), 0, "call %ju", (uintmax_t)at);
        } else {
            struct dqn_run_folder run; /* the next run clears up */
            OK(dqn_run_folder_open(&run, folder, NULL));
            dqn_run_folder_close(&run);
            cr_assert_eq(store_count(folder, ".tmp-"), 0);
        }
        if (f.calls < at) {
            cr_assert_eq(status, DQN_OK);
            break;
        }
    }
    cr_assert(failed > 10, "%zu", failed);
    dqn_arena_destroy(old);
    dqn_arena_destroy(new);
    dqn_arena_destroy(scratch);
}

Test(fault, any_call_fails_once) {
    sweep(ENOSPC, false, false);
    sweep(EIO, false, true);
}

Test(fault, all_calls_fail_from_one_on) {
    sweep(ENOSPC, true, false);
    sweep(EIO, true, true);
}

/* Half of what is asked for, and now and then an interrupt: as a file system may do. */
static ssize_t short_pwrite(void *c, int fd, const void *data, size_t size, off_t offset) {
    uint64_t *turn = c;
    if (++*turn % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return pwrite(fd, data, size > 1 ? size / 2 : size, offset);
}
static ssize_t short_pread(void *c, int fd, void *data, size_t size, off_t offset) {
    uint64_t *turn = c;
    if (++*turn % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return pread(fd, data, size > 1 ? size / 2 : size, offset);
}

Test(fault, short_and_interrupted_calls_give_the_same_file) {
    struct dqn_arena *arena = store_arena(&device, 30);
    store_fill(arena, 4);
    uint64_t turn = 0;
    struct dqn_file_ops ops = dqn_file_ops_system;
    ops.context = &turn;
    ops.pwrite = short_pwrite;
    ops.pread = short_pread;
    size_t n[2] = {0, 1};
    OK(store_save(arena, queue, folder, 1, true, NULL));
    unsigned char *a = store_read(first, &n[0]);
    OK(store_save(arena, queue, folder, 1, true, &ops));
    unsigned char *b = store_read(first, &n[1]);
    cr_assert(n[0] == n[1] && memcmp(a, b, n[0]) == 0);
    free(a);
    free(b);
    dqn_arena_destroy(arena);
}

/* The file's sync comes after its last write and before the rename, the folder's sync after it. */
Test(fault, order_of_calls) {
    struct dqn_arena *arena = store_arena(&device, 5);
    struct faults f = {.fail_at = 0};
    const struct dqn_file_ops ops = fault_ops(&f);
    OK(store_save(arena, queue, folder, 1, true, &ops));
    const char *sync = strchr(f.trace, 's'), *rename_call = strchr(f.trace, 'R');
    const char *folder_sync = strchr(f.trace, 'D');
    cr_assert(sync != NULL && rename_call != NULL && folder_sync != NULL, "%s", f.trace);
    cr_assert(strrchr(f.trace, 'w') < sync && strrchr(f.trace, 't') < sync, "%s", f.trace);
    cr_assert(sync < rename_call && rename_call < folder_sync, "%s", f.trace);
    dqn_arena_destroy(arena);
}

/* ---- a full disk ---- */

/* The system itself refuses to write past each KiB of the file in turn: what the library does with
 * a file system that is full, through its close and to the end of the process. */
Test(fault, disk_full_at_every_kib) {
    struct dqn_arena *old = store_arena(&device, 150), *new = store_arena(&device, 150);
    struct dqn_arena *scratch = store_arena(&device, 150);
    store_fill(old, 1);
    store_fill(new, 2);
    OK(save(old, 1, true, 0, NULL));
    size_t size = 0;
    free(store_read(first, &size));
    cr_assert(size > 64 * 1024);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    for (size_t bytes = 0; bytes < size; bytes += 1024) {
        limit.rlim_cur = bytes;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const enum dqn_status status = save(new, 2, true, 0, NULL);
        limit.rlim_cur = before;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_eq(status, DQN_ERR_DISK, "%zu bytes: %s", bytes, dqn_error_text());
        cr_assert_not_null(strstr(dqn_error_text(), second), "%s", dqn_error_text());
        cr_assert_not_null(strstr(dqn_error_text(), strerror(EFBIG)), "%s", dqn_error_text());
        cr_assert(access(second, F_OK) != 0 && store_count(folder, ".tmp-") == 0);
    }
    cr_assert(holds(first, old, scratch) && holds(best, old, scratch));
    OK(save(new, 2, true, 0, NULL)); /* there is room again */
    cr_assert(holds(second, new, scratch));
    cr_assert(H5close() >= 0); /* the library itself ends well */
    dqn_arena_destroy(old);
    dqn_arena_destroy(new);
    dqn_arena_destroy(scratch);
}

/* ---- killed while saving ---- */

static void save_for_ever(const struct dqn_arena *arena, uint64_t epochs) {
    struct dqn_checkpoint_writer *writer = NULL;
    if (dqn_checkpoint_writer_create(&writer, arena, true, NULL) != DQN_OK) {
        _exit(1);
    }
    for (;; epochs++) {
        store_fill(arena, epochs);
        const struct dqn_checkpoint_request request = {
            .folder = folder, .epochs = epochs, .best = epochs % 3 == 0, .keep_last = 2};
        if (dqn_checkpoint_save(writer, queue, store_content(3), &request) != DQN_OK) {
            _exit(2);
        }
    }
}

Test(fault, killed_at_random_moments) {
    enum { ROUNDS = 60 };
    struct dqn_arena *arena = store_arena(&device, 300), *loaded = store_arena(&device, 300);
    uint64_t epochs = 1, x = 88172645463325252u;
    store_fill(arena, 1);
    OK(save(arena, 1, true, 2, NULL));
    int partial_seen = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const pid_t child = fork();
        if (child == 0) {
            save_for_ever(arena, epochs + 1);
        }
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        const struct timespec pause = {.tv_nsec = (long)(1000000 + x % 25000000)};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        cr_assert(WIFSIGNALED(status), "the child failed by itself: %d", status);

        partial_seen += store_count(folder, ".tmp-") > 0 ? 1 : 0;
        char path[512];
        OK(dqn_run_folder_resolve(path, sizeof path, folder));
        char *report = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&report, &size);
        OK(dqn_run_folder_verify(folder, stream));
        fclose(stream);
        cr_assert_null(strstr(report, "damaged"), "%s", report);
        free(report);
        struct dqn_run_folder run;
        OK(dqn_run_folder_open(&run, folder, NULL));
        dqn_run_folder_close(&run);
        cr_assert_eq(store_count(folder, ".tmp-"), 0);
        /* It holds what that epoch was, whole. */
        bool is_partial = false;
        cr_assert(dqn_run_folder_parse(strrchr(path, '/') + 1, &epochs, &is_partial));
        store_fill(arena, epochs);
        cr_assert(holds(path, arena, loaded), "round %d: %s", round, path);
    }
    cr_log_info("%ju epochs saved, %d of %d kills inside a save", (uintmax_t)epochs, partial_seen,
                ROUNDS);
    cr_assert(epochs > 1 && partial_seen > 0);
    dqn_arena_destroy(arena);
    dqn_arena_destroy(loaded);
}

/* ---- run folders ---- */

/* Creation with any call failing: an error and no folder, or a run that works. */
Test(fault, any_call_fails_when_a_run_begins) {
    for (uint64_t at = 1;; at++) {
        struct faults f = {.fail_at = at, .for_ever = at % 2 == 0, .error = ENOSPC};
        const struct dqn_file_ops ops = fault_ops(&f);
        struct dqn_run_folder run;
        char output[300];
        snprintf(output, sizeof output, "%s/runs %ju", folder, (uintmax_t)at);
        const enum dqn_status status = dqn_run_folder_create(&run, output, "x", &ops);
        if (status == DQN_OK) {
            OK(dqn_run_folder_probe(run.path, NULL));
            cr_assert_eq(store_count(run.path, ".tmp-"), 0);
            dqn_run_folder_close(&run);
        } else {
            cr_assert_eq(status, DQN_ERR_DISK, "%s", dqn_error_text());
            cr_assert_not_null(strstr(dqn_error_text(), strerror(ENOSPC)), "%s", dqn_error_text());
            cr_assert_eq(run.lock, -1);
            cr_assert(store_count(output, "x-") <= 0, "call %ju", (uintmax_t)at);
        }
        if (f.calls < at) {
            cr_assert(status == DQN_OK && at > 8);
            break;
        }
    }
}
