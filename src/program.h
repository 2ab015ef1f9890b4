/* A program: a function that enqueues a fixed sequence of operations, run many times. Where the
 * backend can capture (CUDA), the first run calls the function, which also warms up the libraries,
 * the second one captures it, and from then on a run is one graph launch. Elsewhere each run calls
 * the function. Both paths come from the one function, so they cannot differ. */
#ifndef DQN_PROGRAM_H
#define DQN_PROGRAM_H

#include "backend.h"

typedef enum dqn_status (*dqn_program_fn)(void *context, struct dqn_queue *q);

struct dqn_program;

/* `context` must outlive the program. The function may depend on nothing that changes between
 * runs but device memory. */
enum dqn_status dqn_program_record(struct dqn_program **out, dqn_program_fn fn, void *context);
enum dqn_status dqn_program_run(struct dqn_program *program, struct dqn_queue *q);
void dqn_program_destroy(struct dqn_program *program);

#endif
