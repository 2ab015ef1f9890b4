/* The optimum of the ou market against values computed elsewhere: a table from value iteration with
 * five exposures and residual 1e-10, and the closed form without costs. */
#include "market/ou_optimum.h"

#include <criterion/criterion.h>
#include <math.h>

#include "shared/real.h"
#include "shared/rng.h"

/* Mean reward and turnover of the threshold policy on a simulated path. */
static void simulate(double phi, double kappa, double b, size_t bars, double *reward,
                     double *turnover) {
    double x = 0.0, q = 0.0, sum = 0.0, traded = 0.0;
    for (size_t t = 0; t < bars; t++) {
        const struct dqn_u32x4 block = dqn_rng_block(7, dqn_rng_stream(DQN_RNG_MARKET, 0), t);
        const double u = 1.0 - dqn_rng_unit(dqn_rng_u64(block, 0));
        const double v = dqn_rng_unit(dqn_rng_u64(block, 1));
        const double n = sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
        const double next_q = dqn_ou_exposure(b, x, q);
        const double next_x = phi * x + sqrt(1.0 - phi * phi) * n;
        sum += next_q * (next_x - x) - kappa * fabs(next_q - q);
        traded += fabs(next_q - q);
        q = next_q;
        x = next_x;
    }
    *reward = sum / (double)bars;
    *turnover = traded / (double)bars;
}

Test(ou_optimum, thresholds_equal_the_published_table) {
    static const struct {
        double phi, kappa, gamma, threshold, reward, turnover;
    } table[] = {
        {0.95, 0.05, 0.99, 0.37, 0.03480, 0.0699},
        {0.95, 0.50, 0.99, 1.13, 0.01798, 0.0225},
        {0.95, 0.10, 0.90, 0.59, 0.03161, 0.0472},
        {0.90, 0.10, 0.95, 0.46, 0.06401, 0.106},
    };
    for (size_t i = 0; i < DQN_COUNT_OF(table); i++) {
        const struct dqn_ou_problem problem = {table[i].phi, table[i].kappa, table[i].gamma};
        double b = 0.0, reward = 0.0, turnover = 0.0;
        cr_assert_eq(dqn_ou_threshold(&problem, &b), DQN_OK);
        /* Both are read off a grid of step 0.0125, the table to two digits. */
        cr_expect(fabs(b - table[i].threshold) <= 0.0125 + 0.005, "threshold %g, table %g", b,
                  table[i].threshold);
        simulate(problem.phi, problem.kappa, b, 1000000, &reward, &turnover);
        /* Standard error of the mean over 10^6 bars: 0.0004. */
        cr_expect(fabs(reward - table[i].reward) <= 3.0 * 0.0004, "reward %g, table %g", reward,
                  table[i].reward);
        cr_expect(fabs(turnover - table[i].turnover) <= 0.03 * table[i].turnover,
                  "turnover %g, table %g", turnover, table[i].turnover);
    }
}

Test(ou_optimum, without_cost_the_threshold_is_zero) {
    const struct dqn_ou_problem problem = {0.95, 0.0, 0.99};
    double b = 1.0, reward = 0.0, turnover = 0.0;
    cr_assert_eq(dqn_ou_threshold(&problem, &b), DQN_OK);
    cr_expect(fabs(b) <= 0.0125);
    simulate(0.95, 0.0, 0.0, 1000000, &reward, &turnover);
    const double closed_form = (1.0 - 0.95) * sqrt(2.0 / 3.14159265358979323846);
    cr_expect(fabs(reward - closed_form) <= 3.0 * 0.0004, "%g, closed form %g", reward,
              closed_form);
}

Test(ou_optimum, refuses_what_has_no_answer) {
    double b = 0.0;
    const struct dqn_ou_problem explosive = {1.0, 0.1, 0.9}, undiscounted = {0.9, 0.1, 1.0};
    cr_expect_eq(dqn_ou_threshold(&explosive, &b), DQN_ERR_CONFIG);
    cr_expect_eq(dqn_ou_threshold(&undiscounted, &b), DQN_ERR_CONFIG);
}

static double best_policy(void *context, double x, double exposure_before) {
    return dqn_ou_exposure(*(const double *)context, x, exposure_before);
}

static double always_long(void *context, double x, double exposure_before) {
    (void)context;
    (void)x;
    (void)exposure_before;
    return 1.0;
}

Test(ou_optimum, judges_a_policy_by_its_thresholds_and_signs) {
    double b = 0.46, other = 0.9, own = 0.0, agreement = 0.0;
    dqn_ou_judge(b, best_policy, &b, &own, &agreement);
    cr_expect(fabs(own - b) <= 0.01 && agreement == 1.0, "%g %g", own, agreement);
    dqn_ou_judge(b, best_policy, &other, &own, &agreement);
    cr_expect(fabs(own - other) <= 0.01, "%g", own);
    /* Of |x| <= 3, without 0.36..0.56: wrong between 0.56 and 0.9 on each side, for the two holders
     * of another sign than the best one. */
    cr_expect(fabs(agreement - (1.0 - 2.0 / 3.0 * 0.34 / 2.8)) <= 0.01, "%g", agreement);
    dqn_ou_judge(b, always_long, NULL, &own, &agreement);
    cr_expect(agreement > 0.4 && agreement < 0.6, "%g", agreement);
}
