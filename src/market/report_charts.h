/* Charts as inline SVG inside HTML. The drawing stretches with the page, labels keep their size: a
 * chart can be read on a phone and on a wide screen alike. No script. */
#ifndef DQN_MARKET_REPORT_CHARTS_H
#define DQN_MARKET_REPORT_CHARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { DQN_CHART_LINES = 8, DQN_CHART_POINTS = 1400 };

enum dqn_chart_unit { DQN_CHART_MONEY, DQN_CHART_PERCENT, DQN_CHART_NUMBER };

/* Values at equal distances from the left to the right end. */
struct dqn_chart_line {
    const char *name; /* in the legend; NULL = not there */
    const char *css;  /* classes of the style sheet: colour, "dashed" */
    const double *y;  /* [n] */
    size_t n;
    bool filled; /* down to zero */
};

struct dqn_chart_dot {
    double x, y; /* x from 0 to 1 */
    const char *css;
};

struct dqn_chart {
    const char *title;      /* plain text */
    const char *note;       /* a sentence or two under it; HTML */
    const int64_t *time_ns; /* [n_times] stamps from the left to the right end */
    size_t n_times;
    enum dqn_chart_unit unit;
    bool log_axis;    /* values above zero only */
    double low, high; /* of the axis; both 0 = what the lines need */
    size_t n_lines;
    struct dqn_chart_line line[DQN_CHART_LINES];
    const char *band_name;              /* NULL = no band */
    const double *band_low, *band_high; /* [n_band] */
    size_t n_band;
    const struct dqn_chart_dot *dots; /* [n_dots] */
    size_t n_dots;
    const double *fold_start; /* [n_folds] ascending from 0 to 1: where folds begin; NULL = none */
    size_t n_folds;
    bool tall;
};

/* Lines longer than DQN_CHART_POINTS are thinned to the smallest and largest value of each
 * stretch, so that no extreme is lost. Values that are not finite leave a hole. */
void dqn_chart_write(const struct dqn_chart *chart, FILE *out);

/* Thins y [n] to at most `points` indices (ascending) into `index`, which has room for them; keeps
 * first, last, minimum and maximum. Returns how many. */
size_t dqn_thin(const double *y, size_t n, size_t points, size_t *index);

/* Round steps for an axis from low to high: ticks [10] out; returns how many. */
size_t dqn_axis_ticks(double low, double high, bool log_axis, double ticks[10]);

#endif
