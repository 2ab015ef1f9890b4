/* Whole reports: baselines, sums and checks over real passes, and that page, JSON and tables agree
 * with the struct they are written from. Charts and JSON by themselves. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "market/json_writer.h"
#include "market/report_charts.h"
#include "market/report_csv.h"
#include "market/report_html.h"
#include "market/trading_report.h"
#include "report_assert.h"
#include "report_scene.h"
#include "shared/rng.h"

/* ---- charts ---------------------------------------------------------------------------------- */

Test(report, thinned_lines_keep_their_extremes) {
    enum { N = 100000, POINTS = 1400 };
    static double y[N];
    size_t index[POINTS];
    for (int i = 0; i < N; i++) {
        y[i] = sin(0.001 * i);
    }
    y[33333] = 7.0;
    y[77777] = -9.0;
    const size_t n = dqn_thin(y, N, POINTS, index);
    bool top = false, bottom = false;
    cr_assert(n <= POINTS && n > POINTS / 2);
    cr_expect(index[0] == 0 && index[n - 1] == N - 1);
    for (size_t i = 0; i < n; i++) {
        cr_expect(i == 0 || index[i] > index[i - 1]);
        top |= index[i] == 33333;
        bottom |= index[i] == 77777;
    }
    cr_expect(top && bottom);
    cr_expect_eq(dqn_thin(y, 1000, POINTS, index), 1000);
}

Test(report, axes_have_round_ticks_inside) {
    static const double ranges[][2] = {{0.0, 1.0},    {-0.93, 0.0},       {99.8, 100.3},
                                       {-1e-9, 1e-9}, {2500.0, 139162.0}, {1e-6, 1e9}};
    double ticks[10];
    for (size_t i = 0; i < DQN_COUNT_OF(ranges); i++) {
        for (int log_axis = 0; log_axis < 2; log_axis++) {
            const double low = ranges[i][0], high = ranges[i][1];
            if (log_axis && low <= 0.0) {
                continue;
            }
            const size_t n = dqn_axis_ticks(low, high, log_axis, ticks);
            cr_expect(n >= 2 && n <= 10, "range %zu: %zu ticks", i, n);
            for (size_t k = 0; k < n; k++) {
                cr_expect(ticks[k] >= low - 1e-9 * (high - low) &&
                          ticks[k] <= high + 1e-9 * (high - low));
                cr_expect(k == 0 || ticks[k] > ticks[k - 1]);
            }
        }
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A strict reader: returns what follows the value, or NULL. */
static const char *json_value(const char *t);

static const char *json_space(const char *t) {
    while (*t == ' ' || *t == '\n') {
        t++;
    }
    return t;
}

static const char *json_string(const char *t) {
    if (*t++ != '"') {
        return NULL;
    }
    while (*t != '"') {
        if ((unsigned char)*t < 0x20) {
            return NULL;
        }
        if (*t == '\\') {
            t++;
            if (*t == 'u') {
                for (int i = 1; i <= 4; i++) {
                    if (!isxdigit((unsigned char)t[i])) {
                        return NULL;
                    }
                }
                t += 4;
            } else if (strchr("\"\\/bfnrt", *t) == NULL) {
                return NULL;
            }
        }
        t++;
    }
    return t + 1;
}

static const char *json_group(const char *t, char close) {
    bool first = true;
    for (t = json_space(t + 1); *t != close; first = false) {
        if (!first && *t++ != ',') {
            return NULL;
        }
        t = json_space(t);
        if (close == '}') {
            t = json_string(t);
            if (t == NULL || *t != ':') {
                return NULL;
            }
            t++;
        }
        t = json_value(t);
        if (t == NULL) {
            return NULL;
        }
    }
    return t + 1;
}

static const char *json_value(const char *t) {
    static const char *const words[] = {"true", "false", "null"};
    t = json_space(t);
    if (*t == '{' || *t == '[') {
        t = json_group(t, *t == '{' ? '}' : ']');
    } else if (*t == '"') {
        t = json_string(t);
    } else {
        const char *after = NULL;
        for (size_t i = 0; i < DQN_COUNT_OF(words); i++) {
            if (strncmp(t, words[i], strlen(words[i])) == 0) {
                after = t + strlen(words[i]);
            }
        }
        if (after == NULL && (isdigit((unsigned char)*t) || *t == '-')) {
            char *end;
            (void)strtod(t, &end);
            after = end;
        }
        t = after;
    }
    return t != NULL ? json_space(t) : NULL;
}

static bool is_json(const char *text) {
    const char *end = json_value(text);
    return end != NULL && *end == '\0';
}

Test(report, json_escapes_and_nulls) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct dqn_json json = {.out = out}, *j = &json;
    dqn_json_object(j, NULL);
    dqn_json_text(j, "a\"b", "x\\y\n\x01\xff caf\xc3\xa9");
    dqn_json_real(j, "nan", NAN);
    dqn_json_real(j, "inf", -INFINITY);
    dqn_json_real(j, "third", 1.0 / 3.0);
    dqn_json_array(j, "none");
    dqn_json_array_end(j);
    dqn_json_array(j, "some");
    dqn_json_count(j, NULL, UINT64_MAX);
    dqn_json_bool(j, NULL, true);
    dqn_json_array_end(j);
    dqn_json_object_end(j);
    fclose(out);
    cr_expect_str_eq(text,
                     "{\"a\\\"b\": \"x\\\\y\\u000a\\u0001\\ufffd caf\xc3\xa9\", \"nan\": null, "
                     "\"inf\": null, \"third\": 0.3333333333333333, \"none\": [], \"some\": "
                     "[18446744073709551615, true]}\n");
    cr_expect(is_json(text));
    cr_expect_not(is_json("{\"a\": nan}"));
    cr_expect_not(is_json("{\"a\": 1,}"));
    free(text);
}

/* ---- a whole report -------------------------------------------------------------------------- */

struct scene {
    struct dqn_config config;
    struct dqn_market *market;
    struct dqn_trading_report report;
};

static struct scene *make_scene(const char *text, dqn_trading_policy policy, void *context) {
    struct scene *s = calloc(1, sizeof *s);
    cr_assert_not_null(s);
    open_market(&s->config, &s->market, text);
    cr_assert_eq(dqn_trading_report_create(&s->report, &s->config, s->market, DQN_SPLIT_TEST,
                                           policy, context),
                 DQN_OK, "%s", dqn_error_text());
    void *const contexts[] = {context};
    cr_assert_eq(dqn_trading_report_extend(&s->report, &s->config, policy, contexts, 10.0), DQN_OK,
                 "%s", dqn_error_text());
    return s;
}

static void free_scene(struct scene *s) {
    dqn_trading_report_destroy(&s->report);
    dqn_market_destroy(s->market);
    free(s);
}

/* Some action of the 45 in every bar. */
static uint32_t busy(void *context, const float *observation, uint64_t step) {
    (void)context;
    (void)observation;
    return (uint32_t)(dqn_rng_block(3, 5, step).v[0] % TRADING_ACTIONS);
}

static const char usual[] = "synthetic: {bars: 8000}\nreport: {random_runs: 20, bootstrap: 200}\n";

static char *written(const struct dqn_trading_report *r, bool html) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cr_assert_not_null(out);
    if (html) {
        cr_assert_eq(dqn_report_html(r, out), DQN_OK);
    } else {
        dqn_trading_report_json(r, out);
    }
    fclose(out);
    return text;
}

/* A policy that buys and holds is the baseline of that name, in every figure. */
Test(report, a_holder_equals_the_baseline) {
    uint32_t action = 37;
    struct scene *s = make_scene(usual, always, &action);
    const struct dqn_trading_report *r = &s->report;
    const struct dqn_performance *a = &r->agent, *b = &r->buy_hold.figures;
    cr_expect_eq(r->bars, 1599);
    EXPECT_NEAR(a->total_return, b->total_return);
    EXPECT_NEAR(a->sharpe, b->sharpe);
    EXPECT_NEAR(a->closed_return, b->closed_return);
    cr_expect_lt(a->closed_return, a->total_return); /* closing costs */
    cr_expect_gt(a->closing_cost, 0.0);
    EXPECT_NEAR(r->relation.beta, 1.0);
    cr_expect(fabs(r->relation.alpha) < 1e-9);
    EXPECT_NEAR(r->relation.correlation, 1.0);
    cr_expect(r->verdict.buy_hold == 0 && a->constant_policy);
    cr_assert_eq(r->verdict.n_warnings, 2); /* after that of the short time */
    cr_expect(strstr(r->verdict.warning[1], "constant policy") != NULL);
    cr_expect(r->trade_figures.closed == 0 && r->trade_figures.open);
    EXPECT_NEAR(r->trade_figures.open_pnl, r->track.equity[r->bars - 1] - r->track.start_equity);
    /* who draws from one action only, draws it: runs of the same policy */
    EXPECT_NEAR(r->random_same.mean, a->log_return);
    EXPECT_NEAR(r->flat.figures.total_return, 0.0);
    EXPECT_NAN(r->flat.figures.sharpe);
    free_scene(s);
}

/* Sums that must come out, over a pass with every kind of order. */
Test(report, sums_of_a_busy_pass) {
    struct scene *s = make_scene(usual, busy, NULL);
    const struct dqn_trading_report *r = &s->report;
    const double gained = r->track.equity[r->bars - 1] - r->track.start_equity;
    double sum = r->trades.idle_pnl, costs = 0.0;
    size_t bars = 0;
    for (size_t i = 0; i < r->trades.n; i++) {
        sum += r->trades.trade[i].pnl;
        costs += r->trades.trade[i].costs;
        bars += r->trades.trade[i].bars;
    }
    /* thousands of roundings of 1e-16 of equity (1e5); seen 2e-9 */
    cr_expect(fabs(sum - gained) < 1e-6, "%.12g and %.12g", sum, gained);
    cr_expect(fabs(costs - r->agent.costs) < 1e-6, "%.12g and %.12g", costs, r->agent.costs);
    cr_expect(bars > r->bars / 2 && bars <= r->bars);
    cr_expect_gt(r->trades.n, 100);
    cr_expect(r->reward_check.possible && r->reward_check.from_rewards && r->reward_check.holds,
              "%.17g and %.17g", r->reward_check.sum, r->reward_check.expected);
    cr_expect_eq(r->orders.all.sent, r->track.orders_sent);
    cr_expect_eq(r->orders.all.filled, r->track.orders_filled);
    cr_expect(r->verdict.loses);
    cr_expect(strncmp(r->verdict.text, "this agent LOSES money on the test split", 40) == 0);
    free_scene(s);
}

/* The reward's identity is seen to fail where rewards do not add up. */
Test(report, a_clipped_reward_is_checked_by_log_returns) {
    struct scene *s = make_scene("synthetic: {bars: 8000}\nreward: {clip: 0.01}\n"
                                 "report: {random_runs: 0, bootstrap: 0}\n",
                                 busy, NULL);
    cr_expect_gt(s->report.track.clipped, 0);
    cr_expect_not(s->report.reward_check.from_rewards);
    cr_expect(s->report.reward_check.holds);
    free_scene(s);
}

Test(report, sensitivities_of_a_busy_pass) {
    struct scene *s = make_scene(usual, busy, NULL);
    const struct dqn_trading_report *r = &s->report;
    cr_assert_eq(r->n_sensitivities, 5);
    const struct dqn_performance *free_of = &r->sensitivity[0].figures;
    EXPECT_NEAR(free_of->costs, 0.0);
    cr_expect_gt(free_of->total_return, r->agent.total_return);
    cr_expect_lt(r->sensitivity[1].figures.total_return, r->agent.total_return);
    EXPECT_NEAR(r->sensitivity[3].figures.total_return, r->agent.total_return); /* the default */
    cr_expect(r->sensitivity[4].figures.total_return != r->agent.total_return);
    free_scene(s);
}

/* The position at a market's very end, closed by hand: price 1 bp + slippage worse, 5 bp fee. */
Test(report, closing_cost_by_hand) {
    uint32_t action = 37;
    struct scene *s = make_scene(usual, always, &action);
    const struct dqn_trading_report *r = &s->report;
    const struct trading_step_record *last = &r->records[r->bars - 1];
    const double slip = 1e-4 + 0.05 * s->market->s[last->result_bar];
    const double price = last->close * (1.0 - 1e-4 - slip);
    const double cost = last->units_after * (last->close - price + 5e-4 * price);
    /* slippage counts from the reference price in the books: the same money */
    cr_expect(fabs(r->agent.closing_cost - cost) < 1e-9 * cost, "%.12g and %.12g",
              r->agent.closing_cost, cost);
    EXPECT_NEAR(r->agent.closed_return, r->agent.total_return - cost / r->track.start_equity);
    free_scene(s);
}

static size_t count_of(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    return n;
}

/* No value may reach a reader as nan or inf, whatever the policy and the market. */
Test(report, every_form_of_every_kind_of_report) {
    static const char *const texts[] = {
        usual, "synthetic: {bars: 8000}\nreport: {random_runs: 0, bootstrap: 0}\n",
        "synthetic: {bars: 3000}\ndata: {split: [0.4, 0.59, 0.01]}\n", /* 29 steps */
        "synthetic: {market: ou, bars: 8000}\nenv: {sizing: fixed_notional, observation: oracle, "
        "ruin_fraction: 0}\nfill: {fixed_cost: 0.001}\nreward: {kind: linear}\n"
        "report: {random_runs: 3}\n"};
    uint32_t flat = 18;
    for (size_t i = 0; i < 2 * DQN_COUNT_OF(texts); i++) {
        struct scene *s = make_scene(texts[i / 2], i % 2 == 0 ? busy : always, &flat);
        char *json = written(&s->report, false), *html = written(&s->report, true);
        cr_expect(is_json(json), "report %zu is no JSON", i);
        cr_expect_eq(count_of(json, "\n"), 1);
        cr_expect_eq(count_of(json, ": nan") + count_of(json, ": -nan") + count_of(json, "inf,"),
                     0);
        cr_expect_eq(count_of(html, ">nan") + count_of(html, ">inf") + count_of(html, "-nan") +
                         count_of(html, " inf"),
                     0, "report %zu", i);
        cr_expect_eq(count_of(html, "<script") + count_of(html, "http:") +
                         count_of(html, "https:") + count_of(html, "url("),
                     0);
        cr_expect_eq(count_of(html, "<svg"), 5);
        cr_expect_eq(count_of(html, "<section"), count_of(html, "</section>"));
        cr_expect_eq(count_of(html, "<table"), count_of(html, "</table>"));
        cr_expect_eq(count_of(html, "<tr"), count_of(html, "</tr>"));
        cr_expect_lt(strlen(html), 400000);
        free(json);
        free(html);
        free_scene(s);
    }
}

/* The tables: as many rows as there are steps and trades, and the last equity in them. */
Test(report, tables_have_their_rows) {
    struct scene *s = make_scene(usual, busy, NULL);
    const struct dqn_trading_report *r = &s->report;
    static void (*const writers[])(const struct dqn_trading_report *, FILE *) = {
        dqn_report_equity_csv, dqn_report_trades_csv, dqn_report_fills_csv, dqn_report_steps_csv};
    const size_t rows[] = {r->bars + 2, r->trades.n + 1,
                           r->orders.all.filled + r->orders.forced + 1, r->bars + 1};
    for (size_t i = 0; i < DQN_COUNT_OF(writers); i++) {
        char *text = NULL, last[64];
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        writers[i](r, out);
        fclose(out);
        cr_expect_eq(count_of(text, "\n"), rows[i], "table %zu", i);
        const size_t head = strcspn(text, "\n");
        text[head] = '\0';
        const size_t columns = count_of(text, ",");
        for (char *line = strtok(text + head + 1, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            cr_assert_eq(count_of(line, ","), columns, "table %zu: %s", i, line);
            snprintf(last, sizeof last, "%.63s", line);
        }
        if (i == 0) {
            EXPECT_NEAR(strtod(strchr(last, ',') + 1, NULL), r->track.equity[r->bars - 1]);
        }
        free(text);
    }
    free_scene(s);
}
