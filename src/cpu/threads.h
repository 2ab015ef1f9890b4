/* A fork-join pool of threads. The caller of dqn_cpu_for (cpu.h) works as well, so a pool of one
 * thread has no worker and runs everything inline. Idle workers spin for some microseconds, because
 * a training step hands out work many times a millisecond, and then sleep. */
#ifndef DQN_CPU_THREADS_H
#define DQN_CPU_THREADS_H

#include "cpu.h"

/* `threads` >= 1, the caller included. DQN_ERR_MEMORY or DQN_ERR_DEVICE when they cannot start. */
enum dqn_status dqn_cpu_pool_create(struct dqn_cpu_pool **out, size_t threads);
void dqn_cpu_pool_destroy(struct dqn_cpu_pool *pool);
size_t dqn_cpu_pool_threads(const struct dqn_cpu_pool *pool);

#endif
