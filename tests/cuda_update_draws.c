/* The rows that whole updates draw: two kernels search the tree for themselves. The CPU's rows bit
 * for bit, and rows as often as their priorities say, in trees of every height, up to 1e8 rows.
 *
 * The network is zeros and stays so, by a learning rate of 0: the TD error of a row is its reward,
 * bit for bit and on both sides, so that priorities stay equal over updates. */
#include "cuda_draw_reference.h"
#include "cuda_update_rig.h"

static struct kind still_kind(size_t capacity, size_t batch, bool stratified) {
    struct kind kind = usual(batch);
    kind.capacity = capacity;
    kind.stratified = stratified;
    kind.obs = 1;
    kind.n_hidden = 1;
    kind.hidden[0] = 16;
    kind.actions = 3;
    return kind;
}

static void still_open(struct rig *r, struct side *side, const struct kind *kind) {
    static const char *const zeros[] = {"nn/params", "nn/target"};
    rig_open(r, side, kind, 0);
    struct dqn_agent *agents = get(r, "agents");
    for (size_t k = 0; k < kind->agents; k++) {
        agents[k].lr_start = agents[k].lr_end = 0;
    }
    put(r, r->agents, agents);
    free(agents);
    for (size_t i = 0; i < DQN_COUNT_OF(zeros); i++) {
        const struct dqn_buffer *to = dqn_arena_find(r->arena, zeros[i]);
        OK(side->backend->memory->zero(side->q, to->data, to->bytes));
    }
}

/* Fills the first `size` rows of each agent, as after a load; values [K, N] are rewards and
 * observations. A ring does not shrink: rows that were inserted before are among them. */
static void load_rows(struct rig *r, const float *values, const float *priorities, uint64_t size) {
    const struct dqn_ring ring = {.cursor = size % r->kind.capacity, .size = size};
    cr_assert(size == r->kind.capacity || size >= FILL_TURNS * r->kind.batch);
    put(r, dqn_arena_find(r->arena, "replay/states"), values);
    put(r, dqn_arena_find(r->arena, "replay/rewards"), values);
    put(r, dqn_arena_find(r->arena, "replay/priorities"), priorities);
    put(r, dqn_arena_find(r->arena, "replay/ring"), &ring);
    OK(dqn_replay_restore(r->replay, r->side->q, size));
}

/* [K, N] rewards of either sign, of sizes from 1e-3 to 55; the caller frees them. */
static float *random_values(size_t n) {
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        const double u = hash_unit(90, i), size = 1e-3 + 55 * u * u * u * u;
        values[i] = (float)(i % 2 == 0 ? size : -size);
    }
    return values;
}

/* ---- the CPU's rows ---- */

struct height {
    size_t capacity, missing, agents, batch;
    bool stratified;
};

static void height_case(struct pair *pair, const struct height *height, bool two_kernels) {
    static const char *const equal[] = {"batch/index", "batch/state",       "batch/td",
                                        "counters",    "replay/priorities", "replay/priority_seen"};
    const size_t n = height->capacity, size = n - height->missing;
    struct kind kind = still_kind(n, height->batch, height->stratified);
    kind.agents = height->agents;
    float *values = random_values(kind.agents * n);
    float *priorities = random_priorities(92, kind.agents, n, size);
    struct rig rig[SIDES];
    for (int s = 0; s < SIDES; s++) {
        still_open(&rig[s], &pair->side[s], &kind);
        load_rows(&rig[s], values, priorities, size);
    }
    for (size_t i = 0; i < reduced(3, 2); i++) {
        for (int s = 0; s < SIDES; s++) {
            update(&rig[s], false, 1);
        }
        for (size_t e = 0; e < DQN_COUNT_OF(equal); e++) {
            expect_equal(&rig[CPU], &rig[GPU], equal[e]);
        }
    }
    cr_expect_eq(was_two_kernels(&rig[GPU]), two_kernels, "%zu rows, batch %zu", n, height->batch);
    sums_hold(&rig[GPU], size);
    for (int s = 0; s < SIDES; s++) {
        rig_close(&rig[s]);
    }
    free(values);
    free(priorities);
}

/* Trees of three and of four levels (each of 32 times the rows), full and not; batches of which a
 * warp searches one row, two rows and three rows at once. Given equal draws, the TD errors show
 * that the rewards are those of the rows. */
Test(cuda_update, draws_the_rows_of_the_cpu) {
    static const struct height heights[] = {
        {100003, 0, 2, 300, true},    {100003, 5000, 1, 4096, false}, {1000003, 0, 1, 1100, true},
        {1048583, 3, 1, 2200, false}, {10000000, 0, 1, 256, false},   {10000000, 0, 1, 8000, true},
    };
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const bool two_kernels = takes_two_kernels(&pair.side[GPU]);
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(heights), 1); i++) {
        height_case(&pair, &heights[i], two_kernels);
    }
    pair_close(&pair);
}

/* ---- rows as often as their priorities say ---- */

/* The priorities of these TD errors, which an update with such rewards puts back as they were: what
 * is drawn by does not change. The caller frees them. */
static float *lasting_priorities(const struct rig *r, const float *values, size_t size) {
    struct dqn_agent *agents = get(r, "agents");
    float *priorities = calloc(r->kind.capacity, sizeof *priorities);
    for (size_t i = 0; i < size; i++) {
        priorities[i] = dqn_priority_of_td(&agents[0], values[i]).value;
    }
    free(agents);
    return priorities;
}

/* Probability of each of n rows; the caller frees it. */
static double *probabilities(const float *priorities, size_t n) {
    double *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        p[i] = nearbyint((double)priorities[i] * 1048576);
    }
    normalise(p, n);
    return p;
}

/* A replay that keeps its priorities while it is drawn from. */
struct lasting {
    struct rig rig;
    float *priorities; /* [N] */
    double *p;         /* [size] */
    size_t size;
    uint64_t *counts; /* [size] */
};

static void lasting_open(struct lasting *l, struct side *side, const struct kind *kind,
                         size_t size) {
    float *values = random_values(kind->capacity);
    still_open(&l->rig, side, kind);
    l->size = size;
    l->priorities = lasting_priorities(&l->rig, values, size);
    l->p = probabilities(l->priorities, size);
    l->counts = calloc(size, sizeof *l->counts);
    load_rows(&l->rig, values, l->priorities, size);
    free(values);
}

static void lasting_count(struct lasting *l, size_t n_updates) {
    for (size_t i = 0; i < n_updates; i++) {
        update(&l->rig, false, 1);
        int64_t *index = get(&l->rig, "batch/index");
        add_counts(index, l->rig.kind.batch, l->counts, l->size);
        free(index);
    }
}

static void lasting_close(struct lasting *l, bool two_kernels) {
    const struct dqn_buffer *column = dqn_arena_find(l->rig.arena, "replay/priorities");
    float *after = get(&l->rig, "replay/priorities");
    cr_assert_eq(memcmp(after, l->priorities, column->bytes), 0, "%zu rows: priorities have moved",
                 l->size);
    cr_expect_eq(was_two_kernels(&l->rig), two_kernels, "%zu rows", l->size);
    sums_hold(&l->rig, l->size);
    rig_close(&l->rig);
    free(after);
    free(l->priorities);
    free(l->p);
    free(l->counts);
}

/* Pearson's statistic over classes of rows of like probability, as a normal deviate: far sharper
 * than that over rows for what depends on the priority. */
static double classes_deviate(const struct lasting *l, double draws) {
    enum { CLASSES = 64 };
    uint64_t counts[CLASSES] = {0};
    double p[CLASSES] = {0}, smallest = 1, largest = 0;
    for (size_t i = 0; i < l->size; i++) {
        smallest = fmin(smallest, l->p[i]);
        largest = fmax(largest, l->p[i]);
    }
    for (size_t i = 0; i < l->size; i++) {
        const double place = log(l->p[i] / smallest) / log(largest / smallest);
        const size_t class = place < 1 ? (size_t)(CLASSES * place) : CLASSES - 1;
        counts[class] += l->counts[i];
        p[class] += l->p[i];
    }
    return chi_square_deviate(counts, p, CLASSES, draws);
}

static void distribution_case(struct pair *pair, size_t capacity, size_t size, size_t batch,
                              size_t n_updates, bool two_kernels) {
    const struct kind kind = still_kind(capacity, batch, false);
    const double draws = (double)batch * (double)n_updates;
    struct lasting l;
    lasting_open(&l, &pair->side[GPU], &kind, size);
    lasting_count(&l, n_updates);
    const double rows = chi_square_deviate(l.counts, l.p, size, draws);
    const double classes = classes_deviate(&l, draws);
    cr_log_info("%zu of %zu rows, %g draws: chi-square deviate %.2f, over classes %.2f", size,
                capacity, draws, rows, classes);
    /* one in 30000 either way for a true sampler; the seeds are fixed */
    cr_assert(fabs(rows) < 4, "%zu rows, %g draws: deviate %g", size, draws, rows);
    cr_assert(fabs(classes) < 4, "%zu rows, %g draws: deviate %g over classes", size, draws,
              classes);
    lasting_close(&l, two_kernels);
}

/* Each row of a stratified batch comes as often as expected, to less than 2: the strata that lie
 * inside its stretch give one draw each, the two at its ends may. */
static void strata_case(struct pair *pair, size_t batch, bool two_kernels) {
    enum { ROWS = 5000, ROUNDS = 3 };
    const struct kind kind = still_kind(ROWS, batch, true);
    double worst = 0;
    struct lasting l;
    lasting_open(&l, &pair->side[GPU], &kind, ROWS);
    for (int round = 0; round < ROUNDS; round++) {
        memset(l.counts, 0, ROWS * sizeof *l.counts);
        lasting_count(&l, 1);
        for (size_t i = 0; i < ROWS; i++) {
            worst = worse(worst, fabs((double)l.counts[i] - l.p[i] * (double)batch));
        }
    }
    cr_log_info("batch %zu: a row came at most %.2f times more or less often than expected", batch,
                worst);
    cr_assert(worst <= 2, "a row came %g times more or less often than expected", worst);
    lasting_close(&l, two_kernels);
}

Test(cuda_update, draws_by_priority) {
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const bool two_kernels = takes_two_kernels(&pair.side[GPU]);
    distribution_case(&pair, 40000, 30000, 2000, 5, two_kernels);
    if (!is_reduced()) { /* few draws say nothing about a million rows */
        distribution_case(&pair, 40000, 30000, 8000, 1250, two_kernels);
        distribution_case(&pair, 1048583, 1048583, 8000, 1250, two_kernels);
        strata_case(&pair, 4096, two_kernels);
    }
    strata_case(&pair, 1000, two_kernels);
    pair_close(&pair);
}

/* ---- a hundred million rows ---- */

enum { HUGE_ROWS = 100000000, HUGE_BATCH = 4096 };

/* One update: the rows that exact sums name, their observations and rewards, and their new
 * priorities, which go into `priorities` as well. */
static void huge_update(struct rig *r, const float *values, float *priorities, uint64_t *sums) {
    struct dqn_agent *agent = get(r, "agents");
    struct dqn_counters *counters = get(r, "counters");
    sum_leaves(priorities, sums, HUGE_ROWS);
    update(r, false, 1);
    int64_t *index = get(r, "batch/index");
    float *td = get(r, "batch/td"), *state = get(r, "batch/state");
    for (size_t b = 0; b < HUGE_BATCH; b++) {
        const uint64_t word = dqn_draw_word(agent->seed, b, counters->draws);
        const uint64_t total = sums[HUGE_ROWS - 1];
        const uint64_t place = reference_place(word, total, b, HUGE_BATCH, r->kind.stratified);
        const size_t row = reference_row(sums, HUGE_ROWS, place);
        cr_assert_eq((uint64_t)index[b], row, "draw %zu gave row %lld, not %zu", b,
                     (long long)index[b], row);
        cr_assert(td[b] == values[row] && state[b * r->net.obs_ld] == values[row],
                  "row %zu: error %g, observation %g, not %g", row, (double)td[b],
                  (double)state[b * r->net.obs_ld], (double)values[row]);
    }
    for (size_t b = 0; b < HUGE_BATCH; b++) {
        priorities[index[b]] = dqn_priority_of_td(agent, td[b]).value;
    }
    free(agent);
    free(counters);
    free(index);
    free(td);
    free(state);
}

/* A tree of five levels. Needs about 3 GB on the device and 2 GB on the host. */
Test(cuda_update, draws_from_a_hundred_million_rows) {
    struct pair pair;
    struct rig r;
    skip_reduced("a matter of size");
    pair_open(&pair, DQN_PRECISION_FP32);
    const bool two_kernels = takes_two_kernels(&pair.side[GPU]);
    const struct kind kind = still_kind(HUGE_ROWS, HUGE_BATCH, true);
    float *values = random_values(HUGE_ROWS);
    float *priorities = random_priorities(92, 1, HUGE_ROWS, HUGE_ROWS);
    uint64_t *sums = malloc(HUGE_ROWS * sizeof *sums);
    still_open(&r, &pair.side[GPU], &kind);
    load_rows(&r, values, priorities, HUGE_ROWS);
    for (int i = 0; i < 3; i++) {
        huge_update(&r, values, priorities, sums);
    }
    float *after = get(&r, "replay/priorities");
    cr_assert_eq(memcmp(after, priorities, HUGE_ROWS * sizeof *after), 0, "other rows have moved");
    cr_expect_eq(was_two_kernels(&r), two_kernels);
    sums_hold(&r, HUGE_ROWS);
    rig_close(&r);
    free(after);
    free(values);
    free(priorities);
    free(sums);
    pair_close(&pair);
}
