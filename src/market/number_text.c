#include "number_text.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* strtod in the C locale, for what the short way cannot do exactly. `text` is checked to be
 * digits, one point and an exponent. */
static const char *parse_slowly(const char *text, size_t n, double *out) {
    char copy[512];
    if (n >= sizeof(copy)) {
        return "is a number of more than 500 characters";
    }
    memcpy(copy, text, n);
    copy[n] = 0;
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return "cannot be read: the C locale is missing";
    }
    *out = strtod_l(copy, NULL, c_locale);
    freelocale(c_locale);
    return isfinite(*out) ? NULL : "is beyond the largest number";
}

/* The digits of [sign] digits [mark digits] [e exponent]. */
struct decimal {
    uint64_t mantissa;
    int n_digits;   /* significant ones */
    int after_mark; /* digits after the mark */
    int exponent;
    bool negative;
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static const char *scan_exponent(const char *p, const char *end, int *exponent) {
    bool negative = false;
    if (p < end && (*p == '+' || *p == '-')) {
        negative = *p == '-';
        p++;
    }
    if (p == end) {
        return NULL;
    }
    int value = 0;
    for (; p < end && is_digit(*p); p++) {
        value = value < 100000 ? 10 * value + (*p - '0') : value;
    }
    *exponent = negative ? -value : value;
    return p;
}

static bool scan_decimal(const char *text, size_t n, struct decimal *d) {
    const char *p = text, *const end = text + n;
    memset(d, 0, sizeof(*d));
    if (p < end && (*p == '-' || *p == '+')) {
        d->negative = *p == '-';
        p++;
    }
    bool mark = false, any = false;
    for (; p < end; p++) {
        if (is_digit(*p)) {
            any = true;
            d->n_digits += d->n_digits > 0 || *p != '0';
            d->mantissa = d->n_digits <= 19 ? 10 * d->mantissa + (uint64_t)(*p - '0') : 0;
            d->after_mark += mark;
        } else if (*p == '.' && !mark) {
            mark = true;
        } else {
            break;
        }
    }
    if (any && p < end && (*p == 'e' || *p == 'E')) {
        p = scan_exponent(p + 1, end, &d->exponent);
    }
    return any && p == end;
}

/* Exact where mantissa and power of ten are (Clinger 1990, "How to read floating point numbers
 * accurately"): one rounding in all. */
static const char *parse_plain(const char *text, size_t n, double *out) {
    struct decimal d;
    if (!scan_decimal(text, n, &d)) {
        return "is not a number";
    }
    const int power = d.exponent - d.after_mark;
    if (d.n_digits > 19 || d.mantissa > ((uint64_t)1 << 53) || power < -22 || power > 22) {
        return parse_slowly(text, n, out);
    }
    const double m = (double)d.mantissa;
    const double value = power < 0 ? m / powers_of_ten[-power] : m * powers_of_ten[power];
    *out = d.negative ? -value : value;
    return NULL;
}

/* Copies a number without its thousands separators, which must stand before groups of three
 * digits; `mark` becomes a point. */
static const char *ungroup(const char *text, size_t n, char separator, char mark, char *copy,
                           size_t size, size_t *copy_n) {
    size_t k = 0, run = 0;
    bool grouped = false, after_mark = false;
    for (size_t i = 0; i <= n; i++) {
        const char c = i < n ? text[i] : mark;
        if (k + 1 >= size) {
            return "is a number of more than 500 characters";
        }
        if (is_digit(c)) {
            run++;
            copy[k++] = c;
            continue;
        }
        if (!after_mark && (c == separator || c == mark)) {
            if (grouped ? run != 3 : (c == separator && (run < 1 || run > 3))) {
                return "has thousands separators in the wrong places";
            }
            grouped = grouped || c == separator;
            after_mark = c == mark;
            run = 0;
            if (c == mark && i < n) {
                copy[k++] = '.';
            }
        } else if (i < n) {
            copy[k++] = c;
        }
    }
    *copy_n = k;
    return NULL;
}

/* Numbers that hold a comma. */
static const char *parse_with_comma(const char *text, size_t n, bool quoted,
                                    struct dqn_number_style *style, double *out) {
    const char *const comma = memchr(text, ',', n);
    const char *const point = memchr(text, '.', n);
    const bool thousands = quoted && (point != NULL ? point > comma : !style->comma_allowed);
    char copy[512];
    size_t copy_n = 0;
    const char *problem = NULL;
    if (thousands) {
        if (style->mark == DQN_MARK_COMMA) {
            return "has a decimal point, but earlier numbers have decimal commas";
        }
        style->mark = DQN_MARK_POINT;
        problem = ungroup(text, n, ',', '.', copy, sizeof(copy), &copy_n);
    } else if (!style->comma_allowed) {
        return "is not a number";
    } else {
        if (style->mark == DQN_MARK_POINT) {
            return "has a decimal comma, but earlier numbers have decimal points";
        }
        style->mark = DQN_MARK_COMMA;
        problem = ungroup(text, n, '.', ',', copy, sizeof(copy), &copy_n);
    }
    return problem != NULL ? problem : parse_plain(copy, copy_n, out);
}

static const char *parse_with_point(const char *text, size_t n, struct dqn_number_style *style,
                                    double *out) {
    if (style->mark != DQN_MARK_COMMA) {
        style->mark = DQN_MARK_POINT;
        return parse_plain(text, n, out);
    }
    char copy[512];
    size_t copy_n = 0;
    const char *const problem = ungroup(text, n, '.', ',', copy, sizeof(copy), &copy_n);
    if (problem != NULL) {
        return "has a decimal point, but earlier numbers have decimal commas";
    }
    return parse_plain(copy, copy_n, out);
}

/* What tables write where a number is missing. */
static const char *missing_word(const char *text, size_t n) {
    static const char *const words[] = {"nan", "null",      "none", "n/a",  "na",
                                        "-",   "#n/a",      "nil",  "<na>", "nat",
                                        "--",  "undefined", "-nan", "#na",  "missing"};
    static const char *const infinities[] = {"inf", "-inf", "+inf", "infinity", "-infinity"};
    for (size_t i = 0; i < DQN_COUNT_OF(words); i++) {
        if (n == strlen(words[i]) && strncasecmp(text, words[i], n) == 0) {
            return "stands for a missing number";
        }
    }
    for (size_t i = 0; i < DQN_COUNT_OF(infinities); i++) {
        if (n == strlen(infinities[i]) && strncasecmp(text, infinities[i], n) == 0) {
            return "is not finite";
        }
    }
    return "is not a number";
}

const char *dqn_number_parse(const char *text, size_t n, bool quoted,
                             struct dqn_number_style *style, double *out) {
    if (n == 0) {
        return "is empty";
    }
    const char *problem = NULL;
    if (memchr(text, ',', n) != NULL) {
        problem = parse_with_comma(text, n, quoted, style, out);
    } else if (memchr(text, '.', n) != NULL) {
        problem = parse_with_point(text, n, style, out);
    } else {
        problem = parse_plain(text, n, out);
    }
    return problem != NULL && strcmp(problem, "is not a number") == 0 ? missing_word(text, n)
                                                                      : problem;
}
