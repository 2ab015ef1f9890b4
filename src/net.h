/* The Q-network's shape and the layout of its parameters in one flat block.
 *
 * Layer l computes y = act(x W^T + b), x [B, in_ld], W [out_ld, in_ld] row-major, b [out_ld],
 * y [B, out_ld]. Leading dimensions are the widths rounded up to 4 floats (16 bytes, what the
 * matrix libraries want); the padding of W, b and x is zero and stays zero under training.
 *
 * The last layer is linear: A action values, or with `dueling` A advantages followed by one state
 * value, combined as Q = V + A - mean(A) (Wang et al. 2016, equation 9). */
#ifndef DQN_NET_H
#define DQN_NET_H

#include "base.h"
#include "config.h"

enum { DQN_MAX_LAYERS = DQN_LIST_MAX + 1 };
enum dqn_activation { DQN_RELU, DQN_TANH, DQN_ELU, DQN_SILU, DQN_LINEAR };

struct dqn_layer {
    size_t in, in_ld;
    size_t out, out_ld;
    enum dqn_activation activation;
    size_t weight; /* offset of W in the block, in floats */
    size_t bias;   /* offset of b */
    size_t output; /* offset of y in dqn_net.act_floats, for a batch of one */
    size_t preact; /* offset of x W^T + b, kept where the derivative needs it (SiLU) */
};

struct dqn_net {
    size_t n_layers;
    struct dqn_layer layer[DQN_MAX_LAYERS];
    size_t obs, obs_ld;         /* O and its leading dimension */
    size_t actions, actions_ld; /* A and the leading dimension of Q */
    bool dueling;
    size_t n_params;    /* P: floats in the block, padding included */
    size_t n_trainable; /* without padding, for people */
    size_t act_floats;  /* floats a batch row needs for all layers' outputs and kept preacts */
};

/* DQN_ERR_CONFIG when the sizes overflow. */
enum dqn_status dqn_net_init(struct dqn_net *net, size_t obs, size_t actions,
                             const struct dqn_config_net *config);

/* "51-256-256-45 relu, 90,669 parameters" */
const char *dqn_net_describe(const struct dqn_net *net, char *text, size_t size);

#endif
