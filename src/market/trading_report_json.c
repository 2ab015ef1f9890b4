/* The report as JSON. Money in the account's currency, returns and drawdowns as fractions. */
#include <math.h>

#include "json_writer.h"
#include "performance_figures.h"
#include "report_csv.h"
#include "trading_report.h"

static void put_performance(struct dqn_json *j, const char *key, const struct dqn_performance *p) {
    dqn_json_object(j, key);
    for (size_t i = 0; i < DQN_FIGURES; i++) {
        dqn_json_real(j, dqn_figures[i].key, dqn_figure_value(&dqn_figures[i], p));
    }
    dqn_json_object_end(j);
}

static void put_verdict(struct dqn_json *j, const struct dqn_verdict *v) {
    dqn_json_object(j, "verdict");
    dqn_json_bool(j, "loses", v->loses);
    dqn_json_bool(j, "proven", v->proven);
    dqn_json_text(j, "against_buy_hold",
                  v->buy_hold > 0   ? "better"
                  : v->buy_hold < 0 ? "worse"
                                    : "open");
    dqn_json_text(j, "text", v->text);
    dqn_json_array(j, "warnings");
    for (size_t i = 0; i < v->n_warnings; i++) {
        dqn_json_text(j, NULL, v->warning[i]);
    }
    dqn_json_array_end(j);
    dqn_json_object_end(j);
}

static void put_time(struct dqn_json *j, const char *key, int64_t time_ns) {
    char text[40];
    dqn_json_text(j, key, dqn_time_text(text, sizeof text, time_ns));
}

static void put_market(struct dqn_json *j, const struct dqn_trading_report *r) {
    dqn_json_object(j, "market");
    dqn_json_text(j, "source", r->market->bars.info.source);
    dqn_json_text(j, "symbol", r->market->bars.info.symbol);
    dqn_json_text(j, "sha256", r->market->bars.info.sha256);
    if (r->trained_sha256[0] != '\0') {
        dqn_json_text(j, "sha256_trained_on", r->trained_sha256);
        dqn_json_bool(j, "data_changed", r->data_changed);
    } else {
        dqn_json_null(j, "sha256_trained_on");
        dqn_json_null(j, "data_changed");
    }
    put_time(j, "first_time", r->first_time_ns);
    put_time(j, "last_time", r->last_time_ns);
    dqn_json_real(j, "bar_seconds", r->market->bar_seconds);
    dqn_json_bool(j, "bars_per_year_configured", r->bars_per_year_set);
    dqn_json_text(j, "costs_charged", r->costs_text);
    dqn_json_object_end(j);
}

static void put_random(struct dqn_json *j, const char *key, const struct dqn_random_runs *random) {
    dqn_json_object(j, key);
    dqn_json_count(j, "runs", random->runs);
    dqn_json_real(j, "return_5", expm1(random->low));
    dqn_json_real(j, "return_mean", expm1(random->mean));
    dqn_json_real(j, "return_95", expm1(random->high));
    dqn_json_real(j, "turnover", random->turnover);
    dqn_json_real(j, "percentile", random->percentile);
    dqn_json_object_end(j);
}

static void put_hindsight(struct dqn_json *j, const struct dqn_report_hindsight *h) {
    dqn_json_object(j, "hindsight");
    dqn_json_real(j, "total_return", h->total_return);
    dqn_json_real(j, "log_return", h->log_return);
    dqn_json_real(j, "share_of_agent", h->share);
    dqn_json_object_end(j);
}

static void put_cost(struct dqn_json *j, const char *key, const struct dqn_track *t, double money) {
    dqn_json_object(j, key);
    dqn_json_real(j, "money", money);
    dqn_json_real(j, "bp_of_traded", t->traded > 0.0 ? 1e4 * money / t->traded : NAN);
    dqn_json_real(j, "share_of_gross_profit", t->price_pnl > 0.0 ? money / t->price_pnl : NAN);
    dqn_json_object_end(j);
}

static void put_costs(struct dqn_json *j, const struct dqn_track *t) {
    dqn_json_object(j, "costs");
    put_cost(j, "fees", t, t->fees);
    put_cost(j, "half_spread", t, t->spread);
    put_cost(j, "slippage", t, t->slippage);
    put_cost(j, "impact", t, t->impact);
    put_cost(j, "financing", t, t->financing);
    put_cost(j, "all", t, dqn_track_costs(t));
    dqn_json_real(j, "gross_profit", t->price_pnl);
    dqn_json_real(j, "traded", t->traded);
    dqn_json_real(j, "forgiven", t->forgiven);
    dqn_json_object_end(j);
}

static void put_cell(struct dqn_json *j, const char *kind, const char *urgency,
                     const struct dqn_order_cell *cell) {
    dqn_json_object(j, NULL);
    dqn_json_text(j, "order", kind);
    dqn_json_text(j, "urgency", urgency);
    dqn_json_count(j, "sent", cell->sent);
    dqn_json_count(j, "filled", cell->filled);
    dqn_json_count(j, "partly", cell->partly);
    dqn_json_real(j, "fill_rate", cell->fill_rate);
    dqn_json_real(j, "traded", cell->traded);
    dqn_json_real(j, "better_than_open_bp", cell->better_than_open);
    dqn_json_real(j, "better_than_close_bp", cell->better_than_close);
    dqn_json_object_end(j);
}

static void put_orders(struct dqn_json *j, const struct dqn_order_figures *orders) {
    dqn_json_object(j, "orders");
    dqn_json_array(j, "cells");
    for (int kind = 0; kind < DQN_ORDER_KINDS; kind++) {
        for (int urgency = 0; urgency < DQN_URGENCIES; urgency++) {
            put_cell(j, dqn_order_kind_name(kind), dqn_urgency_name(urgency),
                     &orders->cell[kind][urgency]);
        }
    }
    put_cell(j, "all", "all", &orders->all);
    dqn_json_array_end(j);
    dqn_json_count(j, "daily_stops", orders->stops);
    dqn_json_count(j, "closed_before_holes", orders->forced);
    dqn_json_count(j, "margin_calls", orders->margin_calls);
    dqn_json_object_end(j);
}

static void put_actions(struct dqn_json *j, const struct dqn_trading_report *r) {
    dqn_json_object(j, "actions");
    dqn_json_array(j, "counts"); /* [exposure][3 * order + urgency] */
    for (int e = 0; e < DQN_EXPOSURES; e++) {
        dqn_json_array(j, NULL);
        for (int c = 0; c < DQN_ORDER_CELLS; c++) {
            dqn_json_count(j, NULL, r->track.actions[e][c]);
        }
        dqn_json_array_end(j);
    }
    dqn_json_array_end(j);
    dqn_json_real(j, "entropy_nats", r->agent.action_entropy);
    dqn_json_bool(j, "constant_policy", r->agent.constant_policy);
    dqn_json_object_end(j);
}

static void put_trades(struct dqn_json *j, const struct dqn_trade_figures *t) {
    dqn_json_object(j, "trades");
    dqn_json_count(j, "closed", t->closed);
    dqn_json_count(j, "longs", t->longs);
    dqn_json_count(j, "wins", t->wins);
    dqn_json_real(j, "hit_rate", t->hit_rate);
    dqn_json_real(j, "profit_factor", t->profit_factor);
    dqn_json_real(j, "payoff", t->payoff);
    dqn_json_real(j, "mean_pnl", t->mean_pnl);
    dqn_json_real(j, "mean_return", t->mean_return);
    dqn_json_real(j, "best_return", t->best_return);
    dqn_json_real(j, "worst_return", t->worst_return);
    dqn_json_real(j, "mean_bars", t->mean_bars);
    dqn_json_bool(j, "open_at_end", t->open);
    dqn_json_real(j, "open_pnl", t->open_pnl);
    dqn_json_object_end(j);
}

static void put_confidence(struct dqn_json *j, const struct dqn_trading_report *r) {
    dqn_json_object(j, "confidence");
    dqn_json_real(j, "return_low", expm1(r->interval.log_return_low));
    dqn_json_real(j, "return_high", expm1(r->interval.log_return_high));
    dqn_json_real(j, "sharpe_low", r->interval.sharpe_low);
    dqn_json_real(j, "sharpe_high", r->interval.sharpe_high);
    dqn_json_real(j, "sharpe_probabilistic", r->sharpe_test.probabilistic);
    dqn_json_real(j, "sharpe_deflated", r->sharpe_test.deflated);
    dqn_json_real(j, "sharpe_best_of_trials", r->sharpe_test.benchmark);
    dqn_json_real(j, "trials", r->trials);
    dqn_json_real(j, "skewness", r->sharpe_test.skewness);
    dqn_json_real(j, "kurtosis", r->sharpe_test.kurtosis);
    dqn_json_real(j, "alpha", r->relation.alpha);
    dqn_json_real(j, "beta", r->relation.beta);
    dqn_json_real(j, "correlation", r->relation.correlation);
    dqn_json_object_end(j);
}

static void put_sensitivities(struct dqn_json *j, const struct dqn_trading_report *r) {
    dqn_json_array(j, "sensitivity");
    for (size_t i = 0; i < r->n_sensitivities; i++) {
        dqn_json_object(j, NULL);
        dqn_json_text(j, "name", r->sensitivity[i].name);
        put_performance(j, "figures", &r->sensitivity[i].figures);
        dqn_json_object_end(j);
    }
    dqn_json_array_end(j);
}

static void put_part(struct dqn_json *j, const struct dqn_report_fold *fold, enum dqn_split split) {
    dqn_json_object(j, dqn_split_name(split));
    dqn_json_count(j, "bars", fold->bars[split]);
    put_time(j, "first_time", fold->first_ns[split]);
    put_time(j, "last_time", fold->last_ns[split]);
    dqn_json_object_end(j);
}

static void put_seeds(struct dqn_json *j, const struct dqn_report_fold *fold) {
    dqn_json_array(j, "seeds");
    for (size_t i = 0; i < fold->n_seeds; i++) {
        const struct dqn_report_seed *seed = &fold->seeds[i];
        dqn_json_object(j, NULL);
        dqn_json_real(j, "seed", (double)seed->seed);
        dqn_json_bool(j, "chosen", seed->chosen);
        dqn_json_count(j, "best_epoch", seed->best_epoch);
        dqn_json_real(j, "validation_return", seed->validation_return);
        dqn_json_real(j, "test_return", seed->test_return);
        dqn_json_object_end(j);
    }
    dqn_json_array_end(j);
}

static void put_folds(struct dqn_json *j, const struct dqn_trading_report *r) {
    dqn_json_array(j, "folds");
    for (size_t i = 0; i < r->n_folds; i++) {
        const struct dqn_report_fold *fold = &r->folds[i];
        const struct dqn_report_seed *chosen = dqn_report_fold_chosen(fold);
        dqn_json_object(j, NULL);
        dqn_json_count(j, "fold", i + 1);
        for (int split = 0; split < DQN_SPLITS; split++) {
            put_part(j, fold, (enum dqn_split)split);
        }
        put_seeds(j, fold);
        dqn_json_real(j, "seed", (double)chosen->seed);
        dqn_json_real(j, "validation_return", chosen->validation_return);
        dqn_json_count(j, "first_step", fold->first_step);
        dqn_json_count(j, "steps", fold->n_steps);
        put_performance(j, "figures", &fold->figures);
        dqn_json_real(j, "buy_hold_return", fold->buy_hold_return);
        dqn_json_object_end(j);
    }
    dqn_json_array_end(j);
}

static void put_walk(struct dqn_json *j, const struct dqn_trading_report *r) {
    char choice[64];
    if (r->n_folds == 0) {
        dqn_json_null(j, "walk_forward");
        return;
    }
    dqn_json_object(j, "walk_forward");
    dqn_json_text(j, "mode", r->walk.mode);
    dqn_json_bool(j, "warm_start", r->walk.warm_start);
    dqn_json_count(j, "embargo", r->walk.embargo);
    dqn_json_count(j, "test_evaluations", r->walk.test_evaluations);
    snprintf(choice, sizeof choice, "%s validation return", dqn_seed_choice(r->folds[0].n_seeds));
    dqn_json_text(j, "seed_choice", choice);
    dqn_json_object_end(j);
}

static void put_checks(struct dqn_json *j, const struct dqn_trading_report *r) {
    const struct dqn_reward_check *check = &r->reward_check;
    dqn_json_object(j, "checks");
    dqn_json_real(j, "reward_sum", check->sum);
    dqn_json_real(j, "reward_sum_expected", check->expected);
    dqn_json_bool(j, "reward_from_environment", check->from_rewards);
    dqn_json_bool(j, "reward_possible", check->possible);
    dqn_json_bool(j, "reward_holds", check->holds);
    dqn_json_real(j, "ledger_residual", r->track.ledger_residual);
    dqn_json_object_end(j);
}

/* Names at the top for scripts that compare runs. */
static void put_short(struct dqn_json *j, const struct dqn_trading_report *r) {
    dqn_json_real(j, "interval_low", r->interval.log_return_low);
    dqn_json_real(j, "interval_high", r->interval.log_return_high);
    dqn_json_real(j, "random_mean", r->random.mean);
    dqn_json_real(j, "random_low", r->random.low);
    dqn_json_real(j, "random_high", r->random.high);
    dqn_json_real(j, "random_percentile", r->random.percentile);
    dqn_json_real(j, "optimum_reward", r->has_optimum ? r->optimum_reward : NAN);
    dqn_json_real(j, "agent_reward", r->has_optimum ? r->agent_reward : NAN);
    dqn_json_real(j, "optimum_threshold", r->has_optimum ? r->optimum_threshold : NAN);
    dqn_json_real(j, "agent_threshold", r->sees_hidden ? r->agent_threshold : NAN);
    dqn_json_real(j, "agreement", r->sees_hidden ? r->agreement : NAN);
    dqn_json_real(j, "agent_turnover", r->agent.turnover);
    dqn_json_real(j, "random_turnover", r->random.turnover);
    dqn_json_real(j, "ledger_residual", r->track.ledger_residual);
}

static void put_report(const struct dqn_trading_report *r, FILE *out, bool indented) {
    struct dqn_json json = {.out = out, .indented = indented}, *j = &json;
    dqn_json_object(j, NULL);
    dqn_json_count(j, "schema", 1);
    dqn_json_text(j, "version", DQN_VERSION);
    dqn_json_text(j, "subject", r->subject);
    dqn_json_text(j, "split", dqn_split_name(r->split));
    put_verdict(j, &r->verdict);
    dqn_json_count(j, "bars", r->bars);
    dqn_json_count(j, "split_bars", r->split_bars);
    dqn_json_bool(j, "ruined", r->ruined);
    if (r->ruined) {
        put_time(j, "ruin_time", r->ruin_time_ns);
    } else {
        dqn_json_null(j, "ruin_time");
    }
    dqn_json_real(j, "bars_per_year", r->bars_per_year);
    dqn_json_real(j, "risk_free", r->risk_free);
    put_market(j, r);
    put_performance(j, "agent", &r->agent);
    put_performance(j, "flat", &r->flat.figures);
    put_performance(j, "buy_hold", &r->buy_hold.figures);
    put_performance(j, "short_hold", &r->short_hold.figures);
    put_random(j, "random", &r->random);
    put_random(j, "random_same_actions", &r->random_same);
    put_hindsight(j, &r->hindsight);
    put_confidence(j, r);
    put_costs(j, &r->track);
    put_orders(j, &r->orders);
    put_actions(j, r);
    put_trades(j, &r->trade_figures);
    put_sensitivities(j, r);
    put_walk(j, r);
    put_folds(j, r);
    put_checks(j, r);
    put_short(j, r);
    dqn_json_object_end(j);
}

void dqn_trading_report_json(const struct dqn_trading_report *r, FILE *out) {
    put_report(r, out, false);
}

void dqn_trading_report_json_pretty(const struct dqn_trading_report *r, FILE *out) {
    put_report(r, out, true);
}
