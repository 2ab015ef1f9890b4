#include "raw_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *dqn_raw_column_name(enum dqn_raw_column column) {
    static const char *const names[] = {"open",   "high",           "low",   "close",
                                        "volume", "adjusted close", "spread"};
    return names[column];
}

static enum dqn_status grow(void **array, size_t capacity, size_t size) {
    size_t bytes = 0;
    DQN_TRY(dqn_size_mul(capacity, size, &bytes));
    void *const more = realloc(*array, bytes);
    if (more == NULL) {
        return dqn_fail(DQN_ERR_MEMORY,
                        "no memory for %zu rows of market data; give fewer rows, or longer bars",
                        capacity);
    }
    *array = more;
    return DQN_OK;
}

static enum dqn_status reserve(struct dqn_raw_rows *rows, size_t capacity) {
    void *array = rows->time_ns;
    enum dqn_status status = grow(&array, capacity, sizeof(int64_t));
    rows->time_ns = array;
    for (int c = 0; status == DQN_OK && c < DQN_RAW_COLUMNS; c++) {
        if (rows->column[c] != NULL) {
            array = rows->column[c];
            status = grow(&array, capacity, sizeof(double));
            rows->column[c] = array;
        }
    }
    if (status == DQN_OK) {
        array = rows->origin;
        status = grow(&array, capacity, sizeof(uint64_t));
        rows->origin = array;
    }
    if (status == DQN_OK) {
        rows->capacity = capacity;
    }
    return status;
}

enum dqn_status dqn_raw_start(struct dqn_raw_rows *rows, const bool has[DQN_RAW_COLUMNS]) {
    enum { FIRST_CAPACITY = 4096 };
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (has[c]) {
            void *memory = NULL;
            DQN_TRY(dqn_alloc(&memory, FIRST_CAPACITY, sizeof(double), "market data"));
            rows->column[c] = memory;
        }
    }
    return reserve(rows, FIRST_CAPACITY);
}

void dqn_raw_free(struct dqn_raw_rows *rows) {
    free(rows->time_ns);
    free(rows->origin);
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        free(rows->column[c]);
    }
    memset(rows, 0, sizeof(*rows));
}

enum dqn_status dqn_raw_push(struct dqn_raw_rows *rows, const struct dqn_raw_row *row) {
    if (rows->n == rows->capacity) {
        DQN_TRY(reserve(rows, rows->capacity + rows->capacity / 2));
    }
    const size_t i = rows->n++;
    rows->time_ns[i] = row->time_ns;
    rows->origin[i] = row->origin;
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (rows->column[c] != NULL) {
            rows->column[c][i] = row->value[c];
        }
    }
    return DQN_OK;
}

void dqn_raw_drop(struct dqn_raw_rows *rows, enum dqn_raw_column column) {
    free(rows->column[column]);
    rows->column[column] = NULL;
}

static const char *path_of(const struct dqn_raw_rows *rows, size_t i) {
    const uint64_t bits = rows->origin[i] & ~(DQN_RAW_LOCAL | DQN_RAW_EITHER_ORDER);
    return rows->paths[bits >> DQN_RAW_FILE_SHIFT];
}

enum dqn_status dqn_raw_append(struct dqn_raw_rows *rows, struct dqn_raw_rows *more) {
    enum dqn_status status = DQN_OK;
    if (rows->n == 0) {
        const struct dqn_raw_rows old = *rows;
        *rows = *more;
        struct dqn_raw_rows gone = old;
        dqn_raw_free(&gone);
        memset(more, 0, sizeof(*more));
        return DQN_OK;
    }
    if (more->n == 0) {
        goto done;
    }
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if ((rows->column[c] != NULL) != (more->column[c] != NULL)) {
            const bool here = more->column[c] != NULL;
            status = dqn_fail(DQN_ERR_DATA,
                              "%s: the file has %s %s column, but %s has %s; files of one series "
                              "need the same columns",
                              path_of(more, 0), here ? "a" : "no",
                              dqn_raw_column_name((enum dqn_raw_column)c), rows->paths[0],
                              here ? "none" : "one");
            goto done;
        }
    }
    if (rows->capacity < rows->n + more->n) {
        DQN_TRY_GOTO(reserve(rows, rows->n + more->n));
    }
    memcpy(rows->time_ns + rows->n, more->time_ns, more->n * sizeof(int64_t));
    memcpy(rows->origin + rows->n, more->origin, more->n * sizeof(uint64_t));
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (rows->column[c] != NULL) {
            memcpy(rows->column[c] + rows->n, more->column[c], more->n * sizeof(double));
        }
    }
    rows->n += more->n;
done:
    dqn_raw_free(more);
    return status;
}

void dqn_raw_copy(struct dqn_raw_rows *rows, size_t to, size_t from) {
    rows->time_ns[to] = rows->time_ns[from];
    rows->origin[to] = rows->origin[from];
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (rows->column[c] != NULL) {
            rows->column[c][to] = rows->column[c][from];
        }
    }
}

uint64_t dqn_raw_line(const struct dqn_raw_rows *rows, size_t i) {
    return rows->origin[i] & (((uint64_t)1 << DQN_RAW_FILE_SHIFT) - 1);
}

const char *dqn_raw_place(const struct dqn_raw_rows *rows, size_t i, char *text, size_t size) {
    snprintf(text, size, "%s:%s%s%llu", path_of(rows, i), rows->unit[0] ? " " : "", rows->unit,
             (unsigned long long)dqn_raw_line(rows, i));
    return text;
}

const char *dqn_raw_where(const struct dqn_raw_rows *rows, size_t i, char *text, size_t size) {
    dqn_raw_place(rows, i, text, size);
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", rows->unit[0] ? ":" : ":1:");
    return text;
}

/* No market is quoted in such numbers, and products of a price and a quantity stay far from the
 * limits of a double. */
static const double least_price = 1e-30, most_value = 1e30;

/* What is wrong with a price or another value; NULL = nothing. */
static const char *judge_value(double value, bool price) {
    if (!isfinite(value)) {
        return "not finite";
    }
    if (price ? value <= 0.0 : value < 0.0) {
        return price ? "not above 0" : "not 0 or more";
    }
    if (value > most_value) {
        return "above 1e30 (another column?)";
    }
    return price && value < least_price ? "below 1e-30 (another column?)" : NULL;
}

/* High must be the highest and low the lowest of the four. */
static const char *check_extremes(double *value, bool widen, bool *widened,
                                  enum dqn_raw_column *column, char *text, size_t size) {
    const double top = fmax(value[DQN_RAW_OPEN], value[DQN_RAW_CLOSE]);
    const double bottom = fmin(value[DQN_RAW_OPEN], value[DQN_RAW_CLOSE]);
    const bool high_bad = value[DQN_RAW_HIGH]<top, low_bad = value[DQN_RAW_LOW]> bottom;
    *widened = false;
    if (!high_bad && !low_bad) {
        return NULL;
    }
    if (widen) {
        *widened = true;
        value[DQN_RAW_HIGH] = fmax(value[DQN_RAW_HIGH], top);
        value[DQN_RAW_LOW] = fmin(value[DQN_RAW_LOW], bottom);
        return NULL;
    }
    *column = high_bad ? DQN_RAW_HIGH : DQN_RAW_LOW;
    const bool against_open = high_bad ? top == value[DQN_RAW_OPEN] : bottom == value[DQN_RAW_OPEN];
    snprintf(text, size,
             "%s = %.10g is %s the %s %.10g; correct the row, or set data.ohlc_repair: widen",
             dqn_raw_column_name(*column), value[*column], high_bad ? "below" : "above",
             against_open ? "open" : "close", value[against_open ? DQN_RAW_OPEN : DQN_RAW_CLOSE]);
    return text;
}

const char *dqn_raw_check(struct dqn_raw_row *row, const bool has[DQN_RAW_COLUMNS], bool widen,
                          bool *widened, enum dqn_raw_column *column, char *text, size_t size) {
    for (int c = DQN_RAW_OPEN; c < DQN_RAW_COLUMNS; c++) {
        const bool price = c <= DQN_RAW_CLOSE || c == DQN_RAW_ADJUSTED;
        const char *const wrong = has[c] ? judge_value(row->value[c], price) : NULL;
        if (wrong == NULL) {
            continue;
        }
        *column = (enum dqn_raw_column)c;
        snprintf(text, size, "%s = %.10g is %s; correct or remove the row",
                 dqn_raw_column_name(*column), row->value[c], wrong);
        return text;
    }
    return check_extremes(row->value, widen, widened, column, text, size);
}
