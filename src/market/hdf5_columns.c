#include "hdf5_columns.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char how_to_export[] =
    "export it to CSV, for example with pandas: read_hdf(...).to_csv(...)";

static bool link_exists(hid_t file, const char *name) {
    return H5Lexists(file, name, H5P_DEFAULT) > 0;
}

static enum dqn_status lies_elsewhere(const char *path, const char *name, const char *what,
                                      const char *option) {
    return dqn_fail(
        DQN_ERR_DATA,
        "%s: /%s has no data of its own, but refers to others (%s), which are not read; "
        "put them into it: h5repack %s OLD.h5 NEW.h5, or with Python's h5py copy each "
        "dataset by new[name] = old[name][()]",
        path, name, what, option);
}

/* Refuses a dataset that refers to numbers elsewhere, mostly in another file, of which the SHA-256
 * would not speak. Asked before anything else of a dataset, even its extent: for that HDF5 opens
 * the other files of a virtual one. */
static enum dqn_status check_inside(hid_t dataset, const char *path, const char *name) {
    const hid_t layout = H5Dget_create_plist(dataset);
    const char *what = NULL;
    if (layout >= 0 && H5Pget_layout(layout) == H5D_VIRTUAL) {
        what = "it is a virtual dataset";
    } else if (layout >= 0 && H5Pget_external_count(layout) > 0) {
        what = "it has external storage";
    }
    H5Pclose(layout);
    return what == NULL ? DQN_OK : lies_elsewhere(path, name, what, "-l CONTI");
}

/* HDF5 asks before it opens the file that an external link names. */
static herr_t refuse_link(const char *from_file, const char *from_group, const char *to_file,
                          const char *to_object, unsigned *flags, hid_t access, void *met) {
    (void)from_file, (void)from_group, (void)to_file, (void)to_object, (void)flags, (void)access;
    *(bool *)met = true;
    return -1;
}

static enum dqn_status open_root_dataset(hid_t file, const char *path, const char *name,
                                         hid_t *out) {
    bool met_link = false;
    const hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_elink_cb(access, refuse_link, &met_link);
    *out = H5Dopen2(file, name, access);
    H5Pclose(access);
    if (met_link) {
        return lies_elsewhere(path, name, "it is an external link", "--merge");
    }
    return *out >= 0 ? DQN_OK
                     : dqn_fail(DQN_ERR_DATA,
                                "%s: /%s is not a dataset, or a link that leads nowhere; expected "
                                "numbers in one dimension",
                                path, name);
}

/* Adds a root dataset as a column; its length must be that of the others. */
static enum dqn_status add_dataset(struct dqn_h5_table *table, const char *path, const char *name) {
    hid_t dataset = H5I_INVALID_HID, space = H5I_INVALID_HID, type = H5I_INVALID_HID;
    enum dqn_status status = DQN_OK;
    DQN_TRY(open_root_dataset(table->file, path, name, &dataset));
    status = check_inside(dataset, path, name);
    if (status != DQN_OK) {
        H5Dclose(dataset);
        return status;
    }
    space = H5Dget_space(dataset);
    type = H5Dget_type(dataset);
    const H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    hsize_t n[H5S_MAX_RANK] = {0};
    const int rank = space >= 0 ? H5Sget_simple_extent_dims(space, n, NULL) : -1;
    if (rank != 1) {
        status = dqn_fail(DQN_ERR_DATA, "%s: /%s has %d dimensions; expected 1", path, name, rank);
    } else if (class != H5T_INTEGER && class != H5T_FLOAT) {
        status = dqn_fail(DQN_ERR_DATA, "%s: /%s does not hold integers or floats", path, name);
    } else if (table->n_columns > 0 && n[0] != table->n_rows) {
        status = dqn_fail(DQN_ERR_DATA, "%s: /%s has %llu row%s, but /%s has %zu", path, name,
                          (unsigned long long)n[0], dqn_plural(n[0]), table->column[0].name,
                          table->n_rows);
    } else {
        struct dqn_h5_column *const column = &table->column[table->n_columns++];
        table->n_rows = (size_t)n[0];
        snprintf(column->name, sizeof(column->name), "%s", name);
        column->of = 1;
        column->integer = class == H5T_INTEGER;
    }
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    return status;
}

static enum dqn_status open_datasets(struct dqn_h5_table *table, const char *path) {
    static const char *const names[] = {"timestamp", "open",   "high",  "low",
                                        "close",     "volume", "spread"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        if (link_exists(table->file, names[i])) {
            DQN_TRY(add_dataset(table, path, names[i]));
        } else if (i < 5) {
            return dqn_fail(DQN_ERR_DATA,
                            "%s: there is no dataset /%s; expected /timestamp (int64 ns), /open, "
                            "/high, /low, /close, and perhaps /volume and /spread",
                            path, names[i]);
        }
    }
    return DQN_OK;
}

/* The names in a pandas block, in order: its attribute "<field>_kind" is a pickled list. */
static size_t block_names(hid_t dataset, const char *field, const char *names[8]) {
    static const char *const known[] = {"open", "high", "low", "close", "volume"};
    char attribute[DQN_H5_NAME_MAX + 8], text[4096];
    snprintf(attribute, sizeof(attribute), "%s_kind", field);
    memset(text, 0, sizeof(text));
    if (H5Aexists(dataset, attribute) <= 0) {
        return 0;
    }
    const hid_t id = H5Aopen(dataset, attribute, H5P_DEFAULT);
    const hid_t type = id >= 0 ? H5Aget_type(id) : H5I_INVALID_HID;
    const bool fixed = type >= 0 && H5Tget_class(type) == H5T_STRING &&
                       H5Tis_variable_str(type) == 0 && H5Tget_size(type) < sizeof(text);
    const bool got = fixed && H5Aread(id, type, text) >= 0;
    H5Tclose(type);
    H5Aclose(id);
    size_t n = 0, from = 0;
    while (got && n < 8) {
        size_t best = SIZE_MAX, which = 0;
        for (size_t k = 0; k < DQN_COUNT_OF(known); k++) {
            const char *const at =
                memmem(text + from, sizeof(text) - from, known[k], strlen(known[k]));
            if (at != NULL && (size_t)(at - text) < best) {
                best = (size_t)(at - text);
                which = k;
            }
        }
        if (best == SIZE_MAX) {
            break;
        }
        names[n++] = known[which];
        from = best + strlen(known[which]);
    }
    return n;
}

static void add_field(struct dqn_h5_table *table, const char *name, const char *field, size_t of,
                      size_t at, bool integer) {
    if (table->n_columns == DQN_H5_COLUMNS_MAX) {
        return;
    }
    struct dqn_h5_column *const column = &table->column[table->n_columns++];
    snprintf(column->name, sizeof(column->name), "%s", name);
    snprintf(column->field, sizeof(column->field), "%s", field);
    column->of = of;
    column->at = at;
    column->integer = integer;
}

/* Adds the fields of a compound type that hold numbers. */
static void add_fields(struct dqn_h5_table *table, hid_t type) {
    const int n = H5Tget_nmembers(type);
    for (int i = 0; i < n; i++) {
        char *const name = H5Tget_member_name(type, (unsigned)i);
        const hid_t member = H5Tget_member_type(type, (unsigned)i);
        const H5T_class_t class = H5Tget_class(member);
        if (name == NULL || strlen(name) >= DQN_H5_NAME_MAX) {
            /* no name of ours is that long */
        } else if (class == H5T_INTEGER || class == H5T_FLOAT) {
            add_field(table, name, name, 1, 0, class == H5T_INTEGER);
        } else if (class == H5T_ARRAY && H5Tget_array_ndims(member) == 1) {
            const char *names[8];
            hsize_t of = 0;
            H5Tget_array_dims2(member, &of);
            const size_t known = block_names(table->dataset, name, names);
            const hid_t base = H5Tget_super(member);
            for (size_t k = 0; known == of && k < known; k++) {
                add_field(table, names[k], name, known, k, H5Tget_class(base) == H5T_INTEGER);
            }
            H5Tclose(base);
        }
        H5Tclose(member);
        H5free_memory(name);
    }
}

/* What a walk through the file found. */
struct search {
    const char *wanted;
    size_t n_tables;
    char path[256];
    char list[512];
    bool pandas_fixed;
};

static herr_t visit(hid_t root, const char *name, const H5O_info_t *info, void *context) {
    struct search *const search = context;
    const size_t length = strlen(name);
    if (length >= 5 && strcmp(name + length - 5, "axis0") == 0) {
        search->pandas_fixed = true;
    }
    if (info->type != H5O_TYPE_DATASET || length >= sizeof(search->path)) {
        return 0;
    }
    const hid_t dataset = H5Dopen2(root, name, H5P_DEFAULT);
    const hid_t type = dataset >= 0 ? H5Dget_type(dataset) : H5I_INVALID_HID;
    if (type >= 0 && H5Tget_class(type) == H5T_COMPOUND && H5Tget_nmembers(type) >= 2 &&
        strstr(name, search->wanted) != NULL && strstr(name, "_i_table") == NULL) {
        const size_t used = strlen(search->list);
        snprintf(search->path, sizeof(search->path), "%s", name);
        snprintf(search->list + used, sizeof(search->list) - used, "%s/%s", used > 0 ? ", " : "",
                 name);
        search->n_tables++;
    }
    H5Tclose(type);
    H5Dclose(dataset);
    return 0;
}

static enum dqn_status open_compound(struct dqn_h5_table *table, const char *path,
                                     const char *wanted) {
    struct search search;
    memset(&search, 0, sizeof(search));
    search.wanted = wanted;
    H5Ovisit2(table->file, H5_INDEX_NAME, H5_ITER_INC, visit, &search, H5O_INFO_BASIC);
    if (search.n_tables == 0) {
        return dqn_fail(DQN_ERR_DATA, "%s: no dataset /open and no table%s%s%s%s; %s", path,
                        wanted[0] ? " whose path has data.symbol = " : "", wanted,
                        search.pandas_fixed ? " (this is pandas' fixed layout)" : "", "",
                        how_to_export);
    }
    if (search.n_tables > 1) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: the file has %zu tables: %s; set data.symbol to a part of one path",
                        path, search.n_tables, search.list);
    }
    snprintf(table->path, sizeof(table->path), "%s", search.path);
    table->dataset = H5Dopen2(table->file, search.path, H5P_DEFAULT);
    DQN_TRY(check_inside(table->dataset, path, table->path));
    const hid_t type = H5Dget_type(table->dataset), space = H5Dget_space(table->dataset);
    hsize_t n[H5S_MAX_RANK] = {0};
    const int rank = H5Sget_simple_extent_dims(space, n, NULL);
    table->n_rows = (size_t)n[0];
    add_fields(table, type);
    H5Sclose(space);
    H5Tclose(type);
    if (rank != 1) {
        return dqn_fail(DQN_ERR_DATA, "%s: table /%s has %d dimensions; expected 1", path,
                        table->path, rank);
    }
    return DQN_OK;
}

enum dqn_status dqn_h5_table_open(struct dqn_h5_table *out, hid_t file, const char *path,
                                  const char *wanted) {
    memset(out, 0, sizeof(*out));
    out->dataset = H5I_INVALID_HID;
    out->file = file;
    const bool datasets = link_exists(file, "open") || link_exists(file, "timestamp");
    return datasets ? open_datasets(out, path) : open_compound(out, path, wanted);
}

void dqn_h5_table_close(struct dqn_h5_table *table) {
    if (table->dataset >= 0) {
        H5Dclose(table->dataset);
        table->dataset = H5I_INVALID_HID;
    }
}

/* Chunks that a dataset has in the file. HDF5 before 1.10.5 cannot count them. */
static bool count_chunks(hid_t dataset, hsize_t *n) {
#if H5_VERSION_GE(1, 10, 5)
    const hid_t space = H5Dget_space(dataset);
    const bool known = H5Dget_num_chunks(dataset, space, n) >= 0;
    H5Sclose(space);
    return known;
#else
    (void)dataset;
    *n = SIZE_MAX;
    return true;
#endif
}

/* Rows for which a dataset has room in the file: chunks, none of which packs more than a thousand
 * rows into a byte; what was never written is read as zeros, and takes as long. SIZE_MAX where
 * that cannot be told. */
static size_t stored_rows(hid_t dataset) {
    const hid_t layout = H5Dget_create_plist(dataset), type = H5Dget_type(dataset);
    const H5D_layout_t kind = layout >= 0 ? H5Pget_layout(layout) : H5D_LAYOUT_ERROR;
    const size_t row_bytes = type >= 0 ? H5Tget_size(type) : 0;
    size_t rows = SIZE_MAX;
    if (kind == H5D_CHUNKED) {
        hsize_t chunk = 0, n = 0;
        const bool known =
            H5Pget_chunk(layout, 1, &chunk) == 1 && chunk > 0 && count_chunks(dataset, &n);
        const hsize_t bytes = H5Dget_storage_size(dataset);
        const size_t packed = bytes < SIZE_MAX / 1000 ? (size_t)bytes * 1000 : SIZE_MAX;
        rows = !known ? 0 : n < SIZE_MAX / chunk ? (size_t)(n * chunk) : SIZE_MAX;
        rows = packed < rows ? packed : rows;
    } else if ((kind == H5D_CONTIGUOUS || kind == H5D_COMPACT) && row_bytes > 0) {
        rows = H5Dget_storage_size(dataset) / row_bytes;
    }
    H5Tclose(type);
    H5Pclose(layout);
    return rows;
}

size_t dqn_h5_table_stored_rows(const struct dqn_h5_table *table) {
    if (table->dataset >= 0) {
        return stored_rows(table->dataset);
    }
    const hid_t dataset = H5Dopen2(table->file, table->column[0].name, H5P_DEFAULT);
    const size_t rows = dataset >= 0 ? stored_rows(dataset) : 0;
    H5Dclose(dataset);
    return rows;
}

static enum dqn_status refuse_read(const struct dqn_h5_table *table, const char *path,
                                   const struct dqn_h5_column *column) {
    return dqn_fail(
        DQN_ERR_DATA,
        "%s: /%s%s%s cannot be read: the file is damaged, or packed by a filter that is "
        "not installed (pandas' blosc needs the package hdf5-filter-plugin-blosc-serial)",
        path, table->path, table->dataset >= 0 ? " field " : "", column->name);
}

static enum dqn_status read_dataset(const struct dqn_h5_table *table, const char *path,
                                    const struct dqn_h5_column *column, hid_t type, void *out) {
    const hid_t dataset = H5Dopen2(table->file, column->name, H5P_DEFAULT);
    const herr_t code =
        dataset >= 0 ? H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) : -1;
    H5Dclose(dataset);
    return code >= 0 ? DQN_OK : refuse_read(table, path, column);
}

/* Reads number `at` of each row's field through a memory type that holds the field alone. */
static enum dqn_status read_field(const struct dqn_h5_table *table, const char *path,
                                  const struct dqn_h5_column *column, hid_t type, void *out) {
    const hsize_t of = column->of;
    void *rows = NULL;
    enum dqn_status status = DQN_OK;
    const hid_t member = of > 1 ? H5Tarray_create2(type, 1, &of) : H5Tcopy(type);
    const hid_t row = H5Tcreate(H5T_COMPOUND, 8 * column->of);
    H5Tinsert(row, column->field, 0, member);
    if (of > 1) {
        status = dqn_alloc(&rows, table->n_rows * column->of, 8, "a table's field");
    }
    if (status == DQN_OK && H5Dread(table->dataset, row, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                    rows != NULL ? rows : out) < 0) {
        status = refuse_read(table, path, column);
    }
    for (size_t i = 0; status == DQN_OK && rows != NULL && i < table->n_rows; i++) {
        memcpy((char *)out + 8 * i, (char *)rows + 8 * (i * column->of + column->at), 8);
    }
    free(rows);
    H5Tclose(row);
    H5Tclose(member);
    return status;
}

static enum dqn_status read_column(const struct dqn_h5_table *table, const char *path,
                                   size_t column, hid_t type, void *out) {
    return table->dataset >= 0 ? read_field(table, path, &table->column[column], type, out)
                               : read_dataset(table, path, &table->column[column], type, out);
}

enum dqn_status dqn_h5_read_reals(const struct dqn_h5_table *table, const char *path, size_t column,
                                  double *out) {
    return read_column(table, path, column, H5T_NATIVE_DOUBLE, out);
}

enum dqn_status dqn_h5_read_integers(const struct dqn_h5_table *table, const char *path,
                                     size_t column, int64_t *out) {
    if (!table->column[column].integer) {
        return dqn_fail(DQN_ERR_DATA, "%s: %s holds floats; expected int64 nanoseconds UTC", path,
                        table->column[column].name);
    }
    return read_column(table, path, column, H5T_NATIVE_INT64, out);
}
