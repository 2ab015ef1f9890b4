/* Run folders: exclusive, locked, probed; retention that removes only what is its own; and which
 * checkpoint a resume gets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remove_tree.h"
#include "run_folder.h"
#include "sealed_file.h"
#include "status_checks.h"
#include "store_support.h"

static struct dqn_device device;
static struct dqn_queue *queue;
static struct dqn_arena *arena;
static char base[256], output[512];

static void setup(void) {
    device.backend = &store_backend;
    queue = store_queue(&device);
    arena = store_arena(&device, 3);
    store_fill(arena, 1);
    store_folder(base, sizeof base);
    snprintf(output, sizeof output, "%s/out/runs", base);
    dqn_log_set_quiet(true);
}

static void teardown(void) {
    store_folder_remove(base);
    dqn_arena_destroy(arena);
    store_queue_free(queue);
}

TestSuite(run_folder, .init = setup, .fini = teardown);

/* output + "/" + name, in one of a few buffers. */
static const char *in_output(const char *name) {
    static char text[4][1024];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], "%s/%s", output, name);
    return text[turn];
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* ---- creation and lock ---- */

Test(run_folder, the_same_command_twice_gets_two_folders) {
    struct dqn_run_folder first, second;
    char link[256] = "";
    OK(dqn_run_folder_create(&first, output, "my run", NULL));
    cr_assert_str_eq(first.path, in_output("my run-1"));
    dqn_run_folder_point_latest(first.path, NULL);
    cr_assert(readlink(in_output("latest"), link, sizeof link - 1) > 0);
    cr_assert_str_eq(link, "my run-1");
    OK(dqn_run_folder_create(&second, output, "my run", NULL));
    cr_assert_str_eq(second.path, in_output("my run-2"));
    dqn_run_folder_point_latest(second.path, NULL);
    memset(link, 0, sizeof link);
    cr_assert(readlink(in_output("latest"), link, sizeof link - 1) > 0);
    cr_assert_str_eq(link, "my run-2");
    cr_assert_eq(store_count(output, ".tmp-"), 0);
    cr_assert_eq(store_count(first.path, ".tmp-"), 0);
    dqn_run_folder_close(&first);
    dqn_run_folder_close(&second);
    dqn_run_folder_close(&second); /* twice is allowed */
}

/* Eight processes at once: eight folders. */
Test(run_folder, creation_is_exclusive) {
    enum { N = 8 };
    pid_t child[N];
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            struct dqn_run_folder folder;
            const enum dqn_status status = dqn_run_folder_create(&folder, output, "x", NULL);
            if (status == DQN_OK) {
                dqn_run_folder_point_latest(folder.path, NULL);
            }
            _exit(status == DQN_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < N; i++) {
        int status = 1;
        waitpid(child[i], &status, 0);
        cr_assert_eq(status, 0);
    }
    cr_assert_eq(store_count(output, "x-"), N);
    cr_assert(exists(in_output("x-8")) && exists(in_output("latest/lock")));
}

Test(run_folder, a_second_process_is_refused_until_the_first_ends) {
    struct dqn_run_folder folder, again;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    FAILS(dqn_run_folder_open(&again, folder.path, NULL), DQN_ERR_BUSY, folder.path);
    char pid[32];
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    cr_assert_not_null(strstr(dqn_error_text(), pid), "%s", dqn_error_text());
    cr_assert_eq(again.lock, -1);
    dqn_run_folder_close(&folder);
    OK(dqn_run_folder_open(&again, folder.path, NULL));
    dqn_run_folder_close(&again);
}

Test(run_folder, a_killed_process_leaves_no_lock) {
    int ready[2];
    cr_assert_eq(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct dqn_run_folder folder;
        const char word = dqn_run_folder_create(&folder, output, "x", NULL) == DQN_OK ? 'y' : 'n';
        if (write(ready[1], &word, 1) == 1) {
            pause();
        }
        _exit(1);
    }
    char word = 0;
    cr_assert_eq(read(ready[0], &word, 1), 1);
    cr_assert_eq(word, 'y');
    struct dqn_run_folder folder;
    FAILS(dqn_run_folder_open(&folder, in_output("x-1"), NULL), DQN_ERR_BUSY, "another run");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    OK(dqn_run_folder_open(&folder, in_output("x-1"), NULL));
    dqn_run_folder_close(&folder);
}

Test(run_folder, names_and_places_that_cannot_be_are_refused) {
    struct dqn_run_folder folder;
    const char *const names[] = {"", ".", "..", "a/b", ".hidden", "a\nb", "\x1b[2J", "\xff"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        FAILS(dqn_run_folder_create(&folder, output, names[i], NULL), DQN_ERR_CONFIG, "name");
    }
    FAILS(dqn_run_folder_create(&folder, "", "x", NULL), DQN_ERR_CONFIG, "output");
    FAILS(dqn_run_folder_create(&folder, "/dev/full", "x", NULL), DQN_ERR_DISK, "/dev/full");
    char file[512];
    snprintf(file, sizeof file, "%s/file", base);
    store_write(file, "x", 1);
    FAILS(dqn_run_folder_create(&folder, file, "x", NULL), DQN_ERR_DISK, file);
    char longer[2000];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    FAILS(dqn_run_folder_create(&folder, longer, "x", NULL), DQN_ERR_CONFIG, "longer");
    FAILS(dqn_run_folder_open(&folder, in_output("none"), NULL), DQN_ERR_DISK, "none");
}

Test(run_folder, only_own_temporaries_are_removed) {
    struct dqn_run_folder folder;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    dqn_run_folder_close(&folder);
    const char *const own[] = {"x-1/.tmp-1-epoch-000001.h5", "x-1/.tmp-99999-best.h5"};
    const char *const others[] = {"x-1/.tmp-epoch.h5", "x-1/.tmp-12", "x-1/tmp-1-a", "x-1/.tmp--a",
                                  "x-1/.tmp-1-"};
    for (size_t i = 0; i < DQN_COUNT_OF(own); i++) {
        store_write(in_output(own[i]), "x", 1);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(others); i++) {
        store_write(in_output(others[i]), "x", 1);
    }
    OK(dqn_run_folder_open(&folder, in_output("x-1"), NULL));
    for (size_t i = 0; i < DQN_COUNT_OF(own); i++) {
        cr_assert(!exists(in_output(own[i])), "%s", own[i]);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(others); i++) {
        cr_assert(exists(in_output(others[i])), "%s", others[i]);
    }
    dqn_run_folder_close(&folder);
}

Test(run_folder, space_is_judged_with_both_numbers) {
    const uint64_t mb = 1000000;
    OK(dqn_run_folder_judge_space("f", 100 * mb, 2, 400 * mb));
    OK(dqn_run_folder_judge_space("f", 100 * mb, 2, 200 * mb)); /* with a warning */
    FAILS(dqn_run_folder_judge_space("f", 100 * mb, 2, 200 * mb - 1), DQN_ERR_DISK, "free");
    char text[32];
    cr_assert_not_null(strstr(dqn_error_text(), dqn_format_bytes(text, sizeof text, 100 * mb)));
    FAILS(dqn_run_folder_judge_space("f", UINT64_MAX / 2, 1000000, UINT64_MAX / 4), DQN_ERR_DISK,
          "free");
    OK(dqn_run_folder_judge_space("f", 0, 0, 0));
    OK(dqn_run_folder_check_space(base, 1, 2));
    FAILS(dqn_run_folder_check_space(base, UINT64_MAX / 4, 2), DQN_ERR_DISK, base);
}

Test(run_folder, config_is_written_whole) {
    struct dqn_run_folder folder;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    OK(dqn_run_folder_write_config(folder.path, "seed: 1\n", NULL));
    OK(dqn_run_folder_write_config(folder.path, "seed: 22\n", NULL));
    size_t size = 0;
    unsigned char *text = store_read(in_output("x-1/config.yaml"), &size);
    cr_assert(size == 9 && memcmp(text, "seed: 22\n", 9) == 0);
    free(text);
    char path[64];
    OK(dqn_file_folder(path, sizeof path, "a/b/c.h5"));
    cr_assert_str_eq(path, "a/b");
    OK(dqn_file_folder(path, sizeof path, "c.h5"));
    cr_assert_str_eq(path, ".");
    OK(dqn_file_folder(path, sizeof path, "/c.h5"));
    cr_assert_str_eq(path, "/");
    dqn_run_folder_close(&folder);
}

/* ---- checkpoints ---- */

Test(run_folder, names_are_taken_apart_exactly) {
    uint64_t epochs = 0;
    bool partial = false;
    cr_assert(dqn_run_folder_parse("epoch-000012.h5", &epochs, &partial));
    cr_assert(epochs == 12 && !partial);
    cr_assert(dqn_run_folder_parse("epoch-1234567-partial.h5", &epochs, &partial));
    cr_assert(epochs == 1234567 && partial);
    cr_assert(dqn_run_folder_parse("epoch-18446744073709551615.h5", &epochs, &partial));
    const char *const others[] = {"epoch-12.h5",
                                  "epoch-0000012.h5",
                                  "epoch-000012.h5.bak",
                                  "epoch-000012 (copy).h5",
                                  "xepoch-000012.h5",
                                  "epoch-.h5",
                                  "epoch-000012-part.h5",
                                  "epoch--00012.h5",
                                  "epoch-18446744073709551616.h5",
                                  "best.h5",
                                  ""};
    for (size_t i = 0; i < DQN_COUNT_OF(others); i++) {
        cr_assert_not(dqn_run_folder_parse(others[i], &epochs, &partial), "%s", others[i]);
    }
}

static void save(const char *folder, uint64_t epochs, bool partial, bool best, int64_t keep_last) {
    struct dqn_checkpoint_writer *writer = NULL;
    const struct dqn_checkpoint_request request = {.folder = folder,
                                                   .epochs = epochs,
                                                   .partial = partial,
                                                   .best = best,
                                                   .keep_last = keep_last};
    OK(dqn_checkpoint_writer_create(&writer, arena, true, NULL));
    OK(dqn_checkpoint_save(writer, queue, store_content(3), &request));
    OK(dqn_checkpoint_wait(writer));
    dqn_checkpoint_writer_destroy(writer);
}

static ino_t inode(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? info.st_ino : 0;
}

Test(run_folder, retention_removes_only_its_own) {
    struct dqn_run_folder folder;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    store_write(in_output("x-1/epoch-000000.h5"), "mine", 4); /* a name of ours, not our file */
    store_write(in_output("x-1/epoch-000500.h5"), "mine", 4); /* takes no place of ours either */
    store_write(in_output("x-1/epoch-1.h5"), "mine", 4);
    store_write(in_output("x-1/notes.txt"), "mine", 4);
    cr_assert_eq(mkdir(in_output("x-1/epoch-000009.h5"), 0700), 0);
    save(folder.path, 1, false, true, 2);
    store_write(in_output("x-1/epoch-000001 (copy).h5"), DQN_SEAL_MAGIC, 23);
    for (uint64_t i = 2; i <= 6; i++) {
        save(folder.path, i, false, false, 2);
    }
    cr_assert(!exists(in_output("x-1/epoch-000001.h5")) &&
              !exists(in_output("x-1/epoch-000004.h5")));
    cr_assert(exists(in_output("x-1/epoch-000005.h5")) && exists(in_output("x-1/epoch-000006.h5")));
    const char *const kept[] = {
        "x-1/epoch-000000.h5",        "x-1/epoch-1.h5", "x-1/notes.txt", "x-1/epoch-000009.h5",
        "x-1/epoch-000001 (copy).h5", "x-1/best.h5",    "x-1/lock"};
    for (size_t i = 0; i < DQN_COUNT_OF(kept); i++) {
        cr_assert(exists(in_output(kept[i])), "%s", kept[i]);
    }
    OK(dqn_checkpoint_verify(in_output("x-1/best.h5"))); /* its epoch's own name is gone */
    save(folder.path, 4, false, false, 1); /* neither the file just written nor later ones go */
    cr_assert(exists(in_output("x-1/epoch-000004.h5")));
    cr_assert(exists(in_output("x-1/epoch-000005.h5")));
    save(folder.path, 7, false, false, 0); /* 0 keeps all */
    cr_assert(exists(in_output("x-1/epoch-000005.h5")));
    cr_assert_eq(store_count(folder.path, ".tmp-"), 0);
    dqn_run_folder_close(&folder);
}

static int no_link(void *context, const char *from, const char *to) {
    (void)context;
    (void)from;
    (void)to;
    errno = EPERM;
    return -1;
}

Test(run_folder, best_is_a_link_or_a_copy) {
    struct dqn_run_folder folder;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    save(folder.path, 1, false, true, 0);
    const char *best = in_output("x-1/best.h5"), *first = in_output("x-1/epoch-000001.h5");
    cr_assert_eq(inode(best), inode(first));
    OK(dqn_run_folder_set_best(folder.path, first, NULL)); /* again the same */
    cr_assert_eq(inode(best), inode(first));
    cr_assert_eq(store_count(folder.path, ".tmp-"), 0);
    save(folder.path, 2, false, false, 0);
    cr_assert_eq(inode(best), inode(first));

    struct dqn_file_ops ops = dqn_file_ops_system;
    ops.link = no_link;
    const char *second = in_output("x-1/epoch-000002.h5");
    OK(dqn_run_folder_set_best(folder.path, second, &ops));
    cr_assert_neq(inode(best), inode(second));
    cr_assert_neq(inode(best), inode(first));
    OK(dqn_checkpoint_verify(best));
    cr_assert_eq(store_count(folder.path, ".tmp-"), 0);
    dqn_run_folder_close(&folder);
}

static void damage(const char *path) {
    size_t size = 0;
    unsigned char *data = store_read(path, &size);
    cr_assert_not_null(data);
    data[size / 2] ^= 4;
    store_write(path, data, size);
    free(data);
}

Test(run_folder, resume_takes_the_newest) {
    struct dqn_run_folder folder;
    char found[1024], real[1024];
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    dqn_run_folder_point_latest(folder.path, NULL);
    FAILS(dqn_run_folder_resolve(found, sizeof found, folder.path), DQN_ERR_CHECKPOINT,
          "no checkpoint");
    FAILS(dqn_run_folder_resolve(found, sizeof found, in_output("none")), DQN_ERR_DISK, "none");
    save(folder.path, 9, false, false, 0);
    save(folder.path, 10, false, false, 0);
    OK(dqn_run_folder_resolve(found, sizeof found, folder.path));
    cr_assert_str_eq(found, in_output("x-1/epoch-000010.h5"));
    save(folder.path, 10, true, false, 0); /* inside epoch 11: later than epoch 10's end */
    OK(dqn_run_folder_resolve(found, sizeof found, folder.path));
    cr_assert_str_eq(found, in_output("x-1/epoch-000010-partial.h5"));
    save(folder.path, 11, false, false, 0);
    OK(dqn_run_folder_resolve(found, sizeof found, output)); /* through `latest` */
    cr_assert_not_null(realpath(in_output("x-1/epoch-000011.h5"), real));
    cr_assert_str_eq(found, real);
    OK(dqn_run_folder_resolve(found, sizeof found, in_output("x-1/epoch-000009.h5")));
    cr_assert_str_eq(found, in_output("x-1/epoch-000009.h5"));
    dqn_run_folder_close(&folder);
}

Test(run_folder, a_damaged_newest_is_named_and_a_good_one_offered) {
    struct dqn_run_folder folder;
    char found[1024];
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    for (uint64_t i = 1; i <= 3; i++) {
        save(folder.path, i, false, false, 0);
    }
    const char *third = in_output("x-1/epoch-000003.h5");
    damage(third);
    FAILS(dqn_run_folder_resolve(found, sizeof found, folder.path), DQN_ERR_CHECKPOINT, third);
    cr_assert_not_null(strstr(dqn_error_text(), in_output("x-1/epoch-000002.h5")), "%s",
                       dqn_error_text());
    FAILS(dqn_run_folder_resolve(found, sizeof found, third), DQN_ERR_CHECKPOINT,
          in_output("x-1/epoch-000002.h5"));
    damage(in_output("x-1/epoch-000002.h5"));
    FAILS(dqn_run_folder_resolve(found, sizeof found, folder.path), DQN_ERR_CHECKPOINT,
          in_output("x-1/epoch-000001.h5"));
    damage(in_output("x-1/epoch-000001.h5"));
    FAILS(dqn_run_folder_resolve(found, sizeof found, folder.path), DQN_ERR_CHECKPOINT,
          "no good checkpoint");
    dqn_run_folder_close(&folder);
}

static enum dqn_status verify(const char *path, char **report) {
    size_t size = 0;
    FILE *stream = open_memstream(report, &size);
    const enum dqn_status status = dqn_run_folder_verify(path, stream);
    fclose(stream);
    return status;
}

Test(run_folder, verify_reports_each_file) {
    struct dqn_run_folder folder;
    char *report = NULL;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    dqn_run_folder_point_latest(folder.path, NULL);
    save(folder.path, 1, false, true, 0);
    save(folder.path, 2, false, false, 0);
    save(folder.path, 3, false, false, 0);
    OK(verify(folder.path, &report));
    cr_assert_not_null(strstr(report, "best.h5"));
    cr_assert_null(strstr(report, "damaged"));
    free(report);
    damage(in_output("x-1/epoch-000002.h5")); /* an older one: said, no failure */
    OK(verify(output, &report));
    cr_assert_not_null(strstr(report, "damaged "));
    cr_assert_not_null(strstr(report, "x-1/epoch-000002.h5: is damaged"));
    free(report);
    cr_assert_eq(verify(in_output("x-1/epoch-000002.h5"), &report), DQN_ERR_CHECKPOINT);
    free(report);
    damage(in_output("x-1/epoch-000003.h5"));
    FAILS(verify(folder.path, &report), DQN_ERR_CHECKPOINT, in_output("x-1/epoch-000001.h5"));
    free(report);
    dqn_run_folder_close(&folder);
}

/* Going on from epoch 2 of 4: the old 3 and 4 neither count as newest nor push out the new ones. */
Test(run_folder, later_files_step_aside_when_an_earlier_one_goes_on) {
    struct dqn_run_folder folder;
    char found[1024];
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    for (uint64_t i = 1; i <= 4; i++) {
        save(folder.path, i, false, i == 4, 0);
    }
    for (int round = 1; round <= 2; round++) {
        OK(dqn_run_folder_supersede(folder.path, in_output("x-1/epoch-000002.h5"), NULL));
        OK(dqn_run_folder_resolve(found, sizeof found, folder.path));
        cr_assert_str_eq(found, in_output("x-1/epoch-000002.h5"));
        save(folder.path, 3, false, true, 2);
        cr_assert(exists(in_output("x-1/epoch-000003.h5")));
        cr_assert(exists(in_output("x-1/epoch-000002.h5")));
    }
    OK(dqn_checkpoint_verify(in_output("x-1/superseded-1-epoch-000003.h5")));
    OK(dqn_checkpoint_verify(in_output("x-1/superseded-1-epoch-000004.h5")));
    OK(dqn_checkpoint_verify(in_output("x-1/superseded-2-epoch-000003.h5")));
    cr_assert_eq(inode(in_output("x-1/superseded-1-best.h5")),
                 inode(in_output("x-1/superseded-1-epoch-000004.h5")));
    OK(dqn_run_folder_supersede(folder.path, in_output("x-1/epoch-000003.h5"), NULL));
    cr_assert_eq(store_count(folder.path, "superseded-"), 5);
    save(folder.path, 3, true, false, 0);
    save(folder.path, 4, false, false, 0);
    OK(dqn_run_folder_supersede(folder.path, in_output("x-1/best.h5"), NULL)); /* of epoch 3 */
    OK(dqn_run_folder_resolve(found, sizeof found, folder.path));
    cr_assert_str_eq(found, in_output("x-1/epoch-000003.h5"));
    dqn_run_folder_close(&folder);
}

/* Many saves: each file as large as the first, the folder bounded. */
Test(run_folder, many_saves_do_not_grow) {
    struct dqn_run_folder folder;
    struct stat first, later;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    save(folder.path, 1, false, true, 3);
    cr_assert_eq(stat(in_output("x-1/best.h5"), &first), 0);
    for (uint64_t i = 2; i <= 100; i++) {
        save(folder.path, i, false, false, 3);
    }
    cr_assert_eq(stat(in_output("x-1/epoch-000100.h5"), &later), 0);
    cr_assert_eq(first.st_size, later.st_size);
    cr_assert_eq(store_count(folder.path, "epoch-"), 3);
    dqn_run_folder_close(&folder);
}

/* A person's own file or folder named latest is not ours to replace. */
Test(run_folder, a_latest_that_is_no_link_is_left_alone) {
    struct dqn_run_folder folder;
    size_t size = 0;
    OK(dqn_run_folder_create(&folder, output, "x", NULL));
    store_write(in_output("latest"), "mine", 4);
    dqn_run_folder_point_latest(folder.path, NULL);
    unsigned char *text = store_read(in_output("latest"), &size);
    cr_assert(text != NULL && size == 4 && memcmp(text, "mine", 4) == 0);
    free(text);
    cr_assert_eq(unlink(in_output("latest")), 0);
    cr_assert_eq(mkdir(in_output("latest"), 0777), 0);
    dqn_run_folder_point_latest(folder.path, NULL);
    cr_assert(exists(in_output("latest/.")));
    cr_assert_eq(store_count(output, ".tmp-"), 0);
    dqn_run_folder_close(&folder);
}

static void touch(const char *folder, const char *name) {
    char file[DQN_TEXT_MAX + 32];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    FILE *f = fopen(file, "w");
    cr_assert_not_null(f);
    fclose(f);
}

/* A run that could not begin leaves no folder. */
Test(run_folder, a_discarded_run_leaves_no_trace) {
    struct dqn_run_folder good, bad;
    char root[] = "/tmp/dqn-discard-XXXXXX", path[DQN_TEXT_MAX], target[64] = {0};
    cr_assert_not_null(mkdtemp(root));
    cr_assert_eq(dqn_run_folder_create(&bad, root, "first", NULL), DQN_OK);
    dqn_run_folder_discard(&bad, NULL);
    snprintf(path, sizeof path, "%s/latest", root);
    cr_expect_eq(access(bad.path, F_OK), -1);
    cr_expect_eq(readlink(path, target, sizeof target - 1), -1);
    cr_assert_eq(dqn_run_folder_create(&good, root, "run", NULL), DQN_OK);
    dqn_run_folder_point_latest(good.path, NULL);
    cr_assert_eq(dqn_run_folder_create(&bad, root, "run", NULL), DQN_OK);
    cr_assert_eq(dqn_run_folder_write_config(bad.path, "seed: 1\n", NULL), DQN_OK);
    touch(bad.path, "metrics.csv");
    touch(bad.path, "metrics.csv.new");
    dqn_run_folder_discard(&bad, NULL);
    cr_expect_eq(access(bad.path, F_OK), -1);
    cr_assert_gt(readlink(path, target, sizeof target - 1), 0);
    cr_expect_str_eq(target, "run-1");
    /* What holds anything else stays, whole. */
    cr_assert_eq(dqn_run_folder_create(&bad, root, "run", NULL), DQN_OK);
    cr_assert_eq(dqn_run_folder_write_config(bad.path, "seed: 1\n", NULL), DQN_OK);
    touch(bad.path, "notes");
    dqn_run_folder_discard(&bad, NULL);
    cr_expect_eq(store_count(bad.path, "notes"), 1);
    cr_expect_eq(store_count(bad.path, "config.yaml"), 1);
    cr_expect_eq(store_count(bad.path, "lock"), 1);
    dqn_run_folder_close(&good);
}

/* The same by the calls that a signal handler may make, while a metrics.csv is being written. */
Test(run_folder, a_run_undone_leaves_no_trace) {
    struct dqn_run_folder run;
    struct dqn_run_folder_undo undo;
    OK(dqn_run_folder_create(&run, output, "run", NULL));
    dqn_run_folder_undo_plan(&undo, &run);
    touch(run.path, "metrics.csv");
    touch(run.path, "metrics.csv.new");
    dqn_run_folder_undo(&undo);
    struct stat info;
    cr_expect_not(exists(run.path));
    cr_expect_eq(lstat(in_output("latest"), &info), -1);
    cr_expect_eq(store_count(base, "out"), 0, "the output folder stays");
    dqn_run_folder_close(&run);
}

static int no_open(void *context, const char *path, int flags, int mode) {
    (void)context;
    (void)path;
    (void)flags;
    (void)mode;
    errno = ENOSPC;
    return -1;
}

static void take_back(struct dqn_run_folder *run, bool by_signal) {
    struct dqn_run_folder_undo undo;
    dqn_run_folder_undo_plan(&undo, run);
    if (by_signal) {
        dqn_run_folder_undo(&undo);
        dqn_run_folder_close(run);
    } else {
        dqn_run_folder_discard(run, NULL);
    }
}

/* The folders above that were made for it go too, and no others. */
Test(run_folder, folders_made_for_a_run_that_did_not_begin_go_too) {
    static const char *const outputs[] = {"a/b/c", "./a/b/c", "a/b/c/", "a//b/c"};
    struct dqn_run_folder run, other;
    cr_assert_eq(chdir(base), 0);
    for (size_t i = 0; i < 2 * DQN_COUNT_OF(outputs); i++) {
        const char *out = outputs[i / 2];
        OK(dqn_run_folder_create(&run, out, "x", NULL));
        take_back(&run, i % 2 > 0);
        cr_expect_not(exists("a"), "%s", out);
        cr_assert_eq(mkdir("a", 0777), 0);
        OK(dqn_run_folder_create(&run, out, "x", NULL));
        take_back(&run, i % 2 > 0);
        cr_expect_not(exists("a/b"), "%s", out);
        cr_expect(exists("a"), "%s: a folder that was there before is gone", out);
        /* Another run has come meanwhile. */
        OK(dqn_run_folder_create(&run, out, "x", NULL));
        OK(dqn_run_folder_create(&other, out, "x", NULL));
        take_back(&run, i % 2 > 0);
        cr_expect(exists(other.path));
        take_back(&other, i % 2 > 0);
        cr_expect(exists("a/b/c"), "%s: made for another run", out);
        remove_tree("a");
        /* What a run made that began stays with it. */
        OK(dqn_run_folder_create(&other, out, "x", NULL));
        touch(other.path, "epoch-000001.h5");
        OK(dqn_run_folder_create(&run, out, "x", NULL));
        take_back(&run, i % 2 > 0);
        dqn_run_folder_discard(&other, NULL);
        cr_assert_eq(store_count(other.path, "epoch-"), 1);
        remove_tree("a");
    }
    struct dqn_file_ops ops = dqn_file_ops_system;
    ops.open = no_open;
    FAILS(dqn_run_folder_create(&run, "a/b", "x", &ops), DQN_ERR_DISK, "lock");
    cr_expect_not(exists("a"), "left where the run's own folder could not be used");
}

/* What a path names by way of "." and ".." is not what was made for it. */
Test(run_folder, just_the_folders_that_were_made_go) {
    static const char *const outputs[] = {"r1/../keep", "p9/.",   "p9/./y", "p9/x/.", "p9/x/../z",
                                          "./p9/",      "p9/../", "keep/.", "keep/y", "keep/../p9"};
    struct dqn_run_folder run;
    cr_assert_eq(chdir(base), 0);
    cr_assert_eq(mkdir("keep", 0777), 0);
    for (size_t i = 0; i < 2 * DQN_COUNT_OF(outputs); i++) {
        const char *out = outputs[i / 2];
        OK(dqn_run_folder_create(&run, out, "x", NULL));
        take_back(&run, i % 2 > 0);
        cr_expect(exists("keep"), "%s: a folder that was there before is gone", out);
        cr_expect_eq(store_count(base, ""), 3, "%s: something is left", out); /* ., .., keep */
        cr_expect_eq(store_count("keep", ""), 2, "%s: something is left", out);
        if (store_count(base, "keep") == 0) {
            cr_assert_eq(mkdir("keep", 0777), 0);
        }
    }
}

/* A folder in which a checkpoint's name would be too long is refused before the training. */
Test(run_folder, a_path_without_room_for_its_files_is_refused) {
    char deep[DQN_TEXT_MAX] = "deep", name[] = "run";
    struct dqn_run_folder run;
    cr_assert_eq(chdir(base), 0);
    while (strlen(deep) < 961 - strlen("/run-1") - 51) {
        strcat(deep, "/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"); /* 50 bytes */
    }
    while (strlen(deep) < 966 - strlen("/run-1")) {
        strcat(deep, "y");
    }
    OK(dqn_run_folder_create(&run, deep, name, NULL));
    save(run.path, 999999, true, false, 0);
    dqn_run_folder_close(&run);
    strcat(deep, "z");
    FAILS(dqn_run_folder_create(&run, deep, name, NULL), DQN_ERR_CONFIG,
          "has 967 bytes; it may have 966,");
    cr_expect_not(exists(deep), "a folder is left");
}

static int mkdir_calls, mkdir_fails_at;

static int failing_mkdir(void *context, const char *path, int mode) {
    if (++mkdir_calls == mkdir_fails_at) {
        errno = EACCES;
        return -1;
    }
    return dqn_file_ops_system.mkdir(context, path, mode);
}

/* The path is made up to a part that cannot be. */
Test(run_folder, folders_of_a_path_that_cannot_be_made_go) {
    char longest[300] = "new/er/";
    struct dqn_run_folder run;
    struct dqn_file_ops ops = dqn_file_ops_system;
    cr_assert_eq(chdir(base), 0);
    memset(longest + 7, 'x', 256);
    FAILS(dqn_run_folder_create(&run, longest, "x", NULL), DQN_ERR_DISK, "name too long");
    cr_expect_not(exists("new"));
    cr_assert_eq(symlink("nowhere", "dangling"), 0);
    FAILS(dqn_run_folder_create(&run, "new/../dangling/x", "x", NULL), DQN_ERR_DISK,
          "dangling is a symbolic link that leads nowhere");
    cr_expect_not(exists("new"));
    cr_assert_eq(unlink("dangling"), 0);
    ops.mkdir = failing_mkdir;
    for (mkdir_fails_at = 1; mkdir_fails_at <= 4; mkdir_fails_at++) {
        mkdir_calls = 0;
        FAILS(dqn_run_folder_create(&run, "new/er/est", "x", &ops), DQN_ERR_DISK, "denied");
        cr_expect_not(exists("new"), "left by call %d", mkdir_fails_at);
    }
}

/* Another run that did not begin takes the output folder back before this one has its own. */
static int late_mkdir(void *context, const char *path, int mode) {
    if (++mkdir_calls == 3) {
        cr_assert_eq(rmdir("a/b") + rmdir("a"), 0);
    }
    return dqn_file_ops_system.mkdir(context, path, mode);
}

Test(run_folder, folders_made_again_go_too) {
    struct dqn_run_folder run;
    struct dqn_file_ops ops = dqn_file_ops_system;
    ops.mkdir = late_mkdir;
    cr_assert_eq(chdir(base), 0);
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        /* They were another's first. */
        cr_assert_eq(mkdir("a", 0777) + mkdir("a/b", 0777), 0);
        mkdir_calls = 2;
        OK(dqn_run_folder_create(&run, "a/b", "x", &ops));
        cr_assert(mkdir_calls > 3);
        take_back(&run, by_signal > 0);
        cr_expect_not(exists("a"));
    }
}

/* Only a run that begins makes latest lead to itself: one that does not leaves it as it is, be it
 * another run's or a person's own text. */
Test(run_folder, a_run_that_does_not_begin_leaves_latest_alone) {
    static const char *const texts[] = {"first-1", "../elsewhere", "/etc", "run/sub", "soon"};
    struct dqn_run_folder first, run;
    OK(dqn_run_folder_create(&first, output, "first", NULL));
    for (size_t i = 0; i < 2 * DQN_COUNT_OF(texts); i++) {
        char target[64] = {0};
        unlink(in_output("latest"));
        cr_assert_eq(symlink(texts[i / 2], in_output("latest")), 0);
        OK(dqn_run_folder_create(&run, output, "run", NULL));
        take_back(&run, i % 2 > 0);
        cr_assert_gt(readlink(in_output("latest"), target, sizeof target - 1), 0);
        cr_expect_str_eq(target, texts[i / 2]);
    }
    dqn_run_folder_close(&first);
}
