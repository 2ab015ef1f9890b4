/* Markets whose answer is known (docs/market-data.md):
 *   martingale  no policy can earn; with costs the optimum is to stay out
 *   drift       buy and hold
 *   ou          mean reversion with an optimum computed by dynamic programming
 *   ou_shuffled its returns in random order: nothing left to learn
 *   realistic   in bars_realistic.c
 *   markov_visible, markov_hidden, micro   in bars_micro.c */
#include "bars.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bars_read.h"
#include "sha256.h"
#include "synthetic_path.h"

static const int64_t first_bar_s = 1420070400; /* 2015-01-01 00:00:00 UTC */

static void regular_times(struct dqn_bars *bars, int64_t bar_seconds) {
    for (size_t i = 0; i < bars->n; i++) {
        bars->time_ns[i] = (first_bar_s + (int64_t)i * bar_seconds) * 1000000000;
    }
}

/* Volumes that carry no news: log-normal around a constant amount of money. */
static void plain_volumes(struct dqn_bars *bars, uint64_t seed) {
    const double spread = 0.25;
    for (size_t i = 0; i < bars->n; i++) {
        double z[2];
        dqn_market_normals(seed, DQN_MARKET_VOLUME, i, z);
        bars->volume[i] = DQN_MARKET_MONEY_VOLUME / bars->close[i] *
                          dqn_exp(spread * z[0] - 0.5 * spread * spread);
    }
}

/* A random walk of log prices. Martingale: steps have mean -variance / 2, so that the price has no
 * drift (a walk without drift in logs would pay longs half its variance). Drift: the mean log
 * return of a bar is config->drift. */
static void walk(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    const uint64_t seed = (uint64_t)config->seed;
    const uint64_t n_steps = (uint64_t)config->substeps;
    const double step_std = config->sigma / sqrt((double)n_steps);
    const double variance = step_std * step_std;
    const bool martingale = config->market == DQN_MARKET_MARTINGALE;
    const double mean = martingale ? -0.5 * variance : config->drift / (double)n_steps;
    const double gap_std = config->gap_sigma * config->sigma;
    double log_price = 0.0;
    for (size_t i = 0; i < bars->n; i++) {
        double z[2];
        if (gap_std > 0.0 && i > 0) {
            dqn_market_normals(seed, DQN_MARKET_GAP, i, z);
            log_price += gap_std * z[0] - (martingale ? 0.5 * gap_std * gap_std : 0.0);
        }
        struct dqn_path path;
        dqn_path_start(&path, log_price);
        for (uint64_t step = 0; step < n_steps; step++) {
            const uint64_t counter = (uint64_t)i * n_steps + step;
            if (counter % 2 == 0 || step == 0) {
                dqn_market_normals(seed, DQN_MARKET_PATH, counter / 2, z);
            }
            const double to = path.now + mean + step_std * z[counter % 2];
            dqn_path_move(&path, to, variance, seed, counter);
        }
        dqn_market_put_bar(bars, i, config->price * dqn_exp(log_price),
                           config->price * dqn_exp(path.high), config->price * dqn_exp(path.low),
                           config->price * dqn_exp(path.now));
        log_price = path.now;
    }
}

/* X' = phi X + sqrt(1 - phi^2) n with stationary std 1; close = price (1 + ou_std X); each bar
 * opens at the close before. Extremes are those of a Brownian bridge of the step's variance. */
static void ornstein_uhlenbeck(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    const uint64_t seed = (uint64_t)config->seed;
    const double step_variance = 1.0 - config->ou_phi * config->ou_phi;
    const double step_std = sqrt(step_variance);
    double z[2];
    dqn_market_normals(seed, DQN_MARKET_STATE, UINT64_MAX, z);
    double x = z[0];
    for (size_t i = 0; i < bars->n; i++) {
        struct dqn_path path;
        dqn_path_start(&path, x);
        dqn_market_normals(seed, DQN_MARKET_STATE, i, z);
        dqn_path_move(&path, config->ou_phi * x + step_std * z[0], step_variance, seed, i);
        dqn_market_put_bar(bars, i, config->price * (1.0 + config->ou_std * x),
                           config->price * (1.0 + config->ou_std * path.high),
                           config->price * (1.0 + config->ou_std * path.low),
                           config->price * (1.0 + config->ou_std * path.now));
        x = path.now;
        bars->hidden[i] = x;
    }
}

static void swap_real(double *a, double *b) {
    const double t = *a;
    *a = *b;
    *b = t;
}

/* Puts whole bars (their returns and their shapes) into random order (Fisher and Yates) and chains
 * them again, each opening at the close before. The hidden state is read back from the price. */
static void shuffle_bars(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    const double start = bars->open[0];
    for (size_t i = 0; i < bars->n; i++) {
        const double open = bars->open[i];
        bars->high[i] /= open;
        bars->low[i] /= open;
        bars->close[i] /= open;
    }
    for (size_t i = bars->n - 1; i > 0; i--) {
        const struct dqn_u32x4 block =
            dqn_market_block((uint64_t)config->seed, DQN_MARKET_SHUFFLE, i);
        const size_t j = (size_t)dqn_rng_below(dqn_rng_u64(block, 0), (uint64_t)i + 1);
        swap_real(&bars->high[i], &bars->high[j]);
        swap_real(&bars->low[i], &bars->low[j]);
        swap_real(&bars->close[i], &bars->close[j]);
    }
    double price = start;
    for (size_t i = 0; i < bars->n; i++) {
        dqn_market_put_bar(bars, i, price, price * bars->high[i], price * bars->low[i],
                           price * bars->close[i]);
        price = bars->close[i];
        bars->hidden[i] = (price / config->price - 1.0) / config->ou_std;
    }
}

static enum dqn_status check_prices(const struct dqn_bars *bars,
                                    const struct dqn_config_synthetic *config) {
    for (size_t i = 0; i < bars->n; i++) {
        if (!(bars->low[i] > 0.0) || !isfinite(bars->high[i]) || !isfinite(bars->volume[i])) {
            return dqn_fail(
                DQN_ERR_CONFIG,
                "the %s market leaves the positive finite prices at bar %zu of %zu; use "
                "fewer synthetic.bars or a smaller synthetic.%s",
                dqn_config_choice("synthetic.market", config->market), i, bars->n,
                config->market == DQN_MARKET_OU || config->market == DQN_MARKET_OU_SHUFFLED
                    ? "ou_std"
                    : "sigma");
        }
    }
    return DQN_OK;
}

static enum dqn_status hash_bars(struct dqn_bars *bars) {
    struct dqn_sha256 *sha = NULL;
    enum dqn_status status = DQN_OK;
    DQN_TRY(dqn_sha256_create(&sha));
    const double *const columns[] = {bars->open, bars->high, bars->low, bars->close, bars->volume};
    DQN_TRY_GOTO(dqn_sha256_add(sha, bars->time_ns, bars->n * sizeof(int64_t)));
    for (size_t c = 0; c < DQN_COUNT_OF(columns); c++) {
        DQN_TRY_GOTO(dqn_sha256_add(sha, columns[c], bars->n * sizeof(double)));
    }
    DQN_TRY_GOTO(dqn_sha256_text(sha, bars->info.sha256));
done:
    dqn_sha256_destroy(sha);
    return status;
}

static enum dqn_status describe(struct dqn_bars *bars, const struct dqn_config_synthetic *config) {
    struct dqn_bars_info *info = &bars->info;
    snprintf(info->source, sizeof(info->source), "synthetic %s",
             dqn_config_choice("synthetic.market", config->market));
    snprintf(info->dialect, sizeof(info->dialect), "seed %lld", (long long)config->seed);
    info->bar_seconds = (double)config->bar_seconds;
    for (size_t i = 1; i < bars->n; i++) {
        const double seconds = 1e-9 * (double)(bars->time_ns[i] - bars->time_ns[i - 1]);
        const bool gap = seconds > 1.5 * info->bar_seconds;
        info->n_gaps += gap;
        info->n_regular += gap && dqn_gap_is_regular(bars->time_ns, bars->n, i);
    }
    return hash_bars(bars);
}

enum dqn_status dqn_bars_synthetic(struct dqn_bars *out,
                                   const struct dqn_config_synthetic *config) {
    const bool hidden =
        config->market != DQN_MARKET_MARTINGALE && config->market != DQN_MARKET_DRIFT;
    enum dqn_status status = DQN_OK;
    DQN_TRY(dqn_bars_alloc(out, (size_t)config->bars, true, false, false, hidden));
    if (config->market == DQN_MARKET_REALISTIC) {
        dqn_market_realistic(out, config);
    } else {
        regular_times(out, config->bar_seconds);
        if (config->market == DQN_MARKET_OU || config->market == DQN_MARKET_OU_SHUFFLED) {
            ornstein_uhlenbeck(out, config);
        } else if (config->market == DQN_MARKET_MICRO) {
            dqn_market_micro(out, config);
        } else if (config->market >= DQN_MARKET_MARKOV_VISIBLE) {
            dqn_market_markov(out, config);
        } else {
            walk(out, config);
        }
        if (config->market == DQN_MARKET_OU_SHUFFLED) {
            shuffle_bars(out, config);
        }
        plain_volumes(out, (uint64_t)config->seed);
    }
    DQN_TRY_GOTO(check_prices(out, config));
    DQN_TRY_GOTO(describe(out, config));
done:
    if (status != DQN_OK) {
        dqn_bars_free(out);
    }
    return status;
}
