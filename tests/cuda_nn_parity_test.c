/* Every operation of the network, CPU against CUDA. Each test is one operation with an inner table
 * of sizes, because each test is a process and opens the device anew. Worst residuals are logged
 * (--verbose=1). */
#include "cuda_pair.h"

static const size_t agent_counts[] = {1, 3};

static void make_agents(struct dqn_agent *agents, size_t n) {
    memset(agents, 0, n * sizeof *agents);
    for (size_t k = 0; k < n; k++) {
        agents[k] = (struct dqn_agent){.seed = 0x123456789abcdefu * (k + 1),
                                       .gamma = 0.99,
                                       .lr_start = 1e-3 * (double)(k + 1),
                                       .lr_end = 1e-5,
                                       .lr_updates = 7,
                                       .lr_kind = k % 3,
                                       .eps_start = 1,
                                       .eps_end = 0.1,
                                       .eps_steps = 1000,
                                       .beta_start = 0.4,
                                       .beta_end = 1,
                                       .beta_updates = 100,
                                       .tau = k % 2 == 0 ? 0.01 : 0,
                                       .target_updates = k % 2 == 0 ? 0 : 3,
                                       .huber_delta = k % 3 == 2 ? 0 : 1,
                                       .max_grad_norm = 0,
                                       .adam_beta1 = 0.9,
                                       .adam_beta2 = 0.999,
                                       .adam_eps = 1e-8,
                                       .weight_decay = k == 1 ? 1e-2 : 0};
    }
}

/* ---- init ---- */

static void init_case(struct pair *pair, const struct dqn_net *net, size_t n_agents,
                      struct mirror *params) {
    struct dqn_agent agents[3];
    make_agents(agents, n_agents);
    struct mirror a = mirror_make(pair, n_agents * sizeof *agents, agents);
    *params = mirror_make(pair, n_agents * net->n_params * sizeof(float), NULL);
    for (int s = 0; s < SIDES; s++) {
        const struct dqn_init_args args = {net, n_agents, a.at[s], params->at[s]};
        OK(pair->side[s].backend->nn->init(pair->side[s].q, &args));
    }
    pair_wait(pair);
    mirror_free(pair, &a);
}

/* Random numbers, double arithmetic and padding are the same: equal bytes. */
Test(cuda_nn_parity, init_is_equal) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
        for (size_t i = 0; i < DQN_COUNT_OF(agent_counts); i++) {
            const int64_t hidden[] = {33, 257};
            struct dqn_net net;
            struct mirror params;
            net_make(&net, 51, 45, (size_t)activation % 3, hidden, activation, activation % 2 == 0);
            init_case(&pair, &net, agent_counts[i], &params);
            mirror_equal(&pair, &params, "initial parameters");
            mirror_free(&pair, &params);
        }
    }
    pair_close(&pair);
}

/* ---- forward and backward ---- */

struct shape {
    size_t obs, actions, n_hidden;
    int64_t hidden[3];
    size_t batch;
};

static const struct shape shapes[] = {{1, 1, 0, {0}, 1},
                                      {1, 2, 1, {1}, 1},
                                      {31, 3, 1, {33}, 31},
                                      {33, 5, 2, {31, 33}, 33},
                                      {4, 2, 2, {64, 64}, 255},
                                      {51, 45, 2, {256, 256}, 256},
                                      {51, 45, 2, {255, 257}, 257},
                                      {51, 45, 2, {256, 256}, 32},
                                      {7, 17, 3, {128, 31, 65}, 1024},
                                      {51, 45, 2, {256, 256}, 4096},
                                      {4, 2, 2, {256, 256}, 700},   /* warps share a narrow last */
                                      {20, 20, 1, {200}, 3000},     /* layer's sums, by seven, */
                                      {9, 33, 2, {64, 192}, 10000}, /* three and two */
                                      {200, 3, 0, {0}, 40},
                                      {51, 45, 2, {512, 512}, 300}}; /* above 1 MB: a library's */

/* Small networks; batches of 800 rows and more for the taller tiles, for sums in parts. */
static const struct shape few_shapes[] = {{1, 1, 0, {0}, 1},        {31, 3, 1, {33}, 31},
                                          {33, 5, 2, {31, 33}, 33}, {7, 5, 1, {200}, 800},
                                          {7, 17, 1, {32}, 2560},   {7, 5, 1, {32}, 2048}};

static size_t n_shapes(void) {
    return reduced(DQN_COUNT_OF(shapes), DQN_COUNT_OF(few_shapes));
}

static const struct shape *shape_at(size_t i) {
    return is_reduced() ? &few_shapes[i] : &shapes[i];
}

struct pass {
    struct dqn_net net;
    size_t n_agents, batch;
    struct mirror params, x, acts, q;
};

/* Parameters of init with random biases, so that no bias goes untested. */
static void random_biases(struct pair *pair, struct pass *p) {
    float *params = mirror_get(pair, &p->params, CPU);
    for (size_t k = 0; k < p->n_agents; k++) {
        for (size_t l = 0; l < p->net.n_layers; l++) {
            float *bias = params + k * p->net.n_params + p->net.layer[l].bias;
            for (size_t o = 0; o < p->net.layer[l].out; o++) {
                bias[o] = 0.3f * random_number(900 + 10 * k + l, o);
            }
        }
    }
    mirror_set(pair, &p->params, CPU, params);
    mirror_set(pair, &p->params, GPU, params);
    free(params);
}

static void forward(struct pair *pair, struct pass *p) {
    for (int s = 0; s < SIDES; s++) {
        const struct dqn_forward_args args = {.net = &p->net,
                                              .n_agents = p->n_agents,
                                              .batch = p->batch,
                                              .params = p->params.at[s],
                                              .x = p->x.at[s],
                                              .acts = p->acts.at[s],
                                              .q = p->q.at[s]};
        OK(pair->side[s].backend->nn->forward(pair->side[s].q, &args));
    }
    pair_wait(pair);
}

static void pass_open(struct pair *pair, struct pass *p, const struct shape *shape, int activation,
                      bool dueling, size_t n_agents) {
    net_make(&p->net, shape->obs, shape->actions, shape->n_hidden, shape->hidden, activation,
             dueling);
    p->n_agents = n_agents;
    p->batch = shape->batch;
    const size_t rows = n_agents * shape->batch;
    init_case(pair, &p->net, n_agents, &p->params);
    random_biases(pair, p);
    p->x = mirror_rows(pair, 5, rows, p->net.obs, p->net.obs_ld, 2);
    p->acts = mirror_make(pair, rows * p->net.act_floats * sizeof(float), NULL);
    p->q = mirror_make(pair, rows * p->net.actions_ld * sizeof(float), NULL);
    forward(pair, p);
}

static void pass_close(struct pair *pair, struct pass *p) {
    mirror_free(pair, &p->params);
    mirror_free(pair, &p->x);
    mirror_free(pair, &p->acts);
    mirror_free(pair, &p->q);
}

/* Worst over Q and the hidden layers' outputs and kept preactivations. */
static double forward_residual(struct pair *pair, const struct pass *p) {
    const size_t rows = p->n_agents * p->batch;
    double error = mirror_residual(pair, &p->q);
    for (size_t l = 0; l + 1 < p->net.n_layers; l++) {
        const struct dqn_layer *layer = &p->net.layer[l];
        const size_t n = rows * layer->out_ld;
        error = worse(error, mirror_residual_part(pair, &p->acts, rows * layer->output, n));
        if (layer->activation == DQN_SILU) {
            error = worse(error, mirror_residual_part(pair, &p->acts, rows * layer->preact, n));
        }
    }
    return error;
}

/* Largest residual of the forward pass over all shapes; fails above `limit`. */
static void forward_table(int precision, double limit, size_t first_shape) {
    struct pair pair;
    double worst = 0;
    pair_open(&pair, precision);
    for (size_t i = first_shape; i < n_shapes(); i++) {
        for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
            struct pass p;
            const bool dueling = (i + (size_t)activation) % 2 == 0;
            pass_open(&pair, &p, shape_at(i), activation, dueling, agent_counts[i % 2]);
            const double residual = forward_residual(&pair, &p);
            cr_expect(residual <= limit, "shape %zu activation %d dueling %d: residual %.3g", i,
                      activation, dueling, residual);
            worst = worse(worst, residual);
            pass_close(&pair, &p);
        }
    }
    cr_log_info("forward, precision %d: worst residual %.3g", precision, worst);
    pair_close(&pair);
}

/* Sums of up to 257 products in another order: about sqrt(257) roundings of 6e-8, through three
 * layers. */
Test(cuda_nn_parity, forward) {
    forward_table(DQN_PRECISION_FP32, 1e-5, 0);
}

/* Operands of 11 bits (2^-11 = 5e-4), averaged over the sum. */
Test(cuda_nn_parity, forward_tf32) {
    forward_table(DQN_PRECISION_TF32, 5e-3, 2);
}

/* Operands of 8 bits (2^-8 = 4e-3), averaged over the sum, in networks above 1 MB; those below take
 * tf32's kernels. */
Test(cuda_nn_parity, forward_bf16) {
    skip_reduced("the kernels of forward_tf32, and a library's");
    forward_table(DQN_PRECISION_BF16, 4e-2, 2);
}

/* A NaN in an observation may not turn into a number on its way to Q, or a broken environment would
 * train on. The row next to it stays clean. */
Test(cuda_nn_parity, nan_reaches_q) {
    struct pair pair;
    skip_reduced("the kernels of forward");
    pair_open(&pair, DQN_PRECISION_FP32);
    for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
        struct pass p;
        pass_open(&pair, &p, &shapes[3], activation, false, 1);
        float *x = mirror_get(&pair, &p.x, CPU);
        x[p.net.obs_ld + 2] = NAN;
        mirror_set(&pair, &p.x, CPU, x);
        mirror_set(&pair, &p.x, GPU, x);
        forward(&pair, &p);
        const float *q = mirror_get(&pair, &p.q, GPU);
        for (size_t a = 0; a < p.net.actions; a++) {
            cr_expect(!isnan(q[a]) && isnan(q[p.net.actions_ld + a]),
                      "activation %d action %zu: %g beside the NaN, %g behind it", activation, a,
                      (double)q[a], (double)q[p.net.actions_ld + a]);
        }
        free((void *)q);
        free(x);
        pass_close(&pair, &p);
    }
    pair_close(&pair);
}

static void backward(struct pair *pair, struct pass *p, const struct mirror *dq,
                     const struct mirror *grads, bool accumulate) {
    for (int s = 0; s < SIDES; s++) {
        const struct side *side = &pair->side[s];
        void *workspace = NULL;
        const size_t bytes =
            side->backend->nn->workspace_bytes(&side->device, &p->net, p->n_agents, p->batch);
        OK(side->backend->memory->alloc(&side->device, &workspace, bytes, false));
        const struct dqn_backward_args args = {.net = &p->net,
                                               .n_agents = p->n_agents,
                                               .batch = p->batch,
                                               .params = p->params.at[s],
                                               .x = p->x.at[s],
                                               .acts = p->acts.at[s],
                                               .dq = dq->at[s],
                                               .grads = grads->at[s],
                                               .accumulate = accumulate,
                                               .workspace = workspace};
        OK(side->backend->nn->backward(side->q, &args));
        OK(side->backend->queue->wait(side->q));
        side->backend->memory->free(&side->device, workspace, false);
    }
}

/* Worst over the layers' weights and biases, each against its own largest element. */
static double gradient_residual(struct pair *pair, const struct pass *p,
                                const struct mirror *grads) {
    float *cpu = mirror_get(pair, grads, CPU), *gpu = mirror_get(pair, grads, GPU);
    double error = 0;
    for (size_t k = 0; k < p->n_agents; k++) {
        for (size_t l = 0; l < p->net.n_layers; l++) {
            const struct dqn_layer *layer = &p->net.layer[l];
            const size_t at = k * p->net.n_params;
            const double w = residual_f32(cpu + at + layer->weight, gpu + at + layer->weight,
                                          layer->out_ld * layer->in_ld);
            const double b =
                residual_f32(cpu + at + layer->bias, gpu + at + layer->bias, layer->out_ld);
            error = worse(error, worse(w, b));
        }
    }
    free(cpu);
    free(gpu);
    return error;
}

/* Both sides get the CPU's layer outputs, or a ReLU that is just above zero on one side alone would
 * be judged instead of the backward pass. */
static void backward_table(int precision, double limit, size_t first_shape) {
    struct pair pair;
    double worst = 0;
    pair_open(&pair, precision);
    for (size_t i = first_shape; i < n_shapes(); i++) {
        for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
            struct pass p;
            const bool dueling = (i + (size_t)activation) % 2 == 1;
            pass_open(&pair, &p, shape_at(i), activation, dueling, agent_counts[(i + 1) % 2]);
            float *acts = mirror_get(&pair, &p.acts, CPU);
            mirror_set(&pair, &p.acts, GPU, acts);
            free(acts);
            const size_t rows = p.n_agents * p.batch;
            struct mirror dq =
                mirror_rows(&pair, 6, rows, p.net.actions, p.net.actions_ld, 1.0f / (float)p.batch);
            struct mirror grads =
                mirror_make(&pair, p.n_agents * p.net.n_params * sizeof(float), NULL);
            for (int round = 0; round < 2; round++) {
                backward(&pair, &p, &dq, &grads, round == 1);
                const double residual = gradient_residual(&pair, &p, &grads);
                cr_expect(residual <= limit,
                          "shape %zu activation %d dueling %d accumulate %d: residual %.3g", i,
                          activation, dueling, round, residual);
                worst = worse(worst, residual);
            }
            mirror_free(&pair, &dq);
            mirror_free(&pair, &grads);
            pass_close(&pair, &p);
        }
    }
    cr_log_info("backward, precision %d: worst residual %.3g", precision, worst);
    pair_close(&pair);
}

/* Sums of up to 4096 terms that cancel: 64 roundings of 6e-8, through three layers. */
Test(cuda_nn_parity, backward) {
    backward_table(DQN_PRECISION_FP32, 3e-5, 0);
}

/* Operands of 11 bits (2^-11 = 5e-4) through three layers, in sums that cancel. */
Test(cuda_nn_parity, backward_tf32) {
    backward_table(DQN_PRECISION_TF32, 1e-2, 2);
}

/* Operands of 8 bits, three fewer than tf32's, in networks above 1 MB: eight times its bound. Seen
 * 1.1e-3, as in tf32. */
Test(cuda_nn_parity, backward_bf16) {
    skip_reduced("the kernels of backward_tf32, and a library's");
    backward_table(DQN_PRECISION_BF16, 8e-2, 2);
}

/* ---- td ---- */

static const size_t action_counts[] = {1, 2, 4, 5, 8, 9, 17, 45, 63};
static const size_t row_counts[] = {1, 31, 33, 63, 64, 65, 255, 256, 257, 4096, 20000};
/* A number of actions for each number of lanes a row; 5000 rows are more than one for each block.
 */
static const size_t few_actions[] = {2, 5, 9, 45};
static const size_t few_rows[] = {1, 31, 33, 5000};

/* Q values on a coarse grid, so that ties are common; some NaN; garbage in the padding. */
static struct mirror make_q(struct pair *pair, uint64_t sequence, size_t rows, size_t actions,
                            size_t ld, bool with_nan) {
    float *q = calloc(rows * ld, sizeof *q);
    for (size_t r = 0; r < rows; r++) {
        for (size_t a = 0; a < ld; a++) {
            const float value = random_number(sequence, r * ld + a);
            q[r * ld + a] = a < actions ? roundf(8 * value) / 4 : 99;
            if (with_nan && a < actions && (value > 0.9f || r % 50 == 49)) {
                q[r * ld + a] = NAN;
            }
        }
    }
    struct mirror m = mirror_make(pair, rows * ld * sizeof *q, q);
    free(q);
    return m;
}

struct td_inputs {
    struct mirror agents, counters, q, online, target, action, reward, discount, done, weight;
    struct mirror td, dq, stats;
};

static void td_open(struct pair *pair, struct td_inputs *in, size_t n_agents, size_t batch,
                    size_t actions, size_t ld) {
    struct dqn_agent agents[3];
    struct dqn_counters counters[3];
    const size_t rows = n_agents * batch;
    uint32_t *action = calloc(rows, sizeof *action);
    uint8_t *done = calloc(rows, 1);
    float *weight = calloc(rows, sizeof *weight);
    make_agents(agents, n_agents);
    memset(counters, 0, sizeof counters);
    for (size_t k = 0; k < n_agents; k++) {
        counters[k].updates = 30 * k;
    }
    for (size_t r = 0; r < rows; r++) {
        action[r] = (uint32_t)dqn_rng_below(dqn_rng_u64(dqn_rng_block(1, 2, r), 0), actions);
        done[r] = random_number(71, r) > 0.7f;
        weight[r] = 0.05f + 0.9f * fabsf(random_number(72, r));
    }
    in->agents = mirror_make(pair, n_agents * sizeof *agents, agents);
    in->counters = mirror_make(pair, n_agents * sizeof *counters, counters);
    in->q = make_q(pair, 73, rows, actions, ld, false);
    in->online = make_q(pair, 74, rows, actions, ld, true);
    in->target = make_q(pair, 75, rows, actions, ld, false);
    in->action = mirror_make(pair, rows * sizeof *action, action);
    in->reward = mirror_rows(pair, 76, rows, 1, 1, 3);
    in->discount = mirror_rows(pair, 77, rows, 1, 1, 1);
    in->done = mirror_make(pair, rows, done);
    in->weight = mirror_make(pair, rows * sizeof *weight, weight);
    in->td = mirror_make(pair, rows * sizeof(float), NULL);
    in->dq = mirror_make(pair, rows * ld * sizeof(float), NULL);
    in->stats = mirror_make(pair, n_agents * sizeof(struct dqn_step_stats), NULL);
    free(action);
    free(done);
    free(weight);
}

static void td_close(struct pair *pair, struct td_inputs *in) {
    struct mirror *all = (struct mirror *)in;
    for (size_t i = 0; i < sizeof *in / sizeof *all; i++) {
        mirror_free(pair, &all[i]);
    }
}

static void td_run(struct pair *pair, struct td_inputs *in, size_t n_agents, size_t batch,
                   size_t actions, size_t ld, bool double_q, bool accumulate) {
    for (int s = 0; s < SIDES; s++) {
        const struct dqn_td_args args = {.n_agents = n_agents,
                                         .batch = batch,
                                         .actions = actions,
                                         .actions_ld = ld,
                                         .agents = in->agents.at[s],
                                         .counters = in->counters.at[s],
                                         .q = in->q.at[s],
                                         .q_next_online = double_q ? in->online.at[s] : NULL,
                                         .q_next_target = in->target.at[s],
                                         .action = in->action.at[s],
                                         .reward = in->reward.at[s],
                                         .discount = in->discount.at[s],
                                         .done = in->done.at[s],
                                         .weight = in->weight.at[s],
                                         .grad_scale = 1.0f / (float)batch,
                                         .td = in->td.at[s],
                                         .dq = in->dq.at[s],
                                         .batch_stats = in->stats.at[s],
                                         .accumulate = accumulate};
        OK(pair->side[s].backend->nn->td(pair->side[s].q, &args));
    }
    pair_wait(pair);
}

/* Worst relative difference of the statistics of n agents. */
static double stats_residual(struct pair *pair, const struct mirror *stats) {
    double *cpu = mirror_get(pair, stats, CPU), *gpu = mirror_get(pair, stats, GPU);
    double error = 0;
    for (size_t i = 0; i < stats->bytes / sizeof *cpu; i++) {
        const double distance = fabs(gpu[i] - cpu[i]) / fmax(1e-6, fabs(cpu[i]));
        error = isnan(error) || distance <= error ? error : distance;
    }
    free(cpu);
    free(gpu);
    return error;
}

/* Rows are the same arithmetic on both sides: equal bytes. The statistics are sums of up to 20000
 * doubles in another order. */
Test(cuda_nn_parity, td) {
    struct pair pair;
    const struct sizes action_sizes = SIZES(action_counts, few_actions);
    const struct sizes row_sizes = SIZES(row_counts, few_rows);
    double worst = 0;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < action_sizes.n; i++) {
        for (size_t j = 0; j < row_sizes.n; j++) {
            const size_t k = agent_counts[(i + j) % 2], batch = row_sizes.v[j];
            const size_t actions = action_sizes.v[i], ld = (actions + 3) / 4 * 4;
            struct td_inputs in;
            td_open(&pair, &in, k, batch, actions, ld);
            for (int round = 0; round < 2; round++) {
                td_run(&pair, &in, k, batch, actions, ld, round == 0, round == 1);
                mirror_equal(&pair, &in.td, "td");
                mirror_equal(&pair, &in.dq, "dq");
                const double residual = stats_residual(&pair, &in.stats);
                cr_expect(residual <= 1e-12, "%zu actions, %zu rows: statistics' residual %.3g",
                          actions, batch, residual);
                worst = worse(worst, residual);
            }
            td_close(&pair, &in);
        }
    }
    cr_log_info("td: worst residual of the statistics %.3g", worst);
    pair_close(&pair);
}

/* ---- act ---- */

/* The same random words, the same comparison: equal actions, equal counts. */
Test(cuda_nn_parity, act) {
    struct pair pair;
    const struct sizes action_sizes = SIZES(action_counts, few_actions);
    const struct sizes row_sizes = SIZES(row_counts, few_rows);
    static const double epsilons[] = {0, 0.3, 1, -1};
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < action_sizes.n; i++) {
        for (size_t j = 0; j < row_sizes.n; j++) {
            const size_t k = agent_counts[(i + j) % 2], lanes = row_sizes.v[j];
            const size_t actions = action_sizes.v[i], ld = (actions + 3) / 4 * 4;
            struct dqn_agent agents[3];
            struct dqn_counters counters[3];
            make_agents(agents, k);
            memset(counters, 0, sizeof counters);
            for (size_t n = 0; n < k; n++) {
                counters[n].vector_steps = ((uint64_t)1 << 33) + 5 * n;
                counters[n].env_steps = 400 * n;
            }
            uint64_t *zeros = calloc(k * actions, sizeof *zeros);
            struct mirror a = mirror_make(&pair, k * sizeof *agents, agents);
            struct mirror c = mirror_make(&pair, k * sizeof *counters, counters);
            struct mirror q = make_q(&pair, 81, k * lanes, actions, ld, true);
            struct mirror action = mirror_make(&pair, k * lanes * sizeof(uint32_t), NULL);
            struct mirror histogram = mirror_make(&pair, k * actions * sizeof *zeros, zeros);
            for (int s = 0; s < SIDES; s++) {
                const struct dqn_act_args args = {.n_agents = k,
                                                  .lanes = lanes,
                                                  .actions = actions,
                                                  .actions_ld = ld,
                                                  .agents = a.at[s],
                                                  .counters = c.at[s],
                                                  .purpose = DQN_RNG_POLICY,
                                                  .fixed_epsilon = epsilons[(i + j) % 4],
                                                  .q = q.at[s],
                                                  .action = action.at[s],
                                                  .histogram = histogram.at[s]};
                OK(pair.side[s].backend->nn->act(pair.side[s].q, &args));
                OK(pair.side[s].backend->nn->act(pair.side[s].q, &args)); /* counts add up */
            }
            pair_wait(&pair);
            mirror_equal(&pair, &action, "actions");
            mirror_equal(&pair, &histogram, "counts of actions");
            mirror_free(&pair, &a);
            mirror_free(&pair, &c);
            mirror_free(&pair, &q);
            mirror_free(&pair, &action);
            mirror_free(&pair, &histogram);
            free(zeros);
        }
    }
    pair_close(&pair);
}

/* ---- apply ---- */

struct apply_inputs {
    struct mirror agents, counters, params, target, grads, m, v, batch, stats, ok;
};

static void apply_run(struct pair *pair, const struct dqn_net *net, size_t n_agents,
                      struct apply_inputs *in) {
    for (int s = 0; s < SIDES; s++) {
        const struct side *side = &pair->side[s];
        void *workspace = NULL;
        OK(side->backend->memory->alloc(
            &side->device, &workspace,
            side->backend->nn->workspace_bytes(&side->device, net, n_agents, 1), false));
        const struct dqn_apply_args args = {.net = net,
                                            .n_agents = n_agents,
                                            .n_batches = 2,
                                            .max_nonfinite = 2,
                                            .agents = in->agents.at[s],
                                            .counters = in->counters.at[s],
                                            .params = in->params.at[s],
                                            .target = in->target.at[s],
                                            .grads = in->grads.at[s],
                                            .moment1 = in->m.at[s],
                                            .moment2 = in->v.at[s],
                                            .batch_stats = in->batch.at[s],
                                            .stats = in->stats.at[s],
                                            .ok = in->ok.at[s],
                                            .workspace = workspace};
        OK(side->backend->nn->apply(side->q, &args));
        OK(side->backend->queue->wait(side->q));
        side->backend->memory->free(&side->device, workspace, false);
    }
}

static void set_both(struct pair *pair, struct mirror *m, const void *data) {
    mirror_set(pair, m, CPU, data);
    mirror_set(pair, m, GPU, data);
}

/* Ten steps: ordinary, then a NaN in agent 0's last gradient, an infinite loss of the last agent,
 * and huge gradients (1e30, whose squares leave float, where they are clipped). Without clipping
 * the scale is 1 on both sides and everything but the statistics must be equal bytes; with it the
 * norm, a sum in another order, may round the scale differently. */
static void apply_case(struct pair *pair, const struct dqn_net *net, size_t n_agents, double clip,
                       double *worst) {
    struct dqn_agent agents[3];
    struct dqn_step_stats batch[3];
    const size_t p = net->n_params, n = n_agents * p;
    make_agents(agents, n_agents);
    for (size_t k = 0; k < n_agents; k++) {
        agents[k].max_grad_norm = clip;
    }
    void *zeros = calloc(n + 64, sizeof(float));
    struct apply_inputs in = {.agents = mirror_make(pair, n_agents * sizeof *agents, agents),
                              .counters =
                                  mirror_make(pair, n_agents * sizeof(struct dqn_counters), zeros),
                              .params = mirror_rows(pair, 1, n, 1, 1, 1),
                              .target = mirror_rows(pair, 2, n, 1, 1, 1),
                              .grads = mirror_make(pair, n * sizeof(float), NULL),
                              .m = mirror_make(pair, n * sizeof(float), zeros),
                              .v = mirror_make(pair, n * sizeof(float), zeros),
                              .batch = mirror_make(pair, n_agents * sizeof *batch, NULL),
                              .stats = mirror_make(pair, n_agents * sizeof *batch, zeros),
                              .ok = mirror_make(pair, n_agents * sizeof(uint32_t), NULL)};
    const float huge = clip > 0 ? 1e30f : 1e15f;
    for (int step = 0; step < 10; step++) {
        float *grads = random_rows(10 + (uint64_t)step, n, 1, 1, step == 8 ? huge : 0.5f);
        for (size_t k = 0; k < n_agents; k++) {
            batch[k] = (struct dqn_step_stats){.rows = 64, .loss = 1.5, .q_mean = 2, .beta = 1};
            batch[k].td_abs_max = step;
        }
        if (step == 4 || step == 5) {
            grads[p - 1] = NAN;
        }
        if (step == 6) {
            batch[n_agents - 1].loss = INFINITY;
        }
        set_both(pair, &in.grads, grads);
        set_both(pair, &in.batch, batch);
        apply_run(pair, net, n_agents, &in);
        mirror_equal(pair, &in.counters, "counters");
        mirror_equal(pair, &in.ok, "ok");
        free(grads);
    }
    const double residual =
        worse(worse(mirror_residual(pair, &in.params), mirror_residual(pair, &in.target)),
              worse(mirror_residual(pair, &in.m), mirror_residual(pair, &in.v)));
    cr_expect(residual <= (clip > 0 ? 1e-6 : 0), "%zu parameters, clip %g: residual %.3g", p, clip,
              residual);
    cr_expect(stats_residual(pair, &in.stats) <= 1e-12, "statistics' residual %.3g",
              stats_residual(pair, &in.stats));
    *worst = worse(*worst, residual);
    struct mirror *all = (struct mirror *)&in;
    for (size_t i = 0; i < sizeof in / sizeof *all; i++) {
        mirror_free(pair, &all[i]);
    }
    free(zeros);
}

Test(cuda_nn_parity, apply) {
    struct pair pair;
    double worst = 0;
    static const size_t widths[] = {1, 31, 33, 256, 1024}, few_widths[] = {1, 33, 256};
    const struct sizes sizes = SIZES(widths, few_widths);
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < sizes.n; i++) {
        const int64_t hidden[] = {(int64_t)sizes.v[i], (int64_t)sizes.v[i]};
        struct dqn_net net;
        net_make(&net, 51, 45, i == 0 ? 0 : 2, hidden, DQN_RELU, i % 2 == 1);
        for (size_t j = 0; j < DQN_COUNT_OF(agent_counts); j++) {
            apply_case(&pair, &net, agent_counts[j], 0, &worst);
            apply_case(&pair, &net, agent_counts[j], 1, &worst);
        }
    }
    cr_log_info("apply with clipping: worst residual %.3g", worst);
    pair_close(&pair);
}
