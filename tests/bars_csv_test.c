/* Each layout of tests/data/market holds the same six bars. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "bars_fixture.h"
#include "market/number_text.h"

struct layout {
    const char *file, *option, *option2, *dialect;
    bool daily, no_volume;
    double scale; /* of the prices: Excel's thousands need prices above 1000 */
};

static const struct layout layouts[] = {
    {"yahoo-daily.csv", "", "", "Yahoo", true, false, 1},
    {"yfinance-daily.csv", "", "", "yfinance", true, false, 1},
    {"yfinance-two-tickers.csv", "data.symbol=XYZ", "", "yfinance", true, false, 1},
    {"yfinance-intraday.csv", "", "", "Yahoo", false, false, 1},
    {"yfinance-intraday-old.csv", "", "", "Yahoo", false, false, 1},
    {"binance-klines.csv", "", "", "Binance klines", false, false, 1},
    {"binance-futures.csv", "", "", "Binance klines", false, false, 1},
    {"binance-joined.csv", "", "", "Binance klines", false, false, 1},
    {"kraken.csv", "", "", "Kraken OHLCVT", false, false, 1},
    {"kraken.csv.gz", "", "", "Kraken OHLCVT", false, false, 1},
    {"databento.csv", "", "", "Databento CSV", false, false, 1},
    {"databento-raw.csv", "", "", "Databento CSV, raw prices", false, false, 1},
    {"stooq-daily.csv", "", "", "CSV with header", true, false, 1},
    {"stooq-index.csv", "", "", "CSV with header", true, true, 1},
    {"metastock.txt", "", "", "MetaStock ASCII", false, false, 1},
    {"finam.txt", "", "", "MetaStock ASCII", false, false, 1},
    {"alpaca.csv", "data.symbol=ABC", "", "Alpaca", false, false, 1},
    {"metatrader5.csv", "data.timezone=Etc/GMT-3", "", "MetaTrader 5", false, false, 1},
    {"metatrader5-daily.csv", "", "", "MetaTrader 5", true, false, 1},
    {"metatrader4.csv", "", "", "MetaTrader 4", false, false, 1},
    {"histdata.csv", "data.timezone=EST", "", "HistData ASCII", false, false, 1},
    {"cryptodatadownload.csv", "", "", "CryptoDataDownload", false, false, 1},
    {"tradingview.csv", "", "", "CSV with header", false, false, 1},
    {"tradingview-iso.csv", "", "", "CSV with header", false, false, 1},
    {"kaiko.csv", "", "", "6 columns, epoch", false, false, 1},
    {"kaiko-null.csv", "data.empty_rows=skip", "", "CSV with header", false, false, 1},
    {"dukascopy.csv", "", "", "CSV with header", false, false, 1},
    {"excel-us.csv", "", "", "CSV with header", false, false, 16},
    {"excel-german.csv", "", "", "CSV with header", false, false, 16},
    {"pipe.csv", "", "", "CSV with header", false, false, 1},
    {"freqtrade.json", "", "", "freqtrade JSON", false, false, 1},
    {"no-header-8.csv", "data.columns=[time, x, open, high, low, close, volume, y]", "",
     "columns named by data.columns", false, false, 1},
    {"several-endings.csv", "", "", "CSV with header", false, false, 1},
    {"part-[12].csv", "", "", "CSV with header", false, false, 1},
};

static void check_canonical(const struct dqn_bars *bars, const char *file, bool daily,
                            bool no_volume, double scale) {
    cr_assert_eq(bars->n, CANONICAL_BARS, "%s: %zu bars", file, bars->n);
    cr_assert_eq(bars->volume == NULL, no_volume, "%s", file);
    for (size_t i = 0; i < CANONICAL_BARS; i++) {
        const int64_t second = daily ? canonical_day_s + canonical_days[i] * 86400
                                     : canonical_minute_s + (int64_t)i * 60;
        cr_assert_eq(bars->time_ns[i], second * 1000000000, "%s: bar %zu at %lld", file, i,
                     (long long)bars->time_ns[i]);
        cr_assert_eq(bars->open[i], scale * canonical[i][0], "%s: bar %zu", file, i);
        cr_assert_eq(bars->high[i], scale * canonical[i][1], "%s: bar %zu", file, i);
        cr_assert_eq(bars->low[i], scale * canonical[i][2], "%s: bar %zu", file, i);
        cr_assert_eq(bars->close[i], scale * canonical[i][3], "%s: bar %zu", file, i);
        cr_assert(no_volume || bars->volume[i] == canonical[i][4], "%s: bar %zu", file, i);
    }
    cr_assert_eq(bars->info.bar_seconds, daily ? 86400.0 : 60.0);
    cr_assert_eq(bars->info.n_gaps, daily ? 1u : 0u);
    cr_assert_eq(bars->n_segments, 1u);
    cr_assert_eq(bars->segment[0], 0u);
    cr_assert_eq(bars->segment[1], CANONICAL_BARS);
}

Test(bars_csv, every_layout_holds_the_same_bars) {
    for (size_t i = 0; i < DQN_COUNT_OF(layouts); i++) {
        const struct layout *const l = &layouts[i];
        char path[128];
        struct dqn_bars bars;
        snprintf(path, sizeof(path), "tests/data/market/%s", l->file);
        cr_assert_eq(load_bars(&bars, path, l->option, l->option2, ""), DQN_OK, "%s: %s", l->file,
                     dqn_error_text());
        check_canonical(&bars, l->file, l->daily, l->no_volume, l->scale);
        cr_assert_str_eq(bars.info.dialect, l->dialect, "%s: %s", l->file, bars.info.dialect);
        dqn_bars_free(&bars);
    }
}

Test(bars_csv, notes_of_the_loader) {
    struct dqn_bars bars;
    cr_assert_eq(load_bars(&bars, "tests/data/market/cryptodatadownload.csv", "", "", ""), DQN_OK);
    cr_assert(bars.info.reversed);
    cr_assert_str_eq(bars.info.symbol, "BTC/USD");
    dqn_bars_free(&bars);
    cr_assert_eq(load_bars(&bars, "tests/data/market/yahoo-daily.csv", "", "", ""), DQN_OK);
    cr_assert_eq(bars.info.n_adjustments, 1u); /* the split between rows 3 and 4 */
    dqn_bars_free(&bars);
    /* without adjustment the first three rows are twice as high */
    cr_assert_eq(load_bars(&bars, "tests/data/market/yahoo-daily.csv", "data.adjust=none", "", ""),
                 DQN_OK);
    cr_assert_eq(bars.close[0], 2.0 * canonical[0][3]);
    cr_assert_eq(bars.close[3], canonical[3][3]);
    dqn_bars_free(&bars);
    /* sha256sum tests/data/market/kraken.csv */
    cr_assert_eq(load_bars(&bars, "tests/data/market/kraken.csv", "", "", ""), DQN_OK);
    cr_assert_str_eq(bars.info.sha256,
                     "bb986fad29c28d05032b6e210c7c216b850efaf7855b9ec24b2e327dd482b5db");
    dqn_bars_free(&bars);
    cr_assert_eq(load_bars(&bars, "tests/data/market/part-?.csv", "", "", ""), DQN_OK);
    cr_assert_eq(bars.info.n_duplicates, 2u); /* bars 3 and 4 are in both parts */
    dqn_bars_free(&bars);
}

/* Two files as one series. */
static enum dqn_status load_two(struct dqn_bars *bars, const char *a, const char *b) {
    char folder[] = "/tmp/dqn-bars-XXXXXX", path[2][64], pattern[64];
    const char *const texts[2] = {a, b};
    cr_assert_not_null(mkdtemp(folder));
    for (size_t i = 0; i < 2; i++) {
        snprintf(path[i], sizeof(path[i]), "%s/%zu.csv", folder, i + 1);
        FILE *const file = fopen(path[i], "w");
        cr_assert(file != NULL && fputs(texts[i], file) >= 0 && fclose(file) == 0);
    }
    snprintf(pattern, sizeof(pattern), "%s/*.csv", folder);
    const enum dqn_status status = load_bars(bars, pattern, "", "", "");
    unlink(path[0]);
    unlink(path[1]);
    rmdir(folder);
    return status;
}

Test(bars_csv, files_joined_in_time) {
    struct dqn_bars bars;
    const char *const early = "time,open,high,low,close\n1700000000,1,1,1,1\n1700000120,3,3,3,3\n";
    const char *const late = "time,open,high,low,close\n1700000180,4,4,4,4\n1700000060,2,2,2,2\n";
    cr_assert_eq(load_two(&bars, late, early), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(bars.n, 4u);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(bars.close[i], (double)(i + 1));
        cr_assert_eq(bars.time_ns[i], (INT64_C(1700000000) + 60 * (int64_t)i) * 1000000000);
    }
    dqn_bars_free(&bars);
    cr_assert_eq(load_two(&bars, early, "time,open,high,low,close\n1700000120,9,9,9,9\n"),
                 DQN_ERR_DATA);
    cr_assert_not_null(strstr(dqn_error_text(),
                              "/2.csv:2:1: the time 2023-11-14T22:15:20 UTC occurs "
                              "again with other values than at /tmp/"),
                       "%s", dqn_error_text());
    cr_assert_not_null(strstr(dqn_error_text(), "/1.csv:3; remove one"));
    cr_assert_eq(load_two(&bars, early, "time,open,high,low,close,volume\n1700000180,9,9,9,9,5\n"),
                 DQN_ERR_DATA);
    cr_assert_not_null(strstr(dqn_error_text(), "/2.csv: the file has a volume column, but"));
    cr_assert_eq(load_two(&bars, "symbol,time,open,high,low,close\nA,1700000000,1,1,1,1\n",
                          "symbol,time,open,high,low,close\nB,1700000060,1,1,1,1\n"),
                 DQN_ERR_DATA);
    cr_assert_not_null(
        strstr(dqn_error_text(), "/2.csv: the symbol is B, but A in the files before"));
}

/* Seven points of 0.01 at a close of 102.75: half of 0.07 / 102.75. */
Test(bars_csv, spread_in_points) {
    struct dqn_bars bars;
    cr_assert_eq(load_bars(&bars, "tests/data/market/metatrader5.csv", "data.point=0.01", "", ""),
                 DQN_OK);
    cr_assert_not_null(bars.half_spread);
    cr_assert_float_eq(bars.half_spread[0], 0.035 / 102.75, 1e-18);
    dqn_bars_free(&bars);
    cr_assert_eq(load_bars(&bars, "tests/data/market/metatrader5.csv", "", "", ""), DQN_OK);
    cr_assert_null(bars.half_spread);
    dqn_bars_free(&bars);
}

/* Reads text through a temporary file. */
static enum dqn_status load_text(struct dqn_bars *bars, const char *text, const char *a,
                                 const char *b) {
    char path[64];
    write_temporary(path, ".csv", text, strlen(text));
    const enum dqn_status status = load_bars(bars, path, a, b, "");
    unlink(path);
    return status;
}

Test(bars_csv, month_first_dates_before_the_deciding_one) {
    struct dqn_bars bars;
    const char *const text = "date,open,high,low,close\n"
                             "03/11/2024,1,1,1,1\n"
                             "03/12/2024,2,2,2,2\n"
                             "03/13/2024,3,3,3,3\n";
    cr_assert_eq(load_text(&bars, text, "", ""), DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(bars.time_ns[0], INT64_C(1710115200) * 1000000000); /* 2024-03-11 */
    cr_assert_eq(bars.time_ns[2], INT64_C(1710288000) * 1000000000); /* 2024-03-13 */
    dqn_bars_free(&bars);
    /* the same reading by order of the config */
    cr_assert_eq(load_text(&bars,
                           "date,open,high,low,close\n03/11/2024,1,1,1,1\n"
                           "03/12/2024,2,2,2,2\n",
                           "data.date_order=mdy", ""),
                 DQN_OK);
    cr_assert_eq(bars.time_ns[0], INT64_C(1710115200) * 1000000000);
    dqn_bars_free(&bars);
}

static const char gapped[] = "time,open,high,low,close,volume\n"
                             "1700000000,1,1,1,1,5\n1700000060,2,2,2,2,5\n"
                             "1700000120,3,3,3,3,0\n1700000300,4,4,4,4,5\n"
                             "1700000360,5,5,5,5,5\n1700400000,6,6,6,6,5\n"
                             "1700400060,7,7,7,7,5\n";

Test(bars_csv, gaps) {
    struct dqn_bars bars;
    /* two bars are missing at 180 and 240; the hole before 1700400000 is above three days */
    cr_assert_eq(load_text(&bars, gapped, "", ""), DQN_OK);
    cr_assert_eq(bars.info.n_gaps, 2u);
    cr_assert_eq(bars.info.n_zero_volume, 1u);
    cr_assert_eq(bars.n_segments, 2u);
    cr_assert_eq(bars.segment[1], 5u);
    cr_assert_eq(bars.segment[2], 7u);
    cr_assert_null(bars.untradable);
    dqn_bars_free(&bars);
    cr_assert_eq(load_text(&bars, gapped, "data.gaps=keep", ""), DQN_OK);
    cr_assert_eq(bars.n_segments, 1u);
    cr_assert_eq(bars.n, 7u);
    dqn_bars_free(&bars);
    cr_assert_eq(load_text(&bars, gapped, "data.gaps=ffill", ""), DQN_OK);
    cr_assert_eq(bars.n, 9u);
    cr_assert_eq(bars.n_segments, 2u);
    for (size_t i = 3; i <= 4; i++) {
        cr_assert_eq(bars.time_ns[i], (INT64_C(1700000000) + 60 * (int64_t)i) * 1000000000);
        cr_assert(bars.open[i] == 3.0 && bars.high[i] == 3.0 && bars.low[i] == 3.0);
        cr_assert(bars.close[i] == 3.0 && bars.volume[i] == 0.0 && bars.untradable[i] == 1);
    }
    cr_assert_eq(bars.untradable[2] + bars.untradable[5], 0);
    cr_assert_eq(bars.info.n_zero_volume, 1u);
    dqn_bars_free(&bars);
    cr_assert_eq(load_text(&bars, gapped, "data.gaps=error", ""), DQN_ERR_DATA);
    /* max_gap_bars: 2.5 bars is below the three bars of the small hole */
    cr_assert_eq(load_text(&bars, gapped, "data.max_gap_days=0", "data.max_gap_bars=2"), DQN_OK);
    cr_assert_eq(bars.n_segments, 3u);
    dqn_bars_free(&bars);
}

/* Twelve weeks of working days from Monday 2024-01-01 on, each of the hours [first, last] of New
 * York or, with first = last, one bar a day. Left out: what `out` says of hour h of day d. */
static void load_weeks(struct dqn_bars *bars, int first, int last, bool (*out)(int d, int h)) {
    static char text[40000];
    size_t used = (size_t)sprintf(text, "date,open,high,low,close\n");
    for (int d = 0; d < 84; d++) {
        const time_t noon = (19723 + d) * 86400 + 43200;
        struct tm day;
        cr_assert_not_null(gmtime_r(&noon, &day));
        for (int h = first; h <= last && d % 7 < 5; h++) {
            if (!out(d, h)) {
                used += strftime(text + used, 64, "%Y-%m-%d", &day);
                used += (size_t)sprintf(text + used, " %02d:00,1,1,1,1\n", h);
            }
        }
    }
    cr_assert_eq(load_text(bars, text, "data.timezone=America/New_York", ""), DQN_OK, "%s",
                 dqn_error_text());
}

static bool no_holes(int d, int h) {
    (void)d;
    (void)h;
    return false;
}

static bool holidays(int d, int h) { /* a Monday, a Wednesday, a Friday, and two weeks on another */
    (void)h;
    return d == 14 || d == 37 || d == 60 || d == 74;
}

static bool two_lost_hours(int d, int h) {
    return (d == 10 || d == 43) && h == 11;
}

/* Closing hours are told from holes; clocks are set forward on 2024-03-10, so that in UTC the hours
 * differ before and after. */
Test(bars_csv, regular_closures) {
    static const struct {
        int first, last;
        bool (*out)(int d, int h);
        size_t n_gaps, n_regular;
    } cases[] = {
        {0, 0, no_holes, 11, 11},  /* the weekends */
        {0, 0, holidays, 12, 8},   /* three of them are longer, and there is the Wednesday */
        {9, 15, no_holes, 59, 59}, /* the nights, too */
        {9, 15, two_lost_hours, 61, 59},
        {9, 15, holidays, 55, 51}, /* a holiday joins two nights into one hole */
        {0, 23, no_holes, 11, 11},
        {0, 22, no_holes, 59, 59}, /* an hour a night, with one week behind the change of clocks */
    };
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        struct dqn_bars bars;
        load_weeks(&bars, cases[i].first, cases[i].last, cases[i].out);
        cr_expect_eq(bars.info.n_gaps, cases[i].n_gaps, "case %zu: %zu gaps", i, bars.info.n_gaps);
        cr_expect_eq(bars.info.n_regular, cases[i].n_regular, "case %zu: %zu regular", i,
                     bars.info.n_regular);
        dqn_bars_free(&bars);
    }
}

static void expect_irregular(struct dqn_bars *bars, size_t n_gaps) {
    cr_expect_eq(bars->info.n_gaps, n_gaps);
    cr_expect_eq(bars->info.n_regular, 0u);
    dqn_bars_free(bars);
}

/* Minutes that are missing every week in a thin market are no closing hours, half a year is none,
 * and one week does not show what recurs. */
Test(bars_csv, no_regular_closures) {
    static char text[300000];
    struct dqn_bars bars;
    size_t used = (size_t)sprintf(text, "time,open,high,low,close\n");
    for (int64_t minute = 0; minute < 6 * 7 * 1440; minute += 10) {
        if (minute % (7 * 1440) != 500) {
            used +=
                (size_t)sprintf(text + used, "%lld,1,1,1,1\n", 1700000000 + 60 * (long long)minute);
        }
    }
    cr_assert_eq(load_text(&bars, text, "", ""), DQN_OK, "%s", dqn_error_text());
    expect_irregular(&bars, 6);
    used = (size_t)sprintf(text, "time,open,high,low,close\n");
    for (int64_t hour = 0; hour < 60 * 168; hour++) {
        if (hour < 20 * 168 || hour >= 44 * 168) {
            used +=
                (size_t)sprintf(text + used, "%lld,1,1,1,1\n", 1700000000 + 3600 * (long long)hour);
        }
    }
    cr_assert_eq(load_text(&bars, text, "", ""), DQN_OK, "%s", dqn_error_text());
    expect_irregular(&bars, 1);
    cr_assert_eq(load_bars(&bars, "tests/data/market/stooq-daily.csv", "", "", ""), DQN_OK);
    expect_irregular(&bars, 1);
}

/* What comes later in a file changes nothing before it, fills included. */
Test(bars_csv, fills_look_back_only) {
    struct dqn_bars whole, cut;
    char text[sizeof(gapped)];
    memcpy(text, gapped, sizeof(gapped));
    char *const last = strstr(text, "1700000360,5,5,5,5");
    memcpy(last, "1700000360,9,9,9,9", 18);
    cr_assert_eq(load_text(&whole, gapped, "data.gaps=ffill", ""), DQN_OK);
    cr_assert_eq(load_text(&cut, text, "data.gaps=ffill", ""), DQN_OK);
    cr_assert_arr_eq(whole.close, cut.close, 6 * sizeof(double));
    cr_assert_arr_eq(whole.open, cut.open, 6 * sizeof(double));
    dqn_bars_free(&whole);
    dqn_bars_free(&cut);
}

Test(bars_csv, duplicates_repair_and_unfinished_bar) {
    struct dqn_bars bars;
    const char *const twice = "time,open,high,low,close\n1700000000,1,1,1,1\n1700000060,2,2,2,2\n"
                              "1700000060,2,2,2,2\n1700000060,3,3,3,3\n1700000120,4,4,4,4\n";
    cr_assert_eq(load_text(&bars, twice, "data.duplicates=keep_last", ""), DQN_OK);
    cr_assert_eq(bars.n, 3u);
    cr_assert_eq(bars.close[1], 3.0);
    cr_assert_eq(bars.info.n_duplicates, 2u);
    dqn_bars_free(&bars);
    /* newest first: the last row in the file stays all the same */
    const char *const reversed = "time,open,high,low,close\n1700000120,4,4,4,4\n"
                                 "1700000060,2,2,2,2\n1700000060,3,3,3,3\n1700000000,1,1,1,1\n";
    cr_assert_eq(load_text(&bars, reversed, "data.duplicates=keep_last", ""), DQN_OK);
    cr_assert_eq(bars.n, 3u);
    cr_assert_eq(bars.close[1], 3.0);
    dqn_bars_free(&bars);
    const char *const narrow = "time,open,high,low,close\n1700000000,2,1.5,2.5,3\n"
                               "1700000060,2,2,2,2\n";
    cr_assert_eq(load_text(&bars, narrow, "data.ohlc_repair=widen", ""), DQN_OK);
    cr_assert(bars.high[0] == 3.0 && bars.low[0] == 2.0 && bars.info.n_repaired == 1);
    dqn_bars_free(&bars);
    cr_assert_eq(load_text(&bars, gapped, "data.open_ended=true", ""), DQN_OK);
    cr_assert_eq(bars.n, 6u);
    dqn_bars_free(&bars);
}

/* Offsets of New York: -05:00 before 2024-03-10 02:00, -04:00 after. */
Test(bars_csv, local_time_over_clock_changes) {
    struct dqn_bars bars;
    const char *const spring = "time,open,high,low,close\n2024-03-10 01:30:00,1,1,1,1\n"
                               "2024-03-10 03:30:00,2,2,2,2\n2024-03-10 04:30:00,3,3,3,3\n";
    cr_assert_eq(load_text(&bars, spring, "data.timezone=America/New_York", ""), DQN_OK, "%s",
                 dqn_error_text());
    cr_assert_eq(bars.time_ns[0], INT64_C(1710052200) * 1000000000); /* 06:30 UTC */
    cr_assert_eq(bars.time_ns[1], INT64_C(1710055800) * 1000000000); /* 07:30 UTC */
    cr_assert_eq(bars.info.n_gaps, 0u);
    dqn_bars_free(&bars);
    /* a lone stamp in the hour that occurs twice is the first */
    cr_assert_eq(load_text(&bars,
                           "time,open,high,low,close\n2024-11-03 01:30,1,1,1,1\n"
                           "2024-11-03 02:30,2,2,2,2\n",
                           "data.timezone=America/New_York", ""),
                 DQN_OK, "%s", dqn_error_text());
    cr_assert_eq(bars.time_ns[0], INT64_C(1730611800) * 1000000000); /* 05:30 UTC */
    cr_assert_eq(bars.time_ns[1], INT64_C(1730619000) * 1000000000); /* 07:30 UTC */
    cr_assert_eq(bars.info.n_first_of_two, 1u);
    dqn_bars_free(&bars);
    /* offsets in the stamps need no zone, also in the repeated hour */
    const char *const autumn = "time,open,high,low,close\n2024-11-03 00:30:00-04:00,1,1,1,1\n"
                               "2024-11-03 01:30:00-04:00,2,2,2,2\n"
                               "2024-11-03 01:30:00-05:00,3,3,3,3\n";
    cr_assert_eq(load_text(&bars, autumn, "data.timezone=Europe/Berlin", ""), DQN_OK);
    cr_assert_eq(bars.time_ns[2], INT64_C(1730615400) * 1000000000); /* 06:30 UTC */
    cr_assert_eq(bars.info.n_gaps, 0u);
    dqn_bars_free(&bars);
    cr_assert_eq(load_text(&bars,
                           "time,open,high,low,close\n2024-06-03 10:00,1,1,1,1\n"
                           "2024-06-03 10:01,1,1,1,1\n",
                           "data.timezone=UTC+05:30", ""),
                 DQN_OK);
    cr_assert_eq(bars.time_ns[0], INT64_C(1717389000) * 1000000000); /* 04:30 UTC */
    dqn_bars_free(&bars);
}

/* Decimals as strtod reads them, beyond what a 53-bit mantissa holds too. */
Test(bars_csv, numbers_are_correctly_rounded) {
    static const char *const numbers[] = {"0.1",
                                          "1.08410",
                                          "67500.12345678",
                                          "123456789.123456789",
                                          "9007199254740993",
                                          "1e-7",
                                          "2.5E+3",
                                          "0.000000000000000000123",
                                          "3.14159265358979323846264338327950288",
                                          "1234567890123456789012345678901234567890",
                                          "4.9e-324",
                                          "1.7976931348623157e308"};
    for (size_t i = 0; i < DQN_COUNT_OF(numbers); i++) {
        struct dqn_bars bars;
        char text[1024];
        const char *const x = numbers[i];
        struct dqn_number_style style = {false, DQN_MARK_UNKNOWN};
        double value = 0.0;
        cr_assert_null(dqn_number_parse(x, strlen(x), false, &style, &value), "%s", x);
        cr_assert_eq(value, strtod(x, NULL), "%s", x);
        if (value < 1e-30 || value > 1e30) { /* a number, but no price */
            continue;
        }
        snprintf(text, sizeof(text),
                 "time,open,high,low,close\n1700000000,%s,%s,%s,%s\n1700000060,%s,%s,%s,%s\n", x, x,
                 x, x, x, x, x, x);
        cr_assert_eq(load_text(&bars, text, "", ""), DQN_OK, "%s", dqn_error_text());
        cr_assert_eq(bars.open[0], strtod(x, NULL), "%s", x);
        dqn_bars_free(&bars);
    }
}

static void *feed_pipe(void *context) {
    const char *const path = context;
    const int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0);
    for (size_t i = 0; i < sizeof(gapped) - 1; i += 7) {
        const size_t n = sizeof(gapped) - 1 - i < 7 ? sizeof(gapped) - 1 - i : 7;
        cr_assert_eq(write(fd, gapped + i, n), (ssize_t)n);
    }
    close(fd);
    return NULL;
}

Test(bars_csv, named_pipe) {
    char path[64];
    struct dqn_bars bars;
    pthread_t writer;
    snprintf(path, sizeof(path), "/tmp/dqn-bars-pipe-%d", (int)getpid());
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(pthread_create(&writer, NULL, feed_pipe, path), 0);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_OK, "%s", dqn_error_text());
    pthread_join(writer, NULL);
    unlink(path);
    cr_assert_eq(bars.n, 7u);
    dqn_bars_free(&bars);
}

Test(bars_csv, volumes_of_zero_only_are_no_volumes) {
    struct dqn_bars bars;
    cr_assert_eq(load_text(&bars, "20240304 010500;1;1;1;1;0\n20240304 010600;2;2;2;2;0\n", "", ""),
                 DQN_OK, "%s", dqn_error_text());
    cr_assert_null(bars.volume);
    cr_assert(bars.info.volume_unused);
    dqn_bars_free(&bars);
}

/* Two rows are enough; segments of one bar may stand alone. */
Test(bars_csv, two_rows) {
    struct dqn_bars bars;
    cr_assert_eq(load_text(&bars,
                           "time,open,high,low,close\n1700000000,1,1,1,1\n1800000000,2,2,2,2", "",
                           ""),
                 DQN_OK);
    cr_assert_eq(bars.n, 2u);
    cr_assert_eq(bars.info.bar_seconds, 1e8);
    cr_assert_eq(bars.n_segments, 1u);
    dqn_bars_free(&bars);
}
