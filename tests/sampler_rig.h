/* A CPU sampler with its inputs, for the tests of draws and priorities. */
#ifndef DQN_TESTS_SAMPLER_RIG_H
#define DQN_TESTS_SAMPLER_RIG_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/sampler_cpu.h"
#include "ref/replay_model.h"
#include "shared/schedule.h"
#include "status_checks.h"

struct rig {
    struct dqn_device device;
    struct dqn_queue *q;
    struct dqn_arena *arena;
    struct dqn_sampler *sampler;
    struct dqn_sampler_spec spec;
    struct dqn_agent *agents;      /* [K] */
    struct dqn_counters *counters; /* [K] */
    struct dqn_ring ring;
    float *priorities, *seen; /* [K, N], [K] */
    uint32_t *ok;             /* [K] */
    uint64_t *words;          /* [K, B] */
    int64_t *index;           /* [K, B] */
    float *weight, *td;       /* [K, B] */
};

static inline void *rig_zeros(size_t count, size_t size) {
    void *data = calloc(count, size);
    cr_assert_not_null(data);
    return data;
}

/* The i-th word of a named sequence. */
static inline uint64_t rig_word(uint64_t sequence, uint64_t i) {
    return dqn_rng_u64(dqn_rng_block(20240607, sequence, i), 0);
}

static inline double rig_unit(uint64_t sequence, uint64_t i) {
    return dqn_rng_unit(rig_word(sequence, i));
}

static inline void rig_open_on(struct rig *r, const struct dqn_sampler_spec *spec, int threads,
                               bool late) {
    const struct dqn_device_options options = {.threads = threads, .late_queue = late};
    const struct dqn_backend *cpu = &dqn_cpu_backend;
    const size_t k = spec->n_agents, kb = k * spec->batch;
    *r = (struct rig){.spec = *spec};
    OK(cpu->memory->open(&r->device, &options));
    OK(cpu->queue->create(&r->device, &r->q));
    OK(dqn_arena_create(&r->arena));
    OK(cpu->sampler->create(&r->device, r->arena, spec, &r->sampler));
    OK(dqn_arena_commit(r->arena, NULL));
    OK(cpu->sampler->prepare(r->sampler, r->q));
    OK(cpu->queue->wait(r->q));
    r->agents = rig_zeros(k, sizeof *r->agents);
    r->counters = rig_zeros(k, sizeof *r->counters);
    r->priorities = rig_zeros(k * spec->capacity, sizeof(float));
    r->seen = rig_zeros(k, sizeof(float));
    r->ok = rig_zeros(k, sizeof *r->ok);
    r->words = rig_zeros(kb, sizeof *r->words);
    r->index = rig_zeros(kb, sizeof *r->index);
    r->weight = rig_zeros(kb, sizeof(float));
    r->td = rig_zeros(kb, sizeof(float));
    for (size_t i = 0; i < k; i++) {
        r->agents[i] = (struct dqn_agent){.seed = 7 + i,
                                          .alpha = 0.6,
                                          .priority_epsilon = 1e-3,
                                          .priority_max = 4095,
                                          .beta_start = 0.4,
                                          .beta_end = 0.4};
        r->seen[i] = dqn_priority_start(&r->agents[i]);
        r->ok[i] = 1;
    }
}

static inline void rig_open(struct rig *r, const struct dqn_sampler_spec *spec) {
    rig_open_on(r, spec, 1, false);
}

static inline void rig_wait(struct rig *r) {
    OK(dqn_cpu_backend.queue->wait(r->q));
}

static inline void rig_close(struct rig *r) {
    dqn_cpu_backend.sampler->destroy(r->sampler);
    dqn_arena_destroy(r->arena);
    dqn_cpu_backend.queue->destroy(r->q);
    dqn_cpu_backend.memory->close(&r->device);
    void *const data[] = {r->agents, r->counters, r->priorities, r->seen, r->ok,
                          r->words,  r->index,    r->weight,     r->td};
    for (size_t i = 0; i < DQN_COUNT_OF(data); i++) {
        free(data[i]);
    }
}

/* New rows get the running maximum, as the replay's insertion gives it. */
static inline void rig_insert(struct rig *r, size_t count) {
    for (size_t k = 0; k < r->spec.n_agents; k++) {
        for (size_t i = 0; i < count; i++) {
            r->priorities[k * r->spec.capacity + (r->ring.cursor + i) % r->spec.capacity] =
                r->seen[k];
        }
    }
    const struct dqn_inserted_args args = {
        .sampler = r->sampler, .count = count, .ring = &r->ring, .priorities = r->priorities};
    OK(dqn_cpu_backend.sampler->inserted(r->q, &args));
    rig_wait(r);
}

/* Takes the priorities of rows [0, size) as they stand, as after a load. */
static inline void rig_load(struct rig *r, size_t size) {
    r->ring = (struct dqn_ring){.cursor = size % r->spec.capacity, .size = size};
    const struct dqn_rebuild_args args = {
        .sampler = r->sampler, .ring = &r->ring, .priorities = r->priorities};
    OK(dqn_cpu_backend.sampler->rebuild(r->q, &args));
    rig_wait(r);
}

static inline enum dqn_status rig_try_draw(struct rig *r, bool use_words) {
    const struct dqn_draw_args args = {.sampler = r->sampler,
                                       .agents = r->agents,
                                       .counters = r->counters,
                                       .ring = &r->ring,
                                       .priorities = r->priorities,
                                       .words = use_words ? r->words : NULL,
                                       .index = r->index,
                                       .weight = r->weight};
    DQN_TRY(dqn_cpu_backend.sampler->draw(r->q, &args));
    return dqn_cpu_backend.queue->wait(r->q);
}

static inline void rig_draw(struct rig *r, bool use_words) {
    OK(rig_try_draw(r, use_words));
}

static inline void rig_update(struct rig *r, size_t batch) {
    const struct dqn_priority_args args = {.sampler = r->sampler,
                                           .batch = batch,
                                           .agents = r->agents,
                                           .counters = r->counters,
                                           .ring = &r->ring,
                                           .index = r->index,
                                           .td = r->td,
                                           .ok = r->ok,
                                           .priorities = r->priorities,
                                           .priority_seen = r->seen};
    OK(dqn_cpu_backend.sampler->update(r->q, &args));
    rig_wait(r);
}

/* Spread evenly in the logarithm over all that a priority may be. */
static inline void rig_random_priorities(struct rig *r, size_t size, uint64_t sequence) {
    for (size_t i = 0; i < size; i++) {
        r->priorities[i] = (float)exp(log(1e-6) + rig_unit(sequence, i) * log(4095 / 1e-6));
    }
}

/* Sum of the leaves as the rules make them from the column. */
static inline uint64_t rig_sum_of_leaves(const struct rig *r, size_t k) {
    uint64_t sum = 0;
    for (size_t i = 0; i < r->ring.size; i++) {
        sum += model_leaf(r->priorities[k * r->spec.capacity + i]);
    }
    return sum;
}

#endif
