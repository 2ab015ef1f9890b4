#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bars_read.h"
#include "crash_guard.h"
#include "csv_header.h"
#include "hdf5_columns.h"

bool dqn_is_hdf5(const char *path) {
    static const char magic[] = "\x89HDF\r\n\x1a\n";
    struct stat state;
    char bytes[8] = "";
    if (stat(path, &state) != 0 || !S_ISREG(state.st_mode)) {
        return false; /* a pipe cannot be looked at twice */
    }
    FILE *const file = fopen(path, "rb");
    const bool is = file != NULL && fread(bytes, 1, 8, file) == 8 && memcmp(bytes, magic, 8) == 0;
    if (file != NULL) {
        fclose(file);
    }
    return is;
}

/* A text attribute of the file; false when there is none. */
static bool text_attribute(hid_t file, const char *name, char *out, size_t size) {
    memset(out, 0, size);
    if (H5Aexists(file, name) <= 0) {
        return false;
    }
    const hid_t id = H5Aopen(file, name, H5P_DEFAULT);
    const hid_t stored = id >= 0 ? H5Aget_type(id) : H5I_INVALID_HID;
    bool got = false;
    if (stored >= 0 && H5Tget_class(stored) == H5T_STRING) {
        const hid_t type = H5Tcopy(H5T_C_S1);
        if (H5Tis_variable_str(stored) > 0) {
            char *text = NULL;
            H5Tset_size(type, H5T_VARIABLE);
            H5Tset_cset(type, H5Tget_cset(stored));
            got = H5Aread(id, type, &text) >= 0 && text != NULL;
            snprintf(out, size, "%s", got ? text : "");
            H5free_memory(text);
        } else {
            H5Tset_size(type, size);
            H5Tset_cset(type, H5Tget_cset(stored));
            got = H5Aread(id, type, out) >= 0;
            out[size - 1] = 0;
        }
        H5Tclose(type);
    }
    H5Tclose(stored);
    H5Aclose(id);
    return got;
}

/* Which column plays which role, by the names that CSV headers have. */
static enum dqn_status assign_columns(struct dqn_csv_dialect *dialect, const char *path,
                                      const struct dqn_h5_table *table) {
    struct dqn_cell cells[DQN_H5_COLUMNS_MAX];
    char where[DQN_TEXT_MAX + 64];
    snprintf(where, sizeof(where), "%s: columns ", path);
    if (table->n_columns == 0) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: table /%s has no fields that are plain numbers; export it to CSV, for "
                        "example with pandas: read_hdf(...).to_csv(...)",
                        path, table->path);
    }
    for (size_t i = 0; i < table->n_columns; i++) {
        cells[i].text = table->column[i].name;
        cells[i].n = strlen(table->column[i].name);
        cells[i].column = i + 1;
        cells[i].quoted = false;
    }
    memset(dialect, 0, sizeof(*dialect));
    return dqn_csv_assign(dialect, where, cells, table->n_columns, NULL, "");
}

/* Times: nanoseconds by schema; without it the unit goes by size, as in CSV. */
static enum dqn_status read_times(struct dqn_raw_rows *rows, const struct dqn_h5_table *table,
                                  const char *path, size_t column, bool schema, size_t file) {
    DQN_TRY(dqn_h5_read_integers(table, path, column, rows->time_ns));
    for (size_t i = 0; i < rows->n; i++) {
        struct dqn_stamp_style style = {DQN_DATE_AUTO, 0};
        struct dqn_stamp stamp;
        char text[32];
        const char *problem = NULL;
        rows->origin[i] = (uint64_t)file << DQN_RAW_FILE_SHIFT | (uint64_t)(i + 1);
        if (schema) {
            const bool inside =
                rows->time_ns[i] >= 0 && rows->time_ns[i] < 4133980800 * INT64_C(1000000000);
            problem = inside ? NULL : "is outside the years 1970 to 2100";
        } else {
            const int n = snprintf(text, sizeof(text), "%lld", (long long)rows->time_ns[i]);
            problem = dqn_stamp_parse(text, (size_t)n, NULL, 0, 0, &style, &stamp);
            rows->time_ns[i] = problem == NULL ? stamp.ns : rows->time_ns[i];
        }
        if (problem != NULL) {
            return dqn_fail(DQN_ERR_DATA,
                            "%s: row %zu: timestamp %lld %s; expected nanoseconds UTC", path, i + 1,
                            (long long)rows->time_ns[i], problem);
        }
    }
    return DQN_OK;
}

static enum dqn_status check_rows(struct dqn_raw_rows *rows, const char *path,
                                  const bool has[DQN_RAW_COLUMNS], bool widen) {
    for (size_t i = 0; i < rows->n; i++) {
        struct dqn_raw_row row;
        bool widened = false;
        enum dqn_raw_column column = DQN_RAW_OPEN;
        char text[256];
        for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
            row.value[c] = has[c] ? rows->column[c][i] : 0.0;
        }
        const char *const problem =
            dqn_raw_check(&row, has, widen, &widened, &column, text, sizeof(text));
        if (problem != NULL) {
            return dqn_fail(DQN_ERR_DATA, "%s: row %zu: %s", path, i + 1, problem);
        }
        rows->column[DQN_RAW_HIGH][i] = row.value[DQN_RAW_HIGH];
        rows->column[DQN_RAW_LOW][i] = row.value[DQN_RAW_LOW];
        rows->info.n_repaired += widened;
    }
    return DQN_OK;
}

/* Memory for n rows at once, then column after column. */
static enum dqn_status read_columns(struct dqn_raw_rows *rows, const struct dqn_h5_table *table,
                                    size_t file, const struct dqn_csv_dialect *dialect, bool schema,
                                    const struct dqn_config_data *config) {
    static const int roles[DQN_RAW_COLUMNS] = {DQN_CSV_OPEN,  DQN_CSV_HIGH,   DQN_CSV_LOW,
                                               DQN_CSV_CLOSE, DQN_CSV_VOLUME, DQN_CSV_ADJUSTED,
                                               DQN_CSV_SPREAD};
    const char *const path = rows->paths[file];
    bool has[DQN_RAW_COLUMNS];
    void *memory = NULL;
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        has[c] = dialect->column[roles[c]] >= 0;
    }
    has[DQN_RAW_ADJUSTED] = has[DQN_RAW_ADJUSTED] && config->adjust == DQN_ADJUST_AUTO;
    has[DQN_RAW_HALF_SPREAD] = has[DQN_RAW_HALF_SPREAD] && schema;
    rows->n = table->n_rows;
    rows->capacity = table->n_rows;
    DQN_TRY(dqn_alloc(&memory, rows->n, sizeof(int64_t), "times of an HDF5 file"));
    rows->time_ns = memory;
    DQN_TRY(dqn_alloc(&memory, rows->n, sizeof(uint64_t), "rows of an HDF5 file"));
    rows->origin = memory;
    DQN_TRY(read_times(rows, table, path, (size_t)dialect->column[DQN_CSV_TIME], schema, file));
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (has[c]) {
            DQN_TRY(dqn_alloc(&memory, rows->n, sizeof(double), "a column of an HDF5 file"));
            rows->column[c] = memory;
            DQN_TRY(dqn_h5_read_reals(table, path, (size_t)dialect->column[roles[c]], memory));
        }
    }
    for (size_t i = 0; has[DQN_RAW_HALF_SPREAD] && i < rows->n; i++) {
        rows->column[DQN_RAW_HALF_SPREAD][i] *= 0.5; /* stored as the whole spread */
    }
    return check_rows(rows, path, has, config->ohlc_repair == DQN_REPAIR_WIDEN);
}

/* A damaged file may claim any number of rows. Compression makes less of a row than a thousandth of
 * a byte out of nothing but equal rows, which no market has; and each row has its place in a piece
 * of the file. */
static enum dqn_status check_size(const struct dqn_h5_table *table, const char *path, hid_t id) {
    hsize_t bytes = 0;
    char count[32], size[32];
    if (H5Fget_filesize(id, &bytes) >= 0 && table->n_rows / 1000 > bytes) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: says that it has %s rows, but a file of %s cannot: it is damaged",
                        path, dqn_format_count(count, sizeof(count), table->n_rows),
                        dqn_format_bytes(size, sizeof(size), bytes));
    }
    const size_t stored = dqn_h5_table_stored_rows(table);
    if (stored < table->n_rows) {
        return dqn_fail(
            DQN_ERR_DATA,
            "%s: says that it has %s rows, and has room for %s: it is damaged, or was not "
            "written to its end",
            path, dqn_format_count(count, sizeof(count), table->n_rows),
            dqn_format_count(size, sizeof(size), stored));
    }
    return DQN_OK;
}

static enum dqn_status read_file(struct dqn_raw_rows *rows, size_t file, hid_t id,
                                 struct dqn_h5_table *table, const struct dqn_config_data *config) {
    const char *const path = rows->paths[file];
    struct dqn_csv_dialect dialect;
    struct dqn_bars_info *const info = &rows->info;
    const bool schema = H5Aexists(id, "schema") > 0;
    DQN_TRY(dqn_h5_table_open(table, id, path, config->symbol));
    DQN_TRY(check_size(table, path, id));
    DQN_TRY(assign_columns(&dialect, path, table));
    if (!text_attribute(id, "symbol", info->symbol, sizeof(info->symbol))) {
        snprintf(info->symbol, sizeof(info->symbol), "%.63s", config->symbol);
    }
    snprintf(info->dialect, sizeof(info->dialect), "%s",
             table->dataset >= 0 ? "HDF5 table" : "HDF5 datasets");
    rows->unit = "row ";
    return read_columns(rows, table, file, &dialect, schema, config);
}

enum dqn_status dqn_read_hdf5(struct dqn_raw_rows *rows, size_t file,
                              const struct dqn_config_data *config) {
    const char *const path = rows->paths[file];
    struct dqn_h5_table table;
    H5E_auto2_t print = NULL;
    void *print_context = NULL;
    memset(&table, 0, sizeof(table));
    table.dataset = H5I_INVALID_HID;
    /* errors are told in our own words */
    H5Eget_auto2(H5E_DEFAULT, &print, &print_context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    enum dqn_status status = DQN_OK;
    char crash[DQN_TEXT_MAX + 128];
    snprintf(crash, sizeof(crash),
             "%s: is damaged so that the HDF5 library crashes on it; copy or export it again",
             path);
    dqn_crash_guard_begin(DQN_ERR_DATA, crash);
    const hid_t id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (id < 0) {
        status = dqn_fail(DQN_ERR_DATA,
                          "%s: HDF5 cannot open the file: it is damaged, cut short, or open in "
                          "another program for writing",
                          path);
    } else {
        status = read_file(rows, file, id, &table, config);
        dqn_h5_table_close(&table);
        H5Fclose(id);
    }
    dqn_crash_guard_end();
    H5Eset_auto2(H5E_DEFAULT, print, print_context);
    return status;
}
