/* Host/device differences: the only file that asks which compiler it is.
 * Everything under src/shared and envs/ is compiled by the C compiler and by nvcc, so it keeps to
 * the common subset of C17 and C++17: no compound literals, no designated initialisers, explicit
 * casts, no allocation, no I/O. */
#ifndef DQN_SHARED_HD_H
#define DQN_SHARED_HD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define DQN_HD __host__ __device__
#define DQN_RESTRICT __restrict__
#else
#define DQN_HD
#define DQN_RESTRICT restrict
#endif

/* Prefix of every function that runs on both sides. */
#define DQN_SHARED DQN_HD static inline

/* The same, for long functions with several callers: a GPU gets one copy that all of them call, as
 * code that runs once a kernel has to come from memory too. */
#ifdef __CUDA_ARCH__
#define DQN_SHARED_ONCE DQN_HD static inline __noinline__
#else
#define DQN_SHARED_ONCE DQN_SHARED
#endif

/* Asks for the memory around p, which must exist, so that a later read waits less. */
DQN_SHARED void dqn_prefetch(const void *p) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
#else
    __builtin_prefetch(p);
#endif
}

#endif
