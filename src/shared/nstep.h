/* The n-step window of one lane: a ring of its last n transitions. The row that leaves it is the
 * oldest transition with the rewards of its own horizon m <= n, which ends where the episode ended:
 *     reward = sum over i < m of gamma^i r_i,  discount = gamma^m,  next = last next observation.
 * Source: Sutton and Barto 2018, section 7.1. */
#ifndef DQN_SHARED_NSTEP_H
#define DQN_SHARED_NSTEP_H

#include "hd.h"

enum dqn_window_end { DQN_WINDOW_GOES_ON, DQN_WINDOW_TERMINATED, DQN_WINDOW_TRUNCATED };

struct dqn_nstep_row {
    float reward, discount;
    uint8_t done;     /* 1 = terminated within the horizon: no bootstrap */
    size_t last_slot; /* whose next observation the row takes */
};

/* The window's slot that the step number `vector_steps` (from 1) goes to. */
DQN_SHARED size_t dqn_nstep_slot(uint64_t vector_steps, size_t n_step) {
    return (size_t)((vector_steps - 1) % n_step);
}

/* Sums the horizon that starts in slot `first` of a full window. `reward` and `end` point to the
 * lane's element of slot 0; slots are `stride` elements apart. */
DQN_SHARED struct dqn_nstep_row dqn_nstep_sum(const float *reward, const uint8_t *end,
                                              size_t stride, size_t first, size_t n_step,
                                              double gamma) {
    struct dqn_nstep_row row;
    double sum = 0.0, discount = 1.0;
    size_t slot = first;
    row.done = 0;
    row.last_slot = first;
    for (size_t i = 0; i < n_step; i++) {
        sum += discount * (double)reward[slot * stride];
        discount *= gamma;
        row.last_slot = slot;
        if (end[slot * stride] != DQN_WINDOW_GOES_ON) {
            row.done = (uint8_t)(end[slot * stride] == DQN_WINDOW_TERMINATED);
            break;
        }
        slot = slot + 1 == n_step ? 0 : slot + 1;
    }
    row.reward = (float)sum;
    row.discount = (float)discount;
    return row;
}

#endif
