/* What the CUDA tests share: both backends side by side, and arrays that exist on both. The same
 * arguments go to both; outputs start poisoned; the worst element is judged, and a NaN fails.
 *
 * Under a tool that slows kernels down a hundred times (compute-sanitizer; scripts/sanitize), the
 * environment variable DQN_TEST_REDUCED=1 makes the tests small: see reduced(). */
#ifndef DQN_TESTS_CUDA_PAIR_H
#define DQN_TESTS_CUDA_PAIR_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "backend.h"
#include "shared/rng.h"
#include "status_checks.h"

/* A number of rows, cases or repetitions: `full`, or with DQN_TEST_REDUCED=1 `small`, by which
 * every kernel and every path of it still runs, once. */
static inline size_t reduced(size_t full, size_t small) {
    const char *text = getenv("DQN_TEST_REDUCED");
    return text != NULL && *text == '1' ? small : full;
}

static inline bool is_reduced(void) {
    return reduced(0, 1) == 1;
}

/* Skips a reduced test that would be pointless, before it opens a device. */
static inline void skip_reduced(const char *why) {
    if (is_reduced()) {
        cr_skip_test("reduced: %s", why);
    }
}

/* The full list of sizes or the small one, both of which are arrays. */
struct sizes {
    const size_t *v;
    size_t n;
};

#define SIZES(full, small)                                                                         \
    (is_reduced() ? (struct sizes){(small), DQN_COUNT_OF(small)}                                   \
                  : (struct sizes){(full), DQN_COUNT_OF(full)})

/* ---- the GPU, where there is one ---- */

/* Skips the test, visibly; DQN_TEST_REQUIRE_CUDA=1 turns that into a failure, for machines that
 * must have a GPU. */
static inline void skip_without_gpu(const char *why) {
    const char *required = getenv("DQN_TEST_REQUIRE_CUDA");
    cr_assert(required == NULL || *required != '1', "a GPU is required: %s", why);
    fprintf(stderr, "[SKIP] no GPU: %s\n", why); /* Criterion says it with --verbose only */
    cr_skip_test("%s", why);
}

/* The backend, for tests that need no GPU; skips in a build without it. */
static inline const struct dqn_backend *need_cuda_build(void) {
    const struct dqn_backend *cuda = dqn_backend_find("cuda");
    if (cuda == NULL) {
        fprintf(stderr, "[SKIP] no GPU: built without CUDA\n");
        cr_skip_test("built without CUDA");
    }
    return cuda;
}

/* Opens the GPU, or skips the test. */
static inline const struct dqn_backend *gpu_open(struct dqn_device *device,
                                                 const struct dqn_device_options *options) {
    const struct dqn_backend *cuda = dqn_backend_find("cuda");
    if (cuda == NULL || cuda->memory->open(device, options) != DQN_OK) {
        skip_without_gpu(cuda == NULL ? "built without CUDA" : dqn_error_text());
    }
    return cuda;
}

/* Bytes of the GPU's memory that are free; skips the test where there is none. */
static inline uint64_t free_on_gpu(void) {
    const struct dqn_device_options options = {0};
    struct dqn_device device = {0};
    uint64_t free_bytes = 0, total_bytes = 0;
    const struct dqn_backend *cuda = gpu_open(&device, &options);
    OK(cuda->memory->info(&device, &free_bytes, &total_bytes));
    cuda->memory->close(&device);
    return free_bytes;
}

/* For tests that open it themselves. */
static inline void need_gpu(void) {
    (void)free_on_gpu();
}

/* ---- both sides ---- */

enum { CPU, GPU, SIDES };

struct side {
    const struct dqn_backend *backend;
    struct dqn_device device;
    struct dqn_queue *q;
};

struct pair {
    struct side side[SIDES];
};

/* Skips the test where there is no GPU. */
static inline void pair_open(struct pair *pair, int precision) {
    const struct dqn_device_options options = {.threads = 2, .precision = precision};
    memset(pair, 0, sizeof *pair);
    pair->side[CPU].backend = dqn_backend_find("cpu");
    pair->side[GPU].backend = gpu_open(&pair->side[GPU].device, &options);
    OK(pair->side[CPU].backend->memory->open(&pair->side[CPU].device, &options));
    for (int s = 0; s < SIDES; s++) {
        OK(pair->side[s].backend->queue->create(&pair->side[s].device, &pair->side[s].q));
    }
}

static inline void pair_wait(struct pair *pair) {
    for (int s = 0; s < SIDES; s++) {
        OK(pair->side[s].backend->queue->wait(pair->side[s].q));
    }
}

static inline void pair_close(struct pair *pair) {
    for (int s = 0; s < SIDES; s++) {
        pair->side[s].backend->queue->destroy(pair->side[s].q);
        pair->side[s].backend->memory->close(&pair->side[s].device);
    }
}

/* ---- buffers of one side ---- */

static inline void side_put(const struct side *side, const struct dqn_buffer *to,
                            const void *data) {
    OK(side->backend->memory->copy(side->q, to->data, data, to->bytes, DQN_COPY_TO_DEVICE));
    OK(side->backend->queue->wait(side->q));
}

/* A copy of a buffer; the caller frees it. */
static inline void *side_get(const struct side *side, const struct dqn_buffer *from) {
    void *data = malloc(from->bytes);
    OK(side->backend->memory->copy(side->q, data, from->data, from->bytes, DQN_COPY_TO_HOST));
    OK(side->backend->queue->wait(side->q));
    return data;
}

/* Whether nothing but zeros is in a buffer of floats. */
static inline bool side_is_zero(const struct side *side, const struct dqn_buffer *from) {
    float *data = side_get(side, from);
    size_t n_written = 0;
    for (size_t i = 0; i < from->bytes / sizeof *data; i++) {
        n_written += data[i] != 0.0f;
    }
    free(data);
    return n_written == 0;
}

/* ---- arrays on both sides ---- */

struct mirror {
    size_t bytes;
    void *at[SIDES];
};

/* Writes `data` (of m->bytes) to one side. */
static inline void mirror_set(struct pair *pair, struct mirror *m, int s, const void *data) {
    const struct side *side = &pair->side[s];
    OK(side->backend->memory->copy(side->q, m->at[s], data, m->bytes, DQN_COPY_TO_DEVICE));
    OK(side->backend->queue->wait(side->q));
}

/* `data` NULL: poison, so that what an operation leaves unwritten is seen. */
static inline struct mirror mirror_make(struct pair *pair, size_t bytes, const void *data) {
    struct mirror m = {.bytes = bytes};
    void *poison = malloc(bytes);
    memset(poison, 0x7f, bytes);
    for (int s = 0; s < SIDES; s++) {
        OK(pair->side[s].backend->memory->alloc(&pair->side[s].device, &m.at[s], bytes, false));
        mirror_set(pair, &m, s, data != NULL ? data : poison);
    }
    free(poison);
    return m;
}

/* A copy of one side's contents; the caller frees it. */
static inline void *mirror_get(struct pair *pair, const struct mirror *m, int s) {
    const struct side *side = &pair->side[s];
    void *data = malloc(m->bytes);
    OK(side->backend->memory->copy(side->q, data, m->at[s], m->bytes, DQN_COPY_TO_HOST));
    OK(side->backend->queue->wait(side->q));
    return data;
}

static inline void mirror_free(struct pair *pair, struct mirror *m) {
    for (int s = 0; s < SIDES; s++) {
        pair->side[s].backend->memory->free(&pair->side[s].device, m->at[s], false);
    }
}

/* The first of n bytes that differs; n where none does. */
static inline size_t first_difference(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < n && x[i] == y[i]) {
        i++;
    }
    return i;
}

/* Bytes [first, first + n) agree on both sides. */
static inline void mirror_equal_part(struct pair *pair, const struct mirror *m, size_t first,
                                     size_t n, const char *what) {
    unsigned char *cpu = mirror_get(pair, m, CPU), *gpu = mirror_get(pair, m, GPU);
    const size_t i = first + first_difference(cpu + first, gpu + first, n);
    cr_assert_eq(i, first + n, "%s: byte %zu differs, float %g on the CPU, %g on the GPU", what, i,
                 (double)((float *)cpu)[i / 4], (double)((float *)gpu)[i / 4]);
    free(cpu);
    free(gpu);
}

static inline void mirror_equal(struct pair *pair, const struct mirror *m, const char *what) {
    mirror_equal_part(pair, m, 0, m->bytes, what);
}

/* The larger of two residuals, NaN being the largest. */
static inline double worse(double a, double b) {
    return isnan(a) || b <= a ? a : b;
}

/* Worst |gpu - cpu| of n elements, over the largest |cpu|; NaN when anything is NaN. */
static inline double residual_f32(const float *cpu, const float *gpu, size_t n) {
    double error = 0, largest = 1e-30;
    for (size_t i = 0; i < n; i++) {
        error = worse(error, fabs((double)gpu[i] - (double)cpu[i]));
        largest = fmax(largest, fabs((double)cpu[i]));
    }
    return error / largest;
}

/* The same for n floats from `first` on. */
static inline double mirror_residual_part(struct pair *pair, const struct mirror *m, size_t first,
                                          size_t n) {
    float *cpu = mirror_get(pair, m, CPU), *gpu = mirror_get(pair, m, GPU);
    const double residual = residual_f32(cpu + first, gpu + first, n);
    free(cpu);
    free(gpu);
    return residual;
}

static inline double mirror_residual(struct pair *pair, const struct mirror *m) {
    return mirror_residual_part(pair, m, 0, m->bytes / sizeof(float));
}

/* ---- inputs ---- */

static inline void net_make(struct dqn_net *net, size_t obs, size_t actions, size_t n_hidden,
                            const int64_t *hidden, int activation, bool dueling) {
    struct dqn_config_net config = {.activation = activation, .dueling = dueling};
    config.hidden.n = n_hidden;
    for (size_t l = 0; l < n_hidden; l++) {
        config.hidden.v[l] = hidden[l];
    }
    OK(dqn_net_init(net, obs, actions, &config));
}

/* Uniform in [-1, 1): number i of a named sequence. */
static inline float random_number(uint64_t sequence, uint64_t i) {
    return (float)(2 * dqn_rng_unit(dqn_rng_u64(dqn_rng_block(13579, sequence, i), 0)) - 1);
}

/* rows x ld floats in +-scale, zero beyond width; the caller frees it. */
static inline float *random_rows(uint64_t sequence, size_t rows, size_t width, size_t ld,
                                 float scale) {
    float *data = calloc(rows * ld, sizeof *data);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < width; c++) {
            data[r * ld + c] = scale * random_number(sequence, r * width + c);
        }
    }
    return data;
}

static inline struct mirror mirror_rows(struct pair *pair, uint64_t sequence, size_t rows,
                                        size_t width, size_t ld, float scale) {
    float *data = random_rows(sequence, rows, width, ld, scale);
    struct mirror m = mirror_make(pair, rows * ld * sizeof *data, data);
    free(data);
    return m;
}

#endif
