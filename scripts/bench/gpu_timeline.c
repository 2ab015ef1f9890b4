/* What the GPU does inside any program: the CUDA driver loads this library into it.
 *     cc -shared -fPIC -O2 -I$CUDA/include gpu_timeline.c -o gpu_timeline.so -L$CUDA/lib64 -lcupti
 *     CUDA_INJECTION64_PATH=$PWD/gpu_timeline.so TIMELINE=kernels dqn-bench step ...
 * TIMELINE=kernels: the last TIMELINE_LAST kernels (48) in order of their start, with the
 * microseconds since the first, the gap to the latest end before, duration, grid, block, name; then
 * each name's mean over the last TIMELINE_MEAN kernels (20,000). Kernels inside of graphs are timed
 * one by one, which makes graphs a little slower; unlike ncu it leaves them side by side.
 * TIMELINE=graphs: the share of time in which a graph was in flight, and every pause of more than
 * TIMELINE_PAUSE_US (200).
 * TIMELINE=waits: calls in which the host waits for the device, by name. */
#include <cupti.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 8 << 20, NAMES = 256 };

struct span {
    uint64_t start, end;
    const char *name;
    int grid[3], block;
};

static struct span *spans;
static size_t n_spans, n_allocated;

static void add_span(struct span s) {
    if (n_spans == n_allocated) {
        n_allocated = n_allocated > 0 ? 2 * n_allocated : 1 << 16;
        spans = realloc(spans, n_allocated * sizeof *spans);
        if (spans == NULL) {
            abort();
        }
    }
    spans[n_spans++] = s;
}

static void want_buffer(uint8_t **buffer, size_t *size, size_t *max_records) {
    *buffer = aligned_alloc(8, BUFFER);
    *size = BUFFER;
    *max_records = 0;
}

static void take_record(const CUpti_Activity *record) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;
        add_span(
            (struct span){k->start, k->end, k->name, {k->gridX, k->gridY, k->gridZ}, k->blockX});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
        const CUpti_ActivityGraphTrace2 *g = (const CUpti_ActivityGraphTrace2 *)record;
        add_span((struct span){g->start, g->end, "graph", {0, 0, 0}, 0});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) {
        static const char *const names[] = {"unknown", "event", "stream wait event (no host wait)",
                                            "stream", "context"};
        const CUpti_ActivitySynchronization2 *w = (const CUpti_ActivitySynchronization2 *)record;
        add_span(
            (struct span){w->start, w->end, names[(int)w->type < 5 ? w->type : 0], {0, 0, 0}, 0});
    }
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                        size_t valid) {
    (void)context, (void)stream, (void)size;
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        take_record(record);
    }
    free(buffer);
}

static int by_start(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static size_t setting(const char *name, size_t usual) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

static void print_kernels(void) {
    const size_t last = setting("TIMELINE_LAST", 48);
    const size_t first = n_spans > last ? n_spans - last : 0;
    uint64_t end = 0;
    fprintf(stderr, "      at     gap  length  grid         block  kernel (us)\n");
    for (size_t i = first; i < n_spans; i++) {
        const struct span *s = &spans[i];
        fprintf(stderr, "%8.2f %7.2f %7.2f  %4dx%dx%-5d %4d  %.70s\n",
                (double)(s->start - spans[first].start) * 1e-3,
                end > 0 ? ((double)s->start - (double)end) * 1e-3 : 0.0,
                (double)(s->end - s->start) * 1e-3, s->grid[0], s->grid[1], s->grid[2], s->block,
                s->name);
        end = s->end > end ? s->end : end;
    }
}

static void print_means(void) {
    static struct {
        const char *name;
        double us, gap;
        size_t n;
    } sums[NAMES];
    const size_t last = setting("TIMELINE_MEAN", 20000);
    const size_t first = n_spans > last ? n_spans - last : 0;
    size_t n_names = 0;
    uint64_t end = 0;
    for (size_t i = first; i < n_spans; i++) {
        size_t j = 0;
        while (j < n_names && strcmp(sums[j].name, spans[i].name) != 0) {
            j++;
        }
        if (j == NAMES) {
            continue;
        }
        n_names = j == n_names ? n_names + 1 : n_names;
        sums[j].name = spans[i].name;
        sums[j].us += (double)(spans[i].end - spans[i].start) * 1e-3;
        sums[j].gap += end > 0 ? ((double)spans[i].start - (double)end) * 1e-3 : 0.0;
        sums[j].n++;
        end = spans[i].end > end ? spans[i].end : end;
    }
    fprintf(stderr, "   count    mean us  mean gap before  kernel\n");
    for (size_t j = 0; j < n_names; j++) {
        fprintf(stderr, "%8zu %10.3f %16.3f  %.90s\n", sums[j].n, sums[j].us / (double)sums[j].n,
                sums[j].gap / (double)sums[j].n, sums[j].name);
    }
}

static void print_graphs(void) {
    const double pause = (double)setting("TIMELINE_PAUSE_US", 200);
    uint64_t end = 0, busy = 0, paused = 0;
    for (size_t i = 0; i < n_spans; i++) {
        const struct span *s = &spans[i];
        if (end > 0 && s->start > end && (double)(s->start - end) * 1e-3 > pause) {
            fprintf(stderr, "pause of %9.1f us at %9.3f ms\n", (double)(s->start - end) * 1e-3,
                    (double)(end - spans[0].start) * 1e-6);
            paused += s->start - end;
        }
        const uint64_t begin = s->start > end ? s->start : end;
        busy += s->end > begin ? s->end - begin : 0;
        end = s->end > end ? s->end : end;
    }
    if (n_spans == 0) {
        fprintf(stderr, "no graph was launched\n");
        return;
    }
    const double all = (double)(end - spans[0].start);
    fprintf(stderr, "%zu graphs in %.3f ms: in flight %.2f %%; between the pauses above %.2f %%\n",
            n_spans, all * 1e-6, 100.0 * (double)busy / all,
            100.0 * (double)busy / (all - (double)paused));
}

static void print_waits(void) {
    static const char *const names[] = {"unknown", "event", "stream wait event (no host wait)",
                                        "stream", "context"};
    for (size_t j = 0; j < 5; j++) {
        size_t n = 0;
        for (size_t i = 0; i < n_spans; i++) {
            n += strcmp(spans[i].name, names[j]) == 0;
        }
        fprintf(stderr, "%8zu %s\n", n, names[j]);
    }
}

static bool mode_is(const char *mode) {
    const char *text = getenv("TIMELINE");
    return strcmp(text != NULL ? text : "kernels", mode) == 0;
}

static void finish(void) {
    (void)cuptiActivityFlushAll(1);
    if (n_spans > 0) {
        qsort(spans, n_spans, sizeof *spans, by_start);
    }
    if (mode_is("graphs")) {
        print_graphs();
    } else if (mode_is("waits")) {
        print_waits();
    } else {
        print_kernels();
        print_means();
    }
}

/* Called by the driver when it starts. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
    const CUpti_ActivityKind kind = mode_is("graphs")  ? CUPTI_ACTIVITY_KIND_GRAPH_TRACE
                                    : mode_is("waits") ? CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
                                                       : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    if (cuptiActivityRegisterCallbacks(want_buffer, take_buffer) != CUPTI_SUCCESS ||
        cuptiActivityEnable(kind) != CUPTI_SUCCESS) {
        fprintf(stderr, "gpu_timeline: CUPTI cannot be used here\n");
        return 0;
    }
    atexit(finish);
    return 1;
}
