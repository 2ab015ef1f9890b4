#include "h5file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* HDF5 keeps its state per process, so its lock is the one per-process variable here. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

void dqn_h5_lock(void) {
    DQN_CHECK(pthread_mutex_lock(&library_lock) == 0);
}

void dqn_h5_unlock(void) {
    DQN_CHECK(pthread_mutex_unlock(&library_lock) == 0);
}

/* ---- version ---- */

enum dqn_status dqn_h5_check_versions(const unsigned compiled[3], const unsigned running[3]) {
    if (memcmp(compiled, running, 3 * sizeof compiled[0]) == 0) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_INTERNAL,
                    "the program was compiled for HDF5 %u.%u.%u but runs with HDF5 %u.%u.%u; "
                    "build it again here, or put the right library first in LD_LIBRARY_PATH",
                    compiled[0], compiled[1], compiled[2], running[0], running[1], running[2]);
}

enum dqn_status dqn_h5_check_library(void) {
    const unsigned compiled[3] = {H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE};
    unsigned running[3] = {0, 0, 0};
    dqn_h5_lock();
    const herr_t told = H5get_libversion(&running[0], &running[1], &running[2]);
    dqn_h5_unlock();
    if (told < 0) {
        return dqn_fail(DQN_ERR_INTERNAL, "HDF5 does not tell its version");
    }
    return dqn_h5_check_versions(compiled, running);
}

const char *dqn_h5_version(char *text, size_t size) {
    unsigned v[3] = {0, 0, 0};
    hbool_t threads = false;
    dqn_h5_lock();
    H5get_libversion(&v[0], &v[1], &v[2]);
    H5is_library_threadsafe(&threads);
    dqn_h5_unlock();
    snprintf(text, size, "HDF5 %u.%u.%u, %s", v[0], v[1], v[2],
             threads ? "thread-safe" : "not thread-safe");
    return text;
}

/* ---- errors ---- */

struct reasons {
    char outer[256], inner[256];
};

static herr_t take_reason(unsigned n, const H5E_error2_t *error, void *context) {
    struct reasons *reasons = context;
    const char *text = error->desc != NULL ? error->desc : "";
    snprintf(n == 0 ? reasons->inner : reasons->outer, sizeof reasons->outer, "%s", text);
    return 0;
}

enum dqn_status dqn_h5_fail(enum dqn_status status, const char *format, ...) {
    struct reasons reasons = {"", ""};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, &reasons);
    char text[1536];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (reasons.inner[0] == '\0') {
        return dqn_fail(status, "%s", text);
    }
    if (reasons.outer[0] == '\0') {
        return dqn_fail(status, "%s: %s", text, reasons.inner);
    }
    return dqn_fail(status, "%s: %s: %s", text, reasons.outer, reasons.inner);
}

/* ---- types ---- */

static hid_t file_type(enum dqn_dtype dtype) {
    switch (dtype) {
    case DQN_U8:
        return H5T_STD_U8LE;
    case DQN_U32:
        return H5T_STD_U32LE;
    case DQN_I64:
        return H5T_STD_I64LE;
    case DQN_U64:
        return H5T_STD_U64LE;
    case DQN_F32:
        return H5T_IEEE_F32LE;
    case DQN_F64:
        return H5T_IEEE_F64LE;
    }
    return -1;
}

static hid_t memory_type(enum dqn_dtype dtype) {
    switch (dtype) {
    case DQN_U8:
        return H5T_NATIVE_UINT8;
    case DQN_U32:
        return H5T_NATIVE_UINT32;
    case DQN_I64:
        return H5T_NATIVE_INT64;
    case DQN_U64:
        return H5T_NATIVE_UINT64;
    case DQN_F32:
        return H5T_NATIVE_FLOAT;
    case DQN_F64:
        return H5T_NATIVE_DOUBLE;
    }
    return -1;
}

static bool known_type(hid_t type, enum dqn_dtype *out) {
    static const enum dqn_dtype all[] = {DQN_U8, DQN_U32, DQN_I64, DQN_U64, DQN_F32, DQN_F64};
    for (size_t i = 0; i < DQN_COUNT_OF(all); i++) {
        if (H5Tequal(type, file_type(all[i])) > 0) {
            *out = all[i];
            return true;
        }
    }
    return false;
}

/* ---- files ---- */

enum dqn_status dqn_h5_open(hid_t *out, const char *path) {
    *out = -1;
    if (H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0) {
        return dqn_h5_fail(DQN_ERR_INTERNAL, "HDF5 cannot be started");
    }
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0 || H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0) {
        H5Pclose(access);
        return dqn_h5_fail(DQN_ERR_INTERNAL, "HDF5 refuses the settings for reading");
    }
    *out = H5Fopen(path, H5F_ACC_RDONLY, access);
    enum dqn_status status = DQN_OK;
    if (*out < 0) {
        status = dqn_h5_fail(DQN_ERR_CHECKPOINT, "%s: HDF5 cannot open it", path);
    }
    H5Pclose(access);
    return status;
}

void dqn_h5_close(hid_t file) {
    if (file >= 0) {
        H5Fclose(file);
    }
}

/* ---- datasets ---- */

static hid_t make_space(int rank, const size_t *shape) {
    if (rank == 0) {
        return H5Screate(H5S_SCALAR);
    }
    hsize_t extents[DQN_MAX_RANK];
    DQN_CHECK(rank > 0 && rank <= DQN_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        extents[i] = shape[i];
    }
    return H5Screate_simple(rank, extents, NULL);
}

/* A contiguous dataset with groups on the way: chunks may not reach 4 GiB, contiguous data may. */
static hid_t create_dataset(hid_t file, const char *name, hid_t type, hid_t space) {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    hid_t dataset = -1;
    if (links >= 0 && creation >= 0 && H5Pset_create_intermediate_group(links, 1) >= 0 &&
        H5Pset_char_encoding(links, H5T_CSET_UTF8) >= 0 &&
        H5Pset_obj_track_times(creation, false) >= 0 &&
        H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0) {
        dataset = H5Dcreate2(file, name, type, space, links, creation, H5P_DEFAULT);
    }
    H5Pclose(creation);
    H5Pclose(links);
    return dataset;
}

enum dqn_status dqn_h5_write(hid_t file, const char *name, enum dqn_dtype dtype, int rank,
                             const size_t *shape, const void *data) {
    enum dqn_status status = DQN_OK;
    const hid_t space = make_space(rank, shape);
    const hid_t dataset = space < 0 ? -1 : create_dataset(file, name, file_type(dtype), space);
    if (dataset < 0) {
        status = dqn_h5_fail(DQN_ERR_DISK, "dataset %s cannot be created", name);
        goto done;
    }
    if (H5Sget_simple_extent_npoints(space) > 0 &&
        H5Dwrite(dataset, memory_type(dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        status = dqn_h5_fail(DQN_ERR_DISK, "dataset %s cannot be written", name);
    }
done:
    if (dataset >= 0 && H5Dclose(dataset) < 0 && status == DQN_OK) {
        status = dqn_h5_fail(DQN_ERR_DISK, "dataset %s cannot be closed", name);
    }
    H5Sclose(space);
    return status;
}

/* H5Lexists needs every group on the way to exist. */
static bool link_exists(hid_t file, const char *name) {
    char part[256];
    const size_t length = strlen(name);
    if (length >= sizeof part) {
        return false;
    }
    for (size_t i = 1; i <= length; i++) {
        if (name[i] == '/' || name[i] == '\0') {
            memcpy(part, name, i);
            part[i] = '\0';
            if (H5Lexists(file, part, H5P_DEFAULT) <= 0) {
                return false;
            }
        }
    }
    return length > 0;
}

/* Fills `out` from an open dataset's space and type. */
static enum dqn_status describe(const char *name, hid_t space, hid_t type,
                                struct dqn_h5_shape *out) {
    const int rank = H5Sget_simple_extent_ndims(space);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (rank < 0 || count < 0) {
        return dqn_h5_fail(DQN_ERR_CHECKPOINT, "dataset %s does not tell its shape", name);
    }
    out->found = true;
    out->rank = rank;
    out->count = (size_t)count;
    out->known = known_type(type, &out->dtype);
    if (rank <= DQN_MAX_RANK) {
        hsize_t extents[DQN_MAX_RANK] = {0};
        if (H5Sget_simple_extent_dims(space, extents, NULL) < 0) {
            return dqn_h5_fail(DQN_ERR_CHECKPOINT, "dataset %s does not tell its shape", name);
        }
        for (int i = 0; i < rank; i++) {
            out->shape[i] = (size_t)extents[i];
        }
    }
    return DQN_OK;
}

enum dqn_status dqn_h5_find(hid_t file, const char *name, struct dqn_h5_shape *out) {
    *out = (struct dqn_h5_shape){.found = false};
    if (!link_exists(file, name)) {
        return DQN_OK;
    }
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    if (dataset < 0) {
        return DQN_OK; /* a group has no data either */
    }
    const hid_t space = H5Dget_space(dataset);
    const hid_t type = H5Dget_type(dataset);
    const enum dqn_status status =
        space < 0 || type < 0
            ? dqn_h5_fail(DQN_ERR_CHECKPOINT, "dataset %s cannot be looked at", name)
            : describe(name, space, type, out);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    return status;
}

enum dqn_status dqn_h5_read(hid_t file, const char *name, enum dqn_dtype dtype, void *data) {
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    enum dqn_status status = DQN_OK;
    if (dataset < 0 ||
        H5Dread(dataset, memory_type(dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        status = dqn_h5_fail(DQN_ERR_CHECKPOINT, "dataset %s cannot be read", name);
    }
    H5Dclose(dataset);
    return status;
}

/* ---- texts ---- */

/* The type of a text with `size` bytes, its end included. */
static hid_t text_type(size_t size) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 && (H5Tset_size(type, size) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

enum dqn_status dqn_h5_write_string(hid_t file, const char *name, const char *text) {
    enum dqn_status status = DQN_OK;
    const hid_t type = text_type(strlen(text) + 1);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t dataset = type < 0 || space < 0 ? -1 : create_dataset(file, name, type, space);
    if (dataset < 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0) {
        status = dqn_h5_fail(DQN_ERR_DISK, "dataset %s cannot be written", name);
    }
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
    return status;
}

/* Whether a stored text is one fixed-length string. */
static bool is_plain_text(hid_t type, hid_t space) {
    return type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
           H5Sget_simple_extent_npoints(space) == 1;
}

enum dqn_status dqn_h5_read_string(hid_t file, const char *name, char **out) {
    *out = NULL;
    const hid_t dataset = link_exists(file, name) ? H5Dopen2(file, name, H5P_DEFAULT) : -1;
    if (dataset < 0) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "dataset %s is missing", name);
    }
    enum dqn_status status = DQN_OK;
    void *text = NULL;
    const hid_t type = H5Dget_type(dataset);
    const hid_t space = H5Dget_space(dataset);
    if (!is_plain_text(type, space)) {
        status = dqn_fail(DQN_ERR_CHECKPOINT, "dataset %s is no plain text", name);
        goto done;
    }
    DQN_TRY_GOTO(dqn_alloc(&text, H5Tget_size(type) + 1, 1, name));
    if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0) {
        status = dqn_h5_fail(DQN_ERR_CHECKPOINT, "dataset %s cannot be read", name);
        goto done;
    }
    *out = text;
    text = NULL;
done:
    free(text);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return status;
}

/* ---- attributes ---- */

static enum dqn_status write_attribute(hid_t file, const char *object, const char *name, hid_t type,
                                       hid_t in_memory, const void *data) {
    enum dqn_status status = DQN_OK;
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t attribute = H5Acreate_by_name(file, object != NULL ? object : "/", name, type,
                                              space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0 || H5Awrite(attribute, in_memory, data) < 0) {
        status = dqn_h5_fail(DQN_ERR_DISK, "attribute %s cannot be written", name);
    }
    H5Aclose(attribute);
    H5Sclose(space);
    return status;
}

enum dqn_status dqn_h5_write_text(hid_t file, const char *object, const char *name,
                                  const char *text) {
    const hid_t type = text_type(strlen(text) + 1);
    if (type < 0) {
        return dqn_h5_fail(DQN_ERR_INTERNAL, "no HDF5 type for the text %s", name);
    }
    const enum dqn_status status = write_attribute(file, object, name, type, type, text);
    H5Tclose(type);
    return status;
}

enum dqn_status dqn_h5_write_u64(hid_t file, const char *name, uint64_t value) {
    return write_attribute(file, NULL, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value);
}

/* -1 when there is none. */
static hid_t open_attribute(hid_t file, const char *object, const char *name) {
    const char *where = object != NULL ? object : "/";
    if (H5Aexists_by_name(file, where, name, H5P_DEFAULT) <= 0) {
        return -1;
    }
    return H5Aopen_by_name(file, where, name, H5P_DEFAULT, H5P_DEFAULT);
}

enum dqn_status dqn_h5_read_text(hid_t file, const char *object, const char *name, char **out) {
    *out = NULL;
    const hid_t attribute = open_attribute(file, object, name);
    if (attribute < 0) {
        return DQN_OK;
    }
    enum dqn_status status = DQN_OK;
    void *text = NULL;
    const hid_t stored = H5Aget_type(attribute);
    const hid_t space = H5Aget_space(attribute);
    if (!is_plain_text(stored, space)) {
        status = dqn_fail(DQN_ERR_CHECKPOINT, "attribute %s is no plain text", name);
        goto done;
    }
    DQN_TRY_GOTO(dqn_alloc(&text, H5Tget_size(stored) + 1, 1, name));
    if (H5Aread(attribute, stored, text) < 0) {
        status = dqn_h5_fail(DQN_ERR_CHECKPOINT, "attribute %s cannot be read", name);
        goto done;
    }
    *out = text;
    text = NULL;
done:
    free(text);
    H5Sclose(space);
    H5Tclose(stored);
    H5Aclose(attribute);
    return status;
}

enum dqn_status dqn_h5_read_u64(hid_t file, const char *name, uint64_t *value, bool *found) {
    *value = 0;
    const hid_t attribute = open_attribute(file, NULL, name);
    *found = attribute >= 0;
    if (!*found) {
        return DQN_OK;
    }
    enum dqn_status status = DQN_OK;
    if (H5Aread(attribute, H5T_NATIVE_UINT64, value) < 0) {
        status = dqn_h5_fail(DQN_ERR_CHECKPOINT, "attribute %s cannot be read", name);
    }
    H5Aclose(attribute);
    return status;
}
