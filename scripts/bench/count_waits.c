/* Counts calls by which a program waits for the GPU, from outside of it:
 *
 *     cc -shared -fPIC -o count_waits.so scripts/bench/count_waits.c -ldl
 *     LD_PRELOAD=./count_waits.so dqn-train CONFIG --device cuda
 *
 * and prints the counts at the program's end. They depend on the number of epochs alone, not on how
 * long these are (scripts/bench/host_waits.sh compares), when no step of an epoch waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef int (*no_arguments)(void);
typedef int (*one_argument)(void *);
typedef int (*copy_arguments)(void *, const void *, size_t, int);

static unsigned long n_device, n_stream, n_event, n_copy;

int cudaDeviceSynchronize(void) {
    n_device++;
    return ((no_arguments)dlsym(RTLD_NEXT, "cudaDeviceSynchronize"))();
}

int cudaStreamSynchronize(void *stream) {
    n_stream++;
    return ((one_argument)dlsym(RTLD_NEXT, "cudaStreamSynchronize"))(stream);
}

int cudaEventSynchronize(void *event) {
    n_event++;
    return ((one_argument)dlsym(RTLD_NEXT, "cudaEventSynchronize"))(event);
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    n_copy++;
    return ((copy_arguments)dlsym(RTLD_NEXT, "cudaMemcpy"))(to, from, bytes, kind);
}

__attribute__((destructor)) static void report(void) {
    fprintf(stderr, "host waits: device %lu, stream %lu, event %lu, blocking copy %lu\n", n_device,
            n_stream, n_event, n_copy);
}
