/* Inside of the replay: what replay.c (its operations) and replay_move.c (its way to another
 * device) share. */
#ifndef DQN_REPLAY_PARTS_H
#define DQN_REPLAY_PARTS_H

#include "replay.h"
#include "replay_staged.h"

struct dqn_replay {
    struct dqn_config_replay config;
    struct dqn_replay_options o;
    const struct dqn_device *device;
    struct dqn_arena *arena;
    struct dqn_staging *staging; /* NULL = on the learner's device */
    struct dqn_sampler *sampler;
    const struct dqn_buffer *agents; /* [K], in the replay's memory */
    struct dqn_buffer *counters;     /* [K], in the replay's memory */
    /* the ring */
    struct dqn_buffer *states, *next_states;                  /* [K, N, O] */
    struct dqn_buffer *actions, *rewards, *discounts, *dones; /* [K, N] */
    struct dqn_buffer *priorities;                            /* [K, N] */
    struct dqn_buffer *ring;                                  /* [2] struct dqn_ring */
    struct dqn_buffer *priority_seen;                         /* [K] */
    /* a micro-batch, and what lives until the priority update */
    struct dqn_buffer *state, *next;                      /* [K, B, obs_ld] */
    struct dqn_buffer *action, *reward, *discount, *done; /* [K, B] */
    struct dqn_buffer *weight;                            /* [K, B] */
    struct dqn_buffer *index, *td;                        /* [M, K, B] */
    /* the host's view */
    uint64_t rows;       /* inserted by an agent, as noted */
    uint64_t rows_ahead; /* inserted, and not noted yet */
    size_t n_sampled;    /* slots that wait for their priority update */
    bool drawn;          /* rows of the next slot are drawn, and not gathered yet */
    struct dqn_replay_clock clock;
    /* another device to go on at */
    bool failed;           /* an operation failed while a program was captured */
    struct dqn_arena *own; /* after a move: its buffers, until dqn_replay_settle */
    char why[768];         /* it moved; "" = it did not */
};

#endif
