/* Sections of the page that say how good the result is, and how certain. */
#include <math.h>
#include <string.h>

#include "report_parts.h"

/* ---- verdict --------------------------------------------------------------------------------- */

/* "run-1/best.h5" of a longer path. */
static const char *short_name(const char *path) {
    const char *end = path + strlen(path);
    int slashes = 0;
    while (end > path && slashes < 2) {
        end--;
        slashes += *end == '/';
    }
    return path[0] == '\0' ? "An agent" : *end == '/' ? end + 1 : end;
}

void dqn_page_top(const struct dqn_trading_report *r, FILE *out) {
    char bars[32];
    fprintf(out, "<header><p class=\"soft\">Trading report</p><h1>");
    dqn_html_text(short_name(r->subject), out);
    fprintf(out, " on the %s split</h1>\n<p class=\"soft\">", dqn_split_name(r->split));
    dqn_html_text(r->market->bars.info.source, out);
    if (r->market->bars.info.symbol[0] != '\0') {
        fprintf(out, ", ");
        dqn_html_text(r->market->bars.info.symbol, out);
    }
    fprintf(out, " &middot; %s bars of %s s, %s to %s &middot; %s bars a year (%s)</p></header>\n",
            dqn_format_count(bars, sizeof bars, r->bars), dqn_plain(r->market->bar_seconds).s,
            dqn_day_text(r->first_time_ns).s, dqn_day_text(r->last_time_ns).s,
            dqn_number(r->bars_per_year, 0).s, r->bars_per_year_set ? "as configured" : "measured");
}

static void tile(const char *name, const char *key, struct dqn_cell_text value, const char *css,
                 const char *more, FILE *out) {
    fprintf(out,
            "<div class=\"tile\"><span>%s</span><b class=\"%s\" data-key=\"%s\">%s</b>"
            "<small>%s</small></div>\n",
            name, css, key, value.s, more);
}

static const char *sign_css(double value) {
    return value > 0.0 ? "good" : value < 0.0 ? "bad" : "";
}

static void write_tiles(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_performance *a = &r->agent;
    char more[200];
    fprintf(out, "<div class=\"tiles\">\n");
    snprintf(more, sizeof more, "buy and hold %s",
             dqn_percent(r->buy_hold.figures.total_return, 2).s);
    tile("Total return", "agent.total_return", dqn_percent(a->total_return, 2),
         sign_css(a->total_return), more, out);
    tile("A year", "agent.cagr", dqn_percent(a->cagr, 2), sign_css(a->cagr), "compound rate (CAGR)",
         out);
    snprintf(more, sizeof more, "95 %% interval %s to %s", dqn_number(r->interval.sharpe_low, 2).s,
             dqn_number(r->interval.sharpe_high, 2).s);
    tile("Sharpe ratio", "agent.sharpe", dqn_number(a->sharpe, 2), sign_css(a->sharpe), more, out);
    snprintf(more, sizeof more, "%s of the time below a high",
             dqn_percent(a->underwater_frac, 0).s);
    tile("Largest drawdown", "agent.max_drawdown", dqn_percent(a->max_drawdown, 2), "", more, out);
    snprintf(more, sizeof more, "price profit before them %s", dqn_money(r->track.price_pnl).s);
    tile("Costs, money", "agent.costs", dqn_money(a->costs), "", more, out);
    snprintf(more, sizeof more, "%s of them won", dqn_percent(r->trade_figures.hit_rate, 0).s);
    tile("Trades", "trades.closed", dqn_count_text(r->trade_figures.closed), "", more, out);
    fprintf(out, "</div>\n");
}

/* The verdict's plain text, with real minus signs and spaces that do not break. */
static void write_sentences(const char *text, size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool digit_next = i + 1 < n && text[i + 1] >= '0' && text[i + 1] <= '9';
        if (c == '-' && digit_next) {
            fputs("&minus;", out);
        } else if (c == ' ' && i + 1 < n && text[i + 1] == '%') {
            fputs("&#8239;", out);
        } else {
            putc(i == 0 && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c, out);
        }
    }
}

void dqn_page_verdict(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_verdict *v = &r->verdict;
    const char *stop = strstr(v->text, ". ");
    const size_t first = stop != NULL ? (size_t)(stop + 1 - v->text) : strlen(v->text);
    fprintf(out, "<section class=\"verdict %s\"><p><strong>",
            v->loses    ? "lose"
            : v->proven ? "win"
                        : "open");
    write_sentences(v->text, first, out);
    fprintf(out, "</strong>");
    write_sentences(v->text + first, strlen(v->text + first), out);
    fprintf(out, "</p>\n");
    for (const char *line = v->warnings; *line != '\0'; line = strchr(line, '\n') + 1) {
        fprintf(out, "<p class=\"warn\">Warning: ");
        write_sentences(line, strcspn(line, "\n"), out);
        fprintf(out, "</p>\n");
    }
    fprintf(out, "</section>\n");
    write_tiles(r, out);
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* The columns of the comparison. */
struct contender {
    const char *name, *path;
    const struct dqn_performance *figures;
};

enum { CONTENDERS = 4 };

static void compare(const char *name, const char *member, const struct contender *who,
                    struct dqn_cell_text (*text)(const struct dqn_performance *), FILE *out) {
    fprintf(out, "<tr><th>%s</th>", name);
    for (size_t i = 0; i < CONTENDERS; i++) {
        char key[80];
        snprintf(key, sizeof key, "%s.%s", who[i].path, member);
        dqn_html_cell(key, text(who[i].figures), out);
    }
    fprintf(out, "</tr>\n");
}

static struct dqn_cell_text text_return(const struct dqn_performance *p) {
    return dqn_percent(p->total_return, 2);
}

static struct dqn_cell_text text_sharpe(const struct dqn_performance *p) {
    return dqn_number(p->sharpe, 2);
}

static struct dqn_cell_text text_drawdown(const struct dqn_performance *p) {
    return dqn_percent(p->max_drawdown, 2);
}

static struct dqn_cell_text text_turnover(const struct dqn_performance *p) {
    return dqn_number(p->turnover, 1);
}

static struct dqn_cell_text text_exposure(const struct dqn_performance *p) {
    return dqn_number(p->exposure_abs, 2);
}

static struct dqn_cell_text text_costs(const struct dqn_performance *p) {
    return dqn_money(p->costs);
}

static void random_row(const char *name, const char *path, const struct dqn_random_runs *random,
                       FILE *out) {
    char key[64];
    if (random->runs == 0) {
        return;
    }
    fprintf(out, "<tr><th>%s</th>", name);
    dqn_html_cell(NULL, dqn_percent(expm1(random->low), 2), out);
    dqn_html_cell(NULL, dqn_percent(expm1(random->mean), 2), out);
    dqn_html_cell(NULL, dqn_percent(expm1(random->high), 2), out);
    snprintf(key, sizeof key, "%s.percentile", path);
    dqn_html_cell(key, dqn_number(random->percentile, 0), out);
    fprintf(out, "</tr>\n");
}

static void write_random(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {"", "5 % end below", "mean", "5 % end above",
                                       "agent ends above, %"};
    if (r->random.runs == 0) {
        return;
    }
    fprintf(out, "<div class=\"scroll\"><table class=\"wrap\"><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>");
    random_row("random", "random", &r->random, out);
    random_row("random times", "random_same_actions", &r->random_same, out);
    fprintf(out,
            "</tbody></table></div>\n<p class=\"note\">Total return of %zu runs each. Random: "
            "each bar one of the 45 actions.%s</p>\n",
            r->random.runs,
            r->random_same.runs > 0
                ? " Random times: the agent's own actions, as often as it took them, but drawn "
                  "blindly. An agent that does not beat these has a preference, not a sense of "
                  "time."
                : "");
}

void dqn_page_comparison(const struct dqn_trading_report *r, FILE *out) {
    const struct contender who[CONTENDERS] = {
        {"agent", "agent", &r->agent},
        {"buy and hold", "buy_hold", &r->buy_hold.figures},
        {"short and hold", "short_hold", &r->short_hold.figures},
        {"flat", "flat", &r->flat.figures}};
    fprintf(out, "<section><h2>Against no skill</h2>\n<div class=\"scroll\">"
                 "<table class=\"first\"><thead><tr><th></th>");
    for (size_t i = 0; i < CONTENDERS; i++) {
        fprintf(out, "<th>%s</th>", who[i].name);
    }
    fprintf(out, "</tr></thead><tbody>\n");
    compare("total return", "total_return", who, text_return, out);
    compare("Sharpe ratio", "sharpe", who, text_sharpe, out);
    compare("drawdown", "max_drawdown", who, text_drawdown, out);
    compare("turnover a year", "turnover", who, text_turnover, out);
    compare("exposure", "exposure", who, text_exposure, out);
    compare("costs, money", "costs", who, text_costs, out);
    fprintf(out, "</tbody></table></div>\n<p class=\"note\">The same bars and the same costs for "
                 "all. Turnover is the value traded over mean equity; exposure is the mean size "
                 "of the position over equity.</p>\n");
    write_random(r, out);
    fprintf(out, "</section>\n");
}

static void sensitivity_row(const char *name, const char *path, const struct dqn_performance *p,
                            const char *css, FILE *out) {
    char key[80];
    fprintf(out, "<tr class=\"%s\"><th>%s</th>", css, name);
    snprintf(key, sizeof key, "%s.total_return", path);
    dqn_html_cell(key, text_return(p), out);
    snprintf(key, sizeof key, "%s.sharpe", path);
    dqn_html_cell(key, text_sharpe(p), out);
    snprintf(key, sizeof key, "%s.max_drawdown", path);
    dqn_html_cell(key, text_drawdown(p), out);
    snprintf(key, sizeof key, "%s.costs", path);
    dqn_html_cell(key, text_costs(p), out);
    fprintf(out, "</tr>\n");
}

void dqn_page_sensitivity(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {"", "return", "Sharpe", "drawdown", "costs"};
    if (r->n_sensitivities == 0) {
        return;
    }
    fprintf(out, "<section><h2>Under other assumptions</h2>\n<div class=\"scroll\"><table "
                 "class=\"wrap\"><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>");
    sensitivity_row("as reported", "agent", &r->agent, "mark", out);
    for (size_t i = 0; i < r->n_sensitivities; i++) {
        char path[48];
        snprintf(path, sizeof path, "sensitivity.%zu.figures", i);
        sensitivity_row(r->sensitivity[i].name, path, &r->sensitivity[i].figures, "", out);
    }
    fprintf(out, "</tbody></table></div>\n<p class=\"note\">The same agent, not trained again, "
                 "under one change at a time. A result that collapses when orders come one bar "
                 "later is a sign of a leak; one that lives from touched limits counts on luck in "
                 "the queue.</p></section>\n");
}

/* ---- figures --------------------------------------------------------------------------------- */

static void figure_rows_returns(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_performance *a = &r->agent;
    dqn_html_row("total return", "agent.total_return", dqn_percent(a->total_return, 2),
                 "the last position marked at the last close", out);
    dqn_html_row("after closing it", "agent.closed_return", dqn_percent(a->closed_return, 2),
                 "the last position sold or covered, its costs paid", out);
    dqn_html_row("CAGR", "agent.cagr", dqn_percent(a->cagr, 2),
                 "compound rate a year; n/a below a quarter of a year", out);
    dqn_html_row("years", "agent.years", dqn_number(a->years, 2), "bars over bars a year", out);
    dqn_html_row("volatility", "agent.volatility", dqn_percent(a->volatility, 2),
                 "deviation of bar returns, a year", out);
    dqn_html_row("Sharpe ratio", "agent.sharpe", dqn_number(a->sharpe, 2),
                 "mean over deviation of bar returns, a year", out);
    dqn_html_row("Sharpe ratio, daily", "agent.sharpe_daily", dqn_number(a->sharpe_daily, 2),
                 "the same on equity at the end of each UTC day", out);
    dqn_html_row("Sortino ratio", "agent.sortino", dqn_number(a->sortino, 2),
                 "mean over the deviation of losses, a year", out);
}

static void figure_rows_risk(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_performance *a = &r->agent;
    dqn_html_row("largest drawdown", "agent.max_drawdown", dqn_percent(a->max_drawdown, 2),
                 "at bar closes, below the highest before", out);
    dqn_html_row("the same, worst prices", "agent.max_drawdown_adverse",
                 dqn_percent(a->max_drawdown_adverse, 2), "inside the bars, at their worst price",
                 out);
    dqn_html_row("longest way back, bars", "agent.drawdown_bars", dqn_number(a->drawdown_bars, 0),
                 "longest stretch below an earlier high, to the end if it never came back", out);
    dqn_html_row("time under water", "agent.underwater_frac", dqn_percent(a->underwater_frac, 1),
                 "share of bars below an earlier high", out);
    dqn_html_row("Calmar ratio", "agent.calmar", dqn_number(a->calmar, 2),
                 "CAGR over the largest drawdown", out);
    dqn_html_row("turnover a year", "agent.turnover", dqn_number(a->turnover, 1),
                 "value traded, one way, over mean equity", out);
    dqn_html_row("mean size of position", "agent.exposure", dqn_number(a->exposure_abs, 2),
                 "over equity, whichever side", out);
    dqn_html_row("mean position", "agent.exposure_net", dqn_number(a->exposure_net, 2),
                 "long less short", out);
    dqn_html_row("long", "agent.long_frac", dqn_percent(a->long_frac, 1), "of bars", out);
    dqn_html_row("short", "agent.short_frac", dqn_percent(a->short_frac, 1), "of bars", out);
    dqn_html_row("flat", "agent.flat_frac", dqn_percent(a->flat_frac, 1), "of bars", out);
}

void dqn_page_figures(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "<section><h2>Figures of the agent</h2>\n<div class=\"pair\">"
                 "<table class=\"list\">");
    figure_rows_returns(r, out);
    fprintf(out, "</table><table class=\"list\">");
    figure_rows_risk(r, out);
    fprintf(out, "</table></div></section>\n");
}

/* ---- confidence ------------------------------------------------------------------------------ */

static void interval_row(const char *name, struct dqn_cell_text low, struct dqn_cell_text high,
                         FILE *out) {
    fprintf(out,
            "<tr><th>%s</th><td>%s to %s</td><td class=\"why\">95&#8239;%% interval, from "
            "resampling blocks of bars</td></tr>\n",
            name, low.s, high.s);
}

void dqn_page_confidence(const struct dqn_trading_report *r, FILE *out) {
    char more[200];
    fprintf(out, "<section><h2>How certain is this?</h2>\n<table class=\"list\">");
    interval_row("total return", dqn_percent(expm1(r->interval.log_return_low), 2),
                 dqn_percent(expm1(r->interval.log_return_high), 2), out);
    interval_row("Sharpe ratio", dqn_number(r->interval.sharpe_low, 2),
                 dqn_number(r->interval.sharpe_high, 2), out);
    dqn_html_row("probabilistic Sharpe", "confidence.sharpe_probabilistic",
                 dqn_percent(r->sharpe_test.probabilistic, 1),
                 "probability that the true Sharpe ratio is above zero, given length, skew and "
                 "tails",
                 out);
    snprintf(more, sizeof more,
             "probability that it is above %s, the best of %s skill-less trial%s",
             dqn_number(r->sharpe_test.benchmark, 2).s, dqn_plain(r->trials).s,
             r->trials == 1.0 ? "" : "s");
    dqn_html_row("deflated Sharpe", "confidence.sharpe_deflated",
                 dqn_percent(r->sharpe_test.deflated, 1), more, out);
    dqn_html_row("skewness", "confidence.skewness", dqn_number(r->sharpe_test.skewness, 2),
                 "of bar returns; negative: large losses, small gains", out);
    dqn_html_row("kurtosis", "confidence.kurtosis", dqn_number(r->sharpe_test.kurtosis, 1),
                 "of bar returns; a normal law has 3", out);
    dqn_html_row("alpha a year", "confidence.alpha", dqn_percent(r->relation.alpha, 2),
                 "log return that holding the market does not explain", out);
    dqn_html_row("beta", "confidence.beta", dqn_number(r->relation.beta, 2),
                 "how much of the market's moves the agent carries", out);
    dqn_html_row("correlation", "confidence.correlation", dqn_number(r->relation.correlation, 2),
                 "with buy and hold, bar by bar", out);
    fprintf(out, "</table>\n<p class=\"note\">Intervals and probabilities speak about these bars "
                 "only: they know nothing of markets that change. If several agents were tried, "
                 "say so with <code>--trials</code>.</p></section>\n");
}

/* ---- folds and optimum ----------------------------------------------------------------------- */

void dqn_page_folds(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {"fold", "validation", "test", "lowest seed", "highest seed"};
    if (r->n_folds == 0) {
        return;
    }
    fprintf(out, "<section><h2>Fold by fold</h2>\n<div class=\"scroll\"><table><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>");
    for (size_t i = 0; i < r->n_folds; i++) {
        const struct dqn_report_fold *f = &r->folds[i];
        fprintf(out, "<tr><th>");
        dqn_html_text(f->name, out);
        fprintf(out, "</th>");
        dqn_html_cell(NULL, dqn_percent(f->validation, 2), out);
        dqn_html_cell(NULL, dqn_percent(f->test, 2), out);
        dqn_html_cell(NULL, dqn_percent(f->test_low, 2), out);
        dqn_html_cell(NULL, dqn_percent(f->test_high, 2), out);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div>\n<p class=\"note\">Sums of log returns. Each fold trains "
                 "on bars before its test and is tested once.</p></section>\n");
}

void dqn_page_optimum(const struct dqn_trading_report *r, FILE *out) {
    if (!r->has_optimum) {
        return;
    }
    fprintf(out, "<section><h2>Known optimum of this market</h2>\n<table class=\"list\">");
    dqn_html_row("best reward a bar", "optimum_reward", dqn_number(r->optimum_reward, 5),
                 "of the threshold policy that dynamic programming finds, on this path", out);
    dqn_html_row("agent's reward a bar", "agent_reward", dqn_number(r->agent_reward, 5),
                 "on the same path", out);
    dqn_html_row("share", NULL, dqn_percent(r->agent_reward / r->optimum_reward, 1), "", out);
    if (r->sees_hidden) {
        dqn_html_row("agent's threshold", "agent_threshold", dqn_number(r->agent_threshold, 2),
                     "where it turns", out);
        dqn_html_row("agreement", "agreement", dqn_percent(r->agreement, 1),
                     "of states with the best policy's side", out);
    }
    fprintf(out, "</table></section>\n");
}

/* ---- checks ---------------------------------------------------------------------------------- */

void dqn_page_checks(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_reward_check *check = &r->reward_check;
    fprintf(out, "<section><h2>Checks</h2>\n<ul>\n<li>Rewards: ");
    if (check->possible) {
        fprintf(out,
                "the sum of the steps' %s is %s; 100 times the log of the total return is "
                "%s: <b class=\"%s\">%s</b>.</li>\n",
                check->from_rewards ? "rewards" : "log returns in percent",
                dqn_number(check->sum, 6).s, dqn_number(check->expected, 6).s,
                check->holds ? "good" : "bad", check->holds ? "equal" : "NOT EQUAL");
    } else {
        fprintf(out, "equity fell to where the reward stops counting, so that their sum says "
                     "nothing about the return.</li>\n");
    }
    fprintf(out,
            "<li>Books: each step's change of equity is price profit less the costs listed, to "
            "%.1e of equity.</li>\n",
            r->track.ledger_residual);
    fprintf(out, "<li>Costs charged: %s.</li>\n</ul></section>\n", r->costs_text);
}
