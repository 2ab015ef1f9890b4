/* Environments on the GPU: one kernel a line of env_list.h around the same headers that the CPU
 * steps, and the n-step window. Built without fused multiply-add, so both sides agree bit for bit. */
#include "cuda_common.cuh"

#include "all_envs.h"
#include "../envs/lane.h"
#include "../src/shared/nstep.h"

enum { ENV_THREADS = 128 };

static __device__ void zero_padding(float *observation, size_t obs, size_t obs_ld) {
    for (size_t i = obs; i < obs_ld; i++) {
        observation[i] = 0.0f;
    }
}

static __device__ void copy_floats(float *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

/* k_reset_<name>, k_step_<name>. Grid: lanes / 128 x agents; block: 128; no shared memory. One
 * thread a lane; bound by the latency of its arithmetic and, for wide observations, by memory.
 * The step's first thread of an agent advances the counters, which the kernel does not read. */
#define ENV_KERNELS(name, observations, actions, limit)                                            \
    static __global__ void k_reset_##name(struct dqn_env_args a) {                                 \
        const size_t e = dqn_grid_first(), k = blockIdx.y;                                         \
        if (e >= a.lanes) {                                                                        \
            return;                                                                                \
        }                                                                                          \
        const size_t at = k * a.lanes + e;                                                         \
        struct dqn_lane *lane = &a.lanes_state[at];                                                \
        dqn_lane_begin(lane);                                                                      \
        const struct dqn_env_key key = dqn_lane_reset_key(                                         \
            lane, a.agents[k].seed, dqn_rng_stream((enum dqn_purpose)a.purpose, e));               \
        float *obs_now = a.obs_now + at * a.obs_ld;                                                \
        name##_reset((struct name##_state *)a.states + at, (const struct name##_params *)a.params, \
                     &key, obs_now);                                                               \
        zero_padding(obs_now, observations, a.obs_ld);                                             \
    }                                                                                              \
    static __global__ void k_step_##name(struct dqn_env_args a) {                                  \
        const size_t e = dqn_grid_first(), k = blockIdx.y;                                         \
        if (e >= a.lanes) {                                                                        \
            return;                                                                                \
        }                                                                                          \
        if (e == 0) {                                                                              \
            a.counters[k].vector_steps++;                                                          \
            a.counters[k].env_steps += a.lanes;                                                    \
        }                                                                                          \
        const size_t at = k * a.lanes + e;                                                         \
        struct dqn_lane *lane = &a.lanes_state[at];                                                \
        float *obs_now = a.obs_now + at * a.obs_ld;                                                \
        float *obs_next = a.obs_next + at * a.obs_ld;                                              \
        if (a.freeze && lane->frozen) {                                                            \
            copy_floats(obs_next, obs_now, a.obs_ld);                                              \
            a.reward[at] = 0.0f;                                                                   \
            a.terminated[at] = 1;                                                                  \
            a.truncated[at] = 0;                                                                   \
            return;                                                                                \
        }                                                                                          \
        const uint64_t seed = a.agents[k].seed;                                                    \
        const uint64_t stream = dqn_rng_stream((enum dqn_purpose)a.purpose, e);                    \
        const struct name##_params *params = (const struct name##_params *)a.params;               \
        struct name##_state *state = (struct name##_state *)a.states + at;                         \
        const struct dqn_env_key key = dqn_lane_step_key(lane, seed, stream);                      \
        struct dqn_env_outcome outcome =                                                           \
            name##_step(state, params, &key, a.action[at], obs_next);                              \
        zero_padding(obs_next, observations, a.obs_ld);                                            \
        const int over = dqn_lane_record(lane, &outcome, a.step_limit);                            \
        a.reward[at] = outcome.reward;                                                             \
        a.terminated[at] = outcome.terminated;                                                     \
        a.truncated[at] = outcome.truncated;                                                       \
        if (over && !a.freeze) {                                                                   \
            lane->episode++;                                                                       \
            dqn_lane_begin(lane);                                                                  \
            const struct dqn_env_key next = dqn_lane_reset_key(lane, seed, stream);                \
            name##_reset(state, params, &next, obs_now);                                           \
            zero_padding(obs_now, observations, a.obs_ld);                                         \
        } else {                                                                                   \
            lane->frozen = (uint64_t)over;                                                         \
            copy_floats(obs_now, obs_next, a.obs_ld);                                              \
        }                                                                                          \
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
    for (size_t i = thread; i < a.obs; i += DQN_WARP) {
        a.window_obs[to * a.obs + i] = a.obs_before[at * a.obs_ld + i];
        a.window_next[to * a.obs + i] = a.obs_next[at * a.obs_ld + i];
    }
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
    for (size_t i = thread; i < a.obs; i += DQN_WARP) {
        a.row_state[at * a.obs + i] = a.window_obs[from * a.obs + i];
        a.row_next[at * a.obs + i] = a.window_next[last * a.obs + i];
    }
    if (thread == 0) {
        a.row_action[at] = a.window_action[from];
        a.row_reward[at] = row.reward;
        a.row_discount[at] = row.discount;
        a.row_done[at] = row.done;
    }
}

static enum dqn_status nstep(struct dqn_queue *q, const struct dqn_nstep_args *args) {
    enum { LANES_A_BLOCK = ENV_THREADS / DQN_WARP };
    const dim3 grid((unsigned)((args->lanes + LANES_A_BLOCK - 1) / LANES_A_BLOCK),
                    (unsigned)args->n_agents);
    k_shift_window<<<grid, ENV_THREADS, 0, dqn_cuda_stream(q)>>>(*args);
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
    k_clear_lane_sums<<<dqn_cuda_blocks(n, ENV_THREADS), ENV_THREADS, 0, dqn_cuda_stream(q)>>>(
        lanes, n);
    DQN_LAUNCHED(k_clear_lane_sums);
    return DQN_OK;
}

extern "C" const struct dqn_env_ops dqn_cuda_env_ops = {reset, step, nstep, clear_sums};
