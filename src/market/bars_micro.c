/* Synthetic markets about one question each (docs/market-data.md). markov_visible, markov_hidden: a
 * drift that is up or down; the hidden state is the drift's sign, or what the returns so far tell
 * about it. micro: the direction is given, as the sign of the hidden state, which is 1 at a turn
 * and 0.5 later; which kind of order is best is the question, and synthetic.cell is its answer. */
#include <math.h>

#include "synthetic_path.h"

/* ---- a drift with two states ---------------------------------------------------------------- */

/* What the returns so far tell about the next bar's state, as a number in (-1, 1): 2 P(up) - 1, by
 * the filter of Hamilton 1989 (Econometrica 57) with known parameters. */
static double filter_state(double belief, double log_return,
                           const struct dqn_config_synthetic *config) {
    const double variance = config->sigma * config->sigma;
    const double odds = (1.0 + belief) / (1.0 - belief) *
                        dqn_exp(2.0 * config->markov_drift * log_return / variance);
    const double seen = 1.0 - 2.0 / (1.0 + odds);
    return (1.0 - 2.0 * config->markov_switch) * seen;
}

/* The state of bar i + 1 is known, or guessed, at the close of bar i. Log returns of a bar: normal
 * with mean +-markov_drift and std sigma; each bar opens at the close before. */
void dqn_market_markov(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    const uint64_t seed = (uint64_t)config->seed;
    const double variance = config->sigma * config->sigma;
    const bool visible = config->market == DQN_MARKET_MARKOV_VISIBLE;
    double log_price = 0.0, state = 1.0, belief = 0.0, z[2];
    for (size_t i = 0; i < bars->n; i++) {
        struct dqn_path path;
        dqn_path_start(&path, log_price);
        dqn_market_normals(seed, DQN_MARKET_PATH, i, z);
        const double step = state * config->markov_drift + config->sigma * z[0];
        dqn_path_move(&path, log_price + step, variance, seed, i);
        dqn_market_put_bar(bars, i, config->price * dqn_exp(log_price),
                           config->price * dqn_exp(path.high), config->price * dqn_exp(path.low),
                           config->price * dqn_exp(path.now));
        log_price = path.now;
        const struct dqn_u32x4 block = dqn_market_block(seed, DQN_MARKET_STATE, i);
        if (dqn_rng_unit(dqn_rng_u64(block, 0)) < config->markov_switch) {
            state = -state;
        }
        belief = filter_state(belief, step, config);
        bars->hidden[i] = visible ? state : belief;
    }
}

/* ---- markets that reward one kind of order -------------------------------------------------- */

/* A bar in units of the bar volatility s, from the close before, in the direction of the trade: the
 * open, the farthest point against the trade (the low, for a buyer), the close. The farthest point
 * the other way is the open or the close. */
struct micro_shape {
    double open, dip, close;
};

/* The first bar of a new direction, which executes the turn; and, where there is one, the trap:
 * half of the turns begin with it, and the first bar follows. Against the rules of docs/trading.md
 * with a slippage of 0.1 s: market_patient     opens far away, comes back inside the bar but not to
 * any limit: the bar's average is the best price market_normal      runs from a far open just so
 * much that half of the delay costs less than half of the slippage saves (with a slippage of 1 s)
 *   market_aggressive  opens far away and runs: the open is the best price, and beyond every cap
 *   limit_*            wide, middling and narrow swings against the trade inside the bar
 *   ioc_*              opens just inside this cap and runs; the trap opens just outside it and
 * falls back, so that who waits pays less */
static const struct micro_market {
    struct micro_shape first, trap;
    bool traps;
} micro_markets[DQN_CELLS] = {
    [DQN_CELL_MARKET_PATIENT] = {.first = {1.5, 0.2, 1.4}},
    [DQN_CELL_MARKET_NORMAL] = {.first = {1.3, 1.3, 2.8}},
    [DQN_CELL_MARKET_AGGRESSIVE] = {.first = {1.3, 1.3, 2.3}},
    [DQN_CELL_LIMIT_PATIENT] = {.first = {0.0, -1.3, 0.3}},
    [DQN_CELL_LIMIT_NORMAL] = {.first = {0.0, -0.5, 0.5}},
    [DQN_CELL_LIMIT_AGGRESSIVE] = {.first = {0.2, -0.15, 0.8}},
    [DQN_CELL_IOC_PATIENT] = {{0.02, 0.02, 1.0}, {0.18, -1.5, -1.5}, true},
    [DQN_CELL_IOC_NORMAL] = {{0.2, 0.2, 1.2}, {0.6, -1.5, -1.5}, true},
    [DQN_CELL_IOC_AGGRESSIVE] = {{0.6, 0.6, 1.6}, {1.5, -1.5, -1.5}, true},
};

struct micro_state {
    double price;
    double variance;  /* of a bar's log return, as the environment measures it */
    double direction; /* of the present trend, +1 or -1 */
    uint64_t left;    /* bars of the trend that are still to come */
    bool trap, first; /* the next bar is one */
};

/* A trend of 6 to 10 bars the other way; `counter` is the bar that it begins with. */
static void turn(struct micro_state *state, const struct micro_market *market, uint64_t seed,
                 uint64_t counter) {
    const struct dqn_u32x4 block = dqn_market_block(seed, DQN_MARKET_STATE, counter);
    state->direction = -state->direction;
    state->left = 6 + dqn_rng_below(dqn_rng_u64(block, 0), 5);
    state->trap = market->traps && dqn_rng_unit(dqn_rng_u64(block, 1)) < 0.5;
    state->first = !state->trap;
}

/* Adds a bar of a shape. `unit`: one s, as a share of the price. */
static void put_shape(struct dqn_bars *bars, size_t i, struct micro_state *state,
                      const struct micro_shape *shape, double unit) {
    const double from = state->price, side = state->direction * unit;
    const double open = from * (1.0 + side * shape->open), dip = from * (1.0 + side * shape->dip);
    const double close = from * (1.0 + side * shape->close);
    dqn_market_put_bar(bars, i, open, dip, dip, close);
    state->price = close;
}

/* An ordinary bar of the trend: no gap, no way back. Trends go to 4 sigma above or below the first
 * price by turns, so that the price stays there for ever. */
static void put_trend(struct dqn_bars *bars, size_t i, struct micro_state *state,
                      const struct dqn_config_synthetic *config, double draw) {
    const double from = state->price;
    const double goal = 4.0 * config->sigma;
    const double gone = state->direction * dqn_log(from / config->price);
    const double share = state->left > 1 ? (0.5 + draw) / (double)state->left : 1.0;
    const double move = dqn_fmax(share * (goal - gone), 0.05 * config->sigma);
    state->price = from * dqn_exp(state->direction * move);
    dqn_market_put_bar(bars, i, from, from, from, state->price);
}

void dqn_market_micro(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    const uint64_t seed = (uint64_t)config->seed;
    const struct micro_market *market = &micro_markets[config->cell];
    struct micro_state state = {
        .price = config->price, .variance = config->sigma * config->sigma, .direction = -1.0};
    turn(&state, market, seed, 0);
    for (size_t i = 0; i < bars->n; i++) {
        const struct dqn_u32x4 block = dqn_market_block(seed, DQN_MARKET_SHAPE, i);
        const double draw = dqn_rng_unit(dqn_rng_u64(block, 0));
        const double before = state.price;
        const double unit = sqrt(state.variance) * (0.9 + 0.2 * draw);
        if (state.trap) {
            put_shape(bars, i, &state, &market->trap, unit);
            state.first = true;
            state.trap = false;
        } else if (state.first) {
            put_shape(bars, i, &state, &market->first, unit);
            state.first = false;
            state.left--;
        } else {
            put_trend(bars, i, &state, config, draw);
            state.left--;
        }
        const double r = dqn_log(state.price / before);
        state.variance += (r * r - state.variance) * (2.0 / 65.0);
        if (state.left == 0) {
            turn(&state, market, seed, i + 1);
        }
        /* inside a trend other orders are best than at its turn: the state tells them apart */
        bars->hidden[i] = state.trap || state.first ? state.direction : 0.5 * state.direction;
    }
}
