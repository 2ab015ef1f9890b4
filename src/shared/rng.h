/* Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3", section 3.3). A number is a pure function of (seed, stream, counter), so a
 * checkpoint holds counters only and no result depends on thread order. The words agree bit for
 * bit with cuRAND's device generator curandStatePhilox4_32_10_t for
 * curand_init(seed, stream, 4 * counter). */
#ifndef DQN_SHARED_RNG_H
#define DQN_SHARED_RNG_H

#include "hd.h"

/* What a stream is for. Two purposes never share a number. */
enum dqn_purpose {
    DQN_RNG_INIT = 1, /* network parameters; lane = layer */
    DQN_RNG_POLICY,   /* epsilon-greedy; lane = environment lane, counter = vector step */
    DQN_RNG_SAMPLER,  /* replay draws; lane = row of the batch, counter = draw number */
    DQN_RNG_ENV,      /* training environments; lane = environment lane */
    DQN_RNG_EVAL_ENV, /* evaluation environments */
    DQN_RNG_EVAL_POLICY,
    DQN_RNG_MARKET,   /* synthetic markets */
    DQN_RNG_BASELINE, /* random baselines of reports */
    DQN_RNG_BOOTSTRAP /* resampling in reports */
};

struct dqn_u32x4 {
    uint32_t v[4];
};

/* The stream id of one lane of one purpose. */
DQN_SHARED uint64_t dqn_rng_stream(enum dqn_purpose purpose, uint64_t lane) {
    return ((uint64_t)purpose << 56) | lane;
}

/* One block of four words. */
DQN_SHARED struct dqn_u32x4 dqn_rng_block(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    struct dqn_u32x4 c;
    c.v[0] = (uint32_t)counter;
    c.v[1] = (uint32_t)(counter >> 32);
    c.v[2] = (uint32_t)stream;
    c.v[3] = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c.v[2];
        struct dqn_u32x4 next;
        next.v[0] = (uint32_t)(p1 >> 32) ^ c.v[1] ^ k0;
        next.v[1] = (uint32_t)p1;
        next.v[2] = (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1;
        next.v[3] = (uint32_t)p0;
        c = next;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* The first and the second 64-bit word of a block. */
DQN_SHARED uint64_t dqn_rng_u64(struct dqn_u32x4 block, int which) {
    return (uint64_t)block.v[2 * which] | ((uint64_t)block.v[2 * which + 1] << 32);
}

/* Uniform in [0, 1), 53 bits: never 1. */
DQN_SHARED double dqn_rng_unit(uint64_t word) {
    return (double)(word >> 11) * (1.0 / 9007199254740992.0);
}

/* High 64 bits of a * b. */
DQN_SHARED uint64_t dqn_mul_high(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)a * b) >> 64);
#endif
}

/* Uniform integer in [0, n); n = 0 gives 0. The bias is below n / 2^64. */
DQN_SHARED uint64_t dqn_rng_below(uint64_t word, uint64_t n) {
    return dqn_mul_high(word, n);
}

#endif
