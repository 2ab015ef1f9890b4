/* Loss, optimizer and target network of the CPU backend. */
#include "nn_fixture.h"
#include "shared/adam.h"
#include "shared/td.h"

/* ---- td ---- */

enum { TD_ROWS = 8, TD_ACTIONS = 3, TD_LD = 4 };

struct td_case {
    struct dqn_agent agent;
    struct dqn_counters counters;
    float q[TD_ROWS * TD_LD], online[TD_ROWS * TD_LD], target[TD_ROWS * TD_LD];
    uint32_t action[TD_ROWS];
    float reward[TD_ROWS], discount[TD_ROWS], weight[TD_ROWS];
    uint8_t done[TD_ROWS];
    float td[TD_ROWS], dq[TD_ROWS * TD_LD];
    struct dqn_step_stats stats;
};

static struct dqn_td_args td_args(struct td_case *c, size_t batch, bool double_q) {
    return (struct dqn_td_args){.n_agents = 1,
                                .batch = batch,
                                .actions = TD_ACTIONS,
                                .actions_ld = TD_LD,
                                .agents = &c->agent,
                                .counters = &c->counters,
                                .q = c->q,
                                .q_next_online = double_q ? c->online : NULL,
                                .q_next_target = c->target,
                                .action = c->action,
                                .reward = c->reward,
                                .discount = c->discount,
                                .done = c->done,
                                .weight = c->weight,
                                .grad_scale = 1.0f / (float)batch,
                                .td = c->td,
                                .dq = c->dq,
                                .batch_stats = &c->stats};
}

/* Errors -3 ... 3 with delta 0.5, 1, 2 (0: squared): loss and slope by the analytic formula; one
 * row a batch, so the loss of the stats is the row's. */
Test(learner_ops, huber_table) {
    struct bench b;
    bench_open(&b, 1, false);
    static const float errors[] = {-3, -1, -0.5f, 0, 0.5f, 1, 3};
    static const double deltas[] = {0, 0.5, 1, 2};
    for (size_t d = 0; d < DQN_COUNT_OF(deltas); d++) {
        for (size_t e = 0; e < DQN_COUNT_OF(errors); e++) {
            struct td_case c = {.agent = {.huber_delta = deltas[d]},
                                .reward = {errors[e]},
                                .done = {1},
                                .weight = {1},
                                .action = {1}};
            const struct dqn_td_args args = td_args(&c, 1, false);
            OK(nn->td(b.q, &args));
            const double x = (double)errors[e], delta = deltas[d] == 0 ? 1e9 : deltas[d];
            const double loss = fabs(x) <= delta ? 0.5 * x * x : delta * (fabs(x) - 0.5 * delta);
            cr_assert_eq(c.td[0], errors[e]);
            cr_assert_eq(c.stats.loss, loss, "error %g, delta %g: %g", x, delta, c.stats.loss);
            cr_assert_eq((double)c.dq[1], -fmax(-delta, fmin(delta, x)));
            cr_assert(c.dq[0] == 0 && c.dq[2] == 0 && c.dq[3] == 0);
            cr_assert_geq(c.stats.loss, 0);
        }
        /* Continuous at delta: the two branches meet. */
        const double at = deltas[d];
        cr_assert_float_eq(dqn_td_loss((float)at, at), dqn_td_loss(nextafterf((float)at, 9), at),
                           1e-6);
    }
    /* Errors whose squares leave float: the loss is finite, Huber's slope too. */
    cr_assert(isfinite(dqn_td_loss(1e30f, 0)) && isfinite(dqn_td_loss(-3e38f, 0)));
    cr_assert_eq(dqn_td_slope(1e30f, 1), 1.0f);
    cr_assert(isnan(dqn_td_loss(NAN, 1)) && isnan(dqn_td_slope(NAN, 1)));
    bench_close(&b);
}

/* Online net prefers action 2, target net action 0: double DQN values 2 by the target net, plain
 * DQN takes the target net's largest. */
Test(learner_ops, double_and_plain_targets) {
    struct bench b;
    bench_open(&b, 1, false);
    struct td_case c = {.agent = {.huber_delta = 1},
                        .q = {1, 2, 3, 0, 1, 2, 3, 0},
                        .online = {1, 5, 7, 0, 7, 7, 1, 0},
                        .target = {10, 20, 4, 0, 30, 40, 50, 0},
                        .action = {2, 0},
                        .reward = {0.5f, 1},
                        .discount = {0.5f, 0.25f},
                        .weight = {1, 1}};
    const struct dqn_td_args twice = td_args(&c, 2, true);
    OK(nn->td(b.q, &twice));
    cr_assert_eq(c.td[0], 0.5f + 0.5f * 4 - 3);
    cr_assert_eq(c.td[1], 1 + 0.25f * 30 - 1); /* a tie of the online net: the lowest index */
    const struct dqn_td_args plain = td_args(&c, 2, false);
    OK(nn->td(b.q, &plain));
    cr_assert_eq(c.td[0], 0.5f + 0.5f * 20 - 3);
    cr_assert_eq(c.td[1], 1 + 0.25f * 50 - 1);
    /* A terminated row does not look at s', not even at a NaN. */
    c.done[0] = 1;
    c.target[0] = c.target[1] = c.target[2] = NAN;
    OK(nn->td(b.q, &plain));
    cr_assert_eq(c.td[0], 0.5f - 3);
    bench_close(&b);
}

Test(learner_ops, td_stats) {
    struct bench b;
    bench_open(&b, 1, false);
    struct td_case c = {.agent = {.beta_start = 0.4, .beta_end = 1, .beta_updates = 10},
                        .counters = {.updates = 5},
                        .q = {1, 2, 3, 99, -1, -2, -3, 99},
                        .action = {0, 1},
                        .reward = {3, -6},
                        .done = {1, 1},
                        .weight = {0.5f, 0.25f}};
    struct dqn_td_args args = td_args(&c, 2, false);
    memset(&c.stats, 0x55, sizeof c.stats);
    OK(nn->td(b.q, &args)); /* td 2 and -4 */
    cr_assert_eq(c.stats.loss, (0.5 * 2 + 0.25 * 8) / 2);
    cr_assert_eq(c.stats.q_mean, -0.5);
    cr_assert_eq(c.stats.q_max, 1); /* (3 - 1) / 2; the padding's 99 does not count */
    cr_assert_eq(c.stats.td_abs, 3);
    cr_assert_eq(c.stats.td_abs_max, 4);
    cr_assert_eq(c.stats.weight_min, 0.25);
    cr_assert_eq(c.stats.rows, 2);
    cr_assert_float_eq(c.stats.beta, 0.7, 1e-12);
    cr_assert(c.stats.updates == 0 && c.stats.grad_norm == 0 && c.stats.lr == 0);
    cr_assert_eq(c.dq[0], -0.5f * 0.5f * 2);
    cr_assert_eq(c.dq[5], -0.5f * 0.25f * -4);
    args.accumulate = true;
    c.weight[1] = 0.125f;
    c.reward[0] = 11;
    OK(nn->td(b.q, &args)); /* joined: td 10 and -4 */
    cr_assert_eq(c.stats.loss, 1.5 + (0.5 * 50 + 0.125 * 8) / 2);
    cr_assert_eq(c.stats.td_abs, 3.0 + 7.0);
    cr_assert_eq(c.stats.td_abs_max, 10);
    cr_assert_eq(c.stats.weight_min, 0.375);
    cr_assert_eq(c.stats.rows, 4);
    cr_assert_float_eq(c.stats.beta, 1.4, 1e-12);
    bench_close(&b);
}

/* ---- apply ---- */

/* A linear net 3 -> 2: P = 4 * 4 + 4 floats with padding; tests use it as a plain vector. */
struct apply_case {
    struct dqn_net net;
    struct dqn_agent agent;
    struct dqn_counters counters;
    float *params, *target, *grads, *m, *v;
    struct dqn_step_stats batch, stats;
    uint32_t ok;
    void *workspace;
    size_t n_batches;
};

static void apply_open(struct apply_case *c, struct bench *b, size_t obs, size_t actions) {
    memset(c, 0, sizeof *c);
    net_make(&c->net, obs, actions, 0, NULL, DQN_RELU, false);
    const size_t p = c->net.n_params;
    c->params = random_rows(1, p, 1, 1, 1);
    c->target = random_rows(2, p, 1, 1, 1);
    c->grads = random_rows(3, p, 1, 1, 0.1);
    c->m = floats(p);
    c->v = floats(p);
    c->workspace = malloc(nn->workspace_bytes(&b->device, &c->net, 1, 1));
    c->n_batches = 1;
    c->agent = (struct dqn_agent){.lr_start = 1e-2,
                                  .tau = 0.25,
                                  .max_grad_norm = 1e9,
                                  .adam_beta1 = 0.9,
                                  .adam_beta2 = 0.999,
                                  .adam_eps = 1e-8};
}

static void apply_run(struct apply_case *c, struct bench *b) {
    const struct dqn_apply_args args = {.net = &c->net,
                                        .n_agents = 1,
                                        .n_batches = c->n_batches,
                                        .max_nonfinite = 3,
                                        .agents = &c->agent,
                                        .counters = &c->counters,
                                        .params = c->params,
                                        .target = c->target,
                                        .grads = c->grads,
                                        .moment1 = c->m,
                                        .moment2 = c->v,
                                        .batch_stats = &c->batch,
                                        .stats = &c->stats,
                                        .ok = &c->ok,
                                        .workspace = c->workspace};
    OK(nn->apply(b->q, &args));
    bench_wait(b);
}

static void apply_close(struct apply_case *c) {
    free(c->params);
    free(c->target);
    free(c->grads);
    free(c->m);
    free(c->v);
    free(c->workspace);
}

/* Three steps of one parameter by hand: p = 1, lr 0.1, gradients 1, 1, -2 (beta 0.5, 0.75, so
 * that all numbers are short). m: .5 .75 -.625; v: .25 .4375 1.328125; bias corrections .5 .75
 * .875 and .25 .4375 .578125. Steps: 1/1, 1/1, (-.625/.875)/sqrt(1.328125/.578125). */
Test(learner_ops, adam_by_hand) {
    struct bench b;
    struct apply_case c;
    bench_open(&b, 1, false);
    apply_open(&c, &b, 1, 1);
    c.agent.lr_start = 0.1;
    c.agent.adam_beta1 = 0.5;
    c.agent.adam_beta2 = 0.75;
    c.params[0] = 1;
    static const float grads[] = {1, 1, -2};
    static const double want_m[] = {0.5, 0.75, -0.625}, want_v[] = {0.25, 0.4375, 1.328125};
    static const double want_p[] = {0.9, 0.8, 0.8 + 0.0714285714286 / 1.51568846};
    for (size_t t = 0; t < 3; t++) {
        memset(c.grads, 0, c.net.n_params * sizeof *c.grads);
        c.grads[0] = grads[t];
        apply_run(&c, &b);
        cr_assert_eq(c.ok, 1);
        cr_assert_eq((double)c.m[0], want_m[t]);
        cr_assert_eq((double)c.v[0], want_v[t]);
        /* Half a unit of float at 1 a step. */
        cr_assert_float_eq((double)c.params[0], want_p[t], 2e-7, "step %zu: %.9g", t,
                           (double)c.params[0]);
    }
    cr_assert(c.counters.updates == 3 && c.counters.adam_steps == 3);
    apply_close(&c);
    bench_close(&b);
}

/* 300 steps with schedule, decay, clipping and a soft target, against a plain double loop. */
Test(learner_ops, adam_against_double) {
    struct bench b;
    struct apply_case c;
    bench_open(&b, 2, false);
    apply_open(&c, &b, 200, 101); /* more than one block of the norm, with a rest */
    const size_t n = c.net.n_params;
    c.agent.lr_kind = DQN_SCHEDULE_LINEAR;
    c.agent.lr_end = 1e-3;
    c.agent.lr_updates = 200;
    c.agent.weight_decay = 0.1;
    c.agent.max_grad_norm = 8;
    double *p = zeros(n, 8), *m = zeros(n, 8), *v = zeros(n, 8), *target = zeros(n, 8);
    for (size_t i = 0; i < n; i++) {
        p[i] = (double)c.params[i];
        target[i] = (double)c.target[i];
    }
    size_t clipped = 0;
    double norms = 0;
    for (int t = 1; t <= 300; t++) {
        double squares = 0;
        for (size_t i = 0; i < n; i++) {
            c.grads[i] = (float)(0.1 * random_number(40 + (uint64_t)t % 7, i) * (t % 5 + 1) / 4);
            squares += (double)c.grads[i] * (double)c.grads[i];
        }
        const double norm = sqrt(squares);
        const double scale = norm > 8 ? 8 / norm : 1;
        const double lr = t - 1 >= 200 ? 1e-3 : 1e-2 + (1e-3 - 1e-2) * (t - 1) / 200.0;
        clipped += norm > 8;
        norms += norm;
        for (size_t i = 0; i < n; i++) {
            const double g = (double)c.grads[i] * scale;
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            const double direction =
                m[i] / (1 - pow(0.9, t)) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
            p[i] -= lr * (direction + 0.1 * p[i]);
            target[i] += 0.25 * (p[i] - target[i]);
        }
        apply_run(&c, &b);
    }
    double error = 0, target_error = 0;
    for (size_t i = 0; i < n; i++) {
        error = worst(error, (double)c.params[i], p[i]);
        target_error = worst(target_error, (double)c.target[i], target[i]);
    }
    cr_log_info("worst parameter error %g, target %g", error, target_error);
    /* 300 roundings of numbers up to 4, 1.2e-7 each; seen 2.0e-6. */
    cr_assert_lt(error, 5e-6, "error %g", error);
    cr_assert_lt(target_error, 5e-6, "error %g", target_error);
    cr_assert(clipped > 50 && clipped < 250, "%zu", clipped);
    cr_assert(c.counters.clipped == clipped && c.stats.clipped == (double)clipped);
    cr_assert_float_eq(c.stats.grad_norm / norms, 1, 1e-12);
    free(p);
    free(m);
    free(v);
    free(target);
    apply_close(&c);
    bench_close(&b);
}

Test(learner_ops, apply_reports_means_of_accumulated_batches) {
    struct bench b;
    struct apply_case c;
    bench_open(&b, 1, false);
    apply_open(&c, &b, 3, 2);
    c.n_batches = 2;
    c.batch = (struct dqn_step_stats){.rows = 64,
                                      .loss = 3,
                                      .q_mean = 5,
                                      .q_max = 7,
                                      .td_abs = 9,
                                      .weight_min = 1,
                                      .beta = 0.8,
                                      .td_abs_max = 6};
    c.stats.loss = 100;
    c.stats.td_abs_max = 5;
    apply_run(&c, &b);
    c.batch.td_abs_max = 2;
    apply_run(&c, &b);
    cr_assert_eq(c.stats.updates, 2);
    cr_assert_eq(c.stats.rows, 128);
    cr_assert_eq(c.stats.loss, 103);
    cr_assert_eq(c.stats.q_mean, 5);
    cr_assert_eq(c.stats.q_max, 7);
    cr_assert_eq(c.stats.td_abs, 9);
    cr_assert_eq(c.stats.weight_min, 1);
    cr_assert_eq(c.stats.beta, 0.8);
    cr_assert_eq(c.stats.td_abs_max, 6);
    cr_assert_float_eq(c.stats.lr, 2e-2, 1e-15);
    apply_close(&c);
    bench_close(&b);
}

/* Gradients of 1e19, whose squares overflow float, are clipped to the limit. After one step from
 * zero moments m = (1 - beta1) * clipped gradient, so m's norm shows what arrived. */
Test(learner_ops, clip_cannot_overflow) {
    struct bench b;
    struct apply_case c;
    bench_open(&b, 1, false);
    static const float sizes[] = {1e19f, 3e38f, 1e-3f, 1e-30f};
    for (size_t s = 0; s < DQN_COUNT_OF(sizes); s++) {
        apply_open(&c, &b, 40, 30);
        c.agent.max_grad_norm = 10;
        for (size_t i = 0; i < c.net.n_params; i++) {
            c.grads[i] = i % 2 == 0 ? sizes[s] : -sizes[s];
        }
        apply_run(&c, &b);
        double squares = 0;
        for (size_t i = 0; i < c.net.n_params; i++) {
            squares += (double)c.m[i] * (double)c.m[i];
            cr_assert(isfinite(c.params[i]) && isfinite(c.v[i]));
        }
        const double arrived = sqrt(squares) / 0.1;
        const double want = fmin(10, (double)sizes[s] * sqrt((double)c.net.n_params));
        cr_assert_float_eq(arrived / want, 1, 1e-6, "size %g: norm %g", (double)sizes[s], arrived);
        cr_assert_eq(c.counters.clipped, s < 2);
        apply_close(&c);
    }
    bench_close(&b);
}

/* NaN or Inf in one element, or in the loss: nothing moves, it is counted by where, and a run of
 * max_nonfinite freezes the agent. */
Test(learner_ops, nonfinite_updates_are_skipped) {
    struct bench b;
    bench_open(&b, 2, false);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t kind = 0; kind < 6; kind++) {
        struct apply_case c;
        apply_open(&c, &b, 200, 100);
        apply_run(&c, &b);
        const size_t n = c.net.n_params, bytes = n * sizeof(float);
        float *before = floats(4 * n);
        memcpy(before, c.params, bytes);
        memcpy(before + n, c.target, bytes);
        memcpy(before + 2 * n, c.m, bytes);
        memcpy(before + 3 * n, c.v, bytes);
        const float good = c.grads[n - 7];
        struct dqn_step_stats stats = c.stats;
        for (uint64_t streak = 1; streak <= 2; streak++) {
            if (kind < 3) {
                c.batch.loss = (double)bad[kind];
            } else {
                c.grads[n - 7] = bad[kind - 3];
            }
            apply_run(&c, &b);
            cr_assert_eq(c.ok, 0);
            cr_assert_eq(c.counters.nonfinite_streak, streak);
            cr_assert_eq(c.counters.nonfinite_where, kind < 3 ? 1 : 2);
            cr_assert_eq(c.counters.nonfinite_update, 1 + streak);
        }
        cr_assert(c.counters.updates == 3 && c.counters.adam_steps == 1);
        cr_assert_eq(memcmp(before, c.params, bytes), 0);
        cr_assert_eq(memcmp(before + n, c.target, bytes), 0);
        cr_assert_eq(memcmp(before + 2 * n, c.m, bytes), 0);
        cr_assert_eq(memcmp(before + 3 * n, c.v, bytes), 0);
        cr_assert_eq(memcmp(&stats, &c.stats, sizeof stats), 0);
        /* A good one ends the streak; three bad ones freeze. */
        c.batch.loss = 0;
        c.grads[n - 7] = good;
        apply_run(&c, &b);
        cr_assert(c.ok == 1 && c.counters.nonfinite_streak == 0 && c.counters.nonfinite == 2);
        c.batch.loss = NAN;
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(c.counters.failed, 0);
            apply_run(&c, &b);
        }
        cr_assert(c.counters.failed == 1 && c.counters.nonfinite == 5);
        c.batch.loss = 0;
        const struct dqn_counters frozen = c.counters;
        memcpy(before, c.params, bytes);
        apply_run(&c, &b);
        cr_assert_eq(c.ok, 0);
        cr_assert_eq(memcmp(before, c.params, bytes), 0);
        cr_assert_eq(memcmp(&frozen, &c.counters, sizeof frozen), 0);
        free(before);
        apply_close(&c);
    }
    bench_close(&b);
}

/* Hard target, interval 501: copied after updates 501, 1002, ... and at no other; the unit is
 * optimizer updates, and the counters are all the state there is. */
Test(learner_ops, hard_target_copies) {
    struct bench b;
    struct apply_case c;
    bench_open(&b, 1, false);
    apply_open(&c, &b, 3, 2);
    c.agent.target_updates = 501;
    c.agent.tau = 0;
    const size_t bytes = c.net.n_params * sizeof(float);
    float *last = floats(c.net.n_params);
    memcpy(last, c.target, bytes);
    uint64_t copies = 0;
    for (uint64_t u = 1; u <= 25000; u++) {
        apply_run(&c, &b);
        if (u % 501 == 0) {
            copies++;
            cr_assert_eq(memcmp(c.target, c.params, bytes), 0, "no copy after update %zu",
                         (size_t)u);
            memcpy(last, c.target, bytes);
        } else {
            cr_assert_eq(memcmp(c.target, last, bytes), 0, "copy after update %zu", (size_t)u);
        }
        cr_assert_eq(c.counters.target_copies, copies);
    }
    cr_assert_eq(copies, 49);
    free(last);
    apply_close(&c);
    bench_close(&b);
}

/* Three agents with unlike settings equal each alone, at any thread count. */
Test(learner_ops, apply_agents_equal_alone) {
    enum { K = 3 };
    struct dqn_net net;
    const int64_t hidden[] = {130, 140};
    net_make(&net, 51, 45, 2, hidden, DQN_RELU, false);
    const size_t n = net.n_params;
    float *first = NULL;
    for (int run = 1; run <= 4; run++) {
        struct bench b;
        bench_open(&b, run == 4 ? 2 : run, run == 4);
        struct dqn_agent agents[K];
        for (size_t k = 0; k < K; k++) {
            agents[k] = (struct dqn_agent){.seed = k,
                                           .lr_start = 1e-3 * (double)(k + 1),
                                           .tau = k == 0 ? 0.01 : 0,
                                           .target_updates = k == 0 ? 0 : k + 1,
                                           .max_grad_norm = k == 1 ? 1 : 100,
                                           .adam_beta1 = 0.9,
                                           .adam_beta2 = 0.999,
                                           .adam_eps = 1e-8};
        }
        float *data[2];
        for (size_t pass = 0; pass < 2; pass++) {
            float *params = random_params(&b, &net, K, agents);
            float *grads = random_rows(5, K * n, 1, 1, 0.1);
            float *state = floats(3 * K * n);
            struct dqn_counters counters[K] = {0};
            struct dqn_step_stats batch[K] = {0}, stats[K] = {0};
            uint32_t ok[K];
            void *workspace = malloc(nn->workspace_bytes(&b.device, &net, K, 1));
            for (int step = 0; step < 4; step++) {
                for (size_t k = 0; k < (pass == 0 ? 1 : K); k++) {
                    const struct dqn_apply_args args = {&net,
                                                        pass == 0 ? K : 1,
                                                        1,
                                                        10,
                                                        agents + k,
                                                        counters + k,
                                                        params + k * n,
                                                        state + k * n,
                                                        grads + k * n,
                                                        state + (K + k) * n,
                                                        state + (2 * K + k) * n,
                                                        batch + k,
                                                        stats + k,
                                                        ok + k,
                                                        workspace};
                    OK(nn->apply(b.q, &args));
                    bench_wait(&b);
                }
            }
            data[pass] = floats(4 * K * n);
            memcpy(data[pass], params, K * n * sizeof *params);
            memcpy(data[pass] + K * n, state, 3 * K * n * sizeof *params);
            free(params);
            free(grads);
            free(state);
            free(workspace);
        }
        cr_assert_eq(memcmp(data[0], data[1], 4 * K * n * sizeof **data), 0);
        free(data[1]);
        if (first == NULL) {
            first = data[0];
        } else {
            cr_assert_eq(memcmp(data[0], first, 4 * K * n * sizeof **data), 0, "run %d", run);
            free(data[0]);
        }
        bench_close(&b);
    }
    free(first);
}
