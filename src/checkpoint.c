/* Reading checkpoints. */
#include "checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "checkpoint_parts.h"
#include "h5file.h"
#include "sealed_file.h"

struct dqn_checkpoint {
    char *path;
    hid_t file;
    uint64_t schema;
    uint64_t epochs;
    bool partial, has_replay;
    char *config_text;
};

/* ---- opening --------------------------------------------------------------------------------- */

static enum dqn_status read_number(const struct dqn_checkpoint *c, const char *name,
                                   uint64_t *value) {
    bool found = false;
    DQN_TRY(dqn_h5_read_u64(c->file, name, value, &found));
    return found ? DQN_OK : dqn_fail(DQN_ERR_CHECKPOINT, "the attribute %s is missing", name);
}

static enum dqn_status read_head(struct dqn_checkpoint *c) {
    DQN_TRY(read_number(c, "schema", &c->schema));
    if (c->schema == 0) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "has schema 0, which never was");
    }
    if (c->schema > DQN_CHECKPOINT_SCHEMA) {
        return dqn_fail(DQN_ERR_CHECKPOINT,
                        "has schema %" PRIu64 ", this program reads up to %d; use the program "
                        "version that wrote it, or a newer one",
                        c->schema, DQN_CHECKPOINT_SCHEMA);
    }
    uint64_t replay = 0, partial = 0;
    DQN_TRY(read_number(c, "replay_saved", &replay));
    DQN_TRY(read_number(c, "epochs", &c->epochs));
    DQN_TRY(read_number(c, "partial", &partial));
    c->has_replay = replay != 0;
    c->partial = partial != 0;
    DQN_TRY(dqn_h5_read_string(c->file, DQN_CHECKPOINT_CONFIG, &c->config_text));
    struct dqn_h5_shape history;
    DQN_TRY(dqn_h5_find(c->file, DQN_CHECKPOINT_HISTORY, &history));
    if (!history.found || !history.known || history.dtype != DQN_F64 || history.rank != 2) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "the table " DQN_CHECKPOINT_HISTORY " is missing");
    }
    return DQN_OK;
}

enum dqn_status dqn_checkpoint_open(struct dqn_checkpoint **out, const char *path) {
    *out = NULL;
    DQN_TRY(dqn_seal_verify(path));
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof **out, "checkpoint"));
    struct dqn_checkpoint *c = memory;
    c->file = -1;
    c->path = strdup(path);
    enum dqn_status status = DQN_OK;
    if (c->path == NULL) {
        status = dqn_fail(DQN_ERR_MEMORY, "no memory for the path %s", path);
    } else {
        dqn_h5_lock();
        status = dqn_h5_open(&c->file, path);
        if (status == DQN_OK) {
            status = read_head(c);
            if (status != DQN_OK) {
                dqn_fail_prefix(status, "%s", path);
            }
        }
        dqn_h5_unlock();
    }
    if (status != DQN_OK) {
        dqn_checkpoint_close(c);
        return status;
    }
    *out = c;
    return DQN_OK;
}

void dqn_checkpoint_close(struct dqn_checkpoint *c) {
    if (c == NULL) {
        return;
    }
    dqn_h5_lock();
    dqn_h5_close(c->file);
    dqn_h5_unlock();
    free(c->config_text);
    free(c->path);
    free(c);
}

enum dqn_status dqn_checkpoint_verify(const char *path) {
    struct dqn_checkpoint *c = NULL;
    DQN_TRY(dqn_checkpoint_open(&c, path));
    dqn_checkpoint_close(c);
    return DQN_OK;
}

const char *dqn_checkpoint_path(const struct dqn_checkpoint *c) {
    return c->path;
}

const char *dqn_checkpoint_config(const struct dqn_checkpoint *c) {
    return c->config_text;
}

bool dqn_checkpoint_has_replay(const struct dqn_checkpoint *c) {
    return c->has_replay;
}

uint64_t dqn_checkpoint_epochs(const struct dqn_checkpoint *c) {
    return c->epochs;
}

bool dqn_checkpoint_is_partial(const struct dqn_checkpoint *c) {
    return c->partial;
}

/* ---- host values ----------------------------------------------------------------------------- */

/* Puts the file's path before the error text of a call made under the lock. */
static enum dqn_status with_path(const struct dqn_checkpoint *c, enum dqn_status status) {
    return status == DQN_OK ? DQN_OK : dqn_fail_prefix(status, "%s", c->path);
}

enum dqn_status dqn_checkpoint_text(const struct dqn_checkpoint *c, const char *name, char **out) {
    dqn_h5_lock();
    const enum dqn_status status = dqn_h5_read_text(c->file, NULL, name, out);
    dqn_h5_unlock();
    return with_path(c, status);
}

static enum dqn_status find(const struct dqn_checkpoint *c, const char *name,
                            struct dqn_h5_shape *shape) {
    dqn_h5_lock();
    const enum dqn_status status = dqn_h5_find(c->file, name, shape);
    dqn_h5_unlock();
    return with_path(c, status);
}

static enum dqn_status read_dataset(const struct dqn_checkpoint *c, const char *name,
                                    enum dqn_dtype dtype, void *data) {
    dqn_h5_lock();
    const enum dqn_status status = dqn_h5_read(c->file, name, dtype, data);
    dqn_h5_unlock();
    return with_path(c, status);
}

static enum dqn_status host_name(char *out, size_t size, const char *name) {
    const int n = snprintf(out, size, DQN_CHECKPOINT_HOST "%s", name);
    if (n < 0 || (size_t)n >= size) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "the name %s is longer than %zu bytes", name, size);
    }
    return DQN_OK;
}

enum dqn_status dqn_checkpoint_field_count(const struct dqn_checkpoint *c, const char *name,
                                           size_t *count) {
    char full[256];
    struct dqn_h5_shape shape;
    *count = 0;
    DQN_TRY(host_name(full, sizeof full, name));
    DQN_TRY(find(c, full, &shape));
    *count = shape.found ? shape.count : 0;
    return DQN_OK;
}

enum dqn_status dqn_checkpoint_field_read(const struct dqn_checkpoint *c, const char *name,
                                          enum dqn_dtype dtype, size_t count, void *data) {
    char full[256];
    struct dqn_h5_shape shape;
    DQN_TRY(host_name(full, sizeof full, name));
    DQN_TRY(find(c, full, &shape));
    if (!shape.found) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "%s: the value %s is missing", c->path, full);
    }
    if (!shape.known || shape.dtype != dtype || shape.count != count) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "%s: %s is %s x %zu in the file, needed is %s x %zu",
                        c->path, full, shape.known ? dqn_dtype_name(shape.dtype) : "another type",
                        shape.count, dqn_dtype_name(dtype), count);
    }
    return count == 0 ? DQN_OK : read_dataset(c, full, dtype, data);
}

/* ---- history --------------------------------------------------------------------------------- */

/* Position of `name` among comma-separated columns; n when it is not there. */
static size_t column_at(const char *columns, size_t n, const char *name) {
    const size_t length = strlen(name);
    for (size_t i = 0; i < n; i++) {
        const size_t part = strcspn(columns, ",");
        if (part == length && strncmp(columns, name, length) == 0) {
            return i;
        }
        columns += part + (columns[part] == ',' ? 1 : 0);
    }
    return n;
}

static void pick_columns(double *to, const double *from, size_t n_rows, const char *stored,
                         size_t n_stored, const char *const *columns, size_t n_columns) {
    for (size_t j = 0; j < n_columns; j++) {
        const size_t at = column_at(stored, n_stored, columns[j]);
        for (size_t i = 0; i < n_rows; i++) {
            to[i * n_columns + j] = at < n_stored ? from[i * n_stored + at] : (double)NAN;
        }
    }
}

enum dqn_status dqn_checkpoint_history(const struct dqn_checkpoint *c, const char *const *columns,
                                       size_t n_columns, double **rows, size_t *n_rows) {
    *rows = NULL;
    *n_rows = 0;
    struct dqn_h5_shape shape;
    DQN_TRY(find(c, DQN_CHECKPOINT_HISTORY, &shape));
    if (shape.count == 0 || n_columns == 0) {
        return DQN_OK;
    }
    enum dqn_status status = DQN_OK;
    char *stored = NULL;
    void *all = NULL, *picked = NULL;
    dqn_h5_lock();
    status = dqn_h5_read_text(c->file, DQN_CHECKPOINT_HISTORY, "columns", &stored);
    dqn_h5_unlock();
    DQN_TRY_GOTO(with_path(c, status));
    DQN_TRY_GOTO(dqn_alloc(&all, shape.count, sizeof(double), "history"));
    DQN_TRY_GOTO(dqn_alloc(&picked, shape.shape[0], n_columns * sizeof(double), "history"));
    DQN_TRY_GOTO(read_dataset(c, DQN_CHECKPOINT_HISTORY, DQN_F64, all));
    pick_columns(picked, all, shape.shape[0], stored != NULL ? stored : "", shape.shape[1], columns,
                 n_columns);
    *rows = picked;
    *n_rows = shape.shape[0];
    picked = NULL;
done:
    free(picked);
    free(all);
    free(stored);
    return status;
}

/* ---- buffers --------------------------------------------------------------------------------- */

struct load {
    const char *name; /* in the file */
    const struct dqn_buffer *buffer;
};

/* "f32 [1, 51, 4]" */
static const char *format_shape(char *text, size_t size, const char *type, int rank,
                                const size_t *shape) {
    int n = snprintf(text, size, "%s [", type);
    for (int i = 0; i < rank && i < DQN_MAX_RANK && n > 0 && (size_t)n < size; i++) {
        n += snprintf(text + n, size - (size_t)n, "%s%zu", i > 0 ? ", " : "", shape[i]);
    }
    if (n > 0 && (size_t)n < size) {
        snprintf(text + n, size - (size_t)n, "]");
    }
    return text;
}

/* Whether the file has the buffer as it is. *absent: it is missing by the file's own word. */
static enum dqn_status check_fit(const struct dqn_checkpoint *c, const struct load *load,
                                 bool *absent) {
    const struct dqn_buffer *buffer = load->buffer;
    struct dqn_h5_shape shape;
    DQN_TRY(find(c, load->name, &shape));
    *absent = !shape.found && !c->has_replay && (buffer->flags & DQN_BUFFER_REPLAY) != 0;
    if (*absent) {
        return DQN_OK;
    }
    char needed[160], stored[160];
    format_shape(needed, sizeof needed, dqn_dtype_name(buffer->dtype), buffer->rank, buffer->shape);
    if (!shape.found) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "%s: buffer %s (%s here) is not in the file", c->path,
                        load->name, needed);
    }
    const bool fits =
        shape.known && shape.dtype == buffer->dtype && shape.rank == buffer->rank &&
        memcmp(shape.shape, buffer->shape, (size_t)buffer->rank * sizeof shape.shape[0]) == 0;
    if (!fits) {
        format_shape(stored, sizeof stored,
                     shape.known ? dqn_dtype_name(shape.dtype) : "another type", shape.rank,
                     shape.shape);
        return dqn_fail(DQN_ERR_CHECKPOINT,
                        "%s: buffer %s is %s in the file but %s here; use the configuration that "
                        "wrote the file",
                        c->path, load->name, stored, needed);
    }
    return DQN_OK;
}

enum dqn_status dqn_checkpoint_check_buffer(const struct dqn_checkpoint *c,
                                            const struct dqn_buffer *like) {
    const struct load load = {like->name, like};
    bool absent = false;
    return check_fit(c, &load, &absent);
}

/* Waits after each buffer, because they share one piece of host memory. */
static enum dqn_status load_one(const struct dqn_checkpoint *c, const struct load *load,
                                struct dqn_queue *q, void *scratch) {
    DQN_TRY(read_dataset(c, load->name, load->buffer->dtype, scratch));
    DQN_TRY(dqn_buffer_from_host(load->buffer, q, scratch));
    return q != NULL ? q->device->backend->queue->wait(q) : DQN_OK;
}

/* Checks all, then loads all. */
static enum dqn_status load_list(const struct dqn_checkpoint *c, struct dqn_queue *q,
                                 struct load *loads, size_t n) {
    size_t largest = 1;
    for (size_t i = 0; i < n; i++) {
        bool absent = false;
        DQN_TRY(check_fit(c, &loads[i], &absent));
        if (absent || loads[i].buffer->bytes == 0) {
            loads[i].buffer = NULL;
        } else if (loads[i].buffer->bytes > largest) {
            largest = loads[i].buffer->bytes;
        }
    }
    void *scratch = NULL;
    DQN_TRY(dqn_alloc(&scratch, largest, 1, "loading of a checkpoint"));
    enum dqn_status status = q != NULL ? q->device->backend->queue->wait(q) : DQN_OK;
    for (size_t i = 0; i < n && status == DQN_OK; i++) {
        if (loads[i].buffer != NULL) {
            status = load_one(c, &loads[i], q, scratch);
        }
    }
    free(scratch);
    return status;
}

static enum dqn_status alloc_loads(struct load **out, size_t n) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, n + 1, sizeof **out, "list of buffers"));
    *out = memory;
    return DQN_OK;
}

enum dqn_status dqn_checkpoint_load(const struct dqn_checkpoint *c, const struct dqn_arena *arena,
                                    struct dqn_queue *q) {
    struct load *loads = NULL;
    size_t n = 0;
    DQN_TRY(alloc_loads(&loads, dqn_arena_count(arena)));
    for (size_t i = 0; i < dqn_arena_count(arena); i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(arena, i);
        if ((buffer->flags & DQN_BUFFER_SAVED) != 0) {
            loads[n++] = (struct load){buffer->name, buffer};
        }
    }
    const enum dqn_status status = load_list(c, q, loads, n);
    free(loads);
    return status;
}

enum dqn_status dqn_checkpoint_load_buffers(const struct dqn_checkpoint *c,
                                            const struct dqn_arena *arena, struct dqn_queue *q,
                                            const char *const *names, size_t n_names) {
    struct load *loads = NULL;
    DQN_TRY(alloc_loads(&loads, n_names));
    enum dqn_status status = DQN_OK;
    for (size_t i = 0; i < n_names; i++) {
        loads[i] = (struct load){names[i], dqn_arena_find(arena, names[i])};
        if (loads[i].buffer == NULL) {
            status = dqn_fail(DQN_ERR_STATE, "there is no buffer %s to load", names[i]);
            goto done;
        }
    }
    status = load_list(c, q, loads, n_names);
done:
    free(loads);
    return status;
}

enum dqn_status dqn_checkpoint_load_as(const struct dqn_checkpoint *c,
                                       const struct dqn_arena *arena, struct dqn_queue *q,
                                       const char *from, const char *to) {
    struct load load = {from, dqn_arena_find(arena, to)};
    if (load.buffer == NULL) {
        return dqn_fail(DQN_ERR_STATE, "there is no buffer %s to load", to);
    }
    return load_list(c, q, &load, 1);
}
