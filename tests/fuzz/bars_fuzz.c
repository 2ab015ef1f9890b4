/* Fuzzes the market data loader: any file is refused with a text, or loaded into bars that keep the
 * promises of bars.h.
 * scripts/fuzz bars SECONDS builds and runs it.
 *
 * The first byte chooses settings, the rest is the file. HDF5 files are left to their library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "market/bars.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Settings by the bits of a byte. */
static void choose(struct dqn_config_data *config, uint8_t bits) {
    snprintf(config->timezone, sizeof(config->timezone), "%s",
             (bits & 1) != 0 ? "America/New_York" : "UTC");
    config->gaps = (bits >> 1) & 3;
    config->ohlc_repair = (bits >> 3) & 1;
    config->duplicates = (bits >> 4) & 1;
    config->empty_rows = (bits >> 5) & 1;
    config->date_order = (bits & 64) != 0 ? DQN_DATE_DMY : DQN_DATE_AUTO;
    config->point = (bits & 128) != 0 ? 0.01 : 0.0;
}

static void check(const struct dqn_bars *bars) {
    DQN_CHECK(bars->n >= 2 && bars->segment[0] == 0 && bars->segment[bars->n_segments] == bars->n);
    for (size_t i = 0; i < bars->n; i++) {
        DQN_CHECK(i == 0 || bars->time_ns[i] > bars->time_ns[i - 1]);
        DQN_CHECK(bars->low[i] > 0.0 && bars->high[i] >= bars->low[i]);
        DQN_CHECK(bars->high[i] >= bars->open[i] && bars->high[i] >= bars->close[i]);
        DQN_CHECK(bars->low[i] <= bars->open[i] && bars->low[i] <= bars->close[i]);
        DQN_CHECK(bars->volume == NULL || bars->volume[i] >= 0.0);
        DQN_CHECK(bars->half_spread == NULL || bars->half_spread[i] >= 0.0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct dqn_config config;
    struct dqn_bars bars;
    if (size < 2 || (size > 9 && memcmp(data + 1, "\x89HDF", 4) == 0)) {
        return 0;
    }
    const int fd = memfd_create("bars", 0);
    DQN_CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    dqn_config_defaults(&config);
    choose(&config.data, data[0]);
    config.data.file.n = 1;
    snprintf(config.data.file.v[0], sizeof(config.data.file.v[0]), "/proc/self/fd/%d", fd);
    if (dqn_bars_load(&bars, &config, true) == DQN_OK) {
        check(&bars);
        dqn_bars_free(&bars);
    } else {
        DQN_CHECK(dqn_error_text()[0] != 0);
    }
    close(fd);
    return 0;
}
