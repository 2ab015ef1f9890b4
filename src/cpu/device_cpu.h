/* The CPU device and its queues: what backend_cpu.c and queue_cpu.c share. */
#ifndef DQN_CPU_DEVICE_CPU_H
#define DQN_CPU_DEVICE_CPU_H

#include <pthread.h>

#include "cpu.h"

struct dqn_cpu_device {
    struct dqn_cpu_pool *pool;
    pthread_mutex_t pool_lock; /* queues of one device take turns on the pool */
    bool late;                 /* its queues run operations later, in a worker */
};

extern const struct dqn_queue_ops dqn_cpu_queue_ops; /* queue_cpu.c */

#endif
