/* The bytes of a data file, front to back, once: regular files, FIFOs and /dev/stdin alike; gzip is
 * recognised by its first two bytes and unpacked. Keeps the SHA-256 of the bytes as stored, and
 * shows a progress line on a terminal for large files. */
#ifndef DQN_MARKET_BYTE_SOURCE_H
#define DQN_MARKET_BYTE_SOURCE_H

#include "../base.h"
#include "sha256.h"

struct dqn_byte_source;

/* Opens a file. `sha` (may be NULL) collects the stored bytes. Directories and unreadable files:
 * DQN_ERR_DATA. */
enum dqn_status dqn_byte_source_open(struct dqn_byte_source **out, const char *path,
                                     struct dqn_sha256 *sha);
void dqn_byte_source_close(struct dqn_byte_source *source);
/* Up to n unpacked bytes; *got = 0 at the end. A damaged or cut gzip stream: DQN_ERR_DATA. */
enum dqn_status dqn_byte_source_read(struct dqn_byte_source *source, void *out, size_t n,
                                     size_t *got);
/* Whether the stored bytes are gzip; known after the first read. */
bool dqn_byte_source_gzip(const struct dqn_byte_source *source);

#endif
