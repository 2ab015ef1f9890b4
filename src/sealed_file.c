#include "sealed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK_BYTES = 1 << 20, DIGEST_BYTES = 32 };

static const struct dqn_file_ops *or_system(const struct dqn_file_ops *ops) {
    return ops != NULL ? ops : &dqn_file_ops_system;
}

static enum dqn_status read_failed(const char *path) {
    return dqn_fail(DQN_ERR_DISK, "%s: reading failed: %s", path, strerror(errno));
}

/* Digest of everything after the seal, and the file's length. */
static enum dqn_status digest_file(const struct dqn_file_ops *ops, int fd, const char *path,
                                   unsigned char digest[DIGEST_BYTES], uint64_t *length) {
    enum dqn_status status = DQN_OK;
    void *block = NULL;
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    DQN_TRY_GOTO(dqn_alloc(&block, 1, BLOCK_BYTES, "block of a checksum"));
    if (sha == NULL || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1) {
        status = dqn_fail(DQN_ERR_INTERNAL, "libcrypto cannot start a SHA-256");
        goto done;
    }
    off_t at = DQN_SEAL_BYTES;
    for (;;) {
        const ssize_t n = dqn_file_read_at(ops, fd, block, BLOCK_BYTES, at);
        if (n < 0) {
            status = read_failed(path);
            goto done;
        }
        if (n == 0) {
            break;
        }
        if (EVP_DigestUpdate(sha, block, (size_t)n) != 1) {
            status = dqn_fail(DQN_ERR_INTERNAL, "libcrypto failed inside a SHA-256");
            goto done;
        }
        at += n;
    }
    if (EVP_DigestFinal_ex(sha, digest, NULL) != 1) {
        status = dqn_fail(DQN_ERR_INTERNAL, "libcrypto cannot end a SHA-256");
        goto done;
    }
    *length = (uint64_t)at;
done:
    EVP_MD_CTX_free(sha);
    free(block);
    return status;
}

/* The seal's one spelling: text, then zeros. */
static void format_seal(char seal[DQN_SEAL_BYTES], const unsigned char digest[DIGEST_BYTES],
                        uint64_t length) {
    memset(seal, 0, DQN_SEAL_BYTES);
    int n =
        snprintf(seal, DQN_SEAL_BYTES, "%slength %020" PRIu64 "\nsha256 ", DQN_SEAL_MAGIC, length);
    for (int i = 0; i < DIGEST_BYTES; i++) {
        n += snprintf(seal + n, (size_t)(DQN_SEAL_BYTES - n), "%02x", digest[i]);
    }
    snprintf(seal + n, (size_t)(DQN_SEAL_BYTES - n), "\n");
}

enum dqn_status dqn_seal_write(const struct dqn_file_ops *ops, int fd, const char *path) {
    unsigned char digest[DIGEST_BYTES];
    uint64_t length = 0;
    DQN_TRY(digest_file(ops, fd, path, digest, &length));
    char seal[DQN_SEAL_BYTES];
    format_seal(seal, digest, length);
    if (dqn_file_write_at(ops, fd, seal, sizeof seal, 0) != 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: writing the seal failed: %s", path, strerror(errno));
    }
    return DQN_OK;
}

static enum dqn_status verify_open_file(int fd, const char *path) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return read_failed(path);
    }
    if (!S_ISREG(info.st_mode)) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "%s: is not a regular file, so no checkpoint", path);
    }
    const size_t magic = sizeof DQN_SEAL_MAGIC - 1;
    char seal[DQN_SEAL_BYTES] = {0};
    const ssize_t n = dqn_file_read_at(NULL, fd, seal, sizeof seal, 0);
    if (n < 0) {
        return read_failed(path);
    }
    if (n == 0) {
        return dqn_fail(DQN_ERR_CHECKPOINT, "%s: is damaged: the file is empty", path);
    }
    if (memcmp(seal, DQN_SEAL_MAGIC, (size_t)n < magic ? (size_t)n : magic) != 0) {
        return dqn_fail(DQN_ERR_CHECKPOINT,
                        "%s: is no checkpoint, or its first bytes are damaged (the first line is "
                        "not \"%.*s\")",
                        path, (int)magic - 1, DQN_SEAL_MAGIC);
    }
    /* A wrong length is found without reading everything. */
    uint64_t length = 0;
    const bool told = sscanf(seal + magic, "length %20" SCNu64 "\n", &length) == 1;
    if (n < DQN_SEAL_BYTES || (told && length > (uint64_t)info.st_size)) {
        return dqn_fail(DQN_ERR_CHECKPOINT,
                        "%s: is damaged: cut short, it has %jd of %" PRIu64 " bytes", path,
                        (intmax_t)info.st_size, length);
    }
    unsigned char digest[DIGEST_BYTES];
    uint64_t found = 0;
    DQN_TRY(digest_file(NULL, fd, path, digest, &found));
    char expected[DQN_SEAL_BYTES];
    format_seal(expected, digest, found);
    if (memcmp(seal, expected, sizeof seal) != 0) {
        return dqn_fail(DQN_ERR_CHECKPOINT,
                        "%s: is damaged: length or SHA-256 do not match the seal in its first %d "
                        "bytes",
                        path, DQN_SEAL_BYTES);
    }
    return DQN_OK;
}

enum dqn_status dqn_seal_verify(const char *path) {
    const struct dqn_file_ops *ops = or_system(NULL);
    /* Without O_NONBLOCK the open of a pipe would wait for its other end. */
    const int fd = ops->open(ops->context, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) {
        return dqn_fail(DQN_ERR_DISK, "%s: cannot be opened: %s", path, strerror(errno));
    }
    const enum dqn_status status = verify_open_file(fd, path);
    ops->close(ops->context, fd);
    return status;
}

bool dqn_seal_has_magic(const char *path) {
    const struct dqn_file_ops *ops = or_system(NULL);
    const int fd = ops->open(ops->context, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    char magic[sizeof DQN_SEAL_MAGIC - 1];
    const ssize_t n = dqn_file_read_at(NULL, fd, magic, sizeof magic, 0);
    ops->close(ops->context, fd);
    return n == (ssize_t)sizeof magic && memcmp(magic, DQN_SEAL_MAGIC, sizeof magic) == 0;
}
