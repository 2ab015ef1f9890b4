/* Cart-pole, acrobot and mountain car against references written from the equations of motion
 * (tests/ref), against Gymnasium's own trajectories (tests/golden), and against hand-computed ends
 * of episodes; their starts are uniform and never repeat. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../envs/acrobot.h"
#include "../envs/cartpole.h"
#include "../envs/lane.h"
#include "../envs/mountain_car.h"
#include "ref/classic_ref.h"

enum { MAX_STATE = 4, MAX_OBS = 6 };

/* One environment behind doubles, so that the tests are tables. */
struct subject {
    const char *name;
    int n_state, n_obs, n_actions;
    void (*reset)(double *state, float *obs, const struct dqn_env_key *key);
    struct dqn_env_outcome (*step)(double *state, int action, float *obs);
    bool (*ref)(long double *state, int action);
    double tolerance; /* of one step, relative to max(1, |value|) */
    double kick;      /* added to the last number of every second start, so that ends occur */
};

#define SUBJECT(name)                                                                              \
    static void name##_subject_reset(double *s, float *obs, const struct dqn_env_key *key) {       \
        struct name##_params params;                                                               \
        struct name##_state state;                                                                 \
        name##_defaults(&params);                                                                  \
        name##_reset(&state, &params, key, obs);                                                   \
        memcpy(s, &state, sizeof state);                                                           \
    }                                                                                              \
    static struct dqn_env_outcome name##_subject_step(double *s, int action, float *obs) {         \
        struct name##_params params;                                                               \
        struct name##_state state;                                                                 \
        const struct dqn_env_key key = {0};                                                        \
        name##_defaults(&params);                                                                  \
        memcpy(&state, s, sizeof state);                                                           \
        const struct dqn_env_outcome outcome =                                                     \
            name##_step(&state, &params, &key, (uint32_t)action, obs);                             \
        memcpy(s, &state, sizeof state);                                                           \
        return outcome;                                                                            \
    }
SUBJECT(cartpole)
SUBJECT(acrobot)
SUBJECT(mountain_car)

/* Steps differ from the reference by rounding alone, which the acrobot's four stages amplify. Worst
 * seen (random steps; golden file): cart-pole 2.2e-16; 0. Acrobot 1.1e-15; 4.4e-16. Mountain car
 * 1.1e-16; 5e-19. */
static const struct subject subjects[] = {
    {"cartpole", 4, 4, 2, cartpole_subject_reset, cartpole_subject_step, ref_cartpole_step, 1e-15,
     0.5},
    {"acrobot", 4, 6, 3, acrobot_subject_reset, acrobot_subject_step, ref_acrobot_step, 1e-14,
     12.0},
    {"mountain_car", 2, 2, 3, mountain_car_subject_reset, mountain_car_subject_step,
     ref_mountain_car_step, 5e-16, 0.07},
};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

static double difference(double got, long double want) {
    return (double)(fabsl((long double)got - want) / fmaxl(1.0L, fabsl(want)));
}

static struct dqn_env_key key_of(uint64_t seed, uint64_t lane, uint64_t episode) {
    const struct dqn_lane state = {.episode = episode};
    return dqn_lane_reset_key(&state, seed, dqn_rng_stream(DQN_RNG_ENV, lane));
}

/* What the observation must be, from the state, by libm. */
static void expect_observation(const struct subject *s, const double *state, const float *obs) {
    double want[MAX_OBS];
    memcpy(want, state, sizeof(double) * (size_t)s->n_state);
    if (s->n_obs == 6) {
        want[0] = cos(state[0]);
        want[1] = sin(state[0]);
        want[2] = cos(state[1]);
        want[3] = sin(state[1]);
        want[4] = state[2];
        want[5] = state[3];
    }
    for (int i = 0; i < s->n_obs; i++) {
        cr_assert(isfinite(obs[i]), "%s: observation %d is not finite", s->name, i);
        /* Half a unit of the last place of a float. */
        cr_assert(fabs((double)obs[i] - want[i]) <= 6e-8 * fmax(1.0, fabs(want[i])),
                  "%s: observation %d = %g, state says %g", s->name, i, (double)obs[i], want[i]);
    }
}

Test(classic_env, random_steps_equal_the_equations_of_motion) {
    for (int n = 0; n < N_SUBJECTS; n++) {
        const struct subject *s = &subjects[n];
        double worst = 0.0, state[MAX_STATE];
        float obs[MAX_OBS];
        uint64_t episode = 0;
        int ends = 0;
        struct dqn_env_key key = key_of(3, 0, 0);
        s->reset(state, obs, &key);
        for (uint64_t i = 0; i < 20000; i++) {
            const int action =
                (int)dqn_rng_below(dqn_rng_u64(dqn_rng_block(4, 5, i), 0), (uint64_t)s->n_actions);
            long double want[MAX_STATE];
            for (int j = 0; j < s->n_state; j++) {
                want[j] = state[j];
            }
            const bool end = s->ref(want, action);
            const struct dqn_env_outcome outcome = s->step(state, action, obs);
            for (int j = 0; j < s->n_state; j++) {
                const double d = difference(state[j], want[j]);
                cr_assert(d <= s->tolerance, "%s step %d: %.17g, not %.17Lg", s->name, (int)i,
                          state[j], want[j]);
                worst = fmax(worst, d);
            }
            cr_assert(outcome.terminated == end && outcome.truncated == 0, "%s", s->name);
            expect_observation(s, state, obs);
            ends += end;
            if (end || i % 500 == 499) {
                key = key_of(3, 0, ++episode);
                s->reset(state, obs, &key);
                state[s->n_state - 1] += (double)(episode & 1) * s->kick;
            }
        }
        cr_log_info("%s: worst %.3g, %d episodes ended", s->name, worst, ends);
        cr_expect(s->n_state == 2 || ends > 5, "%s: random actions ended %d episodes", s->name,
                  ends);
    }
}

static const struct subject *subject_named(const char *name) {
    for (int n = 0; n < N_SUBJECTS; n++) {
        if (strcmp(subjects[n].name, name) == 0) {
            return &subjects[n];
        }
    }
    return NULL;
}

/* Rows of tests/golden/classic_control.csv, see scripts/bench/gym_reference.py. */
Test(classic_env, steps_equal_gymnasium) {
    FILE *file = fopen("tests/golden/classic_control.csv", "r");
    cr_assert(file != NULL, "run from the project's folder");
    char line[1024];
    int rows = 0, n_ends = 0;
    double worst[N_SUBJECTS] = {0};
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') {
            continue;
        }
        char *rest = line;
        const struct subject *s = subject_named(strsep(&rest, ","));
        cr_assert(s != NULL, "row %d", rows);
        double number[3 + 2 * MAX_STATE + 2];
        const int n = 3 + 2 * s->n_state + 2;
        for (int i = 0; i < n; i++) {
            cr_assert(rest != NULL, "row %d is short", rows);
            number[i] = strtod(strsep(&rest, ","), NULL);
        }
        const double *before = number + 3, *end = before + s->n_state, *after = end + 2;
        double state[MAX_STATE];
        float obs[MAX_OBS];
        memcpy(state, before, sizeof(double) * (size_t)s->n_state);
        const struct dqn_env_outcome outcome = s->step(state, (int)number[2], obs);
        for (int i = 0; i < s->n_state; i++) {
            const double d = difference(state[i], (long double)after[i]);
            cr_expect(d <= s->tolerance, "%s row %d: %.17g, not %.17g", s->name, rows, state[i],
                      after[i]);
            worst[s - subjects] = fmax(worst[s - subjects], d);
        }
        cr_expect((double)outcome.reward == end[0], "%s row %d: reward", s->name, rows);
        cr_expect((double)outcome.terminated == end[1], "%s row %d: end", s->name, rows);
        n_ends += outcome.terminated;
        rows++;
    }
    fclose(file);
    for (int n = 0; n < N_SUBJECTS; n++) {
        cr_log_info("%s: worst %.3g", subjects[n].name, worst[n]);
    }
    cr_expect(rows > 150 && n_ends >= 4, "%d rows, %d ends", rows, n_ends);
}

/* Without torque the acrobot keeps its energy: small steps of the true equations drift by 1e-11 J
 * at most in a second (seen: 1.6e-12), a wrong term by joules. */
Test(classic_env, acrobot_conserves_energy) {
    struct acrobot_params params;
    acrobot_defaults(&params);
    params.tau = 1e-3;
    params.torque = 0.0;
    struct acrobot_state state = {1.0, -0.7, 0.5, 1.5};
    const struct dqn_env_key key = {0};
    float obs[MAX_OBS];
    const long double start[4] = {1.0L, -0.7L, 0.5L, 1.5L};
    const long double energy = ref_acrobot_energy(start);
    long double worst = 0.0L;
    for (int i = 0; i < 1000; i++) {
        acrobot_step(&state, &params, &key, 1, obs);
        const long double now[4] = {state.angle1, state.angle2, state.spin1, state.spin2};
        const long double drift = fabsl(ref_acrobot_energy(now) - energy);
        cr_assert(drift < 1e-11L, "step %d: %Lg J", i, drift);
        worst = fmaxl(worst, drift);
    }
    cr_log_info("worst drift %.3Lg J", worst);
}

/* One step from `state`; the end that a person computes. */
static const struct {
    const char *env;
    double state[MAX_STATE];
    int action;
    int terminated;
    float reward;
} ends[] = {
    /* At rest the position stays for one step: the limit 2.4 itself is inside. */
    {"cartpole", {2.4, 0, 0, 0}, 1, 0, 1.0f},
    {"cartpole", {2.4000000000000004, 0, 0, 0}, 1, 1, 1.0f},
    {"cartpole", {-2.4, 0, 0, 0}, 0, 0, 1.0f},
    {"cartpole", {-2.4000000000000004, 0, 0, 0}, 0, 1, 1.0f},
    /* Position 2.35 + 0.02 * 2 = 2.39, 2.37 + 0.04 = 2.41. */
    {"cartpole", {2.35, 2, 0, 0}, 0, 0, 1.0f},
    {"cartpole", {2.37, 2, 0, 0}, 0, 1, 1.0f},
    /* 12 degrees are 0.20943951 rad. */
    {"cartpole", {0, 0, 0.2094395, 0}, 0, 0, 1.0f},
    {"cartpole", {0, 0, 0.2094396, 0}, 0, 1, 1.0f},
    {"cartpole", {0, 0, -0.2094396, 0}, 0, 1, 1.0f},
    /* Hanging down; upright, where gravity has no lever. */
    {"acrobot", {0, 0, 0, 0}, 1, 0, -1.0f},
    {"acrobot", {3.141592653589793, 0, 0, 0}, 1, 1, 0.0f},
    /* Velocity 0.06 + 0.001 - 0.0025 cos(1.35) = 0.06045, position 0.5105; from 0.43: 0.4903. */
    {"mountain_car", {0.45, 0.06}, 2, 1, -1.0f},
    {"mountain_car", {0.43, 0.06}, 2, 0, -1.0f},
};

Test(classic_env, ends_computed_by_hand) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        double state[MAX_STATE];
        float obs[MAX_OBS];
        memcpy(state, ends[i].state, sizeof state);
        const struct dqn_env_outcome outcome =
            subject_named(ends[i].env)->step(state, ends[i].action, obs);
        cr_expect(outcome.terminated == ends[i].terminated, "%s, case %zu: terminated %d",
                  ends[i].env, i, outcome.terminated);
        cr_expect(outcome.reward == ends[i].reward, "%s, case %zu", ends[i].env, i);
        cr_expect(outcome.truncated == 0);
    }
}

/* Straight links: the tip is at -2 cos(angle), which passes 1 at 2 pi / 3 = 2.0944. */
Test(classic_env, acrobot_line) {
    struct acrobot_params params;
    acrobot_defaults(&params);
    const struct acrobot_state below = {2.0943, 0, 0, 0}, above = {2.0945, 0, 0, 0};
    float obs[MAX_OBS];
    cr_expect(acrobot_observe(&below, &params, obs) == 0);
    cr_expect(acrobot_observe(&above, &params, obs) == 1);
}

Test(classic_env, mountain_car_wall_stops) {
    double state[MAX_STATE] = {-1.19, -0.05};
    float obs[MAX_OBS];
    mountain_car_subject_step(state, 0, obs);
    cr_expect(state[0] == -1.2 && state[1] == 0.0);
}

enum { LANES = 256, EPISODES = 20, SEEDS = 2, BINS = 20 };

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 19 degrees of freedom: above 60 by chance with probability 4e-6; the seeds are fixed. */
static void expect_uniform(const char *name, int which, const double *value, size_t n, double low,
                           double high) {
    uint64_t count[BINS] = {0};
    double chi = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double share = (value[i] - low) / (high - low);
        cr_assert(share >= 0.0 && share < 1.0, "%s: start %g", name, value[i]);
        count[(int)(share * BINS)]++;
    }
    for (int b = 0; b < BINS; b++) {
        const double off = (double)count[b] - (double)n / BINS;
        chi += off * off / ((double)n / BINS);
    }
    cr_expect(chi < 60.0, "%s: number %d of the start: chi-square %.1f", name, which, chi);
}

Test(classic_env, starts_are_uniform_and_never_repeat) {
    static const double low[] = {-0.05, -0.1, -0.6}, high[] = {0.05, 0.1, -0.4};
    static double value[MAX_STATE][SEEDS * LANES * EPISODES];
    for (int n = 0; n < N_SUBJECTS; n++) {
        const struct subject *s = &subjects[n];
        size_t count = 0;
        for (uint64_t i = 0; i < SEEDS * LANES * EPISODES; i++) {
            const struct dqn_env_key key =
                key_of(1 + i % SEEDS, i / SEEDS % LANES, i / SEEDS / LANES);
            double state[MAX_STATE];
            float obs[MAX_OBS];
            s->reset(state, obs, &key);
            expect_observation(s, state, obs);
            for (int j = 0; j < s->n_state; j++) {
                value[j][count] = state[j];
            }
            count++;
        }
        const int n_random = s->n_state == 2 ? 1 : s->n_state;
        for (int j = 0; j < n_random; j++) {
            expect_uniform(s->name, j, value[j], count, low[n], high[n]);
            qsort(value[j], count, sizeof(double), compare_doubles);
            for (size_t i = 1; i < count; i++) {
                cr_assert(value[j][i] != value[j][i - 1], "%s: a start came twice", s->name);
            }
        }
        cr_expect(s->n_state == 4 || value[1][0] == 0.0, "the car starts at rest");
    }
}
