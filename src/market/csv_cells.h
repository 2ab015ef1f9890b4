/* Cells of one line of separated text. */
#ifndef DQN_MARKET_CSV_CELLS_H
#define DQN_MARKET_CSV_CELLS_H

#include "line_reader.h"

enum { DQN_CSV_CELLS_MAX = 256 };

struct dqn_cell {
    const char *text; /* blanks and quotes around it taken off */
    size_t n;
    size_t column; /* of its first character in the line, from 1 */
    bool quoted;
};

/* Splits a line. Quotes (") may enclose a cell; two quotes inside stay as they are. Returns NULL
 * and the count in *n, or a phrase saying what is wrong with the cell *n (from 0). */
const char *dqn_csv_split(const struct dqn_line *line, char separator, struct dqn_cell *cells,
                          size_t *n);
/* Whether a cell equals a word. */
bool dqn_cell_is(const struct dqn_cell *cell, const char *word);
/* A cell for a message: at most 40 characters, unprintable ones as '?'. Returns `text`. */
const char *dqn_cell_show(const struct dqn_cell *cell, char text[48]);

#endif
