/* What is drawn how often, with the samplers' own random numbers: chi-square against the
 * probabilities of the rules, strata, rows that must never be drawn, threads and agents. */
#include "sampler_rig.h"

enum { BATCH = 4096, GROUPS = 1000 };

static const int kinds[] = {DQN_REPLAY_UNIFORM, DQN_REPLAY_PROPORTIONAL, DQN_REPLAY_RANK};

static struct dqn_sampler_spec spec_of(int kind, size_t capacity, size_t batch, bool stratified) {
    return (struct dqn_sampler_spec){.kind = kind,
                                     .n_agents = 1,
                                     .capacity = capacity,
                                     .batch = batch,
                                     .stratified = stratified,
                                     .weight_norm = DQN_WEIGHT_NORM_BATCH,
                                     .rank_interval = 1,
                                     .alpha = 0.7};
}

/* P of each row, by the rules: 1/N, leaf/total, rank^-alpha/sum. */
static double *probabilities(const struct rig *r) {
    const size_t n = (size_t)r->ring.size;
    double *p = rig_zeros(n, sizeof *p), sum = 0;
    uint32_t *order = rig_zeros(n, sizeof *order);
    model_order(r->priorities, n, order);
    for (size_t i = 0; i < n; i++) {
        const size_t row = r->spec.kind == DQN_REPLAY_RANK ? order[i] : i;
        p[row] = r->spec.kind == DQN_REPLAY_UNIFORM        ? 1
                 : r->spec.kind == DQN_REPLAY_PROPORTIONAL ? r->priorities[i]
                                                           : pow((double)(i + 1), -r->spec.alpha);
        sum += p[row];
    }
    for (size_t i = 0; i < n; i++) {
        p[i] /= sum;
    }
    free(order);
    return p;
}

/* Groups of neighbouring rows that expect at least 20 draws each; the mean of the statistic is
 * groups - 1, its standard deviation sqrt(2 (groups - 1)): five of them off is one case in three
 * million. Stratified draws scatter less, so only the upper end counts there. */
static void check_chi_square(const struct rig *r, const uint64_t *count, uint64_t draws) {
    double *p = probabilities(r), statistic = 0, expected = 0, seen = 0;
    const size_t n = (size_t)r->ring.size, least = n / GROUPS + 1;
    size_t groups = 0, rows = 0;
    for (size_t i = 0; i < n; i++) {
        expected += p[i] * (double)draws;
        seen += (double)count[i];
        rows++;
        if ((expected >= 20 && rows >= least) || i + 1 == n) {
            statistic += (seen - expected) * (seen - expected) / fmax(expected, 1);
            expected = seen = 0;
            rows = 0;
            groups++;
        }
    }
    const double mean = (double)groups - 1, limit = 5 * sqrt(2 * mean) + 1e-9;
    cr_assert(statistic <= mean + limit && (r->spec.stratified || statistic >= mean - limit),
              "kind %d size %zu: chi-square %.1f over %zu groups", r->spec.kind, n, statistic,
              groups);
    free(p);
}

/* Draws `batches` batches, counts the rows. */
static uint64_t count_draws(struct rig *r, size_t batches, uint64_t *count) {
    for (size_t i = 0; i < batches; i++) {
        rig_draw(r, false);
        for (size_t b = 0; b < r->spec.batch; b++) {
            cr_assert(r->index[b] >= 0 && (uint64_t)r->index[b] < r->ring.size);
            count[r->index[b]]++;
        }
    }
    return batches * r->spec.batch;
}

Test(sampler_statistics, distribution) {
    static const size_t sizes[] = {1, 2, 1000, 1023, 1000003};
    for (size_t c = 0; c < DQN_COUNT_OF(sizes); c++) {
        for (int variant = 0; variant < 6; variant++) {
            const struct dqn_sampler_spec spec =
                spec_of(kinds[variant % 3], sizes[c], BATCH, variant >= 3);
            uint64_t *count = rig_zeros(sizes[c], sizeof *count);
            struct rig r;
            rig_open(&r, &spec);
            for (size_t i = 0; i < sizes[c]; i++) {
                r.priorities[i] = (float)pow(0.05 + 4 * rig_unit(80, i), 2);
            }
            rig_load(&r, sizes[c]);
            const uint64_t draws = count_draws(&r, 60, count);
            check_chi_square(&r, count, draws);
            free(count);
            rig_close(&r);
        }
    }
}

/* Row b of a stratified batch lies in the b-th of B equal parts of the total. */
Test(sampler_statistics, one_row_a_stratum) {
    static const size_t sizes[] = {1, 2, 1000, 1023, 100003};
    for (size_t c = 0; c < DQN_COUNT_OF(sizes); c++) {
        struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, sizes[c], 256, true);
        long double *end = rig_zeros(sizes[c], sizeof *end), total = 0;
        struct rig r;
        rig_open(&r, &spec);
        rig_random_priorities(&r, sizes[c], 81);
        rig_load(&r, sizes[c]);
        for (size_t i = 0; i < sizes[c]; i++) {
            total += model_leaf(r.priorities[i]);
            end[i] = total; /* below 2^64: exact */
        }
        for (int draw = 0; draw < 50; draw++) {
            rig_draw(&r, false);
            for (size_t b = 0; b < 256; b++) {
                const size_t i = (size_t)r.index[b];
                const long double low = floorl(total * b / 256), high = total * (b + 1) / 256;
                cr_assert(end[i] > low && (i == 0 ? 0 : end[i - 1]) < high, "row %zu", b);
            }
        }
        free(end);
        rig_close(&r);
    }
}

/* Of 100 rows in 500 places, some at the smallest priority beside others at the ceiling. */
Test(sampler_statistics, unfilled_rows_are_never_drawn) {
    for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
        struct dqn_sampler_spec spec = spec_of(kinds[n], 500, BATCH, n % 2 == 0);
        uint64_t count[500] = {0};
        struct rig r;
        rig_open(&r, &spec);
        for (size_t fill = 1; fill <= 100; fill += 33) {
            for (size_t i = 0; i < fill; i++) {
                r.priorities[i] = i % 2 == 0 ? 1e-6f : 4095.0f;
            }
            rig_load(&r, fill);
            count_draws(&r, 100, count); /* checks index < size */
        }
        for (size_t i = 100; i < 500; i++) {
            cr_assert_eq(count[i], 0);
        }
        rig_close(&r);
    }
}

/* A row at the smallest priority can be drawn: leaf 1 at the end of a total of 1 + 4095 * 2^20. */
Test(sampler_statistics, smallest_row_can_be_drawn) {
    struct dqn_sampler_spec spec = spec_of(DQN_REPLAY_PROPORTIONAL, 2, 1, false);
    struct rig r;
    rig_open(&r, &spec);
    r.priorities[0] = 4095;
    r.priorities[1] = 1e-6f;
    rig_load(&r, 2);
    r.words[0] = UINT64_MAX;
    rig_draw(&r, true);
    cr_assert_eq(r.index[0], 1);
    cr_assert_eq(r.weight[0], 1.0f);
    rig_close(&r);
}

/* ---- threads, queues, agents ---- */

struct trace {
    int64_t index[3][8][150];
    float weight[3][8][150], priorities[3][700], seen[3];
    struct dqn_counters counters[3];
};

/* Eight steps of draw, update, insert for agents of seeds first .. first + n - 1. Agent seeds also
 * give the TD errors, so an agent alone sees what it sees among others. */
static struct trace *run_trace(int kind, size_t first, size_t n, int threads, bool late) {
    struct dqn_sampler_spec spec = spec_of(kind, 700, 150, true);
    struct trace *trace = rig_zeros(1, sizeof *trace);
    struct rig r;
    spec.n_agents = n;
    rig_open_on(&r, &spec, threads, late);
    for (size_t k = 0; k < n; k++) {
        r.agents[k].seed = 1000 + first + k;
        r.agents[k].beta_start = r.agents[k].beta_end = 0.3 + 0.2 * (double)(first + k);
    }
    rig_insert(&r, 300);
    for (size_t step = 0; step < 8; step++) {
        rig_draw(&r, false);
        for (size_t k = 0; k < n; k++) {
            memcpy(trace->index[k][step], r.index + 150 * k, sizeof trace->index[k][step]);
            memcpy(trace->weight[k][step], r.weight + 150 * k, sizeof trace->weight[k][step]);
            for (size_t b = 0; b < 150; b++) {
                r.td[k * 150 + b] = (float)(5 * rig_unit(90 + first + k, step * 150 + b));
            }
        }
        rig_update(&r, 150);
        rig_insert(&r, 77);
    }
    memcpy(trace->priorities, r.priorities, n * 700 * sizeof(float));
    memcpy(trace->seen, r.seen, n * sizeof(float));
    memcpy(trace->counters, r.counters, n * sizeof *r.counters);
    rig_close(&r);
    return trace;
}

Test(sampler_statistics, threads_and_queues_do_not_matter) {
    for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
        struct trace *one = run_trace(kinds[n], 0, 3, 1, false);
        for (int threads = 1; threads <= 3; threads++) {
            for (int late = 0; late < 2; late++) {
                struct trace *other = run_trace(kinds[n], 0, 3, threads, late == 1);
                cr_assert_eq(memcmp(one, other, sizeof *one), 0, "kind %d threads %d late %d",
                             kinds[n], threads, late);
                free(other);
            }
        }
        free(one);
    }
}

Test(sampler_statistics, three_agents_are_three_alone) {
    for (size_t n = 0; n < DQN_COUNT_OF(kinds); n++) {
        struct trace *all = run_trace(kinds[n], 0, 3, 2, false);
        for (size_t k = 0; k < 3; k++) {
            struct trace *alone = run_trace(kinds[n], k, 1, 2, false);
            cr_assert_arr_eq(all->index[k], alone->index[0], sizeof all->index[k]);
            cr_assert_arr_eq(all->weight[k], alone->weight[0], sizeof all->weight[k]);
            cr_assert_arr_eq(all->priorities[k], alone->priorities[0], sizeof all->priorities[k]);
            cr_assert_eq(all->seen[k], alone->seen[0]);
            cr_assert_eq(memcmp(&all->counters[k], &alone->counters[0], sizeof alone->counters[0]),
                         0);
            free(alone);
        }
        cr_assert_neq(memcmp(all->index[0], all->index[1], sizeof all->index[0]), 0);
        free(all);
    }
}
