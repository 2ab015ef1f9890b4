/* Column names: from a header row, or from data.columns, to what the columns hold. */
#ifndef DQN_MARKET_CSV_HEADER_H
#define DQN_MARKET_CSV_HEADER_H

#include "csv_dialect.h"

enum { DQN_CSV_NAME_MAX = 32 };

/* A name in lower case without blanks, < > _ . and quotes. */
void dqn_csv_plain_name(const struct dqn_cell *cell, char out[DQN_CSV_NAME_MAX]);

/* Whether a row names columns: at least two of open, high, low and close are there by name. */
bool dqn_csv_names_prices(const struct dqn_cell *cells, size_t n);

/* Gives each role its column. `ticker` (may be NULL) is a row of symbols below the names: columns
 * of other symbols than `symbol` are left out. `where` starts messages ("path:1:"). */
enum dqn_status dqn_csv_assign(struct dqn_csv_dialect *dialect, const char *where,
                               const struct dqn_cell *cells, size_t n,
                               const struct dqn_cell *ticker, const char *symbol);

#endif
