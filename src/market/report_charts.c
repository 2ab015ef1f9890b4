#include "report_charts.h"

#include <math.h>
#include <time.h>

#include "report_parts.h"

enum { WIDTH = 1000, HEIGHT = 300 };

/* ---- thinning and axes ----------------------------------------------------------------------- */

size_t dqn_thin(const double *y, size_t n, size_t points, size_t *index) {
    size_t count = 0;
    if (n <= points) {
        for (size_t i = 0; i < n; i++) {
            index[count++] = i;
        }
        return count;
    }
    const size_t stretches = (points - 2) / 2;
    index[count++] = 0;
    for (size_t s = 0; s < stretches; s++) {
        const size_t first = 1 + s * (n - 2) / stretches, end = 1 + (s + 1) * (n - 2) / stretches;
        size_t low = first, high = first;
        for (size_t i = first; i < end; i++) {
            low = y[i] < y[low] ? i : low;
            high = y[i] > y[high] ? i : high;
        }
        index[count++] = low < high ? low : high;
        if (low != high) {
            index[count++] = low < high ? high : low;
        }
    }
    index[count++] = n - 1;
    return count;
}

static double nice_step(double range) {
    const double power = pow(10.0, floor(log10(range)));
    const double x = range / power;
    return (x <= 1.0 ? 1.0 : x <= 2.0 ? 2.0 : x <= 2.5 ? 2.5 : x <= 5.0 ? 5.0 : 10.0) * power;
}

static size_t decade_ticks(double low, double high, double ticks[10]) {
    static const double finest[] = {1.0, 2.0, 3.0, 5.0, 7.0}, fine[] = {1.0, 2.0, 5.0};
    const double decades = log10(high / low);
    const double *steps = decades < 1.6 ? finest : fine;
    const int n_steps = decades < 1.6 ? 5 : decades < 3.0 ? 3 : 1;
    const int stride = decades > 8.0 ? (int)ceil(decades / 8.0) : 1;
    size_t n = 0;
    for (int p = (int)floor(log10(low)); p <= (int)ceil(log10(high)); p += stride) {
        for (int k = 0; k < n_steps; k++) {
            const double tick = steps[k] * pow(10.0, p);
            if (tick >= low && tick <= high && n < 10) {
                ticks[n++] = tick;
            }
        }
    }
    return n;
}

size_t dqn_axis_ticks(double low, double high, bool log_axis, double ticks[10]) {
    if (log_axis && high / low > 10.0) {
        return decade_ticks(low, high, ticks);
    }
    const double step = nice_step((high - low) / 5.0);
    size_t n = 0;
    for (double k = ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && n < 10; k += 1.0) {
        ticks[n++] = k * step + 0.0; /* no -0 */
    }
    return n;
}

/* Where values lie on the drawing. */
struct scale {
    double low, high;
    bool log_axis;
};

static double height_of(const struct scale *s, double y) {
    double part;
    if (s->log_axis) {
        part = y > 0.0 ? log(y / s->low) / log(s->high / s->low) : -1.0;
    } else {
        part = (y - s->low) / (s->high - s->low);
    }
    return HEIGHT * (1.0 - fmin(fmax(part, -0.5), 1.5));
}

static struct scale find_scale(const struct dqn_chart *c) {
    struct scale s = {c->low, c->high, c->log_axis};
    if (c->low == 0.0 && c->high == 0.0) {
        s.low = INFINITY;
        s.high = -INFINITY;
        for (size_t l = 0; l < c->n_lines; l++) {
            for (size_t i = 0; i < c->line[l].n; i++) {
                if (isfinite(c->line[l].y[i])) {
                    s.low = fmin(s.low, c->line[l].y[i]);
                    s.high = fmax(s.high, c->line[l].y[i]);
                }
            }
        }
        if (!(s.low <= s.high)) {
            s.low = s.high = 0.0;
        }
    }
    /* a margin, and something to see where all values are equal */
    if (s.log_axis) {
        const double margin = fmax(0.03 * log(s.high / s.low), 0.005);
        s.low *= exp(-margin);
        s.high *= exp(margin);
    } else if (c->low == 0.0 && c->high == 0.0) {
        const double margin = fmax(0.03 * (s.high - s.low), 0.002 * fmax(fabs(s.high), 1e-9));
        s.low -= margin;
        s.high += margin;
    }
    return s;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_points(const struct dqn_chart_line *line, const struct scale *s,
                        const size_t *index, size_t n, bool pen, FILE *out) {
    const double last = line->n > 1 ? (double)(line->n - 1) : 1.0;
    for (size_t i = 0; i < n; i++) {
        const double y = line->y[index[i]];
        if (!isfinite(y)) {
            pen = false;
            continue;
        }
        fprintf(out, "%c%.1f %.1f", pen ? 'L' : 'M', WIDTH * (double)index[i] / last,
                height_of(s, y));
        pen = true;
    }
}

static void draw_line(const struct dqn_chart_line *line, const struct scale *s, FILE *out) {
    size_t index[DQN_CHART_POINTS];
    const size_t n = dqn_thin(line->y, line->n, DQN_CHART_POINTS, index);
    if (line->filled) {
        const double zero = height_of(s, fmin(fmax(0.0, s->low), s->high));
        fprintf(out, "<path class=\"area %s\" d=\"M0 %.1f", line->css, zero);
        draw_points(line, s, index, n, true, out);
        fprintf(out, "L%d %.1fZ\"/>\n", WIDTH, zero);
    }
    fprintf(out, "<path class=\"line %s\" d=\"", line->css);
    draw_points(line, s, index, n, false, out);
    fprintf(out, "\"/>\n");
}

static void draw_band(const struct dqn_chart *c, const struct scale *s, FILE *out) {
    const double last = (double)(c->n_band - 1);
    fprintf(out, "<path class=\"band\" d=\"M");
    for (size_t i = 0; i < c->n_band; i++) {
        fprintf(out, "%s%.1f %.1f", i > 0 ? "L" : "", WIDTH * (double)i / last,
                height_of(s, c->band_high[i]));
    }
    for (size_t i = c->n_band; i-- > 0;) {
        fprintf(out, "L%.1f %.1f", WIDTH * (double)i / last, height_of(s, c->band_low[i]));
    }
    fprintf(out, "Z\"/>\n");
}

/* A point with a round pen keeps its shape when the drawing is stretched. */
static void draw_dots(const struct dqn_chart *c, const struct scale *s, FILE *out) {
    for (size_t i = 0; i < c->n_dots; i++) {
        fprintf(out, "<path class=\"dot %s\" d=\"M%.1f %.1fh0\"/>\n", c->dots[i].css,
                WIDTH * c->dots[i].x, height_of(s, c->dots[i].y));
    }
}

static void draw_grid(const struct dqn_chart *c, const struct scale *s, const double *ticks,
                      size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        const bool zero = ticks[i] == 0.0 && !c->log_axis;
        fprintf(out, "<path class=\"%s\" d=\"M0 %.1fH%d\"/>\n", zero ? "zero" : "grid",
                height_of(s, ticks[i]), WIDTH);
    }
}

/* A vertical line where each fold but the first begins. */
static void draw_folds(const struct dqn_chart *c, FILE *out) {
    for (size_t i = 1; i < c->n_folds; i++) {
        fprintf(out, "<path class=\"limit\" d=\"M%.1f 0V%d\"/>\n", WIDTH * c->fold_start[i],
                HEIGHT);
    }
}

/* ---- labels ---------------------------------------------------------------------------------- */

static void label_heights(const struct dqn_chart *c, const struct scale *s, const double *ticks,
                          size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        struct dqn_cell_text text;
        if (c->unit == DQN_CHART_PERCENT) {
            const double step = n > 1 ? ticks[1] - ticks[0] : 0.01;
            text = dqn_percent(ticks[i], step < 0.00099 ? 2 : step < 0.0099 ? 1 : 0);
        } else if (c->unit == DQN_CHART_MONEY) {
            text = dqn_short_money(ticks[i]);
        } else {
            text = dqn_plain(ticks[i]);
        }
        fprintf(out, "<span class=\"yl\" style=\"top:%.2f%%\">%s</span>",
                100.0 * height_of(s, ticks[i]) / HEIGHT, text.s);
    }
}

/* Numbers of at most 12 folds, each at its left end. */
static void label_folds(const struct dqn_chart *c, FILE *out) {
    const size_t every = (c->n_folds + 11) / 12;
    for (size_t i = 0; i < c->n_folds; i += every) {
        fprintf(out, "<span class=\"fl\" style=\"left:%.2f%%\">%s%zu</span>",
                100.0 * c->fold_start[i], i == 0 ? "fold " : "", i + 1);
    }
}

static void label_times(const struct dqn_chart *c, FILE *out) {
    const int64_t span = c->time_ns[c->n_times - 1] - c->time_ns[0];
    const char *format = span > 3 * 86400000000000LL ? "%Y-%m-%d" : "%m-%d %H:%M";
    fprintf(out, "<div class=\"xls\">");
    for (int k = 0; k <= 4; k++) {
        char text[32];
        struct tm day;
        const time_t at = (time_t)(c->time_ns[(size_t)k * (c->n_times - 1) / 4] / 1000000000);
        gmtime_r(&at, &day);
        strftime(text, sizeof text, format, &day);
        fprintf(out, "<span class=\"xl x%d\" style=\"left:%d%%\">%s</span>", k, 25 * k, text);
    }
    fprintf(out, "</div>\n");
}

static void write_legend(const struct dqn_chart *c, FILE *out) {
    fprintf(out, "<div class=\"legend\">");
    for (size_t i = 0; i < c->n_lines; i++) {
        if (c->line[i].name != NULL) {
            fprintf(out, "<span><i class=\"key %s\"></i>%s</span>", c->line[i].css,
                    c->line[i].name);
        }
    }
    if (c->band_name != NULL) {
        fprintf(out, "<span><i class=\"key bandkey\"></i>%s</span>", c->band_name);
    }
    fprintf(out, "</div>\n");
}

void dqn_chart_write(const struct dqn_chart *c, FILE *out) {
    double ticks[10];
    const struct scale s = find_scale(c);
    const size_t n = dqn_axis_ticks(s.low, s.high, s.log_axis, ticks);
    fprintf(out, "<figure>\n");
    write_legend(c, out);
    fprintf(out, "<div class=\"plot%s%s\">", c->tall ? " tall" : "",
            c->n_folds > 0 ? " folded" : "");
    label_heights(c, &s, ticks, n, out);
    label_folds(c, out);
    fprintf(out,
            "\n<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
            "aria-label=\"%s\">\n",
            WIDTH, HEIGHT, c->title);
    draw_grid(c, &s, ticks, n, out);
    draw_folds(c, out);
    if (c->band_name != NULL) {
        draw_band(c, &s, out);
    }
    /* the first line is the agent's: on top */
    for (size_t i = c->n_lines; i-- > 0;) {
        draw_line(&c->line[i], &s, out);
    }
    draw_dots(c, &s, out);
    fprintf(out, "</svg></div>\n");
    label_times(c, out);
    fprintf(out, "<figcaption>%s</figcaption>\n</figure>\n", c->note);
}
