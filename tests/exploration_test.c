/* Epsilon-greedy actions of the CPU backend. */
#include "nn_fixture.h"
#include "shared/td.h"

enum { ACTIONS = 5, ACTIONS_LD = 8, LANES = 2000 };

static void act(struct bench *b, const struct dqn_agent *agents,
                const struct dqn_counters *counters, double epsilon, const float *q,
                uint32_t *action, uint64_t *histogram) {
    const struct dqn_act_args args = {.n_agents = 2,
                                      .lanes = LANES,
                                      .actions = ACTIONS,
                                      .actions_ld = ACTIONS_LD,
                                      .agents = agents,
                                      .counters = counters,
                                      .purpose = DQN_RNG_POLICY,
                                      .fixed_epsilon = epsilon,
                                      .q = q,
                                      .action = action,
                                      .histogram = histogram};
    OK(nn->act(b->q, &args));
    bench_wait(b);
}

static uint32_t greedy(size_t row) {
    return (uint32_t)(row * 3 % ACTIONS);
}

Test(exploration, epsilon_greedy) {
    struct bench b;
    bench_open(&b, 2, false);
    const struct dqn_agent agents[2] = {
        {.seed = 1, .eps_start = 1, .eps_end = 0, .eps_steps = 100},
        {.seed = 2, .eps_start = 1, .eps_end = 0, .eps_steps = 100}};
    struct dqn_counters counters[2] = {{.env_steps = 50}, {.env_steps = 100}};
    float *q = floats(2 * LANES * ACTIONS_LD);
    for (size_t r = 0; r < 2 * LANES; r++) {
        q[r * ACTIONS_LD + greedy(r)] = 1;
        q[r * ACTIONS_LD + ACTIONS] = 100; /* padding is no action */
    }
    uint32_t *action = zeros(2 * LANES, sizeof *action);
    uint64_t histogram[2 * ACTIONS] = {0};
    /* 0: always greedy. */
    act(&b, agents, counters, 0, q, action, histogram);
    uint64_t want[2 * ACTIONS] = {0};
    for (size_t r = 0; r < 2 * LANES; r++) {
        cr_assert_eq(action[r], greedy(r));
        want[r / LANES * ACTIONS + greedy(r)]++;
    }
    cr_assert_eq(memcmp(histogram, want, sizeof want), 0);
    /* The rule itself: words of the lane's block. */
    for (uint64_t step = 0; step < 20; step++) {
        counters[0].vector_steps = counters[1].vector_steps = step;
        act(&b, agents, counters, -1, q, action, NULL);
        for (size_t r = 0; r < 2 * LANES; r++) {
            const size_t k = r / LANES, lane = r % LANES;
            const double epsilon = k == 0 ? 0.5 : 0;
            const struct dqn_u32x4 block =
                dqn_rng_block(k + 1, ((uint64_t)DQN_RNG_POLICY << 56) | lane, step);
            const bool explore = ldexp((double)(dqn_rng_u64(block, 0) >> 11), -53) < epsilon;
            const uint32_t random = (uint32_t)dqn_rng_below(dqn_rng_u64(block, 1), ACTIONS);
            cr_assert_eq(action[r], explore ? random : greedy(r));
        }
    }
    free(action);
    free(q);
    bench_close(&b);
}

/* Frequencies at epsilon 1 and 0.5: chi-square over 5 actions, 4 degrees of freedom; 28.5 is passed
 * once in 10^5. The seed is fixed, so the test cannot flicker. */
Test(exploration, exploration_frequencies) {
    struct bench b;
    bench_open(&b, 2, false);
    const struct dqn_agent agents[2] = {{.seed = 7}, {.seed = 8}};
    struct dqn_counters counters[2] = {{0}, {0}};
    float *q = floats(2 * LANES * ACTIONS_LD);
    for (size_t r = 0; r < 2 * LANES; r++) {
        q[r * ACTIONS_LD + 3] = 1;
    }
    uint32_t *action = zeros(2 * LANES, sizeof *action);
    for (int half = 0; half <= 1; half++) {
        const double epsilon = half ? 0.5 : 1;
        uint64_t histogram[2 * ACTIONS] = {0};
        for (uint64_t step = 0; step < 50; step++) {
            counters[0].vector_steps = counters[1].vector_steps = step;
            act(&b, agents, counters, epsilon, q, action, histogram);
        }
        for (size_t k = 0; k < 2; k++) {
            double chi = 0;
            for (size_t a = 0; a < ACTIONS; a++) {
                const double expected =
                    50.0 * LANES * (epsilon / ACTIONS + (a == 3 ? 1 - epsilon : 0));
                const double off = (double)histogram[k * ACTIONS + a] - expected;
                chi += off * off / expected;
            }
            cr_assert_lt(chi, 28.5, "epsilon %g, agent %zu: chi-square %g", epsilon, k, chi);
        }
    }
    free(action);
    free(q);
    bench_close(&b);
}

Test(exploration, greedy_ties_and_nan) {
    const float n = NAN, i = INFINITY;
    const float rows[][4] = {{1, 1, 1, 1}, {0, 2, 2, 1},  {n, 1, 2, 2},  {2, n, 1, n},
                             {n, n, n, n}, {n, n, -i, n}, {-i, n, i, i}, {-i, -i, -i, -i}};
    static const size_t want[] = {0, 1, 2, 0, 0, 2, 2, 0};
    for (size_t r = 0; r < DQN_COUNT_OF(want); r++) {
        cr_assert_eq(dqn_td_argmax(rows[r], 4), want[r], "row %zu", r);
    }
    cr_assert_eq(dqn_td_argmax(rows[4], 1), 0);
}
