/* Time stamps of data files: text dates, split date and time cells, and epoch numbers. */
#ifndef DQN_MARKET_TIMESTAMPS_H
#define DQN_MARKET_TIMESTAMPS_H

#include "../base.h"

/* What one file's stamps have shown so far. `order` starts as data.date_order (DQN_DATE_...), and
 * AUTO is decided by the first date that reads one way only. */
struct dqn_stamp_style {
    int order;
    uint64_t order_line; /* the line that decided; 0 = the config did, or nothing yet */
};

struct dqn_stamp {
    int64_t ns;        /* since 1970, UTC; local time when `local` */
    bool local;        /* the text named no zone */
    bool either_order; /* read as day-month, but month-day is as good: see dqn_stamp_swap */
    bool decides;      /* this stamp was the first to show day or month first */
};

/* Reads a stamp from one cell, or a date cell and a time cell (clock != NULL). Epoch numbers: their
 * unit by size, below 1e11 s, below 1e14 ms, below 1e17 us, else ns. Years outside 1970..2100 are
 * refused. `line` is remembered when the stamp decides the order. Returns NULL, or a phrase saying
 * why it is no stamp. */
const char *dqn_stamp_parse(const char *text, size_t n, const char *clock, size_t clock_n,
                            uint64_t line, struct dqn_stamp_style *style, struct dqn_stamp *out);

/* A stamp of dqn_stamp_parse with `either_order`, read as month-day instead. */
int64_t dqn_stamp_swap(int64_t ns);

/* "2024-03-04T09:30:00" (with fraction where there is one); returns `text`. */
const char *dqn_stamp_text(char *text, size_t size, int64_t ns);

#endif
