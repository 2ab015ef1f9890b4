/* The report as one self-contained page: no script, nothing from elsewhere, light and dark. */
#ifndef DQN_MARKET_REPORT_HTML_H
#define DQN_MARKET_REPORT_HTML_H

#include "trading_report.h"

/* DQN_ERR_MEMORY when there is none for the curves. */
enum dqn_status dqn_report_html(const struct dqn_trading_report *report, FILE *out);

#endif
