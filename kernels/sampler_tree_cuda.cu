/* Proportional draws by a wide tree: sums of 32, 1024, ... leaves in exact integers, so that the
 * top is the sum of the leaves after any number of updates. The updates themselves are in
 * sampler_cuda.cu. */
#include "sampler_tree_cuda.cuh"

enum { TREE_THREADS = 256, NODES_A_BLOCK = TREE_THREADS / DQN_WARP };

enum dqn_status dqn_cuda_tree_add(struct dqn_sampler *s, struct dqn_arena *arena) {
    struct dqn_tree_shape *shape = &s->shape;
    size_t n = s->spec.capacity;
    do {
        n = (n + DQN_TREE_FAN - 1) / DQN_TREE_FAN;
        DQN_CHECK(shape->n_levels < DQN_TREE_MAX_LEVELS);
        shape->n[shape->n_levels] = n;
        shape->first[shape->n_levels] = shape->stride;
        shape->stride += (n + DQN_TREE_FAN - 1) / DQN_TREE_FAN * DQN_TREE_FAN;
        shape->n_levels++;
    } while (n > DQN_TREE_FAN);
    return dqn_arena_add(arena, &s->sums, s->device, DQN_U64, 0, "sampler/sums", 2,
                         s->spec.n_agents, shape->stride);
}

/* ---- draws ---- */

/* A warp goes down: each level is one read of 32 neighbours. */
struct tree_find {
    enum { LANES = DQN_WARP };
    struct dqn_tree_shape shape;
    const uint64_t *sums;
    size_t capacity;

    __device__ uint64_t total(const struct dqn_draw_args *, size_t k) const {
        const size_t top = shape.first[shape.n_levels - 1];
        return dqn_warp_sum(sums[k * shape.stride + top + threadIdx.x % DQN_WARP]);
    }

    __device__ size_t row(const struct dqn_draw_args *a, size_t k, uint64_t place,
                          uint64_t *mass) const {
        const unsigned lane = threadIdx.x % DQN_WARP;
        size_t node = 0;
        for (int level = shape.n_levels - 1; level >= 0; level--) {
            const size_t child = node * DQN_TREE_FAN + lane;
            const uint64_t sum = sums[k * shape.stride + shape.first[level] + child];
            node = node * DQN_TREE_FAN + dqn_tree_choose(sum, &place);
        }
        const size_t leaf_row = node * DQN_TREE_FAN + lane;
        const uint64_t leaf =
            leaf_row < capacity ? dqn_cuda_leaf(a->priorities[k * capacity + leaf_row]) : 0;
        const unsigned chosen = dqn_tree_choose(leaf, &place);
        *mass = __shfl_sync(0xffffffffu, leaf, (int)chosen);
        return node * DQN_TREE_FAN + chosen;
    }
};

enum dqn_status dqn_cuda_tree_draw(struct dqn_queue *q, const struct dqn_draw_args *args,
                                   const struct dqn_gather_args *gather) {
    const struct dqn_sampler *s = args->sampler;
    const bool whole = s->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER;
    if (whole) {
        DQN_TRY(dqn_cuda_find_minimum(q, args));
    }
    struct tree_find find;
    find.shape = s->shape;
    find.sums = (const uint64_t *)s->sums->data;
    find.capacity = s->spec.capacity;
    return dqn_cuda_launch_draw(q, args, find, whole, gather);
}

/* ---- new rows ---- */

/* Sum of the 32 leaves under a node of level 0; every lane of the warp gets it. */
static __device__ __forceinline__ uint64_t sum_leaves(const float *priorities, size_t capacity,
                                                      size_t node) {
    const size_t row = node * DQN_TREE_FAN + threadIdx.x % DQN_WARP;
    return dqn_warp_sum(row < capacity ? dqn_cuda_leaf(priorities[row]) : (uint64_t)0);
}

/* How many nodes of level 0 the rows [cursor, cursor + count) mod N touch. They are neighbours in a
 * circle of nodes that starts at the cursor's; where the rows' end comes round to that one again,
 * the limit keeps it from being counted twice. */
static __device__ __forceinline__ size_t touched_nodes(size_t cursor, size_t count, size_t capacity,
                                                       size_t n_nodes) {
    const size_t first = cursor / DQN_TREE_FAN;
    if (cursor + count <= capacity) {
        return (cursor + count - 1) / DQN_TREE_FAN - first + 1;
    }
    const size_t wrapped = cursor + count - capacity; /* rows that lie at the front */
    const size_t touched = n_nodes - first + (wrapped - 1) / DQN_TREE_FAN + 1;
    return touched < n_nodes ? touched : n_nodes;
}

/* A warp a node of level 0: it is summed anew, and the difference goes to the nodes above. The last
 * block moves the ring, which all blocks have read by then. Grid: nodes / 8 x agents; block 256;
 * one word shared. Bound by memory, with few rows by latency. */
static __global__ void k_take_rows(struct dqn_inserted_args a, struct dqn_tree_shape shape,
                                   size_t capacity, uint64_t *sums, unsigned *ticket) {
    const size_t k = blockIdx.y, cursor = a.ring->cursor, size = a.ring->size;
    const size_t touched = touched_nodes(cursor, a.count, capacity, shape.n[0]);
    const size_t stride = dqn_grid_stride() / DQN_WARP;
    uint64_t *own = sums + k * shape.stride;
    for (size_t i = dqn_grid_first() / DQN_WARP; i < touched; i += stride) {
        const size_t node = (cursor / DQN_TREE_FAN + i) % shape.n[0];
        const uint64_t sum = sum_leaves(a.priorities + k * capacity, capacity, node);
        if (threadIdx.x % DQN_WARP == 0) {
            const uint64_t difference = sum - own[node]; /* modulo 2^64, which the sums undo */
            own[node] = sum;
            size_t above = node;
            for (int level = 1; level < shape.n_levels; level++) {
                above /= DQN_TREE_FAN;
                atomicAdd((unsigned long long *)&own[shape.first[level] + above],
                          (unsigned long long)difference);
            }
        }
    }
    if (dqn_cuda_last_block(ticket, gridDim.x * gridDim.y) && threadIdx.x == 0) {
        a.ring->cursor = (cursor + a.count) % capacity;
        a.ring->size = size + a.count < capacity ? size + a.count : capacity;
    }
}

enum dqn_status dqn_cuda_tree_inserted(struct dqn_queue *q, const struct dqn_inserted_args *args) {
    const struct dqn_sampler *s = args->sampler;
    const size_t most = args->count / DQN_TREE_FAN + 3; /* a part at the end, one at the front */
    const size_t nodes = most < s->shape.n[0] ? most : s->shape.n[0];
    const dim3 grid(dqn_cuda_blocks(nodes, NODES_A_BLOCK), (unsigned)s->spec.n_agents);
    k_take_rows<<<grid, TREE_THREADS, 0, dqn_cuda_stream(q)>>>(
        *args, s->shape, s->spec.capacity, (uint64_t *)s->sums->data,
        (unsigned *)s->tickets->data + s->spec.n_agents);
    DQN_LAUNCHED(k_take_rows);
    return DQN_OK;
}

/* ---- rebuilding ---- */

/* A warp a node of one level. Grid: nodes / 8, x agents; block 256; no shared memory. Bound by
 * memory. */
static __global__ void k_sum_level(struct dqn_tree_shape shape, int level, size_t capacity,
                                   const float *priorities, uint64_t *sums) {
    const size_t k = blockIdx.y, stride = dqn_grid_stride() / DQN_WARP;
    uint64_t *own = sums + k * shape.stride;
    for (size_t node = dqn_grid_first() / DQN_WARP; node < shape.n[level]; node += stride) {
        uint64_t sum;
        if (level == 0) {
            sum = sum_leaves(priorities + k * capacity, capacity, node);
        } else {
            const size_t child = node * DQN_TREE_FAN + threadIdx.x % DQN_WARP;
            sum = dqn_warp_sum(own[shape.first[level - 1] + child]);
        }
        if (threadIdx.x % DQN_WARP == 0) {
            own[shape.first[level] + node] = sum;
        }
    }
}

enum dqn_status dqn_cuda_tree_rebuild(struct dqn_queue *q, const struct dqn_rebuild_args *args) {
    const struct dqn_sampler *s = args->sampler;
    for (int level = 0; level < s->shape.n_levels; level++) {
        const dim3 grid(dqn_cuda_blocks(s->shape.n[level], NODES_A_BLOCK),
                        (unsigned)s->spec.n_agents);
        k_sum_level<<<grid, TREE_THREADS, 0, dqn_cuda_stream(q)>>>(
            s->shape, level, s->spec.capacity, args->priorities, (uint64_t *)s->sums->data);
        DQN_LAUNCHED(k_sum_level);
    }
    return DQN_OK;
}
