/* Slow model of the replay, written from its rules and not from its code: a deque of rows, draws by
 * a linear scan over exact integers of 128 bits, weights by their definition in long double, ranks
 * by a full sort. */
#ifndef DQN_TESTS_REF_REPLAY_MODEL_H
#define DQN_TESTS_REF_REPLAY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the ring ---- */

/* Serial numbers of the rows that a replay of `capacity` holds, oldest first. */
struct model_deque {
    size_t capacity;
    size_t n, room;
    struct model_entry {
        uint64_t serial;
        size_t slot;
    } * entry; /* [n] at the front, oldest first */
};

void model_deque_open(struct model_deque *d, size_t capacity);
void model_deque_close(struct model_deque *d);
/* A new row takes the next free slot, or the slot of the oldest row, which leaves. Returns it. */
size_t model_deque_push(struct model_deque *d, uint64_t serial);

/* ---- draws ---- */

struct model_spec {
    int kind; /* 0 uniform, 1 proportional, 2 rank */
    size_t batch;
    bool stratified;
    bool norm_buffer; /* largest weight of all rows becomes 1, not of the batch */
    double rank_alpha;
    double beta;
};

/* Draws a batch from rows 0 .. size - 1 with one 64-bit word a row of the batch. */
void model_draw(const struct model_spec *spec, const float *priorities, size_t size,
                const uint64_t *words, int64_t *index, long double *weight);

/* |td|^alpha + epsilon in [epsilon, ceiling]; NaN gives epsilon, infinity the ceiling. */
long double model_priority(double td, double alpha, double epsilon, double ceiling);
/* round(priority * 2^20), at least 1. */
uint64_t model_leaf(float priority);
/* Rows in order of falling priority, equal ones by row. */
void model_order(const float *priorities, size_t size, uint32_t *order);

#endif
