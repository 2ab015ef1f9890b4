#include "bench_text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- step, per, collect ---------------------------------------------------------------------- */

static void print_memory(uint64_t planned, uint64_t taken) {
    char text[32];
    printf("  memory: %s planned", dqn_format_bytes(text, sizeof text, planned));
    if (taken > 0) {
        printf(", %s taken on the device", dqn_format_bytes(text, sizeof text, taken));
    }
    printf("\n");
}

void dqn_bench_print(const char *name, const char *unit, const struct dqn_bench_result *r) {
    printf("%s on %s\n", name, r->device);
    printf("  %.0f %s/s (%.0f to %.0f), %.2f us each, %llu timed, %llu host waits inside\n",
           r->per_s, unit, r->per_s_min, r->per_s_max, r->us, (unsigned long long)r->n,
           (unsigned long long)r->host_waits);
    if (!isnan(r->per_us)) {
        printf("  of which prioritized replay %.2f us (%.1f %%)\n", r->per_us,
               100.0 * r->per_share);
    }
    if (!isnan(r->busy)) {
        printf("  GPU busy %.1f %%\n", 100.0 * r->busy);
    }
    print_memory(r->device_bytes, r->device_bytes_taken);
}

/* , "name": 1.5, or null for a NAN. */
static void print_number(const char *name, double value) {
    if (isnan(value)) {
        printf(", \"%s\": null", name);
    } else {
        printf(", \"%s\": %.6g", name, value);
    }
}

/* Null for a 0. */
static void print_bytes(const char *name, uint64_t bytes) {
    if (bytes == 0) {
        printf(", \"%s\": null", name);
    } else {
        printf(", \"%s\": %llu", name, (unsigned long long)bytes);
    }
}

void dqn_bench_print_json(const char *name, const char *unit, const struct dqn_bench_result *r) {
    printf("{\"bench\": \"%s\", \"unit\": \"%s\", \"per_s\": %.6g, \"per_s_min\": %.6g, "
           "\"per_s_max\": %.6g, \"us\": %.6g, \"n\": %llu, \"host_waits\": %llu",
           name, unit, r->per_s, r->per_s_min, r->per_s_max, r->us, (unsigned long long)r->n,
           (unsigned long long)r->host_waits);
    print_number("busy", r->busy);
    if (strcmp(name, "step") == 0) {
        print_number("per_us", r->per_us);
        print_number("per_share", r->per_share);
    }
    printf(", \"device_bytes\": %llu", (unsigned long long)r->device_bytes);
    print_bytes("device_bytes_taken", r->device_bytes_taken);
    printf(", \"device\": \"%s\"}\n", r->device);
}

/* ---- epoch ----------------------------------------------------------------------------------- */

enum { COLUMNS = 2, WIDTH = 16 };

/* A row of the table: a number of each placement. */
struct row {
    const char *name;
    size_t offset; /* of a double in the result */
    int decimals;
};

#define ROW(name, field, decimals)                                                                 \
    { name, offsetof(struct dqn_bench_epoch_result, field), decimals }
static const struct row rows[] = {
    ROW("sampling, s an epoch", sample_s, 4),
    ROW("priority updates, s an epoch", update_s, 4),
    ROW("host waits, s an epoch", host_wait_s, 4),
    ROW("host waits, times an epoch", host_waits, 0),
    ROW("an epoch, s", seconds, 4),
    ROW("updates/s", updates_per_s, 0),
    ROW("env steps/s", env_steps_per_s, 0),
};
#undef ROW

/* The placements that ran, the CPU first; how many. */
static size_t columns(const struct dqn_bench_epoch_result *with_learner,
                      const struct dqn_bench_epoch_result *on_cpu,
                      const struct dqn_bench_epoch_result *out[COLUMNS]) {
    size_t n = 0;
    if (on_cpu->ran) {
        out[n++] = on_cpu;
    }
    if (with_learner->ran) {
        out[n++] = with_learner;
    }
    return n;
}

static void print_idle(const struct dqn_bench_epoch_result *const r[], size_t n) {
    printf("%-30s", "GPU idle, %");
    for (size_t i = 0; i < n; i++) {
        if (isnan(r[i]->busy)) {
            printf(" %*s", WIDTH, "-");
        } else {
            printf(" %*.1f", WIDTH, 100.0 * (1.0 - r[i]->busy));
        }
    }
    printf("\n");
}

static void print_bytes_row(const char *name, const struct dqn_bench_epoch_result *const r[],
                            size_t n, size_t offset) {
    char text[32];
    printf("%-30s", name);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = *(const uint64_t *)((const char *)r[i] + offset);
        printf(" %*s", WIDTH, bytes > 0 ? dqn_format_bytes(text, sizeof text, bytes) : "-");
    }
    printf("\n");
}

static void print_table(const struct dqn_bench_epoch_result *const r[], size_t n) {
    printf("%-30s", "replay on the");
    for (size_t i = 0; i < n; i++) {
        printf(" %*s", WIDTH, r[i]->replay_on_gpu ? "GPU" : "CPU");
    }
    printf("\n");
    for (size_t row = 0; row < DQN_COUNT_OF(rows); row++) {
        printf("%-30s", rows[row].name);
        for (size_t i = 0; i < n; i++) {
            printf(" %*.*f", WIDTH, rows[row].decimals,
                   *(const double *)((const char *)r[i] + rows[row].offset));
        }
        printf("\n");
    }
    print_idle(r, n);
    print_bytes_row("memory planned", r, n, offsetof(struct dqn_bench_epoch_result, device_bytes));
    print_bytes_row("memory taken", r, n,
                    offsetof(struct dqn_bench_epoch_result, device_bytes_taken));
}

void dqn_bench_print_epoch(const struct dqn_bench_epoch_result *with_learner,
                           const struct dqn_bench_epoch_result *on_cpu) {
    const struct dqn_bench_epoch_result *r[COLUMNS];
    const size_t n = columns(with_learner, on_cpu, r);
    printf("epoch on %s\n", with_learner->device);
    print_table(r, n);
    printf("With the replay on the CPU, sampling and priority updates are the host's time in them, "
           "without its waits.\n");
    if (with_learner->replay_on_gpu) {
        printf("On the GPU they run inside of graphs and have no time of the host: the table has "
               "what they take on the\ndevice by themselves, times the updates of an epoch.\n");
    }
    if (n == COLUMNS) {
        printf("The epoch with the replay on the GPU takes %.1f %% of the other one's time.\n",
               100.0 * with_learner->seconds / on_cpu->seconds);
    }
}

static void print_epoch_json(const struct dqn_bench_epoch_result *r) {
    printf("{\"bench\": \"epoch\", \"replay\": \"%s\"", r->replay_on_gpu ? "gpu" : "cpu");
    print_number("seconds", r->seconds);
    print_number("updates_per_s", r->updates_per_s);
    print_number("env_steps_per_s", r->env_steps_per_s);
    print_number("sample_s", r->sample_s);
    print_number("priority_update_s", r->update_s);
    print_number("host_waits", r->host_waits);
    print_number("host_wait_s", r->host_wait_s);
    print_number("busy", r->busy);
    printf(", \"device_bytes\": %llu", (unsigned long long)r->device_bytes);
    print_bytes("device_bytes_taken", r->device_bytes_taken);
    printf(", \"device\": \"%s\"}\n", r->device);
}

void dqn_bench_print_epoch_json(const struct dqn_bench_epoch_result *with_learner,
                                const struct dqn_bench_epoch_result *on_cpu) {
    const struct dqn_bench_epoch_result *r[COLUMNS];
    const size_t n = columns(with_learner, on_cpu, r);
    for (size_t i = 0; i < n; i++) {
        print_epoch_json(r[i]);
    }
}
