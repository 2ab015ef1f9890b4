#include "greedy_policy.h"

#include <stdlib.h>
#include <string.h>

struct dqn_greedy_policy {
    struct dqn_net net;
    struct dqn_device device;
    bool device_open;
    struct dqn_queue *queue;
    float *params, *x, *acts, *q;
};

static enum dqn_status create_parts(struct dqn_greedy_policy *p, const float *params) {
    const struct dqn_backend *cpu = dqn_backend_find("cpu");
    const struct dqn_device_options options = {.threads = 1};
    DQN_TRY(cpu->memory->open(&p->device, &options));
    p->device_open = true;
    DQN_TRY(cpu->queue->create(&p->device, &p->queue));
    const struct dqn_device *device = &p->device;
    const size_t f = sizeof(float);
    DQN_TRY(cpu->memory->alloc(device, (void **)&p->params, p->net.n_params * f, false));
    DQN_TRY(cpu->memory->alloc(device, (void **)&p->x, p->net.obs_ld * f, false));
    DQN_TRY(cpu->memory->alloc(device, (void **)&p->acts, p->net.act_floats * f, false));
    DQN_TRY(cpu->memory->alloc(device, (void **)&p->q, p->net.actions_ld * f, false));
    memcpy(p->params, params, p->net.n_params * f);
    return DQN_OK;
}

enum dqn_status dqn_greedy_policy_create(struct dqn_greedy_policy **out, const struct dqn_net *net,
                                         const float *params) {
    struct dqn_greedy_policy *p = NULL;
    DQN_TRY(dqn_alloc((void **)&p, 1, sizeof *p, "a policy"));
    p->net = *net;
    const enum dqn_status status = create_parts(p, params);
    if (status != DQN_OK) {
        dqn_greedy_policy_destroy(p);
        return status;
    }
    *out = p;
    return DQN_OK;
}

void dqn_greedy_policy_destroy(struct dqn_greedy_policy *p) {
    if (p == NULL) {
        return;
    }
    if (p->device_open) {
        const struct dqn_backend *cpu = p->device.backend;
        void *const buffers[] = {p->params, p->x, p->acts, p->q};
        for (size_t i = 0; i < DQN_COUNT_OF(buffers); i++) {
            cpu->memory->free(&p->device, buffers[i], false);
        }
        if (p->queue != NULL) {
            cpu->queue->destroy(p->queue);
        }
        cpu->memory->close(&p->device);
    }
    free(p);
}

const float *dqn_greedy_policy_values(struct dqn_greedy_policy *p, const float *observation) {
    memcpy(p->x, observation, p->net.obs * sizeof(float));
    const struct dqn_forward_args args = {.net = &p->net,
                                          .n_agents = 1,
                                          .batch = 1,
                                          .params = p->params,
                                          .x = p->x,
                                          .acts = p->acts,
                                          .q = p->q};
    /* A plain CPU queue computes at once and cannot fail on valid arguments. */
    DQN_CHECK(p->device.backend->nn->forward(p->queue, &args) == DQN_OK);
    return p->q;
}

uint32_t dqn_greedy_policy_action(void *policy, const float *observation, uint64_t step) {
    struct dqn_greedy_policy *p = policy;
    (void)step;
    const float *q = dqn_greedy_policy_values(p, observation);
    uint32_t best = 0;
    for (uint32_t a = 1; a < p->net.actions; a++) {
        if (q[a] > q[best]) {
            best = a;
        }
    }
    return best;
}
