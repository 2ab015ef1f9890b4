#include "net.h"

#include <stdio.h>

static size_t round_up_4(size_t n) {
    return (n + 3) / 4 * 4;
}

static bool keeps_preactivation(enum dqn_activation activation) {
    return activation == DQN_SILU;
}

enum dqn_status dqn_net_init(struct dqn_net *net, size_t obs, size_t actions,
                             const struct dqn_config_net *config) {
    *net = (struct dqn_net){.obs = obs,
                            .obs_ld = round_up_4(obs),
                            .actions = actions,
                            .actions_ld = round_up_4(actions),
                            .dueling = config->dueling,
                            .n_layers = config->hidden.n + 1};
    size_t in = obs;
    for (size_t l = 0; l < net->n_layers; l++) {
        const bool last = l + 1 == net->n_layers;
        const size_t out = last ? actions + (config->dueling ? 1 : 0) : (size_t)config->hidden.v[l];
        struct dqn_layer *layer = &net->layer[l];
        *layer = (struct dqn_layer){.in = in,
                                    .in_ld = round_up_4(in),
                                    .out = out,
                                    .out_ld = round_up_4(out),
                                    .activation = last ? DQN_LINEAR
                                                       : (enum dqn_activation)config->activation};
        layer->weight = net->n_params;
        layer->bias = layer->weight + layer->out_ld * layer->in_ld;
        net->n_params = layer->bias + layer->out_ld;
        net->n_trainable += in * out + out;
        layer->output = net->act_floats;
        net->act_floats += layer->out_ld;
        if (keeps_preactivation(layer->activation)) {
            layer->preact = net->act_floats;
            net->act_floats += layer->out_ld;
        }
        in = out;
    }
    if (net->n_params > (size_t)1 << 31) {
        return dqn_fail(DQN_ERR_CONFIG, "net.hidden asks for %zu parameters, the limit is 2^31",
                        net->n_params);
    }
    return DQN_OK;
}

const char *dqn_net_describe(const struct dqn_net *net, char *text, size_t size) {
    static const char *const names[] = {"relu", "tanh", "elu", "silu", "linear"};
    char count[32];
    size_t at = 0;
    for (size_t l = 0; l <= net->n_layers && at < size; l++) {
        const size_t width = l == net->n_layers ? net->actions : net->layer[l].in;
        at += (size_t)snprintf(text + at, size - at, l == 0 ? "%zu" : "-%zu", width);
    }
    if (at < size) {
        snprintf(text + at, size - at, " %s%s, %s parameters",
                 net->n_layers > 1 ? names[net->layer[0].activation] : "linear",
                 net->dueling ? " dueling" : "",
                 dqn_format_count(count, sizeof count, net->n_trainable));
    }
    return text;
}
