/* What both backends share: the count of host waits, a policy, and the sizes of environments. */
#include "backend.h"

#include "all_envs.h"

static _Thread_local uint64_t n_waits;
static _Thread_local double waited_s;

uint64_t dqn_queue_waits(void) {
    return n_waits;
}

double dqn_queue_waited_s(void) {
    return waited_s;
}

void dqn_queue_count_wait(double seconds) {
    n_waits++;
    waited_s += seconds;
}

enum dqn_status dqn_policy(struct dqn_queue *q, const struct dqn_forward_args *forward,
                           const struct dqn_act_args *act) {
    const struct dqn_nn_ops *nn = q->device->backend->nn;
    if (nn->policy != NULL) {
        return nn->policy(q, forward, act);
    }
    DQN_TRY(nn->forward(q, forward));
    return nn->act(q, act);
}

enum dqn_status dqn_draw(struct dqn_queue *q, const struct dqn_draw_args *draw,
                         const struct dqn_gather_args *gather, bool *gathered) {
    const struct dqn_sampler_ops *sampler = q->device->backend->sampler;
    *gathered = false;
    return sampler->draw_gather != NULL ? sampler->draw_gather(q, draw, gather, gathered)
                                        : sampler->draw(q, draw);
}

struct env_entry {
    const char *name;
    size_t observations, actions, state_bytes, params_bytes;
    uint64_t step_limit;
};

#define ENV_ENTRY(name, observations, actions, limit)                                              \
    {#name, observations, actions, sizeof(struct name##_state), sizeof(struct name##_params),      \
     limit},
static const struct env_entry env_table[] = {DQN_ENV_LIST(ENV_ENTRY)};

size_t dqn_env_state_bytes(enum dqn_env_id env) {
    return env_table[env].state_bytes;
}

size_t dqn_env_params_bytes(enum dqn_env_id env) {
    return env_table[env].params_bytes;
}

size_t dqn_env_observations(enum dqn_env_id env) {
    return env_table[env].observations;
}

size_t dqn_env_actions(enum dqn_env_id env) {
    return env_table[env].actions;
}

uint64_t dqn_env_step_limit(enum dqn_env_id env) {
    return env_table[env].step_limit;
}

const char *dqn_env_name(enum dqn_env_id env) {
    return env_table[env].name;
}

void dqn_env_default_params(enum dqn_env_id env, void *params) {
    switch (env) {
#define ENV_DEFAULTS(name, observations, actions, limit)                                           \
    case DQN_ENV_##name:                                                                           \
        name##_defaults((struct name##_params *)params);                                           \
        break;
        DQN_ENV_LIST(ENV_DEFAULTS)
#undef ENV_DEFAULTS
    case DQN_ENV_COUNT:
        break;
    }
}
