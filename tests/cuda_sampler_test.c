/* What the GPU draws, judged by statistics and by exact reference sums, up to 1e8 rows. Which rows
 * equal words give is judged by cuda_replay_parity_test. */
#include "cuda_replay_fixture.h"

enum { LARGE_BATCH = 1000000, LARGE_BATCHES = 10 };

struct kind {
    const char *name;
    int kind, sums;
};

static const struct kind kinds[] = {
    {"uniform", DQN_REPLAY_UNIFORM, DQN_SUMS_TREE},
    {"tree", DQN_REPLAY_PROPORTIONAL, DQN_SUMS_TREE},
    {"scan", DQN_REPLAY_PROPORTIONAL, DQN_SUMS_SCAN},
    {"rank", DQN_REPLAY_RANK, DQN_SUMS_TREE},
};

static struct dqn_sampler_spec make_spec(const struct kind *kind, size_t capacity, size_t batch,
                                         bool stratified) {
    return (struct dqn_sampler_spec){.kind = kind->kind,
                                     .n_agents = 1,
                                     .capacity = capacity,
                                     .batch = batch,
                                     .stratified = stratified,
                                     .weight_norm = DQN_WEIGHT_NORM_BATCH,
                                     .rank_interval = 1,
                                     .alpha = 0.6,
                                     .sums = kind->sums};
}

/* ---- exact probabilities, by other means ---- */

struct ranked_row {
    float priority;
    size_t row;
};

static int by_rank(const void *a, const void *b) {
    const struct ranked_row *x = a, *y = b;
    if (x->priority != y->priority) {
        return x->priority > y->priority ? -1 : 1;
    }
    return x->row < y->row ? -1 : 1;
}

/* Probability of each of n rows; the caller frees it. */
static double *probabilities(const struct kind *kind, const float *priorities, size_t n) {
    double *p = malloc(n * sizeof *p);
    struct ranked_row *rows = malloc(n * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct ranked_row){priorities[i], i};
        p[i] = kind->kind == DQN_REPLAY_UNIFORM ? 1 : nearbyint((double)priorities[i] * 1048576);
    }
    if (kind->kind == DQN_REPLAY_RANK) {
        qsort(rows, n, sizeof *rows, by_rank);
        for (size_t r = 0; r < n; r++) {
            p[rows[r].row] = pow((double)r + 1, -0.6);
        }
    }
    normalise(p, n);
    free(rows);
    return p;
}

/* Draws n_batches and adds each row drawn to counts [size]. */
static void count_draws(const struct store *s, size_t n_batches, uint64_t *counts, size_t size) {
    for (size_t i = 0; i < n_batches; i++) {
        OK(store_draw(s, s->side->q, false));
        int64_t *index = store_get(s, s->index);
        add_counts(index, s->spec.batch, counts, size);
        free(index);
    }
}

static void distribution_case(struct pair *pair, const struct kind *kind, size_t capacity,
                              size_t size, size_t batch, size_t n_batches) {
    struct store s;
    const struct dqn_sampler_spec spec = make_spec(kind, capacity, batch, false);
    float *priorities = random_priorities(60, 1, capacity, size);
    double *p = probabilities(kind, priorities, size);
    uint64_t *counts = calloc(size, sizeof *counts);
    store_open(&s, &pair->side[GPU], &spec, 1, 1);
    store_load(&s, priorities, size);
    count_draws(&s, n_batches, counts, size);
    const double draws = (double)batch * (double)n_batches;
    const double z = chi_square_deviate(counts, p, size, draws);
    cr_log_info("%s, %zu of %zu rows, %g draws: chi-square deviate %.2f", kind->name, size,
                capacity, draws, z);
    /* one in 30000 either way for a true sampler; the seeds are fixed */
    cr_assert(fabs(z) < 4, "%s, %zu rows, %g draws: deviate %g", kind->name, size, draws, z);
    store_close(&s);
    free(priorities);
    free(p);
    free(counts);
}

/* Each row of a stratified batch comes as often as expected, to less than 2: the strata that lie
 * inside its stretch give one draw each, the two at its ends may. */
static void strata_case(struct pair *pair, const struct kind *kind, size_t batch) {
    enum { ROWS = 1000 };
    struct store s;
    const struct dqn_sampler_spec spec = make_spec(kind, ROWS, batch, true);
    float *priorities = random_priorities(60, 1, ROWS, ROWS);
    double *p = probabilities(kind, priorities, ROWS), worst = 0;
    store_open(&s, &pair->side[GPU], &spec, 1, 1);
    store_load(&s, priorities, ROWS);
    for (int round = 0; round < 3; round++) {
        uint64_t counts[ROWS] = {0};
        count_draws(&s, 1, counts, ROWS);
        for (size_t i = 0; i < ROWS && kind->kind != DQN_REPLAY_RANK; i++) {
            worst = worse(worst, fabs((double)counts[i] - p[i] * (double)batch));
        }
    }
    cr_assert(worst <= 2, "%s: a row came %g times more or less often than expected", kind->name,
              worst);
    store_close(&s);
    free(priorities);
    free(p);
}

Test(cuda_sampler, distribution) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        distribution_case(&pair, &kinds[i], 1000, 900, 10000, 1);
        if (!is_reduced()) { /* few draws say nothing about a million rows */
            distribution_case(&pair, &kinds[i], 1000, 900, LARGE_BATCH, LARGE_BATCHES);
            distribution_case(&pair, &kinds[i], 1000003, 1000003, LARGE_BATCH, LARGE_BATCHES);
        }
        strata_case(&pair, &kinds[i], 4096);
    }
    pair_close(&pair);
}

/* ---- both backends ---- */

/* Largest distance of the two empirical distributions over the rows. */
static double kolmogorov_smirnov(const uint64_t *a, const uint64_t *b, size_t n, double draws) {
    double sum_a = 0, sum_b = 0, distance = 0;
    for (size_t i = 0; i < n; i++) {
        sum_a += (double)a[i];
        sum_b += (double)b[i];
        distance = worse(distance, fabs(sum_a - sum_b) / draws);
    }
    return distance;
}

/* Pearson's statistic of two samples of equal size as a normal deviate. Neighbouring rows are put
 * together until 20 draws were seen. */
static double two_samples_deviate(const uint64_t *a, const uint64_t *b, size_t n) {
    double chi = 0, cells = 0, sum_a = 0, sum_b = 0;
    for (size_t i = 0; i < n; i++) {
        sum_a += (double)a[i];
        sum_b += (double)b[i];
        if (sum_a + sum_b >= 20) {
            chi += (sum_a - sum_b) * (sum_a - sum_b) / (sum_a + sum_b);
            cells++;
            sum_a = sum_b = 0;
        }
    }
    return chi_square_as_normal(chi, cells - 1);
}

/* The two sides draw by different seeds. Bounds: two samples of one distribution exceed a distance
 * of 1.95 sqrt(2 / n) once in 1000 times (Smirnov 1948), and a deviate of 4 once in 30000 times
 * either way; the seeds are fixed. */
static void alike_case(struct pair *pair, const struct kind *kind, size_t n_batches) {
    enum { ROWS = 5000, BATCH = 2500 };
    const double draws = BATCH * (double)n_batches;
    const struct dqn_sampler_spec spec = make_spec(kind, ROWS, BATCH, false);
    float *priorities = random_priorities(60, 1, ROWS, ROWS);
    uint64_t counts[SIDES][ROWS] = {{0}};
    for (int side = 0; side < SIDES; side++) {
        struct store s;
        store_open(&s, &pair->side[side], &spec, 1, 1);
        store_agents(&s, 500 + (uint64_t)side);
        store_load(&s, priorities, ROWS);
        count_draws(&s, n_batches, counts[side], ROWS);
        store_close(&s);
    }
    const double distance = kolmogorov_smirnov(counts[CPU], counts[GPU], ROWS, draws);
    const double z = two_samples_deviate(counts[CPU], counts[GPU], ROWS);
    cr_log_info("%s, %g draws a side: Kolmogorov-Smirnov distance %.5f, chi-square deviate %.2f",
                kind->name, draws, distance, z);
    cr_assert(distance < 1.95 * sqrt(2 / draws), "%s, %g draws: distance %g", kind->name, draws,
              distance);
    cr_assert(fabs(z) < 4, "%s, %g draws: deviate %g", kind->name, draws, z);
    cr_assert(distance > 0, "%s: different seeds gave the same draws", kind->name);
    free(priorities);
}

Test(cuda_sampler, both_backends_draw_alike) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        alike_case(&pair, &kinds[i], 4);
        if (!is_reduced()) { /* the same kernels */
            alike_case(&pair, &kinds[i], 4000);
        }
    }
    pair_close(&pair);
}

/* Rows of the smallest priority beside rows of the largest, four fifths of the ring unfilled; then
 * the ring filled by inserts of many sizes. */
Test(cuda_sampler, unfilled_rows_are_never_drawn) {
    enum { ROWS = 500, FILLED = 100 };
    struct pair pair;
    float priorities[ROWS] = {0};
    uint64_t counts[ROWS] = {0};
    for (size_t i = 0; i < FILLED; i++) {
        priorities[i] = hash_word(70, i) % 2 == 0 ? 1e-6f : 4095.0f;
    }
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        const struct dqn_sampler_spec spec =
            make_spec(&kinds[i], ROWS, reduced(LARGE_BATCH, 5000), i % 2 == 0);
        struct store s;
        store_open(&s, &pair.side[GPU], &spec, 1, ROWS);
        store_load(&s, priorities, FILLED);
        count_draws(&s, reduced(LARGE_BATCHES, 1), counts, FILLED);
        for (size_t filled = FILLED + 1; filled < ROWS; filled += 79) {
            OK(store_insert(&s, s.side->q, filled == FILLED + 1 ? 1 : 79));
            count_draws(&s, 1, counts, filled);
        }
        store_close(&s);
    }
    pair_close(&pair);
}

/* ---- streams that cannot be put in order ---- */

/* A draw leaves its weights running. What comes next cannot be put behind them, and has no way to
 * say so. */
static void lose_the_order(const struct store *s) {
    OK(store_draw(s, s->side->q, false));
    setenv("DQN_TEST_FAULT", "join", 1);
    OK(s->side->backend->memory->zero(s->side->q, s->td->data, s->td->bytes));
    unsetenv("DQN_TEST_FAULT");
}

/* Whatever lets results be seen says it, once: a wait, an event, a capture, a program. */
Test(cuda_sampler, a_join_that_fails_is_reported) {
    struct pair pair;
    struct store s;
    float priorities[64];
    for (size_t i = 0; i < DQN_COUNT_OF(priorities); i++) {
        priorities[i] = 1;
    }
    pair_open(&pair, DQN_PRECISION_FP32);
    struct side *gpu = &pair.side[GPU];
    const struct dqn_queue_ops *queue = gpu->backend->queue;
    const struct dqn_sampler_spec spec = make_spec(&kinds[1], DQN_COUNT_OF(priorities), 8, false);
    const char text[] = "joining the streams";
    struct dqn_event *event = NULL;
    struct dqn_graph *graph = NULL, *none = NULL;
    store_open(&s, gpu, &spec, 1, 1);
    store_load(&s, priorities, DQN_COUNT_OF(priorities));
    OK(store_draw(&s, gpu->q, false)); /* loads its kernels */
    OK(queue->event_create(&gpu->device, &event));
    OK(queue->capture_begin(gpu->q));
    OK(store_draw(&s, gpu->q, false));
    OK(queue->capture_end(gpu->q, &graph));

    lose_the_order(&s);
    FAILS(queue->wait(gpu->q), DQN_ERR_DEVICE, text);
    OK(queue->wait(gpu->q));
    lose_the_order(&s);
    FAILS(queue->event_record(gpu->q, event), DQN_ERR_DEVICE, text);
    lose_the_order(&s);
    FAILS(queue->event_wait(gpu->q, event), DQN_ERR_DEVICE, text);
    lose_the_order(&s);
    FAILS(queue->graph_launch(gpu->q, graph), DQN_ERR_DEVICE, text);
    lose_the_order(&s);
    FAILS(queue->capture_begin(gpu->q), DQN_ERR_DEVICE, text);
    OK(queue->capture_begin(gpu->q));
    lose_the_order(&s);
    FAILS(queue->capture_end(gpu->q, &none), DQN_ERR_DEVICE, text);
    cr_expect_null(none);

    OK(queue->graph_launch(gpu->q, graph));
    OK(store_draw(&s, gpu->q, false));
    OK(queue->wait(gpu->q));
    queue->graph_destroy(graph);
    queue->event_destroy(event);
    store_close(&s);
    pair_close(&pair);
}

/* ---- a hundred million rows ---- */

enum { HUGE_ROWS = 100000000, THOUSANDTHS = 1000 };

/* Inclusive sums of the leaves of the store's priorities. */
static void reference_sums(const struct store *s, uint64_t *sums) {
    float *priorities = store_get(s, s->priorities);
    sum_leaves(priorities, sums, HUGE_ROWS);
    free(priorities);
}

/* One draw from each thousandth of the mass: the row that the exact sums name. */
static void check_thousandths(const struct store *s, const uint64_t *sums, uint64_t sequence,
                              const char *what) {
    const uint64_t total = sums[HUGE_ROWS - 1];
    uint64_t words[THOUSANDTHS];
    for (size_t b = 0; b < THOUSANDTHS; b++) {
        words[b] = hash_word(sequence, b);
    }
    words[0] = 0;
    words[THOUSANDTHS - 1] = UINT64_MAX;
    store_put(s, s->words, words, sizeof words);
    OK(store_draw(s, s->side->q, true));
    int64_t *index = store_get(s, s->index);
    for (size_t b = 0; b < THOUSANDTHS; b++) {
        const uint64_t place = reference_place(words[b], total, b, THOUSANDTHS, true);
        const size_t row = reference_row(sums, HUGE_ROWS, place);
        cr_assert_eq((uint64_t)index[b], row, "%s: thousandth %zu gave row %lld, not %zu", what, b,
                     (long long)index[b], row);
    }
    free(index);
}

/* TD errors of the rows just drawn. */
static void update_huge(const struct store *s) {
    float td[THOUSANDTHS];
    for (size_t b = 0; b < THOUSANDTHS; b++) {
        td[b] = (float)(100 * hash_unit(80, b));
    }
    store_put(s, s->td, td, sizeof td);
    OK(store_update(s, s->side->q));
}

/* Needs about 5 GB on the device and 2 GB on the host. */
Test(cuda_sampler, a_hundred_million_rows) {
    static const size_t missing = 1000, most = 4096; /* the second insert goes round the end */
    struct pair pair;
    skip_reduced("a matter of size");
    pair_open(&pair, DQN_PRECISION_FP32);
    float *priorities = random_priorities(60, 1, HUGE_ROWS, HUGE_ROWS - missing);
    uint64_t *sums = malloc(HUGE_ROWS * sizeof *sums);
    for (size_t i = 1; i <= 2; i++) {
        const struct dqn_sampler_spec spec = make_spec(&kinds[i], HUGE_ROWS, THOUSANDTHS, true);
        struct store s;
        store_open(&s, &pair.side[GPU], &spec, 1, most);
        store_load(&s, priorities, HUGE_ROWS - missing);
        reference_sums(&s, sums);
        check_thousandths(&s, sums, 81, kinds[i].name);
        update_huge(&s);
        OK(store_insert(&s, s.side->q, most));
        reference_sums(&s, sums);
        check_thousandths(&s, sums, 82, kinds[i].name);
        store_close(&s);
    }
    free(priorities);
    free(sums);
    pair_close(&pair);
}

/* ---- more than 2^31 floats in a column ---- */

enum { WIDE_OBS = 1024, WIDE_BORDER = 2097152 /* row whose first float is number 2^31 */ };
enum { WIDE_ROWS = WIDE_BORDER + 1000, WIDE_BATCH = 2000 };

/* Gathers rows [first, first + WIDE_BATCH) and compares them with the rows inserted. */
static void check_wide_rows(const struct store *s, size_t first) {
    const struct dqn_memory_ops *memory = s->side->backend->memory;
    void *state = NULL, *next = NULL;
    const size_t bytes = s->row_state->bytes;
    int64_t index[WIDE_BATCH];
    for (size_t b = 0; b < WIDE_BATCH; b++) {
        index[b] = (int64_t)(first + b);
    }
    store_put(s, s->index, index, sizeof index);
    OK(memory->alloc(&s->side->device, &state, bytes, false));
    OK(memory->alloc(&s->side->device, &next, bytes, false));
    const struct dqn_gather_args args = {.n_agents = 1,
                                         .capacity = WIDE_ROWS,
                                         .obs = WIDE_OBS,
                                         .obs_ld = WIDE_OBS,
                                         .batch = WIDE_BATCH,
                                         .rows = {.states = s->states->data,
                                                  .next_states = s->next_states->data,
                                                  .actions = s->actions->data,
                                                  .rewards = s->rewards->data,
                                                  .discounts = s->discounts->data,
                                                  .dones = s->dones->data},
                                         .index = s->index->data,
                                         .state = state,
                                         .next = next,
                                         .action = s->row_action->data,
                                         .reward = s->row_reward->data,
                                         .discount = s->row_discount->data,
                                         .done = s->row_done->data};
    OK(s->side->backend->replay->gather(s->side->q, &args));
    void *want[] = {store_get(s, s->row_state), store_get(s, s->row_next)};
    void *const got[] = {state, next};
    for (int i = 0; i < 2; i++) {
        void *host = malloc(bytes);
        OK(memory->copy(s->side->q, host, got[i], bytes, DQN_COPY_TO_HOST));
        OK(s->side->backend->queue->wait(s->side->q));
        cr_assert_eq(memcmp(host, want[i], bytes), 0, "rows beyond 2^31 floats differ");
        free(host);
        free(want[i]);
    }
    memory->free(&s->side->device, state, false);
    memory->free(&s->side->device, next, false);
}

/* Rows on both sides of float number 2^31 go in and come out again. Needs 18 GB on the device. */
Test(cuda_sampler, columns_beyond_31_bits) {
    const uint64_t need = (uint64_t)18 << 30;
    uint64_t available = 0, total = 0;
    struct pair pair;
    struct store s;
    skip_reduced("a matter of size");
    pair_open(&pair, DQN_PRECISION_FP32);
    OK(pair.side[GPU].backend->memory->info(&pair.side[GPU].device, &available, &total));
    if (available < need) {
        fprintf(stderr, "[SKIP] columns_beyond_31_bits: 18 GB of device memory are not free\n");
        pair_close(&pair);
        cr_skip_test("18 GB of device memory are not free");
    }
    const struct dqn_sampler_spec spec = make_spec(&kinds[1], WIDE_ROWS, WIDE_BATCH, true);
    const struct dqn_ring ring = {.cursor = WIDE_BORDER - 1000, .size = WIDE_BORDER - 1000};
    store_open(&s, &pair.side[GPU], &spec, WIDE_OBS, WIDE_BATCH);
    store_put(&s, s.ring, &ring, sizeof ring);
    OK(store_insert(&s, s.side->q, WIDE_BATCH));
    check_wide_rows(&s, WIDE_BORDER - 1000);
    store_close(&s);
    pair_close(&pair);
}
