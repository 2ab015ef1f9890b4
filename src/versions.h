/* Versions of the program and of the libraries it runs with. */
#ifndef DQN_VERSIONS_H
#define DQN_VERSIONS_H

#include <stdio.h>

#include "base.h"

/* Compares the libraries at hand with those the program was built for, before anything else:
 * DQN_ERR_STATE names both versions when they do not go together. */
enum dqn_status dqn_versions_check(void);
void dqn_versions_print(FILE *out);

#endif
