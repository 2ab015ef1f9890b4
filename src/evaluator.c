#include "evaluator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum {
    STEPS_A_PROGRAM = 16, /* launched together; lanes that have finished rest */
    PROGRAMS_A_LOOK = 4,  /* between two looks at whether all lanes have finished */
    MOST_STEPS = 1000000  /* where the environment has no limit */
};

struct dqn_evaluator {
    struct dqn_evaluator_options o;
    struct dqn_buffer *acts, *q, *action;
    struct dqn_buffer *states, *lanes, *obs_now, *obs_next;
    struct dqn_buffer *reward, *terminated, *truncated;
    struct dqn_buffer *counters;
    struct dqn_buffer *host_lanes;   /* pinned */
    const struct dqn_buffer *params; /* of the run in progress */
    const struct dqn_buffer *program_params;
    struct dqn_program *steps;
};

struct registration {
    struct dqn_buffer **slot;
    const char *name;
    enum dqn_dtype dtype;
    int flags;
    size_t width; /* third extent; 0 = none */
};

static enum dqn_status register_buffers(struct dqn_evaluator *ev, struct dqn_arena *arena,
                                        const struct dqn_device *device, const char *prefix) {
    const struct dqn_net *net = ev->o.net;
    const size_t k = ev->o.n_agents, e = ev->o.episodes;
    const struct registration list[] = {
        {&ev->acts, "acts", DQN_F32, 0, net->act_floats},
        {&ev->q, "q", DQN_F32, 0, net->actions_ld},
        {&ev->action, "action", DQN_U32, 0, 0},
        {&ev->states, "states", DQN_U8, 0, dqn_env_state_bytes(ev->o.env)},
        {&ev->lanes, "lanes", DQN_U8, 0, sizeof(struct dqn_lane)},
        {&ev->host_lanes, "host_lanes", DQN_U8, DQN_BUFFER_PINNED, sizeof(struct dqn_lane)},
        {&ev->obs_now, "obs", DQN_F32, 0, net->obs_ld},
        {&ev->obs_next, "obs_next", DQN_F32, 0, net->obs_ld},
        {&ev->reward, "reward", DQN_F32, 0, 0},
        {&ev->terminated, "terminated", DQN_U8, 0, 0},
        {&ev->truncated, "truncated", DQN_U8, 0, 0},
    };
    char name[96];
    for (size_t i = 0; i < DQN_COUNT_OF(list); i++) {
        snprintf(name, sizeof name, "%s/%s", prefix, list[i].name);
        const int rank = list[i].width > 0 ? 3 : 2;
        DQN_TRY(dqn_arena_add(arena, list[i].slot, device, list[i].dtype, list[i].flags, name, rank,
                              k, e, list[i].width));
    }
    snprintf(name, sizeof name, "%s/counters", prefix);
    return dqn_arena_add(arena, &ev->counters, device, DQN_U64, 0, name, 2, k,
                         sizeof(struct dqn_counters) / sizeof(uint64_t));
}

static struct dqn_env_args env_args(const struct dqn_evaluator *ev) {
    return (struct dqn_env_args){.env = ev->o.env,
                                 .n_agents = ev->o.n_agents,
                                 .lanes = ev->o.episodes,
                                 .obs = ev->o.net->obs,
                                 .obs_ld = ev->o.net->obs_ld,
                                 .agents = ev->o.agents->data,
                                 .purpose = DQN_RNG_EVAL_ENV,
                                 .step_limit = dqn_env_step_limit(ev->o.env),
                                 .freeze = true,
                                 .params = ev->o.env_params->data,
                                 .states = ev->states->data,
                                 .lanes_state = ev->lanes->data,
                                 .counters = ev->counters->data,
                                 .obs_now = ev->obs_now->data,
                                 .action = ev->action->data,
                                 .obs_next = ev->obs_next->data,
                                 .reward = ev->reward->data,
                                 .terminated = ev->terminated->data,
                                 .truncated = ev->truncated->data};
}

static enum dqn_status choose_actions(struct dqn_evaluator *ev, struct dqn_queue *q) {
    const struct dqn_forward_args forward = {.net = ev->o.net,
                                             .n_agents = ev->o.n_agents,
                                             .batch = ev->o.episodes,
                                             .params = ev->params->data,
                                             .x = ev->obs_now->data,
                                             .acts = ev->acts->data,
                                             .q = ev->q->data,
                                             .acts_unread = true};
    const struct dqn_act_args act = {.n_agents = ev->o.n_agents,
                                     .lanes = ev->o.episodes,
                                     .actions = ev->o.net->actions,
                                     .actions_ld = ev->o.net->actions_ld,
                                     .agents = ev->o.agents->data,
                                     .counters = ev->counters->data,
                                     .purpose = DQN_RNG_EVAL_POLICY,
                                     .fixed_epsilon = ev->o.epsilon,
                                     .q = ev->q->data,
                                     .action = ev->action->data};
    return dqn_policy(q, &forward, &act);
}

static enum dqn_status check_stop(const struct dqn_evaluator *ev) {
    return ev->o.stop != NULL && *ev->o.stop != 0
               ? dqn_fail(DQN_ERR_STOPPED, "stopped inside an evaluation")
               : DQN_OK;
}

static enum dqn_status step_lanes(void *context, struct dqn_queue *q) {
    struct dqn_evaluator *ev = context;
    const struct dqn_env_args env = env_args(ev);
    for (int i = 0; i < STEPS_A_PROGRAM; i++) {
        DQN_TRY(q->capturing ? DQN_OK : check_stop(ev));
        DQN_TRY(choose_actions(ev, q));
        DQN_TRY(q->device->backend->env->step(q, &env));
    }
    return DQN_OK;
}

uint64_t dqn_evaluator_limit(enum dqn_env_id env) {
    const uint64_t limit = dqn_env_step_limit(env);
    return limit > 0 ? limit : MOST_STEPS;
}

enum dqn_status dqn_evaluator_create(struct dqn_evaluator **out, struct dqn_arena *arena,
                                     const struct dqn_device *device, const char *prefix,
                                     const struct dqn_evaluator_options *options) {
    struct dqn_evaluator *ev = NULL;
    DQN_TRY(dqn_alloc((void **)&ev, 1, sizeof *ev, "the evaluator"));
    ev->o = *options;
    const enum dqn_status status = register_buffers(ev, arena, device, prefix);
    if (status != DQN_OK) {
        dqn_evaluator_destroy(ev);
        return status;
    }
    *out = ev;
    return DQN_OK;
}

void dqn_evaluator_destroy(struct dqn_evaluator *evaluator) {
    if (evaluator != NULL) {
        dqn_program_destroy(evaluator->steps);
        free(evaluator);
    }
}

/* All lanes at the start of episode `round`, which the reset then begins. */
static enum dqn_status start_lanes(struct dqn_evaluator *ev, struct dqn_queue *q, uint64_t round) {
    const struct dqn_backend *backend = q->device->backend;
    struct dqn_lane *lanes = ev->host_lanes->data;
    const size_t n = ev->o.n_agents * ev->o.episodes;
    memset(lanes, 0, n * sizeof *lanes);
    for (size_t i = 0; i < n; i++) {
        lanes[i].episode = round;
    }
    DQN_TRY(backend->memory->copy(q, ev->lanes->data, lanes, ev->lanes->bytes, DQN_COPY_TO_DEVICE));
    DQN_TRY(backend->memory->zero(q, ev->counters->data, ev->counters->bytes));
    DQN_TRY(backend->env->clear_sums(q, ev->lanes->data, n));
    const struct dqn_env_args args = env_args(ev);
    return backend->env->reset(q, &args);
}

static bool all_frozen(const struct dqn_evaluator *ev) {
    const struct dqn_lane *lanes = ev->host_lanes->data;
    for (size_t i = 0; i < ev->o.n_agents * ev->o.episodes; i++) {
        if (lanes[i].frozen == 0) {
            return false;
        }
    }
    return true;
}

static enum dqn_status run_until_frozen(struct dqn_evaluator *ev, struct dqn_queue *q) {
    const struct dqn_backend *backend = q->device->backend;
    for (uint64_t done = 0; done < ev->o.max_steps;) {
        for (int i = 0; i < PROGRAMS_A_LOOK && done < ev->o.max_steps; i++) {
            DQN_TRY(check_stop(ev));
            DQN_TRY(dqn_program_run(ev->steps, q));
            done += STEPS_A_PROGRAM;
        }
        DQN_TRY(backend->memory->copy(q, ev->host_lanes->data, ev->lanes->data, ev->lanes->bytes,
                                      DQN_COPY_TO_HOST));
        DQN_TRY(backend->queue->wait(q));
        if (all_frozen(ev)) {
            return DQN_OK;
        }
    }
    return dqn_fail(DQN_ERR_ENDLESS,
                    "an evaluation episode did not end within %llu step%s; an environment whose "
                    "episodes may go on for ever needs a time limit, the last number of its line "
                    "in envs/env_list.h",
                    (unsigned long long)ev->o.max_steps, dqn_plural(ev->o.max_steps));
}

/* Mean and spread of one agent's lanes; a lane holds the sums of its one episode. */
static struct dqn_evaluation summarise(const struct dqn_lane *lanes, size_t n) {
    struct dqn_evaluation r = {.return_min = INFINITY, .return_max = -INFINITY};
    double sum = 0.0, steps = 0.0;
    for (size_t e = 0; e < n; e++) {
        sum += lanes[e].sum_return;
        steps += (double)lanes[e].sum_steps;
        r.episodes += lanes[e].sum_episodes;
        r.return_min = fmin(r.return_min, lanes[e].min_return);
        r.return_max = fmax(r.return_max, lanes[e].max_return);
    }
    r.return_mean = sum / (double)n;
    r.length_mean = steps / (double)n;
    double squares = 0.0;
    for (size_t e = 0; e < n; e++) {
        const double d = lanes[e].sum_return - r.return_mean;
        squares += d * d;
    }
    r.return_std = n > 1 ? sqrt(squares / (double)(n - 1)) : 0.0;
    return r;
}

enum dqn_status dqn_evaluator_run(struct dqn_evaluator *ev, struct dqn_queue *q,
                                  const struct dqn_buffer *params, uint64_t round,
                                  struct dqn_evaluation *result) {
    if (ev->steps == NULL || ev->program_params != params) {
        dqn_program_destroy(ev->steps);
        ev->steps = NULL;
        DQN_TRY(dqn_program_record(&ev->steps, step_lanes, ev));
        ev->program_params = params;
    }
    ev->params = params;
    DQN_TRY(start_lanes(ev, q, round));
    DQN_TRY(run_until_frozen(ev, q));
    const struct dqn_lane *lanes = ev->host_lanes->data;
    for (size_t k = 0; k < ev->o.n_agents; k++) {
        result[k] = summarise(lanes + k * ev->o.episodes, ev->o.episodes);
    }
    return DQN_OK;
}
