/* Gradients of the CPU backend against central differences of the double-precision reference. */
#include "nn_fixture.h"
#include "ref/net_ref.h"

/* A batch as td and backward see it. Q(s', .) is data here. */
struct batch {
    size_t n;
    float *x, *next_online, *next_target, *reward, *discount, *weight;
    uint32_t *action;
    uint8_t *done;
};

static struct batch batch_make(const struct dqn_net *net, size_t n, uint64_t sequence) {
    struct batch b = {.n = n,
                      .x = random_rows(sequence, n, net->obs, net->obs_ld, 1.5),
                      .next_online = random_rows(sequence + 1, n, net->actions, net->actions_ld, 2),
                      .next_target = random_rows(sequence + 2, n, net->actions, net->actions_ld, 2),
                      .reward = random_rows(sequence + 3, n, 1, 1, 3),
                      .discount = random_rows(sequence + 4, n, 1, 1, 1),
                      .weight = random_rows(sequence + 5, n, 1, 1, 0.5),
                      .action = zeros(n, sizeof(uint32_t)),
                      .done = zeros(n, 1)};
    for (size_t i = 0; i < n; i++) {
        b.discount[i] = 0.9f + 0.09f * b.discount[i];
        b.weight[i] += 0.5f;
        b.action[i] = (uint32_t)((i * 7 + sequence) % net->actions);
        b.done[i] = i % 3 == 1;
    }
    return b;
}

static void batch_free(struct batch *b) {
    free(b->x);
    free(b->next_online);
    free(b->next_target);
    free(b->reward);
    free(b->discount);
    free(b->weight);
    free(b->action);
    free(b->done);
}

/* forward, td, backward. Returns the gradient [P]; the caller frees it. */
static float *gradient(struct bench *bench, const struct dqn_net *net, const float *params,
                       const struct batch *b, double delta, bool double_q, float grad_scale,
                       float *add_to, struct dqn_step_stats *stats) {
    const struct dqn_agent agent = {.huber_delta = delta};
    const struct dqn_counters counters = {0};
    struct dqn_step_stats batch_stats;
    float *acts = floats(b->n * net->act_floats), *q = floats(b->n * net->actions_ld);
    float *td = floats(b->n), *dq = floats(b->n * net->actions_ld);
    float *grads = add_to != NULL ? add_to : floats(net->n_params);
    void *workspace = malloc(nn->workspace_bytes(&bench->device, net, 1, b->n));
    memset(dq, 0x7f, b->n * net->actions_ld * sizeof *dq);
    if (add_to == NULL) {
        memset(grads, 0x7f, net->n_params * sizeof *grads); /* poison: it must be set */
    }
    const struct dqn_forward_args forward = {net, 1, b->n, params, b->x, acts, q, false};
    const struct dqn_td_args loss = {.n_agents = 1,
                                     .batch = b->n,
                                     .actions = net->actions,
                                     .actions_ld = net->actions_ld,
                                     .agents = &agent,
                                     .counters = &counters,
                                     .q = q,
                                     .q_next_online = double_q ? b->next_online : NULL,
                                     .q_next_target = b->next_target,
                                     .action = b->action,
                                     .reward = b->reward,
                                     .discount = b->discount,
                                     .done = b->done,
                                     .weight = b->weight,
                                     .grad_scale = grad_scale,
                                     .td = td,
                                     .dq = dq,
                                     .batch_stats = stats != NULL ? stats : &batch_stats};
    const struct dqn_backward_args backward = {net,  1,  b->n,  params,         b->x,
                                               acts, dq, grads, add_to != NULL, workspace};
    OK(nn->forward(bench->q, &forward));
    OK(nn->td(bench->q, &loss));
    OK(nn->backward(bench->q, &backward));
    bench_wait(bench);
    free(workspace);
    free(dq);
    free(td);
    free(q);
    free(acts);
    return grads;
}

/* mean over the batch of weight * loss(y - Q(s, a)), all in double. */
static double reference_loss(const struct dqn_net *net, const double *params, const struct batch *b,
                             double delta, bool double_q) {
    double sum = 0;
    for (size_t i = 0; i < b->n; i++) {
        double x[REF_WIDTH], q[REF_WIDTH], y = (double)b->reward[i];
        for (size_t j = 0; j < net->obs; j++) {
            x[j] = (double)b->x[i * net->obs_ld + j];
        }
        ref_forward(net, params, x, q);
        const float *chooser = (double_q ? b->next_online : b->next_target) + i * net->actions_ld;
        size_t best = 0;
        for (size_t a = 0; a < net->actions; a++) {
            best = chooser[a] > chooser[best] ? a : best;
        }
        if (!b->done[i]) {
            y += (double)b->discount[i] * (double)b->next_target[i * net->actions_ld + best];
        }
        sum += (double)b->weight[i] * ref_loss(y - q[b->action[i]], delta);
    }
    return sum / (double)b->n;
}

/* Worst |gradient - central difference|, relative to the largest difference. Padding must be 0. */
static double check_gradient(const struct dqn_net *net, const float *params, const float *grads,
                             const struct batch *b, double delta, bool double_q) {
    double *wide = zeros(net->n_params, sizeof *wide);
    bool *real = zeros(net->n_params, sizeof *real);
    for (size_t i = 0; i < net->n_params; i++) {
        wide[i] = (double)params[i];
    }
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct dqn_layer *layer = &net->layer[l];
        for (size_t o = 0; o < layer->out; o++) {
            real[layer->bias + o] = true;
            for (size_t i = 0; i < layer->in; i++) {
                real[layer->weight + o * layer->in_ld + i] = true;
            }
        }
    }
    double error = 0, largest = 0;
    const double h = 1e-6;
    for (size_t i = 0; i < net->n_params; i++) {
        double difference = 0;
        if (real[i]) {
            const double at = wide[i];
            wide[i] = at + h;
            difference = reference_loss(net, wide, b, delta, double_q);
            wide[i] = at - h;
            difference -= reference_loss(net, wide, b, delta, double_q);
            difference /= 2 * h;
            wide[i] = at;
        }
        error = worst(error, (double)grads[i], difference);
        largest = fmax(largest, fabs(difference));
    }
    free(real);
    free(wide);
    return error / largest;
}

Test(nn_gradient, against_central_differences) {
    struct bench bench;
    bench_open(&bench, 2, false);
    const struct dqn_agent agent = {.seed = 12};
    const int64_t hidden[] = {6, 9, 5};
    static const double deltas[] = {0, 1, 0.3};
    double worst_error = 0;
    for (int c = 0; c < 4 * 4 * 2 * 3; c++) {
        const enum dqn_activation activation = (enum dqn_activation)(c % 4);
        const size_t n_hidden = (size_t)(c / 4 % 4);
        const bool dueling = c / 16 % 2;
        const double delta = deltas[c / 32];
        struct dqn_net net;
        net_make(&net, 5, 3, n_hidden, hidden, activation, dueling);
        float *params = random_params(&bench, &net, 1, &agent);
        struct batch b = batch_make(&net, 13, (uint64_t)c * 10);
        float *grads = gradient(&bench, &net, params, &b, delta, c % 3 == 0, 1.0f / 13, NULL, NULL);
        const double error = check_gradient(&net, params, grads, &b, delta, c % 3 == 0);
        /* Float rounding through up to four layers; seen 3.1e-7. */
        cr_assert_lt(error, 5e-6, "activation %d, %zu hidden, dueling %d, delta %g: error %g",
                     activation, n_hidden, dueling, delta, error);
        worst_error = fmax(worst_error, error);
        free(grads);
        free(params);
        batch_free(&b);
    }
    cr_log_info("worst gradient error %g", worst_error);
    bench_close(&bench);
}

/* Sizes that use several shards and blocks, with rests. Worst errors seen: 4.5e-7. */
Test(nn_gradient, batch_is_the_mean_of_its_rows) {
    struct bench bench;
    bench_open(&bench, 2, false);
    const struct dqn_agent agent = {.seed = 5};
    static const size_t batches[] = {1, 31, 33, 257};
    for (size_t s = 0; s < DQN_COUNT_OF(batches); s++) {
        const int64_t hidden[] = {257, 33};
        struct dqn_net net;
        net_make(&net, 31, 33, 2, hidden, s % 2 ? DQN_ELU : DQN_RELU, s >= 2);
        float *params = random_params(&bench, &net, 1, &agent);
        struct batch b = batch_make(&net, batches[s], s * 10);
        float *grads = gradient(&bench, &net, params, &b, 1, true, 1.0f / (float)b.n, NULL, NULL);
        /* Single rows: the mean of their gradients, summed in double. */
        double *mean = zeros(net.n_params, sizeof *mean), error = 0, largest = 0;
        for (size_t i = 0; i < b.n; i++) {
            struct batch row = {1,
                                b.x + i * net.obs_ld,
                                b.next_online + i * net.actions_ld,
                                b.next_target + i * net.actions_ld,
                                b.reward + i,
                                b.discount + i,
                                b.weight + i,
                                b.action + i,
                                b.done + i};
            float *one = gradient(&bench, &net, params, &row, 1, true, 1, NULL, NULL);
            for (size_t p = 0; p < net.n_params; p++) {
                mean[p] += (double)one[p] / (double)b.n;
            }
            free(one);
        }
        for (size_t p = 0; p < net.n_params; p++) {
            error = worst(error, (double)grads[p], mean[p]);
            largest = fmax(largest, fabs(mean[p]));
        }
        cr_log_info("batch %zu: error %g", b.n, error / largest);
        cr_assert_lt(error / largest, 2e-6, "batch %zu: error %g", b.n, error / largest);
        free(mean);
        free(grads);
        free(params);
        batch_free(&b);
    }
    bench_close(&bench);
}

/* A row whose importance weight is 0 leaves the gradient of the batch without it, with the same
 * divisor; doubled weights double the gradient exactly. */
Test(nn_gradient, importance_weights) {
    struct bench bench;
    bench_open(&bench, 1, false);
    const struct dqn_agent agent = {.seed = 6};
    const int64_t hidden[] = {20};
    struct dqn_net net;
    net_make(&net, 7, 4, 1, hidden, DQN_TANH, false);
    float *params = random_params(&bench, &net, 1, &agent);
    struct batch b = batch_make(&net, 9, 400);
    const float kept = b.weight[8];
    const float scale = 1.0f / 9;
    float *all = gradient(&bench, &net, params, &b, 1, true, scale, NULL, NULL);
    b.weight[8] = 0;
    float *zero = gradient(&bench, &net, params, &b, 1, true, scale, NULL, NULL);
    b.n = 8;
    float *without = gradient(&bench, &net, params, &b, 1, true, scale, NULL, NULL);
    b.n = 9;
    b.weight[8] = kept;
    for (size_t i = 0; i < 9; i++) {
        b.weight[i] *= 2;
    }
    float *twice = gradient(&bench, &net, params, &b, 1, true, scale, NULL, NULL);
    double error = 0, moved = 0;
    for (size_t p = 0; p < net.n_params; p++) {
        error = worst(error, (double)zero[p], (double)without[p]);
        moved = worst(moved, (double)zero[p], (double)all[p]);
        cr_assert_eq(twice[p], 2 * all[p]);
    }
    cr_assert_lt(error, 1e-7, "error %g", error); /* only zeros were added */
    cr_assert_gt(moved, 1e-3);
    free(all);
    free(zero);
    free(without);
    free(twice);
    free(params);
    batch_free(&b);
    bench_close(&bench);
}

/* Two accumulated halves give the whole batch's gradient and sums of means. */
Test(nn_gradient, accumulation) {
    struct bench bench;
    bench_open(&bench, 2, false);
    const struct dqn_agent agent = {.seed = 6};
    const int64_t hidden[] = {40, 30};
    struct dqn_net net;
    net_make(&net, 7, 4, 2, hidden, DQN_SILU, true);
    float *params = random_params(&bench, &net, 1, &agent);
    struct batch b = batch_make(&net, 64, 500);
    struct dqn_step_stats whole_stats, half_stats;
    float *whole = gradient(&bench, &net, params, &b, 1, true, 1.0f / 64, NULL, &whole_stats);
    struct batch half = b;
    half.n = 32;
    float *sum = gradient(&bench, &net, params, &half, 1, true, 1.0f / 64, NULL, &half_stats);
    half.x += 32 * net.obs_ld;
    half.next_online += 32 * net.actions_ld;
    half.next_target += 32 * net.actions_ld;
    half.reward += 32;
    half.discount += 32;
    half.weight += 32;
    half.action += 32;
    half.done += 32;
    gradient(&bench, &net, params, &half, 1, true, 1.0f / 64, sum, NULL);
    double error = 0, largest = 0;
    for (size_t p = 0; p < net.n_params; p++) {
        error = worst(error, (double)sum[p], (double)whole[p]);
        largest = fmax(largest, fabs((double)whole[p]));
    }
    cr_assert_lt(error / largest, 1e-6, "error %g", error / largest); /* order of float sums */
    free(whole);
    free(sum);
    free(params);
    batch_free(&b);
    bench_close(&bench);
}

/* Three agents side by side equal each alone, byte for byte, at 1, 2 and 3 threads and late. */
Test(nn_gradient, agents_equal_alone_at_any_thread_count) {
    const int64_t hidden[] = {256, 64};
    enum { K = 3, B = 200 };
    struct dqn_net net;
    net_make(&net, 51, 45, 2, hidden, DQN_RELU, false);
    struct dqn_agent agents[K] = {{.seed = 1}, {.seed = 2}, {.seed = 3}};
    float *x = random_rows(1, K * B, net.obs, net.obs_ld, 1);
    float *dq = random_rows(2, K * B, net.actions, net.actions_ld, 0.01);
    float *first = NULL;
    for (int run = 1; run <= 4; run++) {
        struct bench b;
        bench_open(&b, run == 4 ? 2 : run, run == 4);
        float *params = random_params(&b, &net, K, agents);
        float *acts = floats(K * B * net.act_floats), *q = floats(K * B * net.actions_ld);
        float *grads = floats(K * net.n_params), *alone = floats(net.n_params);
        void *workspace = malloc(nn->workspace_bytes(&b.device, &net, K, B));
        const struct dqn_forward_args forward = {&net, K, B, params, x, acts, q, false};
        const struct dqn_backward_args backward = {&net, K,  B,     params, x,
                                                   acts, dq, grads, false,  workspace};
        OK(nn->forward(b.q, &forward));
        OK(nn->backward(b.q, &backward));
        bench_wait(&b);
        if (first == NULL) {
            first = floats(K * net.n_params);
            memcpy(first, grads, K * net.n_params * sizeof *grads);
        }
        cr_assert_eq(memcmp(first, grads, K * net.n_params * sizeof *grads), 0, "run %d", run);
        for (size_t k = 0; k < K; k++) {
            const float *own = params + k * net.n_params, *own_x = x + k * B * net.obs_ld;
            const struct dqn_forward_args f = {&net, 1, B, own, own_x, acts, q, false};
            const struct dqn_backward_args w = {
                &net, 1, B, own, own_x, acts, dq + k * B * net.actions_ld, alone, false, workspace};
            OK(nn->forward(b.q, &f));
            OK(nn->backward(b.q, &w));
            bench_wait(&b);
            cr_assert_eq(memcmp(alone, first + k * net.n_params, net.n_params * sizeof *alone), 0,
                         "agent %zu", k);
        }
        free(params);
        free(acts);
        free(q);
        free(grads);
        free(alone);
        free(workspace);
        bench_close(&b);
    }
    free(first);
    free(x);
    free(dq);
}
