/* The loop around environments and the n-step window of the CPU backend, against slow models of one
 * lane: automatic resets keep the true last observation, ends are told apart, and windows never
 * cross an episode or a lane. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../envs/lane.h"
#include "all_envs.h"
#include "backend.h"

/* ---- a vector of environments in host memory ------------------------------------------------- */

struct rig {
    struct dqn_device device;
    struct dqn_queue *q;
};

static struct rig rig_open(int threads, bool late) {
    struct rig rig;
    const struct dqn_backend *cpu = dqn_backend_find("cpu");
    const struct dqn_device_options options = {.threads = threads, .late_queue = late};
    cr_assert(cpu->memory->open(&rig.device, &options) == DQN_OK, "%s", dqn_error_text());
    cr_assert(cpu->queue->create(&rig.device, &rig.q) == DQN_OK, "%s", dqn_error_text());
    return rig;
}

static void rig_close(struct rig *rig) {
    rig->device.backend->queue->destroy(rig->q);
    rig->device.backend->memory->close(&rig->device);
}

static const struct dqn_env_ops *ops(const struct rig *rig) {
    return rig->device.backend->env;
}

static void wait_for(struct rig *rig) {
    cr_assert(rig->device.backend->queue->wait(rig->q) == DQN_OK, "%s", dqn_error_text());
}

static void *zeros(size_t count, size_t size) {
    void *data = calloc(count, size);
    cr_assert(data != NULL);
    return data;
}

/* Buffers of a vector of environments. Observations start as NaN: what is not written shows. */
struct vector {
    struct dqn_env_args a;
    struct dqn_agent *agents;
    uint32_t *action;
    void *params;
    size_t n; /* K * E */
};

static void fill_nan(float *data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        data[i] = NAN;
    }
}

static struct vector vector_create(enum dqn_env_id env, size_t n_agents, size_t lanes,
                                   uint64_t step_limit, uint64_t first_seed) {
    struct vector v = {.n = n_agents * lanes};
    v.agents = zeros(n_agents, sizeof *v.agents);
    v.action = zeros(v.n, sizeof *v.action);
    v.params = zeros(1, dqn_env_params_bytes(env));
    for (size_t k = 0; k < n_agents; k++) {
        v.agents[k].seed = first_seed + k;
    }
    if (env == DQN_ENV_cartpole) {
        cartpole_defaults(v.params);
    } else if (env == DQN_ENV_acrobot) {
        acrobot_defaults(v.params);
    } else {
        mountain_car_defaults(v.params);
    }
    v.a = (struct dqn_env_args){.env = env,
                                .n_agents = n_agents,
                                .lanes = lanes,
                                .obs = dqn_env_observations(env),
                                .obs_ld = 8, /* wider than needed: padding is seen */
                                .agents = v.agents,
                                .purpose = DQN_RNG_ENV,
                                .step_limit = step_limit,
                                .params = v.params,
                                .states = zeros(v.n, dqn_env_state_bytes(env)),
                                .lanes_state = zeros(v.n, sizeof(struct dqn_lane)),
                                .counters = zeros(n_agents, sizeof(struct dqn_counters)),
                                .obs_now = zeros(v.n * 8, sizeof(float)),
                                .action = v.action,
                                .obs_next = zeros(v.n * 8, sizeof(float)),
                                .reward = zeros(v.n, sizeof(float)),
                                .terminated = zeros(v.n, 1),
                                .truncated = zeros(v.n, 1)};
    fill_nan(v.a.obs_now, v.n * 8);
    fill_nan(v.a.obs_next, v.n * 8);
    return v;
}

static void vector_destroy(struct vector *v) {
    free(v->agents);
    free(v->action);
    free(v->params);
    free(v->a.states);
    free(v->a.lanes_state);
    free(v->a.counters);
    free(v->a.obs_now);
    free(v->a.obs_next);
    free(v->a.reward);
    free(v->a.terminated);
    free(v->a.truncated);
}

static void vector_start(struct rig *rig, struct vector *v) {
    cr_assert(ops(rig)->clear_sums(rig->q, v->a.lanes_state, v->n) == DQN_OK);
    cr_assert(ops(rig)->reset(rig->q, &v->a) == DQN_OK);
    wait_for(rig);
}

/* A random number for agent seed, lane and time: tests have their own streams. */
static uint64_t noise(uint64_t seed, uint64_t lane, uint64_t time) {
    return dqn_rng_u64(dqn_rng_block(seed, 777777 + lane, time), 0);
}

/* Random actions, equal for equal seed, lane and time. */
static void vector_step(struct rig *rig, struct vector *v, uint64_t time) {
    for (size_t i = 0; i < v->n; i++) {
        const uint64_t seed = v->agents[i / v->a.lanes].seed;
        v->action[i] =
            (uint32_t)dqn_rng_below(noise(seed, i % v->a.lanes, time), dqn_env_actions(v->a.env));
    }
    cr_assert(ops(rig)->step(rig->q, &v->a) == DQN_OK);
    wait_for(rig);
}

/* ---- the loop against a model of one lane ---------------------------------------------------- */

/* One cart-pole lane as a person would write it. */
struct model {
    struct cartpole_state state;
    uint64_t episode, length;
    double sum, returns, low, high;
    uint64_t episodes, steps;
};

static void model_start(struct model *m, const struct vector *v, size_t i, float *obs) {
    const struct dqn_env_key key = {.seed = v->agents[i / v->a.lanes].seed,
                                    .stream = ((uint64_t)DQN_RNG_ENV << 56) | (i % v->a.lanes),
                                    .episode = m->episode,
                                    .step = 0};
    cartpole_reset(&m->state, v->params, &key, obs);
    m->length = 0;
    m->sum = 0.0;
}

/* Steps one lane, compares everything, and leaves what the agent shall see next in `now`. */
static void model_check(struct model *m, const struct vector *v, size_t i, float *now) {
    const struct dqn_env_key unused = {0};
    float next[4];
    struct dqn_env_outcome out = cartpole_step(&m->state, v->params, &unused, v->action[i], next);
    m->length++;
    m->sum += 1.0;
    const int limit = !out.terminated && m->length == v->a.step_limit;
    cr_assert(memcmp(next, v->a.obs_next + i * 8, sizeof next) == 0, "lane %zu: next", i);
    cr_assert(v->a.reward[i] == 1.0f && v->a.terminated[i] == out.terminated &&
                  v->a.truncated[i] == limit,
              "lane %zu: outcome", i);
    memcpy(now, next, sizeof next);
    if (out.terminated || limit) {
        m->episodes++;
        m->steps += m->length;
        m->returns += m->sum;
        m->low = fmin(m->low, m->sum);
        m->high = fmax(m->high, m->sum);
        m->episode++;
        model_start(m, v, i, now);
    }
    cr_assert(memcmp(now, v->a.obs_now + i * 8, sizeof next) == 0, "lane %zu: now", i);
    for (int p = 4; p < 8; p++) {
        cr_assert(v->a.obs_now[i * 8 + p] == 0.0f && v->a.obs_next[i * 8 + p] == 0.0f, "padding");
    }
}

static void check_loop(size_t lanes) {
    struct rig rig = rig_open(1, false);
    struct vector v = vector_create(DQN_ENV_cartpole, 2, lanes, 25, 5);
    struct model *models = zeros(v.n, sizeof *models);
    uint64_t terminated = 0, truncated = 0;
    vector_start(&rig, &v);
    for (size_t i = 0; i < v.n; i++) {
        float obs[4];
        models[i].low = INFINITY;
        models[i].high = -INFINITY;
        model_start(&models[i], &v, i, obs);
        cr_assert(memcmp(obs, v.a.obs_now + i * 8, sizeof obs) == 0, "first observation");
    }
    for (uint64_t t = 0; t < 300; t++) {
        vector_step(&rig, &v, t);
        for (size_t i = 0; i < v.n; i++) {
            float now[4];
            model_check(&models[i], &v, i, now);
            terminated += v.a.terminated[i];
            truncated += v.a.truncated[i];
        }
    }
    uint64_t finished = 0, running = 0;
    for (size_t i = 0; i < v.n; i++) {
        const struct dqn_lane *lane = &v.a.lanes_state[i];
        const struct model *m = &models[i];
        cr_assert(lane->episode == m->episode && lane->step == m->length && lane->frozen == 0);
        cr_assert(lane->episode_return == m->sum && lane->sum_return == m->returns);
        cr_assert(lane->sum_episodes == m->episodes && lane->sum_steps == m->steps);
        cr_assert(lane->min_return == m->low && lane->max_return == m->high);
        finished += lane->sum_steps;
        running += lane->step;
    }
    cr_expect(finished + running == 300 * v.n, "every step belongs to one episode");
    cr_expect(terminated > 0 && truncated > 0, "both ends occur");
    for (size_t k = 0; k < 2; k++) {
        cr_expect(v.a.counters[k].vector_steps == 300);
        cr_expect(v.a.counters[k].env_steps == 300 * lanes);
    }
    cr_assert(ops(&rig)->clear_sums(rig.q, v.a.lanes_state, v.n) == DQN_OK);
    wait_for(&rig);
    for (size_t i = 0; i < v.n; i++) {
        const struct dqn_lane *lane = &v.a.lanes_state[i];
        cr_expect(lane->sum_episodes == 0 && lane->sum_steps == 0 && lane->sum_return == 0.0);
        cr_expect(lane->min_return == INFINITY && lane->max_return == -INFINITY);
        cr_expect(lane->step == models[i].length, "the running episode goes on");
    }
    free(models);
    vector_destroy(&v);
    rig_close(&rig);
}

Test(env_loop, equals_a_model_of_one_lane) {
    check_loop(1);
    check_loop(16);
    check_loop(65);
}

Test(env_loop, observations_chain_within_an_episode) {
    struct rig rig = rig_open(2, false);
    struct vector v = vector_create(DQN_ENV_mountain_car, 1, 65, 40, 9);
    float *before = zeros(v.n * 8, sizeof *before);
    vector_start(&rig, &v);
    for (uint64_t t = 0; t < 200; t++) {
        memcpy(before, v.a.obs_now, v.n * 8 * sizeof *before);
        vector_step(&rig, &v, t);
        for (size_t i = 0; i < v.n; i++) {
            const bool over = v.a.terminated[i] || v.a.truncated[i];
            const float *now = v.a.obs_now + i * 8, *next = v.a.obs_next + i * 8;
            cr_assert(over == (t % 40 == 39), "lane %zu ends at %d", i, (int)t);
            cr_assert((memcmp(now, next, 8 * sizeof(float)) == 0) == !over);
            /* The true next observation is one step away: position moves by the new velocity. */
            cr_assert(fabsf(next[0] - before[i * 8] - next[1]) < 2e-7f, "lane %zu", i);
            cr_assert(!over || now[1] == 0.0f, "a new episode starts at rest");
        }
    }
    free(before);
    vector_destroy(&v);
    rig_close(&rig);
}

Test(env_loop, frozen_lanes_stand_still) {
    struct rig rig = rig_open(2, false);
    struct vector v = vector_create(DQN_ENV_cartpole, 1, 65, 20, 3);
    const size_t state_bytes = v.n * sizeof(struct cartpole_state);
    v.a.freeze = true;
    vector_start(&rig, &v);
    for (uint64_t t = 0; t < 20; t++) {
        vector_step(&rig, &v, t);
    }
    void *states = zeros(1, state_bytes);
    struct dqn_lane *lanes = zeros(v.n, sizeof *lanes);
    float *obs = zeros(v.n * 8, sizeof *obs);
    memcpy(states, v.a.states, state_bytes);
    memcpy(lanes, v.a.lanes_state, v.n * sizeof *lanes);
    memcpy(obs, v.a.obs_now, v.n * 8 * sizeof *obs);
    vector_step(&rig, &v, 20);
    cr_expect(memcmp(states, v.a.states, state_bytes) == 0, "states moved");
    cr_expect(memcmp(lanes, v.a.lanes_state, v.n * sizeof *lanes) == 0, "lanes moved");
    cr_expect(memcmp(obs, v.a.obs_now, v.n * 8 * sizeof *obs) == 0);
    cr_expect(memcmp(obs, v.a.obs_next, v.n * 8 * sizeof *obs) == 0);
    for (size_t i = 0; i < v.n; i++) {
        cr_expect(lanes[i].frozen == 1 && lanes[i].sum_episodes == 1 && lanes[i].episode == 0);
        cr_expect(lanes[i].sum_steps == lanes[i].step && lanes[i].step <= 20);
        cr_expect(v.a.reward[i] == 0.0f && v.a.terminated[i] == 1 && v.a.truncated[i] == 0);
    }
    /* A reset begins the episode that the lane names, and thaws. */
    for (size_t i = 0; i < v.n; i++) {
        v.a.lanes_state[i].episode = 7;
    }
    vector_start(&rig, &v);
    struct model m = {.episode = 7};
    float first[4];
    model_start(&m, &v, 64, first);
    cr_expect(memcmp(first, v.a.obs_now + 64 * 8, sizeof first) == 0);
    cr_expect(v.a.lanes_state[64].frozen == 0 && v.a.lanes_state[64].step == 0);
    free(states);
    free(lanes);
    free(obs);
    vector_destroy(&v);
    rig_close(&rig);
}

/* ---- equal bytes ----------------------------------------------------------------------------- */

static struct vector run_vector(enum dqn_env_id env, int threads, bool late, size_t n_agents,
                                uint64_t seed) {
    struct rig rig = rig_open(threads, late);
    struct vector v = vector_create(env, n_agents, 130, 50, seed);
    vector_start(&rig, &v);
    for (uint64_t t = 0; t < 120; t++) {
        vector_step(&rig, &v, t);
    }
    rig_close(&rig);
    return v;
}

/* Agents [k, k + count) of a against b's all. */
static void expect_equal(const struct vector *a, size_t k, const struct vector *b) {
    const size_t at = k * a->a.lanes, n = b->n;
    const size_t state = dqn_env_state_bytes(a->a.env);
    cr_expect(memcmp((char *)a->a.states + at * state, b->a.states, n * state) == 0, "states");
    cr_expect(memcmp(a->a.lanes_state + at, b->a.lanes_state, n * sizeof(struct dqn_lane)) == 0);
    cr_expect(memcmp(a->a.obs_now + at * 8, b->a.obs_now, n * 8 * sizeof(float)) == 0, "now");
    cr_expect(memcmp(a->a.obs_next + at * 8, b->a.obs_next, n * 8 * sizeof(float)) == 0, "next");
    cr_expect(memcmp(a->a.reward + at, b->a.reward, n * sizeof(float)) == 0, "reward");
    cr_expect(memcmp(a->a.terminated + at, b->a.terminated, n) == 0, "terminated");
    cr_expect(memcmp(a->a.truncated + at, b->a.truncated, n) == 0, "truncated");
}

Test(env_loop, threads_and_queues_change_nothing) {
    struct vector one = run_vector(DQN_ENV_acrobot, 1, false, 2, 11);
    struct vector two = run_vector(DQN_ENV_acrobot, 2, false, 2, 11);
    struct vector three = run_vector(DQN_ENV_acrobot, 3, true, 2, 11);
    expect_equal(&one, 0, &two);
    expect_equal(&one, 0, &three);
    vector_destroy(&one);
    vector_destroy(&two);
    vector_destroy(&three);
}

Test(env_loop, agents_together_equal_agents_alone) {
    struct vector all = run_vector(DQN_ENV_cartpole, 2, false, 3, 21);
    for (size_t k = 0; k < 3; k++) {
        struct vector alone = run_vector(DQN_ENV_cartpole, 1, false, 1, 21 + k);
        expect_equal(&all, k, &alone);
        vector_destroy(&alone);
    }
    cr_expect(memcmp(all.a.obs_now, all.a.obs_now + 130 * 8, 130 * 8 * sizeof(float)) != 0,
              "agents of different seeds differ");
    vector_destroy(&all);
}

Test(env_loop, everything_is_finite) {
    static const enum dqn_env_id envs[] = {DQN_ENV_cartpole, DQN_ENV_acrobot, DQN_ENV_mountain_car};
    for (size_t n = 0; n < DQN_COUNT_OF(envs); n++) {
        struct rig rig = rig_open(1, false);
        struct vector v = vector_create(envs[n], 1, 33, dqn_env_step_limit(envs[n]), 31);
        vector_start(&rig, &v);
        for (uint64_t t = 0; t < 700; t++) {
            vector_step(&rig, &v, t);
            for (size_t i = 0; i < v.n * 8; i++) {
                cr_assert(isfinite(v.a.obs_now[i]) && isfinite(v.a.obs_next[i]), "%s",
                          dqn_env_name(envs[n]));
            }
            for (size_t i = 0; i < v.n; i++) {
                cr_assert(isfinite(v.a.reward[i]) && v.a.terminated[i] + v.a.truncated[i] <= 1);
                cr_assert(v.a.lanes_state[i].step < dqn_env_step_limit(envs[n]));
            }
        }
        vector_destroy(&v);
        rig_close(&rig);
    }
}

/* ---- the n-step window ----------------------------------------------------------------------- */

enum { OBS = 3, OBS_LD = 4, MAX_TIME = 64 };

/* A made-up run: observations name lane, episode and step. */
struct tape {
    size_t n_agents, lanes, n_step;
    struct dqn_nstep_args a;
    struct dqn_agent *agents;
    struct dqn_counters *counters;
    float *before, *next, *reward;
    uint32_t *action;
    uint8_t *terminated, *truncated;
    /* what happened, [time][K * E], for the model */
    float *all_reward;
    uint8_t *all_end;
    uint32_t *episode, *step;         /* of the transition at a time */
    uint32_t *now_episode, *now_step; /* [K * E] */
    uint64_t time;
};

static struct tape tape_create(size_t n_agents, size_t lanes, size_t n_step, double gamma) {
    const size_t n = n_agents * lanes;
    struct tape t = {.n_agents = n_agents, .lanes = lanes, .n_step = n_step};
    t.agents = zeros(n_agents, sizeof *t.agents);
    t.counters = zeros(n_agents, sizeof *t.counters);
    for (size_t k = 0; k < n_agents; k++) {
        t.agents[k].gamma = gamma;
        t.agents[k].seed = 40 + k;
    }
    t.before = zeros(n * OBS_LD, sizeof(float));
    t.next = zeros(n * OBS_LD, sizeof(float));
    t.reward = zeros(n, sizeof(float));
    t.action = zeros(n, sizeof(uint32_t));
    t.terminated = zeros(n, 1);
    t.truncated = zeros(n, 1);
    t.all_reward = zeros(MAX_TIME * n, sizeof(float));
    t.all_end = zeros(MAX_TIME * n, 1);
    t.episode = zeros(MAX_TIME * n, sizeof(uint32_t));
    t.step = zeros(MAX_TIME * n, sizeof(uint32_t));
    t.now_episode = zeros(n, sizeof(uint32_t));
    t.now_step = zeros(n, sizeof(uint32_t));
    t.a = (struct dqn_nstep_args){.n_agents = n_agents,
                                  .lanes = lanes,
                                  .obs = OBS,
                                  .obs_ld = OBS_LD,
                                  .n_step = n_step,
                                  .agents = t.agents,
                                  .counters = t.counters,
                                  .obs_before = t.before,
                                  .obs_next = t.next,
                                  .action = t.action,
                                  .reward = t.reward,
                                  .terminated = t.terminated,
                                  .truncated = t.truncated,
                                  .window_obs = zeros(n * n_step * OBS, sizeof(float)),
                                  .window_next = zeros(n * n_step * OBS, sizeof(float)),
                                  .window_action = zeros(n * n_step, sizeof(uint32_t)),
                                  .window_reward = zeros(n * n_step, sizeof(float)),
                                  .window_end = zeros(n * n_step, 1),
                                  .row_state = zeros(n * OBS, sizeof(float)),
                                  .row_next = zeros(n * OBS, sizeof(float)),
                                  .row_action = zeros(n, sizeof(uint32_t)),
                                  .row_reward = zeros(n, sizeof(float)),
                                  .row_discount = zeros(n, sizeof(float)),
                                  .row_done = zeros(n, 1)};
    return t;
}

static void tape_destroy(struct tape *t) {
    void *all[] = {t->agents,       t->counters,        t->before,          t->next,
                   t->reward,       t->action,          t->terminated,      t->truncated,
                   t->all_reward,   t->all_end,         t->episode,         t->step,
                   t->now_episode,  t->now_step,        t->a.window_obs,    t->a.window_next,
                   t->a.window_end, t->a.window_action, t->a.window_reward, t->a.row_state,
                   t->a.row_next,   t->a.row_action,    t->a.row_reward,    t->a.row_discount,
                   t->a.row_done};
    for (size_t i = 0; i < DQN_COUNT_OF(all); i++) {
        free(all[i]);
    }
}

static void encode(float *obs, size_t lane, uint32_t episode, uint32_t step) {
    obs[0] = (float)lane;
    obs[1] = (float)episode;
    obs[2] = (float)step;
}

/* Sets what lane i does at this time: a reward, and 0 goes on, 1 terminated, 2 truncated. */
static void tape_set(struct tape *t, size_t i, float reward, int end) {
    const size_t at = t->time * t->n_agents * t->lanes + i;
    encode(t->before + i * OBS_LD, i, t->now_episode[i], t->now_step[i]);
    encode(t->next + i * OBS_LD, i, t->now_episode[i], t->now_step[i] + 1);
    t->reward[i] = t->all_reward[at] = reward;
    t->all_end[at] = (uint8_t)end;
    t->terminated[i] = end == 1;
    t->truncated[i] = end == 2;
    t->action[i] = (uint32_t)(t->time * 100 + i);
    t->episode[at] = t->now_episode[i];
    t->step[at] = t->now_step[i];
    t->now_episode[i] += end != 0;
    t->now_step[i] = end != 0 ? 0 : t->now_step[i] + 1;
}

static void tape_run(struct rig *rig, struct tape *t) {
    for (size_t k = 0; k < t->n_agents; k++) {
        t->counters[k].vector_steps++;
    }
    cr_assert(ops(rig)->nstep(rig->q, &t->a) == DQN_OK);
    wait_for(rig);
    t->time++;
}

/* The row of lane i that starts at time `from`, by the list of everything that happened. */
static void tape_check_row(const struct tape *t, size_t i, size_t from) {
    const size_t n = t->n_agents * t->lanes;
    const double gamma = t->agents[0].gamma;
    double sum = 0.0;
    size_t m = 0;
    int end = 0;
    while (m < t->n_step && end == 0) {
        const size_t at = (from + m) * n + i;
        sum += pow(gamma, (double)m) * (double)t->all_reward[at];
        end = t->all_end[at];
        m++;
    }
    float state[OBS], next[OBS];
    encode(state, i, t->episode[from * n + i], t->step[from * n + i]);
    encode(next, i, t->episode[from * n + i], t->step[from * n + i] + (uint32_t)m);
    cr_assert(memcmp(state, t->a.row_state + i * OBS, sizeof state) == 0, "state of lane %zu", i);
    cr_assert(memcmp(next, t->a.row_next + i * OBS, sizeof next) == 0, "next of lane %zu", i);
    cr_assert(t->a.row_action[i] == (uint32_t)(from * 100 + i));
    /* Rounded once from double to float; seen: equal. */
    cr_assert(fabs((double)t->a.row_reward[i] - sum) <= 6e-8 * fabs(sum), "reward of lane %zu", i);
    cr_assert(fabs((double)t->a.row_discount[i] - pow(gamma, (double)m)) <= 6e-8);
    cr_assert(t->a.row_done[i] == (end == 1), "done of lane %zu", i);
}

static void check_random_tape(size_t n_agents, size_t lanes, size_t n_step, int threads) {
    struct rig rig = rig_open(threads, false);
    struct tape t = tape_create(n_agents, lanes, n_step, 0.97);
    while (t.time < MAX_TIME) {
        for (size_t i = 0; i < n_agents * lanes; i++) {
            const uint64_t word = noise(50, i, t.time);
            const int end = word % 5 == 0 ? 1 : (word % 5 == 1 ? 2 : 0);
            tape_set(&t, i, (float)dqn_rng_unit(noise(51, i, t.time)) - 0.5f, end);
        }
        tape_run(&rig, &t);
        for (size_t i = 0; t.time >= n_step && i < n_agents * lanes; i++) {
            tape_check_row(&t, i, t.time - n_step);
        }
    }
    tape_destroy(&t);
    rig_close(&rig);
}

Test(nstep, equals_a_list_of_everything_that_happened) {
    static const size_t steps[] = {1, 2, 5}, lanes[] = {1, 16, 65};
    for (size_t s = 0; s < 3; s++) {
        for (size_t l = 0; l < 3; l++) {
            check_random_tape(1, lanes[l], steps[s], 1);
        }
    }
    check_random_tape(3, 65, 3, 2);
}

/* Rewards 1, 10, 100, gamma 0.5, n = 3; `end` after the second step. */
static void check_hand_sum(int end, double reward, double discount, int done, int horizon) {
    struct rig rig = rig_open(1, false);
    struct tape t = tape_create(1, 1, 3, 0.5);
    static const float rewards[] = {1.0f, 10.0f, 100.0f};
    for (int i = 0; i < 3; i++) {
        tape_set(&t, 0, rewards[i], i == 1 ? end : 0);
        tape_run(&rig, &t);
    }
    cr_expect((double)t.a.row_reward[0] == reward && (double)t.a.row_discount[0] == discount);
    cr_expect(t.a.row_done[0] == done);
    cr_expect(t.a.row_next[2] == (float)horizon && t.a.row_next[1] == 0.0f, "its own last one");
    tape_destroy(&t);
    rig_close(&rig);
}

Test(nstep, sums_computed_by_hand) {
    check_hand_sum(0, 1.0 + 5.0 + 25.0, 0.125, 0, 3);
    check_hand_sum(1, 1.0 + 5.0, 0.25, 1, 2);
    check_hand_sum(2, 1.0 + 5.0, 0.25, 0, 2);
}

/* Episodes of three steps with reward 1, gamma 1, n = 5: the rows sum 3, 2, 1, 3, 2, 1, ... */
Test(nstep, short_episodes_have_short_tails) {
    struct rig rig = rig_open(1, false);
    struct tape t = tape_create(1, 1, 5, 1.0);
    for (int i = 0; i < 30; i++) {
        tape_set(&t, 0, 1.0f, i % 3 == 2 ? 1 : 0);
        tape_run(&rig, &t);
        if (i >= 4) {
            cr_expect(t.a.row_reward[0] == (float)(3 - (i - 4) % 3), "step %d", i);
            cr_expect(t.a.row_done[0] == 1);
        }
    }
    tape_destroy(&t);
    rig_close(&rig);
}

/* Lane e earns 10^e: a sum that mixes lanes has two different digits. */
Test(nstep, lanes_do_not_mix) {
    struct rig rig = rig_open(2, false);
    struct tape t = tape_create(1, 8, 3, 1.0);
    static const float powers[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f};
    for (int step = 0; step < 10; step++) {
        for (size_t e = 0; e < 8; e++) {
            tape_set(&t, e, powers[e], 0);
        }
        tape_run(&rig, &t);
        for (size_t e = 0; step >= 2 && e < 8; e++) {
            cr_expect(t.a.row_reward[e] == 3.0f * powers[e], "lane %zu", e);
        }
    }
    tape_destroy(&t);
    rig_close(&rig);
}

/* A number that is none stops the run where it appears, and is named. */
Test(env_loop, a_number_that_is_none_is_refused_by_name) {
    struct rig rig = rig_open(1, false);
    struct vector v = vector_create(DQN_ENV_cartpole, 2, 3, 25, 5);
    vector_start(&rig, &v);
    ((struct cartpole_state *)v.a.states)[4].angle = NAN; /* agent 1, lane 1 */
    cr_expect(ops(&rig)->step(rig.q, &v.a) == DQN_ERR_NONFINITE);
    cr_expect_str_eq(dqn_error_text(), "environment cartpole: observation 1 of lane 1 (agent 1) is "
                                       "nan in vector step 1");
    vector_destroy(&v);
    rig_close(&rig);
}
