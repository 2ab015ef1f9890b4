/* Work that falls into independent pieces, on several threads. */
#ifndef DQN_PARALLEL_H
#define DQN_PARALLEL_H

#include "base.h"

enum { DQN_PARALLEL_MAX = 64 };

/* One piece. Pieces run at the same time, so each writes to places of its own. */
typedef enum dqn_status (*dqn_parallel_body)(void *context, size_t i);

/* Runs body(context, i) for each i in [0, n), the caller's thread included.
 *   threads  0 = one a core; at most DQN_PARALLEL_MAX are used. Where one cannot start, the others
 *            do its work.
 * The error, with its text, of the lowest i that failed; pieces after it may not have run. */
enum dqn_status dqn_parallel(size_t threads, size_t n, dqn_parallel_body body, void *context);

#endif
