/* The figures of a pass, once: JSON, page and terminal go through this list. */
#ifndef DQN_MARKET_PERFORMANCE_FIGURES_H
#define DQN_MARKET_PERFORMANCE_FIGURES_H

#include "performance.h"

enum dqn_figure_unit {
    DQN_FIGURE_PERCENT,
    DQN_FIGURE_NUMBER,
    DQN_FIGURE_TURNOVER,
    DQN_FIGURE_MONEY
};

struct dqn_figure {
    const char *key;     /* in report.json */
    const char *name;    /* on page and terminal */
    const char *meaning; /* half a sentence for the page */
    enum dqn_figure_unit unit;
    int decimals;  /* of percentages and numbers */
    bool risk;     /* belongs to drawdown, turnover, position; else to returns */
    bool main;     /* among the few that a comparison begins with */
    size_t offset; /* of the double in struct dqn_performance */
};

enum { DQN_FIGURES = 22 };

/* [DQN_FIGURES], in the order of report.json. */
extern const struct dqn_figure dqn_figures[];

double dqn_figure_value(const struct dqn_figure *figure, const struct dqn_performance *p);

#endif
