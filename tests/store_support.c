#include "store_support.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ---- */

void store_folder(char *out, size_t size) {
    const char *base = getenv("TMPDIR");
    snprintf(out, size, "%s/dqn store \xc3\xa9 XXXXXX", base != NULL ? base : "/tmp");
    DQN_CHECK(mkdtemp(out) != NULL);
}

static int remove_item(const char *path, const struct stat *info, int type, struct FTW *place) {
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

void store_folder_remove(const char *path) {
    nftw(path, remove_item, 16, FTW_DEPTH | FTW_PHYS);
}

int store_count(const char *folder, const char *prefix) {
    DIR *list = opendir(folder);
    if (list == NULL) {
        return -1;
    }
    int n = 0;
    for (const struct dirent *item = readdir(list); item != NULL; item = readdir(list)) {
        n += strncmp(item->d_name, prefix, strlen(prefix)) == 0 ? 1 : 0;
    }
    closedir(list);
    return n;
}

unsigned char *store_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*size + 1);
    DQN_CHECK(data != NULL && fread(data, 1, *size, file) == *size);
    fclose(file);
    return data;
}

void store_write(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    DQN_CHECK(file != NULL && fwrite(data, 1, size, file) == size);
    DQN_CHECK(fclose(file) == 0);
}

/* ---- the device ---- */

enum { PENDING_MAX = 64 };

struct pending {
    void *to;
    const void *from;
    size_t bytes;
};

struct store_queue {
    struct dqn_queue base;
    struct pending pending[PENDING_MAX];
    size_t n;
};

static enum dqn_status store_alloc(const struct dqn_device *device, void **out, size_t bytes,
                                   bool pinned) {
    (void)device;
    (void)pinned;
    return dqn_alloc(out, bytes, 1, "test device");
}

static void store_free(const struct dqn_device *device, void *data, bool pinned) {
    (void)device;
    (void)pinned;
    free(data);
}

static enum dqn_status store_copy(struct dqn_queue *base, void *to, const void *from, size_t bytes,
                                  enum dqn_copy_kind kind) {
    (void)kind;
    struct store_queue *q = (struct store_queue *)base;
    DQN_CHECK(q->n < PENDING_MAX);
    q->pending[q->n++] = (struct pending){to, from, bytes};
    return DQN_OK;
}

static enum dqn_status store_queue_create(const struct dqn_device *device, struct dqn_queue **out) {
    struct store_queue *q = calloc(1, sizeof *q);
    DQN_CHECK(q != NULL);
    q->base.device = device;
    *out = &q->base;
    return DQN_OK;
}

static void store_queue_destroy(struct dqn_queue *q) {
    free(q);
}

static enum dqn_status store_queue_wait(struct dqn_queue *base) {
    struct store_queue *q = (struct store_queue *)base;
    for (size_t i = 0; i < q->n; i++) {
        memcpy(q->pending[i].to, q->pending[i].from, q->pending[i].bytes);
    }
    q->n = 0;
    return DQN_OK;
}

static const struct dqn_memory_ops memory_ops = {
    .alloc = store_alloc, .free = store_free, .copy = store_copy};
static const struct dqn_queue_ops queue_ops = {
    .create = store_queue_create, .destroy = store_queue_destroy, .wait = store_queue_wait};
const struct dqn_backend store_backend = {
    .name = "test", .memory = &memory_ops, .queue = &queue_ops};

struct dqn_queue *store_queue(const struct dqn_device *device) {
    struct dqn_queue *q = NULL;
    store_queue_create(device, &q);
    return q;
}

void store_queue_free(struct dqn_queue *q) {
    store_queue_destroy(q);
}

/* ---- the arena ---- */

struct dqn_arena *store_arena(const struct dqn_device *device, size_t n) {
    enum { SAVED = DQN_BUFFER_SAVED, REPLAY = DQN_BUFFER_SAVED | DQN_BUFFER_REPLAY };
    struct dqn_arena *arena = NULL;
    struct dqn_buffer *b = NULL;
    DQN_CHECK(dqn_arena_create(&arena) == DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_F32, SAVED, "nn/params", 2, (size_t)2, 37 * n) ==
              DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_F32, SAVED, "nn/target", 2, (size_t)2, 37 * n) ==
              DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_F32, REPLAY, "replay/states", 3, (size_t)2,
                            11 * n, (size_t)5) == DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_U8, REPLAY, "replay/dones", 2, (size_t)2,
                            11 * n) == DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, NULL, DQN_U32, SAVED, "a/b/c/actions", 4, (size_t)2,
                            (size_t)3, (size_t)1, n) == DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, NULL, DQN_I64, SAVED | DQN_BUFFER_SHARED, "index", 1, n) ==
              DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_U64, SAVED | DQN_BUFFER_PINNED, "counters", 2,
                            (size_t)2, (size_t)7) == DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_F64, SAVED, "env/sums", 2, (size_t)2, n) ==
              DQN_OK);
    DQN_CHECK(dqn_arena_add(arena, &b, device, DQN_F32, 0, "scratch", 2, (size_t)2, n) == DQN_OK);
    DQN_CHECK(dqn_arena_commit(arena, NULL) == DQN_OK);
    return arena;
}

void store_fill(const struct dqn_arena *arena, uint64_t seed) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < dqn_arena_count(arena); i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(arena, i);
        unsigned char *bytes = buffer->data;
        for (size_t j = 0; j < buffer->bytes; j++) {
            x ^= x << 13; /* xorshift64, Marsaglia 2003 */
            x ^= x >> 7;
            x ^= x << 17;
            bytes[j] = (unsigned char)(x >> 32);
        }
    }
}

const char *store_difference(const struct dqn_arena *a, const struct dqn_arena *b, int flags) {
    DQN_CHECK(dqn_arena_count(a) == dqn_arena_count(b));
    for (size_t i = 0; i < dqn_arena_count(a); i++) {
        const struct dqn_buffer *x = dqn_arena_at(a, i);
        const struct dqn_buffer *y = dqn_arena_at(b, i);
        if ((x->flags & flags) == flags && memcmp(x->data, y->data, x->bytes) != 0) {
            return x->name;
        }
    }
    return NULL;
}

/* ---- content ---- */

static const uint8_t u8s[2] = {0, 255};
static const uint32_t u32s[3] = {1, UINT32_MAX, 7};
static const int64_t i64s[2] = {INT64_MIN, INT64_MAX};
static const uint64_t u64s[1] = {UINT64_MAX};
static const float f32s[4] = {1.5f, -0.0f, 1e-45f, (float)INFINITY};
static const double f64s[2] = {-INFINITY, 5e-324};
static const double history[] = {1, 10, NAN, 2, 20, -0.5, 3, 30, 1e300};

static const struct dqn_checkpoint_field fields[] = {
    {"progress/epochs", DQN_U64, 0, {0}, u64s}, {"u8", DQN_U8, 1, {2}, u8s},
    {"u32", DQN_U32, 2, {1, 3}, u32s},          {"i64", DQN_I64, 1, {2}, i64s},
    {"f32", DQN_F32, 4, {1, 2, 1, 2}, f32s},    {"best/score", DQN_F64, 1, {2}, f64s},
    {"empty", DQN_F64, 2, {0, 3}, NULL},
};
static const struct dqn_checkpoint_text texts[] = {{"device", "cpu: 2 threads, Gr\xc3\xb6\xc3\x9f"
                                                              "e"},
                                                   {"note", ""}};
static const char *const columns[] = {"epoch", "loss", "return_mean"};

const struct dqn_checkpoint_content *store_content(size_t n_rows) {
    static struct dqn_checkpoint_content content;
    DQN_CHECK(n_rows <= 3);
    content = (struct dqn_checkpoint_content){
        .config_text = "seed: 1\nname: \"a \xe2\x82\xac b\"\n",
        .fields = fields,
        .n_fields = DQN_COUNT_OF(fields),
        .texts = texts,
        .n_texts = DQN_COUNT_OF(texts),
        .columns = columns,
        .n_columns = DQN_COUNT_OF(columns),
        .history = history,
        .n_rows = n_rows,
    };
    return &content;
}

enum dqn_status store_save(const struct dqn_arena *arena, struct dqn_queue *q, const char *folder,
                           uint64_t epochs, bool with_replay, const struct dqn_file_ops *ops) {
    struct dqn_checkpoint_writer *writer = NULL;
    const struct dqn_checkpoint_request request = {.folder = folder, .epochs = epochs};
    DQN_TRY(dqn_checkpoint_writer_create(&writer, arena, with_replay, ops));
    enum dqn_status status = dqn_checkpoint_save(writer, q, store_content(3), &request);
    if (status == DQN_OK) {
        status = dqn_checkpoint_wait(writer);
    }
    dqn_checkpoint_writer_destroy(writer);
    return status;
}
