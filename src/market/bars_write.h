/* Bars to files, for dqn-data. */
#ifndef DQN_MARKET_BARS_WRITE_H
#define DQN_MARKET_BARS_WRITE_H

#include "bars.h"

/* Writes HDF5 that dqn_bars_load reads back bit for bit: one-dimensional datasets timestamp (int64
 * ns UTC), open, high, low, close (float64), and where the bars have them volume and spread (the
 * whole spread as a fraction of the price); attributes symbol, bar_seconds, timezone, bar_time,
 * schema. Written to a temporary file beside `path`, which then takes its place. DQN_ERR_DISK;
 * DQN_ERR_DATA for bars filled in where there is no volume, whose mark would be lost. */
enum dqn_status dqn_bars_write_hdf5(const struct dqn_bars *bars, const char *path,
                                    const struct dqn_config_data *config);

/* Writes CSV: time (ISO 8601, UTC), open, high, low, close, and volume where there is one; numbers
 * with 17 digits, which read back bit for bit. `path` "-" is the standard output. A file is at any
 * moment the old one or the new one, complete; pipes, devices and links are written to.
 * Errors as above. */
enum dqn_status dqn_bars_write_csv(const struct dqn_bars *bars, const char *path);

#endif
