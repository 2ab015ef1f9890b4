#include "metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_ops.h"

#define METRIC_NAME(name) #name,
const char *const dqn_metric_names[] = {DQN_METRIC_LIST(METRIC_NAME)
                                            DQN_CLOCK_METRIC_LIST(METRIC_NAME)};

enum { N_CLOCK = DQN_METRIC_ALL - DQN_METRIC_COUNT, LINE_MAX_BYTES = 4096 };

struct dqn_metrics {
    double *rows; /* [n_rows, DQN_METRIC_COUNT] */
    size_t n_rows, capacity;
    FILE *file;
    char path[1200];
};

enum dqn_status dqn_metrics_create(struct dqn_metrics **out) {
    return dqn_alloc((void **)out, 1, sizeof **out, "the metrics");
}

void dqn_metrics_destroy(struct dqn_metrics *m) {
    if (m != NULL) {
        if (m->file != NULL) {
            fclose(m->file);
        }
        free(m->rows);
        free(m);
    }
}

const double *dqn_metrics_history(const struct dqn_metrics *m, size_t *n_rows) {
    *n_rows = m->n_rows;
    return m->rows;
}

static enum dqn_status append(struct dqn_metrics *m, const double *row) {
    if (m->n_rows == m->capacity) {
        const size_t capacity = m->capacity > 0 ? 2 * m->capacity : 64;
        double *rows = realloc(m->rows, capacity * DQN_METRIC_COUNT * sizeof *rows);
        if (rows == NULL) {
            return dqn_fail(DQN_ERR_MEMORY, "no memory for %zu rows of metrics", capacity);
        }
        m->rows = rows;
        m->capacity = capacity;
    }
    memcpy(m->rows + m->n_rows * DQN_METRIC_COUNT, row, DQN_METRIC_COUNT * sizeof *row);
    m->n_rows++;
    return DQN_OK;
}

enum dqn_status dqn_metrics_restore(struct dqn_metrics *m, const double *rows, size_t n_rows) {
    m->n_rows = 0;
    for (size_t i = 0; i < n_rows; i++) {
        DQN_TRY(append(m, rows + i * DQN_METRIC_COUNT));
    }
    return DQN_OK;
}

static void write_row(FILE *file, const double *row, const double *clock) {
    for (int i = 0; i < DQN_METRIC_ALL; i++) {
        const double value = i < DQN_METRIC_COUNT ? row[i] : clock[i - DQN_METRIC_COUNT];
        const char *separator = i == 0 ? "" : ",";
        if (isnan(value)) {
            fprintf(file, "%snan", separator);
        } else {
            fprintf(file, "%s%.10g", separator, value);
        }
    }
    fputc('\n', file);
}

static enum dqn_status flush(struct dqn_metrics *m) {
    if (fflush(m->file) != 0 || ferror(m->file)) {
        return dqn_fail(DQN_ERR_DISK, "cannot write %s: %s", m->path, strerror(errno));
    }
    return DQN_OK;
}

/* The clock columns of the line that holds the given epoch and agent, NaN where it has none. */
static void old_clock(const char *path, const double *row, double *clock) {
    for (int i = 0; i < N_CLOCK; i++) {
        clock[i] = NAN;
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return;
    }
    char line[LINE_MAX_BYTES];
    while (fgets(line, sizeof line, file) != NULL) {
        double value[DQN_METRIC_ALL];
        int n = 0;
        char *end = line;
        for (char *at = line; n < DQN_METRIC_ALL; at = end + 1) {
            value[n] = strtod(at, &end);
            if (end == at) {
                break;
            }
            n++;
            if (*end != ',') {
                break;
            }
        }
        if (n == DQN_METRIC_ALL && value[DQN_METRIC_epoch] == row[DQN_METRIC_epoch] &&
            value[DQN_METRIC_agent] == row[DQN_METRIC_agent]) {
            memcpy(clock, value + DQN_METRIC_COUNT, N_CLOCK * sizeof *clock);
        }
    }
    fclose(file);
}

static void write_all(struct dqn_metrics *m, FILE *file, const char *old_path) {
    for (int i = 0; i < DQN_METRIC_ALL; i++) {
        fprintf(file, "%s%s", i == 0 ? "" : ",", dqn_metric_names[i]);
    }
    fputc('\n', file);
    for (size_t r = 0; r < m->n_rows; r++) {
        const double *row = m->rows + r * DQN_METRIC_COUNT;
        double clock[N_CLOCK];
        old_clock(old_path, row, clock);
        write_row(file, row, clock);
    }
}

enum dqn_status dqn_metrics_open(struct dqn_metrics *m, const char *folder) {
    char fresh[1300];
    snprintf(m->path, sizeof m->path, "%s/metrics.csv", folder);
    snprintf(fresh, sizeof fresh, "%s.new", m->path);
    m->file = dqn_file_open_temporary(fresh, m->path);
    if (m->file == NULL) {
        return dqn_fail(DQN_ERR_DISK, "cannot create %s: %s", fresh, strerror(errno));
    }
    write_all(m, m->file, m->path);
    DQN_TRY(flush(m));
    if (rename(fresh, m->path) != 0) {
        return dqn_fail(DQN_ERR_DISK, "cannot rename %s to %s: %s", fresh, m->path,
                        strerror(errno));
    }
    return DQN_OK;
}

enum dqn_status dqn_metrics_add(struct dqn_metrics *m, const double *row) {
    DQN_TRY(append(m, row));
    if (m->file == NULL) {
        return DQN_OK;
    }
    write_row(m->file, row, row + DQN_METRIC_COUNT);
    return flush(m);
}
