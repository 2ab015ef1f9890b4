/* Philox 4x32-10 against the known answers of the Random123 distribution, and what is built on it:
 * uniform numbers, integers below a bound, streams that never overlap. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../envs/env.h"
#include "shared/rng.h"

/* Lines "philox4x32 10" of Random123's tests/kat_vectors: counter, key, result. */
static const struct {
    uint32_t counter[4], key[2], want[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
    {{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
     {0xffffffffu, 0xffffffffu},
     {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
    {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
     {0xa4093822u, 0x299f31d0u},
     {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
};

static uint64_t join(uint32_t low, uint32_t high) {
    return (uint64_t)low | ((uint64_t)high << 32);
}

Test(rng, known_answers) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct dqn_u32x4 got = dqn_rng_block(join(known[i].key[0], known[i].key[1]),
                                                   join(known[i].counter[2], known[i].counter[3]),
                                                   join(known[i].counter[0], known[i].counter[1]));
        for (int w = 0; w < 4; w++) {
            cr_expect(got.v[w] == known[i].want[w], "vector %zu word %d: %08x, not %08x", i, w,
                      got.v[w], known[i].want[w]);
        }
    }
}

Test(rng, words_of_a_block) {
    const struct dqn_u32x4 block = {{1, 2, 3, 4}};
    cr_expect(dqn_rng_u64(block, 0) == 0x200000001u);
    cr_expect(dqn_rng_u64(block, 1) == 0x400000003u);
}

Test(rng, unit_is_below_one) {
    cr_expect(dqn_rng_unit(0) == 0.0);
    cr_expect(dqn_rng_unit(2047) == 0.0);
    cr_expect(dqn_rng_unit(2048) == 0x1p-53);
    cr_expect(dqn_rng_unit(UINT64_MAX) == 1.0 - 0x1p-53);
    /* Also after scaling by an array's length, which rounds. */
    cr_expect((uint64_t)(dqn_rng_unit(UINT64_MAX) * 16777217.0) == 16777216);
}

Test(rng, below_is_always_a_valid_index) {
    static const uint64_t sizes[] = {1, 2, 3, 45, 16777217, (uint64_t)1 << 32, UINT64_MAX};
    static const uint64_t words[] = {0, 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            cr_expect(dqn_rng_below(words[w], sizes[s]) < sizes[s]);
        }
        cr_expect(dqn_rng_below(0, sizes[s]) == 0);
        cr_expect(dqn_rng_below(UINT64_MAX, sizes[s]) == sizes[s] - 1);
    }
    cr_expect(dqn_rng_below(UINT64_MAX, 0) == 0);
    /* 2^63 is the middle word: exactly half. */
    cr_expect(dqn_rng_below((uint64_t)1 << 63, 16777216) == 8388608);
}

/* The high half by four 32-bit products. */
static uint64_t mul_high_by_parts(uint64_t a, uint64_t b) {
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
    const uint64_t carry = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (carry >> 32);
}

Test(rng, mul_high) {
    static const uint64_t edge[] = {0, 1, 0xffffffffu, 0x100000000u, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 6; j++) {
            cr_expect(dqn_mul_high(edge[i], edge[j]) == mul_high_by_parts(edge[i], edge[j]));
        }
    }
    for (uint64_t i = 0; i < 100000; i++) {
        const struct dqn_u32x4 block = dqn_rng_block(1, 2, i);
        const uint64_t a = dqn_rng_u64(block, 0), b = dqn_rng_u64(block, 1);
        cr_assert(dqn_mul_high(a, b) == mul_high_by_parts(a, b));
    }
}

/* Chi-square statistic of n counts with equal expectation. */
static double chi_square(const uint64_t *count, size_t n, uint64_t total) {
    const double expected = (double)total / (double)n;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double off = (double)count[i] - expected;
        sum += off * off / expected;
    }
    return sum;
}

/* 255 degrees of freedom: mean 255, standard deviation 22.6. Within 5 deviations; a true generator
 * fails in fewer than one of a million seeds, and these seeds are fixed. */
static void expect_uniform(const uint64_t *count, uint64_t total, const char *what) {
    const double chi = chi_square(count, 256, total);
    cr_expect(chi > 255.0 - 5.0 * 22.6 && chi < 255.0 + 5.0 * 22.6, "%s: chi-square %.1f", what,
              chi);
}

Test(rng, uniform_within_a_stream_and_across_lanes) {
    uint64_t top[256] = {0}, low[256] = {0}, lanes[256] = {0}, below[256] = {0};
    for (uint64_t i = 0; i < 200000; i++) {
        const struct dqn_u32x4 block = dqn_rng_block(7, dqn_rng_stream(DQN_RNG_ENV, 3), i);
        top[(size_t)(dqn_rng_unit(dqn_rng_u64(block, 0)) * 256.0)]++;
        low[block.v[2] & 255]++;
        below[dqn_rng_below(dqn_rng_u64(block, 1), 256)]++;
        const struct dqn_u32x4 lane = dqn_rng_block(7, dqn_rng_stream(DQN_RNG_ENV, i), 0);
        lanes[lane.v[0] >> 24]++;
    }
    expect_uniform(top, 200000, "units");
    expect_uniform(low, 200000, "low bits");
    expect_uniform(below, 200000, "below");
    expect_uniform(lanes, 200000, "first word of each lane");
}

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* 9 purposes x 8 lanes x 16 episodes x 4 steps x 4 slots x 3 seeds of 128-bit blocks: half of each,
 * 64 bits, is different from all others (a chance equality has a probability of 1e-10). */
Test(rng, streams_do_not_overlap) {
    enum { COUNT = 9 * 8 * 16 * 4 * 4 * 3 };
    static uint64_t seen[COUNT];
    size_t n = 0;
    for (int purpose = DQN_RNG_INIT; purpose <= DQN_RNG_BOOTSTRAP; purpose++) {
        for (uint64_t i = 0; i < 8 * 16 * 4 * 4 * 3; i++) {
            const struct dqn_env_key key = {.seed = i / 2048,
                                            .stream =
                                                dqn_rng_stream((enum dqn_purpose)purpose, i & 7),
                                            .episode = i >> 3 & 15,
                                            .step = i >> 7 & 3};
            seen[n++] = dqn_rng_u64(dqn_env_random(&key, (unsigned)(i >> 9 & 3)), 0);
        }
    }
    cr_assert(n == COUNT);
    qsort(seen, n, sizeof *seen, compare_u64);
    for (size_t i = 1; i < n; i++) {
        cr_assert(seen[i] != seen[i - 1], "the same number twice");
    }
}
