#include "report_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_ops.h"
#include "made_folders.h"
#include "market/report_csv.h"
#include "market/report_html.h"
#include "unfinished.h"
#include "walk_forward.h"

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

enum { FILES = 6 };

static const struct report_file all_files[FILES] = {
    {.name = "equity.csv", .writer = write_equity},
    {.name = "trades.csv", .writer = write_trades},
    {.name = "fills.csv", .writer = write_fills},
    {.name = "report.json", .writer = write_json},
    {.name = "report.html", .writer = dqn_report_html},
    {.name = "steps.csv", .writer = write_steps}};

static enum dqn_status place_file(const char *folder, struct report_file *file) {
    const int length = snprintf(file->path, sizeof file->path, "%s/%s", folder, file->name);
    if (length < 0 || (size_t)length >= sizeof file->path) {
        return dqn_fail(DQN_ERR_DISK, "%s: the folder's name is too long", folder);
    }
    return dqn_file_temporary(file->temporary, sizeof file->temporary, file->path);
}

/* The files of a report in a folder; *n of them. */
static enum dqn_status place_files(const char *folder, bool steps, struct report_file *files,
                                   size_t *n) {
    *n = steps ? FILES : FILES - 1;
    memcpy(files, all_files, sizeof all_files);
    for (size_t i = 0; i < *n; i++) {
        DQN_TRY(place_file(folder, &files[i]));
    }
    return DQN_OK;
}

/* Writes beside the file. */
static enum dqn_status write_file(const struct dqn_trading_report *r, struct report_file *file) {
    DQN_TRY(dqn_unfinished_add(file->temporary));
    FILE *out = dqn_file_open_temporary(file->temporary, file->path);
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
static enum dqn_status write_files(const struct dqn_trading_report *r, struct report_file *files,
                                   size_t n) {
    enum dqn_status status = DQN_OK;
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

/* The parts of the path below `above`, which are to be made, as long as its file system takes. */
static enum dqn_status check_names(const char *folder, const char *below, const char *above) {
    const long most = pathconf(above, _PC_NAME_MAX);
    while (*below != '\0') {
        const size_t length = strcspn(below, "/");
        if (most > 0 && length > (size_t)most) {
            return dqn_fail(DQN_ERR_DISK,
                            "%s: cannot be made: %.40s... has %zu bytes, and a name here has at "
                            "most %ld; use a shorter one",
                            folder, below, length, most);
        }
        below += length;
        below += strspn(below, "/");
    }
    return DQN_OK;
}

/* Whether the folder takes files, or can be made with what is missing above it. *there: it is one.
 */
static enum dqn_status check_folder(const char *folder, bool *there) {
    char nearest[DQN_TEXT_MAX], above[DQN_TEXT_MAX];
    struct stat info;
    snprintf(nearest, sizeof nearest, "%s", folder);
    *there = true;
    while (stat(nearest, &info) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
           strcmp(nearest, ".") != 0) {
        *there = false;
        DQN_TRY(dqn_file_check_link(folder, nearest));
        DQN_TRY(dqn_file_folder(above, sizeof above, nearest));
        memcpy(nearest, above, sizeof nearest);
    }
    DQN_TRY(dqn_file_check_folder(folder, nearest));
    const size_t length = strcmp(nearest, ".") == 0 ? 0 : strlen(nearest);
    return *there ? DQN_OK : check_names(folder, folder + length, nearest);
}

enum dqn_status dqn_report_folder_check(const char *folder, bool steps) {
    struct report_file files[FILES];
    size_t n = 0;
    bool there = false;
    DQN_TRY(place_files(folder, steps, files, &n));
    DQN_TRY(check_folder(folder, &there));
    for (size_t i = 0; there && i < n; i++) {
        DQN_TRY(dqn_file_check_target(files[i].path));
    }
    return DQN_OK;
}

enum dqn_status dqn_report_folder_check_apart(const char *folder, bool steps,
                                              const struct dqn_config *config,
                                              const char *checkpoint, const char *walk) {
    struct report_file files[FILES];
    size_t n = 0;
    DQN_TRY(place_files(folder, steps, files, &n));
    for (size_t i = 0; i < n; i++) {
        DQN_TRY(dqn_bars_check_apart(config, files[i].path));
        DQN_TRY(checkpoint != NULL ? dqn_file_check_apart(files[i].path, checkpoint) : DQN_OK);
        DQN_TRY(walk != NULL ? dqn_walk_check_apart(walk, files[i].path) : DQN_OK);
    }
    return DQN_OK;
}

enum dqn_status dqn_report_folder_write(const struct dqn_trading_report *r, const char *folder,
                                        bool steps) {
    struct report_file files[FILES];
    struct dqn_made_folders made = {0};
    size_t n = 0;
    DQN_TRY(dqn_report_folder_check(folder, steps));
    DQN_TRY(place_files(folder, steps, files, &n));
    DQN_TRY(dqn_made_folders_make(&made, folder, NULL));
    const enum dqn_status status = write_files(r, files, n);
    if (status != DQN_OK) {
        dqn_made_folders_remove(&made);
    }
    return status;
}
