/* Forward pass and initial parameters of the CPU backend. */
#include "cpu/activation_cpu.h"
#include "nn_fixture.h"
#include "ref/net_ref.h"

static const size_t odd_sizes[] = {1, 31, 33, 257};

/* ---- activations ---- */

/* Floats from -100 to 100, dense near 0. */
static float grid(int i) {
    const double t = (i - 50000) / 50000.0;
    return (float)(100 * t * t * t);
}

/* Units in the last place of float at a value of this size. */
static double ulps(double got, double want) {
    return fabs(got - want) / ldexp(1, ilogb(fmax(fabs(want), 1e-37)) - 23);
}

Test(nn, activations_against_libm) {
    double worst_tanh = 0, worst_elu = 0, worst_silu = 0, worst_exp = 0;
    for (int i = 0; i <= 100000; i++) {
        const float z = grid(i);
        const double d = (double)z;
        cr_assert_eq(dqn_act_relu(z), z > 0 ? z : 0);
        worst_tanh = fmax(worst_tanh, ulps((double)dqn_act_tanh(z), tanh(d)));
        worst_elu = fmax(worst_elu, ulps((double)dqn_act_elu(z), z > 0 ? d : expm1(d)));
        if (d > -80) { /* below, the result fades out at 1e-35 */
            worst_silu = fmax(worst_silu, ulps((double)dqn_act_silu(z), d / (1 + exp(-d))));
        }
        if (fabs(d) < 87) {
            worst_exp = fmax(worst_exp, ulps((double)dqn_act_exp(z), exp(d)));
        }
    }
    cr_log_info("ulp: exp %.2f tanh %.2f elu %.2f silu %.2f", worst_exp, worst_tanh, worst_elu,
                worst_silu);
    /* Seen: 0.99, 1.99, 0.79, 2.49. */
    cr_assert(worst_exp < 1.5 && worst_tanh < 2.5 && worst_elu < 1.5 && worst_silu < 3.5,
              "ulp: exp %.2f tanh %.2f elu %.2f silu %.2f", worst_exp, worst_tanh, worst_elu,
              worst_silu);
}

Test(nn, activations_at_the_edges) {
    const float inf = INFINITY;
    cr_assert_eq(dqn_act_tanh(inf), 1.0f);
    cr_assert_eq(dqn_act_tanh(-inf), -1.0f);
    cr_assert_eq(dqn_act_elu(-inf), -1.0f);
    cr_assert_eq(dqn_act_elu(inf), inf);
    cr_assert_eq(dqn_act_relu(-inf), 0.0f);
    cr_assert_eq(dqn_act_silu(1e30f), 1e30f);
    cr_assert_eq(dqn_act_tanh(1e-30f), 1e-30f);
    /* A NaN may not turn into a number on the way. */
    cr_assert(isnan(dqn_act_relu(NAN)) && isnan(dqn_act_tanh(NAN)) && isnan(dqn_act_elu(NAN)) &&
              isnan(dqn_act_silu(NAN)));
}

/* ---- forward ---- */

struct pass {
    float *x, *acts, *q;
};

static struct pass run_forward(struct bench *b, const struct dqn_net *net, size_t n_agents,
                               size_t batch, const float *params, uint64_t sequence) {
    struct pass p = {random_rows(sequence, n_agents * batch, net->obs, net->obs_ld, 2),
                     floats(n_agents * batch * net->act_floats),
                     floats(n_agents * batch * net->actions_ld)};
    memset(p.q, 0x7f, n_agents * batch * net->actions_ld * sizeof *p.q); /* poison */
    const struct dqn_forward_args args = {net, n_agents, batch, params, p.x, p.acts, p.q, false};
    OK(nn->forward(b->q, &args));
    bench_wait(b);
    return p;
}

static void free_pass(struct pass *p) {
    free(p->x);
    free(p->acts);
    free(p->q);
}

/* Worst |Q - reference| over the batch, relative to the largest reference |Q|. */
static double forward_error(const struct dqn_net *net, const float *params, const struct pass *p,
                            size_t batch) {
    double *wide = zeros(net->n_params, sizeof *wide);
    for (size_t i = 0; i < net->n_params; i++) {
        wide[i] = (double)params[i];
    }
    double error = 0, largest = 0;
    for (size_t b = 0; b < batch; b++) {
        double x[REF_WIDTH], q[REF_WIDTH];
        for (size_t i = 0; i < net->obs; i++) {
            x[i] = (double)p->x[b * net->obs_ld + i];
        }
        ref_forward(net, wide, x, q);
        for (size_t a = 0; a < net->actions_ld; a++) {
            const double got = (double)p->q[b * net->actions_ld + a];
            error = worst(error, got, a < net->actions ? q[a] : 0);
            largest = a < net->actions ? fmax(largest, fabs(q[a])) : largest;
        }
    }
    free(wide);
    return error / largest;
}

Test(nn, forward_against_reference) {
    struct bench b;
    bench_open(&b, 2, false);
    const struct dqn_agent agent = {.seed = 3};
    double worst_error = 0;
    for (size_t s = 0; s < DQN_COUNT_OF(odd_sizes); s++) {
        for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
            for (size_t n_hidden = 0; n_hidden <= 3; n_hidden++) {
                const size_t width = odd_sizes[(s + n_hidden) % 4], batch = odd_sizes[3 - s];
                const int64_t hidden[] = {(int64_t)width, 31, (int64_t)odd_sizes[s]};
                struct dqn_net net;
                net_make(&net, odd_sizes[(s + 1) % 4], 1 + s * 15, n_hidden, hidden,
                         (enum dqn_activation)activation, n_hidden % 2 == (size_t)activation % 2);
                float *params = random_params(&b, &net, 1, &agent);
                struct pass p = run_forward(&b, &net, 1, batch, params, 5 + s);
                const double error = forward_error(&net, params, &p, batch);
                /* Float sums of up to 257 products through four layers; seen 6.6e-7. */
                cr_assert_lt(error, 2e-6, "activation %d, %zu hidden, size %zu: error %g",
                             activation, n_hidden, odd_sizes[s], error);
                worst_error = fmax(worst_error, error);
                free_pass(&p);
                free(params);
            }
        }
    }
    cr_log_info("worst forward error %g", worst_error);
    bench_close(&b);
}

/* The reference network over 2000 states. A GPU is held to 1e-5 of the CPU's values: the CPU's own
 * residual must be well below that; seen 4.7e-7. */
Test(nn, forward_of_the_reference_network) {
    struct bench b;
    bench_open(&b, 2, false);
    const struct dqn_agent agent = {.seed = 11};
    const int64_t hidden[] = {256, 256};
    struct dqn_net net;
    net_make(&net, 51, 45, 2, hidden, DQN_RELU, false);
    float *params = random_params(&b, &net, 1, &agent);
    struct pass p = run_forward(&b, &net, 1, 2000, params, 77);
    const double error = forward_error(&net, params, &p, 2000);
    cr_log_info("error %g", error);
    cr_assert_lt(error, 2e-6, "error %g", error);
    /* Hidden outputs are where net.h says, rectified, with both signs before. */
    size_t positive = 0;
    const float *y = p.acts + 2000 * net.layer[0].output;
    for (size_t i = 0; i < 2000 * 256; i++) {
        cr_assert(y[i] >= 0);
        positive += y[i] > 0;
    }
    cr_assert(positive > 2000 * 64 && positive < 2000 * 192, "%zu of 512000 positive", positive);
    free_pass(&p);
    free(params);
    bench_close(&b);
}

/* A linear head: Q may be negative (no ReLU there), and dueling Q has mean V. */
Test(nn, heads) {
    struct bench b;
    bench_open(&b, 1, false);
    const struct dqn_agent agent = {.seed = 4};
    const int64_t hidden[] = {16};
    for (int dueling = 0; dueling <= 1; dueling++) {
        struct dqn_net net;
        net_make(&net, 5, 3, 1, hidden, DQN_RELU, dueling);
        float *params = random_params(&b, &net, 1, &agent);
        struct pass p = run_forward(&b, &net, 1, 64, params, 8);
        const struct dqn_layer *head = &net.layer[1];
        bool negative = false;
        for (size_t r = 0; r < 64; r++) {
            const float *q = p.q + r * net.actions_ld;
            const float *h = p.acts + 64 * head->output + r * head->out_ld;
            negative |= q[0] < 0;
            const double mean = ((double)q[0] + (double)q[1] + (double)q[2]) / 3;
            if (dueling) {
                /* Three roundings of numbers near 1. */
                cr_assert_float_eq(mean, (double)h[3], 1e-6, "%g %g", mean, (double)h[3]);
            } else {
                cr_assert_eq(memcmp(q, h, 4 * sizeof *q), 0);
            }
        }
        cr_assert(negative);
        free_pass(&p);
        free(params);
    }
    bench_close(&b);
}

/* A NaN in one row's observation reaches all of its action values, through every activation, and
 * no other row. */
Test(nn, nan_is_not_hidden) {
    struct bench b;
    bench_open(&b, 1, false);
    const struct dqn_agent agent = {.seed = 4};
    const int64_t hidden[] = {33, 17};
    for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
        struct dqn_net net;
        net_make(&net, 5, 3, 2, hidden, (enum dqn_activation)activation, activation % 2);
        float *params = random_params(&b, &net, 1, &agent);
        float *x = random_rows(9, 20, net.obs, net.obs_ld, 1);
        float *acts = floats(20 * net.act_floats), *q = floats(20 * net.actions_ld);
        x[7 * net.obs_ld + 2] = NAN;
        const struct dqn_forward_args args = {&net, 1, 20, params, x, acts, q, false};
        OK(nn->forward(b.q, &args));
        for (size_t r = 0; r < 20; r++) {
            for (size_t a = 0; a < net.actions; a++) {
                cr_assert_eq((bool)isnan(q[r * net.actions_ld + a]), r == 7,
                             "activation %d, row %zu", activation, r);
            }
        }
        free(params);
        free(x);
        free(acts);
        free(q);
    }
    bench_close(&b);
}

/* ---- what does not change results ---- */

Test(nn, agents_equal_alone_at_any_thread_count) {
    struct dqn_agent agents[3] = {{.seed = 1}, {.seed = 2}, {.seed = 900}};
    static const size_t batches[] = {1, 33, 256, 1000};
    for (size_t s = 0; s < DQN_COUNT_OF(batches); s++) {
        const size_t batch = batches[s];
        const int64_t hidden[] = {130, 65};
        struct dqn_net net;
        net_make(&net, 51, 45, 2, hidden, s % 2 ? DQN_SILU : DQN_TANH, s >= 2);
        const size_t agent_bytes = batch * net.actions_ld * sizeof(float);
        float *first = NULL;
        for (int threads = 1; threads <= 4; threads++) {
            struct bench b;
            bench_open(&b, threads == 4 ? 2 : threads, threads == 4); /* the last is late */
            float *params = random_params(&b, &net, 3, agents);
            struct pass p = run_forward(&b, &net, 3, batch, params, 21);
            if (first == NULL) {
                first = p.q;
                p.q = NULL;
            } else {
                cr_assert_eq(memcmp(p.q, first, 3 * agent_bytes), 0, "%d threads", threads);
            }
            for (size_t k = 0; k < 3; k++) {
                float *acts = floats(batch * net.act_floats), *q = floats(batch * net.actions_ld);
                const struct dqn_forward_args alone = {
                    &net, 1, batch, params + k * net.n_params, p.x + k * batch * net.obs_ld,
                    acts, q, false};
                OK(nn->forward(b.q, &alone));
                bench_wait(&b);
                cr_assert_eq(memcmp(q, first + k * batch * net.actions_ld, agent_bytes), 0,
                             "agent %zu, batch %zu", k, batch);
                free(acts);
                free(q);
            }
            free_pass(&p);
            free(params);
            bench_close(&b);
        }
        free(first);
    }
}

/* ---- init ---- */

Test(nn, init_bounds_moments_and_seeds) {
    struct bench b;
    bench_open(&b, 2, false);
    struct dqn_agent agents[2] = {{.seed = 1}, {.seed = 2}};
    const int64_t hidden[] = {200, 101};
    for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
        struct dqn_net net;
        net_make(&net, 51, 45, 2, hidden, (enum dqn_activation)activation, true);
        float *params = floats(2 * net.n_params);
        memset(params, 0x55, 2 * net.n_params * sizeof *params);
        const struct dqn_init_args args = {&net, 2, agents, params};
        OK(nn->init(b.q, &args));
        size_t equal = 0;
        for (size_t l = 0; l < 3; l++) {
            const struct dqn_layer *layer = &net.layer[l];
            const bool glorot = activation == DQN_TANH || l == 2;
            const double bound = sqrt(6.0 / (double)(glorot ? layer->in + layer->out : layer->in));
            double sum = 0, squares = 0, largest = 0;
            for (size_t o = 0; o < layer->out_ld; o++) {
                cr_assert_eq(params[layer->bias + o], 0.0f);
                for (size_t i = 0; i < layer->in_ld; i++) {
                    const size_t at = layer->weight + o * layer->in_ld + i;
                    const double w = (double)params[at];
                    if (o >= layer->out || i >= layer->in) {
                        cr_assert_eq(w, 0, "padding of layer %zu", l);
                        continue;
                    }
                    sum += w;
                    squares += w * w;
                    largest = fmax(largest, fabs(w));
                    equal += params[at] == params[net.n_params + at];
                }
            }
            /* Uniform: variance bound^2 / 3, whose estimate from n numbers has the relative
             * deviation sqrt(4 / (5 n)); five of them. The mean likewise. */
            const double n = (double)(layer->in * layer->out);
            cr_assert(largest <= bound * (1 + 1e-7) && largest > 0.99 * bound);
            cr_assert_lt(fabs(squares / n / (bound * bound / 3) - 1), 5 * sqrt(0.8 / n));
            cr_assert_lt(fabs(sum / n), 5 * bound / sqrt(3 * n));
        }
        cr_assert_lt(equal, 10, "the seeds of two agents give equal weights");
        /* Element 5 of the second layer, by hand: word 1 of block 2 of stream (init, 1). */
        const struct dqn_layer *layer = &net.layer[1];
        const double unit =
            dqn_rng_unit(dqn_rng_u64(dqn_rng_block(1, ((uint64_t)DQN_RNG_INIT << 56) | 1, 2), 1));
        const double fan = activation == DQN_TANH ? 301 : 200;
        cr_assert_eq(params[layer->weight + 5], (float)((2 * unit - 1) * sqrt(6 / fan)));
        free(params);
    }
    bench_close(&b);
}
