/* The learner on a replay filled by hand: what it converges to when episodes are cut off and when
 * they end, and what accumulated batches add up to. */
#include "nn_fixture.h"

#include "arena.h"
#include "learner.h"
#include "replay.h"

enum { LIMIT = 5, STATES = LIMIT + 1, UPDATES = 6000 };

/* A replay and a learner with one agent. */
struct rig {
    struct bench bench;
    struct dqn_net net;
    struct dqn_arena *arena;
    struct dqn_buffer *agents, *counters;
    struct dqn_replay *replay;
    struct dqn_learner *learner;
};

static void rig_open(struct rig *r, size_t obs, const struct dqn_agent *agent, int64_t hidden,
                     int64_t rows, int64_t batch, int64_t accumulate) {
    memset(r, 0, sizeof *r);
    bench_open(&r->bench, 1, false);
    const struct dqn_device *device = &r->bench.device;
    net_make(&r->net, obs, 2, hidden > 0 ? 1 : 0, &hidden, DQN_TANH, false);
    OK(dqn_arena_create(&r->arena));
    OK(dqn_arena_add(r->arena, &r->agents, device, DQN_U64, 0, "agents", 2, (size_t)1,
                     sizeof *agent / sizeof(uint64_t)));
    OK(dqn_arena_add(r->arena, &r->counters, device, DQN_U64, 0, "counters", 2, (size_t)1,
                     sizeof(struct dqn_counters) / sizeof(uint64_t)));
    const struct dqn_config_replay replay_config = {
        .kind = DQN_REPLAY_UNIFORM, .capacity = rows, .stratified = true};
    const struct dqn_replay_options replay = {.config = &replay_config,
                                              .n_agents = 1,
                                              .obs = r->net.obs,
                                              .obs_ld = r->net.obs_ld,
                                              .batch = (size_t)batch,
                                              .n_batches = (size_t)accumulate,
                                              .agents = r->agents,
                                              .counters = r->counters};
    OK(dqn_replay_create(&r->replay, r->arena, device, &replay));
    const struct dqn_config_learner learner_config = {
        .batch = batch, .accumulate = accumulate, .double_q = true, .max_nonfinite = 10};
    const struct dqn_learner_options learner = {.n_agents = 1,
                                                .net = &r->net,
                                                .config = &learner_config,
                                                .agents = r->agents,
                                                .counters = r->counters,
                                                .replay = r->replay};
    OK(dqn_learner_create(&r->learner, r->arena, device, &learner));
    OK(dqn_arena_commit(r->arena, NULL));
    memcpy(r->agents->data, agent, sizeof *agent);
    OK(dqn_replay_prepare(r->replay, r->bench.q));
    OK(dqn_learner_init(r->learner, r->bench.q));
}

static void rig_close(struct rig *r) {
    bench_wait(&r->bench);
    dqn_learner_destroy(r->learner);
    dqn_replay_destroy(r->replay);
    dqn_arena_destroy(r->arena);
    bench_close(&r->bench);
}

static struct dqn_agent agent_with(double lr) {
    return (struct dqn_agent){.seed = 1,
                              .gamma = 0.9,
                              .lr_start = lr,
                              .lr_kind = DQN_SCHEDULE_LINEAR,
                              .lr_updates = UPDATES,
                              .alpha = 0,
                              .priority_epsilon = 1e-3,
                              .priority_max = 4095,
                              .tau = 1, /* the target is the net itself */
                              .max_grad_norm = 1e9,
                              .adam_beta1 = 0.9,
                              .adam_beta2 = 0.999,
                              .adam_eps = 1e-8};
}

/* ---- a task of reward 1 a step with a limit of five steps ---- */

/* One transition through the n-step window into the replay, as the collector does it. */
static void add_step(struct rig *r, const float *obs, const float *next, bool terminated,
                     bool truncated) {
    static float window_obs[STATES], window_next[STATES], window_reward[1];
    static float row_state[STATES], row_next[STATES], row_reward[1], row_discount[1];
    static uint32_t window_action[1], row_action[1];
    static uint8_t window_end[1], row_done[1];
    struct dqn_counters *counters = r->counters->data;
    const uint32_t action = 0;
    const float reward = 1;
    const uint8_t over = terminated, cut = truncated;
    counters->vector_steps++;
    const struct dqn_nstep_args args = {.n_agents = 1,
                                        .lanes = 1,
                                        .obs = r->net.obs,
                                        .obs_ld = r->net.obs_ld,
                                        .n_step = 1,
                                        .agents = r->agents->data,
                                        .counters = counters,
                                        .obs_before = obs,
                                        .obs_next = next,
                                        .action = &action,
                                        .reward = &reward,
                                        .terminated = &over,
                                        .truncated = &cut,
                                        .window_obs = window_obs,
                                        .window_next = window_next,
                                        .window_action = window_action,
                                        .window_reward = window_reward,
                                        .window_end = window_end,
                                        .row_state = row_state,
                                        .row_next = row_next,
                                        .row_action = row_action,
                                        .row_reward = row_reward,
                                        .row_discount = row_discount,
                                        .row_done = row_done};
    OK(dqn_cpu_backend.env->nstep(r->bench.q, &args));
    const struct dqn_replay_rows rows = {.state = row_state,
                                         .next = row_next,
                                         .action = row_action,
                                         .reward = row_reward,
                                         .discount = row_discount,
                                         .done = row_done};
    OK(dqn_replay_insert(r->replay, r->bench.q, &rows, 1));
    dqn_replay_note_inserted(r->replay, 1);
}

/* The observation after t steps: all the same, or the step as one hot number. */
static void observe(float *obs, bool with_time, int t) {
    memset(obs, 0, 8 * sizeof *obs);
    obs[with_time ? t : 0] = 1;
}

/* Learns from four whole episodes until it stands still; the values after 0 ... 4 steps. A batch
 * has each of the 20 rows once: 20 equal strata. */
static void learn_values(bool with_time, bool terminates, double *value) {
    struct rig r;
    const struct dqn_agent agent = agent_with(0.02);
    rig_open(&r, with_time ? STATES : 1, &agent, 0, 4 * LIMIT, 4 * LIMIT, 1);
    for (int step = 0; step < 4 * LIMIT; step++) {
        float obs[8], next[8];
        const bool last = step % LIMIT == LIMIT - 1;
        observe(obs, with_time, step % LIMIT);
        observe(next, with_time, step % LIMIT + 1);
        add_step(&r, obs, next, last && terminates, last && !terminates);
    }
    /* The other action is never taken: keep it out of the maximum. */
    float *params = dqn_learner_params(r.learner)->data;
    params[r.net.layer[0].bias + 1] = -1000;
    for (int update = 0; update < UPDATES; update++) {
        OK(dqn_learner_update(r.learner, r.bench.q));
    }
    bench_wait(&r.bench);
    for (int t = 0; t < LIMIT; t++) {
        float obs[8];
        observe(obs, with_time, t);
        value[t] = (double)params[r.net.layer[0].bias];
        for (size_t i = 0; i < r.net.obs; i++) {
            value[t] += (double)params[r.net.layer[0].weight + i] * (double)obs[i];
        }
    }
    rig_close(&r);
}

/* Cut off: the state goes on for ever, 1 / (1 - 0.9) = 10. */
Test(learner, a_time_limit_does_not_lower_values) {
    double value[LIMIT];
    learn_values(false, false, value);
    cr_log_info("error %g", value[0] - 10);
    /* What the last, small steps leave: seen 1.6e-5, below 7e-7. */
    cr_assert_float_eq(value[0], 10, 1e-4, "%g", value[0]);
}

/* Ended at the limit: one of five rows has no future, v = 1 + 0.9 (4 / 5) v; and where the state
 * tells the time, the finite sums 1 + 0.9 + ... */
Test(learner, an_end_has_no_future) {
    double value[LIMIT], sum = 0;
    learn_values(false, true, value);
    cr_assert_float_eq(value[0], 1 / (1 - 0.72), 1e-4, "%g", value[0]);
    learn_values(true, true, value);
    for (int t = LIMIT - 1; t >= 0; t--) {
        sum = 1 + 0.9 * sum;
        cr_log_info("after %d steps: error %g", t, value[t] - sum);
        cr_assert_float_eq(value[t], sum, 1e-4, "after %d steps: %g, not %g", t, value[t], sum);
    }
}

/* ---- accumulation ---- */

static void fill_random(struct rig *r, const int64_t *pick, size_t n) {
    enum { OBS = 3 };
    for (size_t i = 0; i < n; i++) {
        const uint64_t row = pick != NULL ? (uint64_t)pick[i] : i;
        float state[OBS], next[OBS];
        for (size_t o = 0; o < OBS; o++) {
            state[o] = (float)random_number(1, row * OBS + o);
            next[o] = (float)random_number(2, row * OBS + o);
        }
        const uint32_t action = row % 2;
        const float reward = (float)random_number(3, row), discount = 0.9f;
        const uint8_t done = row % 7 == 0;
        const struct dqn_replay_rows rows = {state, next, &action, &reward, &discount, &done};
        OK(dqn_replay_insert(r->replay, r->bench.q, &rows, 1));
        dqn_replay_note_inserted(r->replay, 1);
    }
}

/* The gradient of two batches of 32 is that of one batch of the same 64 rows: the second replay has
 * just the rows that the first one drew, and its batch has each of them once. */
Test(learner, two_batches_are_one_of_twice_the_size) {
    enum { B = 32 };
    struct rig parts, whole;
    const struct dqn_agent agent = agent_with(1e-3);
    rig_open(&parts, 3, &agent, 24, 500, B, 2);
    fill_random(&parts, NULL, 500);
    OK(dqn_learner_update(parts.learner, parts.bench.q));
    bench_wait(&parts.bench);
    const int64_t *drawn = dqn_arena_find(parts.arena, "batch/index")->data;
    rig_open(&whole, 3, &agent, 24, 2 * B, 2 * B, 1);
    fill_random(&whole, drawn, 2 * B);
    OK(dqn_learner_update(whole.learner, whole.bench.q));
    bench_wait(&whole.bench);
    const float *a = dqn_arena_find(parts.arena, "nn/grads")->data;
    const float *b = dqn_arena_find(whole.arena, "nn/grads")->data;
    double error = 0, largest = 0;
    for (size_t i = 0; i < parts.net.n_params; i++) {
        error = worst(error, (double)a[i], (double)b[i]);
        largest = fmax(largest, fabs((double)b[i]));
    }
    cr_log_info("gradient up to %g, worst difference %g", largest, error);
    /* Sums of 64 floats in another order. */
    cr_assert(largest > 1e-2 && error < 1e-6 * largest, "%g of %g", error, largest);
    const struct dqn_step_stats *s = dqn_learner_stats(parts.learner)->data;
    const struct dqn_step_stats *t = dqn_learner_stats(whole.learner)->data;
    cr_assert(s->updates == 1 && t->updates == 1 && s->rows == 64 && t->rows == 64);
    cr_assert_float_eq(s->loss / t->loss, 1, 1e-6, "%g, %g", s->loss, t->loss);
    const struct dqn_counters *c = parts.counters->data;
    cr_assert(c->updates == 1 && c->adam_steps == 1 && c->draws == 2);
    rig_close(&parts);
    rig_close(&whole);
}
