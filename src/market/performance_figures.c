#include "performance_figures.h"

#include <stddef.h>
#include <string.h>

#define AT(member) offsetof(struct dqn_performance, member)

const struct dqn_figure dqn_figures[] = {
    {"total_return", "total return", "the last position marked at the last close",
     DQN_FIGURE_PERCENT, 2, false, true, AT(total_return)},
    {"log_return", "log return", "log of what 1 has become; adds up over time", DQN_FIGURE_NUMBER,
     4, false, false, AT(log_return)},
    {"closed_return", "after closing it", "the last position sold or covered, its costs paid",
     DQN_FIGURE_PERCENT, 2, false, false, AT(closed_return)},
    {"closing_cost", "cost of closing it", "money; an aggressive market order at the last close",
     DQN_FIGURE_MONEY, 0, false, false, AT(closing_cost)},
    {"years", "years", "bars over bars a year", DQN_FIGURE_NUMBER, 3, false, false, AT(years)},
    {"cagr", "a year (CAGR)", "compound rate; n/a below a quarter of a year", DQN_FIGURE_PERCENT, 2,
     false, false, AT(cagr)},
    {"volatility", "volatility", "deviation of bar returns, a year", DQN_FIGURE_PERCENT, 2, false,
     false, AT(volatility)},
    {"sharpe", "Sharpe ratio", "mean over deviation of bar returns, a year", DQN_FIGURE_NUMBER, 2,
     false, true, AT(sharpe)},
    {"sharpe_daily", "Sharpe ratio, daily",
     "the same on equity at the end of each UTC day; n/a below 30 days", DQN_FIGURE_NUMBER, 2,
     false, false, AT(sharpe_daily)},
    {"sortino", "Sortino ratio", "mean over the deviation of losses, a year", DQN_FIGURE_NUMBER, 2,
     false, false, AT(sortino)},
    {"max_drawdown", "largest drawdown", "at bar closes, below the highest before",
     DQN_FIGURE_PERCENT, 2, true, true, AT(max_drawdown)},
    {"max_drawdown_adverse", "the same, worst prices", "inside the bars, at their worst price",
     DQN_FIGURE_PERCENT, 2, true, false, AT(max_drawdown_adverse)},
    {"drawdown_bars", "longest way back, bars",
     "longest stretch below an earlier high, to the end if it never came back", DQN_FIGURE_NUMBER,
     0, true, false, AT(drawdown_bars)},
    {"underwater_frac", "time under water", "share of bars below an earlier high",
     DQN_FIGURE_PERCENT, 1, true, false, AT(underwater_frac)},
    {"calmar", "Calmar ratio", "CAGR over the largest drawdown", DQN_FIGURE_NUMBER, 2, true, false,
     AT(calmar)},
    {"turnover", "turnover a year", "value traded, one way, over mean equity: 12 is once a month",
     DQN_FIGURE_TURNOVER, 0, true, true, AT(turnover)},
    {"exposure", "mean size of position", "over equity, whichever side", DQN_FIGURE_NUMBER, 2, true,
     true, AT(exposure_abs)},
    {"exposure_net", "mean position", "over equity, long less short", DQN_FIGURE_NUMBER, 2, true,
     false, AT(exposure_net)},
    {"long_frac", "long", "share of bars", DQN_FIGURE_PERCENT, 1, true, false, AT(long_frac)},
    {"short_frac", "short", "share of bars", DQN_FIGURE_PERCENT, 1, true, false, AT(short_frac)},
    {"flat_frac", "flat", "share of bars", DQN_FIGURE_PERCENT, 1, true, false, AT(flat_frac)},
    {"costs", "costs, money", "all causes; they are in the returns already", DQN_FIGURE_MONEY, 0,
     true, true, AT(costs)},
};

_Static_assert(sizeof dqn_figures / sizeof dqn_figures[0] == DQN_FIGURES, "count of figures");

double dqn_figure_value(const struct dqn_figure *figure, const struct dqn_performance *p) {
    double value;
    memcpy(&value, (const char *)p + figure->offset, sizeof value);
    return value;
}
