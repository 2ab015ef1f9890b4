#include "hindsight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 5 };

/* The best account of each class after a bar. */
struct front {
    bool live[CLASSES];
    struct trading_state state[CLASSES];
    uint8_t action[CLASSES], from[CLASSES]; /* that led there, and out of which class */
};

/* Nearest of the five levels of exposure, -1 to 1 times the largest. */
static size_t class_of(const struct trading_params *p, double exposure) {
    const double level = 2.0 + 2.0 * exposure / p->max_leverage;
    return (size_t)lround(fmin(fmax(level, 0.0), CLASSES - 1.0));
}

/* Carries out an action in an account and keeps the result where it is the best of its class.
 * Returns whether the pass ends there. */
static bool try_action(const struct trading_params *p, struct dqn_env_key *key,
                       const struct trading_state *state, size_t from, uint32_t action,
                       struct front *after) {
    struct trading_state next = *state;
    struct trading_step_record record;
    trading_step_blind(&next, p, key, action, &record);
    const size_t at = class_of(p, record.exposure_after);
    if (!record.terminated && (!after->live[at] || next.equity > after->state[at].equity)) {
        after->live[at] = true;
        after->state[at] = next;
        after->action[at] = (uint8_t)action;
        after->from[at] = (uint8_t)from;
    }
    return record.truncated != 0;
}

/* One bar for all accounts. Returns whether the pass ends there. */
static bool advance(const struct trading_params *p, struct dqn_env_key *key,
                    const struct front *before, struct front *after) {
    bool ends = false;
    memset(after, 0, sizeof *after);
    key->step += 1;
    for (size_t from = 0; from < CLASSES; from++) {
        for (uint32_t action = 0; before->live[from] && action < TRADING_ACTIONS; action++) {
            ends |= try_action(p, key, &before->state[from], from, action, after);
        }
    }
    return ends;
}

static size_t best_class(const struct front *front) {
    size_t best = CLASSES;
    for (size_t i = 0; i < CLASSES; i++) {
        if (front->live[i] &&
            (best == CLASSES || front->state[i].equity > front->state[best].equity)) {
            best = i;
        }
    }
    return best;
}

/* How each class was reached in each bar, for walking back. */
struct trace {
    uint8_t (*action)[CLASSES], (*from)[CLASSES]; /* [transitions] */
};

static void walk_back(const struct trace *trace, size_t n, size_t at, uint8_t *actions) {
    for (size_t i = n; i-- > 0;) {
        actions[i] = trace->action[i][at];
        at = trace->from[i][at];
    }
}

/* Returns how many bars were gone through: fewer than all when every path was ruined. */
static size_t search(const struct trading_params *p, struct front fronts[2],
                     const struct trace *trace) {
    struct dqn_env_key key = {.seed = 1, .stream = dqn_rng_stream(DQN_RNG_EVAL_ENV, 0)};
    float observation[TRADING_FEATURES];
    memset(&fronts[0], 0, sizeof fronts[0]);
    trading_reset(&fronts[0].state[2], p, &key, observation);
    fronts[0].live[2] = true;
    size_t n = 0;
    for (bool ends = false; !ends && best_class(&fronts[n % 2]) < CLASSES; n++) {
        struct front *after = &fronts[(n + 1) % 2];
        ends = advance(p, &key, &fronts[n % 2], after);
        memcpy(trace->action[n], after->action, CLASSES);
        memcpy(trace->from[n], after->from, CLASSES);
    }
    return n;
}

enum dqn_status dqn_hindsight_run(const struct trading_params *params, double *equity,
                                  uint8_t *actions) {
    struct front fronts[2];
    struct trace trace = {NULL, NULL};
    const size_t steps = (size_t)params->transitions;
    enum dqn_status status = DQN_OK;
    *equity = NAN;
    if (params->latency > 0) {
        return DQN_OK;
    }
    DQN_TRY_GOTO(dqn_alloc((void **)&trace.action, steps, CLASSES, "a path with hindsight"));
    DQN_TRY_GOTO(dqn_alloc((void **)&trace.from, steps, CLASSES, "a path with hindsight"));
    const size_t n = search(params, fronts, &trace);
    const size_t best = best_class(&fronts[n % 2]);
    if (best < CLASSES && n == steps) {
        *equity = fronts[n % 2].state[best].equity;
        if (actions != NULL) {
            walk_back(&trace, n, best, actions);
        }
    }
done:
    free(trace.action);
    free(trace.from);
    return status;
}
