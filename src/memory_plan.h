/* What a run will allocate, by group, before anything is allocated. */
#ifndef DQN_MEMORY_PLAN_H
#define DQN_MEMORY_PLAN_H

#include "arena.h"

enum dqn_plan_group {
    DQN_PLAN_REPLAY,  /* "replay/", "sampler/": ring, priorities, sums */
    DQN_PLAN_NETWORK, /* parameters, moments, activations, batches; all that is named below not */
    DQN_PLAN_ENVIRONMENT, /* "env/", "eval/", "collect/", "window/", "row/" */
    DQN_PLAN_MARKET,      /* "market/" */
    DQN_PLAN_STAGING,     /* "staged/", "readback/" */
    DQN_PLAN_GROUPS
};

struct dqn_memory_plan {
    uint64_t bytes[DQN_PLAN_GROUPS]; /* on the device */
    uint64_t total;                  /* of these */
    uint64_t pinned;                 /* page-locked host memory for the device */
};

/* Sums the buffers that the arena holds on `device`, before or after its commit. */
void dqn_memory_plan_make(struct dqn_memory_plan *plan, const struct dqn_arena *arena,
                          const struct dqn_device *device);

/* DQN_ERR_DEVICE_MEMORY, with both numbers and the groups, when the plan is larger than
 * `free_bytes`. *but_replay, where not NULL, tells whether it would fit without the replay. */
enum dqn_status dqn_memory_plan_check(const struct dqn_memory_plan *plan, uint64_t free_bytes,
                                      bool *but_replay);

/* "47.0 MB (replay 44.6 MB, network 1.9 MB, environment 0.5 MB)": groups that are not empty. */
const char *dqn_memory_plan_text(char *text, size_t size, const struct dqn_memory_plan *plan);

#endif
