#include "collector.h"

#include <stdlib.h>

struct dqn_collector {
    struct dqn_collector_options o;
    size_t obs, obs_ld, actions, actions_ld;
    bool composed; /* the device refused env.collect once: the operations one by one */
    /* policy */
    struct dqn_buffer *acts;      /* scratch of the forward pass */
    struct dqn_buffer *q;         /* [K, E, actions_ld] */
    struct dqn_buffer *action;    /* [K, E] */
    struct dqn_buffer *histogram; /* [K, A] */
    /* environment */
    struct dqn_buffer *states;                          /* [K, E, bytes of a state] */
    struct dqn_buffer *lanes;                           /* [K, E, bytes of struct dqn_lane] */
    struct dqn_buffer *obs_now;                         /* [K, E, obs_ld] */
    struct dqn_buffer *obs_before;                      /* [K, E, obs_ld] */
    struct dqn_buffer *obs_next;                        /* [K, E, obs_ld] */
    struct dqn_buffer *reward, *terminated, *truncated; /* [K, E] */
    /* n-step window and the rows that leave it */
    struct dqn_buffer *window_obs, *window_next;                          /* [K, n, E, O] */
    struct dqn_buffer *window_action, *window_reward, *window_end;        /* [K, n, E] */
    struct dqn_buffer *row_state, *row_next;                              /* [K, E, O] */
    struct dqn_buffer *row_action, *row_reward, *row_discount, *row_done; /* [K, E] */
};

static enum dqn_status register_policy(struct dqn_collector *c, struct dqn_arena *arena,
                                       const struct dqn_device *device) {
    const size_t k = c->o.n_agents, e = c->o.lanes;
    DQN_TRY(dqn_arena_add(arena, &c->acts, device, DQN_F32, 0, "collect/acts", 3, k, e,
                          c->o.net->act_floats));
    DQN_TRY(dqn_arena_add(arena, &c->q, device, DQN_F32, 0, "collect/q", 3, k, e, c->actions_ld));
    DQN_TRY(dqn_arena_add(arena, &c->action, device, DQN_U32, 0, "collect/action", 2, k, e));
    return dqn_arena_add(arena, &c->histogram, device, DQN_U64, DQN_BUFFER_SAVED,
                         "collect/action_counts", 2, k, c->actions);
}

static enum dqn_status register_env(struct dqn_collector *c, struct dqn_arena *arena,
                                    const struct dqn_device *device) {
    const size_t k = c->o.n_agents, e = c->o.lanes;
    const int saved = DQN_BUFFER_SAVED;
    DQN_TRY(dqn_arena_add(arena, &c->states, device, DQN_U8, saved, "env/states", 3, k, e,
                          dqn_env_state_bytes(c->o.env)));
    DQN_TRY(dqn_arena_add(arena, &c->lanes, device, DQN_U8, saved, "env/lanes", 3, k, e,
                          sizeof(struct dqn_lane)));
    DQN_TRY(dqn_arena_add(arena, &c->obs_now, device, DQN_F32, saved, "collect/obs", 3, k, e,
                          c->obs_ld));
    DQN_TRY(dqn_arena_add(arena, &c->obs_before, device, DQN_F32, 0, "collect/obs_before", 3, k, e,
                          c->obs_ld));
    DQN_TRY(dqn_arena_add(arena, &c->obs_next, device, DQN_F32, 0, "collect/obs_next", 3, k, e,
                          c->obs_ld));
    DQN_TRY(dqn_arena_add(arena, &c->reward, device, DQN_F32, 0, "collect/reward", 2, k, e));
    DQN_TRY(dqn_arena_add(arena, &c->terminated, device, DQN_U8, 0, "collect/terminated", 2, k, e));
    return dqn_arena_add(arena, &c->truncated, device, DQN_U8, 0, "collect/truncated", 2, k, e);
}

static enum dqn_status register_window(struct dqn_collector *c, struct dqn_arena *arena,
                                       const struct dqn_device *device) {
    const size_t k = c->o.n_agents, e = c->o.lanes, n = c->o.n_step, o = c->obs;
    const int saved = DQN_BUFFER_SAVED;
    DQN_TRY(
        dqn_arena_add(arena, &c->window_obs, device, DQN_F32, saved, "window/obs", 4, k, n, e, o));
    DQN_TRY(dqn_arena_add(arena, &c->window_next, device, DQN_F32, saved, "window/next", 4, k, n, e,
                          o));
    DQN_TRY(dqn_arena_add(arena, &c->window_action, device, DQN_U32, saved, "window/action", 3, k,
                          n, e));
    DQN_TRY(dqn_arena_add(arena, &c->window_reward, device, DQN_F32, saved, "window/reward", 3, k,
                          n, e));
    DQN_TRY(dqn_arena_add(arena, &c->window_end, device, DQN_U8, saved, "window/end", 3, k, n, e));
    DQN_TRY(dqn_arena_add(arena, &c->row_state, device, DQN_F32, 0, "row/state", 3, k, e, o));
    DQN_TRY(dqn_arena_add(arena, &c->row_next, device, DQN_F32, 0, "row/next", 3, k, e, o));
    DQN_TRY(dqn_arena_add(arena, &c->row_action, device, DQN_U32, 0, "row/action", 2, k, e));
    DQN_TRY(dqn_arena_add(arena, &c->row_reward, device, DQN_F32, 0, "row/reward", 2, k, e));
    DQN_TRY(dqn_arena_add(arena, &c->row_discount, device, DQN_F32, 0, "row/discount", 2, k, e));
    return dqn_arena_add(arena, &c->row_done, device, DQN_U8, 0, "row/done", 2, k, e);
}

enum dqn_status dqn_collector_create(struct dqn_collector **out, struct dqn_arena *arena,
                                     const struct dqn_device *device,
                                     const struct dqn_collector_options *options) {
    struct dqn_collector *c = NULL;
    DQN_TRY(dqn_alloc((void **)&c, 1, sizeof *c, "the collector"));
    c->o = *options;
    c->obs = options->net->obs;
    c->obs_ld = options->net->obs_ld;
    c->actions = options->net->actions;
    c->actions_ld = options->net->actions_ld;
    enum dqn_status status = register_policy(c, arena, device);
    if (status == DQN_OK) {
        status = register_env(c, arena, device);
    }
    if (status == DQN_OK) {
        status = register_window(c, arena, device);
    }
    if (status != DQN_OK) {
        dqn_collector_destroy(c);
        return status;
    }
    *out = c;
    return DQN_OK;
}

void dqn_collector_destroy(struct dqn_collector *collector) {
    free(collector);
}

static struct dqn_env_args env_args(const struct dqn_collector *c) {
    return (struct dqn_env_args){.env = c->o.env,
                                 .n_agents = c->o.n_agents,
                                 .lanes = c->o.lanes,
                                 .obs = c->obs,
                                 .obs_ld = c->obs_ld,
                                 .agents = c->o.agents->data,
                                 .purpose = DQN_RNG_ENV,
                                 .step_limit = dqn_env_step_limit(c->o.env),
                                 .params = c->o.env_params->data,
                                 .states = c->states->data,
                                 .lanes_state = c->lanes->data,
                                 .counters = c->o.counters->data,
                                 .obs_now = c->obs_now->data,
                                 .obs_before = c->obs_before->data,
                                 .action = c->action->data,
                                 .obs_next = c->obs_next->data,
                                 .reward = c->reward->data,
                                 .terminated = c->terminated->data,
                                 .truncated = c->truncated->data};
}

enum dqn_status dqn_collector_reset(struct dqn_collector *c, struct dqn_queue *q) {
    const struct dqn_env_ops *ops = q->device->backend->env;
    const struct dqn_env_args args = env_args(c);
    DQN_TRY(ops->reset(q, &args));
    return dqn_collector_clear_sums(c, q);
}

enum dqn_status dqn_collector_clear_sums(struct dqn_collector *c, struct dqn_queue *q) {
    const struct dqn_backend *backend = q->device->backend;
    DQN_TRY(backend->env->clear_sums(q, c->lanes->data, c->o.n_agents * c->o.lanes));
    return backend->memory->zero(q, c->histogram->data, c->histogram->bytes);
}

/* Q values of the observations. */
static struct dqn_forward_args forward_args(const struct dqn_collector *c) {
    return (struct dqn_forward_args){.net = c->o.net,
                                     .n_agents = c->o.n_agents,
                                     .batch = c->o.lanes,
                                     .params = c->o.params->data,
                                     .x = c->obs_now->data,
                                     .acts = c->acts->data,
                                     .q = c->q->data,
                                     .acts_unread = true};
}

static struct dqn_act_args act_args(const struct dqn_collector *c) {
    return (struct dqn_act_args){.n_agents = c->o.n_agents,
                                 .lanes = c->o.lanes,
                                 .actions = c->actions,
                                 .actions_ld = c->actions_ld,
                                 .agents = c->o.agents->data,
                                 .counters = c->o.counters->data,
                                 .purpose = DQN_RNG_POLICY,
                                 .fixed_epsilon = -1.0,
                                 .q = c->q->data,
                                 .action = c->action->data,
                                 .histogram = c->histogram->data};
}

/* The transition of this step into the windows; the oldest ones out as rows. */
static struct dqn_nstep_args nstep_args(const struct dqn_collector *c) {
    return (struct dqn_nstep_args){.n_agents = c->o.n_agents,
                                   .lanes = c->o.lanes,
                                   .obs = c->obs,
                                   .obs_ld = c->obs_ld,
                                   .n_step = c->o.n_step,
                                   .agents = c->o.agents->data,
                                   .counters = c->o.counters->data,
                                   .obs_before = c->obs_before->data,
                                   .obs_next = c->obs_next->data,
                                   .action = c->action->data,
                                   .reward = c->reward->data,
                                   .terminated = c->terminated->data,
                                   .truncated = c->truncated->data,
                                   .window_obs = c->window_obs->data,
                                   .window_next = c->window_next->data,
                                   .window_action = c->window_action->data,
                                   .window_reward = c->window_reward->data,
                                   .window_end = c->window_end->data,
                                   .row_state = c->row_state->data,
                                   .row_next = c->row_next->data,
                                   .row_action = c->row_action->data,
                                   .row_reward = c->row_reward->data,
                                   .row_discount = c->row_discount->data,
                                   .row_done = c->row_done->data};
}

/* The whole step by one operation, where the backend offers it. */
static enum dqn_status step_at_once(struct dqn_collector *c, struct dqn_queue *q,
                                    struct dqn_collect_args *args, bool *done) {
    const struct dqn_env_ops *env = q->device->backend->env;
    *done = false;
    if (env->collect == NULL ||
        !dqn_replay_describe_insert(c->o.replay, c->o.lanes, &args->insert, &args->inserted)) {
        return DQN_OK;
    }
    DQN_TRY(env->collect(q, args, done));
    if (*done && args->emit) {
        dqn_replay_inserted(c->o.replay, q, c->o.lanes);
    }
    return DQN_OK;
}

/* What comes after the actions, one by one. */
static enum dqn_status step_by_parts(struct dqn_collector *c, struct dqn_queue *q,
                                     const struct dqn_collect_args *args) {
    const struct dqn_env_ops *env = q->device->backend->env;
    DQN_TRY(env->step(q, &args->env));
    DQN_TRY(env->nstep(q, &args->nstep));
    if (!args->emit) {
        return DQN_OK;
    }
    const struct dqn_replay_rows rows = {.state = c->row_state->data,
                                         .next = c->row_next->data,
                                         .action = c->row_action->data,
                                         .reward = c->row_reward->data,
                                         .discount = c->row_discount->data,
                                         .done = c->row_done->data};
    return dqn_replay_insert(c->o.replay, q, &rows, c->o.lanes);
}

/* A refused step has taken and counted its actions, and done nothing else: it goes on from there.
 * Inside a capture not even that has run. */
enum dqn_status dqn_collector_step(struct dqn_collector *c, struct dqn_queue *q, bool emit) {
    struct dqn_collect_args args = {.forward = forward_args(c),
                                    .act = act_args(c),
                                    .env = env_args(c),
                                    .nstep = nstep_args(c),
                                    .emit = emit};
    bool done = false;
    const enum dqn_status status = c->composed ? DQN_OK : step_at_once(c, q, &args, &done);
    if (status == DQN_ERR_REFUSED) {
        c->composed = true;
        dqn_warn("the collector goes on operation by operation, which is slower: %s",
                 dqn_error_text());
        return q->capturing ? status : step_by_parts(c, q, &args);
    }
    if (status != DQN_OK || done) {
        return status;
    }
    DQN_TRY(dqn_policy(q, &args.forward, &args.act));
    return step_by_parts(c, q, &args);
}

bool dqn_collector_is_composed(const struct dqn_collector *collector) {
    return collector->composed;
}

struct dqn_buffer *dqn_collector_lanes(const struct dqn_collector *collector) {
    return collector->lanes;
}

struct dqn_buffer *dqn_collector_histogram(const struct dqn_collector *collector) {
    return collector->histogram;
}
