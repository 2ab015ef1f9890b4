/* What must be equal bytes on the GPU: an agent alone and in a population, a run repeated, and a
 * captured program against its function called each time. All by whole learner steps. */
#include "cuda_pair.h"
#include "program.h"

enum { AGENTS = 3 };

/* A program is called, then captured, then launched again: three at least. */
static int n_steps(void) {
    return (int)reduced(5, 3);
}

struct step {
    struct side *side;
    struct dqn_net net;
    size_t n_agents, batch;
    struct dqn_agent *agents;
    struct dqn_counters *counters;
    float *params, *target, *grads, *m, *v;
    float *x, *x_next, *acts, *q, *q_next, *q_next_target, *dq, *td;
    uint32_t *action, *ok;
    float *reward, *discount, *weight;
    uint8_t *done;
    struct dqn_step_stats *batch_stats, *stats;
    void *workspace;
};

/* Device memory with `data`, or zeros. */
static void *device_memory(const struct side *side, size_t bytes, const void *data) {
    void *memory = NULL;
    OK(side->backend->memory->alloc(&side->device, &memory, bytes, false));
    if (data != NULL) {
        OK(side->backend->memory->copy(side->q, memory, data, bytes, DQN_COPY_TO_DEVICE));
        OK(side->backend->queue->wait(side->q));
    }
    return memory;
}

/* Rows of agents [first, first + n) of a sequence that all populations share. */
static float *device_rows(const struct side *side, uint64_t sequence, size_t first, size_t n,
                          size_t rows, size_t width, size_t ld, float scale) {
    float *all = random_rows(sequence, (first + n) * rows, width, ld, scale);
    float *memory = device_memory(side, n * rows * ld * sizeof *all, all + first * rows * ld);
    free(all);
    return memory;
}

static void step_agents(struct step *s, size_t first) {
    struct dqn_agent agents[AGENTS];
    for (size_t k = 0; k < s->n_agents; k++) {
        agents[k] = (struct dqn_agent){.seed = 7 + first + k,
                                       .lr_start = 1e-3 * (double)(1 + first + k),
                                       .lr_kind = DQN_SCHEDULE_CONSTANT,
                                       .beta_start = 0.4,
                                       .tau = 0.01,
                                       .huber_delta = 1,
                                       .max_grad_norm = 0.05,
                                       .adam_beta1 = 0.9,
                                       .adam_beta2 = 0.999,
                                       .adam_eps = 1e-8};
    }
    s->agents = device_memory(s->side, s->n_agents * sizeof *agents, agents);
}

/* The network and batch of agents [first, first + n) of a population that is always the same. */
static void step_open(struct step *s, struct side *side, const struct dqn_net *net, size_t first,
                      size_t n, size_t batch) {
    *s = (struct step){.side = side, .net = *net, .n_agents = n, .batch = batch};
    const size_t p = net->n_params * sizeof(float), rows = n * batch;
    const size_t q_bytes = rows * net->actions_ld * sizeof(float);
    step_agents(s, first);
    s->counters = device_memory(side, n * sizeof *s->counters, NULL);
    s->params = device_memory(side, n * p, NULL);
    const struct dqn_init_args init = {net, n, s->agents, s->params};
    OK(side->backend->nn->init(side->q, &init));
    s->target = device_memory(side, n * p, NULL);
    OK(side->backend->memory->copy(side->q, s->target, s->params, n * p, DQN_COPY_ON_DEVICE));
    s->grads = device_memory(side, n * p, NULL);
    s->m = device_memory(side, n * p, NULL);
    s->v = device_memory(side, n * p, NULL);
    s->x = device_rows(side, 1, first, n, batch, net->obs, net->obs_ld, 1);
    s->x_next = device_rows(side, 2, first, n, batch, net->obs, net->obs_ld, 1);
    s->acts = device_memory(side, rows * net->act_floats * sizeof(float), NULL);
    s->q = device_memory(side, q_bytes, NULL);
    s->q_next = device_memory(side, q_bytes, NULL);
    s->q_next_target = device_memory(side, q_bytes, NULL);
    s->dq = device_memory(side, q_bytes, NULL);
    s->td = device_memory(side, rows * sizeof(float), NULL);
    uint32_t *action = calloc(rows, sizeof *action);
    for (size_t r = 0; r < rows; r++) {
        action[r] = (uint32_t)((first * batch + r) % net->actions);
    }
    s->action = device_memory(side, rows * sizeof *action, action);
    free(action);
    s->ok = device_memory(side, n * sizeof *s->ok, NULL);
    s->reward = device_rows(side, 3, first, n, batch, 1, 1, 1);
    s->discount = device_rows(side, 4, first, n, batch, 1, 1, 0.99f);
    s->weight = device_rows(side, 5, first, n, batch, 1, 1, 1);
    s->done = device_memory(side, rows, NULL);
    s->batch_stats = device_memory(side, n * sizeof *s->stats, NULL);
    s->stats = device_memory(side, n * sizeof *s->stats, NULL);
    s->workspace =
        device_memory(side, side->backend->nn->workspace_bytes(&side->device, net, n, batch), NULL);
}

static void step_close(struct step *s) {
    void *all[] = {s->agents, s->counters, s->params,    s->target,        s->grads,
                   s->m,      s->v,        s->x,         s->x_next,        s->acts,
                   s->q,      s->q_next,   s->dq,        s->q_next_target, s->td,
                   s->action, s->ok,       s->reward,    s->weight,        s->discount,
                   s->done,   s->stats,    s->workspace, s->batch_stats};
    for (size_t i = 0; i < DQN_COUNT_OF(all); i++) {
        s->side->backend->memory->free(&s->side->device, all[i], false);
    }
}

static enum dqn_status forward(struct step *s, struct dqn_queue *q, const float *params,
                               const float *x, float *out) {
    const struct dqn_forward_args args = {.net = &s->net,
                                          .n_agents = s->n_agents,
                                          .batch = s->batch,
                                          .params = params,
                                          .x = x,
                                          .acts = s->acts,
                                          .q = out};
    return s->side->backend->nn->forward(q, &args);
}

static enum dqn_status td(struct step *s, struct dqn_queue *q) {
    const struct dqn_td_args args = {.n_agents = s->n_agents,
                                     .batch = s->batch,
                                     .actions = s->net.actions,
                                     .actions_ld = s->net.actions_ld,
                                     .agents = s->agents,
                                     .counters = s->counters,
                                     .q = s->q,
                                     .q_next_online = s->q_next,
                                     .q_next_target = s->q_next_target,
                                     .action = s->action,
                                     .reward = s->reward,
                                     .discount = s->discount,
                                     .done = s->done,
                                     .weight = s->weight,
                                     .grad_scale = 1.0f / (float)s->batch,
                                     .td = s->td,
                                     .dq = s->dq,
                                     .batch_stats = s->batch_stats};
    return s->side->backend->nn->td(q, &args);
}

static enum dqn_status backward(struct step *s, struct dqn_queue *q) {
    const struct dqn_backward_args args = {.net = &s->net,
                                           .n_agents = s->n_agents,
                                           .batch = s->batch,
                                           .params = s->params,
                                           .x = s->x,
                                           .acts = s->acts,
                                           .dq = s->dq,
                                           .grads = s->grads,
                                           .workspace = s->workspace};
    return s->side->backend->nn->backward(q, &args);
}

/* One learner step: what a program holds. */
static enum dqn_status learn(void *context, struct dqn_queue *q) {
    struct step *s = context;
    const struct dqn_apply_args apply = {.net = &s->net,
                                         .n_agents = s->n_agents,
                                         .n_batches = 1,
                                         .max_nonfinite = 3,
                                         .agents = s->agents,
                                         .counters = s->counters,
                                         .params = s->params,
                                         .target = s->target,
                                         .grads = s->grads,
                                         .moment1 = s->m,
                                         .moment2 = s->v,
                                         .batch_stats = s->batch_stats,
                                         .stats = s->stats,
                                         .ok = s->ok,
                                         .workspace = s->workspace};
    DQN_TRY(forward(s, q, s->params, s->x_next, s->q_next));
    DQN_TRY(forward(s, q, s->target, s->x_next, s->q_next_target));
    DQN_TRY(forward(s, q, s->params, s->x, s->q));
    DQN_TRY(td(s, q));
    DQN_TRY(backward(s, q));
    return s->side->backend->nn->apply(q, &apply);
}

/* What is compared: parameters, statistics and the counter of applied steps of agent k. */
struct outcome {
    float *params;
    struct dqn_step_stats stats;
    struct dqn_counters counters;
};

static struct outcome outcome_of(struct step *s, size_t k) {
    const struct dqn_memory_ops *memory = s->side->backend->memory;
    struct outcome o;
    const size_t p = s->net.n_params;
    o.params = malloc(p * sizeof *o.params);
    OK(memory->copy(s->side->q, o.params, s->params + k * p, p * sizeof *o.params,
                    DQN_COPY_TO_HOST));
    OK(memory->copy(s->side->q, &o.stats, s->stats + k, sizeof o.stats, DQN_COPY_TO_HOST));
    OK(memory->copy(s->side->q, &o.counters, s->counters + k, sizeof o.counters, DQN_COPY_TO_HOST));
    OK(s->side->backend->queue->wait(s->side->q));
    return o;
}

static void must_equal(const struct step *s, struct outcome *a, struct outcome *b,
                       const char *what) {
    cr_assert_eq(a->counters.adam_steps, (uint64_t)n_steps(), "%s: no learning took place", what);
    cr_assert(a->stats.loss != 0, "%s: no loss", what);
    for (size_t i = 0; i < s->net.n_params; i++) {
        cr_assert(memcmp(&a->params[i], &b->params[i], sizeof(float)) == 0,
                  "%s: parameter %zu is %.9g and %.9g", what, i, (double)a->params[i],
                  (double)b->params[i]);
    }
    cr_assert(memcmp(&a->stats, &b->stats, sizeof a->stats) == 0, "%s: statistics differ", what);
    cr_assert(memcmp(&a->counters, &b->counters, sizeof a->counters) == 0, "%s: counters", what);
    free(a->params);
    free(b->params);
}

static void learn_steps(struct step *s) {
    for (int i = 0; i < n_steps(); i++) {
        OK(learn(s, s->side->q));
    }
    OK(s->side->backend->queue->wait(s->side->q));
}

struct net_case {
    size_t obs, actions, n_hidden;
    int64_t hidden[2];
    int activation;
    bool dueling;
    size_t batch;
};

static const struct net_case cases[] = {
    {51, 45, 2, {256, 256}, DQN_RELU, false, 256}, {51, 45, 2, {256, 256}, DQN_RELU, false, 4096},
    {4, 2, 2, {64, 64}, DQN_TANH, true, 32},       {7, 5, 1, {33, 0}, DQN_SILU, true, 1024},
    {7, 5, 2, {31, 129}, DQN_ELU, false, 255},     {51, 45, 2, {512, 512}, DQN_RELU, false, 300}};

static const struct net_case few_cases[] = {{51, 45, 2, {40, 24}, DQN_RELU, false, 64},
                                            {4, 2, 2, {64, 64}, DQN_TANH, true, 32},
                                            {7, 5, 1, {33, 0}, DQN_SILU, true, 1024},
                                            {7, 5, 2, {31, 129}, DQN_ELU, false, 255}};

static size_t n_cases(void) {
    return reduced(DQN_COUNT_OF(cases), DQN_COUNT_OF(few_cases));
}

static const struct net_case *case_at(size_t i) {
    return is_reduced() ? &few_cases[i] : &cases[i];
}

static void case_net(struct dqn_net *net, size_t i) {
    const struct net_case *c = case_at(i);
    net_make(net, c->obs, c->actions, c->n_hidden, c->hidden, c->activation, c->dueling);
}

static void alone_and_together(int precision) {
    struct pair pair;
    pair_open(&pair, precision);
    struct side *gpu = &pair.side[GPU];
    for (size_t i = 0; i < n_cases(); i++) {
        struct dqn_net net;
        struct step all;
        case_net(&net, i);
        step_open(&all, gpu, &net, 0, AGENTS, case_at(i)->batch);
        learn_steps(&all);
        for (size_t k = 0; k < AGENTS; k++) {
            struct step one;
            char what[64];
            snprintf(what, sizeof what, "case %zu, agent %zu, precision %d", i, k, precision);
            step_open(&one, gpu, &net, k, 1, case_at(i)->batch);
            learn_steps(&one);
            struct outcome together = outcome_of(&all, k), alone = outcome_of(&one, 0);
            must_equal(&all, &together, &alone, what);
            step_close(&one);
        }
        step_close(&all);
    }
    pair_close(&pair);
}

Test(cuda_nn_exact, population_fp32) {
    alone_and_together(DQN_PRECISION_FP32);
}

Test(cuda_nn_exact, population_tf32) {
    alone_and_together(DQN_PRECISION_TF32);
}

Test(cuda_nn_exact, population_bf16) {
    skip_reduced("the kernels of population_tf32, and a library's");
    alone_and_together(DQN_PRECISION_BF16);
}

static void must_equal_q(const struct step *s, const float *one, const float *many, size_t pass,
                         int precision) {
    const struct dqn_memory_ops *memory = s->side->backend->memory;
    const size_t bytes = s->n_agents * s->batch * s->net.actions_ld * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes);
    OK(memory->copy(s->side->q, a, one, bytes, DQN_COPY_TO_HOST));
    OK(memory->copy(s->side->q, b, many, bytes, DQN_COPY_TO_HOST));
    OK(s->side->backend->queue->wait(s->side->q));
    cr_expect(memcmp(a, b, bytes) == 0, "pass %zu, batch %zu, precision %d", pass, s->batch,
              precision);
    cr_expect(a[0] != 0, "pass %zu computed nothing", pass);
    free(a);
    free(b);
}

static void passes_case(struct side *gpu, const struct dqn_net *net, size_t batch, int precision) {
    struct step s;
    step_open(&s, gpu, net, 0, AGENTS, batch);
    const size_t rows = AGENTS * batch, q_bytes = rows * net->actions_ld * sizeof(float);
    const size_t acts_bytes = rows * net->act_floats * sizeof(float);
    const float *x[] = {s.x, s.x_next, s.x_next}, *params[] = {s.params, s.target, s.params};
    float *out[] = {s.q, s.q_next_target, s.q_next};
    struct dqn_forward_args args[3];
    for (size_t i = 0; i < 3; i++) {
        args[i] = (struct dqn_forward_args){.net = &s.net,
                                            .n_agents = AGENTS,
                                            .batch = batch,
                                            .params = params[i],
                                            .x = x[i],
                                            .acts = device_memory(gpu, acts_bytes, NULL),
                                            .q = device_memory(gpu, q_bytes, NULL),
                                            .acts_unread = i > 0};
        OK(forward(&s, gpu->q, params[i], x[i], out[i]));
    }
    OK(gpu->backend->nn->forward_many(gpu->q, args, 3));
    for (size_t i = 0; i < 3; i++) {
        must_equal_q(&s, out[i], args[i].q, i, precision);
        gpu->backend->memory->free(&gpu->device, (void *)args[i].acts, false);
        gpu->backend->memory->free(&gpu->device, args[i].q, false);
    }
    step_close(&s);
}

/* Three passes side by side and one after another: equal bytes. */
Test(cuda_nn_exact, forward_many) {
    static const int precisions[] = {DQN_PRECISION_FP32, DQN_PRECISION_TF32};
    for (size_t p = 0; p < DQN_COUNT_OF(precisions); p++) {
        struct pair pair;
        pair_open(&pair, precisions[p]);
        for (size_t i = 0; i < n_cases(); i++) {
            struct dqn_net net;
            case_net(&net, i);
            passes_case(&pair.side[GPU], &net, case_at(i)->batch, precisions[p]);
        }
        pair_close(&pair);
    }
}

/* The same steps twice, and by a program that captures them: equal bytes, and the launches of the
 * graph advance the device's counters. */
Test(cuda_nn_exact, repeated_and_captured) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_TF32);
    struct side *gpu = &pair.side[GPU];
    for (size_t i = 0; i < n_cases(); i++) {
        struct dqn_net net;
        struct step first, second, captured;
        struct dqn_program *program = NULL;
        case_net(&net, i);
        step_open(&first, gpu, &net, 0, AGENTS, case_at(i)->batch);
        step_open(&second, gpu, &net, 0, AGENTS, case_at(i)->batch);
        step_open(&captured, gpu, &net, 0, AGENTS, case_at(i)->batch);
        learn_steps(&first);
        learn_steps(&second);
        OK(dqn_program_record(&program, learn, &captured));
        for (int n = 0; n < n_steps(); n++) {
            OK(dqn_program_run(program, gpu->q));
        }
        OK(gpu->backend->queue->wait(gpu->q));
        for (size_t k = 0; k < AGENTS; k++) {
            struct outcome a = outcome_of(&first, k), b = outcome_of(&second, k);
            must_equal(&first, &a, &b, "repeated");
            struct outcome c = outcome_of(&first, k), d = outcome_of(&captured, k);
            must_equal(&first, &c, &d, "captured");
        }
        dqn_program_destroy(program);
        step_close(&first);
        step_close(&second);
        step_close(&captured);
    }
    pair_close(&pair);
}
