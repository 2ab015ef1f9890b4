/* What the network tests share: a CPU device with a queue, networks by widths, random numbers. */
#ifndef DQN_TESTS_NN_FIXTURE_H
#define DQN_TESTS_NN_FIXTURE_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "shared/rng.h"
#include "status_checks.h"

static const struct dqn_nn_ops *const nn = &dqn_cpu_nn_ops;

struct bench {
    struct dqn_device device;
    struct dqn_queue *q;
};

static inline void bench_open(struct bench *b, int threads, bool late) {
    const struct dqn_device_options options = {.threads = threads, .late_queue = late};
    OK(dqn_cpu_backend.memory->open(&b->device, &options));
    OK(dqn_cpu_backend.queue->create(&b->device, &b->q));
}

static inline void bench_wait(struct bench *b) {
    OK(dqn_cpu_backend.queue->wait(b->q));
}

static inline void bench_close(struct bench *b) {
    dqn_cpu_backend.queue->destroy(b->q);
    dqn_cpu_backend.memory->close(&b->device);
}

static inline void net_make(struct dqn_net *net, size_t obs, size_t actions, size_t n_hidden,
                            const int64_t *hidden, enum dqn_activation activation, bool dueling) {
    struct dqn_config_net config = {.activation = (int)activation, .dueling = dueling};
    config.hidden.n = n_hidden;
    for (size_t l = 0; l < n_hidden; l++) {
        config.hidden.v[l] = hidden[l];
    }
    OK(dqn_net_init(net, obs, actions, &config));
}

static inline void *zeros(size_t count, size_t size) {
    void *data = calloc(count > 0 ? count : 1, size);
    cr_assert_not_null(data);
    return data;
}

static inline float *floats(size_t count) {
    return zeros(count, sizeof(float));
}

/* Uniform in [-1, 1): number i of a named sequence. */
static inline double random_number(uint64_t sequence, uint64_t i) {
    return 2 * dqn_rng_unit(dqn_rng_u64(dqn_rng_block(987654321, sequence, i), 0)) - 1;
}

/* rows x ld floats in +-scale with zero padding beyond width. */
static inline float *random_rows(uint64_t sequence, size_t rows, size_t width, size_t ld,
                                 double scale) {
    float *data = floats(rows * ld);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < width; c++) {
            data[r * ld + c] = (float)(scale * random_number(sequence, r * width + c));
        }
    }
    return data;
}

/* K agents' parameters, biases random as well (init makes them zero). */
static inline float *random_params(struct bench *b, const struct dqn_net *net, size_t n_agents,
                                   const struct dqn_agent *agents) {
    float *params = floats(n_agents * net->n_params);
    const struct dqn_init_args args = {net, n_agents, agents, params};
    OK(nn->init(b->q, &args));
    bench_wait(b);
    for (size_t k = 0; k < n_agents; k++) {
        for (size_t l = 0; l < net->n_layers; l++) {
            float *bias = params + k * net->n_params + net->layer[l].bias;
            for (size_t o = 0; o < net->layer[l].out; o++) {
                bias[o] = (float)(0.3 * random_number(agents[k].seed * 100 + l, o));
            }
        }
    }
    return params;
}

/* Worst of |got - want|; NaN anywhere gives NaN. */
static inline double worst(double so_far, double got, double want) {
    const double error = fabs(got - want);
    return isnan(so_far) || error <= so_far ? so_far : error;
}

#endif
