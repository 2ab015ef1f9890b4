/* Rows as files hold them, before they become bars: growing columns, and for each row where it came
 * from. A row takes 8 bytes a column (6 to 9 of them), and up to half as much again stands in
 * reserve while a file is read: 1.5 million rows with volume needed 113 MB in all. */
#ifndef DQN_MARKET_RAW_ROWS_H
#define DQN_MARKET_RAW_ROWS_H

#include "bars.h"

enum dqn_raw_column {
    DQN_RAW_OPEN,
    DQN_RAW_HIGH,
    DQN_RAW_LOW,
    DQN_RAW_CLOSE,
    DQN_RAW_VOLUME,
    DQN_RAW_ADJUSTED,    /* adjusted close */
    DQN_RAW_HALF_SPREAD, /* fraction of the price */
    DQN_RAW_COLUMNS
};

/* Bits of a row's origin, above its line and the number of its file. */
#define DQN_RAW_LOCAL ((uint64_t)1 << 63)        /* local time, not yet UTC */
#define DQN_RAW_EITHER_ORDER ((uint64_t)1 << 62) /* day and month may be swapped */
#define DQN_RAW_FILE_SHIFT 40
#define DQN_RAW_FILES_MAX 65536

struct dqn_raw_rows {
    size_t n, capacity;
    int64_t *time_ns;
    double *column[DQN_RAW_COLUMNS]; /* NULL where the data has none */
    uint64_t *origin;                /* file << 40 | line, and the bits above */
    const char *const *paths;        /* of the files, for messages */
    const char *unit;                /* "" (lines: path:12) or "row " (path: row 12) */
    struct dqn_bars_info info;
};

struct dqn_raw_row {
    int64_t time_ns;
    double value[DQN_RAW_COLUMNS];
    uint64_t origin;
};

/* `has` says which columns there are; time and origin always are. */
enum dqn_status dqn_raw_start(struct dqn_raw_rows *rows, const bool has[DQN_RAW_COLUMNS]);
void dqn_raw_free(struct dqn_raw_rows *rows);
enum dqn_status dqn_raw_push(struct dqn_raw_rows *rows, const struct dqn_raw_row *row);
/* Gives up a column that turned out to hold nothing. */
void dqn_raw_drop(struct dqn_raw_rows *rows, enum dqn_raw_column column);
/* Adds the rows of `more`, which is freed. Both must have the same columns: DQN_ERR_DATA. */
enum dqn_status dqn_raw_append(struct dqn_raw_rows *rows, struct dqn_raw_rows *more);
/* Copies row `from` over row `to`. */
void dqn_raw_copy(struct dqn_raw_rows *rows, size_t to, size_t from);
/* The line (or row) number of row i in its file. */
uint64_t dqn_raw_line(const struct dqn_raw_rows *rows, size_t i);
/* "path:12" or "path: row 12" into a caller's buffer; returns it. */
const char *dqn_raw_place(const struct dqn_raw_rows *rows, size_t i, char *text, size_t size);
/* The same as the beginning of a message: "path:12:1:" or "path: row 12:". */
const char *dqn_raw_where(const struct dqn_raw_rows *rows, size_t i, char *text, size_t size);
const char *dqn_raw_column_name(enum dqn_raw_column column);

/* What is wrong with a row's values, apart from their text: a price that is not above 0, a high or
 * low inside the other prices (mended where `widen`; *widened says so), a negative volume. Returns
 * NULL when all is well; else a phrase into `text`, and the column at fault. */
const char *dqn_raw_check(struct dqn_raw_row *row, const bool has[DQN_RAW_COLUMNS], bool widen,
                          bool *widened, enum dqn_raw_column *column, char *text, size_t size);

#endif
