/* Rank-based draws: rows sorted by priority, masses by rank from a table.
 *
 * A draw that is not due to sort keeps the order it has. Whether it is due depends on the draw
 * counter, which only the device knows in a captured program; so every draw sorts into scratch, and
 * the order takes it over when due. The results are those of rank_interval; the time is not saved.
 */
#include "sampler_cuda.cuh"

#include <cub/device/device_radix_sort.cuh>

enum { RANK_THREADS = 256 };

/* Rows of equal keys stay in order, as radix sort is stable. *sorted is one of `rows`. With temp
 * NULL only its size is asked for. */
static cudaError_t sort_rows(void *temp, size_t *temp_bytes, uint32_t *const keys[2],
                             uint32_t *const rows[2], size_t n, cudaStream_t stream,
                             const uint32_t **sorted) {
    cub::DoubleBuffer<uint32_t> key_buffers(keys[0], keys[1]), row_buffers(rows[0], rows[1]);
    const cudaError_t error = cub::DeviceRadixSort::SortPairs(
        temp, *temp_bytes, key_buffers, row_buffers, n, 0, (int)(8 * sizeof(uint32_t)), stream);
    *sorted = row_buffers.Current();
    return error;
}

enum dqn_status dqn_cuda_rank_add(struct dqn_sampler *s, struct dqn_arena *arena) {
    const size_t k = s->spec.n_agents, n = s->spec.capacity;
    const struct dqn_device *device = s->device;
    /* With an interval the order is older than the priorities, so it cannot be derived. */
    const int saved = s->spec.rank_interval > 1 ? DQN_BUFFER_SAVED | DQN_BUFFER_REPLAY : 0;
    const int shared = DQN_BUFFER_SHARED;
    uint32_t *const none[2] = {NULL, NULL};
    const uint32_t *sorted = NULL;
    DQN_CUDA(cudaSetDevice(((const struct dqn_cuda_device *)device->impl)->index));
    DQN_CUDA(sort_rows(NULL, &s->temp_bytes, none, none, n, NULL, &sorted));
    DQN_TRY(dqn_arena_add(arena, &s->order, device, DQN_U32, saved, "sampler/order", 2, k, n));
    DQN_TRY(dqn_arena_add(arena, &s->ranked, device, DQN_U64, saved, "sampler/ranked", 1, k));
    DQN_TRY(dqn_arena_add(arena, &s->keys[0], device, DQN_U32, shared, "sampler/keys_0", 1, n));
    DQN_TRY(dqn_arena_add(arena, &s->keys[1], device, DQN_U32, shared, "sampler/keys_1", 1, n));
    DQN_TRY(dqn_arena_add(arena, &s->rows[0], device, DQN_U32, shared, "sampler/rows_0", 1, n));
    DQN_TRY(dqn_arena_add(arena, &s->rows[1], device, DQN_U32, shared, "sampler/rows_1", 1, n));
    DQN_TRY(dqn_arena_add(arena, &s->temp, device, DQN_U8, shared, "sampler/sort_temp", 1,
                          s->temp_bytes));
    return dqn_arena_add(arena, &s->prefix, device, DQN_U64, shared, "sampler/prefix", 1, n);
}

enum dqn_status dqn_cuda_rank_prepare(struct dqn_sampler *s, struct dqn_queue *q) {
    const struct dqn_backend *backend = s->device->backend;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, s->spec.capacity, sizeof(uint64_t), "the masses of ranks"));
    dqn_rank_prefix((uint64_t *)memory, s->spec.capacity, s->spec.alpha);
    enum dqn_status status =
        backend->memory->copy(q, s->prefix->data, memory, s->prefix->bytes, DQN_COPY_TO_DEVICE);
    const enum dqn_status waited = backend->queue->wait(q); /* the copy must not outlive `memory` */
    free(memory);
    return status != DQN_OK ? status : waited;
}

/* ---- the order ---- */

/* Descending priority is ascending key: bits of positive floats are in the order of their values.
 * Unfilled rows, of priority 0, come last. Grid: N / 256 up to 65535; block 256; no shared memory.
 * Bound by memory. */
static __global__ void k_fill_keys(const float *priorities, size_t n, uint32_t *keys,
                                   uint32_t *rows) {
    for (size_t i = dqn_grid_first(); i < n; i += dqn_grid_stride()) {
        keys[i] = ~dqn_float_bits(priorities[i]);
        rows[i] = (uint32_t)i;
    }
}

static __device__ __forceinline__ bool order_is_due(const struct dqn_counters *counters,
                                                    uint64_t ranked, uint64_t interval) {
    return ranked == 0 || counters->draws % interval == 0;
}

/* Takes the sorted rows over when due. Grid: N / 256 up to 65535; block 256; no shared memory.
 * Bound by memory. */
static __global__ void k_take_order(const struct dqn_counters *counters, const uint64_t *ranked,
                                    uint64_t interval, const uint32_t *sorted, size_t n,
                                    uint32_t *order) {
    if (!order_is_due(counters, *ranked, interval)) {
        return;
    }
    for (size_t i = dqn_grid_first(); i < n; i += dqn_grid_stride()) {
        order[i] = sorted[i];
    }
}

/* How many rows the order has now, and the mass of its last rank. Grid: agents / 256; block 256. */
static __global__ void k_note_ranked(struct dqn_draw_args a, size_t n_agents, uint64_t interval,
                                     const uint64_t *prefix, uint64_t *ranked, uint64_t *smallest) {
    const size_t k = dqn_grid_first();
    if (k >= n_agents) {
        return;
    }
    if (order_is_due(&a.counters[k], ranked[k], interval)) {
        ranked[k] = a.ring->size;
    }
    const uint64_t n = ranked[k];
    smallest[k] = n > 1 ? prefix[n - 1] - prefix[n - 2] : prefix[0];
}

/* ---- draws ---- */

struct rank_find {
    enum { LANES = 1 };
    const uint64_t *prefix;
    const uint64_t *ranked;
    const uint32_t *order;
    size_t capacity;

    __device__ uint64_t total(const struct dqn_draw_args *, size_t k) const {
        return ranked[k] > 0 ? prefix[ranked[k] - 1] : 0;
    }

    __device__ size_t row(const struct dqn_draw_args *, size_t k, uint64_t place,
                          uint64_t *mass) const {
        const uint64_t rank = dqn_cuda_find_prefix(prefix, ranked[k], place);
        *mass = prefix[rank] - (rank > 0 ? prefix[rank - 1] : 0);
        return order[k * capacity + rank];
    }
};

static enum dqn_status refresh_order(struct dqn_queue *q, const struct dqn_draw_args *args) {
    const struct dqn_sampler *s = args->sampler;
    const size_t n = s->spec.capacity;
    const unsigned blocks = dqn_cuda_blocks(n, RANK_THREADS);
    const cudaStream_t stream = dqn_cuda_stream(q);
    uint32_t *const keys[2] = {(uint32_t *)s->keys[0]->data, (uint32_t *)s->keys[1]->data};
    uint32_t *const rows[2] = {(uint32_t *)s->rows[0]->data, (uint32_t *)s->rows[1]->data};
    uint64_t *ranked = (uint64_t *)s->ranked->data;
    for (size_t k = 0; k < s->spec.n_agents; k++) {
        size_t temp_bytes = s->temp_bytes;
        const uint32_t *sorted = NULL;
        k_fill_keys<<<blocks, RANK_THREADS, 0, stream>>>(args->priorities + k * n, n, keys[0],
                                                         rows[0]);
        DQN_LAUNCHED(k_fill_keys);
        DQN_CUDA(sort_rows(s->temp->data, &temp_bytes, keys, rows, n, stream, &sorted));
        k_take_order<<<blocks, RANK_THREADS, 0, stream>>>(args->counters + k, ranked + k,
                                                          s->spec.rank_interval, sorted, n,
                                                          (uint32_t *)s->order->data + k * n);
        DQN_LAUNCHED(k_take_order);
    }
    const unsigned agent_blocks = dqn_cuda_blocks(s->spec.n_agents, RANK_THREADS);
    k_note_ranked<<<agent_blocks, RANK_THREADS, 0, stream>>>(
        *args, s->spec.n_agents, s->spec.rank_interval, (const uint64_t *)s->prefix->data, ranked,
        (uint64_t *)s->smallest->data);
    DQN_LAUNCHED(k_note_ranked);
    return DQN_OK;
}

enum dqn_status dqn_cuda_rank_draw(struct dqn_queue *q, const struct dqn_draw_args *args) {
    const struct dqn_sampler *s = args->sampler;
    DQN_TRY(refresh_order(q, args));
    struct rank_find find;
    find.prefix = (const uint64_t *)s->prefix->data;
    find.ranked = (const uint64_t *)s->ranked->data;
    find.order = (const uint32_t *)s->order->data;
    find.capacity = s->spec.capacity;
    return dqn_cuda_launch_draw(q, args, find, s->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER);
}

/* With an interval the saved order stays; else the next draw sorts anyway. */
enum dqn_status dqn_cuda_rank_rebuild(struct dqn_queue *q, const struct dqn_rebuild_args *args) {
    const struct dqn_sampler *s = args->sampler;
    if (s->spec.rank_interval == 1) {
        DQN_CUDA(cudaMemsetAsync(s->ranked->data, 0, s->ranked->bytes, dqn_cuda_stream(q)));
    }
    return DQN_OK;
}
