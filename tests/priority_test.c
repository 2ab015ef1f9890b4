/* The rules of priorities, strata and weights, against libm, 128-bit integers and numbers worked
 * out by hand. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base.h"
#include "ref/replay_model.h"
#include "shared/priority.h"
#include "shared/schedule.h"

__extension__ typedef unsigned __int128 wide;

static struct dqn_agent agent_of(double alpha, double epsilon, double ceiling) {
    return (struct dqn_agent){.alpha = alpha, .priority_epsilon = epsilon, .priority_max = ceiling};
}

static uint64_t word(uint64_t sequence, uint64_t i) {
    return dqn_rng_u64(dqn_rng_block(99, sequence, i), 0);
}

/* ---- priorities ---- */

/* The nearest float, so at most half a unit of its last place away, plus the error of the power in
 * double, which is 2^29 times finer. */
Test(priority, is_the_formula) {
    static const double alphas[] = {0, 0.1, 0.5, 0.6, 1};
    static const double epsilons[] = {1e-6, 1e-3, 1};
    for (size_t a = 0; a < DQN_COUNT_OF(alphas); a++) {
        for (size_t e = 0; e < DQN_COUNT_OF(epsilons); e++) {
            const struct dqn_agent agent = agent_of(alphas[a], epsilons[e], 4095);
            for (uint64_t i = 0; i < 2000; i++) {
                const double size = exp(-30 + 60 * dqn_rng_unit(word(1, i)));
                const float td = (float)(i % 2 == 0 ? size : -size);
                const long double want = model_priority(td, alphas[a], epsilons[e], 4095);
                const struct dqn_priority got = dqn_priority_of_td(&agent, td);
                const long double half = (nextafterf(got.value, INFINITY) - got.value) * 0.5001L;
                cr_assert(fabsl(got.value - want) <= half, "td %g alpha %g: %.9g, not %.9Lg", td,
                          alphas[a], got.value, want);
                cr_assert_eq(got.kind, DQN_PRIORITY_FINITE);
            }
        }
    }
}

/* The transform is applied once: 2^0.6 + 1e-6 = 1.5157175665, times 2^20 = 1589345.06. A new row's
 * priority is not transformed at all. */
Test(priority, leaf_of_a_known_error) {
    const struct dqn_agent agent = agent_of(0.6, 1e-6, 4095);
    const struct dqn_priority priority = dqn_priority_of_td(&agent, 2.0f);
    cr_assert_float_eq(priority.value, 1.5157175665, 1e-7);
    cr_assert_eq(dqn_priority_leaf(priority.value), 1589345u);
    cr_assert_eq(dqn_priority_of_td(&agent, -2.0f).value, priority.value);
    cr_assert_eq(dqn_priority_start(&agent), (float)(1 + 1e-6));
}

Test(priority, faults_are_clamped_and_told_apart) {
    const struct dqn_agent agent = agent_of(0.6, 1e-3, 100);
    static const struct {
        float td;
        double value;
        enum dqn_priority_kind kind;
    } cases[] = {{NAN, 1e-3, DQN_PRIORITY_NAN},       {-NAN, 1e-3, DQN_PRIORITY_NAN},
                 {INFINITY, 100, DQN_PRIORITY_INF},   {-INFINITY, 100, DQN_PRIORITY_INF},
                 {3e38f, 100, DQN_PRIORITY_FINITE},   {-3e38f, 100, DQN_PRIORITY_FINITE},
                 {FLT_MAX, 100, DQN_PRIORITY_FINITE}, {0.0f, 1e-3, DQN_PRIORITY_FINITE},
                 {-0.0f, 1e-3, DQN_PRIORITY_FINITE},  {1e-45f, 1e-3, DQN_PRIORITY_FINITE},
                 {-1e-40f, 1e-3, DQN_PRIORITY_FINITE}};
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        const struct dqn_priority got = dqn_priority_of_td(&agent, cases[i].td);
        cr_assert_eq(got.value, (float)cases[i].value, "case %zu: %g", i, got.value);
        cr_assert_eq(got.kind, cases[i].kind, "case %zu", i);
    }
}

/* alpha = 0: every row, td = 0 too, has the priority that new rows start with. */
Test(priority, alpha_0_is_uniform) {
    static const float errors[] = {0.0f, -0.0f, 1e-45f, 0.3f, -7.0f, 3e38f};
    static const double ceilings[] = {1, 4095};
    for (size_t c = 0; c < DQN_COUNT_OF(ceilings); c++) {
        const struct dqn_agent agent = agent_of(0, 1e-3, ceilings[c]);
        for (size_t i = 0; i < DQN_COUNT_OF(errors); i++) {
            cr_assert_eq(dqn_priority_of_td(&agent, errors[i]).value, dqn_priority_start(&agent));
        }
    }
    const struct dqn_agent agent = agent_of(0, 1e-3, 4095);
    cr_assert_eq(dqn_priority_start(&agent), (float)1.001);
}

Test(priority, leaf_is_exact_and_never_0) {
    static const struct {
        double priority;
        uint32_t leaf;
    } cases[] = {{0, 1},
                 {1e-9, 1},
                 {1e-6, 1},
                 {1.5 / 1048576, 2}, /* halves to the even one */
                 {2.5 / 1048576, 2},
                 {1, 1u << 20},
                 {4095, 4095u << 20},
                 {-1, 1},
                 {NAN, 1},
                 {INFINITY, UINT32_MAX}};
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        cr_assert_eq(dqn_priority_leaf((float)cases[i].priority), cases[i].leaf, "case %zu", i);
    }
    for (uint64_t i = 0; i < 100000; i++) {
        const float priority = (float)exp(-14 + 22 * dqn_rng_unit(word(2, i)));
        cr_assert_eq(dqn_priority_leaf(priority), model_leaf(priority), "%.9g", priority);
    }
}

/* ---- draws ---- */

Test(priority, strata_are_exact) {
    static const uint64_t batches[] = {1, 2, 3, 7, 32, 255, 256, 1000, 1048576};
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t total = (word(3, i) >> (1 + i % 63)) + 1;
        const uint64_t batch = batches[i % DQN_COUNT_OF(batches)], b = word(4, i) % batch;
        cr_assert_eq(dqn_stratum_start(total, b, batch), (uint64_t)((wide)total * b / batch));
        cr_assert_eq(dqn_stratum_start(total, 0, batch), 0);
        cr_assert_eq(dqn_stratum_start(total, batch, batch), total);
    }
}

/* The smallest and the largest word, too, stay below the total and inside their stratum. */
Test(priority, targets_stay_inside) {
    static const uint64_t totals[] = {1, 2, 3, 100, (1u << 24) + 1, UINT64_C(1) << 62};
    static const uint64_t batches[] = {1, 3, 256};
    for (size_t t = 0; t < DQN_COUNT_OF(totals); t++) {
        for (size_t n = 0; n < DQN_COUNT_OF(batches); n++) {
            const uint64_t total = totals[t], batch = batches[n];
            for (uint64_t b = 0; b < batch; b++) {
                const uint64_t words[] = {0, 1, word(5, b), UINT64_MAX - 1, UINT64_MAX};
                const uint64_t low = (uint64_t)((wide)total * b / batch);
                const uint64_t high = (uint64_t)((wide)total * (b + 1) / batch);
                for (size_t w = 0; w < DQN_COUNT_OF(words); w++) {
                    const uint64_t free = dqn_draw_target(words[w], total, b, batch, 0);
                    const uint64_t own = dqn_draw_target(words[w], total, b, batch, 1);
                    cr_assert_eq(free, (uint64_t)((wide)words[w] * total >> 64));
                    cr_assert(free < total && own < total && own >= low);
                    cr_assert(own < high || (low == high && own == low));
                }
                cr_assert_eq(dqn_draw_target(0, total, b, batch, 1), low);
            }
        }
    }
}

Test(priority, each_row_of_each_draw_has_its_own_word) {
    cr_assert_eq(dqn_draw_word(5, 3, 9),
                 dqn_rng_u64(dqn_rng_block(5, ((uint64_t)DQN_RNG_SAMPLER << 56) | 3, 9), 0));
    cr_assert_neq(dqn_draw_word(5, 3, 9), dqn_draw_word(5, 4, 9));
    cr_assert_neq(dqn_draw_word(5, 3, 9), dqn_draw_word(5, 3, 10));
    cr_assert_neq(dqn_draw_word(5, 3, 9), dqn_draw_word(6, 3, 9));
}

/* ---- weights ---- */

/* Four rows of priorities 1, 2, 3, 4: P = 0.1, 0.2, 0.3, 0.4, so (4 P)^-beta over its largest is
 * 1, 2^-beta, 3^-beta, 4^-beta. Rounding to float: at most 6e-8. */
Test(priority, weights_by_hand) {
    static const double want[2][4] = {{1, 0.7578582833, 0.6443940150, 0.5743491775},
                                      {1, 0.5, 0.3333333333, 0.25}};
    static const double betas[] = {0.4, 1};
    for (size_t n = 0; n < 2; n++) {
        for (uint64_t i = 0; i < 4; i++) {
            const uint64_t leaf = dqn_priority_leaf((float)(i + 1));
            const float weight = dqn_importance_weight(1048576, leaf, betas[n]);
            cr_assert_float_eq(weight, want[n][i], 6e-8, "%.9g", weight);
            cr_assert_eq(dqn_importance_weight(1048576, leaf, 0), 1.0f);
        }
    }
    cr_assert_eq(dqn_importance_weight(12345, 12345, 0.7), 1.0f);
    cr_assert_gt(dqn_importance_weight(1, 4095u << 20, 1), 0.0f);
}

/* beta at the start, half way, at the end, after it; a slope of no length has arrived. */
Test(priority, beta_is_annealed) {
    struct dqn_agent agent = {.beta_start = 0.4, .beta_end = 1, .beta_updates = 1000};
    cr_assert_eq(dqn_schedule_beta(&agent, 0), 0.4);
    cr_assert_float_eq(dqn_schedule_beta(&agent, 500), 0.7, 1e-15);
    cr_assert_eq(dqn_schedule_beta(&agent, 1000), 1.0);
    cr_assert_eq(dqn_schedule_beta(&agent, UINT64_MAX), 1.0);
    double before = 0;
    for (uint64_t i = 0; i <= 1100; i++) {
        const double beta = dqn_schedule_beta(&agent, i);
        cr_assert(beta >= before && beta <= 1.0);
        before = beta;
    }
    agent.beta_updates = 0;
    cr_assert_eq(dqn_schedule_beta(&agent, 0), 1.0);
}

/* ---- ranks ---- */

/* 2^40 rank^-alpha, within half a unit and the error of the power in double (2^-52 of 2^40). */
Test(priority, mass_by_rank) {
    static const double alphas[] = {0, 0.4, 0.7, 1};
    enum { N = 2000 };
    uint64_t prefix[N];
    for (size_t a = 0; a < DQN_COUNT_OF(alphas); a++) {
        cr_assert_eq(dqn_rank_bits(N, alphas[a]), 40);
        dqn_rank_prefix(prefix, N, alphas[a]);
        for (size_t i = 0; i < N; i++) {
            const uint64_t mass = prefix[i] - (i > 0 ? prefix[i - 1] : 0);
            const long double want = powl((long double)(i + 1), -(long double)alphas[a]) * 0x1p40L;
            cr_assert(fabsl(mass - want) <= 0.5005L, "rank %zu: %llu", i + 1,
                      (unsigned long long)mass);
        }
    }
    cr_assert_eq(dqn_rank_mass(4, 0.5, 40), UINT64_C(1) << 39);
    cr_assert_eq(dqn_rank_mass(1000000000, 1, 0), 1, "no rank has a mass of 0");
}

/* The sum of all masses fits at every capacity. Upper bound of the sum, independent of the code's
 * own: ranks in blocks that double, each rank at the mass of its block's first. */
Test(priority, masses_fit_into_64_bits) {
    for (uint64_t capacity = 1; capacity <= UINT64_C(1) << 30; capacity *= 2) {
        for (double alpha = 0; alpha <= 1.0; alpha += 0.05) {
            const int bits = dqn_rank_bits(capacity, alpha);
            long double sum = 0;
            for (uint64_t first = 1; first <= capacity; first *= 2) {
                const uint64_t n = first < capacity - first + 1 ? first : capacity - first + 1;
                sum += (long double)n * (powl((long double)first, -alpha) * ldexpl(1, bits) + 1);
            }
            cr_assert(sum < 0x1p63L, "capacity %llu alpha %g", (unsigned long long)capacity, alpha);
            cr_assert(bits >= 31 && bits <= 40);
        }
    }
}
