#include "csv_cells.h"

#include <string.h>

static bool is_blank(char c, char separator) {
    return (c == ' ' || c == '\t') && c != separator;
}

/* Reads the quoted cell at p; returns where it ends, or NULL. */
static const char *quoted_cell(const char *p, const char *end, struct dqn_cell *cell) {
    cell->quoted = true;
    cell->text = p + 1;
    for (p++; p < end; p++) {
        if (*p != '"') {
            continue;
        }
        if (p + 1 < end && p[1] == '"') {
            p++;
            continue;
        }
        cell->n = (size_t)(p - cell->text);
        return p + 1;
    }
    return NULL;
}

static void trim(struct dqn_cell *cell) {
    while (cell->n > 0 && (*cell->text == ' ' || *cell->text == '\t')) {
        cell->text++;
        cell->n--;
    }
    while (cell->n > 0 && (cell->text[cell->n - 1] == ' ' || cell->text[cell->n - 1] == '\t')) {
        cell->n--;
    }
}

const char *dqn_csv_split(const struct dqn_line *line, char separator, struct dqn_cell *cells,
                          size_t *n) {
    const char *p = line->text, *const end = line->text + line->n;
    *n = 0;
    for (;;) {
        if (*n == DQN_CSV_CELLS_MAX) {
            (*n)--;
            return "is the 257th of the line; 256 are the limit";
        }
        struct dqn_cell *const cell = &cells[*n];
        while (p < end && is_blank(*p, separator)) {
            p++;
        }
        cell->column = (size_t)(p - line->text) + 1;
        cell->quoted = false;
        if (p < end && *p == '"') {
            p = quoted_cell(p, end, cell);
            if (p == NULL) {
                cell->text = line->text + cell->column - 1;
                cell->n = (size_t)(end - cell->text);
                return "has an opening quote but no closing one on its line";
            }
            while (p < end && is_blank(*p, separator)) {
                p++;
            }
            if (p < end && *p != separator) {
                return "has text after its closing quote";
            }
        } else {
            cell->text = p;
            while (p < end && *p != separator) {
                p++;
            }
            cell->n = (size_t)(p - cell->text);
        }
        trim(cell);
        (*n)++;
        if (p == end) {
            return NULL;
        }
        p++;
    }
}

bool dqn_cell_is(const struct dqn_cell *cell, const char *word) {
    return cell->n == strlen(word) && memcmp(cell->text, word, cell->n) == 0;
}

const char *dqn_cell_show(const struct dqn_cell *cell, char text[48]) {
    const size_t n = cell->n < 40 ? cell->n : 40;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)cell->text[i];
        text[i] = c >= 32 && c < 127 ? (char)c : '?';
    }
    strcpy(text + n, cell->n > 40 ? "..." : "");
    return text;
}
