#include "replay_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* ---- the ring ---- */

void model_deque_open(struct model_deque *d, size_t capacity) {
    *d = (struct model_deque){.capacity = capacity};
    d->entry = calloc(capacity, sizeof *d->entry);
}

void model_deque_close(struct model_deque *d) {
    free(d->entry);
}

size_t model_deque_push(struct model_deque *d, uint64_t serial) {
    size_t slot = d->n;
    if (d->n == d->capacity) {
        slot = d->entry[0].slot;
        memmove(d->entry, d->entry + 1, (d->n - 1) * sizeof *d->entry);
        d->n--;
    }
    d->entry[d->n].serial = serial;
    d->entry[d->n].slot = slot;
    d->n++;
    return slot;
}

/* ---- priorities ---- */

long double model_priority(double td, double alpha, double epsilon, double ceiling) {
    if (isnan(td)) {
        return epsilon;
    }
    if (isinf(td)) {
        return ceiling;
    }
    const long double raw = powl(fabsl((long double)td), alpha) + (long double)epsilon;
    return raw > ceiling ? ceiling : raw < epsilon ? epsilon : raw;
}

uint64_t model_leaf(float priority) {
    const long double scaled = rintl((long double)priority * 1048576.0L);
    return scaled < 1.0L ? 1 : (uint64_t)scaled;
}

static const float *sort_priorities;

static int by_priority(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sort_priorities[x] != sort_priorities[y]) {
        return sort_priorities[x] > sort_priorities[y] ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

void model_order(const float *priorities, size_t size, uint32_t *order) {
    for (size_t i = 0; i < size; i++) {
        order[i] = (uint32_t)i;
    }
    sort_priorities = priorities;
    qsort(order, size, sizeof *order, by_priority);
}

/* ---- draws ---- */

/* Mass of each place, in the order that draws scan: rows, or ranks. */
static void fill_masses(const struct model_spec *spec, const float *priorities, size_t size,
                        wide *mass) {
    for (size_t i = 0; i < size; i++) {
        if (spec->kind == 0) {
            mass[i] = 1;
        } else if (spec->kind == 1) {
            mass[i] = model_leaf(priorities[i]);
        } else {
            mass[i] =
                (wide)rintl(powl((long double)(i + 1), -(long double)spec->rank_alpha) * 0x1p40L);
        }
    }
}

static size_t scan(const wide *mass, size_t size, wide target) {
    wide sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += mass[i];
        if (sum > target) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* (N P)^-beta */
static long double raw_weight(wide mass, wide total, size_t size, double beta) {
    return powl((long double)size * (long double)mass / (long double)total, -(long double)beta);
}

void model_draw(const struct model_spec *spec, const float *priorities, size_t size,
                const uint64_t *words, int64_t *index, long double *weight) {
    wide *mass = malloc(size * sizeof *mass), total = 0;
    uint32_t *order = malloc(size * sizeof *order);
    fill_masses(spec, priorities, size, mass);
    if (spec->kind == 2) {
        model_order(priorities, size, order);
    }
    for (size_t i = 0; i < size; i++) {
        total += mass[i];
    }
    long double largest = 0;
    for (size_t i = 0; spec->norm_buffer && i < size; i++) {
        largest = fmaxl(largest, raw_weight(mass[i], total, size, spec->beta));
    }
    for (size_t b = 0; b < spec->batch; b++) {
        const wide low = spec->stratified ? total * b / spec->batch : 0;
        const wide high = spec->stratified ? total * (b + 1) / spec->batch : total;
        const size_t place = scan(mass, size, low + (((high - low) * words[b]) >> 64));
        index[b] = spec->kind == 2 ? (int64_t)order[place] : (int64_t)place;
        weight[b] = raw_weight(mass[place], total, size, spec->beta);
        largest = fmaxl(largest, spec->norm_buffer ? 0 : weight[b]);
    }
    for (size_t b = 0; b < spec->batch; b++) {
        weight[b] /= largest;
    }
    free(mass);
    free(order);
}
