/* Inside of the CPU backend: its thread pool, and how an operation gets onto a queue. */
#ifndef DQN_CPU_CPU_H
#define DQN_CPU_CPU_H

#include "../backend.h"

struct dqn_cpu_pool;

/* Runs body(context, i) for i in [0, n), spread over the pool's threads, and returns when all are
 * done. The split into i is the caller's and fixed, so results do not depend on the thread count.
 * Not reentrant: a body may not call it. */
void dqn_cpu_for(struct dqn_cpu_pool *pool, size_t n, void (*body)(void *context, size_t i),
                 void *context);

/* An operation's work. `args` is the queue's copy of what was submitted. */
typedef enum dqn_status (*dqn_cpu_run)(struct dqn_cpu_pool *pool, const void *args);

/* Enqueues an operation. A plain queue runs it before returning; a late queue copies `size` bytes
 * of args and runs it in its worker, in order; its error then comes from the queue's wait. */
enum dqn_status dqn_cpu_submit(struct dqn_queue *q, dqn_cpu_run run, const void *args, size_t size);

extern const struct dqn_backend dqn_cpu_backend; /* backend_cpu.c */

/* The tables that backend_cpu.c joins. */
extern const struct dqn_nn_ops dqn_cpu_nn_ops;           /* nn_cpu.c */
extern const struct dqn_env_ops dqn_cpu_env_ops;         /* env_cpu.c */
extern const struct dqn_replay_ops dqn_cpu_replay_ops;   /* replay_cpu.c */
extern const struct dqn_sampler_ops dqn_cpu_sampler_ops; /* sampler_cpu.c */

#endif
