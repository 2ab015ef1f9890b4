/* Market data in memory: canonical bars in segments, and where they came from. */
#ifndef DQN_MARKET_BARS_H
#define DQN_MARKET_BARS_H

#include "../base.h"
#include "../config.h"

/* What the loader saw and did; printed after loading and kept in checkpoints. */
struct dqn_bars_info {
    char source[DQN_TEXT_MAX]; /* file name(s), or "synthetic realistic" */
    char dialect[64];          /* "generic header", "binance klines", ... */
    char symbol[64];
    char sha256[65];    /* of the file's bytes; of the bars for synthetic markets */
    double bar_seconds; /* median distance of stamps */
    size_t n_gaps;      /* distances above 1.5 bars */
    size_t n_regular;   /* of these, closures that recur weekly, as at weekends and at night */
    size_t n_zero_volume;
    size_t n_duplicates;   /* identical rows dropped */
    size_t n_adjustments;  /* bars where the adjustment factor changed */
    size_t n_repaired;     /* bars widened by data.ohlc_repair */
    size_t n_empty;        /* rows without prices left out by data.empty_rows */
    size_t n_first_of_two; /* stamps in a repeated hour, taken for the first */
    bool reversed;         /* the file was newest first */
    bool spread_unused;    /* a spread column left out for want of data.point */
    bool last_left_out;    /* by data.open_ended */
    bool volume_unused;    /* a volume column of zeros only: the data has no volume */
};

struct dqn_bars {
    size_t n;
    int64_t *time_ns;                  /* [n] UTC, strictly ascending */
    double *open, *high, *low, *close; /* [n] finite, > 0, high and low outermost */
    double *volume;                    /* [n] >= 0; NULL when the data has none */
    double *half_spread;               /* [n] fraction of the price; NULL when the data has none */
    uint8_t *untradable; /* [n] 1 = filled in by data.gaps: ffill; NULL when there is none */
    double *hidden;      /* [n] synthetic: the hidden state (ou: X in stationary stds); or NULL */
    size_t n_segments;
    size_t *segment; /* [n_segments + 1] first bars, then n */
    struct dqn_bars_info info;
};

/* Loads data.file, or makes the synthetic market when there is none. `quiet` prints nothing.
 * DQN_ERR_DATA with file:line:column for bad data. Messages name the path, and not the key: the
 * programs put paths of their command lines there. */
enum dqn_status dqn_bars_load(struct dqn_bars *out, const struct dqn_config *config, bool quiet);
/* For who reads the data more than once: DQN_ERR_DATA with `why` when one of data.file is a pipe or
 * a device, which gives its bytes once and would be waited for without end. */
enum dqn_status dqn_bars_check_reread(const struct dqn_config *config, const char *why);
/* Before a file is written: dqn_file_check_apart from the configuration's own file and from each of
 * data.file, patterns resolved. */
enum dqn_status dqn_bars_check_apart(const struct dqn_config *config, const char *output);
/* Only the files / only the synthetic market. */
enum dqn_status dqn_bars_load_files(struct dqn_bars *out, const struct dqn_config *config);
enum dqn_status dqn_bars_synthetic(struct dqn_bars *out, const struct dqn_config_synthetic *config);
void dqn_bars_free(struct dqn_bars *bars);

/* "2,000 bars of 15 min, 2015-01-01 00:00:00 to 2015-01-21 19:45:00 UTC" into a caller's buffer of
 * 128 bytes or more; returns it. */
const char *dqn_bars_span_text(char *text, size_t size, const struct dqn_bars *bars);

/* Arrays for n bars (flags choose the optional ones). */
enum dqn_status dqn_bars_alloc(struct dqn_bars *out, size_t n, bool volume, bool half_spread,
                               bool untradable, bool hidden);

#endif
