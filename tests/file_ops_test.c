/* Outputs that a person names: what is refused before the work, and the permission bits of what is
 * replaced. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_ops.h"
#include "status_checks.h"
#include "store_support.h"

static char base[256];

static void setup(void) {
    store_folder(base, sizeof base);
    cr_assert_eq(chdir(base), 0);
}

static void teardown(void) {
    store_folder_remove(base);
}

TestSuite(file_ops, .init = setup, .fini = teardown);

static int bits(const char *path) {
    struct stat info;
    cr_assert_eq(lstat(path, &info), 0, "%s: %s", path, strerror(errno));
    return (int)(info.st_mode & 07777);
}

static void write_with_bits(const char *path, int mode) {
    store_write(path, "old", 3);
    cr_assert_eq(chmod(path, (mode_t)mode), 0);
}

/* ---- permission bits ---- */

Test(file_ops, a_replaced_file_keeps_its_bits_and_a_new_one_gets_the_umasks) {
    static const int modes[] = {0600, 0640, 0644, 0666, 0444, 0755, 0400};
    umask(027);
    for (size_t i = 0; i < DQN_COUNT_OF(modes); i++) {
        write_with_bits("old", modes[i]);
        OK(dqn_file_replace(NULL, "old", "new", 3));
        cr_expect_eq(bits("old"), modes[i], "%o became %o", modes[i], bits("old"));
    }
    OK(dqn_file_replace(NULL, "fresh", "new", 3));
    cr_expect_eq(bits("fresh"), 0640, "%o", bits("fresh"));
}

Test(file_ops, a_temporary_is_never_wider_than_what_it_replaces) {
    umask(0);
    write_with_bits("old", 0600);
    write_with_bits(".tmp-1-old", 0666); /* left over */
    FILE *file = dqn_file_open_temporary(".tmp-1-old", "old");
    cr_assert_not_null(file, "%s", strerror(errno));
    cr_expect_eq(bits(".tmp-1-old"), 0600);
    fclose(file);
}

/* The bits are of the file itself, not of what a link leads to; set-uid is no permission. */
Test(file_ops, bits_that_are_not_taken_over) {
    umask(022);
    write_with_bits("old", 04755);
    OK(dqn_file_replace(NULL, "old", "new", 3));
    cr_expect_eq(bits("old"), 0755, "%o", bits("old"));
    write_with_bits("far", 0600);
    cr_assert_eq(symlink("far", "link"), 0);
    OK(dqn_file_replace(NULL, "link", "new", 3));
    cr_expect_eq(bits("link"), 0644, "%o", bits("link"));
}

static int no_fchmod(void *context, int fd, int mode) {
    (void)context;
    (void)fd;
    (void)mode;
    errno = EPERM;
    return -1;
}

Test(file_ops, bits_that_cannot_be_kept_leave_the_old_file) {
    struct dqn_file_ops ops = dqn_file_ops_system;
    ops.fchmod = no_fchmod;
    umask(022);
    write_with_bits("old", 0666);
    FAILS(dqn_file_replace(&ops, "old", "new", 3), DQN_ERR_DISK, "Operation not permitted");
    size_t size = 0;
    unsigned char *data = store_read("old", &size);
    cr_expect(size == 3 && memcmp(data, "old", 3) == 0);
    free(data);
    cr_expect_eq(store_count(".", ".tmp"), 0, "a temporary is left");
    cr_assert_eq(chmod("old", 0644), 0); /* what the umask gives needs no change */
    OK(dqn_file_replace(&ops, "old", "new", 3));
}

/* ---- what is refused ---- */

Test(file_ops, places_that_take_no_file) {
    char name[300];
    memset(name, 'x', sizeof name);
    cr_assert_eq(mkdir("folder", 0777), 0);
    cr_assert_eq(mkfifo("pipe", 0666), 0);
    cr_assert_eq(symlink("none", "link"), 0);
    store_write("file", "x", 1);
    OK(dqn_file_check_target("file"));
    OK(dqn_file_check_target("fresh"));
    OK(dqn_file_check_target("folder/fresh"));
    OK(dqn_file_check_target("/tmp/fresh"));
    cr_expect_eq(access("fresh", F_OK), -1, "looking makes a file");
    FAILS(dqn_file_check_target("folder"), DQN_ERR_DISK, "folder: is a folder");
    FAILS(dqn_file_check_target("folder/"), DQN_ERR_DISK, "folder/: is a folder");
    FAILS(dqn_file_check_target("pipe"), DQN_ERR_DISK, "pipe: is a pipe");
    FAILS(dqn_file_check_target("link"), DQN_ERR_DISK, "link: is a symbolic link");
    FAILS(dqn_file_check_target("none/x"), DQN_ERR_DISK, "there is no folder none");
    FAILS(dqn_file_check_target("file/x"), DQN_ERR_DISK, "file is no folder");
    /* 250 bytes fit, but not with what a temporary's name has before them. */
    name[250] = '\0';
    FAILS(dqn_file_check_target(name), DQN_ERR_DISK, "File name too long");
    name[200] = '\0';
    OK(dqn_file_check_target(name));
}

/* The superuser may write everywhere, so that a child without its rights looks. */
Test(file_ops, a_folder_without_rights) {
    cr_assert_eq(chmod(base, 0755), 0);
    cr_assert_eq(mkdir("closed", 0777), 0);
    store_write("closed/old", "x", 1);
    cr_assert_eq(chmod("closed", 0555), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) {
            _exit(3);
        }
        const bool refused = dqn_file_check_target("closed/fresh") == DQN_ERR_DISK &&
                             dqn_file_check_target("closed/old") == DQN_ERR_DISK;
        const char *said = "the folder closed takes no files: Permission denied";
        _exit(!refused ? 1 : strstr(dqn_error_text(), said) == NULL ? 2 : 0);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(chmod("closed", 0755), 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

Test(file_ops, an_output_that_is_the_input) {
    cr_assert_eq(mkdir("folder", 0777), 0);
    store_write("in", "x", 1);
    store_write("other", "x", 1);
    cr_assert_eq(link("in", "hard"), 0);
    cr_assert_eq(symlink("in", "soft"), 0);
    cr_assert_eq(symlink("other", "soft-other"), 0);
    cr_assert_eq(mkfifo("pipe", 0666), 0);
    static const char *const same[] = {"in", "./in", "folder/../in", "hard", "soft"};
    for (size_t i = 0; i < DQN_COUNT_OF(same); i++) {
        char said[64];
        snprintf(said, sizeof said, "%s: is the same file as in, which is read", same[i]);
        FAILS(dqn_file_check_apart(same[i], "in"), DQN_ERR_CONFIG, said);
        FAILS(dqn_file_check_apart("in", same[i]), DQN_ERR_CONFIG, "is the same file as");
    }
    OK(dqn_file_check_apart("other", "in"));
    OK(dqn_file_check_apart("soft-other", "in"));
    OK(dqn_file_check_apart("none", "in"));
    OK(dqn_file_check_apart("in", "none"));
    OK(dqn_file_check_apart("pipe", "pipe")); /* nothing of it is replaced */
}
