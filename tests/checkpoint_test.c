/* Checkpoints: what is saved comes back bit for bit, and nothing that is damaged or does not fit
 * comes back at all. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "h5file.h"
#include "run_folder.h"
#include "sealed_file.h"
#include "status_checks.h"
#include "store_support.h"

static struct dqn_device device;
static struct dqn_queue *queue;
static char folder[256], file[512];

static void setup(void) {
    device.backend = &store_backend;
    queue = store_queue(&device);
    store_folder(folder, sizeof folder);
    snprintf(file, sizeof file, "%s/epoch-000003.h5", folder);
}

static void teardown(void) {
    store_folder_remove(folder);
    store_queue_free(queue);
}

TestSuite(checkpoint, .init = setup, .fini = teardown);

/* ---- round trips ---- */

Test(checkpoint, every_type_rank_and_place_comes_back) {
    struct dqn_arena *a = store_arena(&device, 13);
    struct dqn_arena *b = store_arena(&device, 13);
    store_fill(a, 1);
    store_fill(b, 2);
    const size_t scratch_bytes = dqn_arena_find(b, "scratch")->bytes;
    void *scratch = malloc(scratch_bytes);
    memcpy(scratch, dqn_arena_find(b, "scratch")->data, scratch_bytes);
    OK(store_save(a, queue, folder, 3, true, NULL));
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, file));
    cr_assert(dqn_checkpoint_has_replay(c));
    OK(dqn_checkpoint_load(c, b, queue));
    cr_assert_null(store_difference(a, b, DQN_BUFFER_SAVED), "%s differs",
                   store_difference(a, b, DQN_BUFFER_SAVED));
    cr_assert_eq(memcmp(scratch, dqn_arena_find(b, "scratch")->data, scratch_bytes), 0);
    dqn_checkpoint_close(c);
    free(scratch);
    dqn_arena_destroy(a);
    dqn_arena_destroy(b);
}

Test(checkpoint, host_values_texts_and_history_come_back) {
    struct dqn_arena *a = store_arena(&device, 2);
    OK(store_save(a, queue, folder, 3, true, NULL));
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, file));
    const struct dqn_checkpoint_content *content = store_content(3);
    cr_assert_str_eq(dqn_checkpoint_config(c), content->config_text);
    cr_assert_str_eq(dqn_checkpoint_path(c), file);
    cr_assert(dqn_checkpoint_epochs(c) == 3 && !dqn_checkpoint_is_partial(c));
    for (size_t i = 0; i < content->n_fields; i++) {
        const struct dqn_checkpoint_field *field = &content->fields[i];
        size_t count = 1, found = 77;
        for (int d = 0; d < field->rank; d++) {
            count *= field->shape[d];
        }
        unsigned char data[64];
        memset(data, 0xa5, sizeof data);
        OK(dqn_checkpoint_field_count(c, field->name, &found));
        cr_assert_eq(found, count);
        OK(dqn_checkpoint_field_read(c, field->name, field->dtype, count, data));
        if (count > 0) {
            cr_assert_eq(memcmp(data, field->data, count * dqn_dtype_bytes(field->dtype)), 0, "%s",
                         field->name);
        }
        FAILS(dqn_checkpoint_field_read(c, field->name, field->dtype, count + 1, data),
              DQN_ERR_CHECKPOINT, field->name);
    }
    unsigned char data[64];
    size_t count = 1;
    FAILS(dqn_checkpoint_field_read(c, "u8", DQN_U32, 2, data), DQN_ERR_CHECKPOINT, "host/u8");
    FAILS(dqn_checkpoint_field_read(c, "none", DQN_U32, 2, data), DQN_ERR_CHECKPOINT, "host/none");
    OK(dqn_checkpoint_field_count(c, "none", &count));
    cr_assert_eq(count, 0u);
    for (size_t i = 0; i < content->n_texts; i++) {
        char *text = NULL;
        OK(dqn_checkpoint_text(c, content->texts[i].name, &text));
        cr_assert_str_eq(text, content->texts[i].text);
        free(text);
    }
    char *text = NULL;
    OK(dqn_checkpoint_text(c, "none", &text));
    cr_assert_null(text);
    dqn_checkpoint_close(c);
    dqn_arena_destroy(a);
}

/* Columns are found by name: a program with other columns still reads the history. */
Test(checkpoint, history_is_read_by_column_name) {
    struct dqn_arena *a = store_arena(&device, 2);
    OK(store_save(a, queue, folder, 3, true, NULL));
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, file));
    const char *const wanted[] = {"return_mean", "new", "epoch", "los"};
    double *rows = NULL;
    size_t n_rows = 0;
    OK(dqn_checkpoint_history(c, wanted, 4, &rows, &n_rows));
    cr_assert_eq(n_rows, 3u);
    cr_assert(isnan(rows[0]) && rows[4] == -0.5 && rows[8] == 1e300);
    cr_assert(rows[2] == 1 && rows[6] == 2 && rows[10] == 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert(isnan(rows[4 * i + 1]) && isnan(rows[4 * i + 3]));
    }
    free(rows);
    dqn_checkpoint_close(c);

    struct dqn_checkpoint_writer *writer = NULL;
    const struct dqn_checkpoint_request request = {.folder = folder, .epochs = 4};
    OK(dqn_checkpoint_writer_create(&writer, a, true, NULL));
    OK(dqn_checkpoint_save(writer, queue, store_content(0), &request));
    OK(dqn_checkpoint_wait(writer));
    dqn_checkpoint_writer_destroy(writer);
    OK(dqn_run_folder_file(file, sizeof file, folder, 4, false));
    OK(dqn_checkpoint_open(&c, file));
    OK(dqn_checkpoint_history(c, wanted, 4, &rows, &n_rows));
    cr_assert(rows == NULL && n_rows == 0);
    dqn_checkpoint_close(c);
    dqn_arena_destroy(a);
}

/* What training does after save returns is not in the file. */
Test(checkpoint, later_steps_do_not_leak_into_the_file) {
    struct dqn_arena *a = store_arena(&device, 4000);
    struct dqn_arena *kept = store_arena(&device, 4000);
    struct dqn_arena *b = store_arena(&device, 4000);
    struct dqn_checkpoint_writer *writer = NULL;
    OK(dqn_checkpoint_writer_create(&writer, a, true, NULL));
    for (uint64_t i = 1; i <= 3; i++) {
        store_fill(a, i);
        store_fill(kept, i);
        const struct dqn_checkpoint_request request = {.folder = folder, .epochs = i};
        OK(dqn_checkpoint_save(writer, queue, store_content(3), &request));
        store_fill(a, 99);
        OK(dqn_checkpoint_wait(writer));
        struct dqn_checkpoint *c = NULL;
        OK(dqn_run_folder_file(file, sizeof file, folder, i, false));
        OK(dqn_checkpoint_open(&c, file));
        OK(dqn_checkpoint_load(c, b, queue));
        cr_assert_null(store_difference(kept, b, DQN_BUFFER_SAVED));
        dqn_checkpoint_close(c);
    }
    dqn_checkpoint_writer_destroy(writer);
    dqn_arena_destroy(a);
    dqn_arena_destroy(kept);
    dqn_arena_destroy(b);
}

Test(checkpoint, equal_contents_give_equal_bytes) {
    struct dqn_arena *a = store_arena(&device, 50);
    unsigned char *data[2];
    size_t size[2];
    store_fill(a, 5);
    for (int i = 0; i < 2; i++) {
        OK(store_save(a, queue, folder, 3, true, NULL));
        data[i] = store_read(file, &size[i]);
        usleep(i == 0 ? 1100000 : 0); /* times in HDF5 count seconds */
    }
    cr_assert_eq(size[0], size[1]);
    cr_assert_eq(memcmp(data[0], data[1], size[0]), 0);
    free(data[0]);
    free(data[1]);
    dqn_arena_destroy(a);
}

/* The plan's figure: contents plus at most some KiB of structure. */
Test(checkpoint, planned_bytes_are_the_file_size) {
    struct dqn_arena *a = store_arena(&device, 1000);
    size_t all = 0, without = 0;
    OK(store_save(a, queue, folder, 3, true, NULL));
    free(store_read(file, &all));
    OK(store_save(a, queue, folder, 3, false, NULL));
    free(store_read(file, &without));
    const uint64_t plan[2] = {dqn_checkpoint_bytes(a, true), dqn_checkpoint_bytes(a, false)};
    cr_assert(all >= plan[0] && all < plan[0] + 32768, "%zu %ju", all, (uintmax_t)plan[0]);
    cr_assert(without >= plan[1] && without < plan[1] + 32768);
    cr_assert_eq(plan[0] - plan[1], 2u * 11000 * 5 * 4 + 2u * 11000);
    dqn_arena_destroy(a);
}

/* HDF5's own calls, without this program's reader. */
Test(checkpoint, any_hdf5_program_reads_the_file) {
    struct dqn_arena *a = store_arena(&device, 3);
    store_fill(a, 8);
    OK(store_save(a, queue, folder, 3, true, NULL));
    const hid_t h = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    cr_assert(h >= 0);
    const hid_t d = H5Dopen2(h, "/a/b/c/actions", H5P_DEFAULT);
    cr_assert(d >= 0);
    uint32_t actions[2 * 3 * 1 * 3];
    cr_assert(H5Dread(d, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, actions) >= 0);
    cr_assert_eq(memcmp(actions, dqn_arena_find(a, "a/b/c/actions")->data, sizeof actions), 0);
    const hid_t space = H5Dget_space(d);
    hsize_t shape[4];
    cr_assert_eq(H5Sget_simple_extent_ndims(space), 4);
    H5Sget_simple_extent_dims(space, shape, NULL);
    cr_assert(shape[0] == 2 && shape[1] == 3 && shape[2] == 1 && shape[3] == 3);
    uint64_t schema = 0;
    const hid_t at = H5Aopen(h, "schema", H5P_DEFAULT);
    cr_assert(H5Aread(at, H5T_NATIVE_UINT64, &schema) >= 0 && schema == 1);
    H5Aclose(at);
    H5Sclose(space);
    H5Dclose(d);
    cr_assert(H5Fclose(h) >= 0);
    dqn_arena_destroy(a);
}

/* Pieces of 1 MiB and more are dropped: the file is made without taking 5 GB of disk. */
static ssize_t drop_large(void *context, int fd, const void *data, size_t size, off_t offset) {
    *(uint64_t *)context += size;
    return size >= 1 << 20 ? (ssize_t)size : pwrite(fd, data, size, offset);
}

Test(checkpoint, datasets_may_pass_4_gib_and_2_to_the_31_elements) {
    const size_t shape[2] = {1, ((size_t)1 << 32) + ((size_t)1 << 28) + 3};
    void *zeros =
        mmap(NULL, shape[1], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(zeros != MAP_FAILED);
    uint64_t written = 0;
    struct dqn_file_ops ops = dqn_file_ops_system;
    ops.context = &written;
    ops.pwrite = drop_large;
    struct dqn_h5_sink sink = {.ops = &ops, .fd = open(file, O_RDWR | O_CREAT | O_EXCL, 0600)};
    hid_t h = -1;
    const uint8_t last = 42;
    OK(dqn_h5_create(&h, &sink, DQN_SEAL_BYTES));
    OK(dqn_h5_write(h, "replay/large", DQN_U8, 2, shape, zeros));
    OK(dqn_h5_write(h, "after", DQN_U8, 0, NULL, &last));
    OK(dqn_h5_create_close(h, &sink, file));
    close(sink.fd);
    munmap(zeros, shape[1]);
    cr_assert(written > shape[1]);
    struct dqn_h5_shape found;
    uint8_t read_back = 0;
    OK(dqn_h5_open(&h, file));
    OK(dqn_h5_find(h, "replay/large", &found));
    cr_assert(found.found && found.count == shape[1] && found.shape[1] == shape[1]);
    OK(dqn_h5_read(h, "after", DQN_U8, &read_back));
    cr_assert_eq(read_back, 42);
    dqn_h5_close(h);
}

/* ---- what does not fit ---- */

static struct dqn_arena *one_buffer(const char *name, enum dqn_dtype dtype, int flags, int rank,
                                    size_t a, size_t b) {
    struct dqn_arena *arena = NULL;
    struct dqn_buffer *buffer = NULL;
    OK(dqn_arena_create(&arena));
    /* Before the buffer in question comes one that fits: it must not be copied either. */
    OK(dqn_arena_add(arena, &buffer, &device, DQN_F64, DQN_BUFFER_SAVED, "env/sums", 2, (size_t)2,
                     (size_t)3));
    OK(dqn_arena_add(arena, &buffer, &device, dtype, flags, name, rank, a, b));
    OK(dqn_arena_commit(arena, NULL));
    store_fill(arena, 50);
    return arena;
}

Test(checkpoint, misfits_are_named_and_nothing_is_copied) {
    struct dqn_arena *a = store_arena(&device, 3);
    store_fill(a, 1);
    OK(store_save(a, queue, folder, 3, true, NULL));
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, file));
    const struct {
        const char *name;
        enum dqn_dtype dtype;
        int rank;
        size_t a, b;
        const char *text;
    } cases[] = {
        {"nn/params", DQN_F32, 2, 2, 112, "f32 [2, 111] in the file but f32 [2, 112] here"},
        {"nn/params", DQN_F32, 2, 1, 111, "f32 [2, 111] in the file but f32 [1, 111] here"},
        {"nn/params", DQN_F32, 1, 222, 0, "f32 [2, 111] in the file but f32 [222] here"},
        {"nn/params", DQN_U32, 2, 2, 111, "f32 [2, 111] in the file but u32 [2, 111] here"},
        {"nn/other", DQN_U32, 2, 2, 111, "nn/other"},
        {"nn", DQN_U32, 2, 2, 111, "nn"},
        {"config", DQN_U8, 1, 20, 0, "config is another type"},
    };
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        struct dqn_arena *b = one_buffer(cases[i].name, cases[i].dtype, DQN_BUFFER_SAVED,
                                         cases[i].rank, cases[i].a, cases[i].b);
        struct dqn_arena *same = one_buffer(cases[i].name, cases[i].dtype, DQN_BUFFER_SAVED,
                                            cases[i].rank, cases[i].a, cases[i].b);
        FAILS(dqn_checkpoint_load(c, b, queue), DQN_ERR_CHECKPOINT, cases[i].text);
        cr_assert_not_null(strstr(dqn_error_text(), file));
        cr_assert_null(store_difference(b, same, 0));
        dqn_arena_destroy(b);
        dqn_arena_destroy(same);
    }
    dqn_checkpoint_close(c);
    dqn_arena_destroy(a);
}

Test(checkpoint, replay_may_be_missing_only_where_the_file_says_so) {
    struct dqn_arena *a = store_arena(&device, 6);
    struct dqn_arena *b = store_arena(&device, 6);
    struct dqn_arena *before = store_arena(&device, 6);
    store_fill(a, 1);
    store_fill(b, 2);
    store_fill(before, 2);
    OK(store_save(a, queue, folder, 3, false, NULL));
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, file));
    cr_assert_not(dqn_checkpoint_has_replay(c));
    OK(dqn_checkpoint_load(c, b, queue));
    cr_assert_null(store_difference(b, before, DQN_BUFFER_REPLAY));
    cr_assert_str_eq(store_difference(b, before, DQN_BUFFER_SAVED), "nn/params");
    dqn_checkpoint_close(c);
    dqn_arena_destroy(a);
    dqn_arena_destroy(b);
    dqn_arena_destroy(before);

    struct dqn_arena *small = one_buffer("nn/params", DQN_F32, DQN_BUFFER_SAVED, 2, 2, 222);
    struct dqn_arena *more =
        one_buffer("replay/x", DQN_F32, DQN_BUFFER_SAVED | DQN_BUFFER_REPLAY, 2, 2, 222);
    OK(store_save(small, queue, folder, 3, true, NULL));
    OK(dqn_checkpoint_open(&c, file));
    FAILS(dqn_checkpoint_load(c, more, queue), DQN_ERR_CHECKPOINT, "replay/x");
    dqn_checkpoint_close(c);
    dqn_arena_destroy(small);
    dqn_arena_destroy(more);
}

Test(checkpoint, parameters_load_alone_and_under_another_name) {
    struct dqn_arena *a = store_arena(&device, 6);
    struct dqn_arena *b = store_arena(&device, 6);
    struct dqn_arena *before = store_arena(&device, 6);
    store_fill(a, 1);
    store_fill(b, 2);
    store_fill(before, 2);
    OK(store_save(a, queue, folder, 3, true, NULL));
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, file));
    const char *const names[] = {"nn/params"};
    OK(dqn_checkpoint_load_buffers(c, b, queue, names, 1));
    const struct dqn_buffer *params = dqn_arena_find(a, "nn/params");
    cr_assert_eq(memcmp(dqn_arena_find(b, "nn/params")->data, params->data, params->bytes), 0);
    memcpy(dqn_arena_find(before, "nn/params")->data, params->data, params->bytes);
    cr_assert_null(store_difference(b, before, 0));
    OK(dqn_checkpoint_load_as(c, b, queue, "nn/params", "nn/target"));
    cr_assert_eq(memcmp(dqn_arena_find(b, "nn/target")->data, params->data, params->bytes), 0);
    FAILS(dqn_checkpoint_load_as(c, b, queue, "nn/params", "env/sums"), DQN_ERR_CHECKPOINT, "f64");
    const char *const unknown[] = {"nn/params", "nn/none"};
    FAILS(dqn_checkpoint_load_buffers(c, b, queue, unknown, 2), DQN_ERR_STATE, "nn/none");
    dqn_checkpoint_close(c);
    dqn_arena_destroy(a);
    dqn_arena_destroy(b);
    dqn_arena_destroy(before);
}

/* ---- damage ---- */

static void refused(const char *what) {
    struct dqn_checkpoint *c = NULL;
    const enum dqn_status status = dqn_checkpoint_open(&c, file);
    cr_assert_eq(status, DQN_ERR_CHECKPOINT, "%s: %s", what, dqn_error_text());
    cr_assert_null(c);
    cr_assert_not_null(strstr(dqn_error_text(), file), "%s", dqn_error_text());
}

Test(checkpoint, cut_files_are_refused) {
    struct dqn_arena *a = store_arena(&device, 200);
    OK(store_save(a, queue, folder, 3, true, NULL));
    size_t size = 0;
    unsigned char *data = store_read(file, &size);
    for (size_t n = 0; n < size; n += n < 1024 ? 31 : 4096) {
        store_write(file, data, n);
        refused("cut");
    }
    store_write(file, data, size - 1);
    refused("last byte cut");
    cr_assert_not_null(strstr(dqn_error_text(), "cut short"));
    data[size] = 0;
    store_write(file, data, size + 1);
    refused("one byte more");
    store_write(file, data, size);
    OK(dqn_checkpoint_verify(file));
    free(data);
    dqn_arena_destroy(a);
}

Test(checkpoint, one_changed_byte_anywhere_is_found) {
    struct dqn_arena *a = store_arena(&device, 20);
    OK(store_save(a, queue, folder, 3, true, NULL));
    size_t size = 0;
    unsigned char *data = store_read(file, &size);
    const int fd = open(file, O_WRONLY);
    uint32_t x = 1;
    /* Every byte of the seal, then places spread over the rest. */
    for (size_t i = 0; i < 2000; i++) {
        x = x * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        const size_t at = i < 512 ? i : 512 + (size_t)(x >> 4) % (size - 512);
        const unsigned char bad = data[at] ^ (unsigned char)(1u << (i % 8));
        cr_assert_eq(pwrite(fd, &bad, 1, (off_t)at), 1);
        refused("flipped");
        cr_assert_eq(pwrite(fd, &data[at], 1, (off_t)at), 1);
    }
    close(fd);
    OK(dqn_checkpoint_verify(file));
    free(data);
    dqn_arena_destroy(a);
}

Test(checkpoint, other_files_are_refused) {
    store_write(file, "", 0);
    refused("empty");
    store_write(file, "seed: 1\nname: x\n", 16);
    refused("text");
    const hid_t h = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(h);
    refused("plain HDF5");
    struct dqn_checkpoint *c = NULL;
    FAILS(dqn_checkpoint_open(&c, folder), DQN_ERR_CHECKPOINT, "not a regular file");
    FAILS(dqn_checkpoint_open(&c, "/dev/zero"), DQN_ERR_CHECKPOINT, "not a regular file");
    FAILS(dqn_checkpoint_open(&c, "/nonexistent/x.h5"), DQN_ERR_DISK, strerror(ENOENT));
}

/* A sealed HDF5 file with this schema; what else it has, `complete` tells. */
static void write_schema(uint64_t schema, bool complete) {
    struct dqn_h5_sink sink = {.fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600)};
    hid_t h = -1;
    OK(dqn_h5_create(&h, &sink, DQN_SEAL_BYTES));
    OK(dqn_h5_write_u64(h, "schema", schema));
    OK(dqn_h5_write_u64(h, "replay_saved", 1));
    OK(dqn_h5_write_u64(h, "epochs", 7));
    OK(dqn_h5_write_u64(h, "partial", 0));
    OK(dqn_h5_write_string(h, "config", "seed: 1\n"));
    if (complete) {
        const size_t shape[2] = {0, 3};
        OK(dqn_h5_write(h, "history", DQN_F64, 2, shape, NULL));
    }
    OK(dqn_h5_create_close(h, &sink, file));
    OK(dqn_seal_write(NULL, sink.fd, file));
    close(sink.fd);
}

Test(checkpoint, schema_decides) {
    write_schema(1, true);
    OK(dqn_checkpoint_verify(file));
    write_schema(2, true);
    refused("newer schema");
    cr_assert_not_null(strstr(dqn_error_text(), "schema 2, this program reads up to 1"));
    write_schema(0, true);
    refused("schema 0");
    write_schema(1, false);
    refused("no history");
    cr_assert_not_null(strstr(dqn_error_text(), "history"));
}

/* A file written when schema 1 was new. It stays readable as long as schema 1 is. */
Test(checkpoint, golden_file_of_schema_1) {
    struct dqn_checkpoint *c = NULL;
    OK(dqn_checkpoint_open(&c, "tests/golden/checkpoint-schema-1.h5"));
    struct dqn_arena *a = store_arena(&device, 2);
    struct dqn_arena *b = store_arena(&device, 2);
    store_fill(a, 2026);
    OK(dqn_checkpoint_load(c, b, queue));
    cr_assert_null(store_difference(a, b, DQN_BUFFER_SAVED));
    cr_assert_str_eq(dqn_checkpoint_config(c), store_content(3)->config_text);
    int64_t i64s[2] = {0};
    OK(dqn_checkpoint_field_read(c, "i64", DQN_I64, 2, i64s));
    cr_assert(i64s[0] == INT64_MIN && i64s[1] == INT64_MAX);
    dqn_checkpoint_close(c);
    dqn_arena_destroy(a);
    dqn_arena_destroy(b);
}

Test(checkpoint, library_versions_are_compared) {
    OK(dqn_h5_check_library());
    const unsigned a[3] = {1, 10, 8}, b[3] = {1, 14, 3}, c[3] = {1, 10, 9};
    OK(dqn_h5_check_versions(a, a));
    FAILS(dqn_h5_check_versions(a, b), DQN_ERR_INTERNAL, "1.14.3");
    FAILS(dqn_h5_check_versions(a, c), DQN_ERR_INTERNAL, "1.10.8");
    char text[64];
    cr_assert_not_null(strstr(dqn_h5_version(text, sizeof text), "HDF5 1."));
}
