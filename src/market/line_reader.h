/* Lines of a text source. A line ends at LF, CR, CR LF or CR CR LF; the last one need not end. A
 * byte order mark is taken off; UTF-16, zero bytes and lines above 1 MB are refused. The first
 * lines can be looked at before they are read, to recognise what the file holds. */
#ifndef DQN_MARKET_LINE_READER_H
#define DQN_MARKET_LINE_READER_H

#include "byte_source.h"

enum { DQN_LINE_MAX_BYTES = 1 << 20 };

struct dqn_line {
    const char *text; /* not zero-terminated; valid until the next line is read */
    size_t n;
    uint64_t number; /* from 1 */
};

struct dqn_line_reader;

/* `path` names the file in messages and must outlive the reader. */
enum dqn_status dqn_line_reader_create(struct dqn_line_reader **out, struct dqn_byte_source *source,
                                       const char *path);
void dqn_line_reader_destroy(struct dqn_line_reader *reader);
/* Whether the text starts with "[" (after blanks): JSON rows. Then each "line" is the inside of an
 * innermost pair of brackets, and its number counts rows. */
bool dqn_line_reader_json(const struct dqn_line_reader *reader);
/* The next line; *found = false at the end. */
enum dqn_status dqn_line_reader_next(struct dqn_line_reader *reader, struct dqn_line *line,
                                     bool *found);
/* Copies up to `max` coming lines that are not blank, as far as the first megabyte goes, without
 * reading them: the next dqn_line_reader_next gives the first line again. The copies live as long
 * as the reader. */
enum dqn_status dqn_line_reader_peek(struct dqn_line_reader *reader, struct dqn_line *lines,
                                     size_t max, size_t *n);

#endif
