#include "bars_write.h"

#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "timestamps.h"

static bool write_column(hid_t file, const char *name, hid_t stored, hid_t type, size_t n,
                         const void *values) {
    const hsize_t extent = n, chunk = n < 65536 ? n : 65536;
    const hid_t space = H5Screate_simple(1, &extent, NULL);
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(layout, 1, &chunk);
    H5Pset_shuffle(layout);
    H5Pset_deflate(layout, 4);
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

static enum dqn_status not_written(const char *path) {
    return dqn_fail(DQN_ERR_DISK, "%s: cannot be written: %s; check the folder and its free space",
                    path, errno != 0 ? strerror(errno) : "the HDF5 library failed");
}

enum dqn_status dqn_bars_write_hdf5(const struct dqn_bars *bars, const char *path,
                                    const struct dqn_config_data *config) {
    char temporary[DQN_TEXT_MAX + 32];
    H5E_auto2_t print = NULL;
    void *print_context = NULL;
    snprintf(temporary, sizeof(temporary), "%s.writing-%ld", path, (long)getpid());
    H5Eget_auto2(H5E_DEFAULT, &print, &print_context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    errno = 0;
    bool good = false;
    enum dqn_status status = DQN_OK;
    const hid_t file = H5Fcreate(temporary, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    if (file >= 0) {
        status = write_all(file, bars, config, &good);
        good = H5Fclose(file) >= 0 && good;
    }
    if (status == DQN_OK && (!good || rename(temporary, path) != 0)) {
        status = not_written(path);
    }
    if (status != DQN_OK && file >= 0) {
        unlink(temporary);
    }
    H5Eset_auto2(H5E_DEFAULT, print, print_context);
    return status;
}

enum dqn_status dqn_bars_write_csv(const struct dqn_bars *bars, const char *path) {
    const bool standard = strcmp(path, "-") == 0;
    errno = 0;
    FILE *const file = standard ? stdout : fopen(path, "w");
    if (file == NULL) {
        return not_written(path);
    }
    fprintf(file, "time,open,high,low,close%s\n", bars->volume != NULL ? ",volume" : "");
    for (size_t i = 0; i < bars->n; i++) {
        char time[40];
        fprintf(file, "%sZ,%.17g,%.17g,%.17g,%.17g",
                dqn_stamp_text(time, sizeof(time), bars->time_ns[i]), bars->open[i], bars->high[i],
                bars->low[i], bars->close[i]);
        if (bars->volume != NULL) {
            fprintf(file, ",%.17g", bars->volume[i]);
        }
        fputc('\n', file);
    }
    const bool failed = fflush(file) != 0 || ferror(file) != 0;
    const bool unclosed = !standard && fclose(file) != 0;
    return failed || unclosed ? not_written(path) : DQN_OK;
}
