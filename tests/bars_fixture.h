/* Loading market data in tests: a config from overrides, temporary files, and the bars that every
 * layout of tests/data/market holds. */
#ifndef DQN_TESTS_BARS_FIXTURE_H
#define DQN_TESTS_BARS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "market/bars.h"

enum { CANONICAL_BARS = 6 };

/* open, high, low, close, volume; all are exact in binary */
static const double canonical[CANONICAL_BARS][5] = {
    {101.25, 103.0, 100.5, 102.75, 1840.0}, {102.75, 103.5, 102.0, 102.25, 920.0},
    {102.25, 102.5, 99.75, 100.0, 2310.0},  {100.0, 101.0, 99.5, 100.75, 1200.0},
    {100.75, 104.0, 100.75, 103.5, 3105.0}, {103.5, 103.75, 102.5, 103.0, 640.0},
};
static const int64_t canonical_minute_s =
    1718371800; /* 2024-06-14 13:30:00 UTC, then each minute */
static const int canonical_days[CANONICAL_BARS] = {0, 1, 2, 3, 4, 7}; /* from 2024-06-10 UTC */
static const int64_t canonical_day_s = 1717977600;

/* Loads a file with up to three overrides ("" or NULL: none). */
static inline enum dqn_status load_bars(struct dqn_bars *out, const char *path, const char *a,
                                        const char *b, const char *c) {
    static struct dqn_config config;
    const char *const extra[] = {a, b, c};
    const char *overrides[3];
    char folder[DQN_TEXT_MAX];
    size_t n = 0;
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < 3; i++) {
        if (extra[i] != NULL && extra[i][0] != 0) {
            overrides[n++] = extra[i];
        }
    }
    if (getcwd(folder, sizeof(folder)) == NULL) {
        return DQN_ERR_INTERNAL;
    }
    DQN_TRY(dqn_config_parse(&config, "test", folder, "seed: 1\n", n, overrides));
    config.data.file.n = 1;
    snprintf(config.data.file.v[0], sizeof(config.data.file.v[0]), "%s", path);
    return dqn_bars_load(out, &config, true);
}

/* Writes bytes to a new file in the temporary folder; the caller removes it. */
static inline void write_temporary(char path[64], const char *suffix, const void *bytes, size_t n) {
    snprintf(path, 64, "/tmp/dqn-bars-XXXXXX%s", suffix);
    const int fd = mkstemps(path, (int)strlen(suffix));
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) {
        abort();
    }
    close(fd);
}

#endif
