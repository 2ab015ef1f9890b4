#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bars_read.h"

enum { WHERE_MAX = DQN_TEXT_MAX + 64 };

static void reverse_array(void *array, size_t n) {
    uint64_t *const v = array;
    for (size_t i = 0; v != NULL && i < n / 2; i++) {
        const uint64_t t = v[i];
        v[i] = v[n - 1 - i];
        v[n - 1 - i] = t;
    }
}

static void reverse(struct dqn_raw_rows *rows) {
    _Static_assert(sizeof(double) == sizeof(uint64_t) && sizeof(int64_t) == sizeof(uint64_t),
                   "columns have 8 bytes a row");
    reverse_array(rows->time_ns, rows->n);
    reverse_array(rows->origin, rows->n);
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        reverse_array(rows->column[c], rows->n);
    }
    rows->info.reversed = true;
}

/* Whether no row is later than the one before it, and one is earlier. */
static bool is_descending(const struct dqn_raw_rows *rows) {
    for (size_t i = 1; i < rows->n; i++) {
        if (rows->time_ns[i] > rows->time_ns[i - 1]) {
            return false;
        }
    }
    return rows->n > 1 && rows->time_ns[rows->n - 1] < rows->time_ns[0];
}

static bool equal_values(const struct dqn_raw_rows *rows, size_t a, size_t b) {
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (rows->column[c] != NULL && rows->column[c][a] != rows->column[c][b]) {
            return false;
        }
    }
    return true;
}

static enum dqn_status refuse_conflict(const struct dqn_raw_rows *rows, size_t kept, size_t i) {
    char where[WHERE_MAX], other[WHERE_MAX], text[40];
    dqn_raw_place(rows, kept, other, sizeof(other));
    return dqn_fail(DQN_ERR_DATA,
                    "%s the time %s UTC occurs again with other values than at %s; remove one, "
                    "or set data.duplicates: keep_last",
                    dqn_raw_where(rows, i, where, sizeof(where)),
                    dqn_stamp_text(text, sizeof(text), rows->time_ns[i]), other);
}

/* Rows in non-descending order: of each time one stays. */
static enum dqn_status drop_duplicates(struct dqn_raw_rows *rows,
                                       const struct dqn_config_data *config) {
    size_t kept = 0;
    for (size_t i = 1; i < rows->n; i++) {
        if (rows->time_ns[i] != rows->time_ns[kept]) {
            kept++;
            if (kept != i) {
                dqn_raw_copy(rows, kept, i);
            }
            continue;
        }
        if (!equal_values(rows, kept, i)) {
            if (config->duplicates != DQN_DUPLICATES_KEEP_LAST) {
                return refuse_conflict(rows, kept, i);
            }
            /* of a file read in reverse the earlier row is the file's last */
            if (!rows->info.reversed) {
                dqn_raw_copy(rows, kept, i);
            }
        }
        rows->info.n_duplicates++;
    }
    rows->n = rows->n > 0 ? kept + 1 : 0;
    return DQN_OK;
}

static enum dqn_status refuse_disorder(const struct dqn_raw_rows *rows, size_t i) {
    char where[WHERE_MAX], text[40], before[40];
    return dqn_fail(DQN_ERR_DATA,
                    "%s the time %s UTC comes after %s in line %llu; rows must be in order of "
                    "time (all newest first is read too)",
                    dqn_raw_where(rows, i, where, sizeof(where)),
                    dqn_stamp_text(text, sizeof(text), rows->time_ns[i]),
                    dqn_stamp_text(before, sizeof(before), rows->time_ns[i - 1]),
                    (unsigned long long)dqn_raw_line(rows, i - 1));
}

enum dqn_status dqn_raw_settle_order(struct dqn_raw_rows *rows,
                                     const struct dqn_config_data *config) {
    if (is_descending(rows)) {
        reverse(rows);
    }
    for (size_t i = 1; i < rows->n; i++) {
        if (rows->time_ns[i] < rows->time_ns[i - 1]) {
            return refuse_disorder(rows, i);
        }
    }
    return drop_duplicates(rows, config);
}

/* A row's time and place, for sorting whole rows. */
struct key {
    int64_t time_ns;
    size_t at;
};

static int compare_keys(const void *a, const void *b) {
    const struct key *const x = a, *const y = b;
    if (x->time_ns != y->time_ns) {
        return x->time_ns < y->time_ns ? -1 : 1;
    }
    return x->at < y->at ? -1 : (x->at > y->at ? 1 : 0);
}

static void gather(void *array, const struct key *keys, size_t n, uint64_t *scratch) {
    uint64_t *const v = array;
    if (v == NULL) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        scratch[i] = v[keys[i].at];
    }
    memcpy(v, scratch, n * sizeof(uint64_t));
}

static enum dqn_status sort_rows(struct dqn_raw_rows *rows) {
    void *keys_memory = NULL, *scratch = NULL;
    enum dqn_status status = DQN_OK;
    DQN_TRY_GOTO(dqn_alloc(&keys_memory, rows->n, sizeof(struct key), "order of rows"));
    DQN_TRY_GOTO(dqn_alloc(&scratch, rows->n, sizeof(uint64_t), "order of rows"));
    struct key *const keys = keys_memory;
    for (size_t i = 0; i < rows->n; i++) {
        keys[i].time_ns = rows->time_ns[i];
        keys[i].at = i;
    }
    qsort(keys, rows->n, sizeof(struct key), compare_keys);
    gather(rows->time_ns, keys, rows->n, scratch);
    gather(rows->origin, keys, rows->n, scratch);
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        gather(rows->column[c], keys, rows->n, scratch);
    }
done:
    free(keys_memory);
    free(scratch);
    return status;
}

enum dqn_status dqn_raw_merge_files(struct dqn_raw_rows *rows,
                                    const struct dqn_config_data *config) {
    bool ordered = true;
    for (size_t i = 1; i < rows->n; i++) {
        ordered = ordered && rows->time_ns[i] >= rows->time_ns[i - 1];
    }
    if (!ordered) {
        DQN_TRY(sort_rows(rows));
    }
    const bool reversed = rows->info.reversed;
    rows->info.reversed = false; /* the later file wins, however it was ordered */
    const enum dqn_status status = drop_duplicates(rows, config);
    rows->info.reversed = reversed;
    return status;
}
