/* Run folders: output/<name>-<n> with the run's files, output/latest pointing at the newest.
 *
 *   config.yaml             the resolved configuration
 *   epoch-000012.h5         checkpoint after 12 epochs
 *   epoch-000012-partial.h5 inside the 13th epoch (the run was interrupted)
 *   best.h5                 the one with the best evaluation, with its permission bits
 *   lock                    held while a process trains here
 *   .tmp-<pid>-*            unfinished; removed when the next run opens the folder */
#ifndef DQN_RUN_FOLDER_H
#define DQN_RUN_FOLDER_H

#include "base.h"
#include "config.h"
#include "file_ops.h"
#include "made_folders.h"

struct dqn_run_folder {
    char path[DQN_TEXT_MAX];
    int lock;                      /* open lock file; -1 = none */
    struct dqn_made_folders above; /* output folder and parents, as far as a create made them */
};

/* Makes the output folder (and its parents) when missing, then a new folder output/<name>-<n>, n
 * the lowest that is free, takes its lock and probes it.
 * DQN_ERR_CONFIG for a name that is no plain file name; DQN_ERR_DISK with path and reason. */
enum dqn_status dqn_run_folder_create(struct dqn_run_folder *out, const char *output,
                                      const char *name, const struct dqn_file_ops *ops);
/* Opens an existing run folder to go on in it: lock, left-over temporaries removed, probe.
 * DQN_ERR_BUSY when another process trains in it; DQN_ERR_CONFIG when its path leaves no room for
 * the names of its files. */
enum dqn_status dqn_run_folder_open(struct dqn_run_folder *out, const char *path,
                                    const struct dqn_file_ops *ops);
/* Gives the lock back. */
void dqn_run_folder_close(struct dqn_run_folder *folder);
/* Makes output/latest lead to the run, which begins. A person's own file or folder of that name
 * stays; what hinders is only said. */
void dqn_run_folder_point_latest(const char *path, const struct dqn_file_ops *ops);
/* For a run that was created and could not begin: removes the folder, unless it holds more than its
 * config.yaml, its lock and an empty metrics.csv (or the new one that was to take its place), and
 * the folders above that were made for it, where nothing else is in them. */
void dqn_run_folder_discard(struct dqn_run_folder *folder, const struct dqn_file_ops *ops);

/* The same from inside a signal handler, for a run that has not begun: paths made beforehand, and
 * calls that a handler may make. */
struct dqn_run_folder_undo {
    char folder[DQN_TEXT_MAX], lock[DQN_TEXT_MAX + 16];
    char metrics[DQN_TEXT_MAX + 16], fresh_metrics[DQN_TEXT_MAX + 16];
    struct dqn_made_folders above;
};
void dqn_run_folder_undo_plan(struct dqn_run_folder_undo *out, const struct dqn_run_folder *folder);
void dqn_run_folder_undo(const struct dqn_run_folder_undo *undo);

/* Creates, writes, syncs and removes a file there: saving will not fail for want of rights. */
enum dqn_status dqn_run_folder_probe(const char *path, const struct dqn_file_ops *ops);
/* Compares free space with `bytes` a checkpoint: less than two of them is DQN_ERR_DISK, less than
 * keep_last + 2 (kept ones, the best, the one being written) a warning; both give the numbers. */
enum dqn_status dqn_run_folder_check_space(const char *path, uint64_t bytes, int64_t keep_last);
/* The same with the free bytes given. */
enum dqn_status dqn_run_folder_judge_space(const char *path, uint64_t bytes, int64_t keep_last,
                                           uint64_t free_bytes);

/* Writes the run's config.yaml, complete or not at all. */
enum dqn_status dqn_run_folder_write_config(const char *path, const char *text,
                                            const struct dqn_file_ops *ops);

/* Path of a checkpoint: folder/epoch-<epochs>[-partial].h5. */
enum dqn_status dqn_run_folder_file(char *out, size_t size, const char *folder, uint64_t epochs,
                                    bool partial);
/* Takes such a file name (without folder) apart; false when it is not exactly one. */
bool dqn_run_folder_parse(const char *name, uint64_t *epochs, bool *partial);

/* Makes folder/best.h5 the same as `file` (a hard link, or a copy where links are not to be had),
 * atomically. */
enum dqn_status dqn_run_folder_set_best(const char *folder, const char *file,
                                        const struct dqn_file_ops *ops);
/* Of the checkpoints up to `newest` (the file just written) keeps the `keep_last` newest and
 * removes the others; 0 keeps all. Touches only regular files with exactly a checkpoint's name that
 * start with a checkpoint's magic line; best.h5 never. */
enum dqn_status dqn_run_folder_prune(const char *folder, const char *newest, int64_t keep_last,
                                     const struct dqn_file_ops *ops);
/* For going on from a checkpoint that is not the folder's newest: later ones get names that start
 * with "superseded-" (said), so that they neither count as newest nor push out new ones. */
enum dqn_status dqn_run_folder_supersede(const char *folder, const char *file,
                                         const struct dqn_file_ops *ops);

/* Which checkpoint --resume means: a file itself; the newest of a run folder (best.h5 where no
 * other is left); the newest of the run that an output folder's `latest` points at. A newest one
 * that is damaged is DQN_ERR_CHECKPOINT, and the text names the newest good one to ask for instead.
 */
enum dqn_status dqn_run_folder_resolve(char *out, size_t size, const char *path);

/* Which checkpoint dqn-eval means: a file itself; best.h5 of a run folder, or of the run that an
 * output folder's `latest` points at; where no evaluation was made yet, what --resume means. */
enum dqn_status dqn_run_folder_best(char *out, size_t size, const char *path);

/* --verify: a line for each checkpoint of a file, run folder or output folder on `report`.
 * DQN_ERR_CHECKPOINT when the newest or best.h5 is damaged (other damaged ones are reported only)
 * or there is none. */
enum dqn_status dqn_run_folder_verify(const char *path, FILE *report);

#endif
