/* A report as files in a folder. */
#ifndef DQN_REPORT_FOLDER_H
#define DQN_REPORT_FOLDER_H

#include "market/trading_report.h"

/* Writes report.json, report.html, equity.csv, trades.csv, fills.csv, and with `steps` steps.csv.
 * Makes the folder when it is missing; each file is at any moment the old or the new one, complete,
 * and none is new before all are written; one that is a symbolic link stays it, what it leads to is
 * written. DQN_ERR_DISK with path and reason, also where something else than a file has such a
 * name. */
enum dqn_status dqn_report_folder_write(const struct dqn_trading_report *report, const char *folder,
                                        bool steps);

#endif
