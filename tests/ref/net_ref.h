/* Slow reference of the Q-network in double precision: one row at a time, plain sums, libm. It
 * shares nothing with the code under test but the offsets of struct dqn_net. */
#ifndef DQN_TESTS_REF_NET_REF_H
#define DQN_TESTS_REF_NET_REF_H

#include <math.h>
#include <string.h>

#include "net.h"

enum { REF_WIDTH = 512 };

static inline double ref_activation(enum dqn_activation activation, double z) {
    switch (activation) {
    case DQN_RELU:
        return z > 0 ? z : 0;
    case DQN_TANH:
        return tanh(z);
    case DQN_ELU:
        return z > 0 ? z : expm1(z);
    case DQN_SILU:
        return z / (1 + exp(-z));
    case DQN_LINEAR:
        return z;
    }
    return NAN;
}

/* q[A] of one observation x[O]; params [P] in double. */
static inline void ref_forward(const struct dqn_net *net, const double *params, const double *x,
                               double *q) {
    double in[REF_WIDTH], out[REF_WIDTH];
    memcpy(in, x, net->obs * sizeof *in);
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct dqn_layer *layer = &net->layer[l];
        for (size_t o = 0; o < layer->out; o++) {
            double z = params[layer->bias + o];
            for (size_t i = 0; i < layer->in; i++) {
                z += params[layer->weight + o * layer->in_ld + i] * in[i];
            }
            out[o] = ref_activation(layer->activation, z);
        }
        memcpy(in, out, layer->out * sizeof *in);
    }
    double mean = 0;
    for (size_t a = 0; a < net->actions; a++) {
        mean += in[a] / (double)net->actions;
    }
    for (size_t a = 0; a < net->actions; a++) {
        q[a] = net->dueling ? in[net->actions] + in[a] - mean : in[a];
    }
}

/* The loss as the equation states it: Huber (delta > 0) or half the square (delta = 0). */
static inline double ref_loss(double error, double delta) {
    if (delta == 0 || fabs(error) <= delta) {
        return error * error / 2;
    }
    return delta * fabs(error) - delta * delta / 2;
}

#endif
