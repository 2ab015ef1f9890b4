/* What a program is writing and must not leave half done: temporaries that are removed when SIGINT,
 * SIGTERM or SIGHUP ends it. Such a program ends at once, at any moment, as nothing else of it
 * needs saving. (dqn-train ends otherwise: it saves first.) */
#ifndef DQN_UNFINISHED_H
#define DQN_UNFINISHED_H

#include "base.h"

enum { DQN_UNFINISHED_MAX = 8 };

/* For the start of the program. What the caller has set to be ignored stays ignored (nohup). */
void dqn_unfinished_watch(void);

/* Notes a temporary before it is created. DQN_ERR_INTERNAL beyond DQN_UNFINISHED_MAX at a time. */
enum dqn_status dqn_unfinished_add(const char *path);
/* It has taken its place, or is gone. */
void dqn_unfinished_done(const char *path);

/* Between the two calls a signal waits, so that files which belong together are all put in place.
 */
void dqn_unfinished_hold(void);
void dqn_unfinished_release(void);

#endif
