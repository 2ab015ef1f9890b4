/* Proportional draws by a scan: the inclusive sums of all leaves, made anew for each draw, and a
 * binary search in them. The same rows and masses as the tree gives. */
#include "sampler_cuda.cuh"

#include <cub/device/device_scan.cuh>
#include <thrust/iterator/transform_iterator.h>

struct leaf_of {
    __host__ __device__ uint64_t operator()(float priority) const {
        return priority > 0.0f ? (uint64_t)dqn_priority_leaf(priority) : 0;
    }
};

typedef thrust::transform_iterator<leaf_of, const float *> leaf_iterator;

/* Sums of integers: exact, so it does not matter in which order CUB adds. With temp NULL only its
 * size is asked for. */
static cudaError_t scan_leaves(void *temp, size_t *temp_bytes, const float *priorities,
                               uint64_t *prefix, size_t n, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(temp, *temp_bytes, leaf_iterator(priorities, leaf_of()),
                                         prefix, n, stream);
}

enum dqn_status dqn_cuda_scan_add(struct dqn_sampler *s, struct dqn_arena *arena) {
    const size_t k = s->spec.n_agents, n = s->spec.capacity;
    DQN_CUDA(cudaSetDevice(((const struct dqn_cuda_device *)s->device->impl)->index));
    DQN_CUDA(scan_leaves(NULL, &s->temp_bytes, NULL, NULL, n, NULL));
    DQN_TRY(dqn_arena_add(arena, &s->prefix, s->device, DQN_U64, 0, "sampler/prefix", 2, k, n));
    return dqn_arena_add(arena, &s->temp, s->device, DQN_U8, DQN_BUFFER_SHARED, "sampler/scan_temp",
                         1, s->temp_bytes);
}

/* Unfilled rows have leaf 0: the last sum is the total, and no search ends at one of them. */
struct scan_find {
    enum { LANES = 1 };
    const uint64_t *prefix;
    size_t capacity;

    __device__ uint64_t total(const struct dqn_draw_args *, size_t k) const {
        return prefix[(k + 1) * capacity - 1];
    }

    __device__ size_t row(const struct dqn_draw_args *, size_t k, uint64_t place,
                          uint64_t *mass) const {
        const uint64_t *own = prefix + k * capacity;
        const uint64_t found = dqn_cuda_find_prefix(own, capacity, place);
        *mass = own[found] - (found > 0 ? own[found - 1] : 0);
        return found;
    }
};

enum dqn_status dqn_cuda_scan_draw(struct dqn_queue *q, const struct dqn_draw_args *args) {
    const struct dqn_sampler *s = args->sampler;
    const bool whole = s->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER;
    const size_t n = s->spec.capacity;
    uint64_t *prefix = (uint64_t *)s->prefix->data;
    for (size_t k = 0; k < s->spec.n_agents; k++) {
        size_t temp_bytes = s->temp_bytes;
        DQN_CUDA(scan_leaves(s->temp->data, &temp_bytes, args->priorities + k * n, prefix + k * n,
                             n, dqn_cuda_stream(q)));
    }
    if (whole) {
        DQN_TRY(dqn_cuda_find_minimum(q, args));
    }
    struct scan_find find;
    find.prefix = prefix;
    find.capacity = n;
    return dqn_cuda_launch_draw(q, args, find, whole);
}
