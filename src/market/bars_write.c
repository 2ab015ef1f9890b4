#include "bars_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../file_ops.h"
#include "../h5file.h"
#include "../unfinished.h"
#include "timestamps.h"

static bool write_column(hid_t file, const char *name, hid_t stored, hid_t type, size_t n,
                         const void *values) {
    const hsize_t extent = n, chunk = n < 65536 ? n : 65536;
    const hid_t space = H5Screate_simple(1, &extent, NULL);
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(layout, 1, &chunk);
    H5Pset_shuffle(layout);
    H5Pset_deflate(layout, 4);
    H5Pset_obj_track_times(layout, false); /* the same bars are the same bytes */
    const hid_t dataset = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, layout, H5P_DEFAULT);
    const bool good =
        dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    H5Dclose(dataset);
    H5Pclose(layout);
    H5Sclose(space);
    return good;
}

static bool write_reals(hid_t file, const char *name, size_t n, const double *values) {
    return values == NULL || write_column(file, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, n, values);
}

static bool write_attribute(hid_t file, const char *name, hid_t stored, hid_t type,
                            const void *value) {
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t id = H5Acreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool good = id >= 0 && H5Awrite(id, type, value) >= 0;
    H5Aclose(id);
    H5Sclose(space);
    return good;
}

static bool write_text(hid_t file, const char *name, const char *text) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(text) + 1);
    const bool good = write_attribute(file, name, type, type, text);
    H5Tclose(type);
    return good;
}

/* The whole spread; doubling is exact, so that reading it back gives the same halves. */
static enum dqn_status write_spread(hid_t file, const struct dqn_bars *bars, bool *good) {
    if (bars->half_spread == NULL) {
        return DQN_OK;
    }
    struct dqn_bars twice;
    DQN_TRY(dqn_bars_alloc(&twice, bars->n, false, true, false, false));
    for (size_t i = 0; i < bars->n; i++) {
        twice.half_spread[i] = 2.0 * bars->half_spread[i];
    }
    *good = write_reals(file, "spread", bars->n, twice.half_spread) && *good;
    dqn_bars_free(&twice);
    return DQN_OK;
}

static enum dqn_status write_all(hid_t file, const struct dqn_bars *bars,
                                 const struct dqn_config_data *config, bool *good) {
    const int schema = 1;
    const char *const bar_time = config->bar_time == DQN_BAR_TIME_CLOSE ? "close" : "open";
    *good =
        write_column(file, "timestamp", H5T_STD_I64LE, H5T_NATIVE_INT64, bars->n, bars->time_ns) &&
        write_reals(file, "open", bars->n, bars->open) &&
        write_reals(file, "high", bars->n, bars->high) &&
        write_reals(file, "low", bars->n, bars->low) &&
        write_reals(file, "close", bars->n, bars->close) &&
        write_reals(file, "volume", bars->n, bars->volume);
    DQN_TRY(write_spread(file, bars, good));
    *good = *good && write_text(file, "symbol", bars->info.symbol) &&
            write_text(file, "timezone", config->timezone) &&
            write_text(file, "bar_time", bar_time) &&
            write_attribute(file, "bar_seconds", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE,
                            &bars->info.bar_seconds) &&
            write_attribute(file, "schema", H5T_STD_I32LE, H5T_NATIVE_INT, &schema);
    return DQN_OK;
}

static enum dqn_status not_written(const char *path, int error) {
    return dqn_fail(DQN_ERR_DISK, "%s: cannot be written: %s; check the folder and its free space",
                    path, strerror(error));
}

/* Fills an empty open file. Writes go through the sink, as HDF5 cannot close a file on a full disk.
 */
static enum dqn_status fill_hdf5(int fd, const char *path, const struct dqn_bars *bars,
                                 const struct dqn_config_data *config) {
    struct dqn_h5_sink sink = {.fd = fd};
    hid_t file = H5I_INVALID_HID;
    bool good = false;
    dqn_h5_lock();
    enum dqn_status status = dqn_h5_create(&file, &sink, 0);
    if (status == DQN_OK) {
        status = write_all(file, bars, config, &good);
    }
    if (status == DQN_OK && !good) {
        status = dqn_h5_fail(DQN_ERR_DISK, "%s: cannot be written", path);
    }
    const enum dqn_status closed = dqn_h5_create_close(file, &sink, path);
    dqn_h5_unlock();
    return closed != DQN_OK ? closed : status;
}

static enum dqn_status write_hdf5(const struct dqn_bars *bars, const char *temporary,
                                  const char *path, const struct dqn_config_data *config) {
    const int fd = dqn_file_create_temporary(NULL, temporary, path, O_RDWR);
    if (fd < 0) {
        return not_written(path, errno);
    }
    const enum dqn_status status = fill_hdf5(fd, path, bars, config);
    int error = fsync(fd) != 0 ? errno : 0;
    if (close(fd) != 0 && error == 0) {
        error = errno;
    }
    return status == DQN_OK && error != 0 ? not_written(path, error) : status;
}

/* A file to write, and the name it has until it is finished. */
struct place {
    const char *path;
    char temporary[4096];
};

/* Puts a temporary in place, or after an error removes it. */
static enum dqn_status finish(enum dqn_status status, const struct place *place) {
    if (status == DQN_OK) {
        status = dqn_file_commit(NULL, place->temporary, place->path);
    } else {
        unlink(place->temporary);
    }
    dqn_unfinished_done(place->temporary);
    return status;
}

/* That a bar was filled in is said by its volume, 0: without a volume it would be a bar like others
 * in the file, at which an agent may trade. */
static enum dqn_status check_fills(const struct dqn_bars *bars, const char *path) {
    size_t n_filled = 0;
    for (size_t i = 0; bars->untradable != NULL && bars->volume == NULL && i < bars->n; i++) {
        n_filled += bars->untradable[i];
    }
    if (n_filled > 0) {
        return dqn_fail(
            DQN_ERR_DATA,
            "%s: %zu filled-in bar%s would lose the mark, as there is no volume, whose 0 "
            "it is: convert with data.gaps=keep, and fill in when the file is used",
            path, n_filled, dqn_plural(n_filled));
    }
    return DQN_OK;
}

static enum dqn_status begin(const struct dqn_bars *bars, const char *path, struct place *place) {
    DQN_TRY(check_fills(bars, path));
    DQN_TRY(dqn_file_check_target(path));
    place->path = path;
    DQN_TRY(dqn_file_temporary(place->temporary, sizeof(place->temporary), path));
    return dqn_unfinished_add(place->temporary);
}

enum dqn_status dqn_bars_write_hdf5(const struct dqn_bars *bars, const char *path,
                                    const struct dqn_config_data *config) {
    struct place place;
    DQN_TRY(begin(bars, path, &place));
    return finish(write_hdf5(bars, place.temporary, path, config), &place);
}

/* The rows; 0, or the errno of what failed. The file stays open. */
static int print_rows(const struct dqn_bars *bars, FILE *file) {
    errno = 0;
    fprintf(file, "time,open,high,low,close%s\n", bars->volume != NULL ? ",volume" : "");
    for (size_t i = 0; i < bars->n && ferror(file) == 0; i++) {
        char time[40];
        fprintf(file, "%sZ,%.17g,%.17g,%.17g,%.17g",
                dqn_stamp_text(time, sizeof(time), bars->time_ns[i]), bars->open[i], bars->high[i],
                bars->low[i], bars->close[i]);
        if (bars->volume != NULL) {
            fprintf(file, ",%.17g", bars->volume[i]);
        }
        fputc('\n', file);
    }
    const bool failed = ferror(file) != 0 || fflush(file) != 0;
    return !failed ? 0 : errno != 0 ? errno : EIO;
}

/* Writes into what keeps no bytes that could be replaced: a pipe, a terminal. */
static enum dqn_status write_in_place(const struct dqn_bars *bars, const char *path) {
    const bool standard = dqn_file_is_standard_output(path);
    FILE *const file = standard ? stdout : fopen(path, "w");
    if (file == NULL) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be opened: %s", path, strerror(errno));
    }
    int error = print_rows(bars, file);
    if (!standard && fclose(file) != 0 && error == 0) {
        error = errno;
    }
    return error == 0 ? DQN_OK
                      : dqn_fail(DQN_ERR_DISK,
                                 "%s: writing failed: %s; what is there of it is not "
                                 "complete",
                                 path, strerror(error));
}

static enum dqn_status write_csv(const struct dqn_bars *bars, const char *temporary,
                                 const char *path) {
    FILE *const file = dqn_file_open_temporary(temporary, path);
    if (file == NULL) {
        return not_written(path, errno);
    }
    int error = print_rows(bars, file);
    if (error == 0 && fsync(fileno(file)) != 0) {
        error = errno;
    }
    if (fclose(file) != 0 && error == 0) {
        error = errno;
    }
    return error != 0 ? not_written(path, error) : DQN_OK;
}

/* Whether a CSV goes through it, and nothing is replaced. */
static bool goes_through(const char *path) {
    return dqn_file_is_standard_output(path) || dqn_file_is_stream(path);
}

enum dqn_status dqn_bars_check_csv_target(const char *path) {
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (dqn_file_is_standard_output(path) && (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)) {
        return dqn_fail(DQN_ERR_DISK,
                        "%s: the standard output is closed, so nothing can be written to it; open "
                        "it, or name a file",
                        path);
    }
    return goes_through(path) ? DQN_OK : dqn_file_check_target(path);
}

enum dqn_status dqn_bars_write_csv(const struct dqn_bars *bars, const char *path) {
    struct place place;
    if (goes_through(path)) {
        DQN_TRY(check_fills(bars, path));
        return write_in_place(bars, path);
    }
    DQN_TRY(begin(bars, path, &place));
    return finish(write_csv(bars, place.temporary, path), &place);
}
