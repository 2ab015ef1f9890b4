#include "h5_compare.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comparison {
    hid_t a, b;
    bool skip_config, equal;
    size_t n_datasets;
    char *why;
    size_t size;
};

static void *read_all(hid_t dataset, size_t *bytes, hid_t *type) {
    const hid_t space = H5Dget_space(dataset);
    *type = H5Dget_type(dataset);
    *bytes = (size_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(*type);
    H5Sclose(space);
    void *data = malloc(*bytes > 0 ? *bytes : 1);
    if (data != NULL && H5Dread(dataset, *type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        free(data);
        data = NULL;
    }
    return data;
}

static bool dataset_equal(hid_t file_a, hid_t file_b, const char *name, char *why, size_t size) {
    const hid_t a = H5Dopen2(file_a, name, H5P_DEFAULT), b = H5Dopen2(file_b, name, H5P_DEFAULT);
    if (a < 0 || b < 0) {
        snprintf(why, size, "%s is missing in one file", name);
        return false;
    }
    size_t bytes_a = 0, bytes_b = 0;
    hid_t type_a, type_b;
    void *data_a = read_all(a, &bytes_a, &type_a), *data_b = read_all(b, &bytes_b, &type_b);
    bool equal = data_a != NULL && data_b != NULL && bytes_a == bytes_b &&
                 H5Tequal(type_a, type_b) > 0 && H5Tis_variable_str(type_a) == 0;
    if (equal && memcmp(data_a, data_b, bytes_a) != 0) {
        equal = false;
        size_t at = 0;
        while (((char *)data_a)[at] == ((char *)data_b)[at]) {
            at++;
        }
        snprintf(why, size, "%s differs from byte %zu of %zu on", name, at, bytes_a);
    } else if (!equal) {
        snprintf(why, size, "%s has another type or size", name);
    }
    free(data_a);
    free(data_b);
    H5Tclose(type_a);
    H5Tclose(type_b);
    H5Dclose(a);
    H5Dclose(b);
    return equal;
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *info, void *context) {
    struct comparison *c = context;
    (void)root;
    if (info->type != H5O_TYPE_DATASET || (c->skip_config && strcmp(name, "config") == 0)) {
        return 0;
    }
    c->n_datasets++;
    if (!dataset_equal(c->a, c->b, name, c->why, c->size)) {
        c->equal = false;
        return 1;
    }
    return 0;
}

static bool compare(const char *a, const char *b, bool skip_config, char *why, size_t size) {
    bool equal = true;
    for (int turn = 0; turn < 2 && equal; turn++) {
        struct comparison c = {.skip_config = skip_config, .equal = true, .why = why, .size = size};
        c.a = H5Fopen(turn == 0 ? a : b, H5F_ACC_RDONLY, H5P_DEFAULT);
        c.b = H5Fopen(turn == 0 ? b : a, H5F_ACC_RDONLY, H5P_DEFAULT);
        if (c.a < 0 || c.b < 0) {
            snprintf(why, size, "cannot open %s or %s", a, b);
            return false;
        }
        H5Ovisit(c.a, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &c);
        equal = c.equal && c.n_datasets > 10;
        if (c.equal && !equal) {
            snprintf(why, size, "only %zu datasets", c.n_datasets);
        }
        H5Fclose(c.a);
        H5Fclose(c.b);
    }
    return equal;
}

bool h5_equal(const char *a, const char *b, char *why, size_t size) {
    return compare(a, b, false, why, size);
}

bool h5_equal_but_config(const char *a, const char *b, char *why, size_t size) {
    return compare(a, b, true, why, size);
}

bool h5_dataset_equal(const char *a, const char *b, const char *name, char *why, size_t size) {
    const hid_t file_a = H5Fopen(a, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t file_b = H5Fopen(b, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file_a < 0 || file_b < 0) {
        snprintf(why, size, "cannot open %s or %s", a, b);
        return false;
    }
    const bool equal = dataset_equal(file_a, file_b, name, why, size);
    H5Fclose(file_a);
    H5Fclose(file_b);
    return equal;
}
