#include "csv_header.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Names of columns, best first within a role. A name ending in '*' is a beginning. */
static const struct {
    const char *name;
    enum dqn_csv_role role;
} known_names[] = {
    {"unix", DQN_CSV_TIME},
    {"unixtimestamp", DQN_CSV_TIME},
    {"epoch", DQN_CSV_TIME},
    {"tsevent", DQN_CSV_TIME},
    {"timestamp", DQN_CSV_TIME},
    {"timestamputc", DQN_CSV_TIME},
    {"timestampms", DQN_CSV_TIME},
    {"opentime", DQN_CSV_TIME},
    {"datetime", DQN_CSV_TIME},
    {"datetimeutc", DQN_CSV_TIME},
    {"gmttime", DQN_CSV_TIME},
    {"timeutc", DQN_CSV_TIME},
    {"localtime", DQN_CSV_TIME},
    {"time(utc)", DQN_CSV_TIME},
    {"dateutc", DQN_CSV_TIME},
    {"date", DQN_CSV_TIME},
    {"day", DQN_CSV_TIME},
    {"time", DQN_CSV_TIME},
    {"ts", DQN_CSV_TIME},
    {"dt", DQN_CSV_TIME},
    {"open", DQN_CSV_OPEN},
    {"openprice", DQN_CSV_OPEN},
    {"o", DQN_CSV_OPEN},
    {"high", DQN_CSV_HIGH},
    {"highprice", DQN_CSV_HIGH},
    {"h", DQN_CSV_HIGH},
    {"low", DQN_CSV_LOW},
    {"lowprice", DQN_CSV_LOW},
    {"l", DQN_CSV_LOW},
    {"close", DQN_CSV_CLOSE},
    {"closeprice", DQN_CSV_CLOSE},
    {"c", DQN_CSV_CLOSE},
    {"adjclose", DQN_CSV_ADJUSTED},
    {"adjustedclose", DQN_CSV_ADJUSTED},
    {"closeadj", DQN_CSV_ADJUSTED},
    {"volume", DQN_CSV_VOLUME},
    {"tickvol", DQN_CSV_VOLUME},
    {"tickvolume", DQN_CSV_VOLUME},
    {"vol", DQN_CSV_VOLUME},
    {"v", DQN_CSV_VOLUME},
    {"volume*", DQN_CSV_VOLUME},
    {"spread", DQN_CSV_SPREAD},
    {"symbol", DQN_CSV_SYMBOL},
    {"ticker", DQN_CSV_SYMBOL},
    {"tic", DQN_CSV_SYMBOL},
    {"instrument", DQN_CSV_SYMBOL},
    {"pair", DQN_CSV_SYMBOL},
    {"clock", DQN_CSV_CLOCK},
};

static const char *const role_names[] = {"ignored",        "time",   "clock", "open",
                                         "high",           "low",    "close", "volume",
                                         "adjusted close", "spread", "symbol"};

void dqn_csv_plain_name(const struct dqn_cell *cell, char out[DQN_CSV_NAME_MAX]) {
    size_t k = 0;
    for (size_t i = 0; i < cell->n && k + 1 < DQN_CSV_NAME_MAX; i++) {
        const unsigned char c = (unsigned char)cell->text[i];
        if (strchr("<>_. \"'", c) == NULL) {
            out[k++] = (char)(c < 128 ? tolower(c) : '?');
        }
    }
    out[k] = 0;
}

static bool name_matches(const char *name, const char *known) {
    const size_t n = strlen(known);
    return known[n - 1] == '*' ? strncmp(name, known, n - 1) == 0 : strcmp(name, known) == 0;
}

bool dqn_csv_names_prices(const struct dqn_cell *cells, size_t n) {
    bool seen[DQN_CSV_ROLES] = {false};
    for (size_t i = 0; i < n; i++) {
        char name[DQN_CSV_NAME_MAX];
        dqn_csv_plain_name(&cells[i], name);
        for (size_t k = 0; k < DQN_COUNT_OF(known_names); k++) {
            if (name[0] != 0 && name_matches(name, known_names[k].name)) {
                seen[known_names[k].role] = true;
            }
        }
    }
    return seen[DQN_CSV_OPEN] + seen[DQN_CSV_HIGH] + seen[DQN_CSV_LOW] + seen[DQN_CSV_CLOSE] >= 2;
}

/* Whether column i counts: it belongs to the symbol wanted, or to none. */
static bool of_symbol(const struct dqn_cell *ticker, size_t i, const char *symbol) {
    return ticker == NULL || i == 0 || ticker[i].n == 0 || dqn_cell_is(&ticker[i], symbol);
}

/* The column of the best name of a role; two columns of that name are refused. */
static enum dqn_status find_role(struct dqn_csv_dialect *dialect, const char *where,
                                 const struct dqn_cell *cells, size_t n,
                                 const struct dqn_cell *ticker, const char *symbol,
                                 enum dqn_csv_role role) {
    for (size_t k = 0; k < DQN_COUNT_OF(known_names); k++) {
        int found = -1;
        for (size_t i = 0; known_names[k].role == role && i < n; i++) {
            char name[DQN_CSV_NAME_MAX];
            dqn_csv_plain_name(&cells[i], name);
            if (name[0] == 0 || !name_matches(name, known_names[k].name) ||
                !of_symbol(ticker, i, symbol)) {
                continue;
            }
            if (found >= 0 && strchr(known_names[k].name, '*') == NULL) {
                return dqn_fail(DQN_ERR_DATA,
                                "%s%zu: a second column \"%s\" (the first is column %d of the "
                                "table); keep one",
                                where, cells[i].column, name, found + 1);
            }
            found = found >= 0 ? found : (int)i;
        }
        if (found >= 0) {
            dialect->column[role] = found;
            return DQN_OK;
        }
    }
    return DQN_OK;
}

static int find_name(const struct dqn_cell *cells, size_t n, const char *wanted) {
    for (size_t i = 0; i < n; i++) {
        char name[DQN_CSV_NAME_MAX];
        dqn_csv_plain_name(&cells[i], name);
        if (strcmp(name, wanted) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* A column "time" beside the chosen "date" holds the time of day; a table whose first name is empty
 * or "Unnamed: 0", or that names no time at all in yfinance's way, has its times first. */
static void find_time(struct dqn_csv_dialect *dialect, const struct dqn_cell *cells, size_t n) {
    const int date = find_name(cells, n, "date"), time = find_name(cells, n, "time");
    if (dialect->column[DQN_CSV_TIME] == date && date >= 0 && time >= 0) {
        dialect->column[DQN_CSV_CLOCK] = time;
    }
    char first[DQN_CSV_NAME_MAX];
    dqn_csv_plain_name(&cells[0], first);
    if (dialect->column[DQN_CSV_TIME] < 0 &&
        (first[0] == 0 || strcmp(first, "unnamed:0") == 0 || strcmp(first, "index") == 0 ||
         strcmp(first, "price") == 0)) {
        dialect->column[DQN_CSV_TIME] = 0;
    }
}

enum dqn_status dqn_csv_assign(struct dqn_csv_dialect *dialect, const char *where,
                               const struct dqn_cell *cells, size_t n,
                               const struct dqn_cell *ticker, const char *symbol) {
    dialect->n_columns = n;
    for (int role = 0; role < DQN_CSV_ROLES; role++) {
        dialect->column[role] = -1;
        DQN_TRY(find_role(dialect, where, cells, n, ticker, symbol, (enum dqn_csv_role)role));
    }
    dialect->has_rtype = find_name(cells, n, "rtype") >= 0;
    find_time(dialect, cells, n);
    static const enum dqn_csv_role needed[] = {DQN_CSV_TIME, DQN_CSV_OPEN, DQN_CSV_HIGH,
                                               DQN_CSV_LOW, DQN_CSV_CLOSE};
    for (size_t i = 0; i < DQN_COUNT_OF(needed); i++) {
        if (dialect->column[needed[i]] < 0) {
            return dqn_fail(DQN_ERR_DATA,
                            "%s1: no column is named as %s; rename it, or name all columns in "
                            "data.columns",
                            where, role_names[needed[i]]);
        }
    }
    return DQN_OK;
}
