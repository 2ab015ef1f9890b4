/* The steps from files to bars, each in a file of its own. */
#ifndef DQN_MARKET_BARS_READ_H
#define DQN_MARKET_BARS_READ_H

#include "byte_source.h"
#include "raw_rows.h"
#include "timestamps.h"

/* Positions of data.empty_rows. */
enum { DQN_EMPTY_ROWS_ERROR, DQN_EMPTY_ROWS_SKIP };

/* bars_csv.c: reads one text file (separated values or JSON rows) into rows whose paths[file] is
 * its name; times are UTC afterwards. */
enum dqn_status dqn_read_csv(struct dqn_raw_rows *rows, struct dqn_byte_source *source, size_t file,
                             const struct dqn_config_data *config);

/* bars_hdf5.c: the same for an HDF5 file. */
enum dqn_status dqn_read_hdf5(struct dqn_raw_rows *rows, size_t file,
                              const struct dqn_config_data *config);
bool dqn_is_hdf5(const char *path);

/* raw_times.c: settles day and month where the dates left them open, and turns local times into
 * UTC. Local times that clocks skipped, or that occur twice, are refused by line. */
enum dqn_status dqn_raw_settle_times(struct dqn_raw_rows *rows, const struct dqn_stamp_style *style,
                                     const char *timezone);
/* One file's rows into ascending order: a wholly descending file is reversed, equal rows of one
 * time are dropped, any other disorder is refused. */
enum dqn_status dqn_raw_settle_order(struct dqn_raw_rows *rows,
                                     const struct dqn_config_data *config);
/* Several files' rows, each in order, into one order. */
enum dqn_status dqn_raw_merge_files(struct dqn_raw_rows *rows,
                                    const struct dqn_config_data *config);

/* bars_closures.c: whether the gap before stamp `gap` (1..n-1) is a regular closure of the market:
 * it has an hour or more and less than a week, and of the four weeks before and the four after, as
 * far as there is data, a third and at least two have the same one: from the same time of the week
 * to the same, both give or take a twelfth of its length, or an hour earlier or later, as clocks
 * are set. So holidays are none. Less than three weeks of data have none that can be told. Only
 * people are told; nothing is done by it. */
bool dqn_gap_is_regular(const int64_t *time_ns, size_t n, size_t gap);

/* bars_clean.c: adjusts, finds gaps and segments, fills where asked; the rows' memory becomes the
 * bars', and `rows` is empty afterwards. */
enum dqn_status dqn_bars_from_rows(struct dqn_bars *out, struct dqn_raw_rows *rows,
                                   const struct dqn_config_data *config);

#endif
