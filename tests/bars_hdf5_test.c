/* HDF5 input: our layout, tables as pandas writes them, and what is refused. */
#include <criterion/criterion.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bars_fixture.h"
#include "market/bars_write.h"
#include "market/crash_guard.h"

static struct dqn_config config;

static hid_t create(char path[64]) {
    write_temporary(path, ".h5", "", 0);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(file, 0);
    return file;
}

/* Writes a column with a stored type of the caller's choice. */
static void put(hid_t file, const char *name, hid_t stored, hid_t type, hsize_t n,
                const void *values) {
    const hid_t space = H5Screate_simple(1, &n, NULL);
    const hid_t set = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert(n == 0 || H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

static void columns(double out[5][CANONICAL_BARS], int64_t time_ns[CANONICAL_BARS]) {
    for (size_t i = 0; i < CANONICAL_BARS; i++) {
        time_ns[i] = (canonical_minute_s + 60 * (int64_t)i) * 1000000000;
        for (size_t c = 0; c < 5; c++) {
            out[c][i] = canonical[i][c];
        }
    }
}

static const char *const names[] = {"open", "high", "low", "close", "volume"};

/* All columns with chosen stored types; `skip` (may be NULL) is left out. */
static void put_all(hid_t file, hid_t stored_time, hid_t stored, const char *skip) {
    double value[5][CANONICAL_BARS];
    int64_t time_ns[CANONICAL_BARS];
    columns(value, time_ns);
    if (skip == NULL || strcmp(skip, "timestamp") != 0) {
        put(file, "timestamp", stored_time, H5T_NATIVE_INT64, CANONICAL_BARS, time_ns);
    }
    for (size_t c = 0; c < 5; c++) {
        if (skip == NULL || strcmp(skip, names[c]) != 0) {
            put(file, names[c], stored, H5T_NATIVE_DOUBLE, CANONICAL_BARS, value[c]);
        }
    }
}

static void check(const struct dqn_bars *bars, const char *what) {
    cr_assert_eq(bars->n, CANONICAL_BARS, "%s", what);
    for (size_t i = 0; i < CANONICAL_BARS; i++) {
        cr_assert_eq(bars->time_ns[i], (canonical_minute_s + 60 * (int64_t)i) * 1000000000);
        cr_assert(bars->open[i] == canonical[i][0] && bars->high[i] == canonical[i][1], "%s", what);
        cr_assert(bars->low[i] == canonical[i][2] && bars->close[i] == canonical[i][3], "%s", what);
        cr_assert_eq(bars->volume[i], canonical[i][4], "%s", what);
    }
}

static void check_equal(const struct dqn_bars *a, const struct dqn_bars *b) {
    const size_t bytes = a->n * sizeof(double);
    cr_assert_eq(a->n, b->n);
    cr_assert_eq(memcmp(a->time_ns, b->time_ns, bytes), 0);
    cr_assert_eq(memcmp(a->open, b->open, bytes), 0);
    cr_assert_eq(memcmp(a->high, b->high, bytes), 0);
    cr_assert_eq(memcmp(a->low, b->low, bytes), 0);
    cr_assert_eq(memcmp(a->close, b->close, bytes), 0);
    cr_assert_eq(memcmp(a->volume, b->volume, bytes), 0);
    cr_assert_eq(a->half_spread == NULL, b->half_spread == NULL);
    cr_assert(a->half_spread == NULL || memcmp(a->half_spread, b->half_spread, bytes) == 0);
}

Test(bars_hdf5, csv_and_hdf5_are_bit_equal) {
    struct dqn_bars first, csv, hdf5;
    char csv_path[64], h5_path[64];
    dqn_config_defaults(&config);
    config.synthetic.bars = 3000;
    config.synthetic.substeps = 4;
    cr_assert_eq(dqn_bars_synthetic(&first, &config.synthetic), DQN_OK);
    write_temporary(csv_path, ".csv", "", 0);
    write_temporary(h5_path, ".h5", "", 0);
    cr_assert_eq(dqn_bars_write_csv(&first, csv_path), DQN_OK);
    cr_assert_eq(load_bars(&csv, csv_path, "", "", ""), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(dqn_bars_write_hdf5(&csv, h5_path, &config.data), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(load_bars(&hdf5, h5_path, "", "", ""), DQN_OK, "%s", dqn_error_text());
    check_equal(&first, &csv);
    check_equal(&first, &hdf5);
    cr_assert_str_eq(hdf5.info.dialect, "HDF5 datasets");
    cr_assert_eq(hdf5.info.bar_seconds, csv.info.bar_seconds);
    unlink(csv_path);
    unlink(h5_path);
    dqn_bars_free(&first);
    dqn_bars_free(&csv);
    dqn_bars_free(&hdf5);
}

Test(bars_hdf5, spread_comes_back) {
    struct dqn_bars csv, hdf5;
    char path[64];
    dqn_config_defaults(&config);
    cr_assert_eq(load_bars(&csv, "tests/data/market/metatrader5.csv", "data.point=0.01", "", ""),
                 DQN_OK);
    write_temporary(path, ".h5", "", 0);
    cr_assert_eq(dqn_bars_write_hdf5(&csv, path, &config.data), DQN_OK);
    cr_assert_eq(load_bars(&hdf5, path, "", "", ""), DQN_OK, "%s", dqn_error_text());
    cr_assert_not_null(hdf5.half_spread);
    check_equal(&csv, &hdf5);
    unlink(path);
    dqn_bars_free(&csv);
    dqn_bars_free(&hdf5);
}

/* float32, big-endian and unsigned columns are converted; the prices are exact in float32. */
Test(bars_hdf5, stored_types) {
    const hid_t times[] = {H5T_STD_I64LE, H5T_STD_I64BE, H5T_STD_U64LE, H5T_STD_I64LE};
    const hid_t stored[] = {H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_IEEE_F32LE, H5T_IEEE_F32BE};
    for (size_t i = 0; i < DQN_COUNT_OF(times); i++) {
        char path[64];
        struct dqn_bars bars;
        const hid_t file = create(path);
        put_all(file, times[i], stored[i], NULL);
        H5Fclose(file);
        cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_OK, "%s", dqn_error_text());
        check(&bars, "stored types");
        unlink(path);
        dqn_bars_free(&bars);
    }
}

Test(bars_hdf5, integer_prices_and_soft_links) {
    char path[64];
    struct dqn_bars bars;
    const int prices[3] = {100, 101, 102};
    const int64_t seconds[3] = {1718371800, 1718371860, 1718371920};
    const hid_t file = create(path);
    put(file, "stored", H5T_STD_I32BE, H5T_NATIVE_INT, 3, prices);
    for (size_t c = 0; c < 4; c++) {
        H5Lcreate_soft("/stored", file, names[c], H5P_DEFAULT, H5P_DEFAULT);
    }
    put(file, "timestamp", H5T_STD_I64LE, H5T_NATIVE_INT64, 3, seconds);
    H5Fclose(file);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(bars.n, 3u);
    cr_assert_eq(bars.close[2], 102.0);
    cr_assert_null(bars.volume);
    /* no schema attribute: seconds are known by their size */
    cr_assert_eq(bars.time_ns[0], canonical_minute_s * 1000000000);
    unlink(path);
    dqn_bars_free(&bars);
}

struct table_row {
    int64_t index;
    int64_t date;
    double block[5];
};

/* A table as pandas' to_hdf(format="table", data_columns=["date"]) lays it out. */
static void put_table(hid_t file, const char *group, const char *kind) {
    struct table_row rows[CANONICAL_BARS];
    const hsize_t five = 5, n = CANONICAL_BARS;
    for (size_t i = 0; i < CANONICAL_BARS; i++) {
        rows[i].index = (int64_t)i;
        rows[i].date = (canonical_minute_s + 60 * (int64_t)i) * 1000000000;
        memcpy(rows[i].block, canonical[i], sizeof(rows[i].block));
    }
    const hid_t block = H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &five);
    const hid_t row = H5Tcreate(H5T_COMPOUND, sizeof(struct table_row));
    H5Tinsert(row, "index", offsetof(struct table_row, index), H5T_NATIVE_INT64);
    H5Tinsert(row, "date", offsetof(struct table_row, date), H5T_NATIVE_INT64);
    H5Tinsert(row, "values_block_0", offsetof(struct table_row, block), block);
    const hid_t folder = H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put(folder, "table", row, row, n, rows);
    const hid_t set = H5Dopen2(folder, "table", H5P_DEFAULT);
    const hid_t text = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(text, strlen(kind) + 1);
    const hid_t attribute =
        H5Acreate2(set, "values_block_0_kind", text, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, text, kind);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(text);
    H5Dclose(set);
    H5Gclose(folder);
    H5Tclose(row);
    H5Tclose(block);
}

static const char pickled[] =
    "(lp0\nVopen\np1\naVhigh\np2\naVlow\np3\naVclose\np4\naVvolume\np5\na.";

Test(bars_hdf5, pandas_table) {
    char path[64];
    struct dqn_bars bars;
    const hid_t file = create(path);
    put_table(file, "ABC", pickled);
    put_table(file, "XYZ", pickled);
    H5Fclose(file);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_ERR_DATA);
    cr_assert_not_null(
        strstr(dqn_error_text(), "2 tables: /ABC/table, /XYZ/table; set data.symbol"), "%s",
        dqn_error_text());
    cr_assert_eq(load_bars(&bars, path, "data.symbol=XYZ", "", ""), DQN_OK, "%s", dqn_error_text());
    check(&bars, "pandas table");
    cr_assert_str_eq(bars.info.dialect, "HDF5 table");
    unlink(path);
    dqn_bars_free(&bars);
}

/* A compound table with a field for each column. */
Test(bars_hdf5, table_of_named_fields) {
    struct {
        int64_t time;
        float open, high, low, close;
    } rows[CANONICAL_BARS];
    char path[64];
    struct dqn_bars bars;
    const hid_t row = H5Tcreate(H5T_COMPOUND, sizeof(rows[0]));
    H5Tinsert(row, "Time", 0, H5T_NATIVE_INT64);
    for (size_t c = 0; c < 4; c++) {
        H5Tinsert(row, names[c], 8 + 4 * c, H5T_NATIVE_FLOAT);
    }
    for (size_t i = 0; i < CANONICAL_BARS; i++) {
        rows[i].time = (canonical_minute_s + 60 * (int64_t)i) * 1000;
        rows[i].open = (float)canonical[i][0];
        rows[i].high = (float)canonical[i][1];
        rows[i].low = (float)canonical[i][2];
        rows[i].close = (float)canonical[i][3];
    }
    const hid_t file = create(path);
    put(file, "bars", row, row, CANONICAL_BARS, rows);
    H5Tclose(row);
    H5Fclose(file);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(bars.n, CANONICAL_BARS);
    cr_assert_eq(bars.time_ns[5], (canonical_minute_s + 300) * 1000000000);
    cr_assert_eq(bars.low[2], 99.75);
    unlink(path);
    dqn_bars_free(&bars);
}

/* Expects a refusal whose text has `part`. */
static void refused(hid_t file, const char *path, const char *part) {
    struct dqn_bars bars;
    H5Fclose(file);
    cr_expect_eq(load_bars(&bars, path, "", "", ""), DQN_ERR_DATA, "%s", part);
    cr_expect_not_null(strstr(dqn_error_text(), part), "%s", dqn_error_text());
    cr_assert_null(bars.close);
    unlink(path);
}

/* A table that says it has n rows, of which the first two chunks of 1024 are in the file. */
static void put_claim(hid_t file, hsize_t n) {
    static struct {
        int64_t time;
        double price[4];
    } rows[2048];
    const hsize_t chunk = 1024, written = DQN_COUNT_OF(rows), first = 0;
    const hid_t row = H5Tcreate(H5T_COMPOUND, sizeof(rows[0]));
    H5Tinsert(row, "time", 0, H5T_NATIVE_INT64);
    for (size_t c = 0; c < 4; c++) {
        H5Tinsert(row, names[c], 8 + 8 * c, H5T_NATIVE_DOUBLE);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(rows); i++) {
        rows[i].time = (canonical_minute_s + 60 * (int64_t)i) * 1000000000;
        for (size_t c = 0; c < 4; c++) {
            rows[i].price[c] = 1.0;
        }
    }
    const hid_t space = H5Screate_simple(1, &n, NULL), part = H5Screate_simple(1, &written, NULL);
    const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(chunked, 1, &chunk);
    const hid_t dataset = H5Dcreate2(file, "bars", row, space, H5P_DEFAULT, chunked, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &written, NULL);
    cr_assert(H5Dwrite(dataset, row, part, space, H5P_DEFAULT, rows) >= 0);
    H5Dclose(dataset);
    H5Pclose(chunked);
    H5Sclose(part);
    H5Sclose(space);
    H5Tclose(row);
}

Test(bars_hdf5, refusals) {
    char path[64];
    const double nan_prices[CANONICAL_BARS] = {NAN, 1.0, 1.0, 1.0, 1.0, 1.0};
    const int64_t late[CANONICAL_BARS] = {INT64_MAX, 0, 0, 0, 0, 0};
    hid_t file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "low");
    refused(file, path, "there is no dataset /low; expected /timestamp (int64 ns), /open");
    file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "timestamp");
    refused(file, path, "there is no dataset /timestamp");
    file = create(path);
    put_all(file, H5T_IEEE_F64LE, H5T_IEEE_F64LE, NULL);
    refused(file, path, "timestamp holds floats; expected int64 nanoseconds UTC");
    file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "close");
    put(file, "close", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 5, nan_prices);
    refused(file, path, "/close has 5 rows, but /timestamp has 6");
    file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "close");
    put(file, "close", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, CANONICAL_BARS, nan_prices);
    refused(file, path, ": row 1: close = ");
    file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "timestamp");
    put(file, "timestamp", H5T_STD_I64LE, H5T_NATIVE_INT64, CANONICAL_BARS, late);
    refused(file, path, ": row 1: timestamp 9223372036854775807 is outside the years 1970 to 2100");
    file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "volume");
    H5Gclose(H5Gcreate2(file, "volume", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    refused(file, path, "/volume is not a dataset");
    file = create(path);
    refused(file, path, "no dataset /open and no table; export it to CSV");
    file = create(path);
    put_table(file, "ABC", "not a list of names");
    refused(file, path, "no column is named as open");
    file = create(path);
    for (size_t c = 0; c < 5; c++) {
        put(file, names[c], H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 0, NULL);
    }
    put(file, "timestamp", H5T_STD_I64LE, H5T_NATIVE_INT64, 0, NULL);
    refused(file, path, ": 0 rows of data; at least 2 are needed");
    /* Space that was never written takes no room in the file. */
    file = create(path);
    const hsize_t many = (hsize_t)1 << 50, chunk = 1024;
    const hid_t wide = H5Screate_simple(1, &many, NULL), chunked = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(chunked, 1, &chunk);
    for (size_t c = 0; c < 5; c++) {
        H5Dclose(
            H5Dcreate2(file, names[c], H5T_IEEE_F64LE, wide, H5P_DEFAULT, chunked, H5P_DEFAULT));
    }
    H5Dclose(H5Dcreate2(file, "timestamp", H5T_STD_I64LE, wide, H5P_DEFAULT, chunked, H5P_DEFAULT));
    H5Pclose(chunked);
    H5Sclose(wide);
    refused(file, path, "says that it has 1,125,899,906,842,624 rows, but a file of ");
    /* The rest would be read as zeros, gigabytes of them. */
    file = create(path);
    put_claim(file, 3000000);
    refused(file, path, "says that it has 3,000,000 rows, and has room for 2,048: it is damaged");
    file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "open");
    const hsize_t two[2] = {2, 3};
    const hid_t space = H5Screate_simple(2, two, NULL);
    H5Dclose(
        H5Dcreate2(file, "open", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    refused(file, path, "/open has 2 dimensions; expected 1");
}

/* A column whose numbers are in another file, which takes the place of a file's own. */
static void put_outside(hid_t file, const char *name, hid_t type, hid_t creation) {
    const hsize_t n = CANONICAL_BARS, any = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &n, &any);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    cr_assert_geq(dataset, 0);
    H5Dclose(dataset);
    H5Pclose(creation);
    H5Sclose(space);
}

static hid_t external_storage(void) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(creation, "/tmp/dqn-no-such-file.raw", 0, H5F_UNLIMITED);
    return creation;
}

/* Made of all that a dataset in `source` has, so that its very extent is in there. */
static hid_t made_of(const char *source) {
    const hsize_t n = CANONICAL_BARS, any = H5S_UNLIMITED, first = 0, one = 1;
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, &n, &any);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &any, &one);
    cr_assert_geq(H5Pset_virtual(creation, space, source, "x", space), 0);
    H5Sclose(space);
    return creation;
}

static void refuse_link_to(const char *other) {
    char path[64], part[160];
    const hid_t file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, "low");
    H5Lcreate_external(other, "/low", file, "low", H5P_DEFAULT, H5P_DEFAULT);
    snprintf(part, sizeof part,
             "%s: /low has no data of its own, but refers to others (it is an external link)",
             path);
    refused(file, path, part);
}

/* Datasets and tables; no matter which column; the other file is not opened: here it is a pipe in
 * which a reader would wait for ever, until the test's time is over. */
Test(bars_hdf5, data_in_other_files, .timeout = 20) {
    char path[64], pipe_path[64];
    snprintf(pipe_path, sizeof pipe_path, "/tmp/dqn-bars-pipe-%d", (int)getpid());
    cr_assert_eq(mkfifo(pipe_path, 0600), 0);
    static const char *const columns_tried[] = {"timestamp", "open", "volume"};
    for (size_t i = 0; i < DQN_COUNT_OF(columns_tried); i++) {
        const char *const name = columns_tried[i];
        const hid_t type = i == 0 ? H5T_STD_I64LE : H5T_IEEE_F64LE;
        char part[160];
        hid_t file = create(path);
        put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, name);
        put_outside(file, name, type, external_storage());
        snprintf(part, sizeof part,
                 "%s: /%s has no data of its own, but refers to others (it has external storage)",
                 path, name);
        refused(file, path, part);
        file = create(path);
        put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, name);
        put_outside(file, name, type, made_of(pipe_path));
        snprintf(part, sizeof part,
                 "/%s has no data of its own, but refers to others (it is a virtual dataset)",
                 name);
        refused(file, path, part);
        cr_expect_not_null(strstr(dqn_error_text(), "h5repack -l CONTI"));
        file = create(path);
        put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, name);
        put_outside(file, name, type, made_of(".")); /* the file itself: no other one is meant */
        refused(file, path, part);
        cr_expect_null(strstr(dqn_error_text(), "file"), "%s", dqn_error_text());
    }
    char other[64];
    hid_t file = create(other);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, NULL);
    H5Fclose(file);
    refuse_link_to(other);
    cr_expect_not_null(strstr(dqn_error_text(), "h5repack --merge OLD.h5"));
    unlink(other); /* what it names is not looked at: a pipe would wait for ever */
    cr_assert_eq(mkfifo(other, 0600), 0);
    refuse_link_to(other);
    unlink(other);
    const hid_t row = H5Tcreate(H5T_COMPOUND, 40);
    H5Tinsert(row, "time", 0, H5T_NATIVE_INT64);
    for (size_t c = 0; c < 4; c++) {
        H5Tinsert(row, names[c], 8 + 8 * c, H5T_NATIVE_DOUBLE);
    }
    file = create(path);
    put_outside(file, "bars", row, external_storage());
    refused(file, path,
            "/bars has no data of its own, but refers to others (it has external storage)");
    file = create(path);
    put_outside(file, "bars", row, made_of(pipe_path));
    refused(file, path,
            "/bars has no data of its own, but refers to others (it is a virtual dataset)");
    H5Tclose(row);
    unlink(pipe_path);
}

Test(bars_hdf5, cut_file) {
    char path[64];
    struct dqn_bars bars;
    const hid_t file = create(path);
    put_all(file, H5T_STD_I64LE, H5T_IEEE_F64LE, NULL);
    H5Fclose(file);
    cr_assert_eq(truncate(path, 1000), 0);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_ERR_DATA);
    cr_assert_not_null(strstr(dqn_error_text(), "HDF5 cannot open the file: it is damaged"));
    unlink(path);
}

/* What a person sees where the library crashes: the text and its exit code, no signal. */
static void crash(void) {
    raise(SIGSEGV);
}

Test(bars_hdf5, a_crash_has_a_last_word) {
    int ends[2], status = 0;
    char text[64] = "";
    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        dqn_crash_guard_begin(DQN_ERR_DATA, "x.h5: is damaged");
        crash();
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    cr_assert_str_eq(text, "x.h5: is damaged\n");
    /* Afterwards a crash is a crash again. */
    struct sigaction before, now;
    sigaction(SIGSEGV, NULL, &before);
    dqn_crash_guard_begin(DQN_ERR_DATA, "x.h5: is damaged");
    dqn_crash_guard_end();
    sigaction(SIGSEGV, NULL, &now);
    cr_assert_eq(now.sa_handler, before.sa_handler);
}

Test(bars_hdf5, output_that_cannot_be) {
    struct dqn_bars bars;
    dqn_config_defaults(&config);
    cr_assert_eq(load_bars(&bars, "tests/data/market/kraken.csv", "", "", ""), DQN_OK);
    cr_assert_eq(dqn_bars_write_hdf5(&bars, "/tmp/no-such-folder/x.h5", &config.data),
                 DQN_ERR_DISK);
    cr_assert_eq(dqn_bars_write_csv(&bars, "/tmp/no-such-folder/x.csv"), DQN_ERR_DISK);
    dqn_bars_free(&bars);
}
