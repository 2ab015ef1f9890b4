#include "timezone.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t first_s = -86400;            /* a day before 1970 */
static const int64_t last_s = 4133980800 + 86400; /* a day after 2100 */
static const int64_t probe_s = 86400;             /* no zone changes and returns within a day */

struct dqn_zone {
    size_t n;      /* periods of constant offset */
    int64_t *from; /* [n] UTC second of the first; from[0] covers all before */
    int64_t *offset;
};

static enum dqn_status add_period(struct dqn_zone *zone, int64_t from, int64_t offset) {
    int64_t *const more_from = realloc(zone->from, (zone->n + 1) * sizeof(int64_t));
    zone->from = more_from != NULL ? more_from : zone->from;
    int64_t *const more_offset = realloc(zone->offset, (zone->n + 1) * sizeof(int64_t));
    zone->offset = more_offset != NULL ? more_offset : zone->offset;
    if (more_from == NULL || more_offset == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "no memory for the offsets of data.timezone");
    }
    zone->from[zone->n] = from;
    zone->offset[zone->n] = offset;
    zone->n++;
    return DQN_OK;
}

static int64_t library_offset(int64_t utc_s) {
    const time_t t = (time_t)utc_s;
    struct tm parts;
    memset(&parts, 0, sizeof(parts));
    localtime_r(&t, &parts);
    return (int64_t)parts.tm_gmtoff;
}

/* Finds each change of offset: a look a day, then bisection. */
static enum dqn_status scan_periods(struct dqn_zone *zone) {
    int64_t offset = library_offset(first_s);
    DQN_TRY(add_period(zone, first_s, offset));
    for (int64_t t = first_s; t < last_s; t += probe_s) {
        const int64_t next = library_offset(t + probe_s);
        if (next == offset) {
            continue;
        }
        int64_t before = t, after = t + probe_s;
        while (after - before > 1) {
            const int64_t middle = before + (after - before) / 2;
            if (library_offset(middle) == offset) {
                before = middle;
            } else {
                after = middle;
            }
        }
        offset = next;
        DQN_TRY(add_period(zone, after, offset));
    }
    return DQN_OK;
}

/* The lock guards what the C library itself keeps once a process: the variable TZ. */
static pthread_mutex_t library_zone = PTHREAD_MUTEX_INITIALIZER;

static enum dqn_status scan_library(struct dqn_zone *zone, const char *name) {
    pthread_mutex_lock(&library_zone);
    const char *const before = getenv("TZ");
    char *const saved = before != NULL ? strdup(before) : NULL;
    enum dqn_status status = DQN_OK;
    char setting[300];
    snprintf(setting, sizeof(setting), ":%s", name);
    if ((before != NULL && saved == NULL) || setenv("TZ", setting, 1) != 0) {
        status = dqn_fail(DQN_ERR_MEMORY, "no memory to read data.timezone");
    } else {
        tzset();
        status = scan_periods(zone);
        if (saved != NULL) {
            setenv("TZ", saved, 1);
        } else {
            unsetenv("TZ");
        }
        tzset();
    }
    free(saved);
    pthread_mutex_unlock(&library_zone);
    return status;
}

/* "UTC", "GMT", "Z", or an optional UTC or GMT and [+-]hh[[:]mm]. */
static bool parse_fixed(const char *name, int64_t *offset) {
    const char *p = name;
    if (strncmp(p, "UTC", 3) == 0 || strncmp(p, "GMT", 3) == 0) {
        p += 3;
    } else if (strcmp(p, "Z") == 0) {
        p += 1;
    }
    *offset = 0;
    if (*p == 0) {
        return p != name;
    }
    int hours = 0, minutes = 0, used = 0;
    if ((*p != '+' && *p != '-') || p[1] < '0' || p[1] > '9') {
        return false;
    }
    if (sscanf(p + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || p[1 + used] != 0) {
        minutes = 0;
        used = 0;
        if (sscanf(p + 1, "%2d%n", &hours, &used) != 1) {
            return false;
        }
        if (p[1 + used] != 0) {
            int more = 0;
            if (sscanf(p + 1 + used, "%2d%n", &minutes, &more) != 1 || p[1 + used + more] != 0) {
                return false;
            }
        }
    }
    if (hours > 18 || minutes < 0 || minutes > 59) {
        return false;
    }
    *offset = (int64_t)(hours * 3600 + minutes * 60) * (*p == '-' ? -1 : 1);
    return true;
}

/* The C library takes an unknown zone for UTC in silence, so the zone's file must be there. */
static enum dqn_status check_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_+-/";
    const char *const folder = getenv("TZDIR") != NULL ? getenv("TZDIR") : "/usr/share/zoneinfo";
    char path[1024], magic[4] = "";
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = NULL;
    if (name[0] != 0 && name[0] != '/' && strlen(name) < 200 &&
        strspn(name, letters) == strlen(name)) {
        file = fopen(path, "rb");
    }
    const bool good =
        file != NULL && fread(magic, 1, 4, file) == 4 && memcmp(magic, "TZif", 4) == 0;
    if (file != NULL) {
        fclose(file);
    }
    if (!good) {
        return dqn_fail(DQN_ERR_DATA,
                        "data.timezone = \"%s\" is not a zone in %s; use a name such as "
                        "America/New_York, UTC, or a fixed offset such as +02:00",
                        name, folder);
    }
    return DQN_OK;
}

enum dqn_status dqn_zone_create(struct dqn_zone **out, const char *name) {
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_zone), "time zone"));
    struct dqn_zone *zone = memory;
    int64_t offset = 0;
    enum dqn_status status = DQN_OK;
    if (parse_fixed(name, &offset)) {
        status = add_period(zone, first_s, offset);
    } else {
        status = check_name(name);
        if (status == DQN_OK) {
            status = scan_library(zone, name);
        }
    }
    if (status != DQN_OK) {
        dqn_zone_destroy(zone);
        return status;
    }
    *out = zone;
    return DQN_OK;
}

void dqn_zone_destroy(struct dqn_zone *zone) {
    if (zone != NULL) {
        free(zone->from);
        free(zone->offset);
        free(zone);
    }
}

/* The last period that starts at or before utc_s; 0 for moments before all of them. */
static size_t period_at(const struct dqn_zone *zone, int64_t utc_s) {
    size_t low = 0, high = zone->n;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (zone->from[middle] <= utc_s) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t dqn_zone_offset(const struct dqn_zone *zone, int64_t utc_s) {
    return zone->offset[period_at(zone, utc_s)];
}

int dqn_zone_to_utc(const struct dqn_zone *zone, int64_t local_s, int64_t utc_s[2]) {
    /* the true moment lies within a day of the reading */
    const size_t first = period_at(zone, local_s - 86400), last = period_at(zone, local_s + 86400);
    int n = 0;
    for (size_t i = first; i <= last && n < 2; i++) {
        const int64_t utc = local_s - zone->offset[i];
        if ((i == 0 || utc >= zone->from[i]) && (i + 1 == zone->n || utc < zone->from[i + 1])) {
            utc_s[n++] = utc;
        }
    }
    return n;
}
