/* Checkpoints: one self-describing HDF5 file holds everything that a run needs to go on, the
 * arena's saved buffers (dataset path = buffer name) and what the caller adds. The format is
 * described in docs/checkpoint-format.md.
 *
 * Saving has two halves. dqn_checkpoint_save copies everything into the writer's own memory, and
 * when it returns, training may go on; the writer's thread then writes a temporary file, seals it
 * (sealed_file.h), syncs it, renames it and removes what the retention rule gives up. */
#ifndef DQN_CHECKPOINT_H
#define DQN_CHECKPOINT_H

#include "arena.h"
#include "base.h"
#include "file_ops.h"

struct dqn_device; /* backend.h */
struct dqn_queue;

enum { DQN_CHECKPOINT_SCHEMA = 1 };

/* A host value under the name "host/<name>". */
struct dqn_checkpoint_field {
    const char *name; /* "progress/epochs" */
    enum dqn_dtype dtype;
    int rank; /* 0 = scalar */
    size_t shape[DQN_MAX_RANK];
    const void *data;
};

/* A text attribute of the file. */
struct dqn_checkpoint_text {
    const char *name; /* "device" */
    const char *text; /* UTF-8 */
};

/* What is saved beside the arena. Copied by dqn_checkpoint_save. */
struct dqn_checkpoint_content {
    const char *config_text; /* the resolved configuration, YAML */
    const struct dqn_checkpoint_field *fields;
    size_t n_fields;
    const struct dqn_checkpoint_text *texts;
    size_t n_texts;
    const char *const *columns; /* [n_columns] names of the history's columns */
    size_t n_columns;
    const double *history; /* [n_rows, n_columns] */
    size_t n_rows;
};

/* Where it goes, and what happens once it is there. */
struct dqn_checkpoint_request {
    const char *folder; /* the run's */
    uint64_t epochs;    /* finished: the file is epoch-<epochs>.h5 */
    bool partial;       /* inside the epoch after these: epoch-<epochs>-partial.h5 */
    bool best;          /* also becomes best.h5 */
    int64_t keep_last;  /* files kept besides the best; 0 = all */
};

/* ---- writing --------------------------------------------------------------------------------- */

struct dqn_checkpoint_writer;

/* Staging memory for the saved buffers of a committed arena (without replay buffers when
 * `with_replay` is false), and the thread. `ops` NULL = the system's. */
enum dqn_status dqn_checkpoint_writer_create(struct dqn_checkpoint_writer **out,
                                             const struct dqn_arena *arena, bool with_replay,
                                             const struct dqn_file_ops *ops);
/* From here on dqn_checkpoint_save does not wait for the device: the buffers are copied there, and
 * training goes on while the copy is read. Takes as much device memory again; without it, or when a
 * saved buffer lives elsewhere, everything stays as it is. */
void dqn_checkpoint_writer_overlap(struct dqn_checkpoint_writer *writer,
                                   const struct dqn_device *device);
bool dqn_checkpoint_writer_overlaps(const struct dqn_checkpoint_writer *writer);
/* Device memory that this takes: 0 without it. */
uint64_t dqn_checkpoint_writer_device_bytes(const struct dqn_checkpoint_writer *writer);
/* Waits for a write under way. The devices must still be open. */
void dqn_checkpoint_writer_destroy(struct dqn_checkpoint_writer *writer);

/* Bytes of host memory that the staging takes, and about the bytes of a file without its text. */
uint64_t dqn_checkpoint_bytes(const struct dqn_arena *arena, bool with_replay);
/* Bytes of the device that dqn_checkpoint_writer_overlap takes where there is room: as many, or 0
 * when a saved buffer lives elsewhere. */
uint64_t dqn_checkpoint_device_bytes(const struct dqn_arena *arena, bool with_replay,
                                     const struct dqn_device *device);

/* Waits for the write before, copies everything on and behind the work of `q` (waiting for it, but
 * with dqn_checkpoint_writer_overlap), and hands it to the thread. `q` may be NULL when no saved
 * buffer lives on a device. Returns the error of the write before, if it had one (DQN_ERR_DISK with
 * path and reason); nothing is saved then. */
enum dqn_status dqn_checkpoint_save(struct dqn_checkpoint_writer *writer, struct dqn_queue *q,
                                    const struct dqn_checkpoint_content *content,
                                    const struct dqn_checkpoint_request *request);
/* Waits for the write under way and returns its error. */
enum dqn_status dqn_checkpoint_wait(struct dqn_checkpoint_writer *writer);

/* ---- reading --------------------------------------------------------------------------------- */

struct dqn_checkpoint; /* an open file */

/* Verifies the seal, then opens. DQN_ERR_CHECKPOINT when the file is damaged, no checkpoint, or of
 * a newer schema; DQN_ERR_DISK when it cannot be read. */
enum dqn_status dqn_checkpoint_open(struct dqn_checkpoint **out, const char *path);
void dqn_checkpoint_close(struct dqn_checkpoint *checkpoint);

const char *dqn_checkpoint_path(const struct dqn_checkpoint *checkpoint);
/* The configuration's YAML text. */
const char *dqn_checkpoint_config(const struct dqn_checkpoint *checkpoint);
/* Whether it holds the replay. */
bool dqn_checkpoint_has_replay(const struct dqn_checkpoint *checkpoint);
/* How far the run had come: epochs finished, and whether it was inside the next one. */
uint64_t dqn_checkpoint_epochs(const struct dqn_checkpoint *checkpoint);
bool dqn_checkpoint_is_partial(const struct dqn_checkpoint *checkpoint);
/* A text attribute, malloc'ed; NULL when there is none. */
enum dqn_status dqn_checkpoint_text(const struct dqn_checkpoint *checkpoint, const char *name,
                                    char **out);
/* Elements of a field; 0 when there is none. */
enum dqn_status dqn_checkpoint_field_count(const struct dqn_checkpoint *checkpoint,
                                           const char *name, size_t *count);
/* Reads a field that must have this type and this many elements, else DQN_ERR_CHECKPOINT. */
enum dqn_status dqn_checkpoint_field_read(const struct dqn_checkpoint *checkpoint, const char *name,
                                          enum dqn_dtype dtype, size_t count, void *data);
/* The history with the columns asked for, in that order: *rows [*n_rows, n_columns], malloc'ed
 * (NULL when empty). A column that the file lacks is NaN; columns not asked for are left out. */
enum dqn_status dqn_checkpoint_history(const struct dqn_checkpoint *checkpoint,
                                       const char *const *columns, size_t n_columns, double **rows,
                                       size_t *n_rows);

/* DQN_ERR_CHECKPOINT when the file has no buffer of this name with this type and shape. */
enum dqn_status dqn_checkpoint_check_buffer(const struct dqn_checkpoint *checkpoint,
                                            const struct dqn_buffer *like);
/* Loads all saved buffers of a committed arena; waits for `q` before and after (NULL as in save).
 * Each must be in the file with the same type and shape, else DQN_ERR_CHECKPOINT names the buffer
 * and both shapes and nothing at all was copied. Replay buffers may be missing where the file says
 * that it was saved without: they keep their contents. */
enum dqn_status dqn_checkpoint_load(const struct dqn_checkpoint *checkpoint,
                                    const struct dqn_arena *arena, struct dqn_queue *q);
/* The same for the named buffers alone, saved or not (--init-from, evaluation). */
enum dqn_status dqn_checkpoint_load_buffers(const struct dqn_checkpoint *checkpoint,
                                            const struct dqn_arena *arena, struct dqn_queue *q,
                                            const char *const *names, size_t n_names);
/* Reads the dataset `from` of the file into the arena's buffer `to`: another name, same shape. */
enum dqn_status dqn_checkpoint_load_as(const struct dqn_checkpoint *checkpoint,
                                       const struct dqn_arena *arena, struct dqn_queue *q,
                                       const char *from, const char *to);

/* Seal, schema and presence of everything that each file must have. */
enum dqn_status dqn_checkpoint_verify(const char *path);

#endif
