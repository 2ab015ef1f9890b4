/* Draws and priority updates of the CPU samplers, against the slow model. */
#include "sampler_rig.h"

static const size_t capacities[] = {1, 2, 3, 7, 100, 1000, 1023, 1024, 1025, 4096, 1000003};
static const int kinds[] = {DQN_REPLAY_UNIFORM, DQN_REPLAY_PROPORTIONAL, DQN_REPLAY_RANK};

static struct dqn_sampler_spec spec_of(int kind, size_t capacity, size_t batch) {
    return (struct dqn_sampler_spec){.kind = kind,
                                     .n_agents = 1,
                                     .capacity = capacity,
                                     .batch = batch,
                                     .stratified = true,
                                     .weight_norm = DQN_WEIGHT_NORM_BATCH,
                                     .rank_interval = 1,
                                     .alpha = 0.7};
}

/* ---- the model ---- */

/* The smallest and the largest word in the first and last rows, random ones between. */
static void edge_words(struct rig *r, uint64_t sequence) {
    const size_t n = r->spec.batch;
    for (size_t b = 0; b < n; b++) {
        r->words[b] = rig_word(sequence, b);
    }
    r->words[0] = 0;
    r->words[n / 2] = sequence % 2 == 0 ? 0 : UINT64_MAX;
    r->words[n - 1] = UINT64_MAX;
}

/* Same rows as the model; weights within the rounding to float (6e-8) and what the quotient of two
 * rounded powers adds in double. */
static void compare_with_model(struct rig *r, uint64_t sequence) {
    const struct model_spec model = {.kind = r->spec.kind == DQN_REPLAY_UNIFORM        ? 0
                                             : r->spec.kind == DQN_REPLAY_PROPORTIONAL ? 1
                                                                                       : 2,
                                     .batch = r->spec.batch,
                                     .stratified = r->spec.stratified,
                                     .norm_buffer = r->spec.weight_norm == DQN_WEIGHT_NORM_BUFFER,
                                     .rank_alpha = r->spec.alpha,
                                     .beta = r->agents[0].beta_start};
    int64_t *index = rig_zeros(r->spec.batch, sizeof *index);
    long double *weight = rig_zeros(r->spec.batch, sizeof *weight);
    edge_words(r, sequence);
    rig_draw(r, true);
    model_draw(&model, r->priorities, (size_t)r->ring.size, r->words, index, weight);
    for (size_t b = 0; b < r->spec.batch; b++) {
        cr_assert_eq(r->index[b], index[b],
                     "kind %d capacity %zu size %zu stratified %d row %zu: %lld, not %lld",
                     r->spec.kind, r->spec.capacity, (size_t)r->ring.size, r->spec.stratified, b,
                     (long long)r->index[b], (long long)index[b]);
        cr_assert(r->index[b] >= 0 && (uint64_t)r->index[b] < r->ring.size);
        cr_assert(fabsl(r->weight[b] - weight[b]) <= 1e-7L * weight[b],
                  "kind %d size %zu row %zu: %.9g, not %.9Lg", r->spec.kind, (size_t)r->ring.size,
                  b, r->weight[b], weight[b]);
        cr_assert(r->weight[b] > 0.0f && r->weight[b] <= 1.0f);
    }
    free(index);
    free(weight);
}

static void compare_at(const struct dqn_sampler_spec *spec) {
    const size_t n = spec->capacity;
    const size_t fills[] = {1, n > 1 ? n - 1 : 1, n, n / 2 + 1};
    struct rig r;
    rig_open(&r, spec);
    for (size_t f = 0; f < DQN_COUNT_OF(fills); f++) {
        memset(r.priorities, 0, n * sizeof(float));
        rig_random_priorities(&r, fills[f], f);
        if (f == 0 || fills[f] >= r.ring.size) { /* a load never takes rows away */
            rig_load(&r, fills[f]);
            compare_with_model(&r, f);
        }
    }
    rig_close(&r);
}

Test(sampler, draws_what_the_model_draws) {
    for (size_t c = 0; c < DQN_COUNT_OF(capacities); c++) {
        for (int variant = 0; variant < 12; variant++) {
            const bool large = capacities[c] > 100000;
            struct dqn_sampler_spec spec = spec_of(kinds[variant % 3], capacities[c], 5);
            spec.batch = large ? 3 : variant < 6 ? 130 : 37;
            spec.stratified = variant / 3 % 2 == 0;
            spec.weight_norm = variant / 6 == 0 ? DQN_WEIGHT_NORM_BATCH : DQN_WEIGHT_NORM_BUFFER;
            if (!large || variant == 1 || variant == 2 || variant == 10) {
                compare_at(&spec);
            }
        }
    }
}

/* A ring that grows, is overwritten and updated, row by row as in training. */
static void live(struct rig *r, int steps) {
    for (int step = 0; step < steps; step++) {
        rig_insert(r, 1 + (size_t)(rig_word(50, (uint64_t)step) % r->spec.capacity) / 3);
        compare_with_model(r, (uint64_t)step);
        for (size_t b = 0; b < r->spec.batch; b++) {
            const uint64_t at = (uint64_t)step * r->spec.batch + b;
            r->td[b] = (float)(8 * (rig_unit(51, at) - 0.5));
            r->td[b] = at % 7 == 0 ? 0.5f : r->td[b]; /* ties */
        }
        rig_update(r, r->spec.batch);
    }
}

Test(sampler, follows_a_life_of_inserts_and_updates) {
    static const size_t sizes[] = {1, 2, 7, 100, 1023, 1025};
    for (size_t c = 0; c < DQN_COUNT_OF(sizes); c++) {
        for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
            struct dqn_sampler_spec spec = spec_of(kinds[n], sizes[c], 33);
            spec.weight_norm = c % 2 == 0 ? DQN_WEIGHT_NORM_BUFFER : DQN_WEIGHT_NORM_BATCH;
            struct rig r;
            rig_open(&r, &spec);
            live(&r, 60);
            rig_close(&r);
        }
    }
}

/* Every place of the total, so the first and the last of each row's stretch too: leaves of 1 to 4
 * that end in empty places, each word the smallest that leads to its place. */
Test(sampler, every_place_leads_to_its_row) {
    static const size_t sizes[] = {1, 2, 7, 64, 1000, 1023};
    for (size_t c = 0; c < DQN_COUNT_OF(sizes); c++) {
        const size_t n = sizes[c];
        struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, n + c, 1);
        uint64_t total = 0;
        struct rig r;
        spec.stratified = false;
        rig_open(&r, &spec);
        for (size_t i = 0; i < n; i++) {
            r.priorities[i] = (float)(1 + rig_word(40, i) % 4) / 1048576;
            total += model_leaf(r.priorities[i]);
        }
        rig_load(&r, n);
        for (size_t i = 0, place = 0; i < n; i++) {
            const size_t end = place + (size_t)model_leaf(r.priorities[i]);
            for (; place < end; place++) {
                __extension__ typedef unsigned __int128 wide;
                r.words[0] = (uint64_t)((((wide)place << 64) + total - 1) / total);
                rig_draw(&r, true);
                cr_assert_eq(r.index[0], (int64_t)i, "%zu rows, place %zu", n, place);
            }
        }
        rig_close(&r);
    }
}

/* Eight equal ranks (alpha = 0): rank i's stretch starts at i / 8 of the total. */
Test(sampler, every_edge_leads_to_its_rank) {
    struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_RANK, 11, 1);
    struct rig r;
    spec.stratified = false;
    spec.alpha = 0;
    rig_open(&r, &spec);
    rig_insert(&r, 8); /* equal priorities: ranks in order of rows */
    for (uint64_t i = 0; i < 8; i++) {
        r.words[0] = i << 61;
        rig_draw(&r, true);
        cr_assert_eq(r.index[0], (int64_t)i);
        r.words[0] = (i << 61) - 1; /* the last place before it; of rank 0, the last of all */
        rig_draw(&r, true);
        cr_assert_eq(r.index[0], (int64_t)((i + 7) % 8));
    }
    rig_close(&r);
}

/* ---- exact sums ---- */

static void random_updates(struct rig *r, size_t n_updates) {
    const size_t n = r->spec.capacity, batch = r->spec.batch;
    for (size_t done = 0; done < n_updates; done += batch) {
        for (size_t b = 0; b < batch; b++) {
            r->index[b] = (int64_t)(rig_word(60, done + b) % n);
            r->td[b] = (float)exp(-20 + 40 * rig_unit(61, done + b));
        }
        rig_update(r, batch);
    }
}

/* The root is the sum of the leaves, to the last unit, after any number of updates. */
Test(sampler, total_is_exact_after_many_updates) {
    static const size_t sizes[] = {1, 1023, 1 << 20};
    for (size_t c = 0; c < DQN_COUNT_OF(sizes); c++) {
        struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, sizes[c], 1000);
        spec.weight_norm = DQN_WEIGHT_NORM_BUFFER;
        struct rig r;
        rig_open(&r, &spec);
        r.agents[0].priority_epsilon = 1e-6;
        rig_insert(&r, sizes[c]);
        for (int round = 0; round < 3; round++) {
            random_updates(&r, 100000);
            rig_insert(&r, sizes[c] / 3);
            cr_assert_eq(dqn_tree_total(r.sampler, 0), rig_sum_of_leaves(&r, 0));
            uint64_t least = UINT64_MAX;
            for (size_t i = 0; i < sizes[c]; i++) {
                const uint64_t leaf = model_leaf(r.priorities[i]);
                least = leaf < least ? leaf : least;
            }
            cr_assert_eq(dqn_tree_minimum(r.sampler, 0), least);
        }
        rig_close(&r);
    }
}

/* ---- updates ---- */

/* Eight errors for one row, in every rotation: the largest stays, though it is below the old one;
 * the total is that of a rebuilt tree. */
Test(sampler, largest_of_a_batch_stays) {
    static const float errors[8] = {0.25f, 0.5f, 0.0f, NAN, -0.75f, 0.1f, 0.3f, -0.7f};
    struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, 10, 10);
    struct rig r;
    rig_open(&r, &spec);
    rig_insert(&r, 10);
    for (size_t turn = 0; turn < 8; turn++) {
        for (size_t b = 0; b < 8; b++) {
            r.index[b] = 4;
            r.td[b] = errors[(b + turn) % 8];
        }
        r.index[8] = r.index[9] = 2;
        r.td[8] = r.td[9] = 3.0f;
        rig_update(&r, 10);
        cr_assert_eq(r.priorities[4], (float)model_priority(-0.75, 0.6, 1e-3, 4095));
        cr_assert_eq(dqn_tree_total(r.sampler, 0), rig_sum_of_leaves(&r, 0));
    }
    cr_assert_eq(r.counters[0].priority_nan, 8);
    cr_assert_eq(r.priorities[2], (float)model_priority(3, 0.6, 1e-3, 4095));
    cr_assert_eq(r.seen[0], r.priorities[2]);
    rig_insert(&r, 1);
    cr_assert_eq(r.priorities[0], r.seen[0], "a new row gets the running maximum");
    rig_close(&r);
}

/* The running maximum never falls, and only finite errors raise it. */
Test(sampler, faults_are_counted_and_do_not_spread) {
    static const float errors[] = {NAN, INFINITY, -INFINITY, NAN, 1e-45f, 0.0f};
    for (size_t n = 1; n < DQN_COUNT_OF(kinds); n++) {
        struct dqn_sampler_spec spec = spec_of(kinds[n], 100, 6);
        struct rig r;
        rig_open(&r, &spec);
        rig_insert(&r, 100);
        for (size_t b = 0; b < 6; b++) {
            r.index[b] = (int64_t)(10 * b);
            r.td[b] = errors[b];
        }
        const float seen = r.seen[0];
        rig_update(&r, 6);
        static const float want[] = {1e-3f, 4095, 4095, 1e-3f, 1e-3f, 1e-3f};
        for (size_t b = 0; b < 6; b++) {
            cr_assert_eq(r.priorities[10 * b], want[b], "error %zu", b);
        }
        cr_assert_eq(r.counters[0].priority_nan, 2);
        cr_assert_eq(r.counters[0].priority_inf, 2);
        cr_assert_eq(r.seen[0], seen);
        compare_with_model(&r, n);
        r.index[0] = 5;
        r.td[0] = 3e38f; /* finite: raises it, to the ceiling */
        rig_update(&r, 1);
        cr_assert_eq(r.seen[0], 4095.0f);
        compare_with_model(&r, n);
        rig_close(&r);
    }
}

Test(sampler, skipped_update_writes_nothing) {
    for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
        struct dqn_sampler_spec spec = spec_of(kinds[n], 50, 8);
        spec.n_agents = 2;
        struct rig r;
        rig_open(&r, &spec);
        rig_insert(&r, 50);
        float before[50];
        memcpy(before, r.priorities, sizeof before);
        rig_draw(&r, false);
        for (size_t b = 0; b < 16; b++) {
            r.td[b] = b % 2 == 0 ? NAN : 100.0f;
        }
        r.ok[0] = 0;
        rig_update(&r, 8);
        cr_assert_arr_eq(r.priorities, before, sizeof before);
        cr_assert_eq(r.counters[0].priority_nan, 0);
        cr_assert_eq(r.seen[0], (float)1.001);
        cr_assert_eq(r.counters[1].priority_nan, kinds[n] == DQN_REPLAY_UNIFORM ? 0 : 4);
        rig_close(&r);
    }
}

Test(sampler, empty_replay_is_reported) {
    for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
        struct dqn_sampler_spec spec = spec_of(kinds[n], 50, 8);
        struct rig r;
        rig_open(&r, &spec);
        cr_assert_eq(rig_try_draw(&r, false), DQN_ERR_STATE);
        cr_assert(strlen(dqn_error_text()) > 0);
        rig_close(&r);
    }
}

/* ---- weights ---- */

/* Priorities 1, 2, 3, 4: the batch draws each of them, or only the last two. */
Test(sampler, weights_by_hand) {
    static const double betas[] = {0.4, 1};
    static const double want[2][4] = {{1, 0.7578582833, 0.6443940150, 0.5743491775},
                                      {1, 0.5, 0.3333333333, 0.25}};
    for (int norm = 0; norm < 2; norm++) {
        struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, 9, 4);
        spec.stratified = false;
        spec.weight_norm = norm == 0 ? DQN_WEIGHT_NORM_BATCH : DQN_WEIGHT_NORM_BUFFER;
        struct rig r;
        rig_open(&r, &spec);
        for (size_t i = 0; i < 4; i++) {
            r.priorities[i] = (float)(i + 1);
        }
        rig_load(&r, 4); /* rows 4 to 8 are empty: no minimum of 0 */
        for (size_t n = 0; n < 2; n++) {
            static const double middles[] = {0.05, 0.2, 0.45, 0.8}; /* of the stretches of P */
            r.agents[0].beta_start = r.agents[0].beta_end = betas[n];
            for (size_t b = 0; b < 4; b++) {
                r.words[b] = (uint64_t)(middles[b] * 0x1p64);
            }
            rig_draw(&r, true);
            for (size_t b = 0; b < 4; b++) {
                cr_assert_eq(r.index[b], (int64_t)b);
                cr_assert_float_eq(r.weight[b], want[n][b], 6e-8);
            }
            r.words[0] = r.words[1] = r.words[2];
            rig_draw(&r, true);
            const double top = norm == 0 ? want[n][2] : 1.0;
            cr_assert_float_eq(r.weight[0], want[n][2] / top, 6e-8);
            cr_assert_float_eq(r.weight[3], want[n][3] / top, 6e-8);
        }
        rig_close(&r);
    }
}

/* beta follows the number of updates, not of draws. */
Test(sampler, beta_is_annealed_by_updates) {
    struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, 2, 2);
    struct rig r;
    rig_open(&r, &spec);
    r.agents[0].beta_start = 0.4;
    r.agents[0].beta_end = 1;
    r.agents[0].beta_updates = 1000;
    r.priorities[0] = 1;
    r.priorities[1] = 4;
    rig_load(&r, 2);
    static const uint64_t updates[] = {0, 500, 1000, 5000};
    static const double betas[] = {0.4, 0.7, 1, 1};
    for (size_t i = 0; i < 4; i++) {
        r.counters[0].updates = updates[i];
        r.words[0] = 0;
        r.words[1] = UINT64_MAX;
        rig_draw(&r, true);
        cr_assert_float_eq(r.weight[1], pow(4, -betas[i]), 6e-8);
        cr_assert_eq(r.counters[0].draws, i + 1);
        cr_assert_eq(r.counters[0].updates, updates[i]);
    }
    rig_close(&r);
}

Test(sampler, alpha_0_and_beta_0_give_weights_of_1) {
    for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
        for (int zero = 0; zero < 2; zero++) { /* which one is 0 */
            struct dqn_sampler_spec spec = spec_of(kinds[n], 777, 64);
            spec.alpha = zero == 0 ? 0 : 0.7;
            struct rig r;
            rig_open(&r, &spec);
            r.agents[0].alpha = zero == 0 ? 0 : 0.6;
            r.agents[0].beta_start = r.agents[0].beta_end = zero == 1 ? 0 : 0.4;
            rig_insert(&r, 700);
            for (size_t step = 0; step < 20; step++) {
                rig_draw(&r, false);
                for (size_t b = 0; b < 64; b++) {
                    cr_assert_eq(r.weight[b], 1.0f);
                    r.td[b] = (float)(b * step) / 100.0f;
                }
                rig_update(&r, 64);
            }
            if (zero == 0 && kinds[n] == DQN_REPLAY_PROPORTIONAL) {
                cr_assert_eq(dqn_tree_total(r.sampler, 0), 700 * (uint64_t)model_leaf(1.001f),
                             "uniform, zero errors included");
            }
            rig_close(&r);
        }
    }
}

/* ---- the order of a rank sampler ---- */

static void compare_order(const struct rig *r, const char *when) {
    uint32_t *want = rig_zeros((size_t)r->ring.size, sizeof *want);
    model_order(r->priorities, (size_t)r->ring.size, want);
    const uint32_t *order = r->sampler->order->data;
    for (size_t i = 0; i < r->ring.size; i++) {
        cr_assert_eq(order[i], want[i], "%s: rank %zu", when, i + 1);
    }
    free(want);
}

/* Merging what changed gives the order of a full sort, ties and overwritten rows included. */
Test(sampler, merged_order_is_the_sorted_one) {
    struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_RANK, 3001, 100);
    struct rig r;
    rig_open(&r, &spec);
    for (uint64_t step = 0; step < 300; step++) {
        if (step % 3 == 0) {
            rig_insert(&r, rig_word(70, step) % 200 + 1);
        }
        rig_draw(&r, false);
        compare_order(&r, "after a draw");
        for (size_t b = 0; b < 100; b++) {
            r.index[b] = (int64_t)(rig_word(71, step * 100 + b) % r.ring.size);
            r.td[b] = (float)(rig_word(72, step * 100 + b) % 30) / 8; /* many ties */
        }
        rig_update(&r, step % 5 == 0 ? 1 : 100);
    }
    rig_close(&r);
}

/* With an interval the order stands still between the draws at which it is due. */
Test(sampler, rank_interval) {
    struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_RANK, 200, 20);
    spec.rank_interval = 4;
    struct rig r;
    rig_open(&r, &spec);
    rig_insert(&r, 200);
    uint32_t before[200];
    for (uint64_t draw = 0; draw < 40; draw++) {
        memcpy(before, r.sampler->order->data, sizeof before);
        rig_draw(&r, false);
        if (draw % 4 == 0) {
            compare_order(&r, "when due");
        } else {
            cr_assert_arr_eq(r.sampler->order->data, before, sizeof before);
        }
        for (size_t b = 0; b < 20; b++) {
            r.td[b] = (float)(4 * rig_unit(73, draw * 20 + b));
        }
        rig_update(&r, 20);
    }
    rig_close(&r);
}
