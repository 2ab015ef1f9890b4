/* Passes over the bars of a report: a policy, from a flat account to the end, with all its steps.
 */
#ifndef DQN_MARKET_REPORT_PASSES_H
#define DQN_MARKET_REPORT_PASSES_H

#include "trading_report.h"

/* A policy and its context: the same in every part, or one for each. */
struct dqn_pass_policy {
    dqn_trading_policy choose;
    void *const *context; /* [1], or with `each` [parts] */
    bool each;
    bool blind; /* does not look at the observation, and gets NULL */
};

/* Parts of the report's pass: its folds, or the whole split. */
size_t dqn_report_parts(const struct dqn_trading_report *r);
const struct dqn_report_part *dqn_report_part(const struct dqn_trading_report *r, size_t index);

/* The parameters of a pass over one part. */
struct trading_params dqn_part_params(const struct trading_params *params,
                                      const struct dqn_report_part *part);

/* Runs a policy over all parts. Each starts flat; the money of its steps is in proportion to what
 * the account had by then (with env.sizing: fixed_notional it is as it is, and adds up), so that
 * the track is one account's. Ends early when no equity is left.
 *   params   of the split; ranges and median volume are the part's
 *   track    out, the caller's to destroy, also after an error
 *   records  [split_bars] out, the steps; NULL = not kept
 *   out      NULL, or gets the figures */
enum dqn_status dqn_pass_run(const struct dqn_trading_report *r,
                             const struct trading_params *params,
                             const struct dqn_pass_policy *policy, double risk_free,
                             struct dqn_track *track, struct trading_step_record *records,
                             struct dqn_performance *out);
/* The same for one fixed action. */
enum dqn_status dqn_pass_run_fixed(const struct dqn_trading_report *r,
                                   const struct trading_params *params, uint32_t action,
                                   double risk_free, struct dqn_report_pass *out);

/* Runs that draw their actions by `counts` [45], or uniformly where that is NULL; equal at any
 * number of threads (0 = one a core). The caller frees. */
enum dqn_status dqn_random_run(const struct dqn_trading_report *r,
                               const struct trading_params *params, size_t runs, size_t threads,
                               const uint64_t *counts, struct dqn_random_runs *out);
void dqn_random_none(struct dqn_random_runs *out);
void dqn_random_free(struct dqn_random_runs *random);

#endif
