/* Status names, error text, log, allocation, clock and the small number formats of messages. */
#include "base.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ERROR_TEXT_SIZE = 2048 };

static _Thread_local char error_text[ERROR_TEXT_SIZE];

/* The one switch of the log: set at start from --quiet. */
static atomic_bool log_quiet;

static const struct {
    const char *name;
    int exit_code;
} status_table[] = {
#define STATUS_ENTRY(name, code) {#name, code},
    DQN_STATUS_LIST(STATUS_ENTRY)
#undef STATUS_ENTRY
};

int dqn_status_exit_code(enum dqn_status status) {
    DQN_CHECK((size_t)status < DQN_COUNT_OF(status_table));
    return status_table[status].exit_code;
}

const char *dqn_status_name(enum dqn_status status) {
    if ((size_t)status >= DQN_COUNT_OF(status_table)) {
        return "DQN_STATUS_UNKNOWN";
    }
    return status_table[status].name;
}

/* Names of files and values come from anywhere: no control character of theirs reaches a terminal.
 * Line ends are our own. */
static void hide_controls(char *text) {
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        *text = (c < 0x20 && c != '\n') || c == 0x7f ? '?' : *text;
    }
}

enum dqn_status dqn_fail(enum dqn_status status, const char *format, ...) {
    /* The arguments may point into the current text. */
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hide_controls(text);
    memcpy(error_text, text, sizeof text);
    return status;
}

/* Cuts what does not fit. */
static void append(char text[ERROR_TEXT_SIZE], const char *more) {
    const size_t used = strlen(text);
    const size_t room = ERROR_TEXT_SIZE - 1 - used;
    const size_t length = strnlen(more, room);
    memcpy(text + used, more, length);
    text[used + length] = '\0';
}

enum dqn_status dqn_fail_prefix(enum dqn_status status, const char *format, ...) {
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    append(text, ": ");
    append(text, error_text);
    hide_controls(text);
    memcpy(error_text, text, sizeof text);
    return status;
}

const char *dqn_error_text(void) {
    return error_text;
}

_Noreturn void dqn_check_failed(const char *cond, const char *file, int line) {
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, cond);
    fflush(stderr);
    abort();
}

static FILE *info_stream; /* NULL: standard error */

void dqn_info_to(FILE *stream) {
    info_stream = stream;
}

void dqn_log_set_quiet(bool quiet) {
    atomic_store_explicit(&log_quiet, quiet, memory_order_relaxed);
}

/* One write a line, so that lines of several threads do not mix. */
static void write_line(FILE *stream, const char *prefix, const char *format, va_list args) {
    char line[ERROR_TEXT_SIZE];
    vsnprintf(line, sizeof line, format, args);
    hide_controls(line);
    fprintf(stream, "%s%s\n", prefix, line);
}

void dqn_info(const char *format, ...) {
    if (atomic_load_explicit(&log_quiet, memory_order_relaxed)) {
        return;
    }
    va_list args;
    va_start(args, format);
    write_line(info_stream != NULL ? info_stream : stderr, "", format, args);
    va_end(args);
}

void dqn_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    write_line(stderr, "warning: ", format, args);
    va_end(args);
}

enum dqn_status dqn_size_mul(size_t a, size_t b, size_t *out) {
    if (__builtin_mul_overflow(a, b, out)) {
        return dqn_fail(DQN_ERR_MEMORY, "%zu times %zu is more than memory can hold", a, b);
    }
    return DQN_OK;
}

enum dqn_status dqn_alloc(void **out, size_t count, size_t size, const char *what) {
    size_t bytes = 0;
    *out = NULL;
    if (dqn_size_mul(count, size, &bytes) != DQN_OK) {
        return dqn_fail_prefix(DQN_ERR_MEMORY, "%s", what);
    }
    *out = calloc(1, bytes > 0 ? bytes : 1);
    if (*out == NULL) {
        char text[32];
        return dqn_fail(DQN_ERR_MEMORY, "%s: no host memory for %s", what,
                        dqn_format_bytes(text, sizeof text, bytes));
    }
    return DQN_OK;
}

size_t dqn_utf8_length(const char *text, size_t left) {
    const unsigned char *t = (const unsigned char *)text;
    const size_t length = t[0] < 0x80   ? 1
                          : t[0] < 0xc2 ? 0
                          : t[0] < 0xe0 ? 2
                          : t[0] < 0xf0 ? 3
                          : t[0] < 0xf5 ? 4
                                        : 0;
    if (length > left) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((t[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool overlong = (t[0] == 0xe0 && t[1] < 0xa0) || (t[0] == 0xf0 && t[1] < 0x90);
    /* surrogates, and beyond U+10FFFF */
    const bool outside = (t[0] == 0xed && t[1] > 0x9f) || (t[0] == 0xf4 && t[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

bool dqn_text_is_plain(const char *text) {
    while (*text != '\0') {
        const size_t n = dqn_utf8_length(text, SIZE_MAX);
        const unsigned char first = (unsigned char)text[0];
        /* U+0080 to U+009F are controls too; in UTF-8 they are C2 and their own number. */
        const bool control =
            first < 0x20 || first == 0x7f || (first == 0xc2 && (unsigned char)text[1] < 0xa0);
        if (n == 0 || control) {
            return false;
        }
        text += n;
    }
    return true;
}

double dqn_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *dqn_format_bytes(char *text, size_t size, uint64_t bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(text, size, "%" PRIu64 " B", bytes);
        return text;
    }
    double value = (double)bytes;
    size_t unit = 0;
    /* 999.95 would print as 1000.0: it belongs to the next unit. */
    while (value >= 999.95 && unit + 1 < DQN_COUNT_OF(units)) {
        value /= 1000;
        unit++;
    }
    snprintf(text, size, "%.1f %s", value, units[unit]);
    return text;
}

const char *dqn_format_count(char *text, size_t size, uint64_t count) {
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t used = 0;
    for (int i = 0; i < n && used + 1 < size; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            text[used++] = ',';
            if (used + 1 >= size) {
                break;
            }
        }
        text[used++] = digits[i];
    }
    if (size > 0) {
        text[used] = '\0';
    }
    return text;
}

const char *dqn_format_length(char *text, size_t size, double seconds) {
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{86400, " day"}, {3600, " h"}, {60, " min"}, {1, " s"}};
    if (!(seconds >= 1.0 && seconds < 1e15) || seconds != (double)(uint64_t)seconds) {
        snprintf(text, size, "%g s", seconds);
        return text;
    }
    size_t u = 0;
    while ((uint64_t)seconds % units[u].seconds != 0) {
        u++;
    }
    const uint64_t n = (uint64_t)seconds / units[u].seconds;
    char count[32];
    snprintf(text, size, "%s%s%s", dqn_format_count(count, sizeof count, n), units[u].name,
             u == 0 ? dqn_plural(n) : "");
    return text;
}

const char *dqn_format_span(char *text, size_t size, double seconds) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400.0, "days"}, {3600.0, "h"}, {60.0, "min"}, {1.0, "s"},
                 {1e-3, "ms"},      {1e-6, "us"},  {1e-9, "ns"}};
    size_t u = 0;
    while (u + 1 < DQN_COUNT_OF(units) && !(seconds >= units[u].seconds)) {
        u++;
    }
    snprintf(text, size, "%.1f %s", seconds / units[u].seconds, units[u].name);
    return text;
}

const char *dqn_format_yearly(char *text, size_t size, double count) {
    if (count >= 9.995) {
        snprintf(text, size, "%.0f", count);
    } else {
        snprintf(text, size, "%.3g", count);
    }
    return text;
}

const char *dqn_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}
