/* Evaluations on the CPU: what is summed is one episode a lane, though steps come sixteen at a time
 * and lanes that have finished go along; limits and stops. */
#include "evaluator.h"

#include "../envs/cartpole.h"
#include "arena.h"
#include "nn_fixture.h"

enum { EPISODES = 7 };

struct rig {
    struct bench bench;
    struct dqn_net net;
    struct dqn_arena *arena;
    struct dqn_buffer *agents, *params, *env_params;
    struct dqn_evaluator *evaluator;
};

/* Pushes to where the pole falls, which holds it up for a while: longer than a program. */
static void put_policy(struct rig *r) {
    float *params = r->params->data;
    const struct dqn_layer *one = &r->net.layer[0], *two = &r->net.layer[1];
    for (size_t sign = 0; sign < 2; sign++) { /* hidden units: max(0, s), max(0, -s) */
        params[one->weight + sign * one->in_ld + 2] = sign == 0 ? 1.0f : -1.0f; /* angle */
        params[one->weight + sign * one->in_ld + 3] = sign == 0 ? 0.1f : -0.1f; /* its speed */
        params[two->weight + (1 - sign) * two->in_ld + sign] = 1.0f;
    }
}

static void rig_open(struct rig *r, uint64_t max_steps, const atomic_int *stop) {
    const int64_t hidden[] = {16};
    bench_open(&r->bench, 1, false);
    net_make(&r->net, 4, 2, 1, hidden, DQN_RELU, false);
    const struct dqn_device *device = &r->bench.device;
    OK(dqn_arena_create(&r->arena));
    OK(dqn_arena_add(r->arena, &r->agents, device, DQN_U64, 0, "agents", 2, (size_t)1,
                     sizeof(struct dqn_agent) / sizeof(uint64_t)));
    OK(dqn_arena_add(r->arena, &r->params, device, DQN_F32, 0, "params", 2, (size_t)1,
                     r->net.n_params));
    OK(dqn_arena_add(r->arena, &r->env_params, device, DQN_U8, 0, "env/params", 1,
                     dqn_env_params_bytes(DQN_ENV_cartpole)));
    const struct dqn_evaluator_options options = {.env = DQN_ENV_cartpole,
                                                  .n_agents = 1,
                                                  .episodes = EPISODES,
                                                  .max_steps = max_steps,
                                                  .net = &r->net,
                                                  .agents = r->agents,
                                                  .env_params = r->env_params,
                                                  .stop = stop};
    OK(dqn_evaluator_create(&r->evaluator, r->arena, device, "eval", &options));
    OK(dqn_arena_commit(r->arena, NULL));
    *(struct dqn_agent *)r->agents->data = (struct dqn_agent){.seed = 5};
    dqn_env_default_params(DQN_ENV_cartpole, r->env_params->data);
    put_policy(r);
}

static void rig_close(struct rig *r) {
    dqn_evaluator_destroy(r->evaluator);
    dqn_arena_destroy(r->arena);
    bench_close(&r->bench);
}

/* Plays lane e's episode by itself, step after step, from the environment's header. */
static uint64_t play(const struct rig *r, size_t e, uint64_t round) {
    struct cartpole_state state = {0};
    float seen[4], next[4], h[16], q[2];
    const struct cartpole_params *params = r->env_params->data;
    const float *w = r->params->data;
    const struct dqn_layer *one = &r->net.layer[0], *two = &r->net.layer[1];
    struct dqn_env_key key = {
        .seed = 5, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, e), .episode = round};
    cartpole_reset(&state, params, &key, seen);
    for (uint64_t step = 1;; step++) {
        for (size_t i = 0; i < 16; i++) {
            double z = w[one->bias + i];
            for (size_t j = 0; j < 4; j++) {
                z += (double)w[one->weight + i * one->in_ld + j] * (double)seen[j];
            }
            h[i] = z > 0 ? (float)z : 0.0f;
        }
        for (size_t a = 0; a < 2; a++) {
            double z = w[two->bias + a];
            for (size_t j = 0; j < 16; j++) {
                z += (double)w[two->weight + a * two->in_ld + j] * (double)h[j];
            }
            q[a] = (float)z;
        }
        key.step = step;
        const struct dqn_env_outcome outcome =
            cartpole_step(&state, params, &key, q[1] > q[0], next);
        if (outcome.terminated || step == 500) {
            return step;
        }
        memcpy(seen, next, sizeof seen);
    }
}

Test(evaluator, one_episode_a_lane) {
    struct rig r;
    struct dqn_evaluation got;
    rig_open(&r, dqn_evaluator_limit(DQN_ENV_cartpole), NULL);
    for (uint64_t round = 0; round < 3; round++) {
        uint64_t sum = 0, least = UINT64_MAX, most = 0;
        for (size_t e = 0; e < EPISODES; e++) {
            const uint64_t length = play(&r, e, round);
            sum += length;
            least = length < least ? length : least;
            most = length > most ? length : most;
        }
        OK(dqn_evaluator_run(r.evaluator, r.bench.q, r.params, round, &got));
        cr_expect_eq(got.episodes, EPISODES);
        cr_expect_eq(got.length_mean, (double)sum / EPISODES, "%g, not %g", got.length_mean,
                     (double)sum / EPISODES);
        cr_expect_eq(got.return_mean, got.length_mean, "a reward of 1 a step");
        cr_expect_eq(got.return_min, (double)least);
        cr_expect_eq(got.return_max, (double)most);
    }
    rig_close(&r);
}

/* No more than the 16 steps of a program beyond the limit. */
Test(evaluator, episodes_that_do_not_end) {
    struct rig r;
    struct dqn_evaluation got;
    rig_open(&r, 1, NULL);
    uint64_t most = 0;
    for (size_t e = 0; e < EPISODES; e++) {
        const uint64_t length = play(&r, e, 0);
        most = length > most ? length : most;
    }
    cr_assert_gt(most, 16);
    cr_expect_eq(dqn_evaluator_run(r.evaluator, r.bench.q, r.params, 0, &got), DQN_ERR_ENDLESS);
    cr_expect_not_null(strstr(dqn_error_text(), "did not end within 1 step;"), "%s",
                       dqn_error_text());
    rig_close(&r);
}

Test(evaluator, limits) {
    cr_expect_eq(dqn_evaluator_limit(DQN_ENV_cartpole), 500);
    cr_expect_eq(dqn_env_step_limit(DQN_ENV_trading), 0, "an environment without a limit");
    cr_expect_eq(dqn_evaluator_limit(DQN_ENV_trading), 1000000);
}

Test(evaluator, stops) {
    struct rig r;
    struct dqn_evaluation got, again;
    atomic_int stop = 1;
    rig_open(&r, 500, &stop);
    cr_expect_eq(dqn_evaluator_run(r.evaluator, r.bench.q, r.params, 0, &got), DQN_ERR_STOPPED);
    stop = 0;
    OK(dqn_evaluator_run(r.evaluator, r.bench.q, r.params, 0, &got));
    OK(dqn_evaluator_run(r.evaluator, r.bench.q, r.params, 0, &again));
    cr_expect_eq(memcmp(&got, &again, sizeof got), 0);
    rig_close(&r);
}
