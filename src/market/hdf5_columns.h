/* Columns of an HDF5 file: one-dimensional datasets, or the fields of a compound table. */
#ifndef DQN_MARKET_HDF5_COLUMNS_H
#define DQN_MARKET_HDF5_COLUMNS_H

#include <hdf5.h>

#include "../base.h"

enum { DQN_H5_COLUMNS_MAX = 64, DQN_H5_NAME_MAX = 64 };

/* A column: dataset or field, and for a field that holds several numbers which of them. */
struct dqn_h5_column {
    char name[DQN_H5_NAME_MAX];  /* what it means: "open" */
    char field[DQN_H5_NAME_MAX]; /* its name in the table: "open" or "values_block_0" */
    size_t of, at;               /* number `at` of `of` in the field */
    bool integer;
};

struct dqn_h5_table {
    hid_t dataset; /* H5I_INVALID_HID: the columns are datasets of the root group */
    hid_t file;
    char path[256]; /* of the table in the file */
    size_t n_rows, n_columns;
    struct dqn_h5_column column[DQN_H5_COLUMNS_MAX];
};

/* Finds the columns of a file: datasets of the root group when there is one called "open", else the
 * one table of compound type (`wanted`, where not empty, is part of its path). `path` names the
 * file in messages. DQN_ERR_DATA says what was found and how to export it; so are datasets refused
 * that have no data of their own (external links, virtual datasets, external storage), before the
 * files that they may refer to are opened. */
enum dqn_status dqn_h5_table_open(struct dqn_h5_table *out, hid_t file, const char *path,
                                  const char *wanted);
void dqn_h5_table_close(struct dqn_h5_table *table);

/* Rows that the file has room for, at most, in what it holds of the times (or of the table). A
 * damaged file claims more. SIZE_MAX where that cannot be told. */
size_t dqn_h5_table_stored_rows(const struct dqn_h5_table *table);

/* Reads a whole column as numbers, whatever size and byte order they are stored in. */
enum dqn_status dqn_h5_read_reals(const struct dqn_h5_table *table, const char *path, size_t column,
                                  double *out);
enum dqn_status dqn_h5_read_integers(const struct dqn_h5_table *table, const char *path,
                                     size_t column, int64_t *out);

#endif
