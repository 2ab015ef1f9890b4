#include "report_parts.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "json_writer.h"

/* Replaces hyphens by minus signs and puts commas between thousands. */
static struct dqn_cell_text finish(const char *digits, bool commas, const char *unit) {
    struct dqn_cell_text text = {""};
    const size_t whole = strcspn(digits, ".e");
    size_t used = 0;
    for (size_t i = 0; digits[i] != '\0' && used + 8 < sizeof text.s; i++) {
        if (digits[i] == '-') {
            memcpy(text.s + used, "\xe2\x88\x92", 3);
            used += 3;
            continue;
        }
        const bool after_digit = i > 0 && digits[i - 1] != '-' && digits[i - 1] != '+';
        if (commas && i < whole && after_digit && (whole - i) % 3 == 0) {
            text.s[used++] = ',';
        }
        text.s[used++] = digits[i];
    }
    snprintf(text.s + used, sizeof text.s - used, "%s", unit);
    return text;
}

static struct dqn_cell_text absent(void) {
    return (struct dqn_cell_text){"n/a"};
}

/* No "-0.00". */
static double no_minus_zero(double value, int decimals) {
    return fabs(value) < 0.5 * pow(10.0, -decimals) ? 0.0 : value;
}

struct dqn_cell_text dqn_number(double value, int decimals) {
    char digits[400];
    if (!isfinite(value)) {
        return absent();
    }
    snprintf(digits, sizeof digits, fabs(value) < 1e15 ? "%.*f" : "%.*e", decimals,
             no_minus_zero(value, decimals));
    return finish(digits, true, "");
}

struct dqn_cell_text dqn_percent(double fraction, int decimals) {
    char digits[400];
    if (!isfinite(fraction)) {
        return absent();
    }
    snprintf(digits, sizeof digits, fabs(fraction) < 1e13 ? "%.*f" : "%.*e", decimals,
             no_minus_zero(100.0 * fraction, decimals));
    return finish(digits, true, "\xe2\x80\xaf%"); /* narrow space */
}

struct dqn_cell_text dqn_turnover(double value) {
    return dqn_number(value, fabs(value) < 99.95 ? 1 : 0);
}

struct dqn_cell_text dqn_money(double value) {
    return dqn_number(value, value == 0.0 || fabs(value) >= 1e3 ? 0 : 2);
}

struct dqn_cell_text dqn_short_money(double value) {
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e3, 1e3, "k"}, {0.0, 1.0, ""}};
    char digits[64];
    size_t u = 0;
    while (fabs(value) < units[u].from) {
        u++;
    }
    snprintf(digits, sizeof digits, "%.5g", value / units[u].unit);
    return finish(digits, false, units[u].name);
}

struct dqn_cell_text dqn_plain(double value) {
    char digits[64];
    if (!isfinite(value)) {
        return absent();
    }
    snprintf(digits, sizeof digits, "%.6g", value);
    return finish(digits, true, "");
}

struct dqn_cell_text dqn_count_text(uint64_t value) {
    struct dqn_cell_text text;
    dqn_format_count(text.s, sizeof text.s, value);
    return text;
}

static struct dqn_cell_text time_text(int64_t time_ns, const char *format) {
    struct dqn_cell_text text;
    const time_t seconds = (time_t)(time_ns / 1000000000);
    struct tm day;
    gmtime_r(&seconds, &day);
    strftime(text.s, sizeof text.s, format, &day);
    return text;
}

struct dqn_cell_text dqn_day_text(int64_t time_ns) {
    return time_text(time_ns, "%Y-%m-%d");
}

struct dqn_cell_text dqn_minute_text(int64_t time_ns) {
    return time_text(time_ns, "%Y-%m-%d %H:%M");
}

struct dqn_cell_text dqn_figure_text(const struct dqn_figure *figure,
                                     const struct dqn_performance *p) {
    const double value = dqn_figure_value(figure, p);
    switch (figure->unit) {
    case DQN_FIGURE_PERCENT:
        return dqn_percent(value, figure->decimals);
    case DQN_FIGURE_NUMBER:
        return dqn_number(value, figure->decimals);
    case DQN_FIGURE_TURNOVER:
        return dqn_turnover(value);
    default:
        return dqn_money(value);
    }
}

void dqn_html_text(const char *text, FILE *out) {
    while (*text != '\0') {
        const size_t length = dqn_utf8_length(text, SIZE_MAX);
        if (length == 0) {
            fputs("&#xfffd;", out);
        } else if (*text == '&') {
            fputs("&amp;", out);
        } else if (*text == '<') {
            fputs("&lt;", out);
        } else if (*text == '>') {
            fputs("&gt;", out);
        } else if (*text == '"') {
            fputs("&quot;", out);
        } else {
            fwrite(text, 1, length, out);
        }
        text += length > 0 ? length : 1;
    }
}

void dqn_html_cell(const char *key, struct dqn_cell_text text, FILE *out) {
    if (key != NULL) {
        fprintf(out, "<td data-key=\"%s\">%s</td>", key, text.s);
    } else {
        fprintf(out, "<td>%s</td>", text.s);
    }
}

void dqn_html_figure(const char *key, struct dqn_cell_text text, FILE *out) {
    fprintf(out, "<span data-key=\"%s\">%s</span>", key, text.s);
}

void dqn_html_row(const char *name, const char *key, struct dqn_cell_text text, const char *meaning,
                  FILE *out) {
    fprintf(out, "<tr><th>%s</th>", name);
    dqn_html_cell(key, text, out);
    fprintf(out, "<td class=\"why\">%s</td></tr>\n", meaning);
}

void dqn_html_head_row(const char *const *names, size_t n, FILE *out) {
    fprintf(out, "<tr>");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "<th>%s</th>", names[i]);
    }
    fprintf(out, "</tr>\n");
}
