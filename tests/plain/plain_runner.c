/* Runs the tests that registered themselves, each in a child process:
 *     test_x [SUITE/NAME]...
 * Exit status 1 when one failed. */
#include <errno.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "criterion/criterion.h"

enum { TESTS_MAX = 256, SKIPPED = 77, FAILED = 1 };

struct test {
    const char *suite, *name;
    void (*run)(void);
    struct plain_options options;
};

static struct test tests[TESTS_MAX], suites[TESTS_MAX];
static size_t n_tests, n_suites;
static bool expectation_failed;
static const struct test *running;

void plain_register(const char *suite, const char *name, void (*run)(void),
                    struct plain_options options) {
    const struct test test = {suite, name, run, options};
    if (n_tests == TESTS_MAX || n_suites == TESTS_MAX) {
        abort();
    }
    if (run == NULL) {
        suites[n_suites++] = test;
    } else {
        tests[n_tests++] = test;
    }
}

static void print_line(const char *mark, const char *format, va_list values) {
    fprintf(stderr, "[%s] %s/%s: ", mark, running->suite, running->name);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
}

void plain_failed(bool fatal, const char *file, int line, const char *what, const char *format,
                  ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    print_line("FAIL", format, values);
    va_end(values);
    if (fatal) {
        fflush(NULL);
        _exit(FAILED);
    }
    expectation_failed = true;
}

void plain_log(const char *kind, const char *format, ...) {
    va_list values;
    va_start(values, format);
    print_line(kind, format, values);
    va_end(values);
}

void plain_skip(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "[SKIP] ");
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    fflush(NULL);
    _exit(SKIPPED);
}

static const struct plain_options *suite_options(const char *suite) {
    for (size_t i = 0; i < n_suites; i++) {
        if (strcmp(suites[i].suite, suite) == 0) {
            return &suites[i].options;
        }
    }
    return NULL;
}

static void call(void (*function)(void)) {
    if (function != NULL) {
        function();
    }
}

/* exit, not _exit: the sanitizer reports, and changes the exit status, on the way out. */
static void run_here(const struct test *test) {
    const struct plain_options *suite = suite_options(test->suite);
    if (test->options.timeout > 0) {
        alarm((unsigned)ceil(test->options.timeout));
    }
    if (suite != NULL) {
        call(suite->init);
    }
    call(test->options.init);
    test->run();
    call(test->options.fini);
    if (suite != NULL) {
        call(suite->fini);
    }
    fflush(NULL);
    exit(expectation_failed ? FAILED : 0);
}

/* Whether it ended as it should. */
static bool run_in_child(const struct test *test) {
    fflush(NULL);
    running = test;
    const pid_t child = fork();
    if (child == 0) {
        run_here(test);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const struct plain_options *o = &test->options;
    const bool signalled = WIFSIGNALED(status);
    const bool good =
        child > 0 && (signalled ? WTERMSIG(status) == o->signal
                                : o->signal == 0 && (WEXITSTATUS(status) == o->exit_code ||
                                                     WEXITSTATUS(status) == SKIPPED));
    if (!good) {
        fprintf(stderr, "[FAIL] %s/%s: %s %d\n", test->suite, test->name,
                signalled ? "signal" : "exit status",
                signalled ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return good;
}

static bool is_wanted(const struct test *test, int argc, char **argv) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return argc < 2 && !test->options.disabled;
}

int main(int argc, char **argv) {
    size_t n = 0, n_failed = 0;
    for (size_t i = 0; i < n_tests; i++) {
        if (is_wanted(&tests[i], argc, argv)) {
            n++;
            n_failed += !run_in_child(&tests[i]);
        }
    }
    fprintf(stderr, "tested: %zu, failing: %zu\n", n, n_failed);
    return n == 0 || n_failed > 0;
}
