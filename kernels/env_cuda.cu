/* Environments on the GPU: one kernel a line of env_list.h around the same headers that the CPU
 * steps, and the n-step window. Built without fused multiply-add, so both sides agree bit for bit.
 */
#include "replay_cuda.cuh"

#include "../envs/lane.h"
#include "../src/shared/nstep.h"
#include "all_envs.h"

/* A block of environments is one warp: a few thousand lanes, one thread each, are spread over all
 * multiprocessors. */
enum { ENV_THREADS = 32, WINDOW_THREADS = 128, SUMS_THREADS = 128 };

/* A block's lanes: [first, first + n) of all lanes, agents included. */
struct block_lanes {
    size_t first;
    unsigned n;
};

static __device__ struct block_lanes lanes_of_block(const struct dqn_env_args *a) {
    const size_t begin = (size_t)blockIdx.x * blockDim.x, left = a->lanes - begin;
    struct block_lanes block;
    block.first = blockIdx.y * a->lanes + begin;
    block.n = left < blockDim.x ? (unsigned)left : blockDim.x;
    return block;
}

/* The block's observations, `stride` floats a lane in shared memory, to rows of `ld` floats in
 * global memory, all threads side by side; zeros beyond `obs`. */
static __device__ void write_rows(float *to, const float *from, struct block_lanes block,
                                  unsigned obs, unsigned stride, size_t obs_ld) {
    const unsigned ld = (unsigned)obs_ld, n = block.n * ld;
    const unsigned rows_a_turn = blockDim.x / ld, columns_a_turn = blockDim.x % ld;
    unsigned row = threadIdx.x / ld, column = threadIdx.x % ld;
    float *out = to + block.first * ld;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = column < obs ? from[row * stride + column] : 0.0f;
        row += rows_a_turn;
        column += columns_a_turn;
        if (column >= ld) {
            column -= ld;
            row++;
        }
    }
}

static __device__ void copy_floats(float *__restrict__ to, const float *__restrict__ from,
                                   size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

/* What the actions saw, before it is written over. */
static __device__ void keep_observations(const struct dqn_env_args *a, struct block_lanes block) {
    const unsigned n = block.n * (unsigned)a->obs_ld;
    const float *from = a->obs_now + block.first * a->obs_ld;
    float *to = a->obs_before + block.first * a->obs_ld;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        to[i] = from[i];
    }
}

/* All threads of the block together; the caller synchronises. */
template <typename Params> static __device__ void load_params(Params *to, const void *params) {
    static_assert(sizeof(Params) % sizeof(uint32_t) == 0, "parameters are copied by words");
    const uint32_t *from = (const uint32_t *)params;
    for (unsigned i = threadIdx.x; i < sizeof(Params) / sizeof(uint32_t); i += blockDim.x) {
        ((uint32_t *)to)[i] = from[i];
    }
}

/* k_reset_<name>, k_step_<name>. Grid: lanes / 32 x agents; block: 32; shared: the parameters and
 * the block's observations, a stride of odd length, so that neither a thread's own row nor the rows
 * side by side collide in a bank. One thread a lane; bound by the latency of its arithmetic and,
 * for wide observations, by memory. The step's first thread of an agent advances the counters,
 * which the kernel does not read. */
#define ENV_KERNELS(name, observations, actions, limit)                                            \
    static __global__ void k_reset_##name(struct dqn_env_args a) {                                 \
        __shared__ struct name##_params params;                                                    \
        __shared__ float rows[ENV_THREADS * ((observations) | 1)];                                 \
        const size_t e = dqn_grid_first(), k = blockIdx.y;                                         \
        const struct block_lanes block = lanes_of_block(&a);                                       \
        load_params(&params, a.params);                                                            \
        __syncthreads();                                                                           \
        if (e < a.lanes) {                                                                         \
            const size_t at = k * a.lanes + e;                                                     \
            struct dqn_lane *lane = &a.lanes_state[at];                                            \
            dqn_lane_begin(lane);                                                                  \
            const struct dqn_env_key key = dqn_lane_reset_key(                                     \
                lane, a.agents[k].seed, dqn_rng_stream((enum dqn_purpose)a.purpose, e));           \
            name##_reset((struct name##_state *)a.states + at, &params, &key,                      \
                         rows + threadIdx.x * ((observations) | 1));                               \
        }                                                                                          \
        __syncthreads();                                                                           \
        write_rows(a.obs_now, rows, block, observations, (observations) | 1, a.obs_ld);            \
    }                                                                                              \
    static __global__ void k_step_##name(struct dqn_env_args a) {                                  \
        __shared__ struct name##_params params;                                                    \
        __shared__ float rows[ENV_THREADS * ((observations) | 1)];                                 \
        const size_t e = dqn_grid_first(), k = blockIdx.y, at = k * a.lanes + e;                   \
        const struct block_lanes block = lanes_of_block(&a);                                       \
        float *observation = rows + threadIdx.x * ((observations) | 1);                            \
        struct name##_state *states = (struct name##_state *)a.states;                             \
        const uint64_t stream = dqn_rng_stream((enum dqn_purpose)a.purpose, e);                    \
        const bool frozen = e < a.lanes && a.freeze && a.lanes_state[at].frozen;                   \
        const bool steps = e < a.lanes && !frozen;                                                 \
        int over = 0;                                                                              \
        load_params(&params, a.params);                                                            \
        if (a.obs_before != NULL) {                                                                \
            keep_observations(&a, block);                                                          \
        }                                                                                          \
        if (e == 0) {                                                                              \
            a.counters[k].vector_steps++;                                                          \
            a.counters[k].env_steps += a.lanes;                                                    \
        }                                                                                          \
        __syncthreads();                                                                           \
        if (frozen) {                                                                              \
            copy_floats(observation, a.obs_now + at * a.obs_ld, observations);                     \
            a.reward[at] = 0.0f;                                                                   \
            a.terminated[at] = 1;                                                                  \
            a.truncated[at] = 0;                                                                   \
        }                                                                                          \
        if (steps) {                                                                               \
            struct dqn_lane *lane = &a.lanes_state[at];                                            \
            struct name##_state state = states[at];                                                \
            const struct dqn_env_key key = dqn_lane_step_key(lane, a.agents[k].seed, stream);      \
            struct dqn_env_outcome outcome =                                                       \
                name##_step(&state, &params, &key, a.action[at], observation);                     \
            states[at] = state;                                                                    \
            over = dqn_lane_record(lane, &outcome, a.step_limit);                                  \
            a.reward[at] = outcome.reward;                                                         \
            a.terminated[at] = outcome.terminated;                                                 \
            a.truncated[at] = outcome.truncated;                                                   \
        }                                                                                          \
        __syncthreads();                                                                           \
        write_rows(a.obs_next, rows, block, observations, (observations) | 1, a.obs_ld);           \
        __syncthreads();                                                                           \
        if (steps && over && !a.freeze) {                                                          \
            struct dqn_lane *lane = &a.lanes_state[at];                                            \
            lane->episode++;                                                                       \
            dqn_lane_begin(lane);                                                                  \
            const struct dqn_env_key next = dqn_lane_reset_key(lane, a.agents[k].seed, stream);    \
            name##_reset(&states[at], &params, &next, observation);                                \
        } else if (steps) {                                                                        \
            a.lanes_state[at].frozen = (uint64_t)over;                                             \
        }                                                                                          \
        __syncthreads();                                                                           \
        write_rows(a.obs_now, rows, block, observations, (observations) | 1, a.obs_ld);            \
    }
DQN_ENV_LIST(ENV_KERNELS)
#undef ENV_KERNELS

static dim3 lane_grid(size_t lanes, size_t n_agents) {
    return dim3((unsigned)((lanes + ENV_THREADS - 1) / ENV_THREADS), (unsigned)n_agents);
}

static enum dqn_status reset(struct dqn_queue *q, const struct dqn_env_args *args) {
    const dim3 grid = lane_grid(args->lanes, args->n_agents);
    switch (args->env) {
#define LAUNCH_RESET(name, observations, actions, limit)                                           \
    case DQN_ENV_##name:                                                                           \
        k_reset_##name<<<grid, ENV_THREADS, 0, dqn_cuda_stream(q)>>>(*args);                       \
        DQN_LAUNCHED(k_reset_##name);                                                              \
        break;
        DQN_ENV_LIST(LAUNCH_RESET)
#undef LAUNCH_RESET
    case DQN_ENV_COUNT:
        break;
    }
    return DQN_OK;
}

static enum dqn_status step(struct dqn_queue *q, const struct dqn_env_args *args) {
    const dim3 grid = lane_grid(args->lanes, args->n_agents);
    switch (args->env) {
#define LAUNCH_STEP(name, observations, actions, limit)                                            \
    case DQN_ENV_##name:                                                                           \
        k_step_##name<<<grid, ENV_THREADS, 0, dqn_cuda_stream(q)>>>(*args);                        \
        DQN_LAUNCHED(k_step_##name);                                                               \
        break;
        DQN_ENV_LIST(LAUNCH_STEP)
#undef LAUNCH_STEP
    case DQN_ENV_COUNT:
        break;
    }
    return DQN_OK;
}

/* Grid: lanes / 4 x agents; block: 128 = 4 lanes of a warp each; no shared memory. Bound by memory:
 * it moves four observations a lane. The warp's threads share the copies; each computes the sums
 * (n is small), thread 0 writes them. */
static __global__ void k_shift_window(struct dqn_nstep_args a) {
    const unsigned thread = threadIdx.x % DQN_WARP;
    const size_t e = dqn_grid_first() / DQN_WARP, k = blockIdx.y;
    if (e >= a.lanes) {
        return;
    }
    const uint64_t vector_steps = a.counters[k].vector_steps;
    const size_t slot = dqn_nstep_slot(vector_steps, a.n_step);
    const size_t first = slot + 1 == a.n_step ? 0 : slot + 1; /* the oldest of a full window */
    const size_t window = k * a.n_step * a.lanes;
    const size_t at = k * a.lanes + e, to = window + slot * a.lanes + e;
    const float *before = a.obs_before + at * a.obs_ld, *next = a.obs_next + at * a.obs_ld;
    dqn_cuda_copy_rows(a.window_obs + to * a.obs, before, a.window_next + to * a.obs, next, a.obs,
                       a.obs);
    if (thread == 0) {
        a.window_action[to] = a.action[at];
        a.window_reward[to] = a.reward[at];
        a.window_end[to] = a.terminated[at]  ? DQN_WINDOW_TERMINATED
                           : a.truncated[at] ? DQN_WINDOW_TRUNCATED
                                             : DQN_WINDOW_GOES_ON;
    }
    __syncwarp();
    if (vector_steps < a.n_step) {
        return;
    }
    const struct dqn_nstep_row row =
        dqn_nstep_sum(a.window_reward + window + e, a.window_end + window + e, a.lanes, first,
                      a.n_step, a.agents[k].gamma);
    const size_t from = window + first * a.lanes + e, last = window + row.last_slot * a.lanes + e;
    /* this step's observations need not come back from the window */
    dqn_cuda_copy_rows(a.row_state + at * a.obs, from == to ? before : a.window_obs + from * a.obs,
                       a.row_next + at * a.obs, last == to ? next : a.window_next + last * a.obs,
                       a.obs, a.obs);
    if (thread == 0) {
        a.row_action[at] = a.window_action[from];
        a.row_reward[at] = row.reward;
        a.row_discount[at] = row.discount;
        a.row_done[at] = row.done;
    }
}

static enum dqn_status nstep(struct dqn_queue *q, const struct dqn_nstep_args *args) {
    enum { LANES_A_BLOCK = WINDOW_THREADS / DQN_WARP };
    const dim3 grid((unsigned)((args->lanes + LANES_A_BLOCK - 1) / LANES_A_BLOCK),
                    (unsigned)args->n_agents);
    k_shift_window<<<grid, WINDOW_THREADS, 0, dqn_cuda_stream(q)>>>(*args);
    DQN_LAUNCHED(k_shift_window);
    return DQN_OK;
}

/* Grid: lanes / 128; block: 128. */
static __global__ void k_clear_lane_sums(struct dqn_lane *lanes, size_t n) {
    for (size_t i = dqn_grid_first(); i < n; i += dqn_grid_stride()) {
        dqn_lane_clear_sums(&lanes[i]);
    }
}

static enum dqn_status clear_sums(struct dqn_queue *q, struct dqn_lane *lanes, size_t n) {
    k_clear_lane_sums<<<dqn_cuda_blocks(n, SUMS_THREADS), SUMS_THREADS, 0, dqn_cuda_stream(q)>>>(
        lanes, n);
    DQN_LAUNCHED(k_clear_lane_sums);
    return DQN_OK;
}

extern "C" const struct dqn_env_ops dqn_cuda_env_ops = {reset, step, nstep, clear_sums};
