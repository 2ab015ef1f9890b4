/* Random draws and price paths inside a bar, shared by the synthetic markets. Every number is a
 * function of (synthetic.seed, lane, counter), so a market does not depend on the order of work and
 * is the same on every machine: transcendental functions come from src/shared/real.h. */
#ifndef DQN_MARKET_SYNTHETIC_PATH_H
#define DQN_MARKET_SYNTHETIC_PATH_H

#include "../config.h"
#include "../shared/real.h"
#include "../shared/rng.h"
#include "bars.h"

/* What a random number is for. */
enum dqn_market_lane {
    DQN_MARKET_PATH = 1, /* price steps; counter = bar * substeps + step */
    DQN_MARKET_EXTREMES, /* highs and lows between steps; same counter */
    DQN_MARKET_GAP,      /* opening gaps; counter = bar */
    DQN_MARKET_VOLUME,   /* counter = bar */
    DQN_MARKET_STATE,    /* autoregressive states; counter = bar */
    DQN_MARKET_SHUFFLE,  /* counter = bar */
    DQN_MARKET_SHAPE     /* shapes of micro bars; counter = bar */
};

/* Money traded in a bar, on average: far above what an agent with the default equity trades. */
#define DQN_MARKET_MONEY_VOLUME 1e9

DQN_SHARED struct dqn_u32x4 dqn_market_block(uint64_t seed, enum dqn_market_lane lane,
                                             uint64_t counter) {
    return dqn_rng_block(seed, dqn_rng_stream(DQN_RNG_MARKET, (uint64_t)lane), counter);
}

/* Two independent standard normals: Box and Muller 1958. */
DQN_SHARED void dqn_market_normals(uint64_t seed, enum dqn_market_lane lane, uint64_t counter,
                                   double z[2]) {
    const struct dqn_u32x4 block = dqn_market_block(seed, lane, counter);
    const double u = 1.0 - dqn_rng_unit(dqn_rng_u64(block, 0)); /* (0, 1] */
    const double angle = 6.283185307179586477 * dqn_rng_unit(dqn_rng_u64(block, 1));
    const double radius = sqrt(-2.0 * dqn_log(u));
    z[0] = radius * dqn_cos(angle);
    z[1] = radius * dqn_sin(angle);
}

/* A path inside a bar, in any unit (log price or price). */
struct dqn_path {
    double now, high, low;
};

DQN_SHARED void dqn_path_start(struct dqn_path *path, double at) {
    path->now = at;
    path->high = at;
    path->low = at;
}

/* Moves the path to `to` along a Brownian bridge of the given variance (> 0) and keeps its
 * extremes. The maximum M of a bridge from a to b of variance v has
 * P(M > m) = exp(-2 (m - a)(m - b) / v) for m >= max(a, b) (Borodin and Salminen 2002, "Handbook of
 * Brownian Motion", part II 1.1.8 with the end fixed), and the minimum is its mirror image. Maximum
 * and minimum are drawn independently of each other. 2^-53 is the smallest draw, so an extreme
 * whose probability is below exp(-37) cannot come up and is not drawn. */
DQN_SHARED void dqn_path_move(struct dqn_path *path, double to, double variance, uint64_t seed,
                              uint64_t counter) {
    const double a = path->now, b = to;
    path->now = b;
    if (b > path->high) {
        path->high = b;
    }
    if (b < path->low) {
        path->low = b;
    }
    const bool up = 2.0 * (path->high - a) * (path->high - b) < 37.0 * variance;
    const bool down = 2.0 * (path->low - a) * (path->low - b) < 37.0 * variance;
    if (!up && !down) {
        return;
    }
    const struct dqn_u32x4 block = dqn_market_block(seed, DQN_MARKET_EXTREMES, counter);
    if (up) {
        const double u = 1.0 - dqn_rng_unit(dqn_rng_u64(block, 0));
        const double m = 0.5 * (a + b + sqrt((b - a) * (b - a) - 2.0 * variance * dqn_log(u)));
        if (m > path->high) {
            path->high = m;
        }
    }
    if (down) {
        const double u = 1.0 - dqn_rng_unit(dqn_rng_u64(block, 1));
        const double m = 0.5 * (a + b - sqrt((b - a) * (b - a) - 2.0 * variance * dqn_log(u)));
        if (m < path->low) {
            path->low = m;
        }
    }
}

/* Writes bar i. Extremes are made to enclose open and close, whatever the rounding. */
DQN_SHARED void dqn_market_put_bar(struct dqn_bars *bars, size_t i, double open, double high,
                                   double low, double close) {
    const double top = open > close ? open : close;
    const double bottom = open < close ? open : close;
    bars->open[i] = open;
    bars->high[i] = high > top ? high : top;
    bars->low[i] = low < bottom ? low : bottom;
    bars->close[i] = close;
}

/* The market with hours, weekends, changing volatility and mispricing (bars_realistic.c). `bars` is
 * allocated with volume and hidden. */
void dqn_market_realistic(struct dqn_bars *bars, const struct dqn_config_synthetic *config);

/* Two-state drift, and the markets that reward one kind of order (bars_micro.c). `bars` is
 * allocated with volume and hidden; fills prices and the hidden state. */
void dqn_market_markov(struct dqn_bars *bars, const struct dqn_config_synthetic *config);
void dqn_market_micro(struct dqn_bars *bars, const struct dqn_config_synthetic *config);

#endif
