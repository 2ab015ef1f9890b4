/* What a CUDA graph takes: for programs that time calls of libraries. */
#ifndef GRAPH_TIMING_H
#define GRAPH_TIMING_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAUNCHES = 20, ROUNDS = 9 };

static inline void cuda_must(cudaError_t error, const char *call) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", call, cudaGetErrorName(error));
        exit(2);
    }
}

#define CUDA(call) cuda_must(call, #call)

static inline int by_size(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* Microseconds a launch: the median of ROUNDS times LAUNCHES launches, after as many to warm up. */
static inline double time_graph(cudaGraphExec_t graph, cudaStream_t stream) {
    double us[ROUNDS];
    cudaEvent_t start, end;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    for (int i = -ROUNDS; i < ROUNDS; i++) { /* below 0: warm-up */
        float ms = 0.0f;
        CUDA(cudaEventRecord(start, stream));
        for (int j = 0; j < LAUNCHES; j++) {
            CUDA(cudaGraphLaunch(graph, stream));
        }
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&ms, start, end));
        us[i < 0 ? 0 : i] = 1e3 * (double)ms / LAUNCHES;
    }
    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(end));
    qsort(us, ROUNDS, sizeof us[0], by_size);
    return us[ROUNDS / 2];
}

#endif
