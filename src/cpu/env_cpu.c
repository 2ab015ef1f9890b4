/* Environments on the CPU: the loops around the headers of envs/, one for each line of env_list.h,
 * and the n-step window. Work is split into fixed chunks of lanes, so that no result depends on the
 * number of threads. */
#include "cpu.h"

#include <string.h>

#include "../../envs/lane.h"
#include "../shared/nstep.h"
#include "all_envs.h"

enum { CHUNK_LANES = 64 };

/* Lanes [begin, end) of agent k. */
struct chunk {
    size_t k, begin, end;
};

static size_t chunks_of(size_t lanes) {
    return (lanes + CHUNK_LANES - 1) / CHUNK_LANES;
}

static struct chunk chunk_at(size_t lanes, size_t i) {
    const size_t n = chunks_of(lanes);
    struct chunk chunk = {.k = i / n, .begin = i % n * CHUNK_LANES};
    chunk.end = lanes - chunk.begin < CHUNK_LANES ? lanes : chunk.begin + CHUNK_LANES;
    return chunk;
}

static void zero_padding(float *observation, size_t obs, size_t obs_ld) {
    for (size_t i = obs; i < obs_ld; i++) {
        observation[i] = 0.0f;
    }
}

static void copy_floats(float *DQN_RESTRICT to, const float *DQN_RESTRICT from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

/* A lane that has run its episode stands still: as if each step ended it again, for nothing. */
static void step_frozen(const struct dqn_env_args *a, size_t at) {
    copy_floats(a->obs_next + at * a->obs_ld, a->obs_now + at * a->obs_ld, a->obs_ld);
    a->reward[at] = 0.0f;
    a->terminated[at] = 1;
    a->truncated[at] = 0;
}

/* reset_<name> and step_<name>: the loops over the lanes of a chunk, with the environment inlined.
 */
#define ENV_LOOPS(name, observations, actions, limit)                                              \
    static void reset_##name(void *context, size_t i) {                                            \
        const struct dqn_env_args *a = context;                                                    \
        const struct chunk chunk = chunk_at(a->lanes, i);                                          \
        for (size_t e = chunk.begin; e < chunk.end; e++) {                                         \
            const size_t at = chunk.k * a->lanes + e;                                              \
            struct dqn_lane *lane = &a->lanes_state[at];                                           \
            dqn_lane_begin(lane);                                                                  \
            const struct dqn_env_key key = dqn_lane_reset_key(                                     \
                lane, a->agents[chunk.k].seed, dqn_rng_stream((enum dqn_purpose)a->purpose, e));   \
            float *obs_now = a->obs_now + at * a->obs_ld;                                          \
            name##_reset((struct name##_state *)a->states + at, a->params, &key, obs_now);         \
            zero_padding(obs_now, observations, a->obs_ld);                                        \
        }                                                                                          \
    }                                                                                              \
    static void step_##name(void *context, size_t i) {                                             \
        const struct dqn_env_args *a = context;                                                    \
        const struct chunk chunk = chunk_at(a->lanes, i);                                          \
        for (size_t e = chunk.begin; e < chunk.end; e++) {                                         \
            const size_t at = chunk.k * a->lanes + e;                                              \
            struct dqn_lane *lane = &a->lanes_state[at];                                           \
            if (a->freeze && lane->frozen) {                                                       \
                step_frozen(a, at);                                                                \
                continue;                                                                          \
            }                                                                                      \
            const uint64_t seed = a->agents[chunk.k].seed;                                         \
            const uint64_t stream = dqn_rng_stream((enum dqn_purpose)a->purpose, e);               \
            struct name##_state *state = (struct name##_state *)a->states + at;                    \
            float *obs_now = a->obs_now + at * a->obs_ld;                                          \
            float *obs_next = a->obs_next + at * a->obs_ld;                                        \
            const struct dqn_env_key key = dqn_lane_step_key(lane, seed, stream);                  \
            struct dqn_env_outcome outcome =                                                       \
                name##_step(state, a->params, &key, a->action[at], obs_next);                      \
            zero_padding(obs_next, observations, a->obs_ld);                                       \
            const int over = dqn_lane_record(lane, &outcome, a->step_limit);                       \
            a->reward[at] = outcome.reward;                                                        \
            a->terminated[at] = outcome.terminated;                                                \
            a->truncated[at] = outcome.truncated;                                                  \
            if (over && !a->freeze) {                                                              \
                lane->episode++;                                                                   \
                dqn_lane_begin(lane);                                                              \
                const struct dqn_env_key next = dqn_lane_reset_key(lane, seed, stream);            \
                name##_reset(state, a->params, &next, obs_now);                                    \
                zero_padding(obs_now, observations, a->obs_ld);                                    \
            } else {                                                                               \
                lane->frozen = (uint64_t)over;                                                     \
                copy_floats(obs_now, obs_next, a->obs_ld);                                         \
            }                                                                                      \
        }                                                                                          \
    }
DQN_ENV_LIST(ENV_LOOPS)
#undef ENV_LOOPS

typedef void (*chunk_body)(void *context, size_t i);

#define ENV_RESET(name, observations, actions, limit) reset_##name,
#define ENV_STEP(name, observations, actions, limit) step_##name,
static const chunk_body reset_bodies[] = {DQN_ENV_LIST(ENV_RESET)};
static const chunk_body step_bodies[] = {DQN_ENV_LIST(ENV_STEP)};
#undef ENV_RESET
#undef ENV_STEP

static enum dqn_status run_reset(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_env_args a = *(const struct dqn_env_args *)args;
    dqn_cpu_for(pool, a.n_agents * chunks_of(a.lanes), reset_bodies[a.env], &a);
    return DQN_OK;
}

static const char *name_of(float x) {
    return dqn_float_is_nan(x) ? "nan" : x > 0.0f ? "inf" : "-inf";
}

/* Names the first number of a lane's step that is none: training on it would be nonsense. */
static enum dqn_status refuse_lane(const struct dqn_env_args *a, size_t k, size_t e) {
    const size_t at = k * a->lanes + e;
    const unsigned long long step = (unsigned long long)a->counters[k].vector_steps;
    for (size_t i = 0; i < a->obs; i++) {
        const float x = a->obs_next[at * a->obs_ld + i];
        if (!dqn_float_is_finite(x)) {
            return dqn_fail(
                DQN_ERR_NONFINITE,
                "environment %s: observation %zu of lane %zu (agent %zu) is %s in vector "
                "step %llu",
                dqn_env_name(a->env), i, e, k, name_of(x), step);
        }
    }
    return dqn_fail(DQN_ERR_NONFINITE,
                    "environment %s: the reward of lane %zu (agent %zu) is %s in vector step %llu",
                    dqn_env_name(a->env), e, k, name_of(a->reward[at]), step);
}

/* A number times zero is zero, unless it is infinite or none: one sum tells of a whole lane. */
static enum dqn_status check_finite(const struct dqn_env_args *a) {
    for (size_t k = 0; k < a->n_agents; k++) {
        for (size_t e = 0; e < a->lanes; e++) {
            const size_t at = k * a->lanes + e;
            float sum = 0.0f * a->reward[at];
            for (size_t i = 0; i < a->obs; i++) {
                sum += 0.0f * a->obs_next[at * a->obs_ld + i];
            }
            if (sum != 0.0f) {
                return refuse_lane(a, k, e);
            }
        }
    }
    return DQN_OK;
}

static enum dqn_status run_step(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_env_args a = *(const struct dqn_env_args *)args;
    if (a.obs_before != NULL) {
        memcpy(a.obs_before, a.obs_now, a.n_agents * a.lanes * a.obs_ld * sizeof(float));
    }
    dqn_cpu_for(pool, a.n_agents * chunks_of(a.lanes), step_bodies[a.env], &a);
    for (size_t k = 0; k < a.n_agents; k++) {
        a.counters[k].vector_steps++;
        a.counters[k].env_steps += a.lanes;
    }
    return check_finite(&a);
}

/* Stores this step's transition of each lane of a chunk, then emits the oldest one. */
static void nstep_chunk(void *context, size_t i) {
    const struct dqn_nstep_args *a = context;
    const struct chunk chunk = chunk_at(a->lanes, i);
    const uint64_t vector_steps = a->counters[chunk.k].vector_steps;
    const size_t slot = dqn_nstep_slot(vector_steps, a->n_step);
    const size_t first = slot + 1 == a->n_step ? 0 : slot + 1; /* the oldest of a full window */
    const size_t window = chunk.k * a->n_step * a->lanes;
    const size_t obs_bytes = a->obs * sizeof(float);
    for (size_t e = chunk.begin; e < chunk.end; e++) {
        const size_t at = chunk.k * a->lanes + e;
        const size_t to = window + slot * a->lanes + e;
        memcpy(a->window_obs + to * a->obs, a->obs_before + at * a->obs_ld, obs_bytes);
        memcpy(a->window_next + to * a->obs, a->obs_next + at * a->obs_ld, obs_bytes);
        a->window_action[to] = a->action[at];
        a->window_reward[to] = a->reward[at];
        a->window_end[to] = a->terminated[at]  ? DQN_WINDOW_TERMINATED
                            : a->truncated[at] ? DQN_WINDOW_TRUNCATED
                                               : DQN_WINDOW_GOES_ON;
        if (vector_steps < a->n_step) {
            continue;
        }
        const struct dqn_nstep_row row =
            dqn_nstep_sum(a->window_reward + window + e, a->window_end + window + e, a->lanes,
                          first, a->n_step, a->agents[chunk.k].gamma);
        const size_t from = window + first * a->lanes + e;
        const size_t last = window + row.last_slot * a->lanes + e;
        memcpy(a->row_state + at * a->obs, a->window_obs + from * a->obs, obs_bytes);
        memcpy(a->row_next + at * a->obs, a->window_next + last * a->obs, obs_bytes);
        a->row_action[at] = a->window_action[from];
        a->row_reward[at] = row.reward;
        a->row_discount[at] = row.discount;
        a->row_done[at] = row.done;
    }
}

static enum dqn_status run_nstep(struct dqn_cpu_pool *pool, const void *args) {
    struct dqn_nstep_args a = *(const struct dqn_nstep_args *)args;
    dqn_cpu_for(pool, a.n_agents * chunks_of(a.lanes), nstep_chunk, &a);
    return DQN_OK;
}

struct clear_args {
    struct dqn_lane *lanes;
    size_t n;
};

static enum dqn_status run_clear_sums(struct dqn_cpu_pool *pool, const void *args) {
    (void)pool;
    const struct clear_args *a = args;
    for (size_t i = 0; i < a->n; i++) {
        dqn_lane_clear_sums(&a->lanes[i]);
    }
    return DQN_OK;
}

static enum dqn_status reset(struct dqn_queue *q, const struct dqn_env_args *args) {
    return dqn_cpu_submit(q, run_reset, args, sizeof *args);
}

static enum dqn_status step(struct dqn_queue *q, const struct dqn_env_args *args) {
    return dqn_cpu_submit(q, run_step, args, sizeof *args);
}

static enum dqn_status nstep(struct dqn_queue *q, const struct dqn_nstep_args *args) {
    return dqn_cpu_submit(q, run_nstep, args, sizeof *args);
}

static enum dqn_status clear_sums(struct dqn_queue *q, struct dqn_lane *lanes, size_t n) {
    const struct clear_args args = {.lanes = lanes, .n = n};
    return dqn_cpu_submit(q, run_clear_sums, &args, sizeof args);
}

const struct dqn_env_ops dqn_cpu_env_ops = {
    .reset = reset, .step = step, .nstep = nstep, .clear_sums = clear_sums};
