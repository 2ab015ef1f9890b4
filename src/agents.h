/* From the configuration to the scalars of an agent. */
#ifndef DQN_AGENTS_H
#define DQN_AGENTS_H

#include "config.h"
#include "shared/agent.h"

/* Updates that are due when `env_steps` were made: floor(replay_ratio * (env_steps -
 * learning_starts)), exact for decimal ratios. */
uint64_t dqn_updates_due(const struct dqn_config_train *train, uint64_t env_steps);

/* Replaces the keys whose 0 means "the whole run" (lr_updates, beta.updates) by the number of
 * updates of the whole run, so that a run that is resumed with another length keeps its schedules.
 */
void dqn_agent_resolve_schedules(struct dqn_config *config);

void dqn_agent_from_config(struct dqn_agent *agent, const struct dqn_config *config);

#endif
