/* Which of the known table layouts a text file has: separator, lines before the data, and what each
 * column holds. docs/market-data.md lists the layouts. */
#ifndef DQN_MARKET_CSV_DIALECT_H
#define DQN_MARKET_CSV_DIALECT_H

#include "../config.h"
#include "csv_cells.h"

enum dqn_csv_role {
    DQN_CSV_IGNORED,
    DQN_CSV_TIME,  /* date, date and time, or epoch */
    DQN_CSV_CLOCK, /* time of day, beside a date in DQN_CSV_TIME */
    DQN_CSV_OPEN,
    DQN_CSV_HIGH,
    DQN_CSV_LOW,
    DQN_CSV_CLOSE,
    DQN_CSV_VOLUME,
    DQN_CSV_ADJUSTED,
    DQN_CSV_SPREAD, /* in units of data.point */
    DQN_CSV_SYMBOL,
    DQN_CSV_ROLES
};

struct dqn_csv_dialect {
    char name[64];
    char separator;
    size_t n_columns;          /* cells of a row; empty ones may follow */
    int column[DQN_CSV_ROLES]; /* which cell plays a role; -1 = none */
    uint64_t skip_lines;       /* lines up to this one are no data */
    bool has_header;
    bool has_rtype;  /* Databento: prices may be integers of 1e-9 */
    char symbol[64]; /* named by the header (yfinance); "" = not */
};

/* Recognises a file by its first lines (n > 0 of them, not blank). `json` rows have no header.
 * DQN_ERR_DATA names the file and the line, and lists the candidates where there are several. */
enum dqn_status dqn_csv_recognise(struct dqn_csv_dialect *out, const char *path,
                                  const struct dqn_line *lines, size_t n, bool json,
                                  const struct dqn_config_data *config);

/* Whether a row is a header. *same: of the same columns as `dialect`. */
bool dqn_csv_is_header(const struct dqn_csv_dialect *dialect, const struct dqn_cell *cells,
                       size_t n, bool *same);

#endif
