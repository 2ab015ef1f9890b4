/* The tables of a report. Times are the bars' stamps in UTC; numbers read back as the same double.
 */
#ifndef DQN_MARKET_REPORT_CSV_H
#define DQN_MARKET_REPORT_CSV_H

#include "trading_report.h"

/* One row before the first step, then one a bar of the split: equity of the agent and of who holds.
 * A walk-forward has a column more: the fold. */
void dqn_report_equity_csv(const struct dqn_trading_report *report, FILE *out);
/* One row a round trip. */
void dqn_report_trades_csv(const struct dqn_trading_report *report, FILE *out);
/* One row a fill, by an order or by a rule. */
void dqn_report_fills_csv(const struct dqn_trading_report *report, FILE *out);
/* One row a step, with everything that is known about it. */
void dqn_report_steps_csv(const struct dqn_trading_report *report, FILE *out);

/* "2021-03-04T12:30:00Z", with nanoseconds only where there are some; returns text. */
const char *dqn_time_text(char *text, size_t size, int64_t time_ns);

#endif
