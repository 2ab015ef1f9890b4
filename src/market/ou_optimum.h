/* The known answer of the ou market: the best policy when the price is a stationary first-order
 * autoregression, exposure is in units of a fixed notional, and changing it costs kappa a unit.
 *
 *     X' = phi X + sqrt(1 - phi^2) n,  reward = q (X' - X) - kappa |q - q_before|
 *
 * Reward and cost are linear, so every unit of exposure is the same switching problem and the best
 * policy has one threshold b: hold +1 below -b, -1 above +b, otherwise keep the position (threshold
 * policies for mean-reverting prices: Leung and Li 2015, "Optimal mean reversion trading with
 * transaction costs and stop-loss exit"). Found by value iteration on a grid. */
#ifndef DQN_MARKET_OU_OPTIMUM_H
#define DQN_MARKET_OU_OPTIMUM_H

#include "../base.h"

struct dqn_ou_problem {
    double phi;   /* autoregression */
    double kappa; /* cost of a unit of exposure, in stationary stds */
    double gamma; /* discount */
};

/* The threshold b in stationary stds, to the grid's step of 0.0125. */
enum dqn_status dqn_ou_threshold(const struct dqn_ou_problem *problem, double *threshold);

/* The threshold policy's exposure at x. */
double dqn_ou_exposure(double threshold, double x, double exposure_before);

/* Exposure that a policy which sees the hidden state asks for at x, holding `exposure_before`. */
typedef double (*dqn_ou_policy)(void *context, double x, double exposure_before);

/* How close a policy is to the threshold policy, on a grid over +-3 stationary stds.
 *   threshold  of the best policy
 *   own        out: mean of the policy's own two thresholds, where a holder of +1 first turns
 *              short going up and a holder of -1 first turns long going down
 *   agreement  out: share of the grid, outside +-0.1 of +-threshold, where both ask for the same
 *              sign of exposure, over holders of -1, 0 and +1 */
void dqn_ou_judge(double threshold, dqn_ou_policy policy, void *context, double *own,
                  double *agreement);

#endif
