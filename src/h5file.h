/* Thin checked helpers over HDF5: the process-wide lock, errors as status codes with the library's
 * own reasons, datasets and text attributes. */
#ifndef DQN_H5FILE_H
#define DQN_H5FILE_H

#include <hdf5.h>

#include "arena.h"
#include "base.h"
#include "file_ops.h"

/* HDF5 is rarely built for threads: whoever calls it, here or elsewhere in the program, holds this
 * one lock from before the first call until after the last. Not recursive. */
void dqn_h5_lock(void);
void dqn_h5_unlock(void);

/* DQN_ERR_INTERNAL when the program was compiled for another HDF5 than it runs with, which would
 * abort the process at the first use. Call at the program's start. */
enum dqn_status dqn_h5_check_library(void);
/* The comparison alone: major, minor, release. */
enum dqn_status dqn_h5_check_versions(const unsigned compiled[3], const unsigned running[3]);
/* "HDF5 1.10.8, not thread-safe" into a caller's buffer; returns it. */
const char *dqn_h5_version(char *text, size_t size);

/* Everything below: the caller holds the lock. */

/* dqn_fail with HDF5's reasons after the text: "text: outermost reason: innermost reason". */
enum dqn_status dqn_h5_fail(enum dqn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Where HDF5's writes go. A failed write is kept here and reported as done, because HDF5 can
 * neither close nor forget a file whose writes fail; after the close, `error` tells. */
struct dqn_h5_sink {
    const struct dqn_file_ops *ops;
    int fd;
    int error; /* errno of the first failed call; 0 = none */
};

/* Creates an HDF5 file on the sink's empty file, with `user_block` bytes left free at its start.
 * The bytes written are a function of the contents alone: no times. */
enum dqn_status dqn_h5_create(hid_t *out, struct dqn_h5_sink *sink, hsize_t user_block);
/* Closes it. DQN_ERR_DISK with the errno text when any write failed; `path` is for messages. */
enum dqn_status dqn_h5_create_close(hid_t file, struct dqn_h5_sink *sink, const char *path);
/* Opens for reading. */
enum dqn_status dqn_h5_open(hid_t *out, const char *path);
void dqn_h5_close(hid_t file);

/* Creates groups on the way. Rank 0 is a scalar; extents of 0 are allowed. */
enum dqn_status dqn_h5_write(hid_t file, const char *name, enum dqn_dtype dtype, int rank,
                             const size_t *shape, const void *data);

/* What a file has under a name. */
struct dqn_h5_shape {
    bool found;
    bool known; /* the type is one of dqn_dtype */
    enum dqn_dtype dtype;
    int rank; /* may exceed DQN_MAX_RANK; then shape is not filled */
    size_t shape[DQN_MAX_RANK];
    size_t count; /* elements */
};
enum dqn_status dqn_h5_find(hid_t file, const char *name, struct dqn_h5_shape *out);
/* Reads a whole dataset; its type and size are as dqn_h5_find told. */
enum dqn_status dqn_h5_read(hid_t file, const char *name, enum dqn_dtype dtype, void *data);

/* A text of any length as a dataset: a scalar string. *out is malloc'ed. */
enum dqn_status dqn_h5_write_string(hid_t file, const char *name, const char *text);
enum dqn_status dqn_h5_read_string(hid_t file, const char *name, char **out);

/* Text attributes (below 64 KiB) of the root or, with `object` not NULL, of a dataset. */
enum dqn_status dqn_h5_write_text(hid_t file, const char *object, const char *name,
                                  const char *text);
/* *out is malloc'ed; NULL when there is no such attribute. */
enum dqn_status dqn_h5_read_text(hid_t file, const char *object, const char *name, char **out);
enum dqn_status dqn_h5_write_u64(hid_t file, const char *name, uint64_t value);
/* *found = false when there is no such attribute. */
enum dqn_status dqn_h5_read_u64(hid_t file, const char *name, uint64_t *value, bool *found);

#endif
