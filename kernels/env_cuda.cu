/* Environments on the GPU: one kernel a line of env_list.h around the same headers that the CPU
 * steps, and the n-step window by itself. Built without fused multiply-add, so both sides agree bit
 * for bit. */
#include "collect_cuda.cuh"

#include "../envs/lane.h"
#include "all_envs.h"

enum { WINDOW_THREADS = 128, SUMS_THREADS = 128 };

/* What a kernel needs to know of an environment. STRIDE: of observations in shared memory, odd, so
 * that neither a thread's own row nor rows side by side collide in a bank. */
#define ENV_TRAITS(name, observations, actions, limit)                                             \
    struct env_##name {                                                                            \
        typedef struct name##_params params;                                                       \
        typedef struct name##_state state;                                                         \
        enum { OBS = observations, STRIDE = (observations) | 1 };                                  \
        static __device__ __forceinline__ void reset(state *s, const params *p,                    \
                                                     const struct dqn_env_key *key, float *to) {   \
            name##_reset(s, p, key, to);                                                           \
        }                                                                                          \
        static __device__ __forceinline__ struct dqn_env_outcome                                   \
        step(state *s, const params *p, const struct dqn_env_key *key, uint32_t action,            \
             float *to) {                                                                          \
            return name##_step(s, p, key, action, to);                                             \
        }                                                                                          \
    };
DQN_ENV_LIST(ENV_TRAITS)
#undef ENV_TRAITS

static __device__ __forceinline__ struct dqn_block find_block(const struct dqn_env_args &a) {
    struct dqn_block block;
    block.agent = blockIdx.y;
    block.lane = (size_t)blockIdx.x * DQN_BLOCK_LANES;
    block.first = block.agent * a.lanes + block.lane;
    const size_t left = a.lanes - block.lane;
    block.n = left < DQN_BLOCK_LANES ? (unsigned)left : DQN_BLOCK_LANES;
    return block;
}

/* The block's lane that this thread steps; the number of its lanes or more: none. Every spread-th
 * thread steps one: with few blocks a warp's lanes, which part where their episodes do, are better
 * fewer. */
static __device__ __forceinline__ unsigned own_lane(unsigned spread) {
    return threadIdx.x % spread == 0 ? threadIdx.x / spread : DQN_BLOCK_LANES;
}

/* Observations in shared memory to rows of obs_ld floats in global memory, zeros beyond. */
template <typename Env>
static __device__ __forceinline__ void write_rows(float *to, const float *from,
                                                  const struct dqn_block &block, size_t obs_ld) {
    enum { GROUP = dqn_row_group<Env::OBS>::THREADS, ROWS = dqn_row_group<Env::OBS>::ROWS };
#pragma unroll 1
    for (unsigned i = threadIdx.x / GROUP; i < block.n; i += ROWS) {
        float *row = to + (block.first + i) * obs_ld;
        for (unsigned column = threadIdx.x % GROUP; column < obs_ld; column += GROUP) {
            row[column] = column < Env::OBS ? from[i * Env::STRIDE + column] : 0.0f;
        }
    }
}

/* What the actions saw, before it is written over. */
static __device__ __forceinline__ void keep_observations(const struct dqn_env_args &a,
                                                         const struct dqn_block &block) {
    const float4 *from = (const float4 *)(a.obs_now + block.first * a.obs_ld);
    float4 *to = (float4 *)(a.obs_before + block.first * a.obs_ld);
    for (unsigned i = threadIdx.x; i < block.n * (unsigned)a.obs_ld / 4; i += DQN_ENV_THREADS) {
        to[i] = from[i];
    }
}

/* All threads of the block together; the caller synchronises. */
template <typename Params>
static __device__ __forceinline__ void load_params(Params *to, const void *params) {
    static_assert(sizeof(Params) % sizeof(uint32_t) == 0, "parameters are copied by words");
    const uint32_t *from = (const uint32_t *)params;
    for (unsigned i = threadIdx.x; i < sizeof(Params) / sizeof(uint32_t); i += DQN_ENV_THREADS) {
        ((uint32_t *)to)[i] = from[i];
    }
}

template <typename Env>
static __device__ __forceinline__ void reset_lanes(const struct dqn_env_args &a, unsigned spread) {
    __shared__ typename Env::params params;
    __shared__ float rows[DQN_BLOCK_LANES * Env::STRIDE];
    const struct dqn_block block = find_block(a);
    const unsigned own = own_lane(spread);
    load_params(&params, a.params);
    __syncthreads();
    if (own < block.n) {
        const size_t at = block.first + own;
        struct dqn_lane *lane = &a.lanes_state[at];
        dqn_lane_begin(lane);
        const struct dqn_env_key key =
            dqn_lane_reset_key(lane, a.agents[block.agent].seed,
                               dqn_rng_stream((enum dqn_purpose)a.purpose, block.lane + own));
        Env::reset((typename Env::state *)a.states + at, &params, &key, rows + own * Env::STRIDE);
    }
    __syncthreads();
    write_rows<Env>(a.obs_now, rows, block, a.obs_ld);
}

/* The step of one lane; whether its episode is over. */
template <typename Env>
static __device__ __forceinline__ bool
step_lane(const struct dqn_env_args &a, const typename Env::params *params, size_t agent, size_t at,
          uint64_t stream, uint32_t action, float *observation, struct dqn_env_outcome *outcome) {
    struct dqn_lane *lane = &a.lanes_state[at];
    typename Env::state *states = (typename Env::state *)a.states;
    typename Env::state state = states[at];
    const struct dqn_env_key key = dqn_lane_step_key(lane, a.agents[agent].seed, stream);
    *outcome = Env::step(&state, params, &key, action, observation);
    states[at] = state;
    return dqn_lane_record(lane, outcome, a.step_limit);
}

static __device__ __forceinline__ void write_outcome(const struct dqn_env_args &a, size_t at,
                                                     const struct dqn_env_outcome &outcome) {
    a.reward[at] = outcome.reward;
    a.terminated[at] = outcome.terminated;
    a.truncated[at] = outcome.truncated;
}

/* A lane whose only episode is over stays as it is. */
template <typename Env>
static __device__ __forceinline__ struct dqn_env_outcome rest_lane(const struct dqn_env_args &a,
                                                                   size_t at, float *observation) {
    struct dqn_env_outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    outcome.terminated = 1;
    for (int i = 0; i < Env::OBS; i++) {
        observation[i] = a.obs_now[at * a.obs_ld + i];
    }
    return outcome;
}

/* After an episode's end the next one, or in an evaluation none. */
template <typename Env>
static __device__ __forceinline__ void
go_on(const struct dqn_env_args &a, const typename Env::params *params, size_t agent, size_t at,
      uint64_t stream, bool over, float *observation) {
    struct dqn_lane *lane = &a.lanes_state[at];
    if (!over || a.freeze) {
        lane->frozen = (uint64_t)over;
        return;
    }
    lane->episode++;
    dqn_lane_begin(lane);
    const struct dqn_env_key next = dqn_lane_reset_key(lane, a.agents[agent].seed, stream);
    Env::reset((typename Env::state *)a.states + at, params, &next, observation);
}

template <typename Env>
static __device__ __forceinline__ void step_lanes(const struct dqn_env_args &a,
                                                  const struct dqn_tail &tail, unsigned spread) {
    __shared__ typename Env::params params;
    __shared__ float rows[DQN_BLOCK_LANES * Env::STRIDE];
    __shared__ struct dqn_leaving leaving;
    __shared__ bool ends;
    static_assert(
        sizeof params + sizeof rows + sizeof leaving + sizeof ends <= 48 * 1024,
        "32 lanes' observations and the parameters do not fit into a block's shared memory");
    const struct dqn_block block = find_block(a);
    const unsigned own = own_lane(spread);
    const bool exists = own < block.n;
    const size_t at = block.first + own;
    const uint64_t stream = dqn_rng_stream((enum dqn_purpose)a.purpose, block.lane + own);
    const bool steps = exists && !(a.freeze && a.lanes_state[at].frozen);
    float *observation = rows + own * Env::STRIDE;
    struct dqn_places places;
    bool over = false;
    load_params(&params, a.params);
    if (tail.present) {
        places = dqn_collect_find_places(tail, block);
        dqn_collect_take_before<Env::OBS>(tail, block, places, a.obs_now, a.obs_ld);
    } else if (a.obs_before != NULL) {
        keep_observations(a, block);
    }
    __syncthreads();
    if (exists) {
        const uint32_t action = a.action[at];
        struct dqn_env_outcome outcome;
        if (steps) {
            over =
                step_lane<Env>(a, &params, block.agent, at, stream, action, observation, &outcome);
        } else {
            outcome = rest_lane<Env>(a, at, observation);
        }
        if (tail.present) {
            dqn_collect_take_outcome(tail, block, places, own, action, outcome, &leaving);
        } else {
            write_outcome(a, at, outcome);
        }
    }
    __syncthreads();
    if (tail.present) {
        if (threadIdx.x == DQN_ENV_THREADS - 1) {
            ends = dqn_collect_is_last(tail);
        }
        dqn_collect_take_after<Env::OBS>(tail, block, places, rows, Env::STRIDE, &leaving);
        dqn_collect_take_leaves(tail, block, places, &leaving);
    } else {
        write_rows<Env>(a.obs_next, rows, block, a.obs_ld);
    }
    __syncthreads();
    if (steps) {
        go_on<Env>(a, &params, block.agent, at, stream, over, observation);
    }
    __syncthreads();
    float *const none = NULL; /* what pads the rows stays zero */
    dqn_collect_copy_rows<Env::OBS>(
        block.n, [&](unsigned i) { return rows + i * Env::STRIDE; },
        [&](unsigned i) { return a.obs_now + (block.first + i) * a.obs_ld; },
        [&](unsigned) { return none; });
    if (tail.present && ends) {
        dqn_collect_end_step(tail);
    } else if (!tail.present && threadIdx.x == 0 && blockIdx.x == 0) {
        a.counters[block.agent].vector_steps++;
        a.counters[block.agent].env_steps += a.lanes;
    }
}

/* k_reset_<name>, k_step_<name>. Grid: lanes / 32 x agents; block: 128; shared: the parameters and
 * the block's observations. One thread a lane; bound by the latency of its arithmetic and, for wide
 * observations, by memory. */
#define ENV_KERNELS(name, observations, actions, limit)                                            \
    static __global__ void __launch_bounds__(DQN_ENV_THREADS)                                      \
        k_reset_##name(const __grid_constant__ struct dqn_env_args a, unsigned spread) {           \
        reset_lanes<env_##name>(a, spread);                                                        \
    }                                                                                              \
    static __global__ void __launch_bounds__(DQN_ENV_THREADS)                                      \
        k_step_##name(const __grid_constant__ struct dqn_env_args a,                               \
                      const __grid_constant__ struct dqn_tail tail, unsigned spread) {             \
        step_lanes<env_##name>(a, tail, spread);                                                   \
    }
DQN_ENV_LIST(ENV_KERNELS)
#undef ENV_KERNELS

static dim3 lane_grid(size_t lanes, size_t n_agents) {
    return dim3((unsigned)((lanes + DQN_BLOCK_LANES - 1) / DQN_BLOCK_LANES), (unsigned)n_agents);
}

/* While there is a block a multiprocessor at most, its four warps share the lanes; results do not
 * depend on it. */
static unsigned choose_spread(struct dqn_queue *q, dim3 grid) {
    const struct dqn_cuda_queue *queue = dqn_cuda_queue_of(q);
    return grid.x * grid.y <= (unsigned)queue->device->n_sms ? DQN_ENV_THREADS / DQN_BLOCK_LANES
                                                             : 1;
}

static enum dqn_status reset(struct dqn_queue *q, const struct dqn_env_args *args) {
    const dim3 grid = lane_grid(args->lanes, args->n_agents);
    const unsigned spread = choose_spread(q, grid);
    switch (args->env) {
#define LAUNCH_RESET(name, observations, actions, limit)                                           \
    case DQN_ENV_##name:                                                                           \
        k_reset_##name<<<grid, DQN_ENV_THREADS, 0, dqn_cuda_stream(q)>>>(*args, spread);           \
        DQN_LAUNCHED(k_reset_##name);                                                              \
        break;
        DQN_ENV_LIST(LAUNCH_RESET)
#undef LAUNCH_RESET
    case DQN_ENV_COUNT:
        break;
    }
    return DQN_OK;
}

/* The kernel k_step_<name> of an environment, and its name. */
static const void *find_step(enum dqn_env_id env, const char **name) {
    switch (env) {
#define FIND_STEP(env_name, observations, actions, limit)                                          \
    case DQN_ENV_##env_name:                                                                       \
        *name = "k_step_" #env_name;                                                               \
        return (const void *)k_step_##env_name;
        DQN_ENV_LIST(FIND_STEP)
#undef FIND_STEP
    case DQN_ENV_COUNT:
        break;
    }
    return NULL;
}

enum dqn_status dqn_cuda_step_lanes(struct dqn_queue *q, const struct dqn_env_args *args,
                                    const struct dqn_tail *tail) {
    const char *name = NULL;
    const void *kernel = find_step(args->env, &name);
    const dim3 grid = lane_grid(args->lanes, args->n_agents), block = dim3(DQN_ENV_THREADS);
    unsigned spread = choose_spread(q, grid);
    void *values[] = {(void *)args, (void *)tail, &spread};
    cudaStream_t stream = dqn_cuda_stream(q);
    DQN_CHECK(kernel != NULL);
    if (tail->present) { /* env.step and others can stand in for it */
        DQN_CUDA_ASK(name, cudaLaunchKernel(kernel, grid, block, values, 0, stream));
        return DQN_OK;
    }
    (void)cudaLaunchKernel(kernel, grid, block, values, 0, stream);
    return dqn_cuda_launched(name); /* its error, by name */
}

static enum dqn_status step(struct dqn_queue *q, const struct dqn_env_args *args) {
    struct dqn_tail none;
    memset(&none, 0, sizeof none);
    return dqn_cuda_step_lanes(q, args, &none);
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

extern "C" const struct dqn_env_ops dqn_cuda_env_ops = {reset, step, nstep, clear_sums,
                                                        dqn_cuda_collect};
