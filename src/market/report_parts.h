/* Pieces of the report's page: numbers as text, escaping, and the page's sections. */
#ifndef DQN_MARKET_REPORT_PARTS_H
#define DQN_MARKET_REPORT_PARTS_H

#include "performance_figures.h"
#include "trading_report.h"

/* A number for people. Undefined ones are "n/a"; minus signs are real ones. */
struct dqn_cell_text {
    char s[64];
};

struct dqn_cell_text dqn_percent(double fraction, int decimals);
struct dqn_cell_text dqn_number(double value, int decimals);
struct dqn_cell_text dqn_turnover(double value);    /* "3,820", "1.7" */
struct dqn_cell_text dqn_money(double value);       /* "1,234,567", "12.34" */
struct dqn_cell_text dqn_short_money(double value); /* "120k", "1.5M" */
struct dqn_cell_text dqn_plain(double value);       /* as few digits as it takes */
struct dqn_cell_text dqn_count_text(uint64_t value);
struct dqn_cell_text dqn_day_text(int64_t time_ns);    /* "2021-03-04" */
struct dqn_cell_text dqn_minute_text(int64_t time_ns); /* "2021-03-04 12:30" */
/* A figure of the list by its unit. */
struct dqn_cell_text dqn_figure_text(const struct dqn_figure *figure,
                                     const struct dqn_performance *p);

/* Text with & < > " escaped; bytes that are no UTF-8 become U+FFFD. */
void dqn_html_text(const char *text, FILE *out);
/* <td data-key="key">text</td>; `key` is the figure's path in report.json, or NULL. */
void dqn_html_cell(const char *key, struct dqn_cell_text text, FILE *out);
/* A row: name, value, explanation. `key` as above. */
void dqn_html_row(const char *name, const char *key, struct dqn_cell_text text, const char *meaning,
                  FILE *out);
/* The same inside a sentence: <span data-key="key">text</span>. */
void dqn_html_figure(const char *key, struct dqn_cell_text text, FILE *out);
void dqn_html_head_row(const char *const *names, size_t n, FILE *out);

/* Sections, in the page's order. */
void dqn_page_top(const struct dqn_trading_report *report, FILE *out);
void dqn_page_verdict(const struct dqn_trading_report *report, FILE *out);
void dqn_page_comparison(const struct dqn_trading_report *report, FILE *out);
void dqn_page_figures(const struct dqn_trading_report *report, FILE *out);
void dqn_page_confidence(const struct dqn_trading_report *report, FILE *out);
void dqn_page_sensitivity(const struct dqn_trading_report *report, FILE *out);
void dqn_page_folds(const struct dqn_trading_report *report, FILE *out);
void dqn_page_optimum(const struct dqn_trading_report *report, FILE *out);
void dqn_page_checks(const struct dqn_trading_report *report, FILE *out);
void dqn_page_costs(const struct dqn_trading_report *report, FILE *out);
void dqn_page_orders(const struct dqn_trading_report *report, FILE *out);
void dqn_page_actions(const struct dqn_trading_report *report, FILE *out);
void dqn_page_trades(const struct dqn_trading_report *report, FILE *out);

/* Charts; DQN_ERR_MEMORY. */
enum dqn_status dqn_page_equity_chart(const struct dqn_trading_report *report, FILE *out);
enum dqn_status dqn_page_drawdown_chart(const struct dqn_trading_report *report, FILE *out);
enum dqn_status dqn_page_price_chart(const struct dqn_trading_report *report, FILE *out);
enum dqn_status dqn_page_exposure_chart(const struct dqn_trading_report *report, FILE *out);
enum dqn_status dqn_page_cost_chart(const struct dqn_trading_report *report, FILE *out);

#endif
