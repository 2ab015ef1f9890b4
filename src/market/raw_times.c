#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bars_read.h"
#include "timezone.h"

static const int64_t second_ns = 1000000000;

enum { WHERE_MAX = DQN_TEXT_MAX + 64 };

/* Day and month of dates such as 04.03.2024. */
static enum dqn_status settle_date_order(struct dqn_raw_rows *rows,
                                         const struct dqn_stamp_style *style) {
    char where[WHERE_MAX], a[40], b[40];
    for (size_t i = 0; i < rows->n; i++) {
        if ((rows->origin[i] & DQN_RAW_EITHER_ORDER) == 0) {
            continue;
        }
        if (style->order == DQN_DATE_AUTO) {
            return dqn_fail(DQN_ERR_DATA,
                            "%s the dates read day first and month first alike (%.10s or %.10s); "
                            "set data.date_order: dmy or mdy",
                            dqn_raw_where(rows, i, where, sizeof(where)),
                            dqn_stamp_text(a, sizeof(a), rows->time_ns[i]),
                            dqn_stamp_text(b, sizeof(b), dqn_stamp_swap(rows->time_ns[i])));
        }
        if (style->order == DQN_DATE_MDY) {
            rows->time_ns[i] = dqn_stamp_swap(rows->time_ns[i]);
        }
    }
    return DQN_OK;
}

/* Another row before row i whose local reading was the same, and was set back like this one. */
static bool find_twin(const struct dqn_raw_rows *rows, const int64_t *local, size_t i,
                      size_t *twin) {
    const int64_t reach_ns = 3 * 3600 * second_ns; /* clocks are set back by less */
    for (size_t k = i; k-- > 0;) {
        const int64_t apart = local[k] > local[i] ? local[k] - local[i] : local[i] - local[k];
        if (apart > reach_ns || (rows->origin[k] & DQN_RAW_LOCAL) == 0) {
            return false;
        }
        if (apart == 0) {
            *twin = k;
            return true;
        }
    }
    return false;
}

static enum dqn_status refuse_skipped(const struct dqn_raw_rows *rows, size_t i, int64_t local,
                                      const char *timezone) {
    char where[WHERE_MAX], text[40];
    return dqn_fail(DQN_ERR_DATA,
                    "%s the local time %s does not exist in %s, where clocks were set forward; "
                    "set data.timezone to the zone of the stamps",
                    dqn_raw_where(rows, i, where, sizeof(where)),
                    dqn_stamp_text(text, sizeof(text), local), timezone);
}

static enum dqn_status refuse_twice(const struct dqn_raw_rows *rows, size_t i, size_t twin,
                                    int64_t local, const char *timezone) {
    char where[WHERE_MAX], text[40];
    return dqn_fail(DQN_ERR_DATA,
                    "%s the local time %s stands for two moments in %s, where clocks were set "
                    "back, and line %llu has it too; give stamps in UTC or with an offset",
                    dqn_raw_where(rows, i, where, sizeof(where)),
                    dqn_stamp_text(text, sizeof(text), local), timezone,
                    (unsigned long long)dqn_raw_line(rows, twin));
}

/* A lone reading in the hour that clocks repeat is taken for the earlier moment. */
static enum dqn_status settle_zone(struct dqn_raw_rows *rows, const struct dqn_zone *zone,
                                   const char *timezone, const int64_t *local) {
    for (size_t i = 0; i < rows->n; i++) {
        if ((rows->origin[i] & DQN_RAW_LOCAL) == 0) {
            continue;
        }
        const int64_t fraction = ((local[i] % second_ns) + second_ns) % second_ns;
        int64_t utc_s[2] = {0, 0};
        const int moments = dqn_zone_to_utc(zone, (local[i] - fraction) / second_ns, utc_s);
        size_t twin = 0;
        if (moments == 0) {
            return refuse_skipped(rows, i, local[i], timezone);
        }
        if (moments == 2 && find_twin(rows, local, i, &twin)) {
            return refuse_twice(rows, i, twin, local[i], timezone);
        }
        rows->info.n_first_of_two += moments == 2;
        rows->time_ns[i] = utc_s[0] * second_ns + fraction;
    }
    return DQN_OK;
}

static bool any_local(const struct dqn_raw_rows *rows) {
    for (size_t i = 0; i < rows->n; i++) {
        if ((rows->origin[i] & DQN_RAW_LOCAL) != 0) {
            return true;
        }
    }
    return false;
}

enum dqn_status dqn_raw_settle_times(struct dqn_raw_rows *rows, const struct dqn_stamp_style *style,
                                     const char *timezone) {
    DQN_TRY(settle_date_order(rows, style));
    struct dqn_zone *zone = NULL;
    DQN_TRY(dqn_zone_create(&zone, timezone));
    enum dqn_status status = DQN_OK;
    void *local = NULL;
    if (strcmp(timezone, "UTC") != 0 && any_local(rows)) {
        size_t bytes = 0;
        DQN_TRY_GOTO(dqn_size_mul(rows->n, sizeof(int64_t), &bytes));
        DQN_TRY_GOTO(dqn_alloc(&local, rows->n, sizeof(int64_t), "local times"));
        memcpy(local, rows->time_ns, bytes);
        DQN_TRY_GOTO(settle_zone(rows, zone, timezone, local));
    }
    for (size_t i = 0; i < rows->n; i++) {
        rows->origin[i] &= ~(DQN_RAW_LOCAL | DQN_RAW_EITHER_ORDER);
    }
done:
    free(local);
    dqn_zone_destroy(zone);
    return status;
}
