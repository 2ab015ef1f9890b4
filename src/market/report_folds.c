/* The page's section about the folds of a walk-forward. */
#include <inttypes.h>

#include "report_parts.h"

static void fold_key(char key[96], size_t fold, const char *member) {
    snprintf(key, 96, "folds.%zu.%s", fold, member);
}

/* ---- results of the chosen seeds ------------------------------------------------------------- */

static void fold_cell(size_t fold, const char *member, struct dqn_cell_text text, FILE *out) {
    char key[96];
    fold_key(key, fold, member);
    dqn_html_cell(key, text, out);
}

static struct dqn_cell_text seed_text(int64_t seed) {
    struct dqn_cell_text text;
    snprintf(text.s, sizeof text.s, "%" PRId64, seed);
    return text;
}

static void fold_row(const struct dqn_report_fold *f, size_t i, FILE *out) {
    const struct dqn_report_seed *chosen = dqn_report_fold_chosen(f);
    const struct dqn_performance *p = &f->figures;
    fprintf(out, "<tr><th>");
    char key[96];
    fold_key(key, i, "fold");
    dqn_html_figure(key, dqn_count_text(i + 1), out);
    fprintf(out, "</th>");
    fold_cell(i, "seed", seed_text(chosen->seed), out);
    fold_cell(i, "validation_return", dqn_percent(chosen->validation_return, 2), out);
    fold_cell(i, "figures.total_return", dqn_percent(p->total_return, 2), out);
    fold_cell(i, "buy_hold_return", dqn_percent(f->buy_hold_return, 2), out);
    fold_cell(i, "figures.sharpe", dqn_number(p->sharpe, 2), out);
    fold_cell(i, "figures.max_drawdown", dqn_percent(p->max_drawdown, 2), out);
    fold_cell(i, "figures.turnover", dqn_turnover(p->turnover), out);
    fold_cell(i, "figures.costs", dqn_money(p->costs), out);
    fprintf(out, "</tr>\n");
}

static void chained_row(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_performance *a = &r->agent;
    fprintf(out, "<tr class=\"mark\"><th>all</th><td></td><td></td>");
    dqn_html_cell("agent.total_return", dqn_percent(a->total_return, 2), out);
    dqn_html_cell("buy_hold.total_return", dqn_percent(r->buy_hold.figures.total_return, 2), out);
    dqn_html_cell("agent.sharpe", dqn_number(a->sharpe, 2), out);
    dqn_html_cell("agent.max_drawdown", dqn_percent(a->max_drawdown, 2), out);
    dqn_html_cell("agent.turnover", dqn_turnover(a->turnover), out);
    dqn_html_cell("agent.costs", dqn_money(a->costs), out);
    fprintf(out, "</tr>\n");
}

static void write_results(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {
        "fold",         "seed",         "validation return", "test return",
        "buy and hold", "Sharpe ratio", "largest drawdown",  "turnover a year",
        "costs, money"};
    fprintf(out, "<div class=\"scroll\"><table id=\"folds\"><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>\n");
    for (size_t i = 0; i < r->n_folds; i++) {
        fold_row(&r->folds[i], i, out);
    }
    chained_row(r, out);
    const size_t n_seeds = r->folds[0].n_seeds;
    fprintf(
        out,
        "</tbody></table></div>\n<p class=\"note\">Total returns of the seed that stands for "
        "each fold: of its seeds the one with the %s validation return%s. Everything from <em>test "
        "return</em> to the right is of the test "
        "bars, which neither training nor the choice of the seed has seen. The last row is their "
        "chain: one account, in which returns multiply. A position that is open when a fold "
        "ends counts at its last close; closing them all would make the total <span "
        "data-key=\"agent.closed_return\">%s</span>.</p>\n",
        dqn_seed_choice(n_seeds),
        n_seeds % 2 == 0 ? ", of the two in the middle the worse one"
        : n_seeds > 1    ? ", so neither the best nor the worst"
                         : "",
        dqn_percent(r->agent.closed_return, 2).s);
}

/* ---- every seed ------------------------------------------------------------------------------ */

static void seeds_row(const struct dqn_report_fold *f, size_t i, FILE *out) {
    double low = f->seeds[0].test_return, high = low;
    fprintf(out, "<tr><th>%zu</th>", i + 1);
    for (size_t s = 0; s < f->n_seeds; s++) {
        const struct dqn_report_seed *seed = &f->seeds[s];
        char key[96];
        low = seed->test_return < low ? seed->test_return : low;
        high = seed->test_return > high ? seed->test_return : high;
        fprintf(out, "<td class=\"%s\">", seed->chosen ? "chosen" : "");
        snprintf(key, sizeof key, "folds.%zu.seeds.%zu.test_return", i, s);
        dqn_html_figure(key, dqn_percent(seed->test_return, 2), out);
        fprintf(out, "<small><i>val. ");
        snprintf(key, sizeof key, "folds.%zu.seeds.%zu.validation_return", i, s);
        dqn_html_figure(key, dqn_percent(seed->validation_return, 2), out);
        fprintf(out, ",</i> <i>epoch ");
        snprintf(key, sizeof key, "folds.%zu.seeds.%zu.best_epoch", i, s);
        dqn_html_figure(key, dqn_count_text(seed->best_epoch), out);
        fprintf(out, "</i></small></td>");
    }
    fprintf(out, "<td>%s to %s</td></tr>\n", dqn_percent(low, 2).s, dqn_percent(high, 2).s);
}

static void write_seeds(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_report_fold *first = &r->folds[0];
    if (first->n_seeds < 2) {
        return;
    }
    fprintf(out, "<h3>Every seed</h3>\n<div class=\"scroll\"><table class=\"seeds\"><thead><tr>"
                 "<th>fold</th>");
    for (size_t s = 0; s < first->n_seeds; s++) {
        fprintf(out, "<th>seed <span data-key=\"folds.0.seeds.%zu.seed\">%s</span></th>", s,
                seed_text(first->seeds[s].seed).s);
    }
    fprintf(out, "<th>range of test</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < r->n_folds; i++) {
        seeds_row(&r->folds[i], i, out);
    }
    fprintf(out, "</tbody></table></div>\n<p class=\"note\">Total return on test, and small the "
                 "one on validation with the epoch that validation chose. Bold: the seed that "
                 "stands for the fold. Where the range is wide, luck decides much: another seed "
                 "would have made another curve.</p>\n");
}

/* ---- when ------------------------------------------------------------------------------------ */

static void part_cell(const struct dqn_report_fold *f, size_t i, enum dqn_split split, bool minutes,
                      FILE *out) {
    struct dqn_cell_text (*text)(int64_t) = minutes ? dqn_minute_text : dqn_day_text;
    const char *name = dqn_split_name(split);
    fprintf(out,
            "<td><i><span data-key=\"folds.%zu.%s.first_time\">%s</span></i> <i>to <span "
            "data-key=\"folds.%zu.%s.last_time\">%s</span></i><small><span "
            "data-key=\"folds.%zu.%s.bars\">%s</span> bars</small></td>",
            i, name, text(f->first_ns[split]).s, i, name, text(f->last_ns[split]).s, i, name,
            dqn_count_text(f->bars[split]).s);
}

static void write_times(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {"fold", "training", "validation", "test"};
    const int64_t ten_days = 10 * 86400000000000LL;
    const bool minutes =
        r->folds[0].last_ns[DQN_SPLIT_TEST] - r->folds[0].first_ns[DQN_SPLIT_TEST] < ten_days;
    fprintf(out, "<h3>When</h3>\n<div class=\"scroll\"><table class=\"when\"><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>\n");
    for (size_t i = 0; i < r->n_folds; i++) {
        fprintf(out, "<tr><th>%zu</th>", i + 1);
        for (int split = 0; split < DQN_SPLITS; split++) {
            part_cell(&r->folds[i], i, (enum dqn_split)split, minutes, out);
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out,
            "</tbody></table></div>\n<p class=\"note\">First and last bar of each part, UTC. "
            "Training windows are %s; <span data-key=\"walk_forward.embargo\">%s</span> bars "
            "between the parts of a fold are left out. Each network starts %s. Test parts were "
            "evaluated <span data-key=\"walk_forward.test_evaluations\">%s</span> times in all, "
            "once for each trained agent.</p>\n",
            r->walk.mode, dqn_count_text(r->walk.embargo).s,
            r->walk.warm_start ? "from that of the fold before" : "afresh",
            dqn_count_text(r->walk.test_evaluations).s);
}

/* ---- all figures, folded away ---------------------------------------------------------------- */

static void write_all_figures(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "<details><summary>All figures of the folds</summary>\n<div class=\"scroll\">"
                 "<table class=\"first\"><thead><tr><th></th>");
    for (size_t i = 0; i < r->n_folds; i++) {
        fprintf(out, "<th>fold %zu</th>", i + 1);
    }
    fprintf(out, "</tr></thead><tbody>\n");
    for (size_t f = 0; f < DQN_FIGURES; f++) {
        fprintf(out, "<tr><th>%s</th>", dqn_figures[f].name);
        for (size_t i = 0; i < r->n_folds; i++) {
            char member[64];
            snprintf(member, sizeof member, "figures.%s", dqn_figures[f].key);
            fold_cell(i, member, dqn_figure_text(&dqn_figures[f], &r->folds[i].figures), out);
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div>\n</details>\n");
}

void dqn_page_folds(const struct dqn_trading_report *r, FILE *out) {
    if (r->n_folds == 0) {
        return;
    }
    fprintf(out, "<section><h2>Fold by fold</h2>\n");
    write_results(r, out);
    write_seeds(r, out);
    write_times(r, out);
    write_all_figures(r, out);
    fprintf(out, "</section>\n");
}
