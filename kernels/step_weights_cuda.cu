/* The second kernel of a step: the weights' gradients, the decision, the optimizer step, and the
 * priorities; see step_cuda.cuh.
 *
 * A block sums 32 x 32 gradients of one layer over the batch and keeps them; meanwhile one block,
 * the clerk, plans the step, and others form the new priorities; all blocks meet; then each scales
 * the step by the gradient's norm for itself, from the same numbers, and moves its own parameters,
 * while the clerk keeps the books. A population takes two kernels instead of the meeting, with the
 * same sums, since its blocks are too many to be on the device at once; there the last block of the
 * first one is the clerk. */
#include <cooperative_groups.h>

#include "nn_tile_sums_cuda.cuh"
#include "sampler_update_cuda.cuh"
#include "step_cuda.cuh"

enum { THREADS = DQN_TILE_THREADS, WARPS = DQN_TILE_WARPS, SIDE = DQN_TILE_SIDE };
enum { STAGES = 4, SUM_BYTES = dqn_tile_sum_bytes(STAGES) };
enum { ROWS_A_BLOCK = 256 /* whose priorities a block writes, about */, MOST_ROW_BLOCKS = 16 };

/* How much of the work a kernel does. */
enum part { WHOLE, SUMS, MOVES };

struct weights_step {
    struct dqn_step step;
    unsigned n_blocks, n_priority_blocks; /* an agent */
    struct dqn_weight_layer layer[DQN_TILE_LAYERS];
};

/* ---- gradients ---- */

/* Where a thread's gradients are: four of a row of W, and for some threads one of the bias. */
struct place {
    size_t weight, bias; /* in the block of parameters */
    bool has_weight, has_bias;
};

static __device__ __forceinline__ const struct dqn_weight_layer *
find_layer(const struct weights_step &a, unsigned block) {
    unsigned l = 0;
    while (l + 1 < a.step.net.n_layers && block >= a.layer[l + 1].first_block) {
        l++;
    }
    return &a.layer[l];
}

static __device__ __forceinline__ struct place find_place(const struct dqn_weight_layer *layer,
                                                          unsigned m, unsigned n) {
    const unsigned row = m + threadIdx.x / 8, column = n + threadIdx.x % 8 * 4;
    struct place place;
    place.has_weight = row < layer->out_ld && column < layer->in_ld;
    place.has_bias = n == 0 && threadIdx.x < SIDE && m + threadIdx.x < layer->out_ld;
    place.weight = layer->weight + (size_t)row * layer->in_ld + column;
    place.bias = layer->bias + m + threadIdx.x;
    return place;
}

static __device__ __forceinline__ double square(float v) {
    return (double)v * v;
}

/* Sum of the block's squares, for the norm. */
static __device__ __forceinline__ void
report_squares(const struct place *place, const struct dqn_tile_gradients *g, double *to) {
    __shared__ double shared[DQN_WARP];
    double sum = 0.0;
    if (place->has_weight) {
        sum = (square(g->weight.x) + square(g->weight.y)) +
              (square(g->weight.z) + square(g->weight.w));
    }
    if (place->has_bias) {
        sum += square(g->bias);
    }
    sum = dqn_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        *to = sum;
    }
}

/* ---- the decision ---- */

/* What the clerk reads and keeps. */
struct books {
    struct dqn_agent agent;
    struct dqn_counters counters;
    struct dqn_step_stats stats;
    struct dqn_step_stats batch;
    uint64_t total, size; /* of the replay: mass and rows */
};

template <typename T>
static __device__ __forceinline__ void copy_words(T *to, const T *from, unsigned first) {
    static_assert(sizeof(T) % 8 == 0 && sizeof(T) / 8 <= 64, "one word a thread");
    const unsigned i = threadIdx.x - first;
    if (threadIdx.x >= first && i < sizeof(T) / 8) {
        ((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
    }
}

static __device__ __forceinline__ void read_books(const struct dqn_step *a, size_t agent,
                                                  struct books *to) {
    copy_words(&to->agent, &a->agents[agent], 0);
    copy_words(&to->counters, &a->counters[agent], 64);
    copy_words(&to->stats, &a->stats[agent], 128);
    if (threadIdx.x / DQN_WARP == WARPS - 1) {
        uint64_t total = a->ring->size;
        if (a->proportional) {
            const size_t top = a->shape.first[a->shape.n_levels - 1];
            total = dqn_warp_sum(a->sums[agent * a->shape.stride + top + threadIdx.x % DQN_WARP]);
        }
        to->total = total;
        to->size = a->ring->size;
    }
}

/* Sums of all clusters, by a warp; every lane gets them. */
static __device__ __forceinline__ struct dqn_step_part join_parts(const struct dqn_step_part *from,
                                                                  unsigned n) {
    struct dqn_step_part all = dqn_step_no_rows();
    for (unsigned i = threadIdx.x % DQN_WARP; i < n; i += DQN_WARP) {
        const struct dqn_step_part one = from[i];
        all.loss += one.loss;
        all.q_mean += one.q_mean;
        all.q_max += one.q_max;
        all.td_abs += one.td_abs;
        all.td_abs_max = fmax(all.td_abs_max, one.td_abs_max);
        all.weight_min = fmin(all.weight_min, one.weight_min);
        all.smallest = one.smallest < all.smallest ? one.smallest : all.smallest;
    }
    return dqn_step_join_warp(all);
}

/* (smallest mass / mean mass)^beta: what turns the weights of k_step_rows into importance weights,
 * whose largest is 1. */
static __device__ __forceinline__ double weight_scale(const struct books *books, uint64_t smallest,
                                                      double beta) {
    if (smallest == 0 || smallest == UINT64_MAX) {
        return 1.0;
    }
    return dqn_pow((double)smallest / dqn_step_mean_mass(books->total, books->size), beta);
}

static __device__ __forceinline__ struct dqn_step_stats
batch_statistics(const struct dqn_step_part *sums, double n, double scale, double beta) {
    struct dqn_step_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.rows = n;
    stats.loss = sums->loss * scale / n;
    stats.q_mean = sums->q_mean / n;
    stats.q_max = sums->q_max / n;
    stats.td_abs = sums->td_abs / n;
    stats.weight_min = sums->weight_min * scale;
    stats.beta = beta;
    stats.td_abs_max = sums->td_abs_max;
    return stats;
}

/* Counters that priorities move are left alone. */
static __device__ __forceinline__ void write_counters(struct dqn_counters *to,
                                                      const struct dqn_counters *from) {
    to->updates = from->updates;
    to->draws = from->draws;
    to->adam_steps = from->adam_steps;
    to->target_copies = from->target_copies;
    to->nonfinite = from->nonfinite;
    to->nonfinite_streak = from->nonfinite_streak;
    to->nonfinite_update = from->nonfinite_update;
    to->nonfinite_where = from->nonfinite_where;
    to->clipped = from->clipped;
    to->failed = from->failed;
}

/* The clerk, before the gradient is known; by a whole block, two of whose warps work side by side.
 */
static __device__ void plan_step(const struct dqn_step *a, size_t agent, struct books *books) {
    __shared__ struct dqn_step_plan plan;
    const unsigned warp = threadIdx.x / DQN_WARP, lane = threadIdx.x % DQN_WARP;
    struct dqn_step_part sums;
    if (warp == 0) {
        sums = join_parts(a->parts + agent * a->n_parts, a->n_parts);
    }
    read_books(a, agent, books);
    __syncthreads();
    if (warp == 0) {
        const double beta = dqn_schedule_beta(&books->agent, books->counters.updates);
        plan.weight_scale = weight_scale(books, sums.smallest, beta);
        if (lane == 0) {
            books->batch = batch_statistics(&sums, (double)a->batch, plan.weight_scale, beta);
        }
    }
    if (warp == 1 && lane == 0) {
        plan.max_norm = books->agent.max_grad_norm;
        plan.step = dqn_adam_plan(&books->agent, &books->counters);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        plan.step.apply = !books->counters.failed && dqn_is_finite(books->batch.loss);
        a->plans[agent] = plan;
    }
}

/* The squared norm of the gradient, by importance weights; a warp for itself, every lane gets it.
 */
static __device__ __forceinline__ double sum_squares(const struct dqn_step *a, size_t agent,
                                                     unsigned n, double scale) {
    const double *squares = a->squares + agent * n;
    double sum = 0.0;
#pragma unroll 4
    for (unsigned i = threadIdx.x % DQN_WARP; i < n; i += DQN_WARP) {
        sum += __ldcg(&squares[i]);
    }
    return dqn_warp_sum(sum) * scale * scale;
}

/* The step, clipped. As dqn_adam_begin decides. */
static __device__ __forceinline__ struct dqn_adam_step finish_step(const struct dqn_step_plan *plan,
                                                                   double squares) {
    struct dqn_adam_step step = plan->step;
    const float scale = dqn_adam_scale(plan->max_norm, sqrt(squares));
    step.apply = step.apply && dqn_is_finite(squares);
    step.scale = (float)((double)scale * plan->weight_scale);
    return step;
}

/* The clerk, after that; by one thread. */
static __device__ void keep_books(const struct dqn_step *a, size_t agent, struct books *books,
                                  double squares) {
    books->counters.draws++;
    const struct dqn_adam_step step = dqn_adam_begin(&books->agent, &books->counters, &books->stats,
                                                     &books->batch, 1, squares, a->max_nonfinite);
    write_counters(&a->counters[agent], &books->counters);
    a->stats[agent] = books->stats;
    a->ok[agent] = step.apply;
}

/* ---- parameters ---- */

struct moved {
    float4 param, target, moment1, moment2;
    float bias, bias_target, bias1, bias2;
};

static __device__ __forceinline__ struct moved read_moved(const struct dqn_step *a, size_t base,
                                                          const struct place *place) {
    struct moved v;
    memset(&v, 0, sizeof v);
    if (place->has_weight) {
        const size_t at = base + place->weight;
        v.param = *(const float4 *)(a->params + at);
        v.target = *(const float4 *)(a->target + at);
        v.moment1 = *(const float4 *)(a->moment1 + at);
        v.moment2 = *(const float4 *)(a->moment2 + at);
    }
    if (place->has_bias) {
        const size_t at = base + place->bias;
        v.bias = a->params[at];
        v.bias_target = a->target[at];
        v.bias1 = a->moment1[at];
        v.bias2 = a->moment2[at];
    }
    return v;
}

static __device__ __forceinline__ void move(const struct dqn_adam_step *step, float grad, float *m,
                                            float *v, float *param, float *target) {
    dqn_adam_element(step, grad, m, v, param);
    *target = dqn_adam_target(step, *target, *param);
}

static __device__ __forceinline__ void
move_all(const struct dqn_step *a, const struct dqn_adam_step *step, size_t base,
         const struct place *place, const struct dqn_tile_gradients *g, struct moved *v) {
    if (!step->apply) {
        return;
    }
    if (place->has_weight) {
        const size_t at = base + place->weight;
        move(step, g->weight.x, &v->moment1.x, &v->moment2.x, &v->param.x, &v->target.x);
        move(step, g->weight.y, &v->moment1.y, &v->moment2.y, &v->param.y, &v->target.y);
        move(step, g->weight.z, &v->moment1.z, &v->moment2.z, &v->param.z, &v->target.z);
        move(step, g->weight.w, &v->moment1.w, &v->moment2.w, &v->param.w, &v->target.w);
        *(float4 *)(a->moment1 + at) = v->moment1;
        *(float4 *)(a->moment2 + at) = v->moment2;
        *(float4 *)(a->params + at) = v->param;
        if (step->tau != 0.0f) {
            *(float4 *)(a->target + at) = v->target;
        }
    }
    if (place->has_bias) {
        const size_t at = base + place->bias;
        move(step, g->bias, &v->bias1, &v->bias2, &v->bias, &v->bias_target);
        a->moment1[at] = v->bias1;
        a->moment2[at] = v->bias2;
        a->params[at] = v->bias;
        if (step->tau != 0.0f) {
            a->target[at] = v->bias_target;
        }
    }
}

/* ---- priorities ---- */

/* Blocks, a power of two of them, share the rows of the replay, not those of the batch: all places
 * of one row in the batch are one block's, which can take the three parts of an update
 * (sampler_cuda.cu) by itself. */
static __device__ __forceinline__ bool is_own(size_t row, unsigned block, unsigned n_blocks) {
    return (row & (n_blocks - 1)) == block;
}

/* A block's places in the batch. */
struct own_rows {
    unsigned *n;   /* shared */
    uint64_t *row; /* [batch], shared */
    uint32_t *td;  /* bits of the TD error, then of the new priority */
    uint32_t *old; /* bits of the priority that was taken out; 0: another place of the row has it */
};

static __device__ __forceinline__ struct own_rows place_rows(float4 *memory, size_t batch,
                                                             unsigned *n) {
    struct own_rows own;
    own.n = n;
    own.row = (uint64_t *)memory;
    own.td = (uint32_t *)(own.row + batch);
    own.old = own.td + batch;
    return own;
}

/* The block's places, in any order, which does not matter. All blocks look through the whole batch:
 * eight reads of a thread are under way at once. */
static __device__ __forceinline__ void find_own(const struct dqn_step *a, size_t agent,
                                                unsigned block, unsigned n_blocks,
                                                const struct own_rows *own) {
    enum { AT_ONCE = 8 };
    const int64_t *index = a->index + agent * a->batch;
    const float *td = a->td + agent * a->batch;
    const unsigned places = a->ring->size > 0 ? (unsigned)a->batch : 0;
    for (unsigned base = threadIdx.x; base < places; base += AT_ONCE * THREADS) {
        size_t row[AT_ONCE];
        float error[AT_ONCE];
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE && base + i * THREADS < places; i++) {
            row[i] = (size_t)index[base + i * THREADS];
            error[i] = td[base + i * THREADS];
        }
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE && base + i * THREADS < places; i++) {
            if (is_own(row[i], block, n_blocks)) {
                const unsigned to = atomicAdd(own->n, 1u);
                own->row[to] = row[i];
                own->td[to] = __float_as_uint(error[i]);
            }
        }
    }
}

/* New priorities of the block's rows, in the column already, though not in the sums: the first two
 * parts of an update are made while the gradient is being summed. */
static __device__ __forceinline__ struct dqn_seen form_priorities(const struct dqn_step *a,
                                                                  size_t agent, unsigned block,
                                                                  unsigned n_blocks,
                                                                  const struct own_rows *own) {
    uint32_t *cells = (uint32_t *)a->rows.priorities + agent * a->capacity;
    struct dqn_seen seen = {0, 0, 0};
    if (threadIdx.x == 0) {
        *own->n = 0;
    }
    __syncthreads();
    if (block < n_blocks) {
        find_own(a, agent, block, n_blocks, own);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < *own->n; i += THREADS) {
        own->old[i] = atomicExch(&cells[own->row[i]], 0u);
        own->td[i] = dqn_new_priority(&a->agents[agent], __uint_as_float(own->td[i]), &seen);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < *own->n; i += THREADS) {
        atomicMax(&cells[own->row[i]], own->td[i]);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < *own->n; i += THREADS) {
        own->td[i] = __ldcg(&cells[own->row[i]]); /* what stays of several */
    }
    return seen;
}

/* The third part: the sums above. An update that was skipped puts the old priorities back. */
static __device__ __forceinline__ void settle_priorities(const struct dqn_step *a, size_t agent,
                                                         const struct own_rows *own, bool apply,
                                                         struct dqn_seen seen) {
    uint32_t *cells = (uint32_t *)a->rows.priorities + agent * a->capacity;
    uint64_t *sums = a->sums + agent * a->shape.stride;
    for (unsigned i = threadIdx.x; i < *own->n; i += THREADS) {
        if (own->old[i] == 0) {
            continue;
        }
        if (apply) {
            dqn_add_difference(&a->shape, sums, (size_t)own->row[i], own->old[i],
                               __uint_as_float(own->td[i]));
        } else {
            cells[own->row[i]] = own->old[i];
        }
    }
    if (apply) {
        dqn_report_seen(a->counters, a->priority_seen, agent, seen);
    }
}

/* Gradients of this block's place, or, in the third kernel of a population, those that it left. */
template <bool EXACT, int PART>
static __device__ __forceinline__ struct dqn_tile_gradients
take_gradients(const struct weights_step &a, size_t agent, size_t base,
               const struct dqn_weight_layer *layer, unsigned m, unsigned n,
               const struct place *place, float *memory) {
    struct dqn_tile_gradients g;
    if (PART == MOVES) {
        g.weight = place->has_weight ? *(const float4 *)(a.step.grads + base + place->weight)
                                     : dqn_zero4();
        g.bias = place->has_bias ? a.step.grads[base + place->bias] : 0.0f;
        return g;
    }
    /* the factors were rounded by k_step_rows */
    g = dqn_tile_sum_block<EXACT, true, STAGES>(layer, agent, (unsigned)a.step.batch, m, n, memory);
    report_squares(place, &g, a.step.squares + agent * a.n_blocks + blockIdx.x);
    if (PART == SUMS && place->has_weight) {
        *(float4 *)(a.step.grads + base + place->weight) = g.weight;
    }
    if (PART == SUMS && place->has_bias) {
        a.step.grads[base + place->bias] = g.bias;
    }
    return g;
}

/* The last block of a population's agent: plan, books and decision at once. */
static __device__ __forceinline__ void decide_alone(const struct weights_step &a, size_t agent,
                                                    struct books *books) {
    plan_step(&a.step, agent, books);
    __syncthreads();
    if (threadIdx.x < DQN_WARP) {
        const struct dqn_step_plan plan = a.step.plans[agent];
        const double squares = sum_squares(&a.step, agent, a.n_blocks, plan.weight_scale);
        if (threadIdx.x == 0) {
            a.step.decisions[agent] = finish_step(&plan, squares);
            keep_books(&a.step, agent, books, squares);
        }
    }
}

/* Grid: 32 x 32 parts of all layers' W, the clerk, blocks for priorities; K; block 256; shared: 80
 * KB, or 16 bytes a batch row. Bound by latency: reads over the batch, the meeting, the reads after
 * it. */
template <bool EXACT, int PART>
static __global__ void __launch_bounds__(THREADS)
    k_step_weights(const __grid_constant__ struct weights_step a) {
    extern __shared__ float4 memory[];
    __shared__ struct books books;
    __shared__ unsigned n_own;
    const size_t agent = blockIdx.y, base = agent * a.step.net.n_params;
    const bool sums = blockIdx.x < a.n_blocks, is_clerk = blockIdx.x == a.n_blocks;
    const struct own_rows own = place_rows(memory, a.step.batch, &n_own);
    struct place place;
    struct dqn_tile_gradients g;
    struct moved moved;
    struct dqn_seen seen = {0, 0, 0};
    if (sums) {
        const struct dqn_weight_layer *layer = find_layer(a, blockIdx.x);
        const unsigned block = blockIdx.x - layer->first_block;
        const unsigned m = block / layer->blocks_across * SIDE;
        const unsigned n = block % layer->blocks_across * SIDE;
        place = find_place(layer, m, n);
        g = take_gradients<EXACT, PART>(a, agent, base, layer, m, n, &place, (float *)memory);
        if (PART != SUMS) {
            moved = read_moved(&a.step, base, &place);
        }
    } else if (is_clerk && PART == WHOLE) {
        plan_step(&a.step, agent, &books);
    } else if (!is_clerk) {
        seen =
            form_priorities(&a.step, agent, blockIdx.x - a.n_blocks - 1, a.n_priority_blocks, &own);
    }
    struct dqn_adam_step step;
    if (PART == SUMS) {
        if (dqn_cuda_last_block(a.step.tickets + agent, gridDim.x)) {
            decide_alone(a, agent, &books);
        }
        return;
    } else if (PART == WHOLE) {
        cooperative_groups::this_grid().sync();
        const struct dqn_step_plan plan = a.step.plans[agent];
        const double squares = sum_squares(&a.step, agent, a.n_blocks, plan.weight_scale);
        step = finish_step(&plan, squares);
        if (is_clerk && threadIdx.x == 0) {
            keep_books(&a.step, agent, &books, squares);
        }
    } else {
        step = a.step.decisions[agent];
    }
    if (sums) {
        move_all(&a.step, &step, base, &place, &g, &moved);
    } else if (!is_clerk) {
        settle_priorities(&a.step, agent, &own, step.apply != 0, seen);
    }
}

/* ---- the launch ---- */

unsigned dqn_step_weight_blocks(const struct dqn_net *net) {
    unsigned blocks = 0;
    for (size_t l = 0; l < net->n_layers; l++) {
        blocks += dqn_tile_squares(net->layer[l].in_ld) * dqn_tile_squares(net->layer[l].out_ld);
    }
    return blocks;
}

static unsigned row_blocks(size_t batch) {
    unsigned blocks = 1;
    while (blocks < MOST_ROW_BLOCKS && blocks * ROWS_A_BLOCK < batch) {
        blocks *= 2;
    }
    return blocks;
}

static void fill_weights(struct weights_step *to, const struct dqn_step *step) {
    const size_t rows = step->n_agents * step->batch;
    memset(to, 0, sizeof *to);
    to->step = *step;
    to->n_blocks = dqn_tile_list_weights(to->layer, step->net.layer, step->net.n_layers, step->dz,
                                         step->state, step->acts, rows);
    to->n_priority_blocks = step->proportional ? row_blocks(step->batch) : 0;
}

static size_t shared_bytes(const struct dqn_step *step) {
    const size_t rows = step->batch * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
    return rows > SUM_BYTES ? rows : (size_t)SUM_BYTES;
}

/* One kernel where all blocks of the one agent are on the device together. The first launch may be
 * refused: up to it nothing that lasts was written. */
template <bool EXACT>
static enum dqn_status launch(struct dqn_cuda_queue *q, const struct weights_step *weights) {
    const unsigned blocks = weights->n_blocks + 1 + weights->n_priority_blocks;
    const unsigned agents = (unsigned)weights->step.n_agents;
    const size_t bytes = shared_bytes(&weights->step);
    int fits = 0;
    DQN_CUDA(cudaFuncSetAttribute(k_step_weights<EXACT, WHOLE>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    DQN_CUDA(cudaFuncSetAttribute(k_step_weights<EXACT, SUMS>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, SUM_BYTES));
    DQN_CUDA(cudaFuncSetAttribute(k_step_weights<EXACT, MOVES>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    DQN_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fits, k_step_weights<EXACT, WHOLE>,
                                                           THREADS, bytes));
    struct weights_step copy = *weights;
    void *args[] = {&copy};
    if (agents == 1 && blocks <= (unsigned)(fits * q->device->n_sms)) {
        const void *kernel = (const void *)k_step_weights<EXACT, WHOLE>;
        DQN_CUDA_ASK("k_step_weights",
                     cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(THREADS), args, bytes,
                                                 q->stream));
        return DQN_OK;
    }
    const void *sums = (const void *)k_step_weights<EXACT, SUMS>;
    DQN_CUDA_ASK("k_step_weights", cudaLaunchKernel(sums, dim3(weights->n_blocks, agents),
                                                    dim3(THREADS), args, SUM_BYTES, q->stream));
    k_step_weights<EXACT, MOVES><<<dim3(blocks, agents), THREADS, bytes, q->stream>>>(*weights);
    DQN_LAUNCHED(k_step_weights);
    return DQN_OK;
}

enum dqn_status dqn_step_plan_weights(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                                      bool *fits) {
    int limit = 0;
    cudaFuncAttributes code;
    DQN_CUDA(
        cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, q->device->index));
    DQN_CUDA(cudaFuncGetAttributes(&code, k_step_weights<true, WHOLE>));
    *fits = shared_bytes(step) + code.sharedSizeBytes <= (size_t)limit;
    return DQN_OK;
}

enum dqn_status dqn_step_launch_weights(struct dqn_cuda_queue *q, const struct dqn_step *step) {
    struct weights_step weights;
    fill_weights(&weights, step);
    return q->device->precision == DQN_PRECISION_FP32 ? launch<true>(q, &weights)
                                                      : launch<false>(q, &weights);
}
