#include "byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { STORED_BYTES = 1 << 18, PROGRESS_FROM_BYTES = 64 << 20 };

struct dqn_byte_source {
    const char *path;
    struct dqn_sha256 *sha;
    int fd;
    bool started, gzip, stored_end, member_open;
    z_stream inflater;
    bool inflater_ready;
    unsigned char *stored; /* [STORED_BYTES] as in the file */
    size_t stored_at, stored_n;
    uint64_t total, done; /* stored bytes; total 0 = unknown */
    bool show_progress;
    double shown_s;
};

enum dqn_status dqn_byte_source_open(struct dqn_byte_source **out, const char *path,
                                     struct dqn_sha256 *sha) {
    *out = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return dqn_fail(DQN_ERR_DATA,
                        "%s: cannot be opened: %s; check its name and who may read it", path,
                        strerror(errno));
    }
    struct stat state;
    void *memory = NULL;
    enum dqn_status status = DQN_OK;
    if (fstat(fd, &state) != 0 || S_ISDIR(state.st_mode)) {
        close(fd);
        return dqn_fail(DQN_ERR_DATA, "%s: is a folder; name files, or a pattern such as %s/*.csv",
                        path, path);
    }
    status = dqn_alloc(&memory, 1, sizeof(struct dqn_byte_source), "data file");
    if (status != DQN_OK) {
        close(fd);
        return status;
    }
    struct dqn_byte_source *source = memory;
    source->fd = fd;
    source->path = path;
    source->sha = sha;
    status = dqn_alloc(&memory, STORED_BYTES, 1, "file buffer");
    if (status != DQN_OK) {
        dqn_byte_source_close(source);
        return status;
    }
    source->stored = memory;
    source->total = S_ISREG(state.st_mode) ? (uint64_t)state.st_size : 0;
    source->show_progress = source->total >= PROGRESS_FROM_BYTES && isatty(STDERR_FILENO) == 1;
    *out = source;
    return DQN_OK;
}

void dqn_byte_source_close(struct dqn_byte_source *source) {
    if (source == NULL) {
        return;
    }
    if (source->shown_s > 0.0) {
        fprintf(stderr, "\r\033[K");
    }
    if (source->inflater_ready) {
        inflateEnd(&source->inflater);
    }
    close(source->fd);
    free(source->stored);
    free(source);
}

bool dqn_byte_source_gzip(const struct dqn_byte_source *source) {
    return source->gzip;
}

static void show_progress(struct dqn_byte_source *source) {
    const double now = dqn_clock_s();
    if (!source->show_progress || now - source->shown_s < 0.25) {
        return;
    }
    char done[32], total[32];
    source->shown_s = now;
    fprintf(stderr, "\r\033[K%s: %s of %s (%.0f %%)", source->path,
            dqn_format_bytes(done, sizeof(done), source->done),
            dqn_format_bytes(total, sizeof(total), source->total),
            100.0 * (double)source->done / (double)source->total);
    fflush(stderr);
}

/* Reads stored bytes up to `least` (a FIFO gives them piecemeal) or the end. */
static enum dqn_status fill(struct dqn_byte_source *source, size_t least) {
    while (!source->stored_end && source->stored_n < least) {
        unsigned char *const to = source->stored + source->stored_n;
        const ssize_t got = read(source->fd, to, STORED_BYTES - source->stored_n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return dqn_fail(DQN_ERR_DATA, "%s: reading failed after %llu bytes: %s", source->path,
                            (unsigned long long)source->done, strerror(errno));
        }
        source->stored_end = got == 0;
        if (source->sha != NULL && got > 0) {
            DQN_TRY(dqn_sha256_add(source->sha, to, (size_t)got));
        }
        source->stored_n += (size_t)got;
        source->done += (uint64_t)got;
    }
    show_progress(source);
    return DQN_OK;
}

static enum dqn_status refill(struct dqn_byte_source *source) {
    if (source->stored_at < source->stored_n) {
        return DQN_OK;
    }
    source->stored_at = 0;
    source->stored_n = 0;
    return fill(source, 1);
}

static enum dqn_status start(struct dqn_byte_source *source) {
    source->started = true;
    DQN_TRY(fill(source, 2));
    source->gzip = source->stored_n >= 2 && source->stored[0] == 0x1f && source->stored[1] == 0x8b;
    if (source->gzip) {
        if (inflateInit2(&source->inflater, 15 + 16) != Z_OK) {
            return dqn_fail(DQN_ERR_MEMORY, "%s: zlib cannot start", source->path);
        }
        source->inflater_ready = true;
        source->member_open = true;
    }
    return DQN_OK;
}

static enum dqn_status damaged(const struct dqn_byte_source *source, const char *what) {
    return dqn_fail(DQN_ERR_DATA, "%s: the gzip data is %s near stored byte %llu; copy it again",
                    source->path, what,
                    (unsigned long long)(source->done - source->stored_n + source->stored_at));
}

/* One call of inflate into out; a file may hold several gzip members in a row. */
static enum dqn_status inflate_some(struct dqn_byte_source *source, unsigned char *out, size_t n,
                                    size_t *got) {
    *got = 0;
    while (*got == 0) {
        DQN_TRY(refill(source));
        if (source->stored_at == source->stored_n) {
            return source->member_open ? damaged(source, "cut short") : DQN_OK;
        }
        if (!source->member_open) {
            inflateReset(&source->inflater);
            source->member_open = true;
        }
        z_stream *const z = &source->inflater;
        z->next_in = source->stored + source->stored_at;
        z->avail_in = (uInt)(source->stored_n - source->stored_at);
        z->next_out = out;
        z->avail_out = (uInt)n;
        const int code = inflate(z, Z_NO_FLUSH);
        source->stored_at = source->stored_n - z->avail_in;
        *got = n - z->avail_out;
        if (code == Z_STREAM_END) {
            source->member_open = false;
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            return damaged(source, "damaged");
        }
    }
    return DQN_OK;
}

enum dqn_status dqn_byte_source_read(struct dqn_byte_source *source, void *out, size_t n,
                                     size_t *got) {
    *got = 0;
    if (!source->started) {
        DQN_TRY(start(source));
    }
    if (source->gzip) {
        return inflate_some(source, out, n, got);
    }
    DQN_TRY(refill(source));
    const size_t left = source->stored_n - source->stored_at;
    *got = left < n ? left : n;
    memcpy(out, source->stored + source->stored_at, *got);
    source->stored_at += *got;
    return DQN_OK;
}
