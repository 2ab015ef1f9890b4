/* The arena: names, sizes, one commit that does all or nothing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "backend.h"

/* A device that counts, and fails at the n-th allocation. */
struct fake {
    int n_alloc, n_free, n_pinned, fail_at;
};

static enum dqn_status fake_alloc(const struct dqn_device *device, void **out, size_t bytes,
                                  bool pinned) {
    struct fake *fake = device->impl;
    if (++fake->n_alloc == fake->fail_at) {
        return dqn_fail(DQN_ERR_DEVICE_MEMORY, "full");
    }
    fake->n_pinned += pinned;
    return dqn_alloc(out, bytes, 1, "fake");
}

static void fake_free(const struct dqn_device *device, void *data, bool pinned) {
    struct fake *fake = device->impl;
    fake->n_free++;
    fake->n_pinned -= pinned;
    free(data);
}

static const struct dqn_memory_ops fake_memory = {.alloc = fake_alloc, .free = fake_free};
static const struct dqn_backend fake_backend = {.name = "fake", .memory = &fake_memory};

static struct dqn_buffer *add(struct dqn_arena *arena, const struct dqn_device *device, int flags,
                              const char *name, size_t n) {
    struct dqn_buffer *buffer = NULL;
    cr_assert_eq(dqn_arena_add(arena, &buffer, device, DQN_F32, flags, name, 2, n, (size_t)3),
                 DQN_OK, "%s", dqn_error_text());
    return buffer;
}

Test(arena, host_buffers_are_aligned_and_zero) {
    struct dqn_arena *arena = NULL;
    struct dqn_buffer *handles[100];
    cr_assert_eq(dqn_arena_create(&arena), DQN_OK);
    for (size_t i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "replay/b%zu", i);
        handles[i] = add(arena, NULL, DQN_BUFFER_SAVED, name, i);
        cr_expect_null(handles[i]->data);
        cr_expect_eq(handles[i]->bytes, i * 3 * 4);
    }
    cr_expect_eq(dqn_arena_planned_bytes(arena, NULL), 4950u * 12);
    cr_assert_eq(dqn_arena_commit(arena, NULL), DQN_OK);
    for (size_t i = 0; i < 100; i++) {
        cr_assert_not_null(handles[i]->data);
        cr_expect_eq((uintptr_t)handles[i]->data % 64, 0);
        cr_expect_eq(dqn_arena_at(arena, i), handles[i]);
        for (size_t b = 0; b < handles[i]->bytes; b++) {
            cr_assert_eq(((unsigned char *)handles[i]->data)[b], 0);
        }
    }
    cr_expect_eq(dqn_arena_count(arena), 100);
    cr_expect_eq(dqn_arena_find(arena, "replay/b7"), handles[7]);
    cr_expect_null(dqn_arena_find(arena, "replay/b100"));
    dqn_arena_destroy(arena);
    dqn_arena_destroy(NULL);
}

Test(arena, wrong_use_is_refused) {
    struct dqn_arena *arena = NULL;
    struct dqn_buffer *out = NULL;
    cr_assert_eq(dqn_arena_create(&arena), DQN_OK);
    add(arena, NULL, 0, "a", 1);
    cr_expect_eq(dqn_arena_add(arena, &out, NULL, DQN_U8, 0, "a", 0), DQN_ERR_STATE);
    cr_expect_eq(dqn_arena_add(arena, &out, NULL, DQN_U8, 0, "", 0), DQN_ERR_STATE);
    cr_expect_eq(dqn_arena_add(arena, &out, NULL, DQN_U8, 0, "x//y", 0), DQN_ERR_STATE);
    cr_expect_eq(dqn_arena_add(arena, &out, NULL, DQN_U8, 0, "/x", 0), DQN_ERR_STATE);
    cr_expect_eq(dqn_arena_add(arena, &out, NULL, DQN_F64, 0, "b", 2, SIZE_MAX / 4, (size_t)2),
                 DQN_ERR_MEMORY);
    cr_expect_eq(dqn_arena_count(arena), 1);
    cr_assert_eq(dqn_arena_commit(arena, NULL), DQN_OK);
    cr_expect_eq(dqn_arena_commit(arena, NULL), DQN_ERR_STATE);
    cr_expect_eq(dqn_arena_add(arena, &out, NULL, DQN_U8, 0, "late", 0), DQN_ERR_STATE);
    dqn_arena_destroy(arena);
}

Test(arena, a_failed_commit_gives_everything_back) {
    for (int fail_at = 1; fail_at <= 4; fail_at++) {
        struct fake fake = {.fail_at = fail_at};
        const struct dqn_device device = {.backend = &fake_backend, .impl = &fake};
        const struct dqn_buffer *failed = NULL;
        struct dqn_arena *arena = NULL;
        cr_assert_eq(dqn_arena_create(&arena), DQN_OK);
        add(arena, &device, 0, "a", 1);
        add(arena, NULL, 0, "host", 1);
        add(arena, &device, DQN_BUFFER_PINNED, "b", 2);
        add(arena, &device, 0, "c", 3);
        cr_expect_eq(dqn_arena_planned_bytes(arena, &device), 48);
        const enum dqn_status status = dqn_arena_commit(arena, &failed);
        if (fail_at <= 3) {
            static const char *const names[] = {"a", "b", "c"};
            cr_expect_eq(status, DQN_ERR_DEVICE_MEMORY);
            cr_expect_str_eq(failed->name, names[fail_at - 1]);
            cr_expect_eq(fake.n_free, fail_at - 1);
            for (size_t i = 0; i < 4; i++) {
                cr_expect_null(dqn_arena_at(arena, i)->data);
            }
            /* Once there is room, the same arena commits. */
            fake.fail_at = 0;
            cr_expect_eq(dqn_arena_commit(arena, &failed), DQN_OK);
            cr_expect_null(failed);
        } else {
            cr_expect_eq(status, DQN_OK);
        }
        cr_expect_eq(fake.n_pinned, 1);
        dqn_arena_destroy(arena);
        cr_expect_eq(fake.n_pinned, 0);
    }
}

Test(arena, a_scalar_and_dtypes_have_their_sizes) {
    struct dqn_arena *arena = NULL;
    struct dqn_buffer *out = NULL;
    cr_assert_eq(dqn_arena_create(&arena), DQN_OK);
    cr_assert_eq(dqn_arena_add(arena, &out, NULL, DQN_U64, 0, "n", 0), DQN_OK);
    cr_expect_eq(out->bytes, 8);
    cr_expect_eq(dqn_dtype_bytes(DQN_U8), 1);
    cr_expect_eq(dqn_dtype_bytes(DQN_F64), 8);
    cr_expect_str_eq(dqn_dtype_name(DQN_I64), "i64");
    dqn_arena_destroy(arena);
}
