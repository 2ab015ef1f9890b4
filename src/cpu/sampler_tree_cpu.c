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

void dqn_tree_set(struct dqn_sampler *s, size_t k, size_t row, uint32_t leaf) {
    uint64_t *sums = sums_of(s, k), *minima = minima_of(s, k);
    size_t node = s->n_leaves + row;
    sums[node] = leaf;
    if (minima != NULL) {
        minima[node] = minimum_leaf(leaf);
    }
    for (node /= 2; node >= 1; node /= 2) {
        join_children(sums, minima, node);
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

size_t dqn_tree_find(const struct dqn_sampler *s, size_t k, uint64_t place, uint64_t *mass) {
    const uint64_t *sums = sums_of(s, k);
    size_t node = 1;
    while (node < s->n_leaves) {
        node *= 2;
        if (place >= sums[node]) {
            place -= sums[node];
            node++;
        }
    }
    *mass = sums[node];
    return node - s->n_leaves;
}

uint64_t dqn_tree_minimum(const struct dqn_sampler *s, size_t k) {
    return minima_of(s, k)[1];
}
