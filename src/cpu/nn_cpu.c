#include "nn_cpu.h"

static size_t workspace_bytes(const struct dqn_device *device, const struct dqn_net *net,
                              size_t n_agents, size_t batch) {
    (void)device;
    const size_t backward = dqn_cpu_backward_workspace_bytes(net, n_agents, batch);
    const size_t apply = dqn_cpu_apply_workspace_bytes(net, n_agents);
    return backward > apply ? backward : apply;
}

const struct dqn_nn_ops dqn_cpu_nn_ops = {
    .workspace_bytes = workspace_bytes,
    .init = dqn_cpu_init,
    .forward = dqn_cpu_forward,
    .backward = dqn_cpu_backward,
    .td = dqn_cpu_td,
    .act = dqn_cpu_act,
    .apply = dqn_cpu_apply,
};
