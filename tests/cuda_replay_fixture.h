/* A replay's ring and its sampler on one side of a pair: the tables of operations, with every
 * buffer in an arena, so that two sides are compared by name. */
#ifndef DQN_TESTS_CUDA_REPLAY_FIXTURE_H
#define DQN_TESTS_CUDA_REPLAY_FIXTURE_H

#include "arena.h"
#include "config.h"
#include "cuda_draw_reference.h"
#include "cuda_pair.h"

enum { STORE_OBS = 3 };

struct store {
    struct side *side;
    struct dqn_sampler_spec spec;
    size_t obs;  /* floats an observation */
    size_t most; /* rows an insert */
    struct dqn_arena *arena;
    struct dqn_sampler *sampler;
    struct dqn_buffer *agents, *counters, *ring, *seen, *ok;
    struct dqn_buffer *states, *next_states, *actions, *rewards, *discounts, *dones, *priorities;
    struct dqn_buffer *row_state, *row_next, *row_action, *row_reward, *row_discount, *row_done;
    struct dqn_buffer *words, *index, *weight, *td;
};

static inline void store_put(const struct store *s, const struct dqn_buffer *to, const void *data,
                             size_t bytes) {
    cr_assert_leq(bytes, to->bytes);
    OK(s->side->backend->memory->copy(s->side->q, to->data, data, bytes, DQN_COPY_TO_DEVICE));
    OK(s->side->backend->queue->wait(s->side->q));
}

/* A copy of a buffer's contents; the caller frees it. */
static inline void *store_get(const struct store *s, const struct dqn_buffer *from) {
    void *data = malloc(from->bytes);
    OK(s->side->backend->memory->copy(s->side->q, data, from->data, from->bytes, DQN_COPY_TO_HOST));
    OK(s->side->backend->queue->wait(s->side->q));
    return data;
}

static inline void store_register(struct store *s) {
    const struct dqn_device *device = &s->side->device;
    const size_t k = s->spec.n_agents, n = s->spec.capacity, b = s->spec.batch, o = s->obs;
    const size_t m = s->most, counters = sizeof(struct dqn_counters) / sizeof(uint64_t);
    struct dqn_arena *a = s->arena;
#define STORE_ADD(member, dtype, ...)                                                              \
    OK(dqn_arena_add(a, &s->member, device, dtype, 0, "test/" #member, __VA_ARGS__))
    STORE_ADD(agents, DQN_U8, 2, k, sizeof(struct dqn_agent));
    STORE_ADD(counters, DQN_U64, 2, k, counters);
    STORE_ADD(ring, DQN_U64, 1, (size_t)2);
    STORE_ADD(seen, DQN_F32, 1, k);
    STORE_ADD(ok, DQN_U32, 1, k);
    STORE_ADD(states, DQN_F32, 3, k, n, o);
    STORE_ADD(next_states, DQN_F32, 3, k, n, o);
    STORE_ADD(actions, DQN_U32, 2, k, n);
    STORE_ADD(rewards, DQN_F32, 2, k, n);
    STORE_ADD(discounts, DQN_F32, 2, k, n);
    STORE_ADD(dones, DQN_U8, 2, k, n);
    STORE_ADD(priorities, DQN_F32, 2, k, n);
    STORE_ADD(row_state, DQN_F32, 3, k, m, o);
    STORE_ADD(row_next, DQN_F32, 3, k, m, o);
    STORE_ADD(row_action, DQN_U32, 2, k, m);
    STORE_ADD(row_reward, DQN_F32, 2, k, m);
    STORE_ADD(row_discount, DQN_F32, 2, k, m);
    STORE_ADD(row_done, DQN_U8, 2, k, m);
    STORE_ADD(words, DQN_U64, 2, k, b);
    STORE_ADD(index, DQN_I64, 2, k, b);
    STORE_ADD(weight, DQN_F32, 2, k, b);
    STORE_ADD(td, DQN_F32, 2, k, b);
#undef STORE_ADD
}

/* Agents with seeds from first_seed on, part of the way along beta's slope. */
static inline void store_agents(struct store *s, uint64_t first_seed) {
    const size_t k = s->spec.n_agents;
    struct dqn_agent *agents = calloc(k, sizeof *agents);
    struct dqn_counters *counters = calloc(k, sizeof *counters);
    float *seen = calloc(k, sizeof *seen);
    uint32_t *ok = calloc(k, sizeof *ok);
    for (size_t i = 0; i < k; i++) {
        agents[i] = (struct dqn_agent){.seed = first_seed + i,
                                       .beta_start = 0.4,
                                       .beta_end = 1,
                                       .beta_updates = 100,
                                       .alpha = 0.6,
                                       .priority_epsilon = 1e-3,
                                       .priority_max = 4095};
        counters[i].updates = 37 + i;
        seen[i] = dqn_priority_start(&agents[i]);
        ok[i] = 1;
    }
    store_put(s, s->agents, agents, k * sizeof *agents);
    store_put(s, s->counters, counters, k * sizeof *counters);
    store_put(s, s->seen, seen, k * sizeof *seen);
    store_put(s, s->ok, ok, k * sizeof *ok);
    free(agents);
    free(counters);
    free(seen);
    free(ok);
}

/* Rows to insert: any bytes will do where nothing computes with them. */
static inline void store_rows(struct store *s) {
    struct dqn_buffer *const parts[] = {s->row_state,  s->row_next,     s->row_action,
                                        s->row_reward, s->row_discount, s->row_done};
    for (size_t p = 0; p < DQN_COUNT_OF(parts); p++) {
        unsigned char *data = malloc(parts[p]->bytes);
        for (size_t i = 0; i < parts[p]->bytes; i++) {
            data[i] = (unsigned char)hash_word(100 + p, i);
        }
        store_put(s, parts[p], data, parts[p]->bytes);
        free(data);
    }
}

static inline void store_open(struct store *s, struct side *side,
                              const struct dqn_sampler_spec *spec, size_t obs, size_t most) {
    const struct dqn_buffer *failed = NULL;
    *s = (struct store){.side = side, .spec = *spec, .obs = obs, .most = most};
    OK(dqn_arena_create(&s->arena));
    store_register(s);
    OK(side->backend->sampler->create(&side->device, s->arena, spec, &s->sampler));
    OK(dqn_arena_commit(s->arena, &failed));
    store_agents(s, 1000);
    store_rows(s);
    OK(side->backend->sampler->prepare(s->sampler, side->q));
    OK(side->backend->queue->wait(side->q));
}

static inline void store_close(struct store *s) {
    OK(s->side->backend->queue->wait(s->side->q));
    s->side->backend->sampler->destroy(s->sampler);
    dqn_arena_destroy(s->arena);
}

/* ---- operations, enqueued ---- */

static inline enum dqn_status store_insert(const struct store *s, struct dqn_queue *q,
                                           size_t count) {
    const struct dqn_insert_args insert = {.n_agents = s->spec.n_agents,
                                           .capacity = s->spec.capacity,
                                           .obs = s->obs,
                                           .count = count,
                                           .rows = {.states = s->states->data,
                                                    .next_states = s->next_states->data,
                                                    .actions = s->actions->data,
                                                    .rewards = s->rewards->data,
                                                    .discounts = s->discounts->data,
                                                    .dones = s->dones->data,
                                                    .priorities = s->priorities->data},
                                           .ring = s->ring->data,
                                           .priority_seen = s->seen->data,
                                           .row_state = s->row_state->data,
                                           .row_next = s->row_next->data,
                                           .row_action = s->row_action->data,
                                           .row_reward = s->row_reward->data,
                                           .row_discount = s->row_discount->data,
                                           .row_done = s->row_done->data};
    const struct dqn_inserted_args inserted = {.sampler = s->sampler,
                                               .count = count,
                                               .ring = s->ring->data,
                                               .priorities = s->priorities->data};
    DQN_TRY(s->side->backend->replay->insert(q, &insert));
    return s->side->backend->sampler->inserted(q, &inserted);
}

static inline enum dqn_status store_draw(const struct store *s, struct dqn_queue *q,
                                         bool use_words) {
    const struct dqn_draw_args args = {.sampler = s->sampler,
                                       .agents = s->agents->data,
                                       .counters = s->counters->data,
                                       .ring = s->ring->data,
                                       .priorities = s->priorities->data,
                                       .words = use_words ? s->words->data : NULL,
                                       .index = s->index->data,
                                       .weight = s->weight->data};
    return s->side->backend->sampler->draw(q, &args);
}

/* Draws a batch and gathers it, in one go where the side offers that. `batch` has the outputs. */
static inline enum dqn_status store_draw_gather(const struct store *s, struct dqn_queue *q,
                                                struct dqn_gather_args batch) {
    const struct dqn_draw_args draw = {.sampler = s->sampler,
                                       .agents = s->agents->data,
                                       .counters = s->counters->data,
                                       .ring = s->ring->data,
                                       .priorities = s->priorities->data,
                                       .index = s->index->data,
                                       .weight = s->weight->data};
    bool gathered = false;
    batch.n_agents = s->spec.n_agents;
    batch.capacity = s->spec.capacity;
    batch.batch = s->spec.batch;
    batch.obs = s->obs;
    batch.rows = (struct dqn_rows){.states = s->states->data,
                                   .next_states = s->next_states->data,
                                   .actions = s->actions->data,
                                   .rewards = s->rewards->data,
                                   .discounts = s->discounts->data,
                                   .dones = s->dones->data};
    batch.index = s->index->data;
    DQN_TRY(dqn_draw(q, &draw, &batch, &gathered));
    return gathered ? DQN_OK : s->side->backend->replay->gather(q, &batch);
}

static inline enum dqn_status store_update(const struct store *s, struct dqn_queue *q) {
    const struct dqn_priority_args args = {.sampler = s->sampler,
                                           .batch = s->spec.batch,
                                           .agents = s->agents->data,
                                           .counters = s->counters->data,
                                           .ring = s->ring->data,
                                           .index = s->index->data,
                                           .td = s->td->data,
                                           .ok = s->ok->data,
                                           .priorities = s->priorities->data,
                                           .priority_seen = s->seen->data};
    return s->side->backend->sampler->update(q, &args);
}

static inline enum dqn_status store_rebuild(const struct store *s, struct dqn_queue *q) {
    const struct dqn_rebuild_args args = {
        .sampler = s->sampler, .ring = s->ring->data, .priorities = s->priorities->data};
    return s->side->backend->sampler->rebuild(q, &args);
}

/* Fills the first `size` rows with given priorities [K, N], as after a load. */
static inline void store_load(struct store *s, const float *priorities, uint64_t size) {
    const struct dqn_ring ring = {.cursor = size % s->spec.capacity, .size = size};
    store_put(s, s->priorities, priorities, s->priorities->bytes);
    store_put(s, s->ring, &ring, sizeof ring);
    OK(store_rebuild(s, s->side->q));
}

/* ---- comparing ---- */

/* A buffer of two stores holds the same bytes. */
static inline void stores_agree(const struct store *a, const struct store *b, const char *name,
                                const char *what) {
    const struct dqn_buffer *x = dqn_arena_find(a->arena, name),
                            *y = dqn_arena_find(b->arena, name);
    cr_assert(x != NULL && y != NULL && x->bytes == y->bytes && x->dtype == y->dtype, "%s", name);
    void *p = store_get(a, x), *r = store_get(b, y);
    const size_t i = first_difference(p, r, x->bytes);
    const size_t element = i / dqn_dtype_bytes(x->dtype);
    cr_assert_eq(i, x->bytes, "%s: %s[%zu] differs (%s against %s)", what, name, element,
                 a->side->backend->name, b->side->backend->name);
    free(p);
    free(r);
}

#endif
