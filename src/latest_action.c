#include "latest_action.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "market/json_writer.h"
#include "market/order_figures.h"
#include "market/report_csv.h"

/* ---- the newest bar -------------------------------------------------------------------------- */

static enum dqn_status load_bars(struct dqn_bars *bars, const struct dqn_config *config,
                                 const char *file) {
    struct dqn_config *changed = NULL;
    const size_t limit = sizeof changed->data.file.v[0] - sizeof "./"; /* of this folder */
    if (strlen(file) > limit) {
        return dqn_fail(DQN_ERR_DATA,
                        "the path after --latest has %zu bytes; at most %zu are read: name the "
                        "file from a folder nearer to it",
                        strlen(file), limit);
    }
    DQN_TRY(dqn_alloc((void **)&changed, 1, sizeof *changed, "a configuration"));
    *changed = *config;
    changed->data.file.n = 1;
    snprintf(changed->data.file.v[0], sizeof changed->data.file.v[0], "%s", file);
    snprintf(changed->folder, sizeof changed->folder, "."); /* the file is named from here */
    const enum dqn_status status = dqn_bars_load(bars, changed, true);
    free(changed);
    return status;
}

/* A market whose only decision is after its newest bar. The bars go over to it. */
static enum dqn_status make_market(struct dqn_market *market, const struct dqn_config *config,
                                   const double *mean, const double *std) {
    const struct dqn_bars *bars = &market->bars;
    const size_t n = bars->n, first = bars->segment[bars->n_segments - 1];
    if (n - first < DQN_MARKET_WARMUP + 1) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: the last segment has %zu bar%s; %d are needed, as %d warm up the "
                        "features: give more history%s",
                        bars->info.source, n - first, dqn_plural(n - first), DQN_MARKET_WARMUP + 1,
                        DQN_MARKET_WARMUP,
                        first > 0 && n > DQN_MARKET_WARMUP ? ", or data.gaps: keep" : "");
    }
    DQN_TRY(dqn_alloc((void **)&market->features, n, DQN_MARKET_FEATURES * sizeof(float),
                      "market features"));
    DQN_TRY(dqn_alloc((void **)&market->s, n, sizeof(double), "bar volatility"));
    DQN_TRY(dqn_alloc((void **)&market->ranges, 1, sizeof *market->ranges, "a range"));
    DQN_TRY(dqn_market_features(bars, config, market->features, market->s));
    dqn_features_normalise(market->features, n, mean, std);
    market->ranges[0] = (struct trading_range){.first = n - 2, .last = n - 1};
    market->n_ranges = market->range_count[DQN_SPLIT_TEST] = 1;
    market->transitions[DQN_SPLIT_TEST] = 1;
    market->bar_seconds = bars->info.bar_seconds;
    market->reference_price = bars->close[0];
    return DQN_OK;
}

/* ---- the decision ---------------------------------------------------------------------------- */

static struct trading_state account(const struct trading_params *p, uint64_t bar, double exposure) {
    struct trading_state state = {.bar = bar,
                                  .cash = p->initial_equity,
                                  .equity = p->initial_equity,
                                  .start_equity = p->initial_equity,
                                  .peak = p->initial_equity,
                                  .pending = TRADING_NO_ACTION};
    if (exposure != 0.0) {
        const double price = p->fixed_notional ? p->reference_price : p->close[bar];
        state.units = exposure * p->initial_equity / price;
        state.cash -= state.units * p->close[bar];
        state.entry = p->close[bar];
        state.hold = 1;
    }
    return state;
}

/* The order that the action sends, if any, and its limit or cap. */
static void find_order(struct dqn_latest *out, const struct trading_params *p,
                       const struct trading_state *state) {
    const double close = p->close[state->bar];
    struct trading_bar bar = {
        .open = close, .high = close, .low = close, .close = close, .volume = -1.0};
    trading_bar_costs(p, state->bar, &bar);
    const double rate = trading_cost_rate(p, &bar, out->order, out->urgency);
    const double quantity =
        trading_order_size(p, &bar, state->units, state->equity, out->target, rate);
    out->sends = quantity != 0.0;
    if (out->sends) {
        out->limit = trading_execute(p, &bar, quantity, out->order, out->urgency, 1.0).limit;
    }
}

static enum dqn_status decide(struct dqn_latest *out, const struct dqn_config *config,
                              const struct dqn_market *market, struct dqn_greedy_policy *policy,
                              double exposure) {
    struct trading_params p;
    float observation[TRADING_FEATURES];
    DQN_TRY(dqn_trading_params(&p, config, market, NULL, DQN_TRADING_EVAL, DQN_SPLIT_TEST, 1));
    const struct trading_state state = account(&p, market->bars.n - 1, exposure);
    trading_observe(&p, &state, observation);
    memcpy(out->q, dqn_greedy_policy_values(policy, observation), sizeof out->q);
    out->action = dqn_greedy_policy_action(policy, observation, 0);
    out->time_ns = p.time_ns[state.bar];
    out->bar_seconds = market->bar_seconds;
    out->close = p.close[state.bar];
    out->volatility = p.s[state.bar];
    out->exposure = exposure;
    out->target = trading_target(&p, out->action);
    out->order = trading_order_kind(out->action);
    out->urgency = trading_urgency(out->action);
    find_order(out, &p, &state);
    return DQN_OK;
}

enum dqn_status dqn_latest_find(struct dqn_latest *out, const struct dqn_config *config,
                                const char *file, const double *mean, const double *std,
                                struct dqn_greedy_policy *policy, double exposure) {
    struct dqn_market *market = NULL;
    memset(out, 0, sizeof *out);
    DQN_TRY(dqn_alloc((void **)&market, 1, sizeof *market, "market"));
    enum dqn_status status = load_bars(&market->bars, config, file);
    if (status == DQN_OK) {
        status = make_market(market, config, mean, std);
    }
    if (status == DQN_OK) {
        status = decide(out, config, market, policy, exposure);
    }
    dqn_market_destroy(market);
    return status;
}

/* ---- for people and programs ----------------------------------------------------------------- */

static const char *const level_names[] = {"full short", "half short", "flat", "half long",
                                          "full long"};

void dqn_latest_print(const struct dqn_latest *l, FILE *out) {
    char time[40];
    fprintf(out, "Newest bar: %s, close %.10g, bar volatility %.4g %%. Held: exposure %.4g.\n",
            dqn_time_text(time, sizeof time, l->time_ns), l->close, 100.0 * l->volatility,
            l->exposure);
    const char *const urgency = dqn_urgency_name(l->urgency);
    fprintf(out, "Action %u: exposure %+.4g by %s %s %s order", l->action, l->target,
            urgency[0] == 'a' ? "an" : "a", urgency, dqn_order_kind_name(l->order));
    if (!l->sends) {
        fprintf(out, "; that is held already: no order.\n");
    } else if (l->limit > 0.0) {
        fprintf(out, ", %s %.10g, for the next bar.\n",
                l->order == TRADING_LIMIT ? "limit" : "price cap", l->limit);
    } else {
        fprintf(out, ", in the next bar.\n");
    }
    fprintf(out,
            "\nQ values; columns: patient, normal, aggressive of each kind of order\n"
            "%-11s %27s %27s %27s\n",
            "", "market", "limit", "ioc");
    for (int e = 4; e >= 0; e--) {
        fprintf(out, "%-11s", level_names[e]);
        for (int c = 0; c < 9; c++) {
            const uint32_t action = (uint32_t)(9 * e + c);
            fprintf(out, "%s%8.4f%c", c % 3 == 0 ? " " : "", (double)l->q[action],
                    action == l->action ? '*' : ' ');
        }
        fprintf(out, "\n");
    }
}

void dqn_latest_json(const struct dqn_latest *l, FILE *out) {
    struct dqn_json json = {.out = out}, *j = &json;
    char time[40];
    dqn_json_object(j, NULL);
    dqn_json_text(j, "time", dqn_time_text(time, sizeof time, l->time_ns));
    dqn_json_real(j, "bar_seconds", l->bar_seconds);
    dqn_json_real(j, "close", l->close);
    dqn_json_real(j, "bar_volatility", l->volatility);
    dqn_json_real(j, "exposure_before", l->exposure);
    dqn_json_count(j, "action", l->action);
    dqn_json_real(j, "exposure", l->target);
    dqn_json_text(j, "order", dqn_order_kind_name(l->order));
    dqn_json_text(j, "urgency", dqn_urgency_name(l->urgency));
    dqn_json_bool(j, "sends_order", l->sends);
    dqn_json_real(j, "limit", l->limit > 0.0 ? l->limit : NAN);
    dqn_json_array(j, "q"); /* [exposure][3 * order + urgency] */
    for (int e = 0; e < 5; e++) {
        dqn_json_array(j, NULL);
        for (int c = 0; c < 9; c++) {
            dqn_json_real(j, NULL, (double)l->q[9 * e + c]);
        }
        dqn_json_array_end(j);
    }
    dqn_json_array_end(j);
    dqn_json_object_end(j);
}
