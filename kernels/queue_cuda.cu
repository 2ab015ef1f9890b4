/* Queues are streams, programs are CUDA graphs. */
#include "nn_cuda.cuh"

struct dqn_event {
    cudaEvent_t event;
};

struct dqn_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};

/* ---- the clock of work in flight ----
 * A flight is a pair of timing events on the stream: around the launch of a graph, or around
 * operations that are called, from the first one to the next wait or launch. Flights follow each
 * other, so their sum is the time in which work was in flight. */

enum { FLIGHTS = 4096 }; /* not summed up yet, at most */

struct dqn_busy_clock {
    bool on, open;          /* open: flight `ended` has begun */
    bool lost;              /* one could not be timed */
    uint64_t ended, summed; /* flights so far; flight i uses the events i % FLIGHTS */
    double seconds;
    cudaEvent_t begin[FLIGHTS], end[FLIGHTS];
};

static void destroy_clock(struct dqn_busy_clock *clock) {
    for (size_t i = 0; clock != NULL && i < FLIGHTS; i++) {
        if (clock->begin[i] != NULL) {
            (void)cudaEventDestroy(clock->begin[i]);
        }
        if (clock->end[i] != NULL) {
            (void)cudaEventDestroy(clock->end[i]);
        }
    }
    free(clock);
}

static enum dqn_status create_events(struct dqn_busy_clock *clock) {
    for (size_t i = 0; i < FLIGHTS; i++) {
        DQN_CUDA(cudaEventCreate(&clock->begin[i]));
        DQN_CUDA(cudaEventCreate(&clock->end[i]));
    }
    return DQN_OK;
}

static enum dqn_status create_clock(struct dqn_busy_clock **out) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_busy_clock), "a clock of work in flight"));
    struct dqn_busy_clock *clock = (struct dqn_busy_clock *)memory;
    const enum dqn_status status = create_events(clock);
    if (status != DQN_OK) {
        destroy_clock(clock);
        return status;
    }
    *out = clock;
    return DQN_OK;
}

/* The flights whose work has run, oldest first; does not wait for the others. */
static void sum_flights(struct dqn_busy_clock *clock) {
    while (clock->summed < clock->ended) {
        const size_t i = clock->summed % FLIGHTS;
        float ms = 0.0f;
        if (cudaEventElapsedTime(&ms, clock->begin[i], clock->end[i]) != cudaSuccess) {
            (void)cudaGetLastError(); /* not ready; after a lost context the next launch tells */
            return;
        }
        clock->seconds += (double)ms / 1000.0;
        clock->summed++;
    }
}

enum dqn_status dqn_cuda_begin_flight(struct dqn_cuda_queue *q) {
    struct dqn_busy_clock *clock = q->clock;
    if (!q->watching) {
        return DQN_OK;
    }
    if (clock->ended - clock->summed == FLIGHTS) {
        sum_flights(clock);
    }
    if (clock->ended - clock->summed == FLIGHTS) {
        clock->lost = true;
        return DQN_OK;
    }
    q->watching = false;
    clock->open = true;
    const cudaError_t error = cudaEventRecord(clock->begin[clock->ended % FLIGHTS], q->stream);
    if (error != cudaSuccess) {
        clock->lost = true;
        return dqn_cuda_failed(error, "cudaEventRecord", __FILE__, __LINE__);
    }
    return DQN_OK;
}

static enum dqn_status end_flight(struct dqn_cuda_queue *q) {
    struct dqn_busy_clock *clock = q->clock;
    if (clock == NULL || !clock->open) {
        return DQN_OK;
    }
    q->watching = clock->on;
    clock->open = false;
    DQN_CUDA(cudaEventRecord(clock->end[clock->ended % FLIGHTS], q->stream));
    clock->ended++;
    return DQN_OK;
}

/* ---- queues ---- */

/* Each stream for itself, whatever became of the order between them; errors are the caller's to
 * find, who may have a text of his own already. */
static void wait_for_streams(const struct dqn_cuda_queue *q) {
    for (size_t i = 0; i < DQN_CUDA_SIDES; i++) {
        if (q->side[i] != NULL) {
            (void)cudaStreamSynchronize(q->side[i]);
        }
    }
    if (q->stream != NULL) {
        (void)cudaStreamSynchronize(q->stream);
    }
}

static void cuda_queue_destroy(struct dqn_queue *base) {
    if (base == NULL) {
        return;
    }
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    (void)cudaSetDevice(q->device->index);
    wait_for_streams(q); /* nothing may still use what is freed */
    destroy_clock(q->clock);
    dqn_cudnn_destroy(q->cudnn);
    dqn_plans_destroy(q->plans);
    if (q->scratch != NULL) {
        (void)cudaFree(q->scratch);
    }
    if (q->tickets != NULL) {
        (void)cudaFree(q->tickets);
    }
    if (q->forked != NULL) {
        (void)cudaEventDestroy(q->forked);
    }
    if (q->joined != NULL) {
        (void)cudaEventDestroy(q->joined);
    }
    for (int i = 0; i < DQN_CUDA_SIDES; i++) {
        if (q->side[i] != NULL) {
            (void)cudaStreamDestroy(q->side[i]);
        }
    }
    if (q->stream != NULL) {
        (void)cudaStreamDestroy(q->stream);
    }
    (void)cudaGetLastError(); /* after a lost context each call above failed; said once is enough */
    free(q);
}

/* The parts of a queue; on an error the caller destroys what is there. */
static enum dqn_status fill_queue(struct dqn_cuda_queue *q) {
    DQN_CUDA(cudaSetDevice(q->device->index));
    DQN_CUDA(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking));
    for (int i = 0; i < DQN_CUDA_SIDES; i++) {
        DQN_CUDA(cudaStreamCreateWithFlags(&q->side[i], cudaStreamNonBlocking));
    }
    DQN_CUDA(cudaEventCreateWithFlags(&q->forked, cudaEventDisableTiming));
    DQN_CUDA(cudaEventCreateWithFlags(&q->joined, cudaEventDisableTiming));
    DQN_CUDA(cudaMalloc((void **)&q->scratch, DQN_CUDA_SCRATCH * sizeof(double)));
    DQN_CUDA(cudaMalloc((void **)&q->tickets, DQN_MAX_AGENTS_GRID * sizeof *q->tickets));
    DQN_CUDA(cudaMemsetAsync(q->tickets, 0, DQN_MAX_AGENTS_GRID * sizeof *q->tickets, q->stream));
    return dqn_plans_create(&q->plans, q->device->precision);
}

static enum dqn_status cuda_queue_create(const struct dqn_device *device, struct dqn_queue **out) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_cuda_queue), "a CUDA queue"));
    struct dqn_cuda_queue *q = (struct dqn_cuda_queue *)memory;
    q->base.device = device;
    q->device = (struct dqn_cuda_device *)device->impl;
    const enum dqn_status status = fill_queue(q);
    if (status != DQN_OK) {
        cuda_queue_destroy(&q->base);
        return status;
    }
    *out = &q->base;
    return DQN_OK;
}

static const char joining[] = "joining the streams of a queue";

/* The stream, after everything; a join that failed since the last call is reported, once. */
static enum dqn_status whole_stream(struct dqn_queue *base, cudaStream_t *stream) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    *stream = dqn_cuda_joined_stream(base);
    const cudaError_t owed = q->owed;
    q->owed = cudaSuccess;
    return owed == cudaSuccess ? DQN_OK : dqn_cuda_failed(owed, joining, __FILE__, __LINE__);
}

static enum dqn_status synchronize(struct dqn_queue *q) {
    if (dqn_cuda_fault("wait", NULL)) {
        return dqn_fail(DQN_ERR_DEVICE, "the test fault wait is set");
    }
    cudaStream_t stream = NULL;
    const enum dqn_status whole = whole_stream(q, &stream);
    if (whole != DQN_OK) {
        wait_for_streams(dqn_cuda_queue_of(q));
    }
    DQN_TRY(end_flight(dqn_cuda_queue_of(q)));
    DQN_CUDA(cudaStreamSynchronize(stream));
    return whole;
}

static enum dqn_status cuda_wait(struct dqn_queue *q) {
    const double begun = dqn_clock_s();
    const enum dqn_status status = synchronize(q);
    dqn_queue_count_wait(dqn_clock_s() - begun);
    return status;
}

static enum dqn_status cuda_busy_begin(struct dqn_queue *base) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    if (q->clock == NULL) {
        DQN_TRY(create_clock(&q->clock));
    }
    struct dqn_busy_clock *clock = q->clock;
    clock->on = q->watching = true;
    clock->open = clock->lost = false;
    clock->ended = clock->summed = 0;
    clock->seconds = 0.0;
    return DQN_OK;
}

static enum dqn_status cuda_busy_end(struct dqn_queue *base, double *seconds) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    struct dqn_busy_clock *clock = q->clock;
    clock->on = false;
    const enum dqn_status status = cuda_wait(base);
    q->watching = false;
    DQN_TRY(status);
    sum_flights(clock);
    *seconds = clock->lost || clock->summed < clock->ended ? -1.0 : clock->seconds;
    return DQN_OK;
}

enum dqn_status dqn_cuda_fork(struct dqn_cuda_queue *q, size_t i) {
    DQN_CUDA(cudaEventRecord(q->forked, q->stream));
    DQN_CUDA(cudaStreamWaitEvent(q->side[i], q->forked, 0));
    return DQN_OK;
}

static cudaError_t join(struct dqn_cuda_queue *q, size_t i) {
    if (dqn_cuda_fault("join", NULL)) {
        return cudaErrorUnknown;
    }
    const cudaError_t error = cudaEventRecord(q->joined, q->side[i]);
    return error != cudaSuccess ? error : cudaStreamWaitEvent(q->stream, q->joined, 0);
}

/* Not every caller can return the error, and what runs without the order is undefined: so it is
 * kept, too, for whoever lets results be seen. */
enum dqn_status dqn_cuda_join(struct dqn_cuda_queue *q, size_t i) {
    const cudaError_t error = join(q, i);
    if (error == cudaSuccess) {
        return DQN_OK;
    }
    q->owed = error;
    return dqn_cuda_failed(error, joining, __FILE__, __LINE__);
}

/* ---- events ---- */

static enum dqn_status cuda_event_create(const struct dqn_device *device, struct dqn_event **out) {
    DQN_CUDA(cudaSetDevice(((const struct dqn_cuda_device *)device->impl)->index));
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_event), "a CUDA event"));
    struct dqn_event *event = (struct dqn_event *)memory;
    const cudaError_t error = cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming);
    if (error != cudaSuccess) {
        free(event);
        return dqn_cuda_failed(error, "cudaEventCreateWithFlags", __FILE__, __LINE__);
    }
    *out = event;
    return DQN_OK;
}

static void cuda_event_destroy(struct dqn_event *event) {
    if (event == NULL) {
        return;
    }
    (void)cudaEventDestroy(event->event);
    (void)cudaGetLastError();
    free(event);
}

static enum dqn_status cuda_event_record(struct dqn_queue *q, struct dqn_event *event) {
    cudaStream_t stream = NULL;
    DQN_TRY(whole_stream(q, &stream));
    DQN_CUDA(cudaEventRecord(event->event, stream));
    return DQN_OK;
}

static enum dqn_status cuda_event_wait(struct dqn_queue *q, struct dqn_event *event) {
    cudaStream_t stream = NULL;
    DQN_TRY(whole_stream(q, &stream));
    DQN_CUDA(cudaStreamWaitEvent(stream, event->event, 0));
    return DQN_OK;
}

/* ---- captured programs ---- */

/* Relaxed: library calls that would be refused in a stricter mode (loading a kernel at its first
 * use, say) are allowed; nothing that this backend calls while capturing waits or allocates. */
static enum dqn_status cuda_capture_begin(struct dqn_queue *q) {
    cudaStream_t stream = NULL;
    DQN_TRY(whole_stream(q, &stream));
    DQN_TRY(end_flight(dqn_cuda_queue_of(q)));
    dqn_cuda_queue_of(q)->watching = false; /* what is captured does not run */
    DQN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    return DQN_OK;
}

static void cuda_graph_destroy(struct dqn_graph *graph) {
    if (graph == NULL) {
        return;
    }
    if (graph->exec != NULL) {
        (void)cudaGraphExecDestroy(graph->exec);
    }
    if (graph->graph != NULL) {
        (void)cudaGraphDestroy(graph->graph);
    }
    (void)cudaGetLastError();
    free(graph);
}

static enum dqn_status fill_graph(struct dqn_graph *graph, cudaStream_t stream) {
    DQN_CUDA(cudaGraphInstantiate(&graph->exec, graph->graph, 0));
    DQN_CUDA(cudaGraphUpload(graph->exec, stream)); /* the first launch is as fast as the others */
    return DQN_OK;
}

/* Ends the capture in any case. A stream that could not be joined fails it, too: said is why. */
static enum dqn_status take_capture(struct dqn_queue *base, cudaGraph_t *captured) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    cudaStream_t stream = NULL;
    const enum dqn_status whole = whole_stream(base, &stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, captured);
    q->watching = q->clock != NULL && q->clock->on;
    if (whole != DQN_OK) {
        (void)cudaGetLastError();
        return whole;
    }
    DQN_CUDA(ended);
    return DQN_OK;
}

static enum dqn_status cuda_capture_end(struct dqn_queue *q, struct dqn_graph **out) {
    cudaGraph_t captured = NULL;
    void *memory = NULL;
    *out = NULL;
    enum dqn_status status = take_capture(q, &captured);
    if (status == DQN_OK) {
        status = dqn_alloc(&memory, 1, sizeof(struct dqn_graph), "a CUDA graph");
    }
    if (status != DQN_OK) {
        if (captured != NULL) {
            (void)cudaGraphDestroy(captured);
        }
        return status;
    }
    struct dqn_graph *graph = (struct dqn_graph *)memory;
    graph->graph = captured;
    status = fill_graph(graph, dqn_cuda_queue_of(q)->stream);
    if (status != DQN_OK) {
        cuda_graph_destroy(graph);
        return status;
    }
    *out = graph;
    return DQN_OK;
}

static enum dqn_status cuda_graph_launch(struct dqn_queue *q, struct dqn_graph *graph) {
    struct dqn_cuda_queue *queue = dqn_cuda_queue_of(q);
    cudaStream_t stream = NULL;
    DQN_TRY(whole_stream(q, &stream));
    DQN_TRY(end_flight(queue));
    DQN_TRY(dqn_cuda_begin_flight(queue));
    DQN_CUDA(cudaGraphLaunch(graph->exec, stream));
    return end_flight(queue);
}

const struct dqn_queue_ops dqn_cuda_queue_ops = {
    cuda_queue_create,  cuda_queue_destroy, cuda_wait,          cuda_event_create,
    cuda_event_destroy, cuda_event_record,  cuda_event_wait,    cuda_capture_begin,
    cuda_capture_end,   cuda_graph_launch,  cuda_graph_destroy, cuda_busy_begin,
    cuda_busy_end,
};
