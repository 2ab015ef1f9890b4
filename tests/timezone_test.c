/* Zones against dates that governments decided (IANA tz database, files australasia and asia). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "market/timezone.h"

static struct dqn_zone *zone_of(const char *name) {
    struct dqn_zone *zone = NULL;
    cr_assert_eq(dqn_zone_create(&zone, name), DQN_OK, "%s", dqn_error_text());
    return zone;
}

Test(timezone, offsets) {
    static const struct {
        const char *zone;
        int64_t utc_s, offset_s;
    } known[] = {
        {"UTC", 1700000000, 0},
        {"+05:30", 1700000000, 19800},
        {"UTC-5", 1700000000, -18000},
        {"GMT+0100", 1700000000, 3600},
        {"EST", 1718371800, -18000},              /* no summer time in June */
        {"America/New_York", 1718371800, -14400}, /* summer time in June */
        {"America/New_York", 1705000000, -18000},
        {"America/New_York", 1710053999, -18000}, /* the second before 2024-03-10 07:00 UTC */
        {"America/New_York", 1710054000, -14400},
        {"Asia/Kathmandu", 504901799, 19800}, /* 1986-01-01 00:00 local: +5:30 to +5:45 */
        {"Asia/Kathmandu", 504901800, 20700},
        {"Australia/Lord_Howe", 1705000000, 39600}, /* summer time is half an hour */
        {"Australia/Lord_Howe", 1718371800, 37800},
        {"Asia/Tokyo", 4102444800, 32400}, /* 2100 */
    };
    for (size_t i = 0; i < DQN_COUNT_OF(known); i++) {
        struct dqn_zone *const zone = zone_of(known[i].zone);
        cr_expect_eq(dqn_zone_offset(zone, known[i].utc_s), known[i].offset_s, "%s at %lld",
                     known[i].zone, (long long)known[i].utc_s);
        dqn_zone_destroy(zone);
    }
}

/* Every moment is found from its local reading; readings are counted around the changes. */
Test(timezone, local_readings) {
    struct dqn_zone *const zone = zone_of("America/New_York");
    int64_t utc[2] = {0, 0};
    /* 2024-11-03 01:30 occurs at 05:30 and at 06:30 UTC */
    cr_assert_eq(dqn_zone_to_utc(zone, 1730597400, utc), 2);
    cr_assert_eq(utc[0], 1730611800);
    cr_assert_eq(utc[1], 1730615400);
    /* 2024-03-10 02:30 never does */
    cr_assert_eq(dqn_zone_to_utc(zone, 1710037800, utc), 0);
    for (int64_t s = 0; s < 4133980800; s += 3600 * 1237) {
        const int n = dqn_zone_to_utc(zone, s + dqn_zone_offset(zone, s), utc);
        cr_assert(n >= 1 && (utc[0] == s || (n == 2 && utc[1] == s)));
    }
    dqn_zone_destroy(zone);
    /* Samoa had no 2011-12-30 */
    struct dqn_zone *const samoa = zone_of("Pacific/Apia");
    cr_assert_eq(dqn_zone_to_utc(samoa, 1325246400, utc), 0);
    dqn_zone_destroy(samoa);
}

Test(timezone, unknown_names) {
    static const char *const names[] = {"",         "Mars/Olympus",  "../etc/passwd", "/etc/passwd",
                                        "UTC+99",   "America",       "zone.tab",      "+5:3x",
                                        "New York", "EST5EDT,M3.2.0"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        struct dqn_zone *zone = NULL;
        cr_expect_eq(dqn_zone_create(&zone, names[i]), DQN_ERR_DATA, "%s", names[i]);
        cr_assert_null(zone);
    }
}

/* The process's own zone is as before. */
Test(timezone, tz_is_put_back) {
    cr_assert_eq(setenv("TZ", "Asia/Tokyo", 1), 0);
    dqn_zone_destroy(zone_of("Europe/Berlin"));
    cr_assert_str_eq(getenv("TZ"), "Asia/Tokyo");
    unsetenv("TZ");
    dqn_zone_destroy(zone_of("Europe/Berlin"));
    cr_assert_null(getenv("TZ"));
}
