/* Checkpoints that are copied on the device first: the file holds what was there when the save was
 * enqueued, although the queue's work goes on and nobody waited. On the CPU's late queue, whose
 * operations run in a worker. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "run_folder.h"
#include "status_checks.h"
#include "store_support.h"

enum { N = 1 << 20, ROUNDS = 4 };

extern const struct dqn_backend dqn_cpu_backend;

struct rig {
    struct dqn_device device;
    struct dqn_queue *q;
    struct dqn_arena *arena;
    struct dqn_buffer *numbers, *other;
    struct dqn_checkpoint_writer *writer;
    char folder[256];
    uint64_t *host; /* [N], what the queue's copies read: lives until they ran */
};

static void rig_open(struct rig *r, bool elsewhere) {
    const struct dqn_device_options options = {.threads = 1, .late_queue = true};
    memset(r, 0, sizeof *r);
    store_folder(r->folder, sizeof r->folder);
    OK(dqn_cpu_backend.memory->open(&r->device, &options));
    OK(dqn_cpu_backend.queue->create(&r->device, &r->q));
    OK(dqn_arena_create(&r->arena));
    OK(dqn_arena_add(r->arena, &r->numbers, &r->device, DQN_U64, DQN_BUFFER_SAVED, "test/numbers",
                     1, (size_t)N));
    OK(dqn_arena_add(r->arena, &r->other, elsewhere ? NULL : &r->device, DQN_U64, DQN_BUFFER_SAVED,
                     "test/other", 1, (size_t)1));
    OK(dqn_arena_commit(r->arena, NULL));
    r->host = malloc(ROUNDS * N * sizeof *r->host);
    OK(dqn_checkpoint_writer_create(&r->writer, r->arena, true, NULL));
    dqn_checkpoint_writer_overlap(r->writer, &r->device);
}

static void rig_close(struct rig *r) {
    dqn_checkpoint_writer_destroy(r->writer);
    dqn_arena_destroy(r->arena);
    dqn_cpu_backend.queue->destroy(r->q);
    dqn_cpu_backend.memory->close(&r->device);
    store_folder_remove(r->folder);
    free(r->host);
}

/* Enqueues other numbers, as a step of training would. */
static void step(struct rig *r, uint64_t round) {
    uint64_t *from = r->host + round * N;
    for (uint64_t i = 0; i < N; i++) {
        from[i] = round * 1000003 + i;
    }
    OK(dqn_cpu_backend.memory->copy(r->q, r->numbers->data, from, r->numbers->bytes,
                                    DQN_COPY_TO_DEVICE));
}

static void expect_round(struct rig *r, uint64_t round) {
    char path[512];
    struct dqn_checkpoint *file = NULL;
    OK(dqn_run_folder_file(path, sizeof path, r->folder, round, false));
    OK(dqn_checkpoint_open(&file, path));
    OK(dqn_checkpoint_load(file, r->arena, r->q));
    dqn_checkpoint_close(file);
    const uint64_t *numbers = r->numbers->data;
    for (uint64_t i = 0; i < N; i++) {
        cr_assert_eq(numbers[i], round * 1000003 + i, "number %llu of round %llu is %llu",
                     (unsigned long long)i, (unsigned long long)round,
                     (unsigned long long)numbers[i]);
    }
}

Test(checkpoint_overlap, a_save_holds_its_own_moment_and_does_not_wait) {
    struct rig r;
    rig_open(&r, false);
    cr_assert(dqn_checkpoint_writer_overlaps(r.writer));
    cr_expect_eq(dqn_checkpoint_writer_device_bytes(r.writer), (N + 1) * sizeof(uint64_t));
    cr_expect_eq(dqn_checkpoint_device_bytes(r.arena, true, &r.device), (N + 1) * sizeof(uint64_t));
    const uint64_t waits = dqn_queue_waits();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const struct dqn_checkpoint_request request = {.folder = r.folder, .epochs = round};
        step(&r, round);
        OK(dqn_checkpoint_save(r.writer, r.q, store_content(1), &request));
    }
    cr_assert_eq(dqn_queue_waits(), waits);
    OK(dqn_checkpoint_wait(r.writer));
    OK(dqn_cpu_backend.queue->wait(r.q));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        expect_round(&r, round);
    }
    rig_close(&r);
}

/* A buffer in host memory, which the device's queue cannot copy: as without overlap. */
Test(checkpoint_overlap, a_buffer_elsewhere_is_saved_the_old_way) {
    struct rig r;
    rig_open(&r, true);
    cr_assert_not(dqn_checkpoint_writer_overlaps(r.writer));
    cr_expect_eq(dqn_checkpoint_writer_device_bytes(r.writer), 0);
    cr_expect_eq(dqn_checkpoint_device_bytes(r.arena, true, &r.device), 0);
    const struct dqn_checkpoint_request request = {.folder = r.folder, .epochs = 1};
    step(&r, 1);
    OK(dqn_checkpoint_save(r.writer, r.q, store_content(1), &request));
    step(&r, 2);
    OK(dqn_checkpoint_wait(r.writer));
    OK(dqn_cpu_backend.queue->wait(r.q));
    expect_round(&r, 1);
    rig_close(&r);
}

static uint64_t free_bytes;

static enum dqn_status little_memory(const struct dqn_device *device, uint64_t *available,
                                     uint64_t *total) {
    (void)device;
    *available = free_bytes;
    *total = 20 * 1000;
    return DQN_OK;
}

/* The copy is taken where it and a twentieth of the device have room, and not with a byte less. */
Test(checkpoint_overlap, takes_no_more_than_there_is) {
    enum { COPY = (N + 1) * sizeof(uint64_t) };
    for (uint64_t less = 0; less < 2; less++) {
        struct rig r;
        rig_open(&r, false);
        struct dqn_memory_ops memory = *dqn_cpu_backend.memory;
        struct dqn_backend backend = dqn_cpu_backend;
        struct dqn_checkpoint_writer *writer = NULL;
        memory.info = little_memory;
        backend.memory = &memory;
        r.device.backend = &backend;
        free_bytes = COPY + 1000 - less;
        OK(dqn_checkpoint_writer_create(&writer, r.arena, true, NULL));
        dqn_checkpoint_writer_overlap(writer, &r.device);
        cr_expect_eq(dqn_checkpoint_writer_device_bytes(writer), less == 0 ? COPY : 0);
        cr_expect_eq(dqn_checkpoint_device_bytes(r.arena, true, &r.device), COPY, "as wished");
        dqn_checkpoint_writer_destroy(writer);
        rig_close(&r);
    }
}
