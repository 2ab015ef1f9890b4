#include "csv_dialect.h"

#include <stdio.h>
#include <string.h>

#include "csv_header.h"
#include "number_text.h"
#include "timestamps.h"

enum { SNIFF_LINES = 50, LEAST_CELLS = 5 };

static const char separators[] = {'\t', ';', '|', ','};

/* How many separators a line has outside quotes. */
static size_t count_separators(const struct dqn_line *line, char separator) {
    size_t n = 0;
    bool quoted = false;
    for (size_t i = 0; i < line->n; i++) {
        quoted = quoted != (line->text[i] == '"');
        n += !quoted && line->text[i] == separator;
    }
    return n;
}

/* How many of the lines share the commonest number (at least 4) of a separator. */
static size_t count_votes(const struct dqn_line *lines, size_t n, char separator) {
    size_t best = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t here = count_separators(&lines[i], separator);
        size_t same = 0;
        for (size_t k = 0; here >= LEAST_CELLS - 1 && k < n; k++) {
            same += count_separators(&lines[k], separator) == here;
        }
        best = same > best ? same : best;
    }
    return best;
}

/* The separator with most votes; of equals the one that numbers cannot hold. */
static enum dqn_status vote_separator(const char *path, const struct dqn_line *lines, size_t n,
                                      char *separator) {
    size_t best = 0;
    n = n < SNIFF_LINES ? n : SNIFF_LINES;
    for (size_t i = 0; i < DQN_COUNT_OF(separators); i++) {
        const size_t votes = count_votes(lines, n, separators[i]);
        if (votes > best) {
            best = votes;
            *separator = separators[i];
        }
    }
    if (best == 0) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s:%llu:1: no table found: none of , ; | and tab splits the first %zu "
                        "line%s into 5 or more cells; expected time, open, high, low, close",
                        path, (unsigned long long)lines[0].number, n, n == 1 ? "" : "s");
    }
    return DQN_OK;
}

static size_t trim_empty(const struct dqn_cell *cells, size_t n) {
    while (n > 1 && cells[n - 1].n == 0) {
        n--;
    }
    return n;
}

static bool is_stamp(const struct dqn_cell *date, const struct dqn_cell *clock) {
    struct dqn_stamp_style style = {DQN_DATE_AUTO, 0};
    struct dqn_stamp stamp;
    return dqn_stamp_parse(date->text, date->n, clock != NULL ? clock->text : NULL,
                           clock != NULL ? clock->n : 0, 0, &style, &stamp) == NULL;
}

static bool is_number(const struct dqn_cell *cell, char separator) {
    struct dqn_number_style style = {separator != ',', DQN_MARK_UNKNOWN};
    double value = 0.0;
    return dqn_number_parse(cell->text, cell->n, cell->quoted, &style, &value) == NULL;
}

static bool all_digits(const struct dqn_cell *cell) {
    for (size_t i = 0; i < cell->n; i++) {
        if (cell->text[i] < '0' || cell->text[i] > '9') {
            return false;
        }
    }
    return cell->n > 0;
}

/* What a row without header looks like. */
struct shape {
    bool stamp_first;       /* cell 0 is a time by itself */
    bool split_stamp;       /* cells 0 and 1 are date and time of day */
    bool epoch_first;       /* cell 0 is an epoch number */
    size_t numbers_from[2]; /* how many cells in a row are numbers, from cell 1 and from cell 2 */
};

static struct shape look(const struct dqn_cell *cells, size_t n, char separator) {
    struct shape shape = {false, false, false, {0, 0}};
    shape.stamp_first = is_stamp(&cells[0], NULL);
    shape.split_stamp =
        n > 1 && memchr(cells[1].text, ':', cells[1].n) != NULL && is_stamp(&cells[0], &cells[1]);
    shape.epoch_first = shape.stamp_first && all_digits(&cells[0]) && cells[0].n != 8;
    for (size_t from = 1; from <= 2; from++) {
        size_t i = from;
        while (i < n && is_number(&cells[i], separator)) {
            i++;
        }
        shape.numbers_from[from - 1] = i - from;
    }
    return shape;
}

static void place(struct dqn_csv_dialect *dialect, const char *name, size_t n, bool split) {
    snprintf(dialect->name, sizeof(dialect->name), "%s", name);
    for (int role = 0; role < DQN_CSV_ROLES; role++) {
        dialect->column[role] = -1;
    }
    const int first = split ? 2 : 1;
    dialect->n_columns = n;
    dialect->column[DQN_CSV_TIME] = 0;
    dialect->column[DQN_CSV_CLOCK] = split ? 1 : -1;
    dialect->column[DQN_CSV_OPEN] = first;
    dialect->column[DQN_CSV_HIGH] = first + 1;
    dialect->column[DQN_CSV_LOW] = first + 2;
    dialect->column[DQN_CSV_CLOSE] = first + 3;
    dialect->column[DQN_CSV_VOLUME] = first + 4;
}

/* Tables without header, by their number of columns. */
static bool recognise_bare(struct dqn_csv_dialect *dialect, const struct dqn_cell *cells, size_t n,
                           bool json) {
    const struct shape shape = look(cells, n, dialect->separator);
    if (n == 12 && shape.epoch_first && shape.numbers_from[0] >= 10 && cells[6].n == cells[0].n &&
        is_stamp(&cells[6], NULL)) {
        place(dialect, "Binance klines", n, false);
    } else if (n == 7 && shape.split_stamp && shape.numbers_from[1] >= 4) {
        place(dialect, "MetaTrader 4", n, true);
    } else if (n == 7 && shape.epoch_first && shape.numbers_from[0] == 6) {
        place(dialect, "Kraken OHLCVT", n, false);
    } else if (n == 6 && shape.stamp_first && shape.numbers_from[0] >= 4) {
        const char *const name = json                        ? "freqtrade JSON"
                                 : shape.epoch_first         ? "6 columns, epoch"
                                 : dialect->separator == ';' ? "HistData ASCII"
                                                             : "6 columns";
        place(dialect, name, n, false);
    } else {
        return false;
    }
    return true;
}

static enum dqn_status refuse_bare(const char *path, const struct dqn_line *line,
                                   const struct dqn_cell *cells, size_t n) {
    char shown[48];
    const char *known = n == 7
                            ? "7 columns are Kraken OHLCVT (epoch seconds first) or MetaTrader 4 "
                              "(date, time of day), and the first row fits neither"
                        : n == 6  ? "6 columns are time, open, high, low, close, volume, and the "
                                    "first row does not fit"
                        : n == 12 ? "12 columns are Binance klines, and the first row does not fit"
                                  : "without header 6, 7 and 12 columns are known";
    return dqn_fail(DQN_ERR_DATA,
                    "%s:%llu:1: no header with open, high, low and close, and %zu column%s from "
                    "\"%s\": %s; name the columns in data.columns",
                    path, (unsigned long long)line->number, n, dqn_plural(n),
                    dqn_cell_show(&cells[0], shown), known);
}

/* Names of header dialects, by a column that only they have. */
static void name_header(struct dqn_csv_dialect *dialect, const struct dqn_line *line,
                        const struct dqn_cell *cells, size_t n) {
    static const struct {
        const char *column, *name;
    } marks[] = {{"rtype", "Databento CSV"},     {"unix", "CryptoDataDownload"},
                 {"opentime", "Binance klines"}, {"adjclose", "Yahoo"},
                 {"tradecount", "Alpaca"},       {"per", "MetaStock ASCII"},
                 {"tickvol", "MetaTrader 5"},    {"spread", "MetaTrader 5"}};
    snprintf(dialect->name, sizeof(dialect->name), "CSV with header");
    for (size_t k = 0; k < DQN_COUNT_OF(marks); k++) {
        for (size_t i = 0; i < n; i++) {
            char name[DQN_CSV_NAME_MAX];
            dqn_csv_plain_name(&cells[i], name);
            if (strcmp(name, marks[k].column) == 0) {
                snprintf(dialect->name, sizeof(dialect->name), "%s", marks[k].name);
                return;
            }
        }
    }
    if (memchr(line->text, '<', line->n) != NULL) {
        snprintf(dialect->name, sizeof(dialect->name), "MetaStock ASCII");
    }
}

/* Adds a symbol to a list for a message, once. */
static void list_symbol(char *list, size_t size, const struct dqn_cell *cell) {
    char shown[48];
    dqn_cell_show(cell, shown);
    const size_t used = strlen(list);
    if (strstr(list, shown) == NULL && used + strlen(shown) + 3 < size) {
        snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", shown);
    }
}

/* The symbol of a yfinance table: the one in its second line, or the one asked for. */
static enum dqn_status choose_ticker(struct dqn_csv_dialect *dialect, const char *path,
                                     const struct dqn_line *line, const struct dqn_cell *ticker,
                                     size_t n, const char *wanted) {
    char list[512] = "";
    bool found = false;
    for (size_t i = 1; i < n; i++) {
        found = found || dqn_cell_is(&ticker[i], wanted);
        list_symbol(list, sizeof(list), &ticker[i]);
    }
    const bool several = strstr(list, ", ") != NULL;
    if ((several || wanted[0] != 0) && !found) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s:%llu:1: the file has the symbol%s %s; set data.symbol to %s", path,
                        (unsigned long long)line->number, several ? "s" : "", list,
                        several ? "one of them" : "it");
    }
    snprintf(dialect->symbol, sizeof(dialect->symbol), "%.60s", several ? wanted : list);
    return DQN_OK;
}

/* Lines 2 and 3 of yfinance tables: "Ticker,ABC,..." and "Date,,,". */
static enum dqn_status recognise_yfinance(struct dqn_csv_dialect *dialect, const char *path,
                                          const struct dqn_line *lines, size_t n,
                                          struct dqn_cell *ticker, bool *is,
                                          const struct dqn_config_data *config) {
    struct dqn_cell third[DQN_CSV_CELLS_MAX];
    size_t n_ticker = 0, n_third = 0;
    *is = n >= 2 && dqn_csv_split(&lines[1], dialect->separator, ticker, &n_ticker) == NULL &&
          dqn_cell_is(&ticker[0], "Ticker") && n_ticker == dialect->n_columns;
    if (!*is) {
        return DQN_OK;
    }
    DQN_TRY(choose_ticker(dialect, path, &lines[1], ticker, n_ticker, config->symbol));
    dialect->skip_lines = lines[1].number;
    if (n >= 3 && dqn_csv_split(&lines[2], dialect->separator, third, &n_third) == NULL &&
        trim_empty(third, n_third) == 1 && !is_stamp(&third[0], NULL)) {
        dialect->skip_lines = lines[2].number;
    }
    return DQN_OK;
}

static enum dqn_status recognise_header(struct dqn_csv_dialect *dialect, const char *path,
                                        const struct dqn_line *lines, size_t n,
                                        const struct dqn_cell *cells, size_t n_cells,
                                        const struct dqn_config_data *config) {
    struct dqn_cell ticker[DQN_CSV_CELLS_MAX];
    bool yfinance = false;
    char where[DQN_TEXT_MAX + 32];
    snprintf(where, sizeof(where), "%s:%llu:", path, (unsigned long long)lines[0].number);
    dialect->has_header = true;
    dialect->skip_lines = lines[0].number;
    dialect->n_columns = n_cells;
    DQN_TRY(recognise_yfinance(dialect, path, lines, n, ticker, &yfinance, config));
    DQN_TRY(
        dqn_csv_assign(dialect, where, cells, n_cells, yfinance ? ticker : NULL, dialect->symbol));
    name_header(dialect, &lines[0], cells, n_cells);
    if (yfinance) {
        snprintf(dialect->name, sizeof(dialect->name), "yfinance");
    }
    return DQN_OK;
}

/* Columns named by data.columns; a header in the file is passed over. */
static enum dqn_status use_columns(struct dqn_csv_dialect *dialect, const char *path,
                                   const struct dqn_line *line, bool header, size_t n_cells,
                                   const struct dqn_config_data *config) {
    struct dqn_cell names[DQN_LIST_MAX];
    if (config->columns.n != n_cells) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s:%llu:1: the row has %zu cell%s, but data.columns names %zu column%s",
                        path, (unsigned long long)line->number, n_cells, dqn_plural(n_cells),
                        config->columns.n, dqn_plural(config->columns.n));
    }
    for (size_t i = 0; i < config->columns.n; i++) {
        names[i].text = config->columns.v[i];
        names[i].n = strlen(config->columns.v[i]);
        names[i].column = 1;
        names[i].quoted = false;
    }
    DQN_TRY(dqn_csv_assign(dialect, "data.columns:", names, config->columns.n, NULL, ""));
    snprintf(dialect->name, sizeof(dialect->name), "columns named by data.columns");
    dialect->has_header = header;
    dialect->skip_lines = header ? line->number : line->number - 1;
    return DQN_OK;
}

enum dqn_status dqn_csv_recognise(struct dqn_csv_dialect *out, const char *path,
                                  const struct dqn_line *lines, size_t n, bool json,
                                  const struct dqn_config_data *config) {
    struct dqn_cell cells[DQN_CSV_CELLS_MAX];
    memset(out, 0, sizeof(*out));
    out->separator = ',';
    if (!json) {
        DQN_TRY(vote_separator(path, lines, n, &out->separator));
    }
    for (size_t i = 0; i < n; i++) {
        size_t n_cells = 0;
        const char *const problem = dqn_csv_split(&lines[i], out->separator, cells, &n_cells);
        n_cells = problem == NULL ? trim_empty(cells, n_cells) : 0;
        if (n_cells < LEAST_CELLS || lines[i].text[0] == '#') {
            continue; /* a title, a comment, an address */
        }
        const bool header = dqn_csv_names_prices(cells, n_cells);
        if (config->columns.n > 0) {
            return use_columns(out, path, &lines[i], header, n_cells, config);
        }
        if (header) {
            return recognise_header(out, path, lines + i, n - i, cells, n_cells, config);
        }
        out->skip_lines = lines[i].number - 1;
        return recognise_bare(out, cells, n_cells, json)
                   ? DQN_OK
                   : refuse_bare(path, &lines[i], cells, n_cells);
    }
    return dqn_fail(DQN_ERR_DATA,
                    "%s:%llu:1: no row with 5 or more cells in the first %zu lines; expected time, "
                    "open, high, low, close",
                    path, (unsigned long long)lines[0].number, n);
}

bool dqn_csv_is_header(const struct dqn_csv_dialect *dialect, const struct dqn_cell *cells,
                       size_t n, bool *same) {
    struct dqn_csv_dialect other;
    memset(&other, 0, sizeof(other));
    *same = false;
    if (!dqn_csv_names_prices(cells, n)) {
        return false;
    }
    *same = dqn_csv_assign(&other, "", cells, trim_empty(cells, n), NULL, "") == DQN_OK &&
            other.n_columns == dialect->n_columns &&
            memcmp(other.column, dialect->column, sizeof(other.column)) == 0;
    return true;
}
