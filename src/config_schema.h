/* The one list of configuration keys. A line is
 *
 *     X(kind, "key", member, "default", "range", "unit", resume, "help")
 *
 * and becomes a struct member, a parsed and checked YAML key "section.key", a line of --help and of
 * --print-config, and a row of docs/config.md.
 *
 *   kind    BOOL INT REAL TEXT CHOICE INTS REALS TEXTS (the last three are lists)
 *   range   an interval such as "(0, 1]" for numbers (each element of a list), "a|b|c" for CHOICE
 *           (the member holds the position), "" for text
 *   resume  MAY     a resumed run may change it (said aloud)
 *           IGNORED the checkpoint's value stays (said aloud)
 *           REFUSED it gives shape or meaning to what is saved
 */
#ifndef DQN_CONFIG_SCHEMA_H
#define DQN_CONFIG_SCHEMA_H

#include "../envs/env_list.h"

/* Keys without a section. */
#define DQN_CONFIG_RUN(X)                                                                          \
    X(TEXT, "name", name, "", "", "", MAY, "name of the run; empty = the config file's name")      \
    X(INT, "seed", seed, "1", "[0, 9e18]", "", REFUSED, "seed of every random stream")             \
    X(CHOICE, "device", device, "auto", "auto|cpu|cuda", "", MAY,                                  \
      "where to compute; auto takes the GPU when there is one")                                    \
    X(INT, "device_index", device_index, "0", "[0, 63]", "", MAY, "which GPU")                     \
    X(INT, "threads", threads, "0", "[0, 1024]", "", MAY,                                          \
      "CPU threads; 0 = one a core; results do not depend on it")                                  \
    X(TEXT, "output", output, "checkpoints", "", "path", MAY,                                      \
      "folder that gets a folder a run; the default is in the present folder")

#define DQN_CONFIG_ENV(X)                                                                          \
    X(CHOICE, "name", name, "trading", DQN_ENV_NAMES, "", REFUSED, "which environment")            \
    X(INT, "lanes", lanes, "16", "[1, 1048576]", "", REFUSED, "environments stepped together")     \
    X(CHOICE, "observation", observation, "features", "features|oracle", "", REFUSED,              \
      "trading: the 51 features, or the hidden state of a synthetic market")                       \
    X(CHOICE, "sizing", sizing, "equity", "equity|fixed_notional", "", REFUSED,                    \
      "trading: exposure in units of equity, or of the starting equity")                           \
    X(REAL, "max_leverage", max_leverage, "1", "(0, 20]", "x equity", REFUSED,                     \
      "trading: exposure that the outermost actions ask for")                                      \
    X(BOOL, "long_only", long_only, "false", "", "", REFUSED,                                      \
      "trading: short targets become flat")                                                        \
    X(REAL, "rebalance_band", rebalance_band, "0.05", "[0, 1]", "exposure", REFUSED,               \
      "trading: smaller changes of exposure send no order")                                        \
    X(REAL, "min_notional", min_notional, "0", "[0, 1e12]", "money", REFUSED,                      \
      "trading: smaller orders are not sent")                                                      \
    X(REAL, "quantity_step", quantity_step, "0", "[0, 1e12]", "units", REFUSED,                    \
      "trading: order quantities are multiples of it; 0 = any")                                    \
    X(REAL, "tick_size", tick_size, "0", "[0, 1e12]", "price", REFUSED,                            \
      "trading: limit prices are multiples of it; 0 = any")                                        \
    X(REAL, "initial_equity", initial_equity, "100000", "(0, 1e15]", "money", REFUSED,             \
      "trading: equity at an episode's start")                                                     \
    X(INT, "episode_bars", episode_bars, "1024", "[2, 1e9]", "bars", REFUSED,                      \
      "trading: length of a training episode")                                                     \
    X(REAL, "ruin_fraction", ruin_fraction, "0.5", "[0, 1)", "of start", REFUSED,                  \
      "trading: equity at which an episode terminates")                                            \
    X(REAL, "maintenance", maintenance, "0.05", "[0, 1)", "of notional", REFUSED,                  \
      "trading: maintenance margin")                                                               \
    X(REAL, "drawdown_limit", drawdown_limit, "0.5", "(0, 1)", "", REFUSED,                        \
      "trading: drawdown that feature 46 shows as 1")                                              \
    X(REAL, "daily_loss_stop", daily_loss_stop, "0", "[0, 1)", "of equity", REFUSED,               \
      "trading: loss in a UTC day that forces flat until the next; 0 = off")

#define DQN_CONFIG_DATA(X)                                                                         \
    X(TEXTS, "file", file, "", "", "path", REFUSED,                                                \
      "market data, one file or several joined in time; empty = the synthetic market")             \
    X(TEXT, "symbol", symbol, "", "", "", REFUSED, "which symbol of a file with several")          \
    X(TEXT, "timezone", timezone, "UTC", "", "", REFUSED, "zone of timestamps without one")        \
    X(CHOICE, "bar_time", bar_time, "open", "open|close", "", REFUSED, "what a bar's stamp marks") \
    X(TEXTS, "columns", columns, "", "", "", REFUSED, "column names of a file without a header")   \
    X(CHOICE, "date_order", date_order, "auto", "auto|ymd|dmy|mdy", "", REFUSED,                   \
      "order of day and month in text dates")                                                      \
    X(CHOICE, "gaps", gaps, "segment", "segment|keep|ffill|error", "", REFUSED,                    \
      "what a hole longer than max_gap_bars does")                                                 \
    X(REAL, "max_gap_days", max_gap_days, "3", "[0, 1e5]", "days", REFUSED,                        \
      "a gap longer than this and than max_gap_bars starts a new segment")                         \
    X(INT, "max_gap_bars", max_gap_bars, "50", "[1, 1e9]", "bars", REFUSED, "see max_gap_days")    \
    X(CHOICE, "adjust", adjust, "auto", "auto|none", "", REFUSED,                                  \
      "scale open, high, low, close by adjusted close / close")                                    \
    X(CHOICE, "duplicates", duplicates, "error", "error|keep_last", "", REFUSED,                   \
      "rows of one time with different values")                                                    \
    X(CHOICE, "ohlc_repair", ohlc_repair, "error", "error|widen", "", REFUSED,                     \
      "a high below or a low above the other prices")                                              \
    X(CHOICE, "empty_rows", empty_rows, "error", "error|skip", "", REFUSED,                        \
      "rows whose four prices are all missing (no trade in the interval)")                         \
    X(BOOL, "open_ended", open_ended, "false", "", "", REFUSED,                                    \
      "the last bar was unfinished when the file was written: leave it out")                       \
    X(REAL, "point", point, "0", "[0, 1e9]", "price", REFUSED,                                     \
      "price of one unit of a spread column; 0 = leave that column out")                           \
    X(REALS, "split", split, "0.6, 0.2, 0.2", "(0, 1)", "", REFUSED,                               \
      "train, validation and test parts, in time order")                                           \
    X(INTS, "split_bars", split_bars, "", "[0, 1e12]", "bars", REFUSED,                            \
      "first and end bar of training, validation and test, instead of data.split")

/* The synthetic market that stands in for data.file. Units of sigma: per bar unless said. */
#define DQN_CONFIG_SYNTHETIC(X)                                                                    \
    X(CHOICE, "market", market, "realistic",                                                       \
      "realistic|martingale|drift|ou|ou_shuffled|markov_visible|markov_hidden|micro", "", REFUSED, \
      "which process")                                                                             \
    X(INT, "bars", bars, "200000", "[1000, 1e8]", "bars", REFUSED, "length")                       \
    X(INT, "bar_seconds", bar_seconds, "900", "[1, 86400]", "s", REFUSED, "bar length")            \
    X(INT, "seed", seed, "1", "[0, 9e18]", "", REFUSED, "seed of the prices alone")                \
    X(INT, "substeps", substeps, "64", "[1, 4096]", "a bar", REFUSED, "price path inside a bar")   \
    X(REAL, "price", price, "100", "(0, 1e9]", "money", REFUSED, "first price")                    \
    X(REAL, "sigma", sigma, "0.0015", "(0, 1]", "", REFUSED, "std of a bar's log return")          \
    X(REAL, "drift", drift, "0", "[-0.1, 0.1]", "", REFUSED, "drift market: mean log return")      \
    X(REAL, "gap_sigma", gap_sigma, "0", "[0, 1]", "sigma", REFUSED, "std of the opening gap")     \
    X(REAL, "ou_phi", ou_phi, "0.9", "[0, 1)", "", REFUSED, "ou: autoregression of the price")     \
    X(REAL, "ou_std", ou_std, "0.01", "(0, 1]", "of price", REFUSED, "ou: stationary std")         \
    X(REAL, "mispricing_phi", mispricing_phi, "0.97", "[0, 1)", "", REFUSED,                       \
      "realistic: persistence of the gap between price and value")                                 \
    X(REAL, "mispricing_std", mispricing_std, "0.01", "[0, 1]", "", REFUSED,                       \
      "realistic: stationary std of that gap, in logs")                                            \
    X(REAL, "markov_drift", markov_drift, "0.0005", "[0, 0.1]", "", REFUSED,                       \
      "markov: mean log return, up in one state and down in the other")                            \
    X(REAL, "markov_switch", markov_switch, "0.01", "(0, 0.5]", "a bar", REFUSED,                  \
      "markov: probability that the state changes")                                                \
    X(CHOICE, "cell", cell, "market_aggressive",                                                   \
      "market_patient|market_normal|market_aggressive|limit_patient|limit_normal|"                 \
      "limit_aggressive|ioc_patient|ioc_normal|ioc_aggressive",                                    \
      "", REFUSED, "micro: the kind of order that this market rewards")                            \
    X(BOOL, "intraday", intraday, "true", "", "", REFUSED, "realistic: busy and quiet hours")      \
    X(BOOL, "weekends", weekends, "true", "", "", REFUSED, "realistic: closed on weekends")

#define DQN_CONFIG_FILL(X)                                                                         \
    X(CHOICE, "timing", timing, "next_open", "next_open|close", "", REFUSED,                       \
      "next_open: orders execute during the next bar; close: at the decision's own close, for "    \
      "comparison only")                                                                           \
    X(INT, "latency_bars", latency_bars, "0", "[0, 1]", "bars", REFUSED, "orders start this late") \
    X(REAL, "half_spread_bps", half_spread_bps, "1", "[0, 1000]", "bp", REFUSED,                   \
      "half the bid-ask spread where the data has none")                                           \
    X(REAL, "slip_bps", slip_bps, "1", "[0, 1000]", "bp", REFUSED, "slippage of taker orders")     \
    X(REAL, "slip_vol", slip_vol, "0.05", "[0, 10]", "of s", REFUSED,                              \
      "slippage in units of the bar volatility, on top")                                           \
    X(REAL, "impact", impact, "0", "[0, 10]", "", REFUSED,                                         \
      "square-root market impact coefficient")                                                     \
    X(REAL, "taker_bps", taker_bps, "5", "[-100, 1000]", "bp", REFUSED, "taker fee")               \
    X(REAL, "maker_bps", maker_bps, "2", "[-100, 1000]", "bp", REFUSED,                            \
      "maker fee; negative = rebate")                                                              \
    X(REAL, "max_participation", max_participation, "0.1", "(0, 1]", "of volume", REFUSED,         \
      "largest share of a bar's volume by market orders")                                          \
    X(REAL, "ioc_participation", ioc_participation, "0.01", "(0, 1]", "of volume", REFUSED,        \
      "the same for immediate-or-cancel orders")                                                   \
    X(REAL, "maker_participation", maker_participation, "0.05", "(0, 1]", "of volume", REFUSED,    \
      "the same for limit orders")                                                                 \
    X(REAL, "queue_margin", queue_margin, "0.03", "[0, 10]", "of s", REFUSED,                      \
      "how far a bar must trade through a limit to fill it")                                       \
    X(REAL, "touch_fill", touch_fill, "0", "[0, 1]", "probability", REFUSED,                       \
      "a limit that was reached but not traded through fills this often")                          \
    X(BOOL, "post_only_gap", post_only_gap, "false", "", "", REFUSED,                              \
      "reject a limit order that the open would cross")                                            \
    X(REAL, "cash_rate", cash_rate, "0", "[-1, 1]", "a year", REFUSED, "interest on cash")         \
    X(REAL, "borrow_rate", borrow_rate, "0.02", "[-1, 10]", "a year", REFUSED,                     \
      "cost of the value sold short")                                                              \
    X(REAL, "leverage_rate", leverage_rate, "0.05", "[-1, 10]", "a year", REFUSED,                 \
      "cost of money borrowed to be long")                                                         \
    X(REAL, "cost_scale", cost_scale, "1", "[0, 100]", "x", REFUSED,                               \
      "multiplies spread, slippage, impact, fees and financing")                                   \
    X(REAL, "fixed_cost", fixed_cost, "-1", "[-1, 1]", "of notional", REFUSED,                     \
      "at least 0: every order fills at the open for this cost alone (gates); -1 = off")

#define DQN_CONFIG_REWARD(X)                                                                       \
    X(CHOICE, "kind", kind, "log_return", "log_return|linear", "", REFUSED,                        \
      "log return of equity, or change of equity over the starting equity")                        \
    X(REAL, "scale", scale, "100", "(0, 1e6]", "", REFUSED, "multiplies the return")               \
    X(REAL, "clip", clip, "0", "[0, 1e6]", "", REFUSED,                                            \
      "bound of the reward's absolute value, ruin apart; 0 = none")                                \
    X(REAL, "risk_aversion", risk_aversion, "0", "[0, 1e6]", "", REFUSED,                          \
      "quadratic penalty on the scaled return")                                                    \
    X(REAL, "drawdown_penalty", drawdown_penalty, "0", "[0, 1e6]", "", REFUSED,                    \
      "penalty on new drawdown")                                                                   \
    X(REAL, "ruin_floor", ruin_floor, "0.01", "(0, 1)", "of start", REFUSED,                       \
      "equity assumed for the reward when it is at or below 0")                                    \
    X(CHOICE, "baseline", baseline, "none", "none|buyhold", "", REFUSED,                           \
      "subtract the return of holding +1")

#define DQN_CONFIG_COLLECT(X)                                                                      \
    X(REAL, "eps_start", eps_start, "1", "[0, 1]", "", MAY, "exploration at the start")            \
    X(REAL, "eps_end", eps_end, "0.05", "[0, 1]", "", MAY, "exploration after eps_steps")          \
    X(INT, "eps_steps", eps_steps, "50000", "[1, 1e15]", "env steps", MAY, "length of the slope")  \
    X(INT, "n_step", n_step, "1", "[1, 64]", "steps", REFUSED, "rewards summed before a bootstrap")

#define DQN_CONFIG_REPLAY(X)                                                                       \
    X(CHOICE, "kind", kind, "proportional", "uniform|proportional|rank", "", REFUSED,              \
      "how rows are drawn; uniform = prioritized replay off")                                      \
    X(CHOICE, "device", device, "auto", "auto|cpu|cuda", "", MAY, "where the replay lives")        \
    X(INT, "capacity", capacity, "100000", "[1, 1e9]", "rows", REFUSED, "size of the ring")        \
    X(BOOL, "stratified", stratified, "true", "", "", MAY, "one draw from each of B equal strata") \
    X(REAL, "alpha", alpha, "0.6", "[0, 1]", "", REFUSED, "priority exponent; 0 = uniform")        \
    X(REAL, "epsilon", epsilon, "1e-3", "[1e-6, 1]", "", REFUSED, "smallest priority")             \
    X(REAL, "max_priority", max_priority, "4095", "[1, 4095]", "", REFUSED,                        \
      "fixed ceiling of priorities")                                                               \
    X(REAL, "beta.start", beta_start, "0.4", "[0, 1]", "", MAY,                                    \
      "importance exponent at the start")                                                          \
    X(REAL, "beta.end", beta_end, "1", "[0, 1]", "", MAY, "importance exponent at the end")        \
    X(INT, "beta.updates", beta_updates, "0", "[0, 1e15]", "updates", MAY,                         \
      "length of that slope; 0 = the whole run, as long as it is when it begins")                  \
    X(CHOICE, "weight_norm", weight_norm, "batch", "batch|buffer", "", MAY,                        \
      "largest weight of the batch, or of all filled rows, becomes 1")                             \
    X(INT, "rank_interval", rank_interval, "1", "[1, 1e9]", "draws", REFUSED,                      \
      "rank: updates between sorts; 1 = exact")                                                    \
    X(CHOICE, "sums", sums, "tree", "tree|scan", "", MAY, "how the GPU holds the sums")

#define DQN_CONFIG_NET(X)                                                                          \
    X(INTS, "hidden", hidden, "256, 256", "[1, 16384]", "units", REFUSED, "width of each layer")   \
    X(CHOICE, "activation", activation, "relu", "relu|tanh|elu|silu", "", REFUSED,                 \
      "of the hidden layers")                                                                      \
    X(BOOL, "dueling", dueling, "false", "", "", REFUSED, "value and advantage heads")             \
    X(CHOICE, "precision", precision, "fp32", "fp32|tf32|bf16", "", MAY,                           \
      "the coarsest allowed for factors of matrix products on a GPU (the CPU computes in fp32); "  \
      "fp32 in a whole update: three TF32 products, 22 bits; bf16: networks of up to 1 MB take "   \
      "tf32")

#define DQN_CONFIG_LEARNER(X)                                                                      \
    X(INT, "batch", batch, "256", "[1, 1048576]", "rows", MAY, "rows a batch")                     \
    X(INT, "accumulate", accumulate, "1", "[1, 1024]", "batches", MAY,                             \
      "batches an optimizer step")                                                                 \
    X(REAL, "gamma", gamma, "0.99", "[0, 1]", "", MAY, "discount a step")                          \
    X(BOOL, "double", double_q, "true", "", "", MAY,                                               \
      "online net chooses the next action, target net values it")                                  \
    X(CHOICE, "loss", loss, "huber", "huber|squared", "", MAY, "of the TD error")                  \
    X(REAL, "huber_delta", huber_delta, "1", "(0, 1e6]", "", MAY, "where Huber turns linear")      \
    X(REAL, "lr", lr, "1e-3", "(0, 10]", "", MAY, "Adam step size at the start")                   \
    X(REAL, "lr_end", lr_end, "0", "[0, 10]", "", MAY, "Adam step size at the end of a schedule")  \
    X(CHOICE, "lr_schedule", lr_schedule, "constant", "constant|linear|cosine", "", MAY,           \
      "way from lr to lr_end")                                                                     \
    X(INT, "lr_updates", lr_updates, "0", "[0, 1e15]", "updates", MAY,                             \
      "length of the schedule; 0 = the whole run, as long as it is when it begins")                \
    X(REAL, "adam_beta1", adam_beta1, "0.9", "[0, 1)", "", MAY, "decay of the first moment")       \
    X(REAL, "adam_beta2", adam_beta2, "0.999", "[0, 1)", "", MAY, "decay of the second moment")    \
    X(REAL, "adam_eps", adam_eps, "1e-8", "(0, 1]", "", MAY, "added to the root of the second")    \
    X(REAL, "weight_decay", weight_decay, "0", "[0, 1]", "", MAY, "AdamW decay; 0 = Adam")         \
    X(REAL, "max_grad_norm", max_grad_norm, "10", "(0, 1e30]", "", MAY, "global norm limit")       \
    X(CHOICE, "target", target, "hard", "hard|soft", "", MAY, "how the target network follows")    \
    X(INT, "target_updates", target_updates, "1000", "[1, 1e15]", "updates", MAY,                  \
      "hard: updates between copies")                                                              \
    X(REAL, "tau", tau, "0.005", "(0, 1]", "an update", MAY, "soft: share that moves")             \
    X(INT, "max_nonfinite", max_nonfinite, "10", "[1, 1e9]", "updates", MAY,                       \
      "skipped updates in a row that end the run")

#define DQN_CONFIG_TRAIN(X)                                                                        \
    X(INT, "env_steps", env_steps, "500000", "[1, 1e15]", "env steps", MAY, "length of the run")   \
    X(INT, "epoch_steps", epoch_steps, "25000", "[1, 1e15]", "env steps", REFUSED,                 \
      "from one evaluation and checkpoint to the next")                                            \
    X(INT, "learning_starts", learning_starts, "1000", "[0, 1e15]", "env steps", REFUSED,          \
      "collected before the first update")                                                         \
    X(REAL, "replay_ratio", replay_ratio, "0.0625", "(0, 1000]", "updates an env step", REFUSED,   \
      "how much to learn from what is collected")                                                  \
    X(INT, "patience", patience, "0", "[0, 1e9]", "epochs", MAY,                                   \
      "stop when the score did not rise for so long; 0 = never")

#define DQN_CONFIG_EVAL(X)                                                                         \
    X(INT, "every_epochs", every_epochs, "1", "[1, 1e9]", "epochs", MAY, "between evaluations")    \
    X(INT, "episodes", episodes, "20", "[1, 100000]", "episodes", MAY,                             \
      "each on its own lane; trading: parts of the validation split")                              \
    X(REAL, "epsilon", epsilon, "0", "[0, 1]", "", MAY, "exploration in evaluation")

#define DQN_CONFIG_CHECKPOINT(X)                                                                   \
    X(INT, "every_epochs", every_epochs, "1", "[1, 1e9]", "epochs", MAY, "between files")          \
    X(INT, "keep_last", keep_last, "2", "[1, 1e6]", "files", MAY, "besides the best")              \
    X(BOOL, "replay", replay, "true", "", "", MAY, "save the replay: exact resume")

#define DQN_CONFIG_REPORT(X)                                                                       \
    X(REAL, "bars_per_year", bars_per_year, "0", "[0, 1e9]", "bars", MAY,                          \
      "0 = measured on the data")                                                                  \
    X(REAL, "risk_free", risk_free, "0", "[-1, 1]", "a year", MAY, "rate in Sharpe ratios")        \
    X(INT, "bootstrap", bootstrap, "1000", "[0, 1e6]", "draws", MAY, "block bootstrap draws")      \
    X(INT, "random_runs", random_runs, "100", "[0, 1e5]", "runs", MAY, "of the random baseline")

#define DQN_CONFIG_WALK_FORWARD(X)                                                                 \
    X(INT, "train", train, "0", "[0, 1e12]", "bars", REFUSED,                                      \
      "training bars of a fold; 0 = no walk-forward, data.split instead")                          \
    X(INT, "validation", validation, "0", "[0, 1e12]", "bars", REFUSED,                            \
      "validation bars of a fold, after its training bars")                                        \
    X(INT, "test", test, "0", "[0, 1e12]", "bars", REFUSED,                                        \
      "test bars of a fold, after its validation bars; the next fold starts so much later")        \
    X(CHOICE, "mode", mode, "rolling", "rolling|anchored", "", REFUSED,                            \
      "training starts later from fold to fold, or always with the first bar")                     \
    X(INT, "embargo", embargo, "0", "[0, 1e9]", "bars", REFUSED,                                   \
      "bars left out before validation and before test; at least collect.n_step are")              \
    X(BOOL, "warm_start", warm_start, "false", "", "", REFUSED,                                    \
      "a fold starts with the network of the fold before")                                         \
    X(INT, "seeds", seeds, "3", "[1, 100]", "runs", REFUSED, "runs of a fold: seed, seed + 1, ...")

/* S(section name in YAML, struct member and type suffix, list). The first has no name. */
#define DQN_CONFIG_SECTIONS(S)                                                                     \
    S("", run, DQN_CONFIG_RUN)                                                                     \
    S("env", env, DQN_CONFIG_ENV)                                                                  \
    S("data", data, DQN_CONFIG_DATA)                                                               \
    S("synthetic", synthetic, DQN_CONFIG_SYNTHETIC)                                                \
    S("fill", fill, DQN_CONFIG_FILL)                                                               \
    S("reward", reward, DQN_CONFIG_REWARD)                                                         \
    S("collect", collect, DQN_CONFIG_COLLECT)                                                      \
    S("replay", replay, DQN_CONFIG_REPLAY)                                                         \
    S("net", net, DQN_CONFIG_NET)                                                                  \
    S("learner", learner, DQN_CONFIG_LEARNER)                                                      \
    S("train", train, DQN_CONFIG_TRAIN)                                                            \
    S("eval", eval, DQN_CONFIG_EVAL)                                                               \
    S("walk_forward", walk_forward, DQN_CONFIG_WALK_FORWARD)                                       \
    S("checkpoint", checkpoint, DQN_CONFIG_CHECKPOINT)                                             \
    S("report", report, DQN_CONFIG_REPORT)

#endif
