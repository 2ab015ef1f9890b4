/* The replay's ring on the GPU: rows in, batches out. */
#include "replay_cuda.cuh"

enum { ROW_THREADS = 128, ROWS_A_BLOCK = ROW_THREADS / DQN_WARP };

static dim3 row_grid(size_t rows, size_t n_agents) {
    return dim3((unsigned)((rows + ROWS_A_BLOCK - 1) / ROWS_A_BLOCK), (unsigned)n_agents);
}

/* Grid: rows / 4 x agents; block: 128 = 4 rows of a warp each; no shared memory. Bound by memory:
 * two observations read and written a row, the reads and writes of a warp contiguous. */
static __global__ void k_insert_rows(struct dqn_insert_args a) {
    const unsigned thread = threadIdx.x % DQN_WARP;
    const size_t row = dqn_grid_first() / DQN_WARP, k = blockIdx.y;
    if (row >= a.count) {
        return;
    }
    const size_t from = k * a.count + row;
    const size_t to = k * a.capacity + (a.ring->cursor + row) % a.capacity;
    dqn_cuda_copy_rows(a.rows.states + to * a.obs, a.row_state + from * a.obs,
                       a.rows.next_states + to * a.obs, a.row_next + from * a.obs, a.obs, a.obs);
    if (thread == 0) {
        a.rows.actions[to] = a.row_action[from];
        a.rows.rewards[to] = a.row_reward[from];
        a.rows.discounts[to] = a.row_discount[from];
        a.rows.dones[to] = a.row_done[from];
        a.rows.priorities[to] = a.priority_seen[k];
    }
}

static enum dqn_status insert(struct dqn_queue *q, const struct dqn_insert_args *args) {
    k_insert_rows<<<row_grid(args->count, args->n_agents), ROW_THREADS, 0, dqn_cuda_stream(q)>>>(
        *args);
    DQN_LAUNCHED(k_insert_rows);
    return DQN_OK;
}

/* Grid: batch / 4 x agents; block: 128 = 4 rows of a warp each; no shared memory. Bound by the
 * latency of random rows of 204 bytes and more. */
static __global__ void k_gather_rows(struct dqn_gather_args a) {
    const size_t row = dqn_grid_first() / DQN_WARP, k = blockIdx.y;
    if (row < a.batch) {
        dqn_cuda_gather_row(&a, k, row, (size_t)a.index[k * a.batch + row]);
    }
}

static enum dqn_status gather(struct dqn_queue *q, const struct dqn_gather_args *args) {
    k_gather_rows<<<row_grid(args->batch, args->n_agents), ROW_THREADS, 0,
                    dqn_cuda_replay_stream(q)>>>(*args);
    DQN_LAUNCHED(k_gather_rows);
    return DQN_OK;
}

extern "C" const struct dqn_replay_ops dqn_cuda_replay_ops = {insert, gather};
