/* What draws are judged by: random priorities, exact sums over their leaves and a search in them,
 * and Pearson's statistic. */
#ifndef DQN_TESTS_CUDA_DRAW_REFERENCE_H
#define DQN_TESTS_CUDA_DRAW_REFERENCE_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "shared/priority.h"

/* A cheap reproducible 64-bit hash of two numbers (Steele et al. 2014, SplitMix64's finaliser). */
static inline uint64_t hash_word(uint64_t sequence, uint64_t i) {
    uint64_t z = sequence * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline double hash_unit(uint64_t sequence, uint64_t i) {
    return (double)(hash_word(sequence, i) >> 11) * 0x1p-53;
}

/* [K, N] priorities over four orders of magnitude in the first `size` rows of each agent, 0 in the
 * others; the caller frees them. */
static inline float *random_priorities(uint64_t sequence, size_t n_agents, size_t capacity,
                                       size_t size) {
    float *priorities = calloc(n_agents * capacity, sizeof *priorities);
    for (size_t k = 0; k < n_agents; k++) {
        for (size_t i = 0; i < size; i++) {
            const double u = hash_unit(sequence + k, i);
            priorities[k * capacity + i] = (float)(1e-3 + 8 * u * u * u * u);
        }
    }
    return priorities;
}

/* Makes n masses probabilities. */
static inline void normalise(double *p, size_t n) {
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        total += p[i];
    }
    for (size_t i = 0; i < n; i++) {
        p[i] /= total;
    }
}

/* Inclusive sums of the leaves of n priorities. */
static inline void sum_leaves(const float *priorities, uint64_t *sums, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += priorities[i] > 0.0f ? dqn_priority_leaf(priorities[i]) : 0;
        sums[i] = sum;
    }
}

/* What row b of a batch looks for by its random word, in 128-bit arithmetic. */
static inline uint64_t reference_place(uint64_t word, uint64_t total, uint64_t b, uint64_t batch,
                                       bool stratified) {
    __extension__ typedef unsigned __int128 wide;
    const uint64_t low = stratified ? (uint64_t)((wide)total * b / batch) : 0;
    const uint64_t high = stratified ? (uint64_t)((wide)total * (b + 1) / batch) : total;
    return low + (uint64_t)(((wide)word * (high - low)) >> 64);
}

/* The first of n rows whose sum exceeds the place. */
static inline size_t reference_row(const uint64_t *sums, size_t n, uint64_t place) {
    size_t low = 0, high = n - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sums[middle] > place) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* A statistic that is chi-square with `df` degrees of freedom, as a normal deviate (Wilson and
 * Hilferty 1931). */
static inline double chi_square_as_normal(double chi, double df) {
    const double spread = 2 / (9 * df);
    return (cbrt(chi / df) - (1 - spread)) / sqrt(spread);
}

/* Pearson's statistic of counts [n] against probabilities p [n], as a normal deviate. Neighbouring
 * rows are put together until 10 draws are expected. */
static inline double chi_square_deviate(const uint64_t *counts, const double *p, size_t n,
                                        double draws) {
    double chi = 0, cells = 0, expected = 0, seen = 0;
    for (size_t i = 0; i < n; i++) {
        expected += p[i] * draws;
        seen += (double)counts[i];
        if (expected >= 10) {
            chi += (seen - expected) * (seen - expected) / expected;
            cells++;
            expected = seen = 0;
        }
    }
    return chi_square_as_normal(chi, cells - 1);
}

/* Adds each of n rows drawn to counts [size]; a row beyond them fails. */
static inline void add_counts(const int64_t *index, size_t n, uint64_t *counts, size_t size) {
    size_t b = 0;
    while (b < n && index[b] >= 0 && (uint64_t)index[b] < size) {
        counts[index[b++]]++;
    }
    cr_assert_eq(b, n, "row %lld of %zu filled ones", b < n ? (long long)index[b] : -1, size);
}

#endif
