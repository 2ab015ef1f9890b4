/* What the trading environment needs beside its code: the market's tables, the split of its bars,
 * the frozen normalisation, and the parameters that tie them to the configuration. */
#ifndef DQN_MARKET_TRADING_SETUP_H
#define DQN_MARKET_TRADING_SETUP_H

#include "../../envs/trading.h"
#include "../arena.h"
#include "../backend.h"
#include "features.h"

enum dqn_split { DQN_SPLIT_TRAIN, DQN_SPLIT_VALIDATION, DQN_SPLIT_TEST, DQN_SPLITS };

enum dqn_trading_mode {
    DQN_TRADING_TRAIN, /* random starts, episodes of env.episode_bars, ruin and margin end them */
    DQN_TRADING_EVAL   /* lane e of E walks the e-th of E equal parts of the split, starting flat;
                          ends truncated at the part's end; terminated only when no equity is left */
};

struct dqn_market {
    struct dqn_bars bars;
    float *features;                  /* [n, 43] normalised */
    double *s;                        /* [n] bar volatility */
    double mean[DQN_MARKET_FEATURES]; /* normalisation, frozen: goes into checkpoints */
    double std[DQN_MARKET_FEATURES];
    size_t split_first[DQN_SPLITS]; /* bars [split_first, split_last) belong to a split; */
    size_t split_last[DQN_SPLITS];  /* decision and result of a transition are in the same one */
    struct trading_range *ranges;   /* [n_ranges] usable stretches, split after split */
    size_t n_ranges;
    size_t range_first[DQN_SPLITS], range_count[DQN_SPLITS];
    uint64_t transitions[DQN_SPLITS]; /* decisions that a pass over the split takes */
    double bars_per_year; /* measured: (n - 1) / years of 365.2425 days; or report.bars_per_year */
    bool bars_per_year_set; /* the latter */
    double reference_price; /* fixed_notional: price of one unit of exposure */
    double median_volume;   /* of the training bars; 0 without volume */
    double bar_seconds;
};

/* Device copies of the tables. Absent columns have NULL buffers. */
struct dqn_market_buffers {
    struct dqn_buffer *features, *open, *high, *low, *close, *s, *time_ns, *ranges;
    struct dqn_buffer *volume, *half_spread, *untradable, *hidden;
};

/* Loads the bars of the configuration and computes features.
 *   mean, std  [43] statistics of a checkpoint, or NULL: fitted on the training split alone
 * DQN_ERR_DATA for bad data or splits too short, naming what is there and what is needed. */
enum dqn_status dqn_market_create(struct dqn_market **out, const struct dqn_config *config,
                                  const double *mean, const double *std);
/* The same from bars in memory. Takes their ownership, on failure as well; *bars becomes empty. */
enum dqn_status dqn_market_from_bars(struct dqn_market **out, const struct dqn_config *config,
                                     struct dqn_bars *bars, const double *mean, const double *std);
void dqn_market_destroy(struct dqn_market *market);

/* Raw features [n, 43] and bar volatility [n] of bars under a configuration: its costs and clock.
 */
enum dqn_status dqn_market_features(const struct dqn_bars *bars, const struct dqn_config *config,
                                    float *raw, double *s);

/* Bars of a split. */
size_t dqn_market_split_bars(const struct dqn_market *market, enum dqn_split split);
/* Steps of the longest of `lanes` equal parts of a split: the length of an evaluation. */
uint64_t dqn_market_part_steps(const struct dqn_market *market, enum dqn_split split, size_t lanes);

/* Registers the tables as shared buffers "market/..." that checkpoints leave out. */
enum dqn_status dqn_market_register(const struct dqn_market *market, struct dqn_arena *arena,
                                    const struct dqn_device *device,
                                    struct dqn_market_buffers *out);
/* After the arena's commit: enqueues the copies. The market must live until the queue was waited
 * for. */
enum dqn_status dqn_market_upload(const struct dqn_market *market, struct dqn_queue *queue,
                                  const struct dqn_market_buffers *buffers);

/* Parameters for a mode.
 *   buffers  where the tables are; NULL = the market's own host tables
 *   split    which bars: DQN_SPLIT_TRAIN for DQN_TRADING_TRAIN
 *   lanes    E of DQN_TRADING_EVAL; ignored for TRAIN
 * DQN_ERR_CONFIG for settings that contradict each other, DQN_ERR_DATA when the split has fewer
 * transitions than lanes or the oracle observation has no hidden state to show. */
enum dqn_status dqn_trading_params(struct trading_params *out, const struct dqn_config *config,
                                   const struct dqn_market *market,
                                   const struct dqn_market_buffers *buffers,
                                   enum dqn_trading_mode mode, enum dqn_split split, size_t lanes);

/* Given by a policy instead of an action: leave off, without a result. */
#define DQN_POLICY_STOP UINT32_MAX

/* Chooses an action from an observation [51]. */
typedef uint32_t (*dqn_trading_policy)(void *context, const float *observation, uint64_t step);
/* Takes a step's record. */
typedef void (*dqn_trading_sink)(void *context, const struct trading_step_record *record);

/* Steps one lane on the host from reset to the episode's end. `params` must hold host tables.
 *   key     seed, stream (its low bits are the lane) and episode; step is set here
 *   sink    called after each step; may be NULL
 *   result  out, the lane's final state; may be NULL
 * DQN_ERR_CONFIG for an action of 45 or more; DQN_ERR_STOPPED for DQN_POLICY_STOP. */
enum dqn_status dqn_trading_run(const struct trading_params *params, struct dqn_env_key key,
                                dqn_trading_policy policy, void *policy_context,
                                dqn_trading_sink sink, void *sink_context,
                                struct trading_state *result);
/* The same for a policy that does not look: it gets NULL for the observation, and the pass is
 * faster. */
enum dqn_status dqn_trading_run_blind(const struct trading_params *params, struct dqn_env_key key,
                                      dqn_trading_policy policy, void *policy_context,
                                      dqn_trading_sink sink, void *sink_context,
                                      struct trading_state *result);

#endif
