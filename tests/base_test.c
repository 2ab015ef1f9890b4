/* Status codes, error text, allocation, the number formats of messages. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

Test(base, exit_codes_are_the_documented_ones) {
    cr_expect_eq(dqn_status_exit_code(DQN_OK), 0);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_INTERNAL), 1);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_MEMORY), 1);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_CONFIG), 2);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_DATA), 3);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_DEVICE), 4);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_DEVICE_MEMORY), 4);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_DISK), 5);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_BUSY), 5);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_NONFINITE), 6);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_CHECKPOINT), 7);
    cr_expect_eq(dqn_status_exit_code(DQN_ERR_STOPPED), 130);
    cr_expect_str_eq(dqn_status_name(DQN_ERR_DISK), "DQN_ERR_DISK");
}

Test(base, utf_8_characters_end_where_the_text_does) {
    static const struct {
        const char *text;
        size_t left, length;
    } cases[] = {{"a", 1, 1},
                 {"", 1, 1}, /* the NUL itself */
                 {"\xC3\xA4", 2, 2},
                 {"\xC3\xA4", 1, 0}, /* cut by its length */
                 {"\xE2\x82\xAC", SIZE_MAX, 3},
                 {"\xE2\x82", SIZE_MAX, 0}, /* cut by its end */
                 {"\xF0\x9F\x98\x80", 4, 4},
                 {"\xF0\x9F\x98\x80", 3, 0}};
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        cr_expect_eq(dqn_utf8_length(cases[i].text, cases[i].left), cases[i].length, "case %zu", i);
    }
}

Test(base, plain_texts_are_utf_8_without_controls) {
    static const char *const plain[] = {"",
                                        "run 1",
                                        "\xc3\xa9",
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "\xed\x9f\xbf",
                                        "\xf4\x8f\xbf\xbf",
                                        "\xc2\xa0"};
    static const char *const not_plain[] = {"a\nb",
                                            "\x1b[2J",
                                            "\x7f",
                                            "\xc2\x9b",
                                            "\x80",
                                            "\xc3",
                                            "\xc3(",
                                            "\xe2\x82",
                                            "\xc0\xaf",
                                            "\xe0\x80\xaf",
                                            "\xed\xa0\x80",
                                            "\xf4\x90\x80\x80",
                                            "\xf9\x80\x80\x80",
                                            "\xff\x80\x80"};
    for (size_t i = 0; i < DQN_COUNT_OF(plain); i++) {
        cr_expect(dqn_text_is_plain(plain[i]), "text %zu", i);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(not_plain); i++) {
        cr_expect(!dqn_text_is_plain(not_plain[i]), "text %zu", i);
    }
}

Test(base, messages_hide_control_characters) {
    dqn_fail(DQN_ERR_DATA, "file \x1b[2J%s: row\n7\t\x7f", "a\rb");
    cr_expect_str_eq(dqn_error_text(), "file ?[2Ja?b: row\n7??");
    dqn_fail_prefix(DQN_ERR_DATA, "%s", "\x07");
    cr_expect_str_eq(dqn_error_text(), "?: file ?[2Ja?b: row\n7??");
}

static void *other_thread(void *unused) {
    (void)unused;
    cr_expect_str_eq(dqn_error_text(), "");
    dqn_fail(DQN_ERR_DISK, "of the other thread");
    return NULL;
}

Test(base, error_text_is_the_threads_own) {
    pthread_t thread;
    cr_expect_str_eq(dqn_error_text(), "");
    cr_expect_eq(dqn_fail(DQN_ERR_DATA, "row %d", 7), DQN_ERR_DATA);
    cr_assert_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    cr_expect_str_eq(dqn_error_text(), "row 7");
    cr_expect_eq(dqn_fail_prefix(DQN_ERR_DISK, "file %s", "a.csv"), DQN_ERR_DISK);
    cr_expect_str_eq(dqn_error_text(), "file a.csv: row 7");
    dqn_fail(DQN_ERR_DISK, "again: %s", dqn_error_text());
    cr_expect_str_eq(dqn_error_text(), "again: file a.csv: row 7");
}

Test(base, a_long_error_text_is_cut) {
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    dqn_fail(DQN_ERR_DATA, "%s", text);
    cr_expect_eq(strlen(dqn_error_text()), 2047);
    dqn_fail_prefix(DQN_ERR_DATA, "%s", text);
    cr_expect_eq(strlen(dqn_error_text()), 2047);
}

Test(base, allocation_is_zeroed_and_checked) {
    unsigned char *data = NULL;
    size_t product = 0;
    cr_assert_eq(dqn_alloc((void **)&data, 1000, 3, "rows"), DQN_OK);
    for (size_t i = 0; i < 3000; i++) {
        cr_assert_eq(data[i], 0);
    }
    free(data);
    cr_expect_eq(dqn_alloc((void **)&data, SIZE_MAX / 2, 3, "rows"), DQN_ERR_MEMORY);
    cr_expect_null(data);
    cr_expect_not_null(strstr(dqn_error_text(), "rows: "));
    cr_expect_eq(dqn_size_mul(1u << 20, 1u << 20, &product), DQN_OK);
    cr_expect_eq(product, (size_t)1 << 40);
    cr_expect_eq(dqn_size_mul((size_t)1 << 32, (size_t)1 << 32, &product), DQN_ERR_MEMORY);
}

Test(base, bytes_and_counts_read_well) {
    static const struct {
        uint64_t value;
        const char *bytes, *count;
    } cases[] = {{0, "0 B", "0"},
                 {999, "999 B", "999"},
                 {1000, "1.0 kB", "1,000"},
                 {47200000, "47.2 MB", "47,200,000"},
                 {999949999, "999.9 MB", "999,949,999"},
                 {999950001, "1.0 GB", "999,950,001"},
                 {1300000000, "1.3 GB", "1,300,000,000"},
                 {UINT64_MAX, "18.4 EB", "18,446,744,073,709,551,615"}};
    char text[32];
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        cr_expect_str_eq(dqn_format_bytes(text, sizeof text, cases[i].value), cases[i].bytes);
        cr_expect_str_eq(dqn_format_count(text, sizeof text, cases[i].value), cases[i].count);
    }
    static const struct {
        double seconds;
        const char *text;
    } lengths[] = {{0.0, "0 s"},           {0.25, "0.25 s"},
                   {1.0, "1 s"},           {59.0, "59 s"},
                   {60.0, "1 min"},        {90.0, "90 s"},
                   {900.0, "15 min"},      {3600.0, "1 h"},
                   {5400.0, "90 min"},     {14400.0, "4 h"},
                   {86400.0, "1 day"},     {604800.0, "7 days"},
                   {2678400.0, "31 days"}, {2629746.0, "2,629,746 s"},
                   {7.5, "7.5 s"}};
    for (size_t i = 0; i < DQN_COUNT_OF(lengths); i++) {
        cr_expect_str_eq(dqn_format_length(text, sizeof text, lengths[i].seconds), lengths[i].text);
    }
    static const struct {
        double seconds;
        const char *text;
    } spans[] = {{0.0, "0.0 ns"},       {2e-10, "0.2 ns"},       {1e-6, "1.0 us"},
                 {0.04, "40.0 ms"},     {12.62, "12.6 s"},       {90.0, "1.5 min"},
                 {3599.0, "60.0 min"},  {7200.0, "2.0 h"},       {86399.0, "24.0 h"},
                 {86400.0, "1.0 days"}, {1080000.0, "12.5 days"}};
    for (size_t i = 0; i < DQN_COUNT_OF(spans); i++) {
        cr_expect_str_eq(dqn_format_span(text, sizeof text, spans[i].seconds), spans[i].text);
    }
    static const struct {
        double count;
        const char *text;
    } yearly[] = {{25053.6, "25054"}, {1e9, "1000000000"}, {10.0, "10"}, {9.999, "10"},
                  {5.218, "5.22"},    {1.0, "1"},          {0.4, "0.4"}, {1e-5, "1e-05"}};
    for (size_t i = 0; i < DQN_COUNT_OF(yearly); i++) {
        cr_expect_str_eq(dqn_format_yearly(text, sizeof text, yearly[i].count), yearly[i].text);
    }
    cr_expect_str_eq(dqn_plural(0), "s");
    cr_expect_str_eq(dqn_plural(1), "");
    cr_expect_str_eq(dqn_plural(2), "s");
    for (size_t size = 1; size < 12; size++) {
        dqn_format_count(text, size, 1234567);
        cr_expect_lt(strlen(text), size);
        cr_expect_eq(strncmp(text, "1,234,567", strlen(text)), 0);
    }
}

Test(base, a_broken_invariant_aborts, .signal = SIGABRT) {
    DQN_CHECK(1 + 1 == 2);
    DQN_CHECK(1 + 1 == 3);
}

Test(base, the_clock_goes_forward) {
    const double before = dqn_clock_s();
    cr_expect_geq(dqn_clock_s(), before);
}
