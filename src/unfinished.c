#include "unfinished.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Never freed: a handler on another thread may be reading it. */
static struct {
    atomic_bool used;
    char path[4096];
} files[DQN_UNFINISHED_MAX];

static atomic_bool held;
static atomic_int waiting; /* a signal that came while held; 0 = none */

static void end_by(int number) {
    for (size_t i = 0; i < DQN_UNFINISHED_MAX; i++) {
        if (atomic_load(&files[i].used)) {
            unlink(files[i].path);
        }
    }
    _exit(128 + number);
}

static void on_signal(int number) {
    if (atomic_load(&held)) {
        atomic_store(&waiting, number);
    } else {
        end_by(number);
    }
}

void dqn_unfinished_watch(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < DQN_COUNT_OF(numbers); i++) {
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(numbers[i], &action, NULL);
        }
    }
}

enum dqn_status dqn_unfinished_add(const char *path) {
    const size_t length = strlen(path);
    for (size_t i = 0; i < DQN_UNFINISHED_MAX && length < sizeof files[i].path; i++) {
        if (!atomic_load(&files[i].used)) {
            memcpy(files[i].path, path, length + 1);
            atomic_store(&files[i].used, true);
            return DQN_OK;
        }
    }
    return dqn_fail(DQN_ERR_INTERNAL, "%s: too many unfinished files, or too long a path", path);
}

void dqn_unfinished_done(const char *path) {
    for (size_t i = 0; i < DQN_UNFINISHED_MAX; i++) {
        if (atomic_load(&files[i].used) && strcmp(files[i].path, path) == 0) {
            atomic_store(&files[i].used, false);
        }
    }
}

void dqn_unfinished_hold(void) {
    atomic_store(&held, true);
}

void dqn_unfinished_release(void) {
    atomic_store(&held, false);
    const int number = atomic_exchange(&waiting, 0);
    if (number != 0) {
        end_by(number);
    }
}
