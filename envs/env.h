/* The contract of an environment: one header, written once, stepped by CPU threads and by a CUDA
 * kernel with the same results bit for bit.
 *
 *     struct <name>_params   constants, equal for all lanes, plain data
 *     struct <name>_state    one lane, plain data without padding surprises; it is saved as bytes
 *     <name>_defaults(params)                         host only
 *     <name>_reset(state, params, key, observation)   writes the first observation
 *     <name>_step(state, params, key, action, observation) -> struct dqn_env_outcome
 *
 * Rules for the code in such a header:
 *  - only + - * / sqrt, comparisons, integers, and the functions of src/shared/real.h (libm and
 *    CUDA's functions differ in the last bit; these do not);
 *  - random numbers only by dqn_env_random: a pure function of seed, lane, episode, step and slot;
 *  - step writes the true next observation also when the episode ends; the loop that calls it
 *    resets, and keeps that last observation as the transition's next state;
 *  - terminated (the task is over: no bootstrap) and truncated (cut off: bootstrap) are apart. The
 *    loop sets truncated when the time limit of env_list.h is reached. */
#ifndef DQN_ENVS_ENV_H
#define DQN_ENVS_ENV_H

#include "../src/shared/hd.h"
#include "../src/shared/rng.h"

struct dqn_env_outcome {
    float reward;
    uint8_t terminated;
    uint8_t truncated;
};

/* Where a lane stands: what its random numbers are made of. */
struct dqn_env_key {
    uint64_t seed;
    uint64_t stream;  /* purpose and lane, dqn_rng_stream */
    uint64_t episode; /* counts from 0 in each lane */
    uint64_t step;    /* in the episode; 0 in reset, 1 in the first step */
};

/* The slot-th (0..15) pair of 64-bit random words of a lane's step. */
DQN_SHARED struct dqn_u32x4 dqn_env_random(const struct dqn_env_key *key, unsigned slot) {
    const uint64_t counter = (key->episode << 32) | (key->step << 4) | slot;
    return dqn_rng_block(key->seed, key->stream, counter);
}

/* What the loop keeps for a lane beside the environment's own state: saved, and read at the
 * epoch's end. Sums are over finished episodes since the last dqn_env_ops.clear_sums. */
struct dqn_lane {
    uint64_t episode;
    uint64_t step;         /* steps taken in this episode */
    double episode_return; /* undiscounted, so far */
    uint64_t sum_episodes;
    uint64_t sum_steps; /* lengths of finished episodes */
    double sum_return;
    double min_return, max_return; /* of finished episodes; +-inf when there was none */
    uint64_t frozen; /* evaluation: 1 = this lane has run its episode, steps change nothing */
};

#endif
