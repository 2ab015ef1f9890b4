/* Independent pieces on threads: each once, and the error that one thread alone would have met. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "parallel.h"

enum { PIECES = 1000 };

struct pieces {
    atomic_int runs[PIECES];
    size_t bad; /* pieces that it divides fail; 0 = none */
};

static enum dqn_status run_piece(void *context, size_t i) {
    struct pieces *p = context;
    atomic_fetch_add(&p->runs[i], 1);
    return p->bad > 0 && i > 0 && i % p->bad == 0 ? dqn_fail(DQN_ERR_DATA, "piece %zu is bad", i)
                                                  : DQN_OK;
}

static const size_t threads[] = {0, 1, 2, 7, PIECES};

Test(parallel, every_piece_runs_once) {
    for (size_t t = 0; t < DQN_COUNT_OF(threads); t++) {
        for (size_t n = 0; n <= PIECES; n += n < 3 ? 1 : PIECES - 3) {
            struct pieces p = {.bad = 0};
            cr_assert_eq(dqn_parallel(threads[t], n, run_piece, &p), DQN_OK);
            for (size_t i = 0; i < PIECES; i++) {
                cr_assert_eq(p.runs[i], i < n, "%zu threads, %zu pieces: piece %zu ran %d times",
                             threads[t], n, i, p.runs[i]);
            }
        }
    }
}

Test(parallel, the_first_error_is_the_one_that_is_told) {
    for (size_t t = 0; t < DQN_COUNT_OF(threads); t++) {
        struct pieces p = {.bad = 3};
        cr_assert_eq(dqn_parallel(threads[t], PIECES, run_piece, &p), DQN_ERR_DATA);
        cr_expect_str_eq(dqn_error_text(), "piece 3 is bad");
        for (size_t i = 0; i < 3; i++) {
            cr_expect_eq(p.runs[i], 1, "%zu threads: piece %zu", threads[t], i);
        }
    }
}
