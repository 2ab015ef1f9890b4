#include "ou_optimum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 801, EXPOSURES = 3 };   /* exposures -1, 0, +1 */
static const double grid_reach = 5.0; /* stationary stds each way */

struct solver {
    double x[GRID];
    double *transition; /* [GRID, GRID] probabilities of the next point */
    double expected_x[GRID];
    double value[EXPOSURES][GRID]; /* by exposure held and x */
    double ahead[EXPOSURES][GRID]; /* expected value of the next point, by exposure chosen */
};

static void fill_transition(struct solver *s, double phi) {
    const double noise = sqrt(1.0 - phi * phi);
    for (size_t i = 0; i < GRID; i++) {
        s->x[i] = grid_reach * (2.0 * (double)i / (GRID - 1) - 1.0);
    }
    for (size_t i = 0; i < GRID; i++) {
        double *row = s->transition + i * GRID;
        double sum = 0.0, mean = 0.0;
        for (size_t j = 0; j < GRID; j++) {
            const double z = (s->x[j] - phi * s->x[i]) / noise;
            row[j] = exp(-0.5 * z * z);
            sum += row[j];
        }
        for (size_t j = 0; j < GRID; j++) {
            row[j] /= sum;
            mean += row[j] * s->x[j];
        }
        s->expected_x[i] = mean;
    }
}

static double exposure_of(size_t index) {
    return (double)index - 1.0;
}

/* Value of choosing exposure `to` at point i while holding `from`. */
static double choice_value(const struct solver *s, const struct dqn_ou_problem *p, size_t i,
                           size_t from, size_t to) {
    const double q = exposure_of(to);
    return q * (s->expected_x[i] - s->x[i]) - p->kappa * fabs(q - exposure_of(from)) +
           p->gamma * s->ahead[to][i];
}

static void look_ahead(struct solver *s) {
    for (size_t i = 0; i < GRID; i++) {
        const double *row = s->transition + i * GRID;
        double sum[EXPOSURES] = {0.0};
        for (size_t j = 0; j < GRID; j++) {
            for (size_t e = 0; e < EXPOSURES; e++) {
                sum[e] += row[j] * s->value[e][j];
            }
        }
        for (size_t e = 0; e < EXPOSURES; e++) {
            s->ahead[e][i] = sum[e];
        }
    }
}

/* One sweep; the largest change of a value. */
static double sweep(struct solver *s, const struct dqn_ou_problem *p) {
    double change = 0.0;
    look_ahead(s);
    for (size_t from = 0; from < EXPOSURES; from++) {
        for (size_t i = 0; i < GRID; i++) {
            double best = -INFINITY;
            for (size_t to = 0; to < EXPOSURES; to++) {
                best = fmax(best, choice_value(s, p, i, from, to));
            }
            change = fmax(change, fabs(best - s->value[from][i]));
            s->value[from][i] = best;
        }
    }
    return change;
}

/* The lowest x at which a holder of +1 turns to -1, halfway between grid points. */
static double read_threshold(const struct solver *s, const struct dqn_ou_problem *p) {
    for (size_t i = 0; i < GRID; i++) {
        const double keep = choice_value(s, p, i, 2, 2);
        if (choice_value(s, p, i, 2, 0) > keep) {
            return s->x[i] - grid_reach / (GRID - 1);
        }
    }
    return grid_reach;
}

enum dqn_status dqn_ou_threshold(const struct dqn_ou_problem *problem, double *threshold) {
    if (!(problem->phi >= 0.0 && problem->phi < 1.0 && problem->gamma >= 0.0 &&
          problem->gamma < 1.0 && problem->kappa >= 0.0)) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "no threshold for phi %g, gamma %g, kappa %g: phi and gamma must be in "
                        "[0, 1), kappa at least 0",
                        problem->phi, problem->gamma, problem->kappa);
    }
    struct solver *s = NULL;
    DQN_TRY(dqn_alloc((void **)&s, 1, sizeof *s, "the ou solver"));
    const enum dqn_status status =
        dqn_alloc((void **)&s->transition, (size_t)GRID * GRID, sizeof(double), "the ou solver");
    if (status == DQN_OK) {
        fill_transition(s, problem->phi);
        while (sweep(s, problem) > 1e-7) {
        }
        *threshold = read_threshold(s, problem);
        free(s->transition);
    }
    free(s);
    return status;
}

double dqn_ou_exposure(double threshold, double x, double exposure_before) {
    if (x < -threshold) {
        return 1.0;
    }
    return x > threshold ? -1.0 : exposure_before;
}

/* ---- another policy beside it ------------------------------------------------------------------
 */

enum { JUDGE_POINTS = 601 };
static const double judge_reach = 3.0;

static double judge_x(int i) {
    return judge_reach * (2.0 * i / (JUDGE_POINTS - 1) - 1.0);
}

static int sign_of(double x) {
    return (x > 0.25) - (x < -0.25);
}

void dqn_ou_judge(double threshold, dqn_ou_policy policy, void *context, double *own,
                  double *agreement) {
    double turns_short = judge_reach, turns_long = -judge_reach;
    int compared = 0, equal = 0;
    for (int i = 0; i < JUDGE_POINTS; i++) {
        const double x = judge_x(i), mirrored = -x;
        if (x > 0.0 && turns_short == judge_reach && sign_of(policy(context, x, 1.0)) < 0) {
            turns_short = x;
        }
        if (x > 0.0 && turns_long == -judge_reach && sign_of(policy(context, mirrored, -1.0)) > 0) {
            turns_long = mirrored;
        }
        for (double held = -1.0; held <= 1.0; held += 1.0) {
            if (fabs(fabs(x) - threshold) <= 0.1) {
                continue;
            }
            const double best = dqn_ou_exposure(threshold, x, held);
            compared++;
            equal += sign_of(policy(context, x, held)) == sign_of(best);
        }
    }
    *own = 0.5 * (turns_short - turns_long) - judge_reach / (JUDGE_POINTS - 1);
    *agreement = (double)equal / (double)compared;
}
