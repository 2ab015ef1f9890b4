/* Proportional draws: a binary segment tree over the fixed-point priorities. Its nodes are exact
 * integer sums, so the root is the sum of the leaves after any number of updates. */
#include "sampler_cpu.h"

static uint64_t *sums_of(const struct dqn_sampler *s, size_t k) {
    return (uint64_t *)s->sums->data + k * 2 * s->n_leaves;
}

static uint64_t *minima_of(const struct dqn_sampler *s, size_t k) {
    return s->minima != NULL ? (uint64_t *)s->minima->data + k * 2 * s->n_leaves : NULL;
}

/* An unfilled row is never the minimum. */
static uint64_t minimum_leaf(uint32_t leaf) {
    return leaf > 0 ? leaf : UINT64_MAX;
}

static void join_children(uint64_t *sums, uint64_t *minima, size_t node) {
    sums[node] = sums[2 * node] + sums[2 * node + 1];
    if (minima != NULL) {
        const uint64_t a = minima[2 * node], b = minima[2 * node + 1];
        minima[node] = a < b ? a : b;
    }
}

/* Level by level, so that neighbours of a sorted batch share their parents. */
static void set_group(struct dqn_sampler *s, size_t k, const float *priorities, const int64_t *rows,
                      size_t n) {
    uint64_t *sums = sums_of(s, k), *minima = minima_of(s, k);
    size_t node[DQN_SAMPLER_ROWS];
    for (size_t i = 0; i < n; i++) {
        const uint32_t leaf = dqn_priority_leaf(priorities[rows[i]]);
        node[i] = s->n_leaves + (size_t)rows[i];
        sums[node[i]] = leaf;
        if (minima != NULL) {
            minima[node[i]] = minimum_leaf(leaf);
        }
    }
    while (node[0] > 1) {
        size_t n_parents = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t parent = node[i] / 2;
            if (n_parents == 0 || node[n_parents - 1] != parent) {
                join_children(sums, minima, parent);
                node[n_parents++] = parent;
            }
        }
        n = n_parents;
    }
}

void dqn_tree_set_rows(struct dqn_sampler *s, size_t k, const float *priorities,
                       const int64_t *rows, size_t n) {
    for (size_t first = 0; first < n; first += DQN_SAMPLER_ROWS) {
        const size_t left = n - first;
        set_group(s, k, priorities, rows + first,
                  left < DQN_SAMPLER_ROWS ? left : DQN_SAMPLER_ROWS);
    }
}

void dqn_tree_set_range(struct dqn_sampler *s, size_t k, const float *priorities, size_t first,
                        size_t count) {
    if (count == 0) {
        return;
    }
    uint64_t *sums = sums_of(s, k), *minima = minima_of(s, k);
    for (size_t row = first; row < first + count; row++) {
        const uint32_t leaf = dqn_priority_leaf(priorities[row]);
        sums[s->n_leaves + row] = leaf;
        if (minima != NULL) {
            minima[s->n_leaves + row] = minimum_leaf(leaf);
        }
    }
    size_t low = s->n_leaves + first, high = s->n_leaves + first + count - 1;
    while (low > 1) {
        low /= 2;
        high /= 2;
        for (size_t node = low; node <= high; node++) {
            join_children(sums, minima, node);
        }
    }
}

uint64_t dqn_tree_total(const struct dqn_sampler *s, size_t k) {
    return sums_of(s, k)[1];
}

/* All descents take a level together: their loads do not wait for each other. */
void dqn_tree_find(const struct dqn_sampler *s, size_t k, size_t n, const uint64_t *place,
                   int64_t *row, uint64_t *mass) {
    const uint64_t *sums = sums_of(s, k);
    uint64_t left[DQN_SAMPLER_ROWS];
    size_t node[DQN_SAMPLER_ROWS];
    for (size_t i = 0; i < n; i++) {
        left[i] = place[i];
        node[i] = 1;
    }
    for (size_t width = 1; width < s->n_leaves; width *= 2) {
        for (size_t i = 0; i < n; i++) {
            const uint64_t sum = sums[2 * node[i]];
            const bool right = left[i] >= sum;
            left[i] -= right ? sum : 0;
            node[i] = 2 * node[i] + right;
        }
    }
    for (size_t i = 0; i < n; i++) {
        mass[i] = sums[node[i]];
        row[i] = (int64_t)(node[i] - s->n_leaves);
    }
}

uint64_t dqn_tree_minimum(const struct dqn_sampler *s, size_t k) {
    return minima_of(s, k)[1];
}
