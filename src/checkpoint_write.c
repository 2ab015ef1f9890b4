/* A snapshot's content, and its way into a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_parts.h"
#include "h5file.h"
#include "sealed_file.h"

/* ---- content ---- */

static enum dqn_status copy_bytes(void **out, const void *from, size_t size) {
    DQN_TRY(dqn_alloc(out, size > 0 ? size : 1, 1, "snapshot for a checkpoint"));
    if (size > 0) {
        memcpy(*out, from, size);
    }
    return DQN_OK;
}

static enum dqn_status copy_text(const char **out, const char *from) {
    void *text = NULL;
    DQN_TRY(copy_bytes(&text, from, strlen(from) + 1));
    *out = text;
    return DQN_OK;
}

static enum dqn_status copy_fields(struct dqn_checkpoint_content *to,
                                   const struct dqn_checkpoint_content *from) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, from->n_fields + 1, sizeof *from->fields, "fields of a checkpoint"));
    struct dqn_checkpoint_field *fields = memory;
    to->fields = fields;
    for (size_t i = 0; i < from->n_fields; i++) {
        const struct dqn_checkpoint_field *field = &from->fields[i];
        DQN_CHECK(field->rank >= 0 && field->rank <= DQN_MAX_RANK);
        fields[i] = *field;
        fields[i].name = NULL;
        fields[i].data = NULL;
        to->n_fields = i + 1;
        size_t size = dqn_dtype_bytes(field->dtype);
        for (int d = 0; d < field->rank; d++) {
            DQN_TRY(dqn_size_mul(size, field->shape[d], &size));
        }
        DQN_TRY(copy_text(&fields[i].name, field->name));
        void *data = NULL;
        DQN_TRY(copy_bytes(&data, field->data, size));
        fields[i].data = data;
    }
    return DQN_OK;
}

static enum dqn_status copy_texts(struct dqn_checkpoint_content *to,
                                  const struct dqn_checkpoint_content *from) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, from->n_texts + 1, sizeof *from->texts, "texts of a checkpoint"));
    struct dqn_checkpoint_text *texts = memory;
    to->texts = texts;
    for (size_t i = 0; i < from->n_texts; i++) {
        to->n_texts = i + 1;
        DQN_TRY(copy_text(&texts[i].name, from->texts[i].name));
        DQN_TRY(copy_text(&texts[i].text, from->texts[i].text));
    }
    return DQN_OK;
}

static enum dqn_status join_columns(char **out, const struct dqn_checkpoint_content *content) {
    size_t size = 1;
    for (size_t i = 0; i < content->n_columns; i++) {
        DQN_CHECK(strchr(content->columns[i], ',') == NULL);
        size += strlen(content->columns[i]) + 1;
    }
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, size, 1, "columns of a checkpoint"));
    char *end = memory;
    for (size_t i = 0; i < content->n_columns; i++) {
        end += sprintf(end, "%s%s", i > 0 ? "," : "", content->columns[i]);
    }
    *out = memory;
    return DQN_OK;
}

static enum dqn_status copy_content(struct dqn_snapshot *snapshot,
                                    const struct dqn_checkpoint_content *from) {
    struct dqn_checkpoint_content *to = &snapshot->content;
    DQN_TRY(copy_text(&to->config_text, from->config_text != NULL ? from->config_text : ""));
    DQN_TRY(copy_fields(to, from));
    DQN_TRY(copy_texts(to, from));
    DQN_TRY(join_columns(&snapshot->columns, from));
    size_t size = sizeof(double);
    DQN_TRY(dqn_size_mul(size, from->n_columns, &size));
    DQN_TRY(dqn_size_mul(size, from->n_rows, &size));
    void *rows = NULL;
    DQN_TRY(copy_bytes(&rows, from->history, size));
    to->history = rows;
    to->n_columns = from->n_columns;
    to->n_rows = from->n_rows;
    return DQN_OK;
}

void dqn_snapshot_clear(struct dqn_snapshot *snapshot) {
    struct dqn_checkpoint_content *content = &snapshot->content;
    for (size_t i = 0; i < content->n_fields; i++) {
        free((void *)content->fields[i].name);
        free((void *)content->fields[i].data);
    }
    for (size_t i = 0; i < content->n_texts; i++) {
        free((void *)content->texts[i].name);
        free((void *)content->texts[i].text);
    }
    free((void *)content->fields);
    free((void *)content->texts);
    free((void *)content->config_text);
    free((void *)content->history);
    free(snapshot->columns);
    snapshot->columns = NULL;
    *content = (struct dqn_checkpoint_content){.n_fields = 0};
}

enum dqn_status dqn_snapshot_copy(struct dqn_snapshot *snapshot,
                                  const struct dqn_checkpoint_content *content) {
    dqn_snapshot_clear(snapshot);
    const enum dqn_status status = copy_content(snapshot, content);
    if (status != DQN_OK) {
        dqn_snapshot_clear(snapshot);
    }
    return status;
}

/* ---- the file ---- */

static enum dqn_status write_attributes(hid_t file, const struct dqn_snapshot *snapshot) {
    DQN_TRY(dqn_h5_write_u64(file, "schema", DQN_CHECKPOINT_SCHEMA));
    DQN_TRY(dqn_h5_write_u64(file, "replay_saved", snapshot->with_replay ? 1 : 0));
    DQN_TRY(dqn_h5_write_u64(file, "epochs", snapshot->epochs));
    DQN_TRY(dqn_h5_write_u64(file, "partial", snapshot->partial ? 1 : 0));
    DQN_TRY(dqn_h5_write_text(file, NULL, "program", "dqn-train " DQN_VERSION));
    unsigned v[3] = {0, 0, 0};
    char hdf5[64];
    H5get_libversion(&v[0], &v[1], &v[2]);
    snprintf(hdf5, sizeof hdf5, "%u.%u.%u", v[0], v[1], v[2]);
    DQN_TRY(dqn_h5_write_text(file, NULL, "hdf5", hdf5));
    for (size_t i = 0; i < snapshot->content.n_texts; i++) {
        const struct dqn_checkpoint_text *text = &snapshot->content.texts[i];
        DQN_TRY(dqn_h5_write_text(file, NULL, text->name, text->text));
    }
    return DQN_OK;
}

static enum dqn_status write_fields(hid_t file, const struct dqn_checkpoint_content *content) {
    for (size_t i = 0; i < content->n_fields; i++) {
        const struct dqn_checkpoint_field *field = &content->fields[i];
        char name[256];
        const int n = snprintf(name, sizeof name, DQN_CHECKPOINT_HOST "%s", field->name);
        DQN_CHECK(n > 0 && (size_t)n < sizeof name);
        DQN_TRY(dqn_h5_write(file, name, field->dtype, field->rank, field->shape, field->data));
    }
    return DQN_OK;
}

static enum dqn_status write_contents(hid_t file, const struct dqn_snapshot *snapshot) {
    const struct dqn_checkpoint_content *content = &snapshot->content;
    DQN_TRY(write_attributes(file, snapshot));
    DQN_TRY(dqn_h5_write_string(file, DQN_CHECKPOINT_CONFIG, content->config_text));
    DQN_TRY(write_fields(file, content));
    const size_t shape[2] = {content->n_rows, content->n_columns};
    DQN_TRY(dqn_h5_write(file, DQN_CHECKPOINT_HISTORY, DQN_F64, 2, shape, content->history));
    DQN_TRY(dqn_h5_write_text(file, DQN_CHECKPOINT_HISTORY, "columns", snapshot->columns));
    for (size_t i = 0; i < snapshot->n_buffers; i++) {
        const struct dqn_buffer *buffer = snapshot->buffers[i].buffer;
        DQN_TRY(dqn_h5_write(file, buffer->name, buffer->dtype, buffer->rank, buffer->shape,
                             snapshot->buffers[i].copy));
    }
    return DQN_OK;
}

/* Fills the empty open file with HDF5 and seals it. */
static enum dqn_status fill_file(const struct dqn_snapshot *snapshot, int fd, const char *path,
                                 const struct dqn_file_ops *ops) {
    struct dqn_h5_sink sink = {.ops = ops, .fd = fd};
    hid_t file = -1;
    dqn_h5_lock();
    enum dqn_status status = dqn_h5_create(&file, &sink, DQN_SEAL_BYTES);
    if (status == DQN_OK) {
        status = write_contents(file, snapshot);
    }
    if (status != DQN_OK) {
        dqn_fail_prefix(status, "%s", path);
    }
    /* Where both failed, the file system's reason is the better one. */
    const enum dqn_status closed = dqn_h5_create_close(file, &sink, path);
    dqn_h5_unlock();
    DQN_TRY(closed);
    DQN_TRY(status);
    return dqn_seal_write(ops, fd, path);
}

enum dqn_status dqn_snapshot_write(const struct dqn_snapshot *snapshot, const char *path,
                                   const struct dqn_file_ops *ops) {
    ops = ops != NULL ? ops : &dqn_file_ops_system;
    char temporary[4096];
    DQN_TRY(dqn_file_temporary(temporary, sizeof temporary, path));
    const int fd = dqn_file_create_temporary(ops, temporary, path, O_RDWR);
    if (fd < 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be created: %s", temporary, strerror(errno));
    }
    enum dqn_status status = fill_file(snapshot, fd, path, ops);
    if (status == DQN_OK && ops->fsync(ops->context, fd) != 0) {
        status = dqn_fail(DQN_ERR_DISK, "%s: syncing failed: %s", path, strerror(errno));
    }
    if (ops->close(ops->context, fd) != 0 && status == DQN_OK) {
        status = dqn_fail(DQN_ERR_DISK, "%s: closing failed: %s", path, strerror(errno));
    }
    if (status != DQN_OK) {
        ops->unlink(ops->context, temporary);
        return status;
    }
    return dqn_file_commit(ops, temporary, path);
}
