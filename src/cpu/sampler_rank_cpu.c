/* Rank-based draws: the rows in order of priority. Few priorities change between two sorts, so the
 * order is not sorted anew: the changed rows are taken out, sorted, and merged with the rest, which
 * gives what a full sort gives. Equal priorities lie in order of rows. */
#include <stdlib.h>
#include <string.h>

#include "sampler_cpu.h"

static uint32_t *list_of(const struct dqn_buffer *buffer, const struct dqn_sampler *s, size_t k) {
    return (uint32_t *)buffer->data + k * s->spec.capacity;
}

static uint8_t *stale_of(const struct dqn_sampler *s, size_t k) {
    return (uint8_t *)s->stale->data + k * s->spec.capacity;
}

void dqn_rank_mark(struct dqn_sampler *s, size_t k, size_t row) {
    uint8_t *stale = stale_of(s, k);
    if (stale[row] == 0) {
        uint64_t *n = (uint64_t *)s->n_changed->data + k;
        stale[row] = 1;
        list_of(s->changed, s, k)[(*n)++] = (uint32_t)row;
    }
}

static bool comes_before(const float *priorities, uint32_t a, uint32_t b) {
    return priorities[a] > priorities[b] || (priorities[a] == priorities[b] && a < b);
}

/* Sorts rows[0 .. n) by merging runs, into rows; spare holds as many. */
static void sort_rows(uint32_t *rows, uint32_t *spare, size_t n, const float *priorities) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left < n; left += 2 * width) {
            const size_t middle = left + width < n ? left + width : n;
            const size_t right = left + 2 * width < n ? left + 2 * width : n;
            size_t i = left, j = middle;
            for (size_t to = left; to < right; to++) {
                const bool take_left =
                    j == right || (i < middle && !comes_before(priorities, rows[j], rows[i]));
                spare[to] = take_left ? rows[i++] : rows[j++];
            }
        }
        memcpy(rows, spare, n * sizeof *rows);
    }
}

/* The rows of the order that did not change, in order, to the front of `out`; their number. */
static size_t keep_unchanged(const struct dqn_sampler *s, size_t k, uint32_t *out) {
    const uint32_t *order = list_of(s->order, s, k);
    const uint8_t *stale = stale_of(s, k);
    const size_t ranked = (size_t)((uint64_t *)s->ranked->data)[k];
    size_t n = 0;
    for (size_t i = 0; i < ranked; i++) {
        if (stale[order[i]] == 0) {
            out[n++] = order[i];
        }
    }
    return n;
}

static void merge_changed(struct dqn_sampler *s, size_t k, const float *priorities) {
    uint32_t *order = list_of(s->order, s, k), *kept = list_of(s->scratch, s, k);
    uint32_t *changed = list_of(s->changed, s, k);
    uint64_t *n_changed = (uint64_t *)s->n_changed->data + k;
    const size_t c = (size_t)*n_changed, n = keep_unchanged(s, k, kept);
    sort_rows(changed, order, c, priorities); /* the order's place is free until the merge */
    for (size_t to = 0, i = 0, j = 0; to < n + c; to++) {
        const bool take_kept = j == c || (i < n && comes_before(priorities, kept[i], changed[j]));
        order[to] = take_kept ? kept[i++] : changed[j++];
    }
    for (size_t i = 0; i < c; i++) {
        stale_of(s, k)[changed[i]] = 0;
    }
    *n_changed = 0;
    ((uint64_t *)s->ranked->data)[k] = n + c;
}

void dqn_rank_refresh(struct dqn_sampler *s, size_t k, const float *priorities, size_t size,
                      uint64_t draw) {
    const uint64_t ranked = ((uint64_t *)s->ranked->data)[k];
    if (ranked == 0 || draw % s->spec.rank_interval == 0) {
        merge_changed(s, k, priorities);
        DQN_CHECK(((uint64_t *)s->ranked->data)[k] == size);
    }
}
