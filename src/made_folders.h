/* mkdir -p that can be taken back: the folders that a program really made on the way to one. */
#ifndef DQN_MADE_FOLDERS_H
#define DQN_MADE_FOLDERS_H

#include "base.h"
#include "config.h"
#include "file_ops.h"

/* All zero before the first make. */
struct dqn_made_folders {
    char path[DQN_TEXT_MAX];
    bool made[DQN_TEXT_MAX]; /* [n]: the first n bytes of the path name a folder that was made */
};

/* Makes what is missing of `path`, which is not empty; a later call for the same path, when others
 * removed some of it, adds to what was made. DQN_ERR_CONFIG for a path of DQN_TEXT_MAX bytes or
 * more; DQN_ERR_DISK with the part and the reason: then what was made is removed. */
enum dqn_status dqn_made_folders_make(struct dqn_made_folders *folders, const char *path,
                                      const struct dqn_file_ops *ops);
/* Removes those of them in which nothing is, the deepest first. Only calls that a signal handler
 * may make. */
void dqn_made_folders_remove(const struct dqn_made_folders *folders);

#endif
