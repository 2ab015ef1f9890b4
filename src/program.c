#include "program.h"

#include <stdio.h>
#include <stdlib.h>

struct dqn_program {
    dqn_program_fn fn;
    void *context;
    uint64_t n_runs;
    struct dqn_graph *graph;
    const struct dqn_queue_ops *ops; /* of the backend that made the graph */
};

enum dqn_status dqn_program_record(struct dqn_program **out, dqn_program_fn fn, void *context) {
    struct dqn_program *program = NULL;
    DQN_TRY(dqn_alloc((void **)&program, 1, sizeof *program, "a program"));
    program->fn = fn;
    program->context = context;
    *out = program;
    return DQN_OK;
}

static enum dqn_status capture(struct dqn_program *program, struct dqn_queue *q) {
    const struct dqn_queue_ops *ops = q->device->backend->queue;
    DQN_TRY(ops->capture_begin(q));
    q->capturing = true;
    const enum dqn_status status = program->fn(program->context, q);
    q->capturing = false;
    char text[512]; /* the first error's: ending a capture that failed is an error as well */
    snprintf(text, sizeof text, "%s", dqn_error_text());
    struct dqn_graph *graph = NULL;
    const enum dqn_status ended = ops->capture_end(q, &graph);
    if (status != DQN_OK || ended != DQN_OK) {
        if (graph != NULL) {
            ops->graph_destroy(graph);
        }
        return status != DQN_OK ? dqn_fail(status, "%s", text) : ended;
    }
    program->graph = graph;
    program->ops = ops;
    return DQN_OK;
}

enum dqn_status dqn_program_run(struct dqn_program *program, struct dqn_queue *q) {
    const struct dqn_queue_ops *ops = q->device->backend->queue;
    const bool first = program->n_runs++ == 0;
    if (first || ops->capture_begin == NULL) {
        return program->fn(program->context, q);
    }
    if (program->graph == NULL) {
        DQN_TRY(capture(program, q));
    }
    return ops->graph_launch(q, program->graph);
}

void dqn_program_destroy(struct dqn_program *program) {
    if (program == NULL) {
        return;
    }
    if (program->graph != NULL) {
        program->ops->graph_destroy(program->graph);
    }
    free(program);
}
