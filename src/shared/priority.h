/* Priorities and draws: |TD error| -> priority -> fixed-point leaf; random word -> target inside
 * the total; leaf -> importance weight. One source for both backends, so that the binary tree on
 * the CPU and the wide tree on the GPU hold equal leaves and pick equal rows.
 *
 * Proportional and rank-based sampling: Schaul et al. 2016, "Prioritized experience replay",
 * section 3.3; importance weights: section 3.4. */
#ifndef DQN_SHARED_PRIORITY_H
#define DQN_SHARED_PRIORITY_H

#include "agent.h"
#include "real.h"
#include "rng.h"

/* ---- priorities ------------------------------------------------------------------------------ */

enum dqn_priority_kind { DQN_PRIORITY_FINITE, DQN_PRIORITY_NAN, DQN_PRIORITY_INF };

struct dqn_priority {
    float value; /* in [epsilon, max] of the agent */
    enum dqn_priority_kind kind;
};

/* |td|^alpha + epsilon, clamped; |0|^0 is 1. A NaN becomes epsilon, an infinity the ceiling: both
 * are counted by the caller, and neither moves the running maximum. */
DQN_SHARED struct dqn_priority dqn_priority_of_td(const struct dqn_agent *agent, float td) {
    struct dqn_priority priority;
    if (dqn_float_is_nan(td)) {
        priority.value = (float)agent->priority_epsilon;
        priority.kind = DQN_PRIORITY_NAN;
    } else if (!dqn_float_is_finite(td)) {
        priority.value = (float)agent->priority_max;
        priority.kind = DQN_PRIORITY_INF;
    } else {
        const double raw = dqn_pow(dqn_fabs((double)td), agent->alpha) + agent->priority_epsilon;
        priority.value = (float)dqn_clamp(raw, agent->priority_epsilon, agent->priority_max);
        priority.kind = DQN_PRIORITY_FINITE;
    }
    return priority;
}

/* Where the running maximum starts: the priority of |td| = 1, which with alpha = 0 is every row's.
 */
DQN_SHARED float dqn_priority_start(const struct dqn_agent *agent) {
    return dqn_priority_of_td(agent, 1.0f).value;
}

/* Fixed point, 20 bits behind the point: 4095 stays below 2^32. A filled row has at least 1, so it
 * can be drawn; 0 is an unfilled row's alone. */
DQN_SHARED uint32_t dqn_priority_leaf(float priority) {
    const double scaled = dqn_rint((double)priority * 1048576.0);
    if (!(scaled >= 1.0)) {
        return 1;
    }
    return scaled >= 4294967295.0 ? 4294967295u : (uint32_t)scaled;
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* Zeros below the lowest one of v, which has one. */
DQN_SHARED int dqn_trailing_zeros(uint64_t v) {
#ifdef __CUDA_ARCH__
    return __ffsll((long long)v) - 1;
#else
    return __builtin_ctzll(v);
#endif
}

/* floor(total * b / batch) for b <= batch < 2^32, exactly and without a 128-bit division:
 * with total = q * batch + r it is q * b + floor(r * b / batch). */
DQN_SHARED uint64_t dqn_stratum_start(uint64_t total, uint64_t b, uint64_t batch) {
    if ((batch & (batch - 1)) == 0) { /* the same by shifts: divisions are long on a GPU */
        const int bits = dqn_trailing_zeros(batch);
        return (total >> bits) * b + (((total & (batch - 1)) * b) >> bits);
    }
    return total / batch * b + total % batch * b / batch;
}

/* What row b of a batch looks for, below `total` (which is at least 1). The row drawn is the first
 * one whose inclusive prefix sum exceeds it. Stratified: row b draws from the b-th of `batch` equal
 * parts; an empty part (total < batch) gives its own start. */
DQN_SHARED uint64_t dqn_draw_target(uint64_t word, uint64_t total, uint64_t b, uint64_t batch,
                                    int stratified) {
    if (!stratified) {
        return dqn_mul_high(word, total);
    }
    const uint64_t low = dqn_stratum_start(total, b, batch);
    const uint64_t high = dqn_stratum_start(total, b + 1, batch);
    return low + dqn_mul_high(word, high - low);
}

/* The random word of row b of draw `draw`. */
DQN_SHARED uint64_t dqn_draw_word(uint64_t seed, uint64_t b, uint64_t draw) {
    return dqn_rng_u64(dqn_rng_block(seed, dqn_rng_stream(DQN_RNG_SAMPLER, b), draw), 0);
}

/* (N P)^-beta over its largest value = (smallest mass / mass)^beta: N and the total cancel. */
DQN_SHARED float dqn_importance_weight(uint64_t smallest, uint64_t mass, double beta) {
    return (float)dqn_pow((double)smallest / (double)mass, beta);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Bits behind the point of the masses by rank: 40, or fewer where the sum over `capacity` ranks,
 * at most 1 + integral of x^-alpha from 1 to capacity, would reach 2^62. */
DQN_SHARED int dqn_rank_bits(uint64_t capacity, double alpha) {
    const double n = (double)capacity, rest = 1.0 - alpha;
    const double sum = rest < 1e-6 ? 1.0 + dqn_log(n) : 1.0 + (dqn_pow(n, rest) - 1.0) / rest;
    int bits = 40;
    while (bits > 0 && sum * (double)((uint64_t)1 << bits) + n >= 4611686018427387904.0) {
        bits--;
    }
    return bits;
}

/* Mass of a rank (1 = highest priority): rank^-alpha in fixed point, at least 1. */
DQN_SHARED uint64_t dqn_rank_mass(uint64_t rank, double alpha, int bits) {
    const double mass = dqn_rint(dqn_pow((double)rank, -alpha) * (double)((uint64_t)1 << bits));
    return mass < 1.0 ? 1 : (uint64_t)mass;
}

/* Inclusive prefix sums of the masses of ranks 1 .. capacity, for either backend's host part. */
DQN_SHARED void dqn_rank_prefix(uint64_t *prefix, uint64_t capacity, double alpha) {
    const int bits = dqn_rank_bits(capacity, alpha);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < capacity; i++) {
        sum += dqn_rank_mass(i + 1, alpha, bits);
        prefix[i] = sum;
    }
}

#endif
