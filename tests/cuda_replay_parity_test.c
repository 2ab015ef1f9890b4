/* The replay on the GPU against the one on the CPU: with the same random words the same rows, the
 * same weights, the same priorities, bit for bit. */
#include "cuda_replay_fixture.h"
#include "program.h"

struct kind {
    const char *name;
    int kind, sums;
    uint64_t rank_interval;
};

static const struct kind kinds[] = {
    {"uniform", DQN_REPLAY_UNIFORM, DQN_SUMS_TREE, 1},
    {"tree", DQN_REPLAY_PROPORTIONAL, DQN_SUMS_TREE, 1},
    {"scan", DQN_REPLAY_PROPORTIONAL, DQN_SUMS_SCAN, 1},
    {"rank", DQN_REPLAY_RANK, DQN_SUMS_TREE, 1},
    {"rank every 3", DQN_REPLAY_RANK, DQN_SUMS_TREE, 3},
};

static struct dqn_sampler_spec make_spec(const struct kind *kind, size_t n_agents, size_t capacity,
                                         size_t batch, bool stratified, int weight_norm) {
    return (struct dqn_sampler_spec){.kind = kind->kind,
                                     .n_agents = n_agents,
                                     .capacity = capacity,
                                     .batch = batch,
                                     .stratified = stratified,
                                     .weight_norm = weight_norm,
                                     .rank_interval = kind->rank_interval,
                                     .alpha = 0.6,
                                     .sums = kind->sums};
}

static void put_both(struct store st[SIDES], const char *name, const void *data) {
    for (int s = 0; s < SIDES; s++) {
        const struct dqn_buffer *to = dqn_arena_find(st[s].arena, name);
        store_put(&st[s], to, data, to->bytes);
    }
}

static void agree(const struct store st[SIDES], const char *name, const char *what) {
    stores_agree(&st[CPU], &st[GPU], name, what);
}

/* Words with the extremes among them: the first and the last row must come out, no other. */
static void put_words(struct store st[SIDES], uint64_t sequence) {
    const size_t n = st[CPU].spec.n_agents * st[CPU].spec.batch;
    uint64_t *words = malloc(n * sizeof *words);
    for (size_t i = 0; i < n; i++) {
        const uint64_t word = hash_word(sequence, i);
        words[i] = word % 16 == 0 ? 0 : word % 16 == 1 ? UINT64_MAX : word;
    }
    put_both(st, "test/words", words);
    free(words);
}

/* TD errors over many sizes, some of them extreme or not numbers. */
static void put_td(struct store st[SIDES], uint64_t sequence) {
    static const float extremes[] = {NAN,     INFINITY, -INFINITY, 3e38f, 0.0f,
                                     -1e-42f, -NAN,     1e6f,      1.0f,  -0.0f};
    const size_t n = st[CPU].spec.n_agents * st[CPU].spec.batch;
    float *td = malloc(n * sizeof *td);
    for (size_t i = 0; i < n; i++) {
        const double size = exp(12 * hash_unit(sequence, i) - 8);
        td[i] = (float)(hash_word(sequence + 1, i) % 2 == 0 ? size : -size);
        if (hash_word(sequence + 2, i) % 8 == 0) {
            td[i] = extremes[hash_word(sequence + 3, i) % DQN_COUNT_OF(extremes)];
        }
    }
    put_both(st, "test/td", td);
    free(td);
}

/* Half of each agent's batch becomes its first row. */
static void repeat_rows(struct store st[SIDES]) {
    const size_t k = st[CPU].spec.n_agents, b = st[CPU].spec.batch;
    int64_t *index = store_get(&st[CPU], st[CPU].index);
    for (size_t i = 0; i < k * b; i++) {
        index[i] = i % 2 == 0 ? index[i / b * b] : index[i];
    }
    put_both(st, "test/index", index);
    free(index);
}

static void draw_both(struct store st[SIDES], bool use_words, const char *what) {
    for (int s = 0; s < SIDES; s++) {
        OK(store_draw(&st[s], st[s].side->q, use_words));
    }
    agree(st, "test/index", what);
    agree(st, "test/weight", what);
}

/* A batch drawn and gathered, in one go where the side offers that. */
static void gather_both(struct pair *pair, struct store st[SIDES], const char *what) {
    const size_t rows = st[CPU].spec.n_agents * st[CPU].spec.batch, ld = STORE_OBS + 1;
    struct mirror out[6]; /* state, next, action, reward, discount, done */
    for (int i = 0; i < 6; i++) {
        out[i] = mirror_make(pair, rows * (i < 2 ? ld : 1) * (i < 5 ? sizeof(float) : 1), NULL);
    }
    for (int s = 0; s < SIDES; s++) {
        const struct dqn_gather_args batch = {.obs_ld = ld,
                                              .state = out[0].at[s],
                                              .next = out[1].at[s],
                                              .action = out[2].at[s],
                                              .reward = out[3].at[s],
                                              .discount = out[4].at[s],
                                              .done = out[5].at[s]};
        OK(store_draw_gather(&st[s], st[s].side->q, batch));
    }
    agree(st, "test/index", what);
    agree(st, "test/weight", what);
    for (int i = 0; i < 6; i++) {
        mirror_equal(pair, &out[i], what);
        mirror_free(pair, &out[i]);
    }
}

static void insert_both(struct store st[SIDES], size_t count) {
    for (int s = 0; s < SIDES; s++) {
        OK(store_insert(&st[s], st[s].side->q, count));
    }
}

/* Draws, an update with duplicates, and a draw with the agents' own random words. */
static void learn_both(struct store st[SIDES], uint64_t round, const char *what) {
    put_words(st, 10 * round + 1);
    draw_both(st, true, what);
    if (round % 2 == 1) {
        repeat_rows(st);
    }
    put_td(st, 10 * round + 2);
    uint32_t ok[3] = {round % 4 != 2, 1, 1}; /* now and then agent 0 skips */
    for (int s = 0; s < SIDES; s++) {
        store_put(&st[s], st[s].ok, ok, st[s].ok->bytes);
        OK(store_update(&st[s], st[s].side->q));
    }
    agree(st, "test/priorities", what);
    agree(st, "test/seen", what);
    draw_both(st, false, what);
    agree(st, "test/counters", what);
    agree(st, "test/ring", what);
}

/* The sums that a rebuild makes are those that were kept up to date all along. */
static void rebuild_changes_nothing(struct store *gpu, const char *what) {
    const struct dqn_buffer *sums = dqn_arena_find(gpu->arena, "sampler/sums");
    void *before = sums != NULL ? store_get(gpu, sums) : NULL;
    OK(store_rebuild(gpu, gpu->side->q));
    if (sums != NULL) {
        void *after = store_get(gpu, sums);
        cr_assert_eq(memcmp(before, after, sums->bytes), 0, "%s: sums differ from rebuilt ones",
                     what);
        free(after);
    }
    free(before);
}

static void copy_saved(const struct store *from, const struct store *to, const char *name) {
    const struct dqn_buffer *source = dqn_arena_find(from->arena, name);
    const struct dqn_buffer *target = dqn_arena_find(to->arena, name);
    cr_assert(source != NULL && target != NULL && source->bytes == target->bytes, "%s", name);
    void *data = store_get(from, source);
    store_put(to, target, data, source->bytes);
    free(data);
}

/* What the CPU would save goes into a fresh store of the other side, which draws as the CPU that
 * never stopped. */
static void move_between(struct pair *pair, struct store st[SIDES], const char *what) {
    static const char *const saved[] = {"test/counters", "test/ring", "test/seen",
                                        "test/priorities"};
    struct store fresh[SIDES] = {st[CPU]};
    store_open(&fresh[GPU], &pair->side[GPU], &st[CPU].spec, STORE_OBS, 1);
    for (size_t i = 0; i < DQN_COUNT_OF(saved); i++) {
        copy_saved(&st[CPU], &fresh[GPU], saved[i]);
    }
    for (size_t i = 0; i < dqn_arena_count(st[CPU].arena); i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(st[CPU].arena, i);
        if (buffer->flags & DQN_BUFFER_SAVED) {
            copy_saved(&st[CPU], &fresh[GPU], buffer->name);
        }
    }
    OK(store_rebuild(&fresh[GPU], fresh[GPU].side->q));
    for (int i = 0; i < 4; i++) {
        draw_both(fresh, false, what);
    }
    store_close(&fresh[GPU]);
}

static void small_case(struct pair *pair, const struct kind *kind,
                       const struct dqn_sampler_spec *spec) {
    static const char *const columns[] = {"test/states",  "test/next_states", "test/actions",
                                          "test/rewards", "test/discounts",   "test/dones"};
    const size_t n = spec->capacity;
    const size_t counts[] = {1, n / 3 + 1, 1, n, n / 2 + 1, n > 1 ? n - 1 : 1, n < 33 ? n : 33};
    char what[160];
    struct store st[SIDES];
    for (int s = 0; s < SIDES; s++) {
        store_open(&st[s], &pair->side[s], spec, STORE_OBS, n);
    }
    for (size_t round = 0; round < reduced(DQN_COUNT_OF(counts), 3); round++) {
        snprintf(what, sizeof what, "%s, N %zu, K %zu, B %zu, stratified %d, norm %d, round %zu",
                 kind->name, n, spec->n_agents, spec->batch, spec->stratified, spec->weight_norm,
                 round);
        insert_both(st, counts[round]);
        learn_both(st, round, what);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(columns); i++) {
        agree(st, columns[i], what);
    }
    gather_both(pair, st, what);
    rebuild_changes_nothing(&st[GPU], what);
    move_between(pair, st, what);
    for (int s = 0; s < SIDES; s++) {
        store_close(&st[s]);
    }
}

Test(cuda_replay_parity, small) {
    static const size_t capacities[] = {1, 2, 31, 32, 33, 1023, 1024, 1025, 32769};
    static const size_t few[] = {1, 33, 32769}; /* trees of one and of three levels */
    const struct sizes sizes = SIZES(capacities, few);
    static const size_t batches[] = {33, 1, 257, 5000, 31, 255, 256}; /* 5000: updates by several */
    struct pair pair;
    size_t n_cases = 0;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        for (size_t j = 0; j < sizes.n; j++) {
            for (unsigned options = 0; options < 4; options += (unsigned)reduced(1, 3)) {
                const size_t batch = batches[(n_cases / 4 + n_cases) % DQN_COUNT_OF(batches)];
                const size_t n_agents = n_cases % 3 == 0 ? 3 : 1;
                const struct dqn_sampler_spec spec = make_spec(
                    &kinds[i], n_agents, sizes.v[j], batch, options & 1, (int)(options / 2));
                small_case(&pair, &kinds[i], &spec);
                n_cases++;
            }
        }
    }
    cr_log_info("%zu cases of drawing, updating and inserting are equal", n_cases);
    pair_close(&pair);
}

/* ---- large replays ---- */

static void large_case(struct pair *pair, const struct kind *kind,
                       const struct dqn_sampler_spec *spec, size_t missing, size_t most) {
    char what[96];
    struct store st[SIDES];
    float *priorities =
        random_priorities(50, spec->n_agents, spec->capacity, spec->capacity - missing);
    for (int s = 0; s < SIDES; s++) {
        store_open(&st[s], &pair->side[s], spec, 1, most);
        store_load(&st[s], priorities, spec->capacity - missing);
    }
    for (uint64_t round = 0; round < 3; round++) {
        snprintf(what, sizeof what, "%s, N %zu, round %llu", kind->name, spec->capacity,
                 (unsigned long long)round);
        learn_both(st, 20 + round, what);
        insert_both(st, round == 1 ? most : most / 2 + 1); /* goes round the end */
    }
    rebuild_changes_nothing(&st[GPU], what);
    draw_both(st, false, what);
    for (int s = 0; s < SIDES; s++) {
        store_close(&st[s]);
    }
    free(priorities);
}

Test(cuda_replay_parity, large) {
    struct pair pair;
    skip_reduced("the kernels of small");
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const bool buffer = kinds[i].kind == DQN_REPLAY_PROPORTIONAL;
        struct dqn_sampler_spec spec =
            make_spec(&kinds[i], 1, 1000003, 1024, true,
                      buffer ? DQN_WEIGHT_NORM_BUFFER : DQN_WEIGHT_NORM_BATCH);
        large_case(&pair, &kinds[i], &spec, 5000, 600000);
        if (kinds[i].kind == DQN_REPLAY_RANK) {
            continue; /* ten_million_ranks */
        }
        spec = make_spec(&kinds[i], 1, 10000000, 256, false, DQN_WEIGHT_NORM_BATCH);
        large_case(&pair, &kinds[i], &spec, 100, 4096);
    }
    pair_close(&pair);
}

/* The CPU's first sort takes seconds. */
Test(cuda_replay_parity, ten_million_ranks) {
    struct pair pair;
    skip_reduced("the kernels of small");
    pair_open(&pair, DQN_PRECISION_FP32);
    const struct dqn_sampler_spec spec =
        make_spec(&kinds[3], 1, 10000000, 256, false, DQN_WEIGHT_NORM_BATCH);
    cr_assert_eq(spec.kind, DQN_REPLAY_RANK);
    large_case(&pair, &kinds[3], &spec, 100, 4096);
    pair_close(&pair);
}

/* ---- captured ---- */

static enum dqn_status cycle(void *context, struct dqn_queue *q) {
    const struct store *s = context;
    DQN_TRY(store_draw(s, q, false));
    DQN_TRY(store_update(s, q));
    return store_insert(s, q, 7);
}

static void graph_case(struct pair *pair, const struct kind *kind, size_t capacity, int norm) {
    static const char *const names[] = {"test/index",   "test/weight", "test/priorities",
                                        "test/seen",    "test/ring",   "test/counters",
                                        "test/actions", "test/states"};
    const struct dqn_sampler_spec spec = make_spec(kind, 3, capacity, 65, true, norm);
    struct store st[SIDES];
    struct dqn_program *program[SIDES];
    for (int s = 0; s < SIDES; s++) {
        store_open(&st[s], &pair->side[s], &spec, STORE_OBS, capacity);
        OK(store_insert(&st[s], st[s].side->q, capacity / 2));
        OK(dqn_program_record(&program[s], cycle, &st[s]));
    }
    put_td(st, 77);
    for (int s = 0; s < SIDES; s++) {
        for (int run = 0; run < (int)reduced(100, 26); run++) {
            OK(dqn_program_run(program[s], st[s].side->q));
        }
    }
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        agree(st, names[i], kind->name);
    }
    if (kind->rank_interval > 1) {
        agree(st, "sampler/order", kind->name);
        agree(st, "sampler/ranked", kind->name);
    }
    for (int s = 0; s < SIDES; s++) {
        OK(st[s].side->backend->queue->wait(st[s].side->q));
        dqn_program_destroy(program[s]);
        store_close(&st[s]);
    }
}

/* A hundred runs of one captured program against a hundred calls on the CPU; 7 rows a run fill the
 * ring and go round its end several times (reduced: 26 runs, and once). */
Test(cuda_replay_parity, captured) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        graph_case(&pair, &kinds[i], 333, DQN_WEIGHT_NORM_BUFFER);
        if (!is_reduced()) {
            graph_case(&pair, &kinds[i], 100, DQN_WEIGHT_NORM_BATCH);
        }
    }
    pair_close(&pair);
}
