/* A last word where a library crashes on a damaged file: HDF5 1.10 reads beyond its buffers when a
 * message inside the file has a wrong length. The process cannot go on then, but it can say why. */
#ifndef DQN_MARKET_CRASH_GUARD_H
#define DQN_MARKET_CRASH_GUARD_H

#include "../base.h"

/* Until the end, a crash (SIGSEGV, SIGBUS, SIGFPE, SIGABRT) prints "`text`" and ends the process
 * with the exit code of `status`. Not recursive; one thread at a time. */
void dqn_crash_guard_begin(enum dqn_status status, const char *text);
void dqn_crash_guard_end(void);

#endif
