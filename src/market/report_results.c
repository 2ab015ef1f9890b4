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

static void write_span(const struct dqn_trading_report *r, FILE *out) {
    char length[32];
    struct dqn_cell_text yearly = dqn_number(r->bars_per_year, 0);
    if (r->bars_per_year < 10.0) { /* not rounded to 0 */
        dqn_format_yearly(yearly.s, sizeof yearly.s, r->bars_per_year);
    }
    if (r->ruined) {
        dqn_html_figure("bars", dqn_count_text(r->bars), out);
        fprintf(out, " bar%s until its ruin, of ", dqn_plural(r->bars));
    }
    dqn_html_figure("split_bars", dqn_count_text(r->split_bars), out);
    fprintf(out, " bars of %s, ", dqn_format_length(length, sizeof length, r->market->bar_seconds));
    dqn_html_figure("market.first_time", dqn_day_text(r->first_time_ns), out);
    fprintf(out, " to ");
    dqn_html_figure("market.last_time", dqn_day_text(r->last_time_ns), out);
    fprintf(out, " &middot; ");
    dqn_html_figure("bars_per_year", yearly, out);
    fprintf(out, " bar%s a year (%s)", strcmp(yearly.s, "1") == 0 ? "" : "s",
            r->bars_per_year_set ? "as configured" : "measured");
}

void dqn_page_top(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "<header><p class=\"soft\">%s</p><h1>",
            r->n_folds > 0 ? "Walk-forward report" : "Trading report");
    dqn_html_text(short_name(r->subject), out);
    if (r->n_folds > 0) {
        fprintf(out, " out of sample, %zu fold%s</h1>\n", r->n_folds, dqn_plural(r->n_folds));
    } else {
        fprintf(out, " on the %s split</h1>\n", dqn_split_name(r->split));
    }
    fprintf(out, "<p class=\"soft\">");
    dqn_html_text(r->market->bars.info.source, out);
    if (r->market->bars.info.symbol[0] != '\0') {
        fprintf(out, ", ");
        dqn_html_text(r->market->bars.info.symbol, out);
    }
    fprintf(out, " &middot; ");
    write_span(r, out);
    fprintf(out, "</p></header>\n");
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
    tile("A year", "agent.cagr", dqn_percent(a->cagr, 2), sign_css(a->cagr),
         isnan(a->cagr) ? "not given for less than a quarter" : "compound rate (CAGR)", out);
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

/* The verdict's plain text, with real minus signs (not those of dates and names) and spaces that do
 * not break. */
static void write_sentences(const char *text, size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool digit_next = i + 1 < n && text[i + 1] >= '0' && text[i + 1] <= '9';
        const bool begins = i == 0 || text[i - 1] == ' ' || text[i - 1] == '(';
        if (c == '-' && begins && digit_next) {
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
    for (size_t i = 0; i < v->n_warnings; i++) {
        fprintf(out, "<p class=\"warn\">Warning: ");
        write_sentences(v->warning[i], strlen(v->warning[i]), out);
        fprintf(out, "</p>\n");
    }
    fprintf(out, "</section>\n");
    write_tiles(r, out);
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* A column of a comparison. */
struct contender {
    const char *name, *path;
    const struct dqn_performance *figures;
};

enum { CONTENDERS_MAX = DQN_REPORT_SENSITIVITIES + 1 };

static void write_figure(const struct contender *who, const struct dqn_figure *figure, FILE *out) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", who->path, figure->key);
    dqn_html_cell(key, dqn_figure_text(figure, who->figures), out);
}

/* A table of figures (rows) of contenders: the main ones, or all. */
static void write_comparison(const struct contender *who, size_t n, bool all, FILE *out) {
    fprintf(out, "<div class=\"scroll\"><table class=\"first\"><thead><tr><th></th>");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "<th>%s</th>", who[i].name);
    }
    fprintf(out, "</tr></thead><tbody>\n");
    for (size_t f = 0; f < DQN_FIGURES; f++) {
        if (!all && !dqn_figures[f].main) {
            continue;
        }
        fprintf(out, "<tr><th>%s</th>", dqn_figures[f].name);
        for (size_t i = 0; i < n; i++) {
            write_figure(&who[i], &dqn_figures[f], out);
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div>\n");
}

/* The main figures with a row for each contender: narrow enough for a phone. */
static void write_by_row(const struct contender *who, size_t n, FILE *out) {
    fprintf(out, "<div class=\"scroll\"><table class=\"wrap\"><thead><tr><th></th>");
    for (size_t f = 0; f < DQN_FIGURES; f++) {
        if (dqn_figures[f].main) {
            fprintf(out, "<th>%s</th>", dqn_figures[f].name);
        }
    }
    fprintf(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "<tr class=\"%s\"><th>%s</th>", i == 0 ? "mark" : "", who[i].name);
        for (size_t f = 0; f < DQN_FIGURES; f++) {
            if (dqn_figures[f].main) {
                write_figure(&who[i], &dqn_figures[f], out);
            }
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div>\n");
}

/* All of them, folded away. */
static void write_more(const struct contender *who, size_t n, FILE *out) {
    fprintf(out, "<details><summary>All figures</summary>\n");
    write_comparison(who, n, true, out);
    fprintf(out, "</details>\n");
}

static void random_row(const char *name, const char *path, const struct dqn_random_runs *random,
                       FILE *out) {
    char key[64];
    if (random->runs == 0) {
        return;
    }
    fprintf(out, "<tr><th>%s</th>", name);
    const struct {
        const char *member;
        struct dqn_cell_text text;
    } cells[] = {{"return_5", dqn_percent(expm1(random->low), 2)},
                 {"return_mean", dqn_percent(expm1(random->mean), 2)},
                 {"return_95", dqn_percent(expm1(random->high), 2)},
                 {"percentile", dqn_number(random->percentile, 0)},
                 {"turnover", dqn_turnover(random->turnover)}};
    for (size_t i = 0; i < DQN_COUNT_OF(cells); i++) {
        snprintf(key, sizeof key, "%s.%s", path, cells[i].member);
        dqn_html_cell(key, cells[i].text, out);
    }
    fprintf(out, "</tr>\n");
}

static void write_random(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {
        "", "5 % end below", "mean", "5 % end above", "agent beats, % of runs", "turnover a year"};
    if (r->random.runs == 0) {
        return;
    }
    fprintf(out, "<div class=\"scroll\"><table class=\"wrap\"><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>");
    random_row("random", "random", &r->random, out);
    random_row("random times", "random_same_actions", &r->random_same, out);
    fprintf(out,
            "</tbody></table></div>\n<p class=\"note\">Total returns. Random, <span "
            "data-key=\"random.runs\">%zu</span> run%s: each bar one of the 45 actions.",
            r->random.runs, dqn_plural(r->random.runs));
    if (r->random_same.runs > 0) {
        fprintf(out,
                " Random times, <span data-key=\"random_same_actions.runs\">%zu</span> run%s: the "
                "agent's own actions, as often as it took them, but drawn blindly. An agent that "
                "does not beat these has a preference, not a sense of time.",
                r->random_same.runs, dqn_plural(r->random_same.runs));
    }
    fprintf(out, "</p>\n");
}

static void write_hindsight(const struct dqn_report_hindsight *h, FILE *out) {
    if (isnan(h->share)) {
        return;
    }
    fprintf(out, "<h3>With hindsight</h3>\n<table class=\"list\">");
    if (isnan(h->log_return)) {
        dqn_html_row("total return", "hindsight.total_return", dqn_percent(h->total_return, 2),
                     "of the best path of actions for who knew the future, all costs paid", out);
    } else {
        dqn_html_row("log return", "hindsight.log_return", dqn_number(h->log_return, 4),
                     "of the best path of actions for who knew the future, all costs paid", out);
    }
    dqn_html_row("the agent's share", "hindsight.share_of_agent", dqn_percent(h->share, 2),
                 "of that; no policy can plan for it, a few percent are much", out);
    fprintf(out, "</table>\n");
}

void dqn_page_comparison(const struct dqn_trading_report *r, FILE *out) {
    const struct contender who[] = {{"agent", "agent", &r->agent},
                                    {"buy and hold", "buy_hold", &r->buy_hold.figures},
                                    {"short and hold", "short_hold", &r->short_hold.figures},
                                    {"flat", "flat", &r->flat.figures}};
    fprintf(out, "<section><h2>Against no skill</h2>\n");
    write_comparison(who, DQN_COUNT_OF(who), false, out);
    fprintf(out, "<p class=\"note\">The same bars and the same costs for all. Turnover is the "
                 "value traded over mean equity, a year; a position's size is over equity.</p>\n");
    write_more(who, DQN_COUNT_OF(who), out);
    write_random(r, out);
    write_hindsight(&r->hindsight, out);
    fprintf(out, "</section>\n");
}

void dqn_page_sensitivity(const struct dqn_trading_report *r, FILE *out) {
    if (r->n_sensitivities == 0) {
        return;
    }
    struct contender who[CONTENDERS_MAX] = {{"as reported", "agent", &r->agent}};
    char path[DQN_REPORT_SENSITIVITIES][48];
    for (size_t i = 0; i < r->n_sensitivities; i++) {
        snprintf(path[i], sizeof path[i], "sensitivity.%zu.figures", i);
        who[i + 1] =
            (struct contender){r->sensitivity[i].name, path[i], &r->sensitivity[i].figures};
    }
    fprintf(out, "<section><h2>Under other assumptions</h2>\n");
    write_by_row(who, r->n_sensitivities + 1, out);
    fprintf(out, "<p class=\"note\">The same agent, not trained again, under one change at a "
                 "time. A result that collapses when orders come one bar later is a sign of a "
                 "leak; one that lives from touched limits (the price reached them and did not go "
                 "through) counts on luck in the queue.</p>\n");
    write_more(who, r->n_sensitivities + 1, out);
    fprintf(out, "</section>\n");
}

/* ---- figures --------------------------------------------------------------------------------- */

static void figure_rows(const struct dqn_trading_report *r, bool risk, FILE *out) {
    fprintf(out, "<table class=\"list\">");
    for (size_t f = 0; f < DQN_FIGURES; f++) {
        if (dqn_figures[f].risk == risk) {
            char key[64];
            snprintf(key, sizeof key, "agent.%s", dqn_figures[f].key);
            dqn_html_row(dqn_figures[f].name, key, dqn_figure_text(&dqn_figures[f], &r->agent),
                         dqn_figures[f].meaning, out);
        }
    }
    fprintf(out, "</table>");
}

void dqn_page_figures(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "<section><h2>Figures of the agent</h2>\n<div class=\"pair\">");
    figure_rows(r, false, out);
    figure_rows(r, true, out);
    fprintf(out,
            "</div>\n<p class=\"note\">Ratios are annualised by the bars a year above; the "
            "rate without risk is <span data-key=\"risk_free\">%s</span> a year. n/a: the "
            "figure has no value here, for want of bars, days or spread.</p></section>\n",
            dqn_percent(r->risk_free, 2).s);
}

/* ---- confidence ------------------------------------------------------------------------------ */

static void interval_row(const char *name, const char *key, struct dqn_cell_text low,
                         struct dqn_cell_text high, FILE *out) {
    fprintf(out,
            "<tr><th>%s</th><td><span data-key=\"confidence.%s_low\">%s</span> to <span "
            "data-key=\"confidence.%s_high\">%s</span></td><td class=\"why\">95&#8239;%% "
            "interval, from resampling blocks of bars</td></tr>\n",
            name, key, low.s, key, high.s);
}

void dqn_page_confidence(const struct dqn_trading_report *r, FILE *out) {
    char more[300];
    fprintf(out, "<section><h2>How certain is this?</h2>\n<table class=\"list\">");
    interval_row("total return", "return", dqn_percent(expm1(r->interval.log_return_low), 2),
                 dqn_percent(expm1(r->interval.log_return_high), 2), out);
    interval_row("Sharpe ratio", "sharpe", dqn_number(r->interval.sharpe_low, 2),
                 dqn_number(r->interval.sharpe_high, 2), out);
    dqn_html_row("probabilistic Sharpe", "confidence.sharpe_probabilistic",
                 dqn_percent(r->sharpe_test.probabilistic, 1),
                 "probability that the true Sharpe ratio is above zero, given length, skew and "
                 "tails",
                 out);
    snprintf(more, sizeof more,
             "probability that it is above <span data-key=\"confidence.sharpe_best_of_trials\">%s"
             "</span>, the best of <span data-key=\"confidence.trials\">%s</span> skill-less "
             "trial%s",
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

/* ---- optimum --------------------------------------------------------------------------------- */

void dqn_page_optimum(const struct dqn_trading_report *r, FILE *out) {
    if (!r->has_optimum) {
        return;
    }
    fprintf(out, "<section><h2>Known optimum of this market</h2>\n<table class=\"list\">");
    dqn_html_row("best reward a bar", "optimum_reward", dqn_number(r->optimum_reward, 5),
                 "of the threshold policy that dynamic programming finds, on this path", out);
    dqn_html_row("agent's reward a bar", "agent_reward", dqn_number(r->agent_reward, 5),
                 "on the same path", out);
    dqn_html_row("share", NULL, dqn_percent(r->agent_reward / r->optimum_reward, 1),
                 "the second over the first", out);
    dqn_html_row("best threshold", "optimum_threshold", dqn_number(r->optimum_threshold, 2),
                 "deviations from the mean at which the best policy turns", out);
    if (r->sees_hidden) {
        dqn_html_row("agent's threshold", "agent_threshold", dqn_number(r->agent_threshold, 2),
                     "where it turns", out);
        dqn_html_row("agreement", "agreement", dqn_percent(r->agreement, 1),
                     "of states with the best policy's side", out);
    }
    fprintf(out, "</table></section>\n");
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void write_data_check(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "<li>Data: SHA-256 <code>%.12s&hellip;</code>, ", r->market->bars.info.sha256);
    if (r->trained_sha256[0] == '\0') {
        fprintf(out, "not compared with the data of training.</li>\n");
    } else if (r->data_changed) {
        fprintf(out,
                "<b class=\"bad\">not</b> the data of training, "
                "<code>%.12s&hellip;</code>.</li>\n",
                r->trained_sha256);
    } else {
        fprintf(out, "the same as in training.</li>\n");
    }
}

void dqn_page_checks(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_reward_check *check = &r->reward_check;
    fprintf(out,
            "<section><h2>Checks</h2>\n<ul>\n<li>Rewards: the sum of the steps' %s is "
            "<span data-key=\"checks.reward_sum\">%s</span>; 100 times the log of the total return "
            "is <span data-key=\"checks.reward_sum_expected\">%s</span>: ",
            check->from_rewards ? "rewards" : "log returns in percent", dqn_number(check->sum, 6).s,
            dqn_number(check->expected, 6).s);
    if (check->possible) {
        fprintf(out, "<b class=\"%s\">%s</b>.</li>\n", check->holds ? "good" : "bad",
                check->holds ? "equal" : "NOT EQUAL");
    } else {
        fprintf(out, "not compared, as equity fell to where the reward stops counting.</li>\n");
    }
    fprintf(out,
            "<li>Books: each step's change of equity is price profit less the costs listed, to "
            "<span data-key=\"checks.ledger_residual\">%.1e</span> of equity.</li>\n",
            r->track.ledger_residual);
    write_data_check(r, out);
    fprintf(out, "<li>Costs charged: %s.</li>\n</ul></section>\n", r->costs_text);
}
