/* The verdict, and the short report for a terminal. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "performance_figures.h"
#include "trading_report.h"

const char *dqn_split_name(enum dqn_split split) {
    static const char *const names[] = {"train", "validation", "test"};
    return names[split];
}

double dqn_track_costs(const struct dqn_track *t) {
    return t->fees + t->spread + t->slippage + t->impact + t->financing;
}

/* ---- verdict --------------------------------------------------------------------------------- */

/* Where it was judged: "on the test split". */
static const char *place(const struct dqn_trading_report *r, char text[64]) {
    if (r->n_folds > 0) {
        snprintf(text, 64, "out of sample over %zu fold%s", r->n_folds, dqn_plural(r->n_folds));
    } else {
        snprintf(text, 64, "on the %s split", dqn_split_name(r->split));
    }
    return text;
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

static void judge_return(struct dqn_trading_report *r) {
    struct dqn_verdict *v = &r->verdict;
    const double low = r->interval.log_return_low, percent = 100.0 * r->agent.total_return;
    char where[64];
    place(r, where);
    v->loses = !(r->agent.log_return > 0.0);
    v->proven = low > 0.0;
    if (v->loses && r->agent.log_return == 0.0) {
        append(v->text, sizeof v->text, "this agent earns nothing %s: %.2f %%.", where, percent);
    } else if (v->loses) {
        append(v->text, sizeof v->text, "this agent LOSES money %s: %.2f %% after costs.", where,
               percent);
    } else if (v->proven) {
        append(v->text, sizeof v->text,
               "this agent earns %+.2f %% %s after costs; chance is an unlikely explanation.",
               percent, where);
    } else if (isnan(low)) {
        append(v->text, sizeof v->text,
               "this agent earned %+.2f %% %s; whether by chance cannot be said, for want of bars "
               "or of bootstrap draws.",
               percent, where);
    } else {
        append(v->text, sizeof v->text,
               "this agent earned %+.2f %% %s, but its 95 %% interval reaches below zero: no proof "
               "of skill.",
               percent, where);
    }
}

static void append_share(char *text, size_t size, double percent) {
    if (percent >= 100.0) {
        append(text, size, "all");
    } else if (percent <= 0.0) {
        append(text, size, "none");
    } else {
        append(text, size, "%.0f %%", percent);
    }
}

static void judge_against_random(struct dqn_trading_report *r) {
    char *text = r->verdict.text;
    const size_t size = sizeof r->verdict.text;
    if (r->random.runs == 0) {
        return;
    }
    append(text, size, " It ends above ");
    append_share(text, size, r->random.percentile);
    append(text, size, " of %zu random run%s", r->random.runs, dqn_plural(r->random.runs));
    if (r->random_same.runs > 0) {
        append(text, size, ", and above ");
        append_share(text, size, r->random_same.percentile);
        append(text, size, " of those that draw its own actions at random times");
    }
    append(text, size, ".");
}

static void judge_against_market(struct dqn_trading_report *r) {
    struct dqn_verdict *v = &r->verdict;
    const double low = r->interval.log_return_low, high = r->interval.log_return_high;
    const double held = r->buy_hold.figures.log_return;
    v->buy_hold = low > held ? 1 : high < held ? -1 : 0;
    if (isfinite(low) && isfinite(high)) {
        append(v->text, sizeof v->text,
               " Buy and hold made %+.2f %%, %s the agent's 95 %% interval of %+.2f %% to %+.2f "
               "%%: %s.",
               100.0 * r->buy_hold.figures.total_return,
               v->buy_hold > 0   ? "below"
               : v->buy_hold < 0 ? "above"
                                 : "inside",
               100.0 * expm1(low), 100.0 * expm1(high),
               v->buy_hold > 0   ? "the agent is better"
               : v->buy_hold < 0 ? "the agent is worse"
                                 : "no clear difference");
    }
}

/* Adds a warning: a line of its own, whole or, were it too long, ending in "...". */
__attribute__((format(printf, 2, 3))) static void warn(struct dqn_verdict *v, const char *format,
                                                       ...) {
    if (v->n_warnings == DQN_REPORT_WARNINGS) {
        return;
    }
    char *line = v->warning[v->n_warnings++];
    const size_t size = sizeof v->warning[0];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, size, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= size) {
        memcpy(line + size - 4, "...", 4);
    }
}

static void warn_of_ruin(struct dqn_trading_report *r) {
    char time[32];
    if (r->ruined) {
        const time_t seconds = (time_t)(r->ruin_time_ns / 1000000000);
        struct tm day;
        char these[48];
        snprintf(these, sizeof these, "these %zu bars", r->bars);
        gmtime_r(&seconds, &day);
        strftime(time, sizeof time, "%Y-%m-%d %H:%M", &day);
        warn(&r->verdict,
             "The account was ruined at bar %zu of %zu (%s UTC): no equity was left. It stays at "
             "that; ratios, yearly figures and shares of bars are of %s.",
             r->bars, r->split_bars, time, r->bars == 1 ? "this bar" : these);
    }
}

static void warn_of_data(struct dqn_trading_report *r) {
    if (r->data_changed) {
        warn(&r->verdict,
             "These are not the data that the agent was trained on (SHA-256 %.12s... now, %.12s... "
             "then): bars of this split may have been in its training.",
             r->market->bars.info.sha256, r->trained_sha256);
    }
    if (r->split != DQN_SPLIT_TEST) {
        warn(&r->verdict, "This is the %s split, which the agent was %s on.",
             dqn_split_name(r->split), r->split == DQN_SPLIT_TRAIN ? "trained" : "selected");
    }
}

/* Less than a quarter of a year: as short as the CAGR is not given for. */
static void warn_of_length(struct dqn_trading_report *r) {
    if (r->flat.figures.years < 0.25) {
        char span[32];
        warn(&r->verdict,
             "The bars cover only %s: Sharpe ratio, volatility, turnover and alpha are "
             "extrapolated to a year.",
             dqn_format_span(span, sizeof span, 365.2425 * 86400.0 * r->flat.figures.years));
    }
}

static void judge_warnings(struct dqn_trading_report *r) {
    struct dqn_verdict *v = &r->verdict;
    warn_of_ruin(r);
    warn_of_data(r);
    warn_of_length(r);
    if (r->agent.constant_policy) {
        warn(v, "One action was taken in at least 99 %% of the bars: a constant policy.");
    }
    if (r->track.margin_calls > 0) {
        warn(v, "The broker closed the position %llu time%s: margin calls.",
             (unsigned long long)r->track.margin_calls, dqn_plural(r->track.margin_calls));
    }
    if (r->reward_check.possible && !r->reward_check.holds) {
        warn(v,
             "The rewards do not add up to the return: %.10g against %.10g. Do not trust this "
             "report.",
             r->reward_check.sum, r->reward_check.expected);
    }
    if (r->track.ledger_residual > 1e-9) {
        warn(v, "The books do not balance: residual %.1e of equity. Do not trust this report.",
             r->track.ledger_residual);
    }
}

void dqn_trading_report_judge(struct dqn_trading_report *r) {
    memset(&r->verdict, 0, sizeof r->verdict);
    judge_return(r);
    judge_against_random(r);
    judge_against_market(r);
    judge_warnings(r);
}

/* ---- on a terminal --------------------------------------------------------------------------- */

static void format_day(char text[32], int64_t time_ns) {
    const time_t seconds = (time_t)(time_ns / 1000000000);
    struct tm day;
    gmtime_r(&seconds, &day);
    strftime(text, 32, "%Y-%m-%d", &day);
}

/* A figure in 12 columns. */
static void print_figure(const struct dqn_figure *figure, const struct dqn_performance *p,
                         FILE *out) {
    const double value = dqn_figure_value(figure, p);
    if (!isfinite(value)) {
        fprintf(out, " %11s", "n/a");
    } else if (figure->unit == DQN_FIGURE_PERCENT) {
        fprintf(out, " %10.*f%%", figure->decimals, 100.0 * value);
    } else if (figure->unit == DQN_FIGURE_MONEY) {
        fprintf(out, " %11.2f", value);
    } else if (figure->unit == DQN_FIGURE_TURNOVER) {
        fprintf(out, " %11.1f", value);
    } else {
        fprintf(out, " %11.*f", figure->decimals, value);
    }
}

static void print_row(FILE *out, const char *name, const struct dqn_performance *p) {
    fprintf(out, "  %-15s", name);
    for (size_t i = 0; i < DQN_FIGURES; i++) {
        if (dqn_figures[i].main) {
            print_figure(&dqn_figures[i], p, out);
        }
    }
    fprintf(out, "\n");
}

static void print_random(FILE *out, const char *name, const struct dqn_random_runs *random) {
    if (random->runs > 0) {
        fprintf(out,
                "  %-15s %10.2f%%  mean of %zu run%s, 5 %% to 95 %%: %.2f%% to %.2f%%; turnover "
                "%.1f\n",
                name, 100.0 * expm1(random->mean), random->runs, dqn_plural(random->runs),
                100.0 * expm1(random->low), 100.0 * expm1(random->high), random->turnover);
    }
}

static void print_comparison(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "  %-15s %11s %11s %11s %11s %11s %11s\n", "", "return", "Sharpe", "drawdown",
            "turnover", "position", "costs");
    print_row(out, "agent", &r->agent);
    print_row(out, "flat", &r->flat.figures);
    print_row(out, "buy and hold", &r->buy_hold.figures);
    print_row(out, "short and hold", &r->short_hold.figures);
    print_random(out, "random", &r->random);
    print_random(out, "random times", &r->random_same);
    if (isfinite(r->hindsight.share)) {
        const bool adds = isnan(r->hindsight.log_return);
        fprintf(out, "  %-15s %s %.4f, which the agent made %.2f%% of\n", "with hindsight",
                adds ? "total return" : "log return",
                adds ? r->hindsight.total_return : r->hindsight.log_return,
                100.0 * r->hindsight.share);
    }
}

static void print_folds(const struct dqn_trading_report *r, FILE *out) {
    char first[32], last[32], name[64];
    for (size_t i = 0; i < r->n_folds; i++) {
        const struct dqn_report_fold *f = &r->folds[i];
        const struct dqn_report_seed *chosen = dqn_report_fold_chosen(f);
        format_day(first, f->first_ns[DQN_SPLIT_TEST]);
        format_day(last, f->last_ns[DQN_SPLIT_TEST]);
        snprintf(name, sizeof name, "fold %zu, seed %" PRId64, i + 1, chosen->seed);
        print_row(out, name, &f->figures);
        fprintf(out, "  %-15s test %s to %s; buy and hold %.2f%%; validation %.2f%%\n", "", first,
                last, 100.0 * f->buy_hold_return, 100.0 * chosen->validation_return);
    }
    if (r->n_folds > 0 && r->folds[0].n_seeds > 1) {
        fprintf(out,
                "Seeds: of the %zu of a fold the one with the %s validation return stands for "
                "it.\n",
                r->folds[0].n_seeds, dqn_seed_choice(r->folds[0].n_seeds));
    }
}

static void print_verdict(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "Verdict: %s\n", r->verdict.text);
    for (size_t i = 0; i < r->verdict.n_warnings; i++) {
        fprintf(out, "Warning: %s\n", r->verdict.warning[i]);
    }
}

static void print_costs(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_track *t = &r->track;
    fprintf(out, "Costs: %.2f in all", r->agent.costs);
    if (t->traded > 0.0) {
        fprintf(out, " (%.2f bp of what was traded)", r->agent.costs * 1e4 / t->traded);
    }
    fprintf(out,
            ": fees %.2f, half-spread %.2f, slippage %.2f, impact %.2f, financing %.2f; price "
            "profit before costs %.2f.\n",
            t->fees, t->spread, t->slippage, t->impact, t->financing, t->price_pnl);
    fprintf(out, "Orders: %llu sent, %llu filled; %llu margin calls. Ledger residual %.1e.\n",
            (unsigned long long)t->orders_sent, (unsigned long long)t->orders_filled,
            (unsigned long long)t->margin_calls, t->ledger_residual);
}

void dqn_trading_report_print(const struct dqn_trading_report *r, FILE *out) {
    char first[32], last[32], where[64], yearly[32];
    format_day(first, r->first_time_ns);
    format_day(last, r->last_time_ns);
    dqn_format_yearly(yearly, sizeof yearly, r->bars_per_year);
    if (r->n_folds > 0) {
        snprintf(where, sizeof where, "%zu fold%s out of sample", r->n_folds,
                 dqn_plural(r->n_folds));
    } else {
        snprintf(where, sizeof where, "%s split", dqn_split_name(r->split));
    }
    fprintf(out, "\nTrading report: %s, ", where);
    if (r->ruined) {
        fprintf(out, "ruined after %zu of ", r->bars);
    }
    fprintf(out, "%zu bars from %s to %s, %s bar%s a year (%s)\n", r->split_bars, first, last,
            yearly, strcmp(yearly, "1") == 0 ? "" : "s",
            r->bars_per_year_set ? "as configured" : "measured");
    print_verdict(r, out);
    print_comparison(r, out);
    print_folds(r, out);
    print_costs(r, out);
    if (r->has_optimum) {
        fprintf(
            out,
            "Known optimum of this market (threshold %.2f): %.5f a bar; the agent's mean reward "
            "%.5f is %.1f %% of it.\n",
            r->optimum_threshold, r->optimum_reward, r->agent_reward,
            100.0 * r->agent_reward / r->optimum_reward);
    }
}
