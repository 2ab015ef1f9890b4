/* A report as files in a folder. */
#ifndef DQN_REPORT_FOLDER_H
#define DQN_REPORT_FOLDER_H

#include "market/trading_report.h"

/* Writes report.json, report.html, equity.csv, trades.csv, fills.csv, and with `steps` steps.csv.
 * Makes the folder when it is missing, and removes it again after an error; each file is at any
 * moment the old or the new one, complete, and none is new before all are written. DQN_ERR_DISK as
 * of dqn_report_folder_check, or with path and reason of what failed. */
enum dqn_status dqn_report_folder_write(const struct dqn_trading_report *report, const char *folder,
                                        bool steps);

/* Before there is a report: DQN_ERR_DISK when the folder is none and cannot be made (a symbolic
 * link that leads nowhere, a name that is too long), takes no files, or has something else than a
 * file of such a name. Nothing is made. */
enum dqn_status dqn_report_folder_check(const char *folder, bool steps);
/* The same: DQN_ERR_CONFIG, naming both, when one of the files is one that is read:
 *   config      of the evaluation: its own file, and data.file
 *   checkpoint  or NULL
 *   walk        folder of a walk-forward, or NULL: the files of its runs */
enum dqn_status dqn_report_folder_check_apart(const char *folder, bool steps,
                                              const struct dqn_config *config,
                                              const char *checkpoint, const char *walk);

#endif
