/* Sections of the page about what the agent does: costs, orders, actions, trades. */
#include <math.h>

#include "report_parts.h"

/* ---- costs ----------------------------------------------------------------------------------- */

static void cost_row(const char *name, const char *path, double money, const struct dqn_track *t,
                     const char *css, FILE *out) {
    char key[64];
    fprintf(out, "<tr class=\"%s\"><th>%s</th>", css, name);
    snprintf(key, sizeof key, "costs.%s.money", path);
    dqn_html_cell(key, dqn_money(money), out);
    snprintf(key, sizeof key, "costs.%s.bp_of_traded", path);
    dqn_html_cell(key, dqn_number(t->traded > 0.0 ? 1e4 * money / t->traded : NAN, 2), out);
    snprintf(key, sizeof key, "costs.%s.share_of_gross_profit", path);
    dqn_html_cell(key, dqn_percent(t->price_pnl > 0.0 ? money / t->price_pnl : NAN, 1), out);
    fprintf(out, "</tr>\n");
}

void dqn_page_costs(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {"cause", "money", "bp (0.01&#8239;%) of the value traded",
                                       "of the price profit"};
    const struct dqn_track *t = &r->track;
    fprintf(out, "<div class=\"scroll\"><table><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>");
    cost_row("fees", "fees", t->fees, t, "", out);
    cost_row("half-spread", "half_spread", t->spread, t, "", out);
    cost_row("slippage", "slippage", t->slippage, t, "", out);
    cost_row("impact", "impact", t->impact, t, "", out);
    cost_row("financing", "financing", t->financing, t, "", out);
    cost_row("all", "all", dqn_track_costs(t), t, "mark", out);
    fprintf(out,
            "</tbody></table></div>\n<p class=\"note\">Price profit before costs: "
            "<span data-key=\"costs.gross_profit\">%s</span>; value traded: "
            "<span data-key=\"costs.traded\">%s</span>; debt written off by margin calls: <span "
            "data-key=\"costs.forgiven\">%s</span>.%s</p>\n",
            dqn_money(t->price_pnl).s, dqn_money(t->traded).s, dqn_money(t->forgiven).s,
            t->price_pnl > 0.0 ? "" : " Without a price profit no share of it can be given.");
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void order_row(const char *kind, const char *urgency, const struct dqn_order_cell *cell,
                      int number, FILE *out) {
    char key[64];
    fprintf(out, "<tr class=\"%s\"><th>%s %s</th>", number == 9 ? "mark" : "", kind, urgency);
#define CELL(member, text)                                                                         \
    snprintf(key, sizeof key, "orders.cells.%d." member, number);                                  \
    dqn_html_cell(key, text, out)
    CELL("sent", dqn_count_text(cell->sent));
    CELL("filled", dqn_count_text(cell->filled));
    CELL("partly", dqn_count_text(cell->partly));
    CELL("fill_rate", dqn_percent(cell->fill_rate, 1));
    CELL("better_than_open_bp", dqn_number(cell->better_than_open, 2));
    CELL("better_than_close_bp", dqn_number(cell->better_than_close, 2));
    CELL("traded", dqn_money(cell->traded));
#undef CELL
    fprintf(out, "</tr>\n");
}

void dqn_page_orders(const struct dqn_trading_report *r, FILE *out) {
    static const char *const head[] = {"order",        "sent",         "filled",
                                       "in part",      "share filled", "vs open, bp",
                                       "vs close, bp", "value traded"};
    fprintf(out, "<section><h2>Orders</h2>\n<div class=\"scroll\"><table><thead>");
    dqn_html_head_row(head, DQN_COUNT_OF(head), out);
    fprintf(out, "</thead><tbody>");
    for (int kind = 0; kind < DQN_ORDER_KINDS; kind++) {
        for (int urgency = 0; urgency < DQN_URGENCIES; urgency++) {
            const struct dqn_order_cell *cell = &r->orders.cell[kind][urgency];
            if (cell->sent > 0) {
                order_row(dqn_order_kind_name(kind), dqn_urgency_name(urgency), cell,
                          3 * kind + urgency, out);
            }
        }
    }
    order_row("all", "", &r->orders.all, 9, out);
    fprintf(out,
            "</tbody></table></div>\n<p class=\"note\">Kinds that were never sent are left out. "
            "A limit order waits for its price; an IOC order (immediate or cancel) takes the open "
            "if that is good enough. Basis points (bp, 0.01&#8239;%%) compare the price paid, "
            "before the fee, with the open of the bar and with the close before it: positive is "
            "better for the agent. Limits look good there "
            "because the ones that would have been bad were not filled. Closed before holes in "
            "the data: <span data-key=\"orders.closed_before_holes\">%llu</span>; margin calls: "
            "<span data-key=\"orders.margin_calls\">%llu</span>; daily stops: <span "
            "data-key=\"orders.daily_stops\">%llu</span>.</p></section>\n",
            (unsigned long long)r->orders.forced, (unsigned long long)r->orders.margin_calls,
            (unsigned long long)r->orders.stops);
}

/* ---- actions --------------------------------------------------------------------------------- */

static void heat_cell(const struct dqn_trading_report *r, int exposure, int cell, double most,
                      FILE *out) {
    const uint64_t count = r->track.actions[exposure][cell];
    const double share = (double)count / (double)r->bars;
    struct dqn_cell_text text = {""};
    if (count > 0) {
        text = share < 0.0005   ? (struct dqn_cell_text){"&lt;0.1"}
               : share < 0.0995 ? dqn_number(100.0 * share, 1)
                                : dqn_number(100.0 * share, 0);
    }
    fprintf(out, "<td style=\"background:rgba(59,130,246,%.3f)\" title=\"%llu time%s\">%s</td>",
            count > 0 ? 0.08 + 0.6 * sqrt(share / most) : 0.0, (unsigned long long)count,
            dqn_plural(count), text.s);
}

void dqn_page_actions(const struct dqn_trading_report *r, FILE *out) {
    static const char *const levels[] = {"full short", "half short", "flat", "half long",
                                         "full long"};
    double most = 1e-9;
    for (int e = 0; e < DQN_EXPOSURES; e++) {
        for (int c = 0; c < DQN_ORDER_CELLS; c++) {
            most = fmax(most, (double)r->track.actions[e][c] / (double)r->bars);
        }
    }
    fprintf(out, "<section><h2>Actions</h2>\n<div class=\"scroll\"><table class=\"heat\"><thead>"
                 "<tr><th></th><th colspan=\"3\">market</th><th colspan=\"3\">limit</th>"
                 "<th colspan=\"3\">IOC</th></tr>\n<tr><th></th>");
    for (int c = 0; c < DQN_ORDER_CELLS; c++) {
        const char *name = dqn_urgency_name(c % 3);
        fprintf(out, "<th>%.3s<span class=\"rest\">%s</span></th>", name, name + 3);
    }
    fprintf(out, "</tr></thead><tbody>\n");
    for (int e = DQN_EXPOSURES - 1; e >= 0; e--) {
        fprintf(out, "<tr><th>%s</th>", levels[e]);
        for (int c = 0; c < DQN_ORDER_CELLS; c++) {
            heat_cell(r, e, c, most, out);
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out,
            "</tbody></table></div>\n<p class=\"note\">Percent of bars in which each action was "
            "chosen; columns are patient, normal and aggressive. An action whose exposure is "
            "already held sends no order. Entropy "
            "<span data-key=\"actions.entropy_nats\">%s</span> nats; equal use of all 45 actions "
            "has %s, one action alone 0.%s</p></section>\n",
            dqn_number(r->agent.action_entropy, 2).s, dqn_number(log(45.0), 2).s,
            r->agent.constant_policy ? " <b class=\"bad\">One action takes at least 99&#8239;% of "
                                       "the bars: the agent ignores the market.</b>"
                                     : "");
}

/* ---- trades ---------------------------------------------------------------------------------- */

void dqn_page_trades(const struct dqn_trading_report *r, FILE *out) {
    const struct dqn_trade_figures *t = &r->trade_figures;
    fprintf(out, "<section><h2>Trades</h2>\n<div class=\"pair\"><table class=\"list\">");
    dqn_html_row("closed trades", "trades.closed", dqn_count_text(t->closed),
                 "from flat to flat, or to the other side", out);
    dqn_html_row("long ones", "trades.longs", dqn_count_text(t->longs), "the others were short",
                 out);
    dqn_html_row("that won", "trades.wins", dqn_count_text(t->wins), "after costs", out);
    dqn_html_row("hit rate", "trades.hit_rate", dqn_percent(t->hit_rate, 1), "share that won", out);
    dqn_html_row("profit factor", "trades.profit_factor", dqn_number(t->profit_factor, 2),
                 "sum of wins over sum of losses; above 1 earns", out);
    dqn_html_row("payoff", "trades.payoff", dqn_number(t->payoff, 2), "mean win over mean loss",
                 out);
    fprintf(out, "</table><table class=\"list\">");
    dqn_html_row("mean trade", "trades.mean_return", dqn_percent(t->mean_return, 3),
                 "of the equity before it, after costs", out);
    dqn_html_row("mean trade, money", "trades.mean_pnl", dqn_money(t->mean_pnl), "after costs",
                 out);
    dqn_html_row("best", "trades.best_return", dqn_percent(t->best_return, 2),
                 "largest gain of a trade", out);
    dqn_html_row("worst", "trades.worst_return", dqn_percent(t->worst_return, 2), "largest loss",
                 out);
    dqn_html_row("mean hold, bars", "trades.mean_bars", dqn_number(t->mean_bars, 1),
                 "from the first fill to the last", out);
    fprintf(out, "</table></div>\n<p class=\"note\">");
    if (t->open) {
        fprintf(
            out,
            "A trade is still open at the end, at <span data-key=\"trades.open_pnl\">%s</span>; "
            "it is not counted here.",
            dqn_money(t->open_pnl).s);
    } else {
        fprintf(out, "No trade is open at the end.");
    }
    fprintf(out, "%s</p>\n",
            r->n_folds > 0 ? " One that is open when an earlier fold ends is counted, at that "
                             "fold's last close."
                           : "");
    fprintf(out, "</section>\n");
}
