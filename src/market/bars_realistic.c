/* The synthetic market that looks like one. Log price = value + mispricing:
 *
 *   value       a martingale whose volatility is synthetic.sigma times exp(AR(1) state) times an
 *               hour-of-day pattern with a morning and an afternoon peak
 *   mispricing  an Ornstein-Uhlenbeck process that is AR(1) from bar to bar, with
 *               synthetic.mispricing_phi and _std: what an agent can earn from
 *   hours       closed from Friday 22:00 to Sunday 22:00 UTC with synthetic.weekends; the value
 *               moves over the weekend by one more bar's volatility
 *   volume      rises with the hour's activity, the volatility state and the bar's own move
 *
 * The hidden state is the mispricing in its stationary stds. */
#include <math.h>

#include "synthetic_path.h"

static const double volatility_phi = 0.99; /* from bar to bar: half-life 69 bars */
static const double volatility_std = 0.35;
static const int64_t start_s = 1420408800; /* Sunday 2015-01-04 22:00:00 UTC */
static const int64_t day_s = 86400;
static const int64_t weekend_s = 2 * 86400;
static const int64_t week_open_s = 5 * 86400; /* trading time of a week */

/* Activity at a second of the day, relative to the day's root mean square. */
static double activity(int64_t second_of_day) {
    const double hour = (double)second_of_day / 3600.0;
    const double morning = (hour - 8.5) / 2.5, afternoon = (hour - 14.5) / 3.0;
    const double raw =
        0.6 + 0.5 * dqn_exp(-0.5 * morning * morning) + 0.8 * dqn_exp(-0.5 * afternoon * afternoon);
    return raw / 1.02685; /* root mean square of `raw` over 24 hours */
}

/* Bar times. A bar that would start inside a weekend starts at its end. */
static void trading_times(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    const int64_t bar_s = config->bar_seconds;
    const int64_t bars_a_week = week_open_s / bar_s; /* a bar never reaches into the weekend */
    for (size_t i = 0; i < bars->n; i++) {
        int64_t second = (int64_t)i * bar_s;
        if (config->weekends) {
            const int64_t week = (int64_t)i / bars_a_week;
            second = week * (week_open_s + weekend_s) + ((int64_t)i % bars_a_week) * bar_s;
        }
        bars->time_ns[i] = (start_s + second) * 1000000000;
    }
}

struct market {
    const struct dqn_config_synthetic *config;
    uint64_t seed;
    uint64_t n_steps;
    double mispricing, step_phi, step_std; /* the gap and its step */
    double value;                          /* log value */
    double volatility;                     /* log volatility state */
};

static void market_start(struct market *market, const struct dqn_config_synthetic *config) {
    double z[2];
    market->config = config;
    market->seed = (uint64_t)config->seed;
    market->n_steps = (uint64_t)config->substeps;
    const double phi = config->mispricing_phi;
    market->step_phi = phi > 0.0 ? dqn_exp(dqn_log(phi) / (double)market->n_steps) : 0.0;
    market->step_std = config->mispricing_std * sqrt(1.0 - market->step_phi * market->step_phi);
    dqn_market_normals(market->seed, DQN_MARKET_STATE, UINT64_MAX, z);
    market->mispricing = config->mispricing_std * z[0];
    market->volatility = volatility_std * z[1];
    market->value = -market->mispricing; /* the first price is synthetic.price */
}

/* The value's move while nothing trades. */
static void market_gap(struct market *market, uint64_t bar, bool weekend) {
    const double ordinary = market->config->gap_sigma * market->config->sigma;
    const double closed = weekend ? market->config->sigma : 0.0;
    const double variance = ordinary * ordinary + closed * closed;
    if (variance > 0.0) {
        double z[2];
        dqn_market_normals(market->seed, DQN_MARKET_GAP, bar, z);
        market->value += sqrt(variance) * z[0] - 0.5 * variance;
    }
}

/* The path of log prices through one bar, with the given volatility of the value. */
static struct dqn_path market_bar(struct market *market, uint64_t bar, double bar_std) {
    const double value_std = bar_std / sqrt((double)market->n_steps);
    const double drift = -0.5 * value_std * value_std;
    const double variance = value_std * value_std + market->step_std * market->step_std;
    struct dqn_path path;
    dqn_path_start(&path, market->value + market->mispricing);
    for (uint64_t step = 0; step < market->n_steps; step++) {
        const uint64_t counter = bar * market->n_steps + step;
        double z[2];
        dqn_market_normals(market->seed, DQN_MARKET_PATH, counter, z);
        market->value += drift + value_std * z[0];
        market->mispricing = market->step_phi * market->mispricing + market->step_std * z[1];
        dqn_path_move(&path, market->value + market->mispricing, variance, market->seed, counter);
    }
    return path;
}

/* Money traded in a bar: log-normal around activity^1.5, the volatility state and the move. */
static double market_money(const struct market *market, uint64_t bar, double busy, double move) {
    double z[2];
    dqn_market_normals(market->seed, DQN_MARKET_VOLUME, bar, z);
    const double size = 0.6 + 0.5 * fabs(move);
    return DQN_MARKET_MONEY_VOLUME * busy * sqrt(busy) * size *
           dqn_exp(market->volatility + 0.3 * z[0] - 0.045);
}

void dqn_market_realistic(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    struct market market;
    market_start(&market, config);
    trading_times(bars, config);
    const double state_std = volatility_std * sqrt(1.0 - volatility_phi * volatility_phi);
    /* exp(2 state) has mean exp(2 std^2): taken out, so that sigma is the mean square */
    const double level = config->sigma * dqn_exp(-volatility_std * volatility_std);
    for (size_t i = 0; i < bars->n; i++) {
        double z[2];
        dqn_market_normals(market.seed, DQN_MARKET_STATE, i, z);
        market.volatility = volatility_phi * market.volatility + state_std * z[0];
        if (i > 0) {
            const int64_t pause_ns = bars->time_ns[i] - bars->time_ns[i - 1];
            market_gap(&market, i, pause_ns / 1000000000 > config->bar_seconds);
        }
        const bool hours = config->intraday && config->bar_seconds < day_s;
        const double busy = hours ? activity(bars->time_ns[i] / 1000000000 % day_s) : 1.0;
        const double bar_std = level * busy * dqn_exp(market.volatility);
        const double open = config->price * dqn_exp(market.value + market.mispricing);
        const struct dqn_path path = market_bar(&market, i, bar_std);
        const double close = config->price * dqn_exp(path.now);
        dqn_market_put_bar(bars, i, open, config->price * dqn_exp(path.high),
                           config->price * dqn_exp(path.low), close);
        const double move = bar_std > 0.0 ? dqn_log(close / open) / bar_std : 0.0;
        bars->volume[i] = market_money(&market, i, busy, move) / close;
        bars->hidden[i] =
            config->mispricing_std > 0.0 ? market.mispricing / config->mispricing_std : 0.0;
    }
}
