/* Status codes, error text, log, checks and clocks: what every other file builds on.
 *
 * A function that can fail returns enum dqn_status and hands results through out-parameters. The
 * text of an error is set once, where the facts are known (dqn_fail), and travels up to main by
 * DQN_TRY. The text says what, which value, which limit, and what to do. */
#ifndef DQN_BASE_H
#define DQN_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Status, and the exit code that main gives for it. */
#define DQN_STATUS_LIST(X)                                                                         \
    X(DQN_OK, 0)                                                                                   \
    X(DQN_ERR_INTERNAL, 1)                                                                         \
    X(DQN_ERR_STATE, 1)         /* called at the wrong moment */                                   \
    X(DQN_ERR_MEMORY, 1)        /* host memory is used up */                                       \
    X(DQN_ERR_ENDLESS, 1)       /* an episode of an evaluation does not end */                     \
    X(DQN_ERR_CONFIG, 2)        /* usage or configuration */                                       \
    X(DQN_ERR_DATA, 3)          /* market data missing or bad */                                   \
    X(DQN_ERR_DEVICE, 4)        /* no usable device, or it failed */                               \
    X(DQN_ERR_DEVICE_MEMORY, 4) /* device memory is used up; other work may go on */               \
    X(DQN_ERR_REFUSED, 4)       /* a device refused a kernel, which did not run; other work may */ \
    X(DQN_ERR_DISK, 5)          /* reading or writing files */                                     \
    X(DQN_ERR_BUSY, 5)          /* another process holds the folder */                             \
    X(DQN_ERR_NONFINITE, 6)     /* training left the finite numbers */                             \
    X(DQN_ERR_CHECKPOINT, 7)    /* a checkpoint is damaged or does not fit */                      \
    X(DQN_ERR_STOPPED, 130) /* left off because a signal asked to; main gives 128 + its number */

enum dqn_status {
#define DQN_STATUS_ENUM(name, code) name,
    DQN_STATUS_LIST(DQN_STATUS_ENUM)
#undef DQN_STATUS_ENUM
};

/* The process exit code of a status (semantics: docs/config.md). */
int dqn_status_exit_code(enum dqn_status status);
const char *dqn_status_name(enum dqn_status status);

/* Sets this thread's error text and returns `status`. */
enum dqn_status dqn_fail(enum dqn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts "prefix: " before this thread's error text and returns `status`. */
enum dqn_status dqn_fail_prefix(enum dqn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* This thread's latest error text; "" when there was none. Valid until the next dqn_fail. */
const char *dqn_error_text(void);

#define DQN_TRY(call)                                                                              \
    do {                                                                                           \
        const enum dqn_status dqn_try_status = (call);                                             \
        if (dqn_try_status != DQN_OK) {                                                            \
            return dqn_try_status;                                                                 \
        }                                                                                          \
    } while (0)

/* Same inside a function with an `enum dqn_status status` and a label `done`. */
#define DQN_TRY_GOTO(call)                                                                         \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != DQN_OK) {                                                                    \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

/* A broken invariant of the program itself: reports the place and aborts, in every build. */
#define DQN_CHECK(cond)                                                                            \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            dqn_check_failed(#cond, __FILE__, __LINE__);                                           \
        }                                                                                          \
    } while (0)
__attribute__((noreturn)) void dqn_check_failed(const char *cond, const char *file, int line);

/* Log lines on standard error. `quiet` keeps warnings only. */
void dqn_log_set_quiet(bool quiet);
void dqn_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Where those lines are the program's answer: they go to `stream`. Before any thread is started. */
void dqn_info_to(FILE *stream);
void dqn_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocation with the request in the error text; zero-filled. */
enum dqn_status dqn_alloc(void **out, size_t count, size_t size, const char *what);
/* a * b, or DQN_ERR_MEMORY when it does not fit in size_t. */
enum dqn_status dqn_size_mul(size_t a, size_t b, size_t *out);

/* Monotonic seconds. */
double dqn_clock_s(void);

/* "47.2 MB", "1.3 GB" into a caller's buffer; returns it. */
const char *dqn_format_bytes(char *text, size_t size, uint64_t bytes);
/* "1,234,567" into a caller's buffer; returns it. */
const char *dqn_format_count(char *text, size_t size, uint64_t count);
/* A length of time in the largest unit that makes a whole number: "31 days", "4 h", "15 min",
 * "2,629,746 s", "0.5 s" into a caller's buffer; returns it. */
const char *dqn_format_length(char *text, size_t size, double seconds);
/* A measured length of time to a tenth, in the largest unit of which there is one: "12.5 days",
 * "3.0 h", "40.0 ms", down to "0.3 ns", into a caller's buffer; returns it. */
const char *dqn_format_span(char *text, size_t size, double seconds);
/* How many of something there are a year: "25054", and below ten "5.22" or "0.4", into a caller's
 * buffer; returns it. */
const char *dqn_format_yearly(char *text, size_t size, double count);
/* "s", or "" for 1: "%zu fold%s". */
const char *dqn_plural(uint64_t n);

/* Bytes of the UTF-8 character at `text`, 1 to 4; 0 when it is none (RFC 3629, section 4). A NUL is
 * a character of one byte.
 *   left  bytes there are, 1 or more; SIZE_MAX where a NUL ends the text, which is not read past */
size_t dqn_utf8_length(const char *text, size_t left);

/* Whether a text is UTF-8 without control characters: fit for names of files and for terminals. */
bool dqn_text_is_plain(const char *text);

#define DQN_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
