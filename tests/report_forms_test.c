/* JSON, page and terminal have the same figures, whatever the report: of a split, of a ruined
 * account, of a walk-forward. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "market/report_html.h"
#include "market/trading_report.h"
#include "report_assert.h"
#include "report_scene.h"
#include "shared/rng.h"

/* ---- JSON as a list of paths and numbers ----------------------------------------------------- */

enum { LEAVES_MAX = 4000, PATH_MAX_BYTES = 120 };

struct leaf {
    char path[PATH_MAX_BYTES]; /* "folds.0.figures.sharpe" */
    double value;
};

struct leaves {
    size_t n;
    struct leaf *leaf; /* [LEAVES_MAX] */
};

static const char *skip_string(const char *t) {
    for (t++; *t != '"'; t++) {
        t += *t == '\\';
    }
    return t + 1;
}

/* Adds the numbers of the value at `t` under `path`; returns what follows it. The text is JSON
 * (report_test.c checks that). */
static const char *collect(const char *t, const char *path, struct leaves *out) {
    char inner[PATH_MAX_BYTES];
    t += strspn(t, " \n");
    if (*t == '{' || *t == '[') {
        const char close = *t == '{' ? '}' : ']';
        size_t index = 0;
        for (t += 1 + strspn(t + 1, " \n"); *t != close; t += strspn(t, " ,\n")) {
            const char *dot = path[0] != '\0' ? "." : "";
            if (close == '}') {
                const char *end = skip_string(t);
                snprintf(inner, sizeof inner, "%s%s%.*s", path, dot, (int)(end - t - 2), t + 1);
                t = end + 1;
            } else {
                snprintf(inner, sizeof inner, "%s%s%zu", path, dot, index++);
            }
            t = collect(t, inner, out);
        }
        return t + 1;
    }
    if (*t == '"') {
        return skip_string(t);
    }
    if (isdigit((unsigned char)*t) || *t == '-') {
        char *end;
        cr_assert_lt(out->n, LEAVES_MAX);
        struct leaf *leaf = &out->leaf[out->n++];
        snprintf(leaf->path, sizeof leaf->path, "%s", path);
        leaf->value = strtod(t, &end);
        return end;
    }
    return t + strcspn(t, ",}]\n");
}

static bool has_path(const struct leaves *leaves, const char *path, size_t length) {
    for (size_t i = 0; i < leaves->n; i++) {
        if (strlen(leaves->leaf[i].path) == length &&
            strncmp(leaves->leaf[i].path, path, length) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- scenes ---------------------------------------------------------------------------------- */

struct scene {
    struct dqn_config config;
    struct dqn_market *market;
    struct dqn_trading_report report;
    struct dqn_report_fold folds[2];
    struct dqn_report_seed seeds[2][3];
    struct trading_range ranges[2];
};

/* Some action of the 45 in every bar. */
static uint32_t busy(void *context, const float *observation, uint64_t step) {
    (void)observation;
    return (uint32_t)((dqn_rng_block(3, 5, step).v[0] + *(uint32_t *)context) % TRADING_ACTIONS);
}

static struct scene *open_scene(const char *text) {
    struct scene *s = calloc(1, sizeof *s);
    cr_assert_not_null(s);
    open_market(&s->config, &s->market, text);
    return s;
}

static void extend(struct scene *s, dqn_trading_policy policy, void *const *contexts) {
    cr_assert_eq(dqn_trading_report_extend(&s->report, &s->config, policy, contexts, 3.0), DQN_OK,
                 "%s", dqn_error_text());
}

static struct scene *split_scene(const char *text, dqn_trading_policy policy, void *context) {
    struct scene *s = open_scene(text);
    void *const contexts[] = {context};
    cr_assert_eq(dqn_trading_report_create(&s->report, &s->config, s->market, DQN_SPLIT_TEST,
                                           policy, context),
                 DQN_OK, "%s", dqn_error_text());
    extend(s, policy, contexts);
    return s;
}

/* Two folds whose tests are bars 5000-5999 and 6000-6999. */
static struct scene *walk_scene(const char *text, dqn_trading_policy policy,
                                void *const contexts[2]) {
    struct scene *s = open_scene(text);
    const struct dqn_report_walk walk = {.mode = "rolling", .embargo = 5, .test_evaluations = 6};
    for (size_t i = 0; i < 2; i++) {
        const size_t first[] = {1000 * i, 4000 + 1000 * i, 5000 + 1000 * i, 6000 + 1000 * i};
        s->folds[i].part =
            (struct dqn_report_part){.ranges = &s->ranges[i], .n_ranges = 1, .transitions = 999};
        s->ranges[i] = (struct trading_range){.first = first[2], .last = first[3] - 1};
        for (int split = 0; split < DQN_SPLITS; split++) {
            s->folds[i].bars[split] = first[split + 1] - first[split];
            s->folds[i].first_ns[split] = s->market->bars.time_ns[first[split]];
            s->folds[i].last_ns[split] = s->market->bars.time_ns[first[split + 1] - 1];
        }
        for (size_t seed = 0; seed < 3; seed++) {
            s->seeds[i][seed] = (struct dqn_report_seed){.seed = (int64_t)seed + 1,
                                                         .best_epoch = 4 + seed,
                                                         .validation_return = 0.125 * (double)seed,
                                                         .test_return = 0.5 - (double)seed,
                                                         .chosen = seed == 1};
        }
        s->folds[i].seeds = s->seeds[i];
        s->folds[i].n_seeds = 3;
    }
    cr_assert_eq(dqn_trading_report_create_walk(&s->report, &s->config, s->market, &walk, s->folds,
                                                2, policy, contexts),
                 DQN_OK, "%s", dqn_error_text());
    extend(s, policy, contexts);
    return s;
}

static void free_scene(struct scene *s) {
    dqn_trading_report_destroy(&s->report);
    dqn_market_destroy(s->market);
    free(s);
}

enum form { JSON, PAGE, TERMINAL };

static char *written(const struct dqn_trading_report *r, enum form form) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cr_assert_not_null(out);
    if (form == JSON) {
        dqn_trading_report_json(r, out);
    } else if (form == PAGE) {
        cr_assert_eq(dqn_report_html(r, out), DQN_OK);
    } else {
        dqn_trading_report_print(r, out);
    }
    fclose(out);
    return text;
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* What is in JSON for programs alone: other forms say it in words, pictures or under another name.
 */
static bool json_only(const char *path) {
    static const char *const exact[] = {
        "schema", "market.bar_seconds", "bars",
        /* names at the top for scripts: the same under their own names */
        "interval_low", "interval_high", "random_mean", "random_low", "random_high",
        "random_percentile", "agent_turnover", "random_turnover", "ledger_residual"};
    static const char *const prefixes[] = {"actions.counts."}; /* the page has shares of bars */
    /* of folds: for who reads equity.csv; and seeds, which are the same in every fold's heading */
    static const char *const parts[] = {".first_step", ".steps", ".0.seed", ".1.seed", ".2.seed"};
    for (size_t i = 0; i < DQN_COUNT_OF(exact); i++) {
        if (strcmp(path, exact[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < DQN_COUNT_OF(prefixes); i++) {
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    const bool fold = strncmp(path, "folds.", 6) == 0;
    for (size_t i = 0; i < DQN_COUNT_OF(parts); i++) {
        const size_t length = strlen(path), tail = strlen(parts[i]);
        if (fold && length > tail && strcmp(path + length - tail, parts[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Every number of report.json is on the page under its path. */
static void expect_all_on_page(const struct leaves *leaves, const char *page) {
    for (size_t i = 0; i < leaves->n; i++) {
        char key[PATH_MAX_BYTES + 16];
        snprintf(key, sizeof key, "data-key=\"%s\"", leaves->leaf[i].path);
        if (strncmp(leaves->leaf[i].path, "orders.cells.", 13) == 0 &&
            leaves->leaf[i].value == 0.0) {
            continue; /* the page leaves out kinds of order that were never sent */
        }
        cr_expect(json_only(leaves->leaf[i].path) || strstr(page, key) != NULL,
                  "%s is in report.json and not on the page", leaves->leaf[i].path);
    }
}

/* Every path on the page is one of report.json: a number, or "n/a" or a time. */
static void expect_all_in_json(const struct leaves *leaves, const char *page) {
    static const char mark[] = "data-key=\"";
    size_t n = 0;
    for (const char *at = strstr(page, mark); at != NULL; at = strstr(at, mark), n++) {
        at += strlen(mark);
        const size_t length = strcspn(at, "\"");
        const char *shown = strchr(at, '>') + 1;
        const bool is_time = length > 5 && strncmp(at + length - 5, "_time", 5) == 0;
        cr_expect(is_time || strncmp(shown, "n/a", 3) == 0 || has_path(leaves, at, length),
                  "%.*s is on the page and not in report.json", (int)length, at);
    }
    cr_expect_gt(n, 150);
}

/* Whether a number with that many decimals is one of report.json, as it is or in percent. */
static bool is_known(const struct leaves *leaves, double shown, int decimals) {
    const double half = 0.5000001 * pow(10.0, -decimals);
    for (size_t i = 0; i < leaves->n; i++) {
        const double value = leaves->leaf[i].value;
        if (fabs(shown - value) <= half || fabs(shown - 100.0 * value) <= half) {
            return true;
        }
    }
    return false;
}

/* Numbers with a decimal point on the terminal; dates, counts and warnings are left out. */
static void expect_terminal_known(const struct leaves *leaves, const char *text) {
    size_t n = 0;
    const char *costs = strstr(text, "Ledger residual");
    cr_assert_not_null(costs);
    for (const char *t = text; t < costs;) {
        if (strncmp(t, "\nWarning: ", 10) == 0) { /* a sentence that counts days, or bars */
            t += 1 + strcspn(t + 1, "\n");
            continue;
        }
        const size_t digits = strspn(t, "0123456789");
        if (digits == 0 || t[digits] != '.' || !isdigit((unsigned char)t[digits + 1])) {
            t += digits > 0 ? digits : 1;
            continue;
        }
        const bool minus = t > text && t[-1] == '-';
        char *end;
        const double value = strtod(t, &end);
        const int decimals = (int)(end - t - (ptrdiff_t)digits - 1);
        cr_expect(is_known(leaves, minus ? -value : value, decimals),
                  "%.*s is on the terminal and not in report.json: %.60s", (int)(end - t), t, t);
        t = end;
        n++;
    }
    cr_expect_gt(n, 30);
}

static void expect_same_figures(struct scene *s) {
    struct leaves leaves = {.leaf = calloc(LEAVES_MAX, sizeof(struct leaf))};
    char *json = written(&s->report, JSON), *page = written(&s->report, PAGE);
    char *terminal = written(&s->report, TERMINAL);
    collect(json, "", &leaves);
    expect_all_on_page(&leaves, page);
    expect_all_in_json(&leaves, page);
    expect_terminal_known(&leaves, terminal);
    free(json);
    free(page);
    free(terminal);
    free(leaves.leaf);
}

static const char usual[] = "synthetic: {bars: 8000}\nreport: {random_runs: 20, bootstrap: 200}\n";
static uint32_t zero = 0, one = 1;

Test(report_forms, a_split_has_the_same_figures_in_all) {
    struct scene *s = split_scene(usual, busy, &zero);
    EXPECT_NAN(s->report.hindsight.total_return);
    cr_expect_gt(s->report.hindsight.log_return, s->report.buy_hold.figures.log_return);
    EXPECT_NEAR(s->report.hindsight.share,
                s->report.agent.log_return / s->report.hindsight.log_return);
    expect_same_figures(s);
    free_scene(s);
}

Test(report_forms, a_known_optimum_has_the_same_figures_in_all) {
    struct scene *s = split_scene(
        "synthetic: {market: ou, bars: 8000}\nenv: {sizing: fixed_notional, observation: oracle, "
        "ruin_fraction: 0}\nfill: {fixed_cost: 0.001}\nreward: {kind: linear}\n"
        "report: {random_runs: 20, bootstrap: 200}\n",
        busy, &zero);
    cr_assert(s->report.has_optimum);
    EXPECT_NAN(s->report.hindsight.log_return);
    cr_expect_gt(s->report.hindsight.total_return, 0.0);
    EXPECT_NEAR(s->report.hindsight.share,
                s->report.agent.total_return / s->report.hindsight.total_return);
    expect_same_figures(s);
    free_scene(s);
}

Test(report_forms, a_walk_forward_has_the_same_figures_in_all) {
    void *const contexts[] = {&zero, &one};
    struct scene *s = walk_scene(usual, busy, contexts);
    expect_same_figures(s);
    free_scene(s);
}

/* Each form says which seed stands for a fold: of an even number there is none in the middle. */
Test(report_forms, all_say_how_a_seed_is_chosen) {
    static const char *const says[][3] = {
        /* 3 seeds, 2 seeds; with what each must not say */
        [JSON] = {"\"seed_choice\": \"median validation return\"",
                  "\"seed_choice\": \"lower median validation return\"", "\"median"},
        [PAGE] = {"the one with the median validation return, so neither the best nor the worst",
                  "the one with the lower median validation return, of the two in the middle the "
                  "worse one",
                  "neither the best"},
        [TERMINAL] = {"of the 3 of a fold the one with the median validation return",
                      "of the 2 of a fold the one with the lower median validation return",
                      "the median"},
    };
    void *const contexts[] = {&zero, &one};
    struct scene *s = walk_scene(usual, busy, contexts);
    for (enum form form = JSON; form <= TERMINAL; form++) {
        for (size_t even = 0; even < 2; even++) {
            s->folds[0].n_seeds = s->folds[1].n_seeds = 3 - even;
            char *text = written(&s->report, form);
            cr_expect_not_null(strstr(text, says[form][even]), "form %d, even %zu", form, even);
            cr_expect_eq(strstr(text, says[form][2]) == NULL, even == 1, "form %d, even %zu", form,
                         even);
            free(text);
        }
    }
    free_scene(s);
}

/* ---- a walk-forward's account ---------------------------------------------------------------- */

/* A fold's part alone, as a report of its own. */
static double alone(struct scene *s, size_t fold, dqn_trading_policy policy, void *context,
                    struct dqn_trading_report *out) {
    struct dqn_market *m = s->market;
    m->ranges[m->range_first[DQN_SPLIT_TEST]] = s->ranges[fold];
    m->transitions[DQN_SPLIT_TEST] = 999;
    m->range_count[DQN_SPLIT_TEST] = 1;
    cr_assert_eq(dqn_trading_report_create(out, &s->config, m, DQN_SPLIT_TEST, policy, context),
                 DQN_OK, "%s", dqn_error_text());
    return out->agent.total_return;
}

/* Returns of the folds, each run alone, multiply to the chain's; money of the second fold is in
 * proportion to what the first left; ratios of a fold are those of its pass alone. */
Test(report_forms, folds_chain_to_one_account) {
    void *const contexts[] = {&zero, &one};
    struct scene *s = walk_scene(usual, always, contexts);
    struct dqn_trading_report first, second;
    *(uint32_t *)contexts[0] = 37; /* long in the first fold, short in the second */
    *(uint32_t *)contexts[1] = 1;
    free_scene(s);
    s = walk_scene(usual, always, contexts);
    const struct dqn_trading_report *r = &s->report;
    const double a = alone(s, 0, always, contexts[0], &first);
    const double b = alone(s, 1, always, contexts[1], &second);
    cr_assert_eq(r->bars, 2 * 999);
    EXPECT_NEAR(s->folds[0].figures.total_return, a);
    EXPECT_NEAR(s->folds[1].figures.total_return, b);
    EXPECT_NEAR(r->agent.total_return, (1.0 + a) * (1.0 + b) - 1.0);
    EXPECT_NEAR(r->agent.closed_return,
                (1.0 + first.agent.closed_return) * (1.0 + second.agent.closed_return) - 1.0);
    EXPECT_NEAR(s->folds[1].figures.costs, (1.0 + a) * second.agent.costs);
    EXPECT_NEAR(s->folds[1].figures.sharpe, second.agent.sharpe);
    EXPECT_NEAR(s->folds[1].figures.max_drawdown, second.agent.max_drawdown);
    EXPECT_NEAR(s->folds[1].figures.turnover, second.agent.turnover);
    cr_expect_eq(s->folds[1].first_step, 999);
    cr_expect_eq(r->records[999].units_before, 0.0);
    /* buy and hold is bought again in the second fold */
    EXPECT_NEAR(s->folds[0].buy_hold_return, a);
    EXPECT_NEAR(s->folds[1].buy_hold_return, second.buy_hold.figures.total_return);
    /* one trade a fold: the first ends with its fold, uncharged; the books add up */
    cr_assert_eq(r->trades.n, 2);
    cr_expect_eq(r->trades.trade[0].end, DQN_TRADE_FOLD);
    cr_expect_eq(r->trades.trade[1].end, DQN_TRADE_OPEN);
    cr_expect_eq(r->trade_figures.closed, 1);
    EXPECT_NEAR(r->trades.trade[0].pnl + r->trades.trade[1].pnl + r->trades.idle_pnl,
                r->track.equity[r->bars - 1] - r->track.start_equity);
    cr_expect(r->reward_check.holds);
    cr_expect_lt(r->track.ledger_residual, 1e-12);
    dqn_trading_report_destroy(&first);
    dqn_trading_report_destroy(&second);
    free_scene(s);
}

/* With a fixed notional sizes do not depend on wealth: gains add up. */
Test(report_forms, folds_of_a_fixed_notional_add_up) {
    static const char text[] = "synthetic: {market: ou, bars: 8000}\n"
                               "env: {sizing: fixed_notional, ruin_fraction: 0}\n"
                               "fill: {fixed_cost: 0.001}\nreward: {kind: linear}\n"
                               "report: {random_runs: 3, bootstrap: 0}\n";
    void *const contexts[] = {&zero, &one};
    struct scene *s = walk_scene(text, busy, contexts);
    double gains = 0.0, total = s->report.agent.total_return, costs = s->report.agent.costs;
    for (size_t i = 0; i < 2; i++) {
        /* the second fold's draws go on from the first's: compare sums of the records */
        for (size_t k = 0; k < 999; k++) {
            const struct trading_step_record *step = &s->report.records[999 * i + k];
            gains += step->price_pnl - step->fees - step->spread - step->slippage;
            costs -= step->fees + step->spread + step->slippage;
        }
    }
    /* thousands of roundings of money up to 1e5; seen 4e-9 */
    cr_expect(fabs(gains - total * s->report.track.start_equity) < 1e-6, "%.12g and %.12g", gains,
              total * s->report.track.start_equity);
    cr_expect_lt(fabs(costs), 1e-6);
    EXPECT_NEAR(s->report.records[999].equity_before, s->report.records[998].equity_after);
    free_scene(s);
}

/* Where folds begin is drawn on all five charts, and nothing of it without folds. */
Test(report_forms, charts_mark_the_folds) {
    void *const contexts[] = {&zero, &one};
    struct scene *s = walk_scene(usual, busy, contexts);
    char *page = written(&s->report, PAGE);
    size_t limits = 0, names = 0;
    for (const char *at = page; (at = strstr(at, "class=\"limit\" d=\"M500.0 0V300\"")) != NULL;
         at++) {
        limits++;
    }
    for (const char *at = page; (at = strstr(at, "style=\"left:50.00%\">2</span>")) != NULL; at++) {
        names++;
    }
    cr_expect_eq(limits, 5);
    cr_expect_eq(names, 5);
    free(page);
    free_scene(s);
    s = split_scene(usual, busy, &zero);
    page = written(&s->report, PAGE);
    cr_expect_null(strstr(page, "class=\"limit\""));
    cr_expect_null(strstr(page, "Fold by fold"));
    free(page);
    free_scene(s);
}

/* ---- ruin, other data, warnings -------------------------------------------------------------- */

/* Twenty times the equity long on a falling market: the account is gone, and the report says when,
 * of how many bars. */
Test(report_forms, a_ruined_account_says_so) {
    static uint32_t longs = 37;
    struct scene *s = split_scene("synthetic: {bars: 8000, sigma: 0.05}\n"
                                  "env: {max_leverage: 20}\n"
                                  "report: {random_runs: 5, bootstrap: 200}\n",
                                  always, &longs);
    const struct dqn_trading_report *r = &s->report;
    char *json = written(r, JSON), *page = written(r, PAGE), *terminal = written(r, TERMINAL);
    char expected[64];
    cr_assert(r->ruined);
    cr_assert_lt(r->bars, r->split_bars);
    cr_expect_eq(r->split_bars, 1599);
    cr_expect_eq(r->ruin_time_ns, s->market->bars.time_ns[r->track.bar[r->bars - 1]]);
    cr_expect_eq(r->last_time_ns, s->market->bars.time_ns[7999]);
    EXPECT_NEAR(r->agent.total_return, -1.0);
    snprintf(expected, sizeof expected, "ruined at bar %zu of 1599 (20", r->bars);
    cr_assert_geq(r->verdict.n_warnings, 1);
    cr_expect_not_null(strstr(r->verdict.warning[0], expected), "%s", r->verdict.warning[0]);
    cr_expect_not_null(strstr(json, "\"split_bars\": 1599, \"ruined\": true, \"ruin_time\": \"20"));
    cr_expect_not_null(strstr(page, "bars until its ruin, of "));
    cr_expect_not_null(strstr(page, expected));
    snprintf(expected, sizeof expected, "ruined after %zu of 1599 bars", r->bars);
    cr_expect_not_null(strstr(terminal, expected), "%.200s", terminal);
    /* who stays flat goes through all bars, and its curve does not end with the agent's */
    cr_expect_eq(r->flat.track.n, 1599);
    free(json);
    free(page);
    free(terminal);
    expect_same_figures(s);
    free_scene(s);
}

Test(report_forms, a_living_account_has_no_ruin) {
    struct scene *s = split_scene(usual, busy, &zero);
    char *json = written(&s->report, JSON);
    cr_expect_not(s->report.ruined);
    cr_expect_eq(s->report.bars, s->report.split_bars);
    cr_expect_not_null(strstr(json, "\"ruined\": false, \"ruin_time\": null"));
    free(json);
    free_scene(s);
}

Test(report_forms, other_data_than_in_training_are_a_warning) {
    struct scene *s = split_scene(usual, busy, &zero);
    struct dqn_trading_report *r = &s->report;
    char same[65];
    snprintf(same, sizeof same, "%s", s->market->bars.info.sha256);
    const size_t before = r->verdict.n_warnings;
    char *json = written(r, JSON);
    cr_expect_not_null(strstr(json, "\"sha256_trained_on\": null, \"data_changed\": null"));
    free(json);
    dqn_trading_report_trained_on(r, same);
    cr_expect(!r->data_changed && r->verdict.n_warnings == before);
    same[0] = same[0] == '0' ? '1' : '0';
    dqn_trading_report_trained_on(r, same);
    cr_expect(r->data_changed);
    cr_assert_eq(r->verdict.n_warnings, before + 1);
    cr_expect_not_null(strstr(r->verdict.warning[0], "not the data that the agent was trained on"));
    cr_expect_not_null(strstr(r->verdict.warning[0], "bars of this split"));
    json = written(r, JSON);
    cr_expect_not_null(strstr(json, "\"data_changed\": true"));
    free(json);
    dqn_trading_report_trained_on(r, NULL); /* a checkpoint without a digest */
    cr_expect(!r->data_changed && r->verdict.n_warnings == before);
    free_scene(s);
}

/* What is short or seldom is not rounded to 0. */
Test(report_forms, lengths_and_counts_have_units_that_fit) {
    static const struct {
        double years, per_year;
        const char *span, *terminal, *page;
    } cases[] = {
        {0.1, 35063.8, " only 36.5 days: ", ", 35064 bars a year (", ">35,064</span> bars a"},
        {1e-5, 9.0, " only 5.3 min: ", ", 9 bars a year (", ">9</span> bars a year"},
        {4e-9, 0.4, " only 126.2 ms: ", ", 0.4 bars a year (", ">0.4</span> bars a year"},
        {4e-14, 1.0, " only 1.3 us: ", ", 1 bar a year (", ">1</span> bar a year"}};
    struct scene *s = split_scene(usual, busy, &zero);
    struct dqn_trading_report *r = &s->report;
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        r->flat.figures.years = cases[i].years;
        r->bars_per_year = cases[i].per_year;
        dqn_trading_report_judge(r);
        char *page = written(r, PAGE), *terminal = written(r, TERMINAL);
        cr_expect_not_null(strstr(terminal, cases[i].span), "%s", terminal);
        cr_expect_not_null(strstr(terminal, cases[i].terminal), "%s", terminal);
        cr_expect_not_null(strstr(page, cases[i].span));
        cr_expect_not_null(strstr(page, cases[i].page), "%s", cases[i].page);
        free(page);
        free(terminal);
    }
    free_scene(s);
}

/* All warnings at once, with numbers as long as they get: each is whole, and every reader shows all
 * of them. */
Test(report_forms, many_warnings_are_whole_lines) {
    struct scene *s = split_scene(usual, busy, &zero);
    struct dqn_trading_report *r = &s->report;
    r->ruined = r->data_changed = r->agent.constant_policy = true;
    r->split = DQN_SPLIT_VALIDATION;
    r->bars = r->split_bars = SIZE_MAX;
    r->flat.figures.years = 0.1;
    r->track.margin_calls = UINT64_MAX;
    r->reward_check = (struct dqn_reward_check){.possible = true, .sum = -1e300, .expected = 1e300};
    r->track.ledger_residual = 1e300;
    memset(r->trained_sha256, 'a', 64);
    dqn_trading_report_judge(r);
    cr_assert_eq(r->verdict.n_warnings, 8);
    cr_assert_lt(r->verdict.n_warnings, DQN_REPORT_WARNINGS);
    for (size_t i = 0; i < r->verdict.n_warnings; i++) {
        const char *line = r->verdict.warning[i];
        cr_expect(line[0] != '\0' && line[strlen(line) - 1] == '.', "%s", line);
        cr_expect_null(strchr(line, '\n'));
    }
    r->bars = r->track.n;
    r->split_bars = r->flat.track.n;
    char *texts[] = {written(r, JSON), written(r, PAGE), written(r, TERMINAL)};
    for (size_t i = 0; i < r->verdict.n_warnings; i++) {
        char begin[24];
        snprintf(begin, sizeof begin, "%.18s", r->verdict.warning[i]);
        for (size_t form = 0; form < DQN_COUNT_OF(texts); form++) {
            cr_expect_not_null(strstr(texts[form], begin), "form %zu lacks: %s", form, begin);
        }
    }
    for (size_t form = 0; form < DQN_COUNT_OF(texts); form++) {
        free(texts[form]);
    }
    free_scene(s);
}
