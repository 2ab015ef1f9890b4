/* The replay's ring on the CPU: rows in, batches out. */
#include <string.h>

#include "cpu.h"

enum { CHUNK_ROWS = 64 };

static size_t chunks_of(size_t rows) {
    return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

static void insert_row(const struct dqn_insert_args *a, size_t k, size_t row) {
    const size_t bytes = a->obs * sizeof(float);
    const size_t from = k * a->count + row;
    const size_t to = k * a->capacity + (a->ring->cursor + row) % a->capacity;
    memcpy(a->rows.states + to * a->obs, a->row_state + from * a->obs, bytes);
    memcpy(a->rows.next_states + to * a->obs, a->row_next + from * a->obs, bytes);
    a->rows.actions[to] = a->row_action[from];
    a->rows.rewards[to] = a->row_reward[from];
    a->rows.discounts[to] = a->row_discount[from];
    a->rows.dones[to] = a->row_done[from];
    a->rows.priorities[to] = a->priority_seen[k];
}

static void insert_chunk(void *context, size_t i) {
    const struct dqn_insert_args *a = context;
    const size_t k = i / chunks_of(a->count), first = i % chunks_of(a->count) * CHUNK_ROWS;
    for (size_t row = first; row < first + CHUNK_ROWS && row < a->count; row++) {
        insert_row(a, k, row);
    }
}

static enum dqn_status run_insert(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_insert_args a = *(const struct dqn_insert_args *)args;
    dqn_cpu_for(pool, a.n_agents * chunks_of(a.count), insert_chunk, &a);
    return DQN_OK;
}

static void gather_row(const struct dqn_gather_args *a, size_t k, size_t row) {
    const size_t bytes = a->obs * sizeof(float), padding = (a->obs_ld - a->obs) * sizeof(float);
    const size_t to = k * a->batch + row;
    const size_t from = k * a->capacity + (size_t)a->index[to];
    float *state = a->state + to * a->obs_ld, *next = a->next + to * a->obs_ld;
    memcpy(state, a->rows.states + from * a->obs, bytes);
    memcpy(next, a->rows.next_states + from * a->obs, bytes);
    memset(state + a->obs, 0, padding);
    memset(next + a->obs, 0, padding);
    a->action[to] = a->rows.actions[from];
    a->reward[to] = a->rows.rewards[from];
    a->discount[to] = a->rows.discounts[from];
    a->done[to] = a->rows.dones[from];
}

static void gather_chunk(void *context, size_t i) {
    const struct dqn_gather_args *a = context;
    const size_t k = i / chunks_of(a->batch), first = i % chunks_of(a->batch) * CHUNK_ROWS;
    for (size_t row = first; row < first + CHUNK_ROWS && row < a->batch; row++) {
        gather_row(a, k, row);
    }
}

static enum dqn_status run_gather(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_gather_args a = *(const struct dqn_gather_args *)args;
    dqn_cpu_for(pool, a.n_agents * chunks_of(a.batch), gather_chunk, &a);
    return DQN_OK;
}

static enum dqn_status insert(struct dqn_queue *q, const struct dqn_insert_args *args) {
    return dqn_cpu_submit(q, run_insert, args, sizeof *args);
}

static enum dqn_status gather(struct dqn_queue *q, const struct dqn_gather_args *args) {
    return dqn_cpu_submit(q, run_gather, args, sizeof *args);
}

const struct dqn_replay_ops dqn_cpu_replay_ops = {.insert = insert, .gather = gather};
