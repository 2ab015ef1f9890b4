/* How much there was to earn for who had known the future: the best path through the environment
 * itself, with all its fills and costs. No policy can plan for it; it measures the market. */
#ifndef DQN_MARKET_HINDSIGHT_H
#define DQN_MARKET_HINDSIGHT_H

#include "trading_setup.h"

/* Dynamic programming forward in time. Of the accounts that hold about the same exposure after a
 * bar (nearest of the five levels), the one with most equity is kept; each of those tries all 45
 * actions in the next bar. What it finds can be earned: its actions, carried out, give that equity.
 * With env.sizing: fixed_notional and orders that fill whole it is the optimum, as there are only
 * five positions; else accounts within a class differ a little, and the optimum may be a little
 * better.
 *   params  of one pass over a split, one lane, host tables
 *   equity  out, at the end, the last position marked at its close; NaN where all paths are ruined,
 *           and with fill.latency_bars, as then an action's class shows only a bar later
 *   actions NULL, or [transitions] out: the path. */
enum dqn_status dqn_hindsight_run(const struct trading_params *params, double *equity,
                                  uint8_t *actions);

#endif
