#include "agents.h"

#include <math.h>

uint64_t dqn_updates_due(const struct dqn_config_train *train, uint64_t env_steps) {
    const uint64_t starts = (uint64_t)train->learning_starts;
    if (env_steps <= starts) {
        return 0;
    }
    /* The small term undoes the rounding of ratios such as 0.29 that binary cannot hold. */
    return (uint64_t)floor(train->replay_ratio * (double)(env_steps - starts) + 1e-6);
}

void dqn_agent_resolve_schedules(struct dqn_config *config) {
    uint64_t total = dqn_updates_due(&config->train, (uint64_t)config->train.env_steps);
    total = total > 0 ? total : 1;
    if (config->learner.lr_updates == 0) {
        config->learner.lr_updates = (int64_t)total;
    }
    if (config->replay.beta_updates == 0) {
        config->replay.beta_updates = (int64_t)total;
    }
}

void dqn_agent_from_config(struct dqn_agent *agent, const struct dqn_config *config) {
    const struct dqn_config_learner *l = &config->learner;
    const struct dqn_config_replay *r = &config->replay;
    *agent = (struct dqn_agent){.seed = (uint64_t)config->run.seed,
                                .gamma = l->gamma,
                                .lr_start = l->lr,
                                .lr_end = l->lr_end,
                                .lr_updates = (uint64_t)l->lr_updates,
                                .lr_kind = (uint64_t)l->lr_schedule,
                                .eps_start = config->collect.eps_start,
                                .eps_end = config->collect.eps_end,
                                .eps_steps = (uint64_t)config->collect.eps_steps,
                                .beta_start = r->beta_start,
                                .beta_end = r->beta_end,
                                .beta_updates = (uint64_t)r->beta_updates,
                                .alpha = r->alpha,
                                .priority_epsilon = r->epsilon,
                                .priority_max = r->max_priority,
                                .tau = l->target == DQN_TARGET_SOFT ? l->tau : 0.0,
                                .target_updates =
                                    l->target == DQN_TARGET_HARD ? (uint64_t)l->target_updates : 0,
                                .huber_delta = l->loss == DQN_LOSS_HUBER ? l->huber_delta : 0.0,
                                .max_grad_norm = l->max_grad_norm,
                                .adam_beta1 = l->adam_beta1,
                                .adam_beta2 = l->adam_beta2,
                                .adam_eps = l->adam_eps,
                                .weight_decay = l->weight_decay};
}
