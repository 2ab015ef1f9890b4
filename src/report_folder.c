#include "report_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_ops.h"
#include "market/report_csv.h"
#include "market/report_html.h"

typedef enum dqn_status (*report_writer)(const struct dqn_trading_report *report, FILE *out);

static enum dqn_status write_json(const struct dqn_trading_report *r, FILE *out) {
    dqn_trading_report_json_pretty(r, out);
    return DQN_OK;
}

static enum dqn_status write_equity(const struct dqn_trading_report *r, FILE *out) {
    dqn_report_equity_csv(r, out);
    return DQN_OK;
}

static enum dqn_status write_trades(const struct dqn_trading_report *r, FILE *out) {
    dqn_report_trades_csv(r, out);
    return DQN_OK;
}

static enum dqn_status write_fills(const struct dqn_trading_report *r, FILE *out) {
    dqn_report_fills_csv(r, out);
    return DQN_OK;
}

static enum dqn_status write_steps(const struct dqn_trading_report *r, FILE *out) {
    dqn_report_steps_csv(r, out);
    return DQN_OK;
}

static enum dqn_status disk_error(const char *path) {
    return dqn_fail(DQN_ERR_DISK, "%s: cannot write the report: %s", path, strerror(errno));
}

/* Writes beside the file, then puts it in place. */
static enum dqn_status write_file(const struct dqn_trading_report *r, const char *folder,
                                  const char *name, report_writer writer) {
    char path[DQN_TEXT_MAX], temporary[DQN_TEXT_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        return dqn_fail(DQN_ERR_DISK, "%s: the folder's name is too long", folder);
    }
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, path));
    FILE *out = fopen(temporary, "wb");
    if (out == NULL) {
        return disk_error(path);
    }
    enum dqn_status status = writer(r, out);
    if (status == DQN_OK && (fflush(out) != 0 || ferror(out) != 0 || fsync(fileno(out)) != 0)) {
        status = disk_error(path);
    }
    if (fclose(out) != 0 && status == DQN_OK) {
        status = disk_error(path);
    }
    if (status == DQN_OK) {
        return dqn_file_commit(&dqn_file_ops_system, temporary, path);
    }
    unlink(temporary);
    return status;
}

/* The folder and what is missing above it. */
static enum dqn_status make_folders(const char *folder) {
    char path[DQN_TEXT_MAX];
    const int length = snprintf(path, sizeof path, "%s", folder);
    if (length <= 0 || (size_t)length >= sizeof path) {
        return dqn_fail(DQN_ERR_CONFIG, "--report: give the name of a folder");
    }
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != '\0') {
            continue;
        }
        const char kept = *at;
        *at = '\0';
        struct stat info;
        if (mkdir(path, 0777) != 0 && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))) {
            return dqn_fail(DQN_ERR_DISK, "%s: cannot make this folder: %s", path,
                            strerror(errno == EEXIST ? ENOTDIR : errno));
        }
        *at = kept;
        if (kept == '\0') {
            return DQN_OK;
        }
    }
}

enum dqn_status dqn_report_folder_write(const struct dqn_trading_report *r, const char *folder,
                                        bool steps) {
    DQN_TRY(make_folders(folder));
    DQN_TRY(write_file(r, folder, "equity.csv", write_equity));
    DQN_TRY(write_file(r, folder, "trades.csv", write_trades));
    DQN_TRY(write_file(r, folder, "fills.csv", write_fills));
    if (steps) {
        DQN_TRY(write_file(r, folder, "steps.csv", write_steps));
    }
    DQN_TRY(write_file(r, folder, "report.json", write_json));
    return write_file(r, folder, "report.html", dqn_report_html);
}
