#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bars_read.h"
#include "csv_dialect.h"
#include "number_text.h"

enum { PEEK_LINES = 64, SYMBOLS_MAX = 12 };

struct csv_reader {
    const struct dqn_config_data *config;
    const char *path;
    uint64_t file_bits;
    struct dqn_csv_dialect dialect;
    struct dqn_number_style numbers;
    struct dqn_stamp_style stamps;
    struct dqn_raw_rows *rows;
    bool has[DQN_RAW_COLUMNS];
    bool first_row_read;
    bool json;
    double price_unit;   /* 1, or 1e-9 for raw Databento integers */
    bool no_volume;      /* the volume column is there, but its cells are empty */
    uint64_t first_line; /* of the data */
    size_t n_symbols;
    char symbols[SYMBOLS_MAX][48];
    struct dqn_cell cells[DQN_CSV_CELLS_MAX];
    size_t n_cells;
};

static const int role_of_column[DQN_RAW_COLUMNS] = {DQN_CSV_OPEN,  DQN_CSV_HIGH,   DQN_CSV_LOW,
                                                    DQN_CSV_CLOSE, DQN_CSV_VOLUME, DQN_CSV_ADJUSTED,
                                                    DQN_CSV_SPREAD};

/* "path:12:5: " or, for JSON, "path: row 12, character 5: " before a message. */
static enum dqn_status bad_place(const struct csv_reader *reader, uint64_t line, size_t column,
                                 const char *message) {
    return reader->json ? dqn_fail(DQN_ERR_DATA, "%s: row %llu, character %zu: %s", reader->path,
                                   (unsigned long long)line, column, message)
                        : dqn_fail(DQN_ERR_DATA, "%s:%llu:%zu: %s", reader->path,
                                   (unsigned long long)line, column, message);
}

static enum dqn_status bad_cell(const struct csv_reader *reader, uint64_t line,
                                const struct dqn_cell *cell, const char *what, const char *problem,
                                const char *remedy) {
    char shown[48], message[512];
    snprintf(message, sizeof(message), "%s \"%s\" %s%s%s", what, dqn_cell_show(cell, shown),
             problem, remedy[0] != 0 ? "; " : "", remedy);
    return bad_place(reader, line, cell->column, message);
}

/* The cell of a role; NULL when the table has none. */
static const struct dqn_cell *cell_of(const struct csv_reader *reader, int role) {
    const int i = reader->dialect.column[role];
    return i >= 0 && (size_t)i < reader->n_cells ? &reader->cells[i] : NULL;
}

/* Empty cells past the table's width do not count; any other difference is an error. */
static enum dqn_status check_width(const struct csv_reader *reader, uint64_t line) {
    size_t n = reader->n_cells;
    while (n > reader->dialect.n_columns && reader->cells[n - 1].n == 0) {
        n--;
    }
    if (n == reader->dialect.n_columns) {
        return DQN_OK;
    }
    char message[200];
    snprintf(message, sizeof(message),
             "the row has %zu cell%s where the table has %zu columns; correct the row%s", n,
             dqn_plural(n), reader->dialect.n_columns,
             reader->dialect.separator == ',' && n > reader->dialect.n_columns
                 ? " (decimal commas need ; or tab between cells)"
                 : "");
    return bad_place(reader, line, n > 0 ? reader->cells[n - 1].column : 1, message);
}

/* Notes a row's symbol. *wanted: whether the row is read. */
static void see_symbol(struct csv_reader *reader, bool *wanted) {
    const struct dqn_cell *const cell = cell_of(reader, DQN_CSV_SYMBOL);
    *wanted = true;
    if (cell == NULL) {
        return;
    }
    char shown[48];
    dqn_cell_show(cell, shown);
    const char *const asked = reader->config->symbol;
    bool known = false;
    for (size_t i = 0; i < reader->n_symbols && !known; i++) {
        known = strcmp(reader->symbols[i], shown) == 0;
    }
    if (!known && reader->n_symbols < SYMBOLS_MAX) {
        strcpy(reader->symbols[reader->n_symbols++], shown);
    }
    *wanted = asked[0] != 0 ? dqn_cell_is(cell, asked) : reader->n_symbols == 1;
}

static enum dqn_status check_symbols(struct csv_reader *reader) {
    const char *const asked = reader->config->symbol;
    struct dqn_bars_info *const info = &reader->rows->info;
    if (reader->n_symbols == 0) {
        const char *const name = reader->dialect.symbol[0] != 0 ? reader->dialect.symbol : asked;
        snprintf(info->symbol, sizeof(info->symbol), "%.63s", name);
        return DQN_OK;
    }
    char list[SYMBOLS_MAX * 50] = "";
    for (size_t i = 0; i < reader->n_symbols; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "", reader->symbols[i]);
    }
    if (reader->n_symbols > 1 && asked[0] == 0) {
        return dqn_fail(DQN_ERR_DATA, "%s: the file has %s%zu symbols: %s; set data.symbol to one",
                        reader->path, reader->n_symbols == SYMBOLS_MAX ? "at least " : "",
                        reader->n_symbols, list);
    }
    if (asked[0] != 0 && reader->rows->n == 0) {
        return dqn_fail(DQN_ERR_DATA, "%s: no row of data.symbol = \"%s\"; the file has %s",
                        reader->path, asked, list);
    }
    snprintf(info->symbol, sizeof(info->symbol), "%.63s", asked[0] ? asked : reader->symbols[0]);
    return DQN_OK;
}

/* A first stamp of 20000 to 79999 "seconds" is a day number of the years 1954 to 2119. */
static bool is_day_number(const struct dqn_stamp *stamp) {
    const int64_t second_ns = 1000000000;
    return !stamp->local && stamp->ns >= 20000 * second_ns && stamp->ns < 80000 * second_ns;
}

static enum dqn_status read_stamp(struct csv_reader *reader, uint64_t line,
                                  struct dqn_raw_row *row) {
    const struct dqn_cell *const date = cell_of(reader, DQN_CSV_TIME);
    const struct dqn_cell *const clock = cell_of(reader, DQN_CSV_CLOCK);
    struct dqn_stamp stamp;
    const char *const problem =
        dqn_stamp_parse(date->text, date->n, clock != NULL ? clock->text : NULL,
                        clock != NULL ? clock->n : 0, line, &reader->stamps, &stamp);
    if (problem != NULL) {
        struct dqn_stamp_style style = reader->stamps;
        struct dqn_stamp date_only;
        const bool in_clock = clock != NULL && dqn_stamp_parse(date->text, date->n, NULL, 0, line,
                                                               &style, &date_only) == NULL;
        return bad_cell(reader, line, in_clock ? clock : date, in_clock ? "time of day" : "time",
                        problem, strchr(problem, ';') != NULL ? "" : "correct or remove the row");
    }
    if (!reader->first_row_read && is_day_number(&stamp)) {
        return bad_cell(reader, line, date, "time", "looks like a spreadsheet's day number",
                        "format the column as dates before saving as CSV");
    }
    row->time_ns = stamp.ns;
    row->origin = reader->file_bits | line | (stamp.local ? DQN_RAW_LOCAL : 0) |
                  (stamp.either_order ? DQN_RAW_EITHER_ORDER : 0);
    return DQN_OK;
}

/* A word for a missing number, or an empty cell. */
static bool is_missing(const struct dqn_cell *cell) {
    struct dqn_number_style style = {true, DQN_MARK_UNKNOWN};
    double value = 0.0;
    const char *const problem = dqn_number_parse(cell->text, cell->n, cell->quoted, &style, &value);
    return problem != NULL &&
           (strcmp(problem, "is empty") == 0 || strstr(problem, "missing number") != NULL);
}

static bool prices_missing(const struct csv_reader *reader) {
    for (int c = DQN_RAW_OPEN; c <= DQN_RAW_CLOSE; c++) {
        if (!is_missing(cell_of(reader, role_of_column[c]))) {
            return false;
        }
    }
    return true;
}

static enum dqn_status read_number(struct csv_reader *reader, uint64_t line,
                                   enum dqn_raw_column column, double *out) {
    const struct dqn_cell *const cell = cell_of(reader, role_of_column[column]);
    const char *const problem =
        dqn_number_parse(cell->text, cell->n, cell->quoted, &reader->numbers, out);
    if (problem == NULL) {
        return DQN_OK;
    }
    const bool skip_helps = column <= DQN_RAW_CLOSE && prices_missing(reader);
    return bad_cell(reader, line, cell, dqn_raw_column_name(column), problem,
                    skip_helps ? "all four prices are missing: remove the row, or set "
                                 "data.empty_rows: skip"
                               : "correct or remove the row");
}

/* Volume cells are all filled or all empty. */
static enum dqn_status read_volume(struct csv_reader *reader, uint64_t line, double *out) {
    const struct dqn_cell *const cell = cell_of(reader, DQN_CSV_VOLUME);
    if (!reader->first_row_read) {
        reader->no_volume = cell->n == 0;
    }
    if (reader->no_volume) {
        return cell->n == 0 ? DQN_OK
                            : bad_cell(reader, line, cell, "volume",
                                       "appears here, but the rows before have none",
                                       "give all rows a volume, or none");
    }
    return read_number(reader, line, DQN_RAW_VOLUME, out);
}

/* Raw Databento prices: a header with rtype, and four whole numbers above 10^7. */
static void detect_raw_integers(struct csv_reader *reader, const struct dqn_raw_row *row) {
    reader->price_unit = 1.0;
    if (!reader->dialect.has_rtype) {
        return;
    }
    for (int c = DQN_RAW_OPEN; c <= DQN_RAW_CLOSE; c++) {
        const struct dqn_cell *const cell = cell_of(reader, role_of_column[c]);
        if (!(row->value[c] > 1e7) || memchr(cell->text, '.', cell->n) != NULL) {
            return;
        }
    }
    reader->price_unit = 1e-9;
    snprintf(reader->dialect.name, sizeof(reader->dialect.name), "Databento CSV, raw prices");
}

static enum dqn_status read_values(struct csv_reader *reader, uint64_t line,
                                   struct dqn_raw_row *row) {
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        row->value[c] = 0.0;
        if (!reader->has[c]) {
            continue;
        }
        if (c == DQN_RAW_VOLUME) {
            DQN_TRY(read_volume(reader, line, &row->value[c]));
        } else {
            DQN_TRY(read_number(reader, line, (enum dqn_raw_column)c, &row->value[c]));
        }
    }
    if (!reader->first_row_read) {
        detect_raw_integers(reader, row);
    }
    for (int c = DQN_RAW_OPEN; c <= DQN_RAW_CLOSE && reader->price_unit != 1.0; c++) {
        row->value[c] /= 1e9;
    }
    return DQN_OK;
}

static enum dqn_status read_row(struct csv_reader *reader, uint64_t line) {
    struct dqn_raw_row row;
    bool widened = false;
    enum dqn_raw_column column = DQN_RAW_OPEN;
    char text[256];
    DQN_TRY(read_stamp(reader, line, &row));
    if (reader->config->empty_rows == DQN_EMPTY_ROWS_SKIP && prices_missing(reader)) {
        reader->rows->info.n_empty++;
        return DQN_OK;
    }
    DQN_TRY(read_values(reader, line, &row));
    const char *const problem =
        dqn_raw_check(&row, reader->has, reader->config->ohlc_repair == DQN_REPAIR_WIDEN, &widened,
                      &column, text, sizeof(text));
    if (problem != NULL) {
        return bad_place(reader, line, cell_of(reader, role_of_column[column])->column, problem);
    }
    if (reader->has[DQN_RAW_HALF_SPREAD]) {
        row.value[DQN_RAW_HALF_SPREAD] *= 0.5 * reader->config->point / row.value[DQN_RAW_CLOSE];
    }
    reader->rows->info.n_repaired += widened;
    reader->first_row_read = true;
    return dqn_raw_push(reader->rows, &row);
}

/* A header again, where files were joined: passed over when it names the same columns. */
static enum dqn_status read_header_again(const struct csv_reader *reader, uint64_t line, bool *is) {
    bool same = false;
    *is = dqn_csv_is_header(&reader->dialect, reader->cells, reader->n_cells, &same);
    if (*is && !same) {
        return bad_place(reader, line, 1,
                         "a header with other columns than the rows before; give the parts as "
                         "separate files");
    }
    return DQN_OK;
}

static bool starts_like_data(const struct csv_reader *reader) {
    const struct dqn_cell *const open = cell_of(reader, DQN_CSV_OPEN);
    const struct dqn_cell *const close = cell_of(reader, DQN_CSV_CLOSE);
    return open != NULL && close != NULL && open->n > 0 &&
           strchr("0123456789.", open->text[0]) != NULL && close->n > 0 &&
           strchr("0123456789.", close->text[0]) != NULL;
}

static enum dqn_status read_line(struct csv_reader *reader, const struct dqn_line *line) {
    const char *const problem =
        dqn_csv_split(line, reader->dialect.separator, reader->cells, &reader->n_cells);
    if (problem != NULL) {
        return bad_cell(reader, line->number, &reader->cells[reader->n_cells], "the cell", problem,
                        "correct the row");
    }
    if (reader->n_cells == 1 && reader->cells[0].n == 0) {
        return DQN_OK; /* a blank line */
    }
    if (!starts_like_data(reader)) {
        bool header = false;
        DQN_TRY(read_header_again(reader, line->number, &header));
        if (header) {
            return DQN_OK;
        }
    }
    bool wanted = true;
    DQN_TRY(check_width(reader, line->number));
    see_symbol(reader, &wanted);
    return wanted ? read_row(reader, line->number) : DQN_OK;
}

/* Which columns the rows get. */
static enum dqn_status start_rows(struct csv_reader *reader) {
    const struct dqn_csv_dialect *const dialect = &reader->dialect;
    for (int c = 0; c < DQN_RAW_COLUMNS; c++) {
        reader->has[c] = dialect->column[role_of_column[c]] >= 0;
    }
    if (reader->has[DQN_RAW_HALF_SPREAD] && reader->config->point == 0.0) {
        reader->rows->info.spread_unused = true;
        reader->has[DQN_RAW_HALF_SPREAD] = false;
    }
    reader->has[DQN_RAW_ADJUSTED] =
        reader->has[DQN_RAW_ADJUSTED] && reader->config->adjust == DQN_ADJUST_AUTO;
    reader->numbers.comma_allowed = dialect->separator != ',';
    reader->stamps.order = reader->config->date_order;
    return dqn_raw_start(reader->rows, reader->has);
}

static enum dqn_status read_all(struct csv_reader *reader, struct dqn_line_reader *lines) {
    struct dqn_line head[PEEK_LINES], line;
    size_t n_head = 0;
    bool found = true;
    DQN_TRY(dqn_line_reader_peek(lines, head, PEEK_LINES, &n_head));
    if (n_head == 0) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: the file is empty; expected rows of time, open, high, "
                        "low, close",
                        reader->path);
    }
    reader->json = dqn_line_reader_json(lines);
    DQN_TRY(dqn_csv_recognise(&reader->dialect, reader->path, head, n_head, reader->json,
                              reader->config));
    DQN_TRY(start_rows(reader));
    reader->rows->unit = reader->json ? "row " : "";
    for (;;) {
        DQN_TRY(dqn_line_reader_next(lines, &line, &found));
        if (!found) {
            break;
        }
        if (line.number > reader->dialect.skip_lines) {
            DQN_TRY(read_line(reader, &line));
        }
    }
    DQN_TRY(check_symbols(reader));
    if (reader->no_volume) {
        dqn_raw_drop(reader->rows, DQN_RAW_VOLUME);
    }
    snprintf(reader->rows->info.dialect, sizeof(reader->rows->info.dialect), "%s",
             reader->dialect.name);
    return dqn_raw_settle_times(reader->rows, &reader->stamps, reader->config->timezone);
}

enum dqn_status dqn_read_csv(struct dqn_raw_rows *rows, struct dqn_byte_source *source, size_t file,
                             const struct dqn_config_data *config) {
    void *memory = NULL;
    struct dqn_line_reader *lines = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct csv_reader), "CSV reader"));
    struct csv_reader *const reader = memory;
    reader->config = config;
    reader->path = rows->paths[file];
    reader->file_bits = (uint64_t)file << DQN_RAW_FILE_SHIFT;
    reader->rows = rows;
    enum dqn_status status = dqn_line_reader_create(&lines, source, reader->path);
    if (status == DQN_OK) {
        status = read_all(reader, lines);
    }
    dqn_line_reader_destroy(lines);
    free(reader);
    return status;
}
