#include "learner.h"

#include <stdlib.h>

struct dqn_learner {
    struct dqn_learner_options o;
    struct dqn_config_learner config;
    size_t batch;
    struct dqn_buffer *params, *target, *moment1, *moment2, *grads; /* [K, P] */
    struct dqn_buffer *acts;                                        /* layer outputs at s */
    struct dqn_buffer *acts_next, *acts_target;                     /* scratch at s', by net */
    struct dqn_buffer *q, *q_next_online, *q_next_target, *dq;      /* [K, B, actions_ld] */
    struct dqn_buffer *batch_stats, *stats;                         /* [K, fields] */
    struct dqn_buffer *ok;                                          /* [K] */
    struct dqn_buffer *workspace;
    bool composed;    /* the device refused nn.update once: the operations one by one */
    float *host_acts; /* where dqn_learner_dead_units looks at acts */
};

static enum dqn_status register_network(struct dqn_learner *l, struct dqn_arena *arena,
                                        const struct dqn_device *device) {
    const size_t k = l->o.n_agents, p = l->o.net->n_params;
    const int saved = DQN_BUFFER_SAVED;
    DQN_TRY(dqn_arena_add(arena, &l->params, device, DQN_F32, saved, "nn/params", 2, k, p));
    DQN_TRY(dqn_arena_add(arena, &l->target, device, DQN_F32, saved, "nn/target", 2, k, p));
    DQN_TRY(dqn_arena_add(arena, &l->moment1, device, DQN_F32, saved, "nn/moment1", 2, k, p));
    DQN_TRY(dqn_arena_add(arena, &l->moment2, device, DQN_F32, saved, "nn/moment2", 2, k, p));
    return dqn_arena_add(arena, &l->grads, device, DQN_F32, 0, "nn/grads", 2, k, p);
}

static enum dqn_status register_scratch(struct dqn_learner *l, struct dqn_arena *arena,
                                        const struct dqn_device *device) {
    const struct dqn_net *net = l->o.net;
    const size_t k = l->o.n_agents, b = l->batch, a = net->actions_ld;
    const size_t fields = sizeof(struct dqn_step_stats) / sizeof(double);
    DQN_TRY(
        dqn_arena_add(arena, &l->acts, device, DQN_F32, 0, "learn/acts", 3, k, b, net->act_floats));
    DQN_TRY(dqn_arena_add(arena, &l->acts_next, device, DQN_F32, 0, "learn/acts_next", 3, k, b,
                          net->act_floats));
    DQN_TRY(dqn_arena_add(arena, &l->acts_target, device, DQN_F32, 0, "learn/acts_target", 3, k, b,
                          net->act_floats));
    DQN_TRY(dqn_arena_add(arena, &l->q, device, DQN_F32, 0, "learn/q", 3, k, b, a));
    DQN_TRY(dqn_arena_add(arena, &l->q_next_online, device, DQN_F32, 0, "learn/q_next_online", 3, k,
                          b, a));
    DQN_TRY(dqn_arena_add(arena, &l->q_next_target, device, DQN_F32, 0, "learn/q_next_target", 3, k,
                          b, a));
    DQN_TRY(dqn_arena_add(arena, &l->dq, device, DQN_F32, 0, "learn/dq", 3, k, b, a));
    DQN_TRY(dqn_arena_add(arena, &l->batch_stats, device, DQN_F64, 0, "learn/batch_stats", 2, k,
                          fields));
    DQN_TRY(dqn_arena_add(arena, &l->stats, device, DQN_F64, DQN_BUFFER_SAVED, "learn/stats", 2, k,
                          fields));
    DQN_TRY(dqn_arena_add(arena, &l->ok, device, DQN_U32, 0, "learn/ok", 1, k));
    const size_t bytes = device->backend->nn->workspace_bytes(device, net, k, b);
    return dqn_arena_add(arena, &l->workspace, device, DQN_U8, 0, "learn/workspace", 1,
                         bytes > 0 ? bytes : 1);
}

enum dqn_status dqn_learner_create(struct dqn_learner **out, struct dqn_arena *arena,
                                   const struct dqn_device *device,
                                   const struct dqn_learner_options *options) {
    struct dqn_learner *l = NULL;
    DQN_TRY(dqn_alloc((void **)&l, 1, sizeof *l, "the learner"));
    l->o = *options;
    l->config = *options->config;
    l->batch = (size_t)options->config->batch;
    enum dqn_status status = register_network(l, arena, device);
    if (status == DQN_OK) {
        status = register_scratch(l, arena, device);
    }
    if (status != DQN_OK) {
        dqn_learner_destroy(l);
        return status;
    }
    *out = l;
    return DQN_OK;
}

void dqn_learner_destroy(struct dqn_learner *learner) {
    if (learner != NULL) {
        free(learner->host_acts);
        free(learner);
    }
}

enum dqn_status dqn_learner_init(struct dqn_learner *l, struct dqn_queue *q) {
    const struct dqn_init_args args = {.net = l->o.net,
                                       .n_agents = l->o.n_agents,
                                       .agents = l->o.agents->data,
                                       .params = l->params->data};
    DQN_TRY(q->device->backend->nn->init(q, &args));
    return dqn_learner_copy_target(l, q);
}

enum dqn_status dqn_learner_copy_target(struct dqn_learner *l, struct dqn_queue *q) {
    return q->device->backend->memory->copy(q, l->target->data, l->params->data, l->params->bytes,
                                            DQN_COPY_ON_DEVICE);
}

static struct dqn_forward_args pass(const struct dqn_learner *l, const struct dqn_buffer *params,
                                    const float *x, struct dqn_buffer *acts, struct dqn_buffer *out,
                                    bool acts_unread) {
    return (struct dqn_forward_args){.net = l->o.net,
                                     .n_agents = l->o.n_agents,
                                     .batch = l->batch,
                                     .params = params->data,
                                     .x = x,
                                     .acts = acts->data,
                                     .q = out->data,
                                     .acts_unread = acts_unread};
}

/* Q at s by the online net, at s' by the target net and, for double DQN, by the online net. */
static enum dqn_status evaluate_batch(struct dqn_learner *l, struct dqn_queue *q,
                                      const struct dqn_replay_batch *batch) {
    const struct dqn_nn_ops *nn = q->device->backend->nn;
    const struct dqn_forward_args passes[] = {
        pass(l, l->params, batch->state, l->acts, l->q, false),
        pass(l, l->target, batch->next, l->acts_target, l->q_next_target, true),
        pass(l, l->params, batch->next, l->acts_next, l->q_next_online, true)};
    const size_t n = l->config.double_q ? 3 : 2;
    if (nn->forward_many != NULL) {
        return nn->forward_many(q, passes, n);
    }
    for (size_t i = 0; i < n; i++) {
        DQN_TRY(nn->forward(q, &passes[i]));
    }
    return DQN_OK;
}

static struct dqn_td_args td_args(const struct dqn_learner *l, const struct dqn_replay_batch *batch,
                                  bool accumulate) {
    const struct dqn_net *net = l->o.net;
    return (struct dqn_td_args){.n_agents = l->o.n_agents,
                                .batch = l->batch,
                                .actions = net->actions,
                                .actions_ld = net->actions_ld,
                                .agents = l->o.agents->data,
                                .counters = l->o.counters->data,
                                .q = l->q->data,
                                .q_next_online = l->config.double_q ? l->q_next_online->data : NULL,
                                .q_next_target = l->q_next_target->data,
                                .action = batch->action,
                                .reward = batch->reward,
                                .discount = batch->discount,
                                .done = batch->done,
                                .weight = batch->weight,
                                .grad_scale =
                                    1.0f / ((float)l->batch * (float)l->config.accumulate),
                                .td = batch->td,
                                .dq = l->dq->data,
                                .batch_stats = l->batch_stats->data,
                                .accumulate = accumulate};
}

static struct dqn_backward_args
backward_args(const struct dqn_learner *l, const struct dqn_replay_batch *batch, bool accumulate) {
    return (struct dqn_backward_args){.net = l->o.net,
                                      .n_agents = l->o.n_agents,
                                      .batch = l->batch,
                                      .params = l->params->data,
                                      .x = batch->state,
                                      .acts = l->acts->data,
                                      .dq = l->dq->data,
                                      .grads = l->grads->data,
                                      .accumulate = accumulate,
                                      .workspace = l->workspace->data};
}

static struct dqn_apply_args apply_args(const struct dqn_learner *l) {
    return (struct dqn_apply_args){.net = l->o.net,
                                   .n_agents = l->o.n_agents,
                                   .n_batches = (size_t)l->config.accumulate,
                                   .max_nonfinite = (uint64_t)l->config.max_nonfinite,
                                   .agents = l->o.agents->data,
                                   .counters = l->o.counters->data,
                                   .params = l->params->data,
                                   .target = l->target->data,
                                   .grads = l->grads->data,
                                   .moment1 = l->moment1->data,
                                   .moment2 = l->moment2->data,
                                   .batch_stats = l->batch_stats->data,
                                   .stats = l->stats->data,
                                   .ok = l->ok->data,
                                   .workspace = l->workspace->data};
}

/* The whole update by one operation, where the backend offers it for these sizes. */
static enum dqn_status update_at_once(struct dqn_learner *l, struct dqn_queue *q, bool *done) {
    const struct dqn_nn_ops *nn = q->device->backend->nn;
    struct dqn_replay_batch batch;
    struct dqn_update_args args;
    *done = false;
    if (nn->update == NULL || l->config.accumulate != 1 ||
        !dqn_replay_describe(l->o.replay, &batch, &args.draw, &args.gather, &args.priority)) {
        return DQN_OK;
    }
    args.priority.ok = l->ok->data;
    args.td = td_args(l, &batch, false);
    args.backward = backward_args(l, &batch, false);
    args.apply = apply_args(l);
    return nn->update(q, &args, done);
}

static enum dqn_status update_by_parts(struct dqn_learner *l, struct dqn_queue *q) {
    const struct dqn_nn_ops *nn = q->device->backend->nn;
    for (size_t slot = 0; slot < (size_t)l->config.accumulate; slot++) {
        struct dqn_replay_batch batch;
        DQN_TRY(dqn_replay_sample(l->o.replay, q, slot, &batch));
        DQN_TRY(evaluate_batch(l, q, &batch));
        const struct dqn_td_args td = td_args(l, &batch, slot > 0);
        DQN_TRY(nn->td(q, &td));
        const struct dqn_backward_args backward = backward_args(l, &batch, slot > 0);
        DQN_TRY(nn->backward(q, &backward));
    }
    const struct dqn_apply_args apply = apply_args(l);
    DQN_TRY(nn->apply(q, &apply));
    return dqn_replay_update(l->o.replay, q, l->ok->data);
}

/* A refused update has written into the batch's buffers at most: it is made anew by its parts. */
enum dqn_status dqn_learner_update(struct dqn_learner *l, struct dqn_queue *q) {
    bool done = false;
    if (l->composed) {
        return update_by_parts(l, q);
    }
    const enum dqn_status status = update_at_once(l, q, &done);
    if (status == DQN_ERR_REFUSED) {
        l->composed = true;
        dqn_warn("updates go on operation by operation, which is slower: %s", dqn_error_text());
        return q->capturing ? status : update_by_parts(l, q);
    }
    return status != DQN_OK || done ? status : update_by_parts(l, q);
}

bool dqn_learner_is_composed(const struct dqn_learner *learner) {
    return learner->composed;
}

struct dqn_buffer *dqn_learner_params(const struct dqn_learner *learner) {
    return learner->params;
}

struct dqn_buffer *dqn_learner_ok(const struct dqn_learner *learner) {
    return learner->ok;
}

struct dqn_buffer *dqn_learner_stats(const struct dqn_learner *learner) {
    return learner->stats;
}

/* Units of a layer that are 0 in all rows; y is [B, out_ld]. */
static size_t count_dead(const float *y, const struct dqn_layer *layer, size_t batch) {
    size_t dead = 0;
    for (size_t unit = 0; unit < layer->out; unit++) {
        size_t row = 0;
        while (row < batch && y[row * layer->out_ld + unit] == 0.0f) {
            row++;
        }
        dead += row == batch;
    }
    return dead;
}

enum dqn_status dqn_learner_dead_units(struct dqn_learner *l, struct dqn_queue *q, double *share) {
    const struct dqn_net *net = l->o.net;
    const struct dqn_backend *backend = q->device->backend;
    if (l->host_acts == NULL) {
        DQN_TRY(dqn_alloc((void **)&l->host_acts, 1, l->acts->bytes, "layer outputs"));
    }
    DQN_TRY(
        backend->memory->copy(q, l->host_acts, l->acts->data, l->acts->bytes, DQN_COPY_TO_HOST));
    DQN_TRY(backend->queue->wait(q));
    for (size_t k = 0; k < l->o.n_agents; k++) {
        size_t units = 0, dead = 0;
        for (size_t i = 0; i + 1 < net->n_layers; i++) {
            const struct dqn_layer *layer = &net->layer[i];
            const float *y = l->host_acts + l->o.n_agents * l->batch * layer->output +
                             k * l->batch * layer->out_ld;
            units += layer->out;
            dead += count_dead(y, layer, l->batch);
        }
        share[k] = (double)dead / (double)units;
    }
    return DQN_OK;
}

enum dqn_status dqn_learner_clear_stats(struct dqn_learner *l, struct dqn_queue *q) {
    return q->device->backend->memory->zero(q, l->stats->data, l->stats->bytes);
}
