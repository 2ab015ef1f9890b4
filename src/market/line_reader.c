#include "line_reader.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 2 * DQN_LINE_MAX_BYTES };

struct dqn_line_reader {
    struct dqn_byte_source *source;
    const char *path;
    char *buffer; /* [BUFFER_BYTES] */
    size_t at, n; /* unread bytes: buffer[at, n) */
    bool end;     /* the source has no more */
    bool json;
    uint64_t number; /* of the latest line */
    char *peeked;    /* copies for the caller of peek */
};

/* Formats that a text reader must not try. `magic` starts the file. */
static const struct {
    const char *magic;
    size_t n;
    const char *what;
} binary_formats[] = {
    {"\xff\xfe", 2, "UTF-16 text; save the file as UTF-8"},
    {"\xfe\xff", 2, "UTF-16 text; save the file as UTF-8"},
    {"\x89HDF\r\n\x1a\n", 8, "HDF5 behind gzip or a pipe; give the plain .h5 file"},
    {"PAR1", 4,
     "Parquet; export it to CSV, for example with pandas: "
     "read_parquet(...).to_csv(...)"},
    {"ARROW1", 6,
     "Feather; export it to CSV, for example with pandas: "
     "read_feather(...).to_csv(...)"},
    {"PK\x03\x04", 4, "a zip archive or a spreadsheet; unpack it, or save the sheet as CSV"},
    {"\x28\xb5\x2f\xfd", 4, "zstd-compressed; unpack it first (zstd -d)"},
    {"BZh", 3, "bzip2-compressed; unpack it first (bunzip2)"},
    {"\xfd"
     "7zXZ",
     5, "xz-compressed; unpack it first (unxz)"},
    {"{", 1, "a JSON object; give rows [[time, open, high, low, close, volume], ...] or CSV"},
};

/* Moves the unread bytes to the front and reads until the buffer is full or the source ends. */
static enum dqn_status fill(struct dqn_line_reader *reader) {
    memmove(reader->buffer, reader->buffer + reader->at, reader->n - reader->at);
    reader->n -= reader->at;
    reader->at = 0;
    while (!reader->end && reader->n < BUFFER_BYTES) {
        size_t got = 0;
        DQN_TRY(dqn_byte_source_read(reader->source, reader->buffer + reader->n,
                                     BUFFER_BYTES - reader->n, &got));
        reader->end = got == 0;
        reader->n += got;
    }
    return DQN_OK;
}

static enum dqn_status start(struct dqn_line_reader *reader) {
    DQN_TRY(fill(reader));
    for (size_t i = 0; i < DQN_COUNT_OF(binary_formats); i++) {
        if (reader->n >= binary_formats[i].n &&
            memcmp(reader->buffer, binary_formats[i].magic, binary_formats[i].n) == 0) {
            return dqn_fail(DQN_ERR_DATA, "%s: the file is %s", reader->path,
                            binary_formats[i].what);
        }
    }
    if (reader->n >= 3 && memcmp(reader->buffer, "\xef\xbb\xbf", 3) == 0) {
        reader->at = 3;
    }
    size_t i = reader->at;
    while (i < reader->n && strchr(" \t\r\n", reader->buffer[i]) != NULL) {
        i++;
    }
    reader->json = i < reader->n && reader->buffer[i] == '[';
    return DQN_OK;
}

enum dqn_status dqn_line_reader_create(struct dqn_line_reader **out, struct dqn_byte_source *source,
                                       const char *path) {
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_line_reader), "line reader"));
    struct dqn_line_reader *reader = memory;
    reader->source = source;
    reader->path = path;
    enum dqn_status status = dqn_alloc(&memory, BUFFER_BYTES, 1, "line buffer");
    if (status == DQN_OK) {
        reader->buffer = memory;
        status = start(reader);
    }
    if (status != DQN_OK) {
        dqn_line_reader_destroy(reader);
        return status;
    }
    *out = reader;
    return DQN_OK;
}

void dqn_line_reader_destroy(struct dqn_line_reader *reader) {
    if (reader != NULL) {
        free(reader->buffer);
        free(reader->peeked);
        free(reader);
    }
}

bool dqn_line_reader_json(const struct dqn_line_reader *reader) {
    return reader->json;
}

/* Bytes of the line end at `p` (which is LF or CR), with what follows it in view. */
static size_t line_end_bytes(const char *p, const char *end) {
    if (*p == '\n') {
        return 1;
    }
    if (end - p >= 2 && p[1] == '\n') {
        return 2;
    }
    if (end - p >= 3 && p[1] == '\r' && p[2] == '\n') {
        return 3;
    }
    return 1;
}

/* Finds a line in the buffer: its length and that of its end. False: not complete in the buffer. */
static bool scan_line(const struct dqn_line_reader *reader, size_t *length, size_t *end_bytes) {
    const char *const start_of_line = reader->buffer + reader->at;
    const char *const end = reader->buffer + reader->n;
    const char *p = start_of_line;
    while (p < end && *p != '\n' && *p != '\r') {
        p++;
    }
    *length = (size_t)(p - start_of_line);
    *end_bytes = p < end ? line_end_bytes(p, end) : 0;
    /* a CR in the last two bytes may go on in what is not read yet */
    return reader->end || (p < end && (*p == '\n' || end - p >= 3));
}

static enum dqn_status too_long(const struct dqn_line_reader *reader, const char *what) {
    return dqn_fail(
        DQN_ERR_DATA,
        "%s:%llu:1: the %s is longer than %d bytes; is this a text file of market data?",
        reader->path, (unsigned long long)reader->number + 1, what, (int)DQN_LINE_MAX_BYTES);
}

static enum dqn_status take(struct dqn_line_reader *reader, struct dqn_line *line, size_t skip,
                            size_t length, size_t whole) {
    reader->number++;
    line->text = reader->buffer + reader->at + skip;
    line->n = length;
    line->number = reader->number;
    reader->at += whole;
    const char *const zero = memchr(line->text, 0, length);
    if (zero != NULL) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s:%llu:%zu: a zero byte; the file is binary or damaged, export it as CSV",
                        reader->path, (unsigned long long)line->number,
                        (size_t)(zero - line->text) + 1);
    }
    return DQN_OK;
}

static enum dqn_status next_text(struct dqn_line_reader *reader, struct dqn_line *line,
                                 bool *found) {
    size_t length = 0, end_bytes = 0;
    if (!scan_line(reader, &length, &end_bytes)) {
        DQN_TRY(fill(reader));
        if (!scan_line(reader, &length, &end_bytes)) {
            return too_long(reader, "line");
        }
    }
    *found = length + end_bytes > 0;
    if (length > DQN_LINE_MAX_BYTES) {
        return too_long(reader, "line");
    }
    return *found ? take(reader, line, 0, length, length + end_bytes) : DQN_OK;
}

/* Finds the next innermost [...] in the buffer. */
static bool scan_row(const struct dqn_line_reader *reader, size_t *from, size_t *to, bool *any,
                     size_t *odd) {
    *any = false;
    *odd = SIZE_MAX;
    for (size_t i = reader->at; i < reader->n; i++) {
        const char c = reader->buffer[i];
        if (c == '[') {
            *any = true;
            *from = i + 1;
        } else if (c == ']' && *any) {
            *to = i;
            return true;
        } else if (!*any && *odd == SIZE_MAX && strchr(" \t\r\n,]", c) == NULL) {
            *odd = i;
        }
    }
    return reader->end && !*any;
}

static enum dqn_status next_json(struct dqn_line_reader *reader, struct dqn_line *line,
                                 bool *found) {
    size_t from = 0, to = 0, odd = SIZE_MAX;
    bool any = false;
    if (!scan_row(reader, &from, &to, &any, &odd)) {
        DQN_TRY(fill(reader));
        if (!scan_row(reader, &from, &to, &any, &odd)) {
            return any && reader->end
                       ? dqn_fail(DQN_ERR_DATA, "%s: JSON row %llu is not closed by ]",
                                  reader->path, (unsigned long long)reader->number + 1)
                       : too_long(reader, "JSON row");
        }
    }
    *found = any;
    if (odd != SIZE_MAX) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: text between JSON rows %llu and %llu; expected [[time, open, high, "
                        "low, close, volume], ...]",
                        reader->path, (unsigned long long)reader->number,
                        (unsigned long long)reader->number + 1);
    }
    return any ? take(reader, line, from - reader->at, to - from, to + 1 - reader->at) : DQN_OK;
}

enum dqn_status dqn_line_reader_next(struct dqn_line_reader *reader, struct dqn_line *line,
                                     bool *found) {
    *found = false;
    return reader->json ? next_json(reader, line, found) : next_text(reader, line, found);
}

static bool blank(const struct dqn_line *line) {
    for (size_t i = 0; i < line->n; i++) {
        if (line->text[i] != ' ' && line->text[i] != '\t') {
            return false;
        }
    }
    return true;
}

enum dqn_status dqn_line_reader_peek(struct dqn_line_reader *reader, struct dqn_line *lines,
                                     size_t max, size_t *n) {
    *n = 0;
    DQN_TRY(fill(reader));
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, reader->n + 1, 1, "first lines"));
    free(reader->peeked);
    reader->peeked = memory;
    memcpy(reader->peeked, reader->buffer, reader->n);
    const struct dqn_line_reader before = *reader;
    enum dqn_status status = DQN_OK;
    size_t from = 0, to = 0, odd = 0;
    bool any = false;
    while (*n < max && reader->at < reader->n) {
        struct dqn_line line;
        bool found = false;
        if (reader->at > 0 && !(reader->json ? scan_row(reader, &from, &to, &any, &odd)
                                             : scan_line(reader, &from, &to))) {
            break; /* the last line of the buffer goes on */
        }
        DQN_TRY_GOTO(dqn_line_reader_next(reader, &line, &found));
        if (!found) {
            break;
        }
        if (!blank(&line)) {
            line.text = reader->peeked + (line.text - reader->buffer);
            lines[(*n)++] = line;
        }
    }
done:
    reader->at = before.at;
    reader->number = before.number;
    return status;
}
