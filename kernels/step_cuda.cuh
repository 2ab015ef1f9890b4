/* An optimizer step in two kernels, for small networks on GPUs with thread block clusters (compute
 * capability 9):
 *   k_step_rows     draws and gathers the batch, takes it through the network three times, forms
 *                   the TD errors, and goes down through the layers (step_rows_cuda.cu);
 *   k_step_weights  sums the weights' gradients, decides on the step, makes it (Adam, target
 *                   network), and writes the priorities (step_weights_cuda.cu).
 * At such sizes a step takes as long as its chain of dependent kernels, of which the composed path
 * has about ten. The rules are those of the operations that it stands for; matrix products are
 * summed in another order. Here: what both kernels know. */
#ifndef DQN_KERNELS_STEP_CUDA_CUH
#define DQN_KERNELS_STEP_CUDA_CUH

#include "../src/shared/adam.h"
#include "nn_tile_cuda.cuh"
#include "sampler_cuda.cuh"

enum {
    DQN_STEP_ROWS = 16,       /* of a tensor core product: units of a cluster's batch rows */
    DQN_STEP_MOST_ROWS = 8192 /* of a batch: what a block that writes priorities can hold */
};

/* Sums over 16 batch rows. Losses carry the weights of k_step_rows: importance
 * weights relative to the mean mass of a row, not to the batch's smallest, which no cluster knows;
 * k_step_weights scales by the ratio. */
struct dqn_step_part {
    double loss, q_mean, q_max, td_abs, td_abs_max;
    double weight_min;
    uint64_t smallest; /* mass of the batch's rows */
};

/* What is decided before the gradient is known: the step without clipping, and the scale that turns
 * the weights of k_step_rows into importance weights. */
struct dqn_step_plan {
    struct dqn_adam_step step; /* apply 0: the loss is not finite, or the agent has failed */
    double weight_scale, max_norm;
};

/* In which order gradients of a layer's inputs are summed over the rows of its W: ranges of so many
 * rows, each from its first row to its last; then the ranges of two runs, in turn; then the two. */
struct dqn_step_down {
    unsigned rows, n, first; /* of a range, ranges, those of the first run */
};

struct dqn_step {
    struct dqn_tile_net net;
    struct dqn_step_down down[DQN_TILE_LAYERS]; /* from the second layer on */
    size_t n_agents, batch, obs, capacity;
    bool double_q, proportional, stratified;
    float grad_scale;
    uint64_t max_nonfinite;
    const struct dqn_agent *agents;
    struct dqn_counters *counters;
    /* replay */
    struct dqn_rows rows;
    const struct dqn_ring *ring;
    struct dqn_tree_shape shape;
    uint64_t *sums;        /* [K, stride] */
    const uint64_t *words; /* NULL, or the random words, for tests */
    float *priority_seen;
    /* batch */
    int64_t *index;                  /* [K, B] */
    float *state;                    /* [K, B, obs_ld] */
    float *td;                       /* [K, B] */
    float *acts;                     /* at s, as forward keeps them */
    float *dz[DQN_TILE_LAYERS];      /* [K, B, out_ld] */
    struct dqn_step_part *parts;     /* [K, n_parts] */
    unsigned n_parts;                /* an agent: batch / 16, rounded up */
    double *squares;                 /* [K, blocks of weights] */
    struct dqn_step_plan *plans;     /* [K] */
    float *grads;                    /* [K, P]: these three where an update takes three kernels */
    struct dqn_adam_step *decisions; /* [K] */
    unsigned *tickets;               /* [K], 0 between kernels */
    float *params, *target;          /* [K, P] */
    float *moment1, *moment2;        /* [K, P] */
    struct dqn_step_stats *stats;    /* [K] */
    uint32_t *ok;                    /* [K] */
};

/* Bytes of the workspace that a step takes beside dz. */
size_t dqn_step_bytes(const struct dqn_net *net, size_t n_agents, size_t batch);
/* One update, where these kernels serve it: *done says whether. `dz` are the layers' gradients in
 * the workspace, `space` its dqn_step_bytes. */
enum dqn_status dqn_step_update(struct dqn_cuda_queue *q, const struct dqn_update_args *args,
                                float *const dz[DQN_MAX_LAYERS], void *space, bool *done);

/* step_rows_cuda.cu. Whether the kernel serves this batch and network. */
enum dqn_status dqn_step_plan_rows(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                                   bool *fits);
enum dqn_status dqn_step_launch_rows(struct dqn_cuda_queue *q, const struct dqn_step *step);

/* step_weights_cuda.cu. Blocks an agent that sum weights. */
unsigned dqn_step_weight_blocks(const struct dqn_net *net);
/* Whether a block has the shared memory for this batch. */
enum dqn_status dqn_step_plan_weights(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                                      bool *fits);
enum dqn_status dqn_step_launch_weights(struct dqn_cuda_queue *q, const struct dqn_step *step);

/* The part of no rows, which changes no other when they are joined. */
static __device__ __forceinline__ struct dqn_step_part dqn_step_no_rows(void) {
    struct dqn_step_part part;
    part.loss = part.q_mean = part.q_max = part.td_abs = part.td_abs_max = 0.0;
    part.weight_min = INFINITY;
    part.smallest = UINT64_MAX;
    return part;
}

/* The parts of a warp's lanes as one; every lane gets it. */
static __device__ __forceinline__ struct dqn_step_part
dqn_step_join_warp(struct dqn_step_part part) {
    part.loss = dqn_warp_sum(part.loss);
    part.q_mean = dqn_warp_sum(part.q_mean);
    part.q_max = dqn_warp_sum(part.q_max);
    part.td_abs = dqn_warp_sum(part.td_abs);
    part.td_abs_max = dqn_warp_max(part.td_abs_max);
    part.weight_min = dqn_warp_min(part.weight_min);
    part.smallest = dqn_warp_min(part.smallest);
    return part;
}

/* The mean mass of a filled row, which weights are relative to; 1 when nothing is filled. */
static __device__ __forceinline__ double dqn_step_mean_mass(uint64_t total, uint64_t size) {
    return size > 0 && total > 0 ? (double)total / (double)size : 1.0;
}

#endif
