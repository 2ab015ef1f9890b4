#include "crash_guard.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
static struct sigaction before[DQN_COUNT_OF(numbers)];
static char last_word[2048];
static size_t last_word_bytes;
static int exit_code;

static void on_crash(int number) {
    (void)number;
    const ssize_t written = write(STDERR_FILENO, last_word, last_word_bytes);
    (void)written;
    _exit(exit_code);
}

void dqn_crash_guard_begin(enum dqn_status status, const char *text) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    sigemptyset(&action.sa_mask);
    snprintf(last_word, sizeof last_word, "%s\n", text);
    last_word_bytes = strlen(last_word);
    exit_code = dqn_status_exit_code(status);
    for (size_t i = 0; i < DQN_COUNT_OF(numbers); i++) {
        sigaction(numbers[i], &action, &before[i]);
    }
}

void dqn_crash_guard_end(void) {
    for (size_t i = 0; i < DQN_COUNT_OF(numbers); i++) {
        sigaction(numbers[i], &before[i], NULL);
    }
}
