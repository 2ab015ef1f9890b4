/* The 43 market features of the trading environment: one float32 row a bar, computed once, in one
 * causal pass in double. Row t depends on bars 0..t of its segment and on nothing else, so features
 * of a prefix equal those of the whole file bit for bit. The table of formulas is in
 * docs/trading.md; indicator definitions (RSI, ATR, directional movement) follow Wilder 1978, "New
 * Concepts in Technical Trading Systems"; the range estimator is Parkinson 1980, J. Business 53(1);
 * the variance ratio is Lo and MacKinlay 1988, Rev. Financial Studies 1(1), overlapping, q = 5. */
#ifndef DQN_MARKET_FEATURES_H
#define DQN_MARKET_FEATURES_H

#include "bars.h"
#include "timezone.h"

enum {
    DQN_MARKET_FEATURES = 43, /* market features a bar */
    DQN_MARKET_WARMUP = 512,  /* first usable bar index of a segment; rows before it are zero */
    DQN_FEATURE_CLIP = 5      /* bound of every normalised feature */
};

/* Smallest bar volatility s, and smallest standard deviation in ratios. */
#define DQN_FEATURE_FLOOR 1e-6

/* Standard deviation given to a column that was constant in training: it teaches nothing, so
 * whatever it does later becomes 0 in float32. */
#define DQN_FEATURE_CONSTANT 1e300

/* Costs that feature 38 compares with volatility, and the calendar of features 39-42. */
struct dqn_feature_options {
    double taker;          /* fee, fraction of notional */
    double half_spread;    /* fraction, where bars have none */
    double slip, slip_vol; /* slippage = slip + slip_vol * s */
    double cost_scale;
    const struct dqn_zone *zone; /* clock of features 39-42; NULL = UTC */
};

/* "ret_1", ...; i below DQN_MARKET_FEATURES. */
const char *dqn_feature_name(size_t i);
/* Bounded features are clipped, not standardised. */
bool dqn_feature_bounded(size_t i);

/* Raw features and bar volatility of all segments.
 *   raw  [n, 43] f32 out; rows of a segment's first 512 bars are zero
 *   s    [n] f64 out, EWMA standard deviation of log returns about zero, span 64, floored */
enum dqn_status dqn_features_compute(const struct dqn_bars *bars,
                                     const struct dqn_feature_options *options, float *raw,
                                     double *s);

/* Mean and standard deviation (population) of the usable rows in [first, last) of each segment.
 *   mean, std  [43] f64 out; bounded features get 0 and 1; a constant column gets
 *              DQN_FEATURE_CONSTANT, so that it becomes exactly 0 from then on
 *   n_constant out, columns found constant (may be NULL)
 * DQN_ERR_DATA when there are fewer than 2 usable rows. */
enum dqn_status dqn_features_fit(const struct dqn_bars *bars, const float *raw, size_t first,
                                 size_t last, double *mean, double *std, size_t *n_constant);

/* In place: (x - mean) / std, clipped to [-5, 5]; rows [n, 43]. Warm-up rows stay as they fall. */
void dqn_features_normalise(float *rows, size_t n, const double *mean, const double *std);

/* Sine and cosine of the time of day and of the day of the week; zeros for the former when bars
 * last a day or more.
 *   local_s  seconds since 1970-01-01 00:00 on the local clock */
void dqn_features_calendar(int64_t local_s, bool intraday, double out[4]);

#endif
