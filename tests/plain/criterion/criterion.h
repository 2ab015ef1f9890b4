/* The part of Criterion that the suites use, without Criterion: for builds with DQN_PLAIN_TESTS=ON,
 * where this header stands before the library's. Criterion maps an arena at an address of its own
 * choice that each test's process inherits; under the thread sanitizer that address is taken
 * ("Could not initialize inheritable arena"), with and without address randomisation. Here each
 * test runs in a plain child process. */
#ifndef DQN_TESTS_PLAIN_CRITERION_H
#define DQN_TESTS_PLAIN_CRITERION_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may stand behind the name of a test or suite. */
struct plain_options {
    int at_least_one; /* lets a test without options have an initializer */
    void (*init)(void);
    void (*fini)(void);
    int signal;     /* that the test shall die of; 0 = it ends by itself */
    int exit_code;  /* with this one */
    double timeout; /* seconds; 0 = none */
    bool disabled;
    const char *description;
};

/* Adds a test, or with run NULL the options of a suite. */
void plain_register(const char *suite, const char *name, void (*run)(void),
                    struct plain_options options);
/* Prints a message with its place; ends the test when it is fatal. */
void plain_failed(bool fatal, const char *file, int line, const char *what, const char *format,
                  ...);
void plain_log(const char *kind, const char *format, ...);
__attribute__((noreturn)) void plain_skip(const char *format, ...);

#define Test(suite, name, ...)                                                                     \
    static void plain_##suite##_##name(void);                                                      \
    __attribute__((constructor)) static void plain_add_##suite##_##name(void) {                    \
        plain_register(#suite, #name, plain_##suite##_##name,                                      \
                       (struct plain_options){.at_least_one = 1, __VA_ARGS__});                    \
    }                                                                                              \
    static void plain_##suite##_##name(void)

#define TestSuite(suite, ...)                                                                      \
    __attribute__((constructor)) static void plain_suite_##suite(void) {                           \
        plain_register(#suite, NULL, NULL,                                                         \
                       (struct plain_options){.at_least_one = 1, __VA_ARGS__});                    \
    }                                                                                              \
    struct plain_options

#define PLAIN_JUDGE(fatal, good, what, ...)                                                        \
    do {                                                                                           \
        if (!(good)) {                                                                             \
            plain_failed(fatal, __FILE__, __LINE__, what, "" __VA_ARGS__);                         \
        }                                                                                          \
    } while (0)

#define PLAIN_TEXT(a, op, b) #a " " #op " " #b
#define PLAIN_OP(fatal, a, op, b, ...)                                                             \
    PLAIN_JUDGE(fatal, (a)op(b), PLAIN_TEXT(a, op, b), __VA_ARGS__)

#define cr_assert(a, ...) PLAIN_JUDGE(true, a, #a, __VA_ARGS__)
#define cr_expect(a, ...) PLAIN_JUDGE(false, a, #a, __VA_ARGS__)
#define cr_assert_not(a, ...) PLAIN_JUDGE(true, !(a), "not " #a, __VA_ARGS__)
#define cr_expect_not(a, ...) PLAIN_JUDGE(false, !(a), "not " #a, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) PLAIN_OP(true, a, ==, b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) PLAIN_OP(false, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) PLAIN_OP(true, a, !=, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) PLAIN_OP(false, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) PLAIN_OP(true, a, <, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) PLAIN_OP(false, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) PLAIN_OP(true, a, <=, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) PLAIN_OP(false, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) PLAIN_OP(true, a, >, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) PLAIN_OP(false, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) PLAIN_OP(true, a, >=, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) PLAIN_OP(false, a, >=, b, __VA_ARGS__)
#define cr_assert_null(a, ...) PLAIN_OP(true, a, ==, NULL, __VA_ARGS__)
#define cr_expect_null(a, ...) PLAIN_OP(false, a, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...) PLAIN_OP(true, a, !=, NULL, __VA_ARGS__)
#define cr_expect_not_null(a, ...) PLAIN_OP(false, a, !=, NULL, __VA_ARGS__)

#define PLAIN_STR(fatal, a, op, b, ...)                                                            \
    PLAIN_JUDGE(fatal, strcmp(a, b) op 0, PLAIN_TEXT(a, op, b), __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) PLAIN_STR(true, a, ==, b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) PLAIN_STR(false, a, ==, b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) PLAIN_STR(true, a, !=, b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) PLAIN_STR(false, a, !=, b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) PLAIN_STR(true, a, ==, "", __VA_ARGS__)
#define cr_expect_str_empty(a, ...) PLAIN_STR(false, a, ==, "", __VA_ARGS__)

#define PLAIN_NEAR(fatal, a, b, e, ...)                                                            \
    PLAIN_JUDGE(fatal, fabs((double)(a) - (double)(b)) <= (double)(e), #a " near " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...) PLAIN_NEAR(true, a, b, e, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...) PLAIN_NEAR(false, a, b, e, __VA_ARGS__)

#define PLAIN_BYTES(fatal, a, b, n, ...)                                                           \
    PLAIN_JUDGE(fatal, memcmp(a, b, n) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) PLAIN_BYTES(true, a, b, n, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) PLAIN_BYTES(false, a, b, n, __VA_ARGS__)

#define cr_log_info(...) plain_log("info", __VA_ARGS__)
#define cr_log_warn(...) plain_log("warn", __VA_ARGS__)
#define cr_log_error(...) plain_log("error", __VA_ARGS__)
#define cr_skip_test(...) plain_skip("" __VA_ARGS__)
#define cr_skip(...) plain_skip("" __VA_ARGS__)

#endif
