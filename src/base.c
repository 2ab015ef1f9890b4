#include "base.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ERROR_TEXT_BYTES = 2048 };

static _Thread_local char error_text[ERROR_TEXT_BYTES];
static atomic_bool log_is_quiet;

int dqn_status_exit_code(enum dqn_status status) {
    switch (status) {
#define STATUS_CODE(name, code)                                                                    \
    case name:                                                                                     \
        return code;
        DQN_STATUS_LIST(STATUS_CODE)
#undef STATUS_CODE
    }
    return 1;
}

const char *dqn_status_name(enum dqn_status status) {
    switch (status) {
#define STATUS_NAME(name, code)                                                                    \
    case name:                                                                                     \
        return #name;
        DQN_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "unknown status";
}

enum dqn_status dqn_fail(enum dqn_status status, const char *format, ...) {
    char text[ERROR_TEXT_BYTES]; /* the arguments may point into error_text */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(error_text, text, sizeof text);
    return status;
}

enum dqn_status dqn_fail_prefix(enum dqn_status status, const char *format, ...) {
    char prefix[ERROR_TEXT_BYTES / 2], text[ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    memcpy(text, error_text, sizeof text);
    return dqn_fail(status, "%s: %s", prefix, text);
}

const char *dqn_error_text(void) {
    return error_text;
}

_Noreturn void dqn_check_failed(const char *cond, const char *file, int line) {
    fprintf(stderr, "dqn-train: broken invariant at %s:%d: %s\n", file, line, cond);
    abort();
}

void dqn_log_set_quiet(bool quiet) {
    atomic_store(&log_is_quiet, quiet);
}

static void write_line(const char *prefix, const char *format, va_list args) {
    char text[ERROR_TEXT_BYTES];
    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "%s%s\n", prefix, text);
}

void dqn_info(const char *format, ...) {
    if (atomic_load(&log_is_quiet)) {
        return;
    }
    va_list args;
    va_start(args, format);
    write_line("", format, args);
    va_end(args);
}

void dqn_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    write_line("warning: ", format, args);
    va_end(args);
}

enum dqn_status dqn_size_mul(size_t a, size_t b, size_t *out) {
    if (__builtin_mul_overflow(a, b, out)) {
        return dqn_fail(DQN_ERR_MEMORY, "%zu times %zu bytes is more than this machine can address",
                        a, b);
    }
    return DQN_OK;
}

enum dqn_status dqn_alloc(void **out, size_t count, size_t size, const char *what) {
    size_t bytes = 0;
    *out = NULL;
    DQN_TRY(dqn_size_mul(count, size, &bytes));
    *out = calloc(bytes > 0 ? bytes : 1, 1);
    if (*out == NULL) {
        char text[32];
        return dqn_fail(DQN_ERR_MEMORY, "no memory for %s: %s were asked for", what,
                        dqn_format_bytes(text, sizeof text, bytes));
    }
    return DQN_OK;
}

double dqn_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *dqn_format_bytes(char *text, size_t size, uint64_t bytes) {
    static const char *const units[] = {"KB", "MB", "GB", "TB", "PB"};
    if (bytes < 1000) {
        snprintf(text, size, "%llu bytes", (unsigned long long)bytes);
        return text;
    }
    double value = (double)bytes / 1000.0;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < DQN_COUNT_OF(units)) {
        value /= 1000.0;
        unit++;
    }
    snprintf(text, size, "%.1f %s", value, units[unit]);
    return text;
}

const char *dqn_format_count(char *text, size_t size, uint64_t count) {
    char digits[32];
    const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    size_t at = 0;
    for (int i = 0; i < n && at + 1 < size; i++) {
        if (i > 0 && (n - i) % 3 == 0 && at + 2 < size) {
            text[at++] = ',';
        }
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}
