#include "timestamps.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../config.h"

static const int64_t second_ns = 1000000000;
static const int64_t day_s = 86400;
static const int64_t first_year = 1970, last_year = 2100;

/* Days from 1970-01-01 of a date in the Gregorian calendar: 400 years have 146097 days, and years
 * are counted from March so that the leap day ends them. */
static int64_t days_of_date(int64_t year, int64_t month, int64_t day) {
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = (y >= 0 ? y : y - 399) / 400;
    const int64_t year_of_era = y - era * 400;
    const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of_days(int64_t days, int64_t *year, int64_t *month, int64_t *day) {
    const int64_t z = days + 719468;
    const int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    const int64_t day_of_era = z - era * 146097;
    const int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = day_of_year - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = year_of_era + era * 400 + (*month <= 2 ? 1 : 0);
}

static int days_in_month(int64_t year, int64_t month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* A reading position in a cell. */
struct scan {
    const char *p, *end;
};

static size_t left(const struct scan *s) {
    return (size_t)(s->end - s->p);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t digits_ahead(const struct scan *s) {
    size_t n = 0;
    while (n < left(s) && is_digit(s->p[n])) {
        n++;
    }
    return n;
}

static int64_t take_number(struct scan *s, size_t digits) {
    int64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        value = 10 * value + (*s->p++ - '0');
    }
    return value;
}

static bool take_char(struct scan *s, const char *any) {
    if (s->p < s->end && *s->p != 0 && strchr(any, *s->p) != NULL) {
        s->p++;
        return true;
    }
    return false;
}

static void skip_blanks(struct scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t')) {
        s->p++;
    }
}

struct date {
    int64_t year, month, day;
};

/* Decides which of a (first) and b (second) is the day. */
static const char *order_date(int64_t a, int64_t b, uint64_t line, struct dqn_stamp_style *style,
                              struct date *date, struct dqn_stamp *out) {
    if (style->order == DQN_DATE_YMD) {
        return "has its year last, but data.date_order is ymd";
    }
    if (style->order == DQN_DATE_AUTO && (a > 12 || b > 12)) {
        style->order = a > 12 ? DQN_DATE_DMY : DQN_DATE_MDY;
        style->order_line = line;
        out->decides = true;
    }
    out->either_order = style->order == DQN_DATE_AUTO;
    date->day = style->order == DQN_DATE_MDY ? b : a;
    date->month = style->order == DQN_DATE_MDY ? a : b;
    if (date->month > 12 && date->day <= 12 && style->order_line == 0) {
        return style->order == DQN_DATE_MDY ? "reads day first, but data.date_order is mdy"
                                            : "reads month first, but data.date_order is dmy";
    }
    if (date->month > 12 && date->day <= 12) {
        return style->order == DQN_DATE_MDY ? "reads day first, where others read month first; set "
                                              "data.date_order"
                                            : "reads month first, where others read day first; set "
                                              "data.date_order";
    }
    return NULL;
}

/* YYYY-MM-DD, YYYYMMDD, and DD.MM.YYYY or MM/DD/YYYY; marks are - / and the point. */
static const char *scan_date(struct scan *s, uint64_t line, struct dqn_stamp_style *style,
                             struct date *date, struct dqn_stamp *out) {
    const size_t n = digits_ahead(s);
    const char *problem = NULL;
    if (n == 8) {
        date->year = take_number(s, 4);
        date->month = take_number(s, 2);
        date->day = take_number(s, 2);
    } else if (n == 4) {
        date->year = take_number(s, 4);
        const char mark = s->p < s->end ? *s->p : 0;
        if (!take_char(s, "-/.") || digits_ahead(s) == 0 || digits_ahead(s) > 2) {
            return "is not a date";
        }
        date->month = take_number(s, digits_ahead(s));
        if (s->p == s->end || *s->p++ != mark || digits_ahead(s) == 0 || digits_ahead(s) > 2) {
            return "is not a date";
        }
        date->day = take_number(s, digits_ahead(s));
    } else if (n == 1 || n == 2) {
        const int64_t a = take_number(s, n);
        const char mark = s->p < s->end ? *s->p : 0;
        if (!take_char(s, "-/.") || digits_ahead(s) == 0 || digits_ahead(s) > 2) {
            return "is not a date";
        }
        const int64_t b = take_number(s, digits_ahead(s));
        if (s->p == s->end || *s->p++ != mark) {
            return "is not a date";
        }
        if (digits_ahead(s) != 4) {
            return "has a year without four digits";
        }
        date->year = take_number(s, 4);
        problem = order_date(a, b, line, style, date, out);
    } else {
        return "is not a date";
    }
    if (problem != NULL) {
        return problem;
    }
    if (date->month < 1 || date->month > 12 || date->day < 1 || date->year < 1 ||
        date->day > days_in_month(date->year, date->month)) {
        return "is not a day of the calendar";
    }
    return NULL;
}

static const char *scan_fraction(struct scan *s, int64_t *ns) {
    *ns = 0;
    if (!take_char(s, ".,")) {
        return NULL;
    }
    const size_t n = digits_ahead(s);
    if (n == 0 || n > 12) {
        return "has a fraction of a second without digits, or with more than 12";
    }
    for (size_t i = 0; i < n; i++) {
        *ns = i < 9 ? 10 * *ns + (*s->p - '0') : *ns;
        s->p++;
    }
    for (size_t i = n; i < 9; i++) {
        *ns *= 10;
    }
    return NULL;
}

/* HH:MM[:SS[.fraction]], HHMM, HHMMSS, each with AM or PM where it follows. */
static const char *scan_clock(struct scan *s, int64_t *ns) {
    const size_t n = digits_ahead(s);
    int64_t hour = 0, minute = 0, second = 0, fraction = 0;
    if (n == 6 || n == 4) {
        hour = take_number(s, 2);
        minute = take_number(s, 2);
        second = n == 6 ? take_number(s, 2) : 0;
    } else if (n == 1 || n == 2) {
        hour = take_number(s, n);
        if (!take_char(s, ":") || digits_ahead(s) != 2) {
            return "is not a time of day";
        }
        minute = take_number(s, 2);
        if (take_char(s, ":")) {
            if (digits_ahead(s) != 2) {
                return "is not a time of day";
            }
            second = take_number(s, 2);
        }
    } else {
        return "is not a time of day";
    }
    const char *const problem = scan_fraction(s, &fraction);
    if (problem != NULL) {
        return problem;
    }
    struct scan after = *s;
    skip_blanks(&after);
    if (left(&after) >= 2 && (after.p[1] == 'M' || after.p[1] == 'm') &&
        strchr("AaPp", after.p[0]) != NULL && after.p[0] != 0) {
        if (hour < 1 || hour > 12) {
            return "is not a time of day";
        }
        hour = hour % 12 + (after.p[0] == 'P' || after.p[0] == 'p' ? 12 : 0);
        s->p = after.p + 2;
    }
    if (hour > 23 || minute > 59 || second > 59) {
        return "is not a time of day";
    }
    *ns = (hour * 3600 + minute * 60 + second) * second_ns + fraction;
    return NULL;
}

/* Z, UTC, GMT, +HH, +HHMM, +HH:MM, or nothing. */
static const char *scan_offset(struct scan *s, bool *local, int64_t *offset_s) {
    skip_blanks(s);
    *local = s->p == s->end;
    *offset_s = 0;
    if (take_char(s, "Zz")) {
        return NULL;
    }
    if (left(s) == 3 && (strncasecmp(s->p, "UTC", 3) == 0 || strncasecmp(s->p, "GMT", 3) == 0)) {
        s->p += 3;
        return NULL;
    }
    const bool negative = s->p < s->end && *s->p == '-';
    if (take_char(s, "+-")) {
        const size_t n = digits_ahead(s);
        if (n != 2 && n != 4) {
            return "has an offset from UTC that is not +HH:MM";
        }
        const int64_t hours = take_number(s, 2);
        int64_t minutes = 0;
        if (n == 4) {
            minutes = take_number(s, 2);
        } else if (take_char(s, ":")) {
            if (digits_ahead(s) != 2) {
                return "has an offset from UTC that is not +HH:MM";
            }
            minutes = take_number(s, 2);
        }
        if (hours > 18 || minutes > 59) {
            return "has an offset from UTC beyond 18 hours";
        }
        *offset_s = (hours * 3600 + minutes * 60) * (negative ? -1 : 1);
    }
    return NULL;
}

static const char *check_year(int64_t ns) {
    static const int64_t first_ns = 0, end_ns = 4133980800 * 1000000000; /* 2101-01-01 */
    return ns < first_ns || ns >= end_ns ? "is outside the years 1970 to 2100" : NULL;
}

static const char *parse_text(struct scan s, const char *clock, size_t clock_n, uint64_t line,
                              struct dqn_stamp_style *style, struct dqn_stamp *out) {
    struct date date = {0, 0, 0};
    int64_t clock_ns = 0, offset_s = 0;
    const char *problem = scan_date(&s, line, style, &date, out);
    if (problem != NULL) {
        return problem;
    }
    if (date.year < first_year || date.year > last_year) {
        return "is outside the years 1970 to 2100";
    }
    out->local = true;
    if (clock != NULL) {
        if (s.p != s.end) {
            return "is followed by more text than a date";
        }
        s.p = clock;
        s.end = clock + clock_n;
    } else if (!take_char(&s, "Tt")) {
        skip_blanks(&s);
    }
    if (s.p < s.end && is_digit(*s.p)) {
        problem = scan_clock(&s, &clock_ns);
    }
    if (problem == NULL) {
        problem = scan_offset(&s, &out->local, &offset_s);
    }
    if (problem != NULL) {
        return problem;
    }
    if (s.p != s.end) {
        return "has text after the time that is not understood";
    }
    if (!out->local && out->either_order) {
        return "reads day first and month first alike; set data.date_order: dmy or mdy";
    }
    out->ns = days_of_date(date.year, date.month, date.day) * day_s * second_ns + clock_ns -
              offset_s * second_ns;
    return out->local ? NULL : check_year(out->ns);
}

/* A whole or decimal number since 1970. */
static const char *parse_epoch(struct scan s, struct dqn_stamp *out) {
    const size_t n = digits_ahead(&s);
    if (n > 19) {
        return "is outside the years 1970 to 2100";
    }
    uint64_t whole = 0;
    for (size_t i = 0; i < n; i++) {
        whole = 10 * whole + (uint64_t)(*s.p++ - '0');
    }
    const uint64_t unit = whole < 100000000000u         ? 1000000000
                          : whole < 100000000000000u    ? 1000000
                          : whole < 100000000000000000u ? 1000
                                                        : 1;
    int64_t fraction = 0;
    const char *const problem = scan_fraction(&s, &fraction);
    if (problem != NULL || s.p != s.end) {
        return "is not a time";
    }
    if (whole > (uint64_t)INT64_MAX / unit) {
        return "is outside the years 1970 to 2100";
    }
    out->ns = (int64_t)(whole * unit) + fraction / (second_ns / (int64_t)unit);
    return check_year(out->ns);
}

/* A run of digits that is a calendar date, not an epoch: YYYYMMDD and YYYYMMDDHHMMSS. The latter
 * would be a year after 2600 in milliseconds. */
static bool compact_date(const struct scan *s, size_t digits) {
    return (digits == 8 || digits == 14) && digits == left(s) &&
           (strncmp(s->p, "19", 2) == 0 || strncmp(s->p, "20", 2) == 0);
}

static const char *parse_compact(struct scan s, uint64_t line, struct dqn_stamp_style *style,
                                 struct dqn_stamp *out) {
    char spaced[16];
    memcpy(spaced, s.p, 8);
    spaced[8] = 'T';
    memcpy(spaced + 9, s.p + 8, 6);
    const struct scan whole = {spaced, spaced + 15};
    return parse_text(whole, NULL, 0, line, style, out);
}

const char *dqn_stamp_parse(const char *text, size_t n, const char *clock, size_t clock_n,
                            uint64_t line, struct dqn_stamp_style *style, struct dqn_stamp *out) {
    const struct scan s = {text, text + n};
    memset(out, 0, sizeof(*out));
    if (n == 0 || (clock != NULL && clock_n == 0)) {
        return "is empty";
    }
    if (!is_digit(*text)) {
        return *text == '-' ? "is before 1970" : "is not a time";
    }
    const size_t digits = digits_ahead(&s);
    if (clock == NULL && compact_date(&s, digits)) {
        return digits == 8 ? parse_text(s, NULL, 0, line, style, out)
                           : parse_compact(s, line, style, out);
    }
    if (clock == NULL && digits == 12 && n == 12 && strncmp(text, "20", 2) == 0) {
        return "reads as YYYYMMDDHHMM and as milliseconds alike; write it as YYYYMMDDHHMMSS";
    }
    const bool number = digits == n || (digits > 4 && text[digits] == '.');
    if (clock == NULL && number) {
        return parse_epoch(s, out);
    }
    return parse_text(s, clock, clock_n, line, style, out);
}

int64_t dqn_stamp_swap(int64_t ns) {
    const int64_t day_ns = day_s * second_ns;
    int64_t year = 0, month = 0, day = 0;
    date_of_days(ns / day_ns, &year, &month, &day);
    return days_of_date(year, day, month) * day_ns + ns % day_ns;
}

const char *dqn_stamp_text(char *text, size_t size, int64_t ns) {
    const int64_t day_ns = day_s * second_ns;
    const int64_t days = ns / day_ns - (ns % day_ns < 0 ? 1 : 0);
    const int64_t rest = ns - days * day_ns, seconds = rest / second_ns;
    int64_t year = 0, month = 0, day = 0;
    date_of_days(days, &year, &month, &day);
    const int n =
        snprintf(text, size, "%04d-%02d-%02dT%02d:%02d:%02d", (int)year, (int)month, (int)day,
                 (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
    if (rest % second_ns != 0 && n > 0 && (size_t)n < size) {
        snprintf(text + n, size - (size_t)n, ".%09d", (int)(rest % second_ns));
    }
    return text;
}
