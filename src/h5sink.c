/* The HDF5 file driver for writing: all writes go through dqn_file_ops into an open file, and
 * failures are kept instead of told. HDF5 retries a failed write at close, at the library's end and
 * at exit, and cannot close the file; so it is told that all went well, and the caller throws the
 * file away. Source of the driver's contract: HDF5 reference, "Virtual File Layer". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "h5file.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

struct sink_file {
    H5FD_t base; /* HDF5's part comes first */
    struct dqn_h5_sink *sink;
    haddr_t eoa; /* end of what HDF5 has allocated */
    haddr_t eof; /* end of what was written */
};

struct sink_info {
    struct dqn_h5_sink *sink;
};

static const struct dqn_file_ops *ops_of(const struct dqn_h5_sink *sink) {
    return sink->ops != NULL ? sink->ops : &dqn_file_ops_system;
}

static void keep_errno(struct dqn_h5_sink *sink) {
    if (sink->error == 0) {
        sink->error = errno != 0 ? errno : EIO;
    }
}

static H5FD_t *sink_open(const char *name, unsigned flags, hid_t access, haddr_t max_address) {
    (void)name;
    (void)flags;
    (void)max_address;
    const struct sink_info *info = H5Pget_driver_info(access);
    struct sink_file *file = calloc(1, sizeof *file);
    if (info == NULL || file == NULL) {
        free(file);
        return NULL;
    }
    file->sink = info->sink;
    return &file->base;
}

static herr_t sink_close(H5FD_t *base) {
    free(base); /* the descriptor is the caller's */
    return 0;
}

static int sink_compare(const H5FD_t *a, const H5FD_t *b) {
    const int x = ((const struct sink_file *)a)->sink->fd;
    const int y = ((const struct sink_file *)b)->sink->fd;
    return (x > y) - (x < y);
}

static herr_t sink_query(const H5FD_t *base, unsigned long *flags) {
    (void)base;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t sink_get_eoa(const H5FD_t *base, H5FD_mem_t type) {
    (void)type;
    return ((const struct sink_file *)base)->eoa;
}

static herr_t sink_set_eoa(H5FD_t *base, H5FD_mem_t type, haddr_t address) {
    (void)type;
    ((struct sink_file *)base)->eoa = address;
    return 0;
}

static haddr_t sink_get_eof(const H5FD_t *base, H5FD_mem_t type) {
    (void)type;
    return ((const struct sink_file *)base)->eof;
}

/* What lies beyond the file's end, or was lost by a failed write, reads as zeros. */
static herr_t sink_read(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size,
                        void *data) {
    (void)type;
    (void)transfer;
    struct dqn_h5_sink *sink = ((struct sink_file *)base)->sink;
    ssize_t n = dqn_file_read_at(ops_of(sink), sink->fd, data, size, (off_t)address);
    if (n < 0) {
        keep_errno(sink);
        n = 0;
    }
    memset((unsigned char *)data + n, 0, size - (size_t)n);
    return 0;
}

static herr_t sink_write(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t address,
                         size_t size, const void *data) {
    (void)type;
    (void)transfer;
    struct sink_file *file = (struct sink_file *)base;
    if (file->sink->error == 0 &&
        dqn_file_write_at(ops_of(file->sink), file->sink->fd, data, size, (off_t)address) != 0) {
        keep_errno(file->sink);
    }
    if (file->eof < address + size) {
        file->eof = address + size;
    }
    return 0;
}

static herr_t sink_truncate(H5FD_t *base, hid_t transfer, hbool_t closing) {
    (void)transfer;
    (void)closing;
    struct sink_file *file = (struct sink_file *)base;
    struct dqn_h5_sink *sink = file->sink;
    if (file->eof == file->eoa) {
        return 0;
    }
    const struct dqn_file_ops *ops = ops_of(sink);
    if (sink->error == 0 && ops->ftruncate(ops->context, sink->fd, (off_t)file->eoa) != 0) {
        keep_errno(sink);
    }
    file->eof = file->eoa;
    return 0;
}

static const H5FD_class_t sink_class = {
#if H5_VERSION_GE(1, 13, 2)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)310, /* 256 to 511 are for private use */
#endif
    .name = "dqn_sink",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct sink_info),
    .open = sink_open,
    .close = sink_close,
    .cmp = sink_compare,
    .query = sink_query,
    .get_eoa = sink_get_eoa,
    .set_eoa = sink_set_eoa,
    .get_eof = sink_get_eof,
    .read = sink_read,
    .write = sink_write,
    .truncate = sink_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

enum dqn_status dqn_h5_create(hid_t *out, struct dqn_h5_sink *sink, hsize_t user_block) {
    *out = -1;
    sink->error = 0;
    if (H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0) {
        return dqn_h5_fail(DQN_ERR_INTERNAL, "HDF5 cannot be started");
    }
    enum dqn_status status = DQN_OK;
    const struct sink_info info = {sink};
    const hid_t driver = H5FDregister(&sink_class);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    /* The oldest format that holds the contents: a newer one marks files as open for writing. */
    if (driver < 0 || access < 0 || creation < 0 || H5Pset_driver(access, driver, &info) < 0 ||
        H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) < 0 ||
        H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0 ||
        H5Pset_userblock(creation, user_block) < 0 || H5Pset_obj_track_times(creation, false) < 0) {
        status = dqn_h5_fail(DQN_ERR_INTERNAL, "HDF5 refuses the settings of a new file");
        goto done;
    }
    *out = H5Fcreate("sink", H5F_ACC_TRUNC, creation, access);
    if (*out < 0) {
        status = dqn_h5_fail(DQN_ERR_DISK, "HDF5 cannot create a file");
    }
done:
    H5Pclose(creation);
    H5Pclose(access);
    H5FDunregister(driver);
    return status;
}

enum dqn_status dqn_h5_create_close(hid_t file, struct dqn_h5_sink *sink, const char *path) {
    const bool closed = file < 0 || H5Fclose(file) >= 0;
    if (sink->error != 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: writing failed: %s", path, strerror(sink->error));
    }
    if (!closed) {
        return dqn_h5_fail(DQN_ERR_DISK, "%s: HDF5 cannot close the file", path);
    }
    return DQN_OK;
}
