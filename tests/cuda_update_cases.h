/* The cases of cuda_update_test: kinds of updates, in lists by what they are about. A list writes
 * its cases and returns how many they are. */
#ifndef DQN_TESTS_CUDA_UPDATE_CASES_H
#define DQN_TESTS_CUDA_UPDATE_CASES_H

#include "cuda_update_rig.h"

enum { MOST_CASES = 32 /* a list */ };

/* Batches around the tiles of 16 rows and for every shape of a cluster, by ReLU and by a smooth
 * activation, which are kernels of their own. */
static inline size_t list_batches(struct kind *cases) {
    static const size_t all[] = {1,   15,  16,  17,   31,   33,   64,   255,  256,
                                 257, 300, 512, 1000, 1024, 2000, 2048, 4096, 5000};
    static const size_t few[] = {1, 33, 300, 600, 1100, 2200}; /* a shape each on 132 SMs */
    const struct sizes batches = SIZES(all, few);
    size_t n = 0;
    for (size_t i = 0; i < batches.n; i++) {
        cases[n++] = usual(batches.v[i]);
    }
    for (size_t i = 2; i < DQN_COUNT_OF(few); i++) {
        cases[n] = usual(few[i]);
        cases[n].dueling = i % 2 == 1;
        cases[n++].activation = DQN_TANH;
    }
    return n;
}

/* Layers from one to more than the two kernels take, narrow and wide, and long observations. */
static inline size_t list_networks(struct kind *cases) {
    size_t n = 0;
    for (int activation = DQN_RELU; activation <= DQN_SILU; activation++) {
        cases[n] = usual(40);
        cases[n].dueling = activation % 2 == 1;
        cases[n++].activation = activation;
    }
    cases[n] = usual(100);
    cases[n].double_q = false;
    cases[n++].dueling = true;
    cases[n] = usual(256);
    cases[n].n_hidden = 0;
    cases[n++].replay = DQN_REPLAY_UNIFORM;
    cases[n] = usual(100);
    cases[n].n_hidden = 0;
    cases[n++].dueling = true;
    cases[n] = usual(reduced(700, 70));
    cases[n].n_hidden = 3;
    cases[n].hidden[0] = 40;
    cases[n].hidden[1] = 20;
    cases[n].hidden[2] = 56;
    cases[n].actions = 3;
    cases[n++].stratified = false;
    cases[n] = usual(300);
    cases[n].n_hidden = 1;
    cases[n].hidden[0] = 512;
    cases[n++].double_q = false;
    cases[n] = usual(
        reduced(2048, 33)); /* a share of one block would be more columns than its warps take */
    cases[n].hidden[0] = 512;
    cases[n++].hidden[1] = 400;
    cases[n] = usual(33); /* its weights take more blocks than a GPU has at once: three kernels */
    cases[n].n_hidden = 3;
    cases[n].hidden[0] = cases[n].hidden[1] = cases[n].hidden[2] = 544;
    cases[n++].activation = DQN_ELU;
    for (size_t n_hidden = 7; n_hidden <= 8; n_hidden++) {
        cases[n] = usual(64);
        cases[n].n_hidden = n_hidden;
        for (size_t l = 0; l < n_hidden; l++) {
            cases[n].hidden[l] = 20 + 12 * (int64_t)(l % 3);
        }
        cases[n].activation = DQN_TANH; /* smooth, or a kink among so few rows would be judged */
        cases[n++].apart = n_hidden == 8;
    }
    cases[n] = usual(64);
    cases[n++].obs = 64;
    cases[n] = usual(33);
    cases[n++].obs = 65;
    cases[n] = usual(300);
    cases[n].dueling = true;
    cases[n++].obs = 200;
    return n;
}

/* Errors that are not finite, replays that are small or hold rows several times. */
static inline size_t list_replays(struct kind *cases) {
    size_t n = 0;
    cases[n] = usual(64);
    cases[n++].bad_reward = true;
    cases[n] = usual(48);
    cases[n].agents = 2;
    cases[n++].bad_reward = true;
    cases[n] = usual(64);
    cases[n].streak = 9;
    cases[n++].bad_reward = true;
    cases[n] = usual(48);
    cases[n].agents = 2;
    cases[n].streak = 9;
    cases[n++].bad_reward = true;
    cases[n] = usual(reduced(600, 200)); /* each row several times */
    cases[n].capacity = reduced(90 * 7, 210);
    cases[n++].agents = 3;
    cases[n] = usual(1);
    cases[n++].capacity = 1;
    cases[n] = usual(7); /* full, and round the end */
    cases[n++].capacity = 20;
    cases[n] = usual(6); /* half full */
    cases[n].agents = 2;
    cases[n++].capacity = 31;
    cases[n] = usual(13);
    cases[n].replay = DQN_REPLAY_UNIFORM;
    cases[n++].capacity = 17;
    return n;
}

/* Steps of every kind, by one agent and by a population: targets copied at this update, at another
 * one, and never; weights that decay; gradients as they are. */
static inline size_t list_steps(struct kind *cases) {
    static const uint64_t periods[] = {FIRST_UPDATES + 1, 3, 0};
    size_t n = 0;
    for (size_t agents = 1; agents <= 2; agents++) {
        for (size_t i = 0; i < DQN_COUNT_OF(periods); i++) {
            cases[n] = usual(40);
            cases[n].agents = agents;
            cases[n].tau = 0;
            cases[n++].target_updates = periods[i];
        }
        cases[n] = usual(40);
        cases[n].agents = agents;
        cases[n].dueling = true;
        cases[n++].weight_decay = 10; /* 1 % a step, above what rounding does */
        cases[n] = usual(64);         /* skipped: a copy that would be due is not made */
        cases[n].agents = agents;
        cases[n].bad_reward = true;
        cases[n].tau = 0;
        cases[n++].target_updates = FIRST_UPDATES + 1;
    }
    return n;
}

static size_t (*const case_lists[])(struct kind *) = {list_batches, list_networks, list_replays,
                                                      list_steps};

#endif
