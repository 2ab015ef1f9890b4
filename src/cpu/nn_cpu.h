/* The network's operations on the CPU, a file a concept; nn_cpu.c joins them. */
#ifndef DQN_CPU_NN_CPU_H
#define DQN_CPU_NN_CPU_H

#include "cpu.h"

/* In front of a function with long loops: compiled for several instruction sets, of which the
 * loader takes the best that the machine has. No version contracts or reorders, so all give equal
 * bits. Sanitizers are not ready when the loader asks, so they get the plain version. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DQN_CPU_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DQN_CPU_VECTOR
#endif

/* Multiply-adds that make a task worth handing to another thread: about 20 us of one core. */
enum { DQN_CPU_TASK_MACS = 1 << 20 };
/* Rows below which a product spends its time on packing the weights. */
enum { DQN_CPU_SHARD_ROWS = 128, DQN_CPU_BLOCK_ROWS = 64 };

static inline size_t dqn_cpu_min(size_t a, size_t b) {
    return a < b ? a : b;
}

/* n split into equal parts of `size`, a multiple of 8; the last part may be smaller. */
struct dqn_cpu_split {
    size_t parts, size;
};

/* At most `max_parts` parts of at least `min_size`. Depends on shapes only, never on threads, so
 * that sums have one order. */
static inline struct dqn_cpu_split dqn_cpu_split(size_t n, size_t max_parts, size_t min_size) {
    const size_t fit = n / min_size;
    const size_t parts = max_parts < fit ? max_parts : fit;
    struct dqn_cpu_split split = {1, n};
    if (parts > 1) {
        split.size = ((n + parts - 1) / parts + 7) / 8 * 8;
        split.parts = (n + split.size - 1) / split.size;
    }
    return split;
}

size_t dqn_cpu_backward_workspace_bytes(const struct dqn_net *net, size_t n_agents, size_t batch);
size_t dqn_cpu_apply_workspace_bytes(const struct dqn_net *net, size_t n_agents);

enum dqn_status dqn_cpu_init(struct dqn_queue *q, const struct dqn_init_args *args);
enum dqn_status dqn_cpu_forward(struct dqn_queue *q, const struct dqn_forward_args *args);
enum dqn_status dqn_cpu_backward(struct dqn_queue *q, const struct dqn_backward_args *args);
enum dqn_status dqn_cpu_td(struct dqn_queue *q, const struct dqn_td_args *args);
enum dqn_status dqn_cpu_act(struct dqn_queue *q, const struct dqn_act_args *args);
enum dqn_status dqn_cpu_apply(struct dqn_queue *q, const struct dqn_apply_args *args);

#endif
