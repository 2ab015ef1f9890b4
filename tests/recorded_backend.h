/* The CPU backend with programs that are captured as lists of calls, for what happens at a capture.
 * A test replaces operations in the tables. */
#ifndef DQN_TESTS_RECORDED_BACKEND_H
#define DQN_TESTS_RECORDED_BACKEND_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "replay_parts.h"
#include "run_fixture.h"
#include "status_checks.h"
#include "trainer_parts.h"

enum { ARGS_MAX = 1024, CALLS_MAX = 512 };

typedef enum dqn_status (*call_fn)(struct dqn_queue *q, const void *args);

struct call {
    call_fn fn;
    _Alignas(16) char args[ARGS_MAX];
};

struct dqn_graph {
    size_t n;
    struct call calls[CALLS_MAX];
};

/* The only one of a test program. */
static struct recorded {
    const struct dqn_backend *real; /* the CPU's */
    struct dqn_backend backend;
    struct dqn_nn_ops nn;
    struct dqn_env_ops env;
    struct dqn_replay_ops replay;
    struct dqn_sampler_ops sampler;
    struct dqn_queue_ops queue;
    struct dqn_graph *graph; /* being captured */
    size_t n_captured;       /* graphs made */
} recorded;

/* Calls fn, or puts it into the graph that is being captured. */
static inline enum dqn_status recorded_take(struct dqn_queue *q, call_fn fn, const void *args,
                                            size_t size) {
    if (!q->capturing) {
        return fn(q, args);
    }
    cr_assert_lt(recorded.graph->n, CALLS_MAX);
    cr_assert_leq(size, ARGS_MAX);
    struct call *call = &recorded.graph->calls[recorded.graph->n++];
    call->fn = fn;
    memcpy(call->args, args, size);
    return DQN_OK;
}

static inline enum dqn_status recorded_capture_begin(struct dqn_queue *q) {
    (void)q;
    recorded.graph = calloc(1, sizeof *recorded.graph);
    cr_assert_not_null(recorded.graph);
    return DQN_OK;
}

/* The caller destroys what was captured up to a failure. */
static inline enum dqn_status recorded_capture_end(struct dqn_queue *q, struct dqn_graph **out) {
    (void)q;
    *out = recorded.graph;
    recorded.graph = NULL;
    recorded.n_captured++;
    return DQN_OK;
}

static inline enum dqn_status recorded_launch(struct dqn_queue *q, struct dqn_graph *graph) {
    for (size_t i = 0; i < graph->n; i++) {
        OK(graph->calls[i].fn(q, graph->calls[i].args));
    }
    return DQN_OK;
}

static inline void recorded_destroy(struct dqn_graph *graph) {
    free(graph);
}

#define RECORDED(name, table, type)                                                                \
    static inline enum dqn_status call_##name(struct dqn_queue *q, const void *args) {             \
        return recorded.real->table->name(q, args);                                                \
    }                                                                                              \
    static inline enum dqn_status recorded_##name(struct dqn_queue *q, const type *args) {         \
        return recorded_take(q, call_##name, args, sizeof *args);                                  \
    }
RECORDED(forward, nn, struct dqn_forward_args)
RECORDED(backward, nn, struct dqn_backward_args)
RECORDED(td, nn, struct dqn_td_args)
RECORDED(apply, nn, struct dqn_apply_args)
RECORDED(act, nn, struct dqn_act_args)
RECORDED(step, env, struct dqn_env_args)
RECORDED(nstep, env, struct dqn_nstep_args)
RECORDED(insert, replay, struct dqn_insert_args)
RECORDED(gather, replay, struct dqn_gather_args)
RECORDED(draw, sampler, struct dqn_draw_args)
RECORDED(inserted, sampler, struct dqn_inserted_args)
RECORDED(update, sampler, struct dqn_priority_args)
#undef RECORDED

/* Makes it anew. */
static inline void recorded_make(const char *name) {
    const struct dqn_backend *real = dqn_backend_find("cpu");
    struct recorded *r = &recorded;
    *r = (struct recorded){.real = real,
                           .backend = *real,
                           .nn = *real->nn,
                           .env = *real->env,
                           .replay = *real->replay,
                           .sampler = *real->sampler,
                           .queue = *real->queue};
    r->nn.forward = recorded_forward;
    r->nn.backward = recorded_backward;
    r->nn.td = recorded_td;
    r->nn.apply = recorded_apply;
    r->nn.act = recorded_act;
    r->nn.forward_many = NULL;
    r->env.step = recorded_step;
    r->env.nstep = recorded_nstep;
    r->replay.insert = recorded_insert;
    r->replay.gather = recorded_gather;
    r->sampler.draw = recorded_draw;
    r->sampler.inserted = recorded_inserted;
    r->sampler.update = recorded_update;
    r->queue.capture_begin = recorded_capture_begin;
    r->queue.capture_end = recorded_capture_end;
    r->queue.graph_launch = recorded_launch;
    r->queue.graph_destroy = recorded_destroy;
    r->backend.name = name;
    r->backend.nn = &r->nn;
    r->backend.env = &r->env;
    r->backend.replay = &r->replay;
    r->backend.sampler = &r->sampler;
    r->backend.queue = &r->queue;
}

/* A trainer of `text` with one more key set, made on the CPU; then its device gets the recorded
 * backend, which `make` makes. With `refuge`, its replay may move to a CPU of its own. */
static inline struct dqn_trainer *recorded_trainer(const char *text, const char *key,
                                                   struct dqn_trainer_options options,
                                                   void (*make)(void), bool refuge) {
    const struct dqn_device_options cpu = {.threads = 1};
    struct dqn_trainer *t = NULL;
    const char *const set[] = {"device=cpu", key};
    options.quiet = true;
    OK(run_create(&t, text, 2, set, options));
    make();
    t->device.backend = &recorded.backend;
    if (refuge) {
        OK(recorded.real->memory->open(&t->host_device, &cpu));
        t->host_open = true;
        t->replay->o.refuge = &t->host_device;
    }
    return t;
}

#endif
