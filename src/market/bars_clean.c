#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bars_read.h"

static const double day_ns = 86400e9;

/* Two rows at least, after the unfinished one is gone. */
static enum dqn_status check_count(struct dqn_raw_rows *rows,
                                   const struct dqn_config_data *config) {
    if (config->open_ended && rows->n > 0) {
        rows->n--;
        rows->info.last_left_out = true;
    }
    if (rows->n < 2) {
        return dqn_fail(DQN_ERR_DATA, "%s: %zu row%s of data; at least 2 are needed",
                        rows->paths[0], rows->n, dqn_plural(rows->n));
    }
    return DQN_OK;
}

/* Scales prices by adjusted close / close. A change of the factor below 5e-4 is the rounding of
 * printed prices, not an event. */
static void adjust(struct dqn_raw_rows *rows) {
    const double event = 5e-4;
    const double *const adjusted = rows->column[DQN_RAW_ADJUSTED];
    double before = 0.0;
    for (size_t i = 0; i < rows->n; i++) {
        const double factor = adjusted[i] / rows->column[DQN_RAW_CLOSE][i];
        for (int c = DQN_RAW_OPEN; c <= DQN_RAW_CLOSE; c++) {
            rows->column[c][i] *= factor;
        }
        rows->info.n_adjustments += i > 0 && fabs(factor / before - 1.0) > event;
        before = factor;
    }
    dqn_raw_drop(rows, DQN_RAW_ADJUSTED);
}

/* Some sources write 0 where they do not know the volume. With it no order could ever be filled. */
static void drop_empty_volume(struct dqn_raw_rows *rows) {
    const double *const volume = rows->column[DQN_RAW_VOLUME];
    for (size_t i = 0; i < rows->n; i++) {
        if (volume[i] != 0.0) {
            return;
        }
    }
    dqn_raw_drop(rows, DQN_RAW_VOLUME);
    rows->info.volume_unused = true;
}

static int compare_times(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : (x > y ? 1 : 0);
}

/* The median distance of stamps (the lower one of an even number). */
static enum dqn_status median_step(const struct dqn_raw_rows *rows, int64_t *step_ns) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, rows->n - 1, sizeof(int64_t), "distances of stamps"));
    int64_t *const steps = memory;
    for (size_t i = 1; i < rows->n; i++) {
        steps[i - 1] = rows->time_ns[i] - rows->time_ns[i - 1];
    }
    qsort(steps, rows->n - 1, sizeof(int64_t), compare_times);
    *step_ns = steps[(rows->n - 2) / 2];
    free(memory);
    return DQN_OK;
}

struct gaps {
    int64_t bar_ns;
    double gap_ns;     /* longer distances are gaps */
    double segment_ns; /* longer distances start a segment */
};

static struct gaps gap_limits(int64_t bar_ns, const struct dqn_config_data *config) {
    const double days = config->max_gap_days * day_ns;
    const double bars = (double)config->max_gap_bars * (double)bar_ns;
    struct gaps gaps = {bar_ns, 1.5 * (double)bar_ns, days > bars ? days : bars};
    if (config->gaps == DQN_GAPS_KEEP) {
        gaps.segment_ns = INFINITY;
    }
    return gaps;
}

static enum dqn_status refuse_gap(const struct dqn_raw_rows *rows, size_t i, int64_t bar_ns) {
    char where[DQN_TEXT_MAX + 64], from[40], to[40];
    return dqn_fail(DQN_ERR_DATA,
                    "%s a gap of %.6g bars from %s to %s UTC; give the bars in between, or set "
                    "data.gaps to segment, keep or ffill",
                    dqn_raw_where(rows, i, where, sizeof(where)),
                    (double)(rows->time_ns[i] - rows->time_ns[i - 1]) / (double)bar_ns,
                    dqn_stamp_text(from, sizeof(from), rows->time_ns[i - 1]),
                    dqn_stamp_text(to, sizeof(to), rows->time_ns[i]));
}

/* Bars that ffill puts between row i - 1 and row i. */
static size_t n_filled(const struct dqn_raw_rows *rows, size_t i, const struct gaps *gaps) {
    const int64_t step = rows->time_ns[i] - rows->time_ns[i - 1];
    if ((double)step <= gaps->gap_ns || (double)step > gaps->segment_ns) {
        return 0;
    }
    return (size_t)((step - 1) / gaps->bar_ns);
}

/* Many more bars than rows mean that the median distance is not the bars' length. */
static enum dqn_status check_filled(const struct dqn_raw_rows *rows, size_t filled,
                                    int64_t bar_ns) {
    if (filled <= 100000 + 10 * rows->n) {
        return DQN_OK;
    }
    char length[32];
    return dqn_fail(DQN_ERR_DATA,
                    "%s: data.gaps: ffill would add %zu bars of %s to %zu rows, more than ten "
                    "times as many; set data.gaps to segment or keep",
                    rows->paths[0], filled,
                    dqn_format_length(length, sizeof(length), (double)bar_ns / 1e9), rows->n);
}

/* Counts gaps and segments; *filled is the number of bars that ffill adds. */
static enum dqn_status count_gaps(struct dqn_raw_rows *rows, const struct gaps *gaps,
                                  const struct dqn_config_data *config, size_t *n_segments,
                                  size_t *filled) {
    *n_segments = 1;
    *filled = 0;
    for (size_t i = 1; i < rows->n; i++) {
        const double step = (double)(rows->time_ns[i] - rows->time_ns[i - 1]);
        if (step <= gaps->gap_ns) {
            continue;
        }
        if (config->gaps == DQN_GAPS_ERROR) {
            return refuse_gap(rows, i, gaps->bar_ns);
        }
        rows->info.n_gaps++;
        rows->info.n_regular += dqn_gap_is_regular(rows->time_ns, rows->n, i);
        *n_segments += step > gaps->segment_ns;
        *filled += config->gaps == DQN_GAPS_FFILL ? n_filled(rows, i, gaps) : 0;
    }
    return check_filled(rows, *filled, gaps->bar_ns);
}

/* The rows' arrays become the bars'. */
static void move_columns(struct dqn_bars *out, struct dqn_raw_rows *rows) {
    out->n = rows->n;
    out->time_ns = rows->time_ns;
    out->open = rows->column[DQN_RAW_OPEN];
    out->high = rows->column[DQN_RAW_HIGH];
    out->low = rows->column[DQN_RAW_LOW];
    out->close = rows->column[DQN_RAW_CLOSE];
    out->volume = rows->column[DQN_RAW_VOLUME];
    out->half_spread = rows->column[DQN_RAW_HALF_SPREAD];
    rows->time_ns = NULL;
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        if (c != DQN_RAW_ADJUSTED) {
            rows->column[c] = NULL;
        }
    }
}

static void put_row(struct dqn_bars *out, size_t i, const struct dqn_raw_rows *rows, size_t row) {
    out->time_ns[i] = rows->time_ns[row];
    out->open[i] = rows->column[DQN_RAW_OPEN][row];
    out->high[i] = rows->column[DQN_RAW_HIGH][row];
    out->low[i] = rows->column[DQN_RAW_LOW][row];
    out->close[i] = rows->column[DQN_RAW_CLOSE][row];
    if (out->volume != NULL) {
        out->volume[i] = rows->column[DQN_RAW_VOLUME][row];
    }
    if (out->half_spread != NULL) {
        out->half_spread[i] = rows->column[DQN_RAW_HALF_SPREAD][row];
    }
}

/* A bar that never traded, at the close before it. */
static void put_flat(struct dqn_bars *out, size_t i, int64_t time_ns) {
    const double close = out->close[i - 1];
    out->time_ns[i] = time_ns;
    out->open[i] = close;
    out->high[i] = close;
    out->low[i] = close;
    out->close[i] = close;
    if (out->volume != NULL) {
        out->volume[i] = 0.0;
    }
    if (out->half_spread != NULL) {
        out->half_spread[i] = out->half_spread[i - 1];
    }
    out->untradable[i] = 1;
}

static enum dqn_status fill_gaps(struct dqn_bars *out, const struct dqn_raw_rows *rows,
                                 const struct gaps *gaps, size_t filled) {
    DQN_TRY(dqn_bars_alloc(out, rows->n + filled, rows->column[DQN_RAW_VOLUME] != NULL,
                           rows->column[DQN_RAW_HALF_SPREAD] != NULL, true, false));
    size_t at = 0;
    for (size_t row = 0; row < rows->n; row++) {
        const size_t more = row > 0 ? n_filled(rows, row, gaps) : 0;
        for (size_t k = 1; k <= more; k++) {
            put_flat(out, at, rows->time_ns[row - 1] + (int64_t)k * gaps->bar_ns);
            at++;
        }
        put_row(out, at, rows, row);
        at++;
    }
    DQN_CHECK(at == out->n);
    free(out->segment);
    out->segment = NULL;
    return DQN_OK;
}

static enum dqn_status mark_segments(struct dqn_bars *out, const struct gaps *gaps,
                                     size_t n_segments) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, n_segments + 1, sizeof(size_t), "segments"));
    out->segment = memory;
    out->n_segments = n_segments;
    size_t at = 1;
    for (size_t i = 1; i < out->n; i++) {
        if ((double)(out->time_ns[i] - out->time_ns[i - 1]) > gaps->segment_ns) {
            out->segment[at++] = i;
        }
    }
    DQN_CHECK(at == n_segments);
    out->segment[at] = out->n;
    return DQN_OK;
}

static void finish_info(struct dqn_bars *out, int64_t bar_ns) {
    struct dqn_bars_info *const info = &out->info;
    info->bar_seconds = (double)bar_ns / 1e9;
    for (size_t i = 0; out->volume != NULL && i < out->n; i++) {
        const bool filled = out->untradable != NULL && out->untradable[i] != 0;
        info->n_zero_volume += !filled && out->volume[i] == 0.0;
    }
    if (out->time_ns[out->n - 1] / 1000000000 > (int64_t)time(NULL)) {
        dqn_warn("data: the last bar lies in the future; check the stamps and data.timezone");
    }
}

enum dqn_status dqn_bars_from_rows(struct dqn_bars *out, struct dqn_raw_rows *rows,
                                   const struct dqn_config_data *config) {
    int64_t bar_ns = 0;
    size_t n_segments = 1, filled = 0;
    memset(out, 0, sizeof(*out));
    DQN_TRY(check_count(rows, config));
    if (rows->column[DQN_RAW_ADJUSTED] != NULL) {
        adjust(rows);
    }
    if (rows->column[DQN_RAW_VOLUME] != NULL) {
        drop_empty_volume(rows);
    }
    DQN_TRY(median_step(rows, &bar_ns));
    const struct gaps gaps = gap_limits(bar_ns, config);
    enum dqn_status status = count_gaps(rows, &gaps, config, &n_segments, &filled);
    if (status == DQN_OK && filled > 0) {
        status = fill_gaps(out, rows, &gaps, filled);
    } else if (status == DQN_OK) {
        move_columns(out, rows);
    }
    if (status == DQN_OK) {
        status = mark_segments(out, &gaps, n_segments);
    }
    if (status == DQN_OK) {
        out->info = rows->info;
        finish_info(out, bar_ns);
    } else {
        dqn_bars_free(out);
    }
    dqn_raw_free(rows);
    return status;
}
