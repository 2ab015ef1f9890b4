/* What a person sees while training: on a terminal a bar with the time left, and everywhere one
 * line an epoch. */
#ifndef DQN_PROGRESS_H
#define DQN_PROGRESS_H

#include "base.h"

struct dqn_progress {
    bool quiet, terminal;
    uint64_t total_steps;                /* of the whole run */
    uint64_t first_steps, first_updates; /* where this process began */
    double begun_s, shown_s;
    double loss, score, epsilon; /* of the latest epoch */
    bool header_shown;
};

void dqn_progress_begin(struct dqn_progress *progress, bool quiet, uint64_t total_steps,
                        uint64_t env_steps, uint64_t updates);
/* Redraws the bar, at most ten times a second; cheap enough to call at every step. */
void dqn_progress_update(struct dqn_progress *progress, uint64_t env_steps, uint64_t updates);
/* One line for a row of DQN_METRIC_ALL values (metrics.h). `best`: the score is the best so far. */
void dqn_progress_epoch(struct dqn_progress *progress, const double *row, bool best);
/* Takes the bar away. */
void dqn_progress_end(struct dqn_progress *progress);

#endif
