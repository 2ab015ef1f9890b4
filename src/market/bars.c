#include "bars.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum dqn_status alloc_reals(double **out, size_t n, const char *what) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, n, sizeof(double), what));
    *out = memory;
    return DQN_OK;
}

static enum dqn_status alloc_all(struct dqn_bars *bars, bool volume, bool half_spread,
                                 bool untradable, bool hidden) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, bars->n, sizeof(int64_t), "bar times"));
    bars->time_ns = memory;
    DQN_TRY(alloc_reals(&bars->open, bars->n, "open prices"));
    DQN_TRY(alloc_reals(&bars->high, bars->n, "high prices"));
    DQN_TRY(alloc_reals(&bars->low, bars->n, "low prices"));
    DQN_TRY(alloc_reals(&bars->close, bars->n, "close prices"));
    if (volume) {
        DQN_TRY(alloc_reals(&bars->volume, bars->n, "volumes"));
    }
    if (half_spread) {
        DQN_TRY(alloc_reals(&bars->half_spread, bars->n, "half spreads"));
    }
    if (untradable) {
        DQN_TRY(dqn_alloc(&memory, bars->n, 1, "untradable flags"));
        bars->untradable = memory;
    }
    if (hidden) {
        DQN_TRY(alloc_reals(&bars->hidden, bars->n, "hidden states"));
    }
    DQN_TRY(dqn_alloc(&memory, 2, sizeof(size_t), "segments"));
    bars->segment = memory;
    bars->segment[1] = bars->n;
    bars->n_segments = 1;
    return DQN_OK;
}

enum dqn_status dqn_bars_alloc(struct dqn_bars *out, size_t n, bool volume, bool half_spread,
                               bool untradable, bool hidden) {
    memset(out, 0, sizeof(*out));
    out->n = n;
    const enum dqn_status status = alloc_all(out, volume, half_spread, untradable, hidden);
    if (status != DQN_OK) {
        dqn_bars_free(out);
    }
    return status;
}

void dqn_bars_free(struct dqn_bars *bars) {
    if (bars == NULL) {
        return;
    }
    free(bars->time_ns);
    free(bars->open);
    free(bars->high);
    free(bars->low);
    free(bars->close);
    free(bars->volume);
    free(bars->half_spread);
    free(bars->untradable);
    free(bars->hidden);
    free(bars->segment);
    memset(bars, 0, sizeof(*bars));
}

/* "2024-03-04 09:30:00" in UTC. */
static const char *stamp_text(char *text, size_t size, int64_t time_ns) {
    const int64_t second_ns = 1000000000;
    const time_t seconds = (time_t)(time_ns / second_ns - (time_ns % second_ns < 0 ? 1 : 0));
    struct tm parts;
    memset(&parts, 0, sizeof(parts));
    gmtime_r(&seconds, &parts);
    strftime(text, size, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
}

const char *dqn_bars_span_text(char *text, size_t size, const struct dqn_bars *bars) {
    char first[32], last[32], count[32], length[32];
    snprintf(text, size, "%s bars of %s, %s to %s UTC",
             dqn_format_count(count, sizeof(count), bars->n),
             dqn_format_length(length, sizeof(length), bars->info.bar_seconds),
             stamp_text(first, sizeof(first), bars->time_ns[0]),
             stamp_text(last, sizeof(last), bars->time_ns[bars->n - 1]));
    return text;
}

/* One line of what was done to the rows; nothing when nothing was. */
static void print_repairs(const struct dqn_bars_info *info) {
    if (info->reversed) {
        dqn_info("data: newest row first, read in reverse");
    }
    if (info->n_empty > 0) {
        dqn_info("data: %zu row%s without prices left out", info->n_empty,
                 dqn_plural(info->n_empty));
    }
    if (info->n_first_of_two > 0) {
        dqn_info("data: %zu stamp%s in an hour that clocks had twice, taken for the first",
                 info->n_first_of_two, dqn_plural(info->n_first_of_two));
    }
    if (info->spread_unused) {
        dqn_info("data: the spread column is left out; set data.point to the price of one of its "
                 "units (such as 0.00001) to use it");
    }
    if (info->volume_unused) {
        dqn_info("data: every volume is 0, so the data counts as having none");
    }
    if (info->last_left_out) {
        dqn_info("data: the last bar left out by data.open_ended");
    }
    if (info->n_duplicates > 0) {
        dqn_info("data: %zu repeated row%s dropped", info->n_duplicates,
                 dqn_plural(info->n_duplicates));
    }
    if (info->n_adjustments > 0) {
        dqn_info("data: prices scaled by adjusted close / close, whose ratio changes at %zu bar%s",
                 info->n_adjustments, dqn_plural(info->n_adjustments));
    }
    if (info->n_repaired > 0) {
        dqn_info("data: high or low widened to the other prices in %zu bar%s", info->n_repaired,
                 dqn_plural(info->n_repaired));
    }
}

/* How many gaps are the market's closing hours, and how many are not; "" without gaps. */
static const char *gap_kinds(char *text, size_t size, const struct dqn_bars *bars) {
    const struct dqn_bars_info *info = &bars->info;
    const int64_t three_weeks_ns = 21 * INT64_C(86400000000000);
    text[0] = '\0';
    if (info->n_gaps > 0 && bars->time_ns[bars->n - 1] - bars->time_ns[0] < three_weeks_ns) {
        snprintf(text, size,
                 " (in less than three weeks closing hours cannot be told from others)");
    } else if (info->n_gaps > 0) {
        snprintf(text, size, " (%zu regular closure%s such as weekends, %zu irregular)",
                 info->n_regular, dqn_plural(info->n_regular), info->n_gaps - info->n_regular);
    }
    return text;
}

static void print_info(const struct dqn_bars *bars) {
    const struct dqn_bars_info *info = &bars->info;
    char span[128], kinds[128];
    dqn_info("data: %s (%s%s%s)", info->source, info->dialect, info->symbol[0] ? ", " : "",
             info->symbol);
    dqn_info("data: %s", dqn_bars_span_text(span, sizeof(span), bars));
    size_t n_filled = 0;
    for (size_t i = 0; bars->untradable != NULL && i < bars->n; i++) {
        n_filled += bars->untradable[i];
    }
    dqn_info("data: %zu gap%s%s, %zu segment%s, %zu bar%s filled in, %s", info->n_gaps,
             dqn_plural(info->n_gaps), gap_kinds(kinds, sizeof(kinds), bars), bars->n_segments,
             dqn_plural(bars->n_segments), n_filled, dqn_plural(n_filled),
             bars->volume == NULL ? "no volume" : "with volume");
    if (info->n_zero_volume > 0) {
        dqn_info("data: %zu bar%s without volume", info->n_zero_volume,
                 dqn_plural(info->n_zero_volume));
    }
    print_repairs(info);
    dqn_info("data: SHA-256 %s", info->sha256);
}

enum dqn_status dqn_bars_load(struct dqn_bars *out, const struct dqn_config *config, bool quiet) {
    if (config->data.file.n > 0) {
        DQN_TRY(dqn_bars_load_files(out, config));
    } else {
        DQN_TRY(dqn_bars_synthetic(out, &config->synthetic));
    }
    if (!quiet) {
        print_info(out);
    }
    return DQN_OK;
}
