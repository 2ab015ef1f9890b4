/* The writer's thread and two readers use HDF5 at the same time while training changes the buffers.
 * A plain program, without Criterion, whose fixed memory map the thread sanitizer does not allow:
 * build with -DDQN_SANITIZE=thread to look for races. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "store_support.h"

enum { SAVES = 150, READS = 200, READERS = 2 };

struct reader {
    const char *folder;
    char failed[2048]; /* "" = never */
};

static enum dqn_status read_once(const char *path) {
    struct dqn_checkpoint *c = NULL;
    uint64_t epochs = 0;
    DQN_TRY(dqn_checkpoint_open(&c, path));
    const enum dqn_status status =
        dqn_checkpoint_field_read(c, "progress/epochs", DQN_U64, 1, &epochs);
    dqn_checkpoint_close(c);
    if (status == DQN_OK && epochs != UINT64_MAX) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "another value was read");
    }
    return status;
}

static void *read_rounds(void *argument) {
    struct reader *r = argument;
    char path[512];
    snprintf(path, sizeof path, "%s/best.h5", r->folder);
    for (int i = 0; i < READS && r->failed[0] == '\0'; i++) {
        if (read_once(path) != DQN_OK) {
            snprintf(r->failed, sizeof r->failed, "read %d: %s", i, dqn_error_text());
        }
    }
    return NULL;
}

/* One save; right after it the buffers change, as in training. */
static enum dqn_status save_one(struct dqn_checkpoint_writer *writer, struct dqn_queue *q,
                                const struct dqn_arena *arena, const char *folder,
                                uint64_t epochs) {
    const struct dqn_checkpoint_request request = {
        .folder = folder, .epochs = epochs, .best = true, .keep_last = 3};
    store_fill(arena, epochs);
    DQN_TRY(dqn_checkpoint_save(writer, q, store_content(3), &request));
    store_fill(arena, epochs + 1000);
    return DQN_OK;
}

static enum dqn_status run(struct dqn_queue *q, const struct dqn_arena *arena, const char *folder) {
    struct dqn_checkpoint_writer *writer = NULL;
    struct reader readers[READERS];
    pthread_t threads[READERS];
    DQN_TRY(dqn_checkpoint_writer_create(&writer, arena, true, NULL));
    enum dqn_status status = save_one(writer, q, arena, folder, 1);
    if (status == DQN_OK) {
        status = dqn_checkpoint_wait(writer);
    }
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.folder = folder};
        DQN_CHECK(pthread_create(&threads[i], NULL, read_rounds, &readers[i]) == 0);
    }
    for (uint64_t i = 2; i < SAVES && status == DQN_OK; i++) {
        status = save_one(writer, q, arena, folder, i);
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        if (readers[i].failed[0] != '\0') {
            status = dqn_fail(DQN_ERR_CHECKPOINT, "%s", readers[i].failed);
        }
    }
    if (status == DQN_OK) {
        status = dqn_checkpoint_wait(writer);
    }
    dqn_checkpoint_writer_destroy(writer);
    return status;
}

int main(void) {
    const struct dqn_device device = {.backend = &store_backend};
    char folder[256];
    store_folder(folder, sizeof folder);
    struct dqn_queue *q = store_queue(&device);
    struct dqn_arena *arena = store_arena(&device, 40);
    const enum dqn_status status = run(q, arena, folder);
    const int epochs = store_count(folder, "epoch-"), temporaries = store_count(folder, ".tmp-");
    if (status != DQN_OK) {
        fprintf(stderr, "%s\n", dqn_error_text());
    }
    dqn_arena_destroy(arena);
    store_queue_free(q);
    store_folder_remove(folder);
    return status == DQN_OK && epochs == 3 && temporaries == 0 ? 0 : 1;
}
