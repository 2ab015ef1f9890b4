/* Removes a folder with all that is in it, without a shell: tools that watch every process of a
 * test would watch that one too. */
#ifndef DQN_TESTS_REMOVE_TREE_H
#define DQN_TESTS_REMOVE_TREE_H

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>

static inline int remove_one(const char *path, const struct stat *info, int type,
                             struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline void remove_tree(const char *path) {
    cr_assert_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0, "%s stays", path);
}

#endif
