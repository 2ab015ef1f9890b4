/* A sealed file starts with 512 bytes of text: a magic line, the file's length, and the SHA-256 of
 * everything after these bytes. One look tells whether the file is complete and unaltered, before
 * any parser sees it. The block is what HDF5 calls a user block, so HDF5 tools read the file as
 * it is. */
#ifndef DQN_SEALED_FILE_H
#define DQN_SEALED_FILE_H

#include "base.h"
#include "file_ops.h"

enum { DQN_SEAL_BYTES = 512 };
#define DQN_SEAL_MAGIC "DQN-TRAIN CHECKPOINT 1\n"

/* Computes length and digest of the open file and writes the seal into its first bytes.
 * DQN_ERR_DISK; `path` is for messages. */
enum dqn_status dqn_seal_write(const struct dqn_file_ops *ops, int fd, const char *path);

/* DQN_OK when the file is sealed and unaltered. DQN_ERR_DISK when it cannot be read;
 * DQN_ERR_CHECKPOINT, saying how, when it is no checkpoint, cut short, or altered. */
enum dqn_status dqn_seal_verify(const char *path);

/* Whether the file starts with the magic line. */
bool dqn_seal_has_magic(const char *path);

#endif
