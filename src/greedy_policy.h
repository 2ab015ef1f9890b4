/* A trained network as a policy on the host: one observation in, the greedy action out. */
#ifndef DQN_GREEDY_POLICY_H
#define DQN_GREEDY_POLICY_H

#include "backend.h"

struct dqn_greedy_policy;

/* Copies params [P]. Computes on the CPU. */
enum dqn_status dqn_greedy_policy_create(struct dqn_greedy_policy **out, const struct dqn_net *net,
                                         const float *params);
void dqn_greedy_policy_destroy(struct dqn_greedy_policy *policy);

/* Q values [A] of an observation [O], valid until the next call. */
const float *dqn_greedy_policy_values(struct dqn_greedy_policy *policy, const float *observation);
/* The action of the largest Q; ties: the lowest. The signature is that of dqn_trading_policy. */
uint32_t dqn_greedy_policy_action(void *policy, const float *observation, uint64_t step);

#endif
