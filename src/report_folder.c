#include "report_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_ops.h"
#include "market/report_csv.h"
#include "market/report_html.h"
#include "unfinished.h"

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

/* A file of a report: its place, and the name it has until the whole report is written. */
struct report_file {
    const char *name;
    report_writer writer;
    char path[DQN_TEXT_MAX], temporary[DQN_TEXT_MAX];
};

static enum dqn_status place_file(const char *folder, struct report_file *file) {
    const int length = snprintf(file->path, sizeof file->path, "%s/%s", folder, file->name);
    if (length < 0 || (size_t)length >= sizeof file->path) {
        return dqn_fail(DQN_ERR_DISK, "%s: the folder's name is too long", folder);
    }
    DQN_TRY(dqn_file_check_target(file->path));
    return dqn_file_temporary(file->temporary, sizeof file->temporary, file->path);
}

/* Writes beside the file. */
static enum dqn_status write_file(const struct dqn_trading_report *r, struct report_file *file) {
    DQN_TRY(dqn_unfinished_add(file->temporary));
    FILE *out = dqn_file_open_temporary(file->temporary);
    if (out == NULL) {
        return disk_error(file->path);
    }
    enum dqn_status status = file->writer(r, out);
    if (status == DQN_OK && (fflush(out) != 0 || ferror(out) != 0 || fsync(fileno(out)) != 0)) {
        status = disk_error(file->path);
    }
    if (fclose(out) != 0 && status == DQN_OK) {
        status = disk_error(file->path);
    }
    return status;
}

/* All of them, or none: nothing is put in place before everything is written. */
static enum dqn_status write_files(const struct dqn_trading_report *r, const char *folder,
                                   struct report_file *files, size_t n) {
    enum dqn_status status = DQN_OK;
    for (size_t i = 0; i < n; i++) {
        DQN_TRY(place_file(folder, &files[i]));
    }
    for (size_t i = 0; i < n && status == DQN_OK; i++) {
        status = write_file(r, &files[i]);
    }
    dqn_unfinished_hold();
    for (size_t i = 0; i < n && status == DQN_OK; i++) {
        status = dqn_file_commit(&dqn_file_ops_system, files[i].temporary, files[i].path);
    }
    for (size_t i = 0; i < n; i++) {
        unlink(files[i].temporary); /* there after an error only */
        dqn_unfinished_done(files[i].temporary);
    }
    dqn_unfinished_release();
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
        const int error = mkdir(path, 0777) != 0 ? errno : 0;
        if (error != 0 && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))) {
            return dqn_fail(DQN_ERR_DISK, "%s: cannot make this folder: %s", path,
                            strerror(error == EEXIST ? ENOTDIR : error));
        }
        *at = kept;
        if (kept == '\0') {
            return DQN_OK;
        }
    }
}

enum dqn_status dqn_report_folder_write(const struct dqn_trading_report *r, const char *folder,
                                        bool steps) {
    struct report_file files[] = {{.name = "equity.csv", .writer = write_equity},
                                  {.name = "trades.csv", .writer = write_trades},
                                  {.name = "fills.csv", .writer = write_fills},
                                  {.name = "report.json", .writer = write_json},
                                  {.name = "report.html", .writer = dqn_report_html},
                                  {.name = "steps.csv", .writer = write_steps}};
    DQN_TRY(make_folders(folder));
    return write_files(r, folder, files, DQN_COUNT_OF(files) - (steps ? 0 : 1));
}
