/* The report of a finished walk-forward: each fold's test by the network of the seed that stands
 * for the fold, chained to one account (market/trading_report.h). */
#ifndef DQN_WALK_EVAL_H
#define DQN_WALK_EVAL_H

#include "market/trading_report.h"

struct dqn_walk_eval;

/* Loads results and networks from the walk-forward's folder, and makes the report.
 *   config  of the walk-forward, also with other costs, fills or data than it was run with
 * DQN_ERR_CHECKPOINT when it is not finished, naming the command that goes on. */
enum dqn_status dqn_walk_eval_create(struct dqn_walk_eval **out, const struct dqn_config *config,
                                     const char *folder);
void dqn_walk_eval_destroy(struct dqn_walk_eval *eval);

/* dqn_trading_report_extend for it. */
enum dqn_status dqn_walk_eval_extend(struct dqn_walk_eval *eval, double trials);
struct dqn_trading_report *dqn_walk_eval_report(struct dqn_walk_eval *eval);

#endif
