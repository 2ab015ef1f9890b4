/* Bars to files, for dqn-data. */
#ifndef DQN_MARKET_BARS_WRITE_H
#define DQN_MARKET_BARS_WRITE_H

#include "bars.h"

/* Writes HDF5 that dqn_bars_load reads back bit for bit: one-dimensional datasets timestamp (int64
 * ns UTC), open, high, low, close (float64), and where the bars have them volume and spread (the
 * whole spread as a fraction of the price); attributes symbol, bar_seconds, timezone, bar_time,
 * schema. The file is at any moment the old one or the new one, complete, and keeps the permission
 * bits of the old one. DQN_ERR_DISK, also where dqn_file_check_target refuses the name;
 * DQN_ERR_DATA for bars filled in where there is no volume, whose mark would be lost. */
enum dqn_status dqn_bars_write_hdf5(const struct dqn_bars *bars, const char *path,
                                    const struct dqn_config_data *config);

/* Writes CSV: time (ISO 8601, UTC), open, high, low, close, and volume where there is one; numbers
 * with 17 digits, which read back bit for bit. `path` "-" is the standard output, as are its names;
 * a pipe or a terminal is written into, as CSV can be read from one. Else, and errors, as above. */
enum dqn_status dqn_bars_write_csv(const struct dqn_bars *bars, const char *path);
/* Before there are bars: dqn_file_check_target of a CSV. Of what it goes through only the standard
 * output is judged: DQN_ERR_DISK when it is closed. */
enum dqn_status dqn_bars_check_csv_target(const char *path);

#endif
