/* The CPU backend: devices, memory, and the table that joins its operations. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_cpu.h"
#include "threads.h"

enum { ALIGNMENT = 64 }; /* a cache line, and the widest vector */

/* ---- devices ---- */

static size_t online_cores(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (size_t)n;
}

/* "OpenBLAS 0.3.21 Haswell": the core type decides the order of sums inside a product, so it is
 * part of what makes a run repeatable. */
static const char *cpu_versions(char *text, size_t size) {
    char version[32] = "";
    sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    snprintf(text, size, "OpenBLAS %s %s", version, openblas_get_corename());
    return text;
}

static void describe(struct dqn_device *device, size_t threads) {
    char versions[96];
    snprintf(device->description, sizeof device->description, "cpu: %zu thread%s, %s", threads,
             threads == 1 ? "" : "s", cpu_versions(versions, sizeof versions));
}

static enum dqn_status cpu_open(struct dqn_device *out, const struct dqn_device_options *options) {
    const size_t threads = options->threads > 0 ? (size_t)options->threads : online_cores();
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_cpu_device), "cpu device"));
    struct dqn_cpu_device *device = memory;
    device->late = options->late_queue;
    const enum dqn_status status = dqn_cpu_pool_create(&device->pool, threads);
    if (status != DQN_OK) {
        free(device);
        return status;
    }
    pthread_mutex_init(&device->pool_lock, NULL);
    openblas_set_num_threads(1); /* products are split by fixed rules, in nn_cpu.c */
    *out = (struct dqn_device){.backend = &dqn_cpu_backend, .impl = device};
    describe(out, threads);
    return DQN_OK;
}

static void cpu_close(struct dqn_device *device) {
    struct dqn_cpu_device *impl = device->impl;
    if (impl == NULL) {
        return;
    }
    dqn_cpu_pool_destroy(impl->pool);
    pthread_mutex_destroy(&impl->pool_lock);
    free(impl);
    *device = (struct dqn_device){0};
}

/* ---- memory ---- */

/* One line of /proc/meminfo, in bytes; 0 when it is not there. */
static uint64_t meminfo_bytes(const char *key) {
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) {
        return 0;
    }
    char line[128];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            sscanf(line + strlen(key), ": %llu", &kib);
            break;
        }
    }
    fclose(file);
    return (uint64_t)kib * 1024;
}

static enum dqn_status cpu_info(const struct dqn_device *device, uint64_t *free_bytes,
                                uint64_t *total_bytes) {
    (void)device;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t available = meminfo_bytes("MemAvailable");
    *total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
    *free_bytes = available > 0 ? available : (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page;
    return DQN_OK;
}

/* The system hands out more memory than it has and kills the process that touches it; so a request
 * above what is free is refused here. */
static enum dqn_status cpu_alloc(const struct dqn_device *device, void **out, size_t bytes,
                                 bool pinned) {
    (void)pinned;
    *out = NULL;
    uint64_t free_bytes = 0, total_bytes = 0;
    DQN_TRY(cpu_info(device, &free_bytes, &total_bytes));
    void *data = NULL;
    if (bytes <= free_bytes) {
        const size_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
        data = aligned_alloc(ALIGNMENT, rounded);
        if (data != NULL) {
            memset(data, 0, rounded); /* touches the pages: none is missing later on */
        }
    }
    if (data == NULL) {
        char want[32], have[32];
        return dqn_fail(DQN_ERR_DEVICE_MEMORY, "host memory is used up: %s asked for, %s free",
                        dqn_format_bytes(want, sizeof want, bytes),
                        dqn_format_bytes(have, sizeof have, free_bytes));
    }
    *out = data;
    return DQN_OK;
}

static void cpu_free(const struct dqn_device *device, void *data, bool pinned) {
    (void)device;
    (void)pinned;
    free(data);
}

struct copy_args {
    void *dst;
    const void *src;
    size_t bytes;
};

static enum dqn_status run_copy(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    const struct copy_args *args = arguments;
    if (args->bytes > 0) {
        memcpy(args->dst, args->src, args->bytes);
    }
    return DQN_OK;
}

static enum dqn_status cpu_copy(struct dqn_queue *q, void *dst, const void *src, size_t bytes,
                                enum dqn_copy_kind kind) {
    (void)kind; /* copies to the host are as late as everything else */
    const struct copy_args args = {dst, src, bytes};
    return dqn_cpu_submit(q, run_copy, &args, sizeof args);
}

static enum dqn_status run_zero(struct dqn_cpu_pool *pool, const void *arguments) {
    (void)pool;
    const struct copy_args *args = arguments;
    if (args->bytes > 0) {
        memset(args->dst, 0, args->bytes);
    }
    return DQN_OK;
}

static enum dqn_status cpu_zero(struct dqn_queue *q, void *dst, size_t bytes) {
    const struct copy_args args = {dst, NULL, bytes};
    return dqn_cpu_submit(q, run_zero, &args, sizeof args);
}

static const struct dqn_memory_ops memory_ops = {
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .info = cpu_info,
};

const struct dqn_backend dqn_cpu_backend = {
    .name = "cpu",
    .memory = &memory_ops,
    .queue = &dqn_cpu_queue_ops,
    .nn = &dqn_cpu_nn_ops,
    .env = &dqn_cpu_env_ops,
    .replay = &dqn_cpu_replay_ops,
    .sampler = &dqn_cpu_sampler_ops,
    .versions = cpu_versions,
};
