/* Decimal numbers in data files: correctly rounded, independent of the locale, with decimal point
 * or decimal comma by rule. */
#ifndef DQN_MARKET_NUMBER_TEXT_H
#define DQN_MARKET_NUMBER_TEXT_H

#include "../base.h"

enum dqn_decimal_mark { DQN_MARK_UNKNOWN, DQN_MARK_POINT, DQN_MARK_COMMA };

/* How the numbers of one file are written; starts as zeros, and is decided by the first number
 * that shows it. */
struct dqn_number_style {
    bool comma_allowed; /* the separator is not a comma, so "1,5" may be a number */
    enum dqn_decimal_mark mark;
};

/* Reads a whole cell. Inside quotes "1,203.50" has thousands separators; with comma_allowed
 * "1.203,50" has too. Returns NULL, or a phrase saying why the text is no number ("is empty"). */
const char *dqn_number_parse(const char *text, size_t n, bool quoted,
                             struct dqn_number_style *style, double *out);

#endif
