/* A whole update in two kernels against the CPU, operation by operation, and against the GPU's own
 * operations: equal draws, TD errors, parameters, priorities, counters and statistics. */
#include "cuda_update_cases.h"
#include "program.h"

/* ---- comparisons ---- */

static double difference(const struct rig *a, const struct rig *b, const char *name) {
    float *x = get(a, name), *y = get(b, name);
    const double residual = residual_f32(x, y, dqn_arena_find(a->arena, name)->bytes / 4);
    free(x);
    free(y);
    return residual;
}

/* Root of the mean square of the difference, over that of the values: what the worst element of a
 * gradient cannot tell, for a ReLU whose input is within rounding of 0 is on for one side only, and
 * its weights' gradients lack a whole batch row there. */
static double mean_difference(const struct rig *a, const struct rig *b, const char *name) {
    float *x = get(a, name), *y = get(b, name);
    double error = 0, size = 1e-30;
    for (size_t i = 0; i < dqn_arena_find(a->arena, name)->bytes / 4; i++) {
        const double d = (double)x[i] - (double)y[i];
        error += d * d;
        size += (double)x[i] * (double)x[i];
    }
    free(x);
    free(y);
    return sqrt(error / size);
}

/* Difference of two statistics over their size, of which `size` is another measure. */
static double relative(double cpu, double gpu, double size) {
    return fabs(gpu - cpu) / fmax(fmax(fabs(cpu), fabs(size)), 1e-3);
}

/* Worst relative difference of the statistics. The mean of Q(s, a) is judged by the size of the
 * mean of max_a Q(s, a): signs cancel in it, and what remains can be as small as one rounding. */
static double stats_difference(const struct rig *a, const struct rig *b) {
    struct dqn_step_stats *x = get(a, "learn/stats"), *y = get(b, "learn/stats");
    double worst = 0;
    for (size_t k = 0; k < a->kind.agents; k++) {
        worst = worse(worst, relative(x[k].q_mean, y[k].q_mean, x[k].q_max));
        x[k].q_mean = y[k].q_mean = 0;
#define JUDGE(name, join) worst = worse(worst, relative(x[k].name, y[k].name, 0));
        DQN_STEP_STATS_LIST(JUDGE)
#undef JUDGE
    }
    free(x);
    free(y);
    return worst;
}

static bool is_copied(const struct kind *kind) {
    return kind->tau == 0 && kind->target_updates != 0 &&
           (FIRST_UPDATES + 1) % kind->target_updates == 0;
}

/* A target that this update copies is the parameters, bit for bit; one that it leaves is what init
 * made, which is the same on both sides, while the parameters moved away from it. */
static void check_target(const struct rig *a, const struct rig *b) {
    const bool copies = is_copied(&a->kind);
    const struct rig *const both[] = {a, b};
    for (int s = 0; s < SIDES; s++) {
        unsigned char *params = get(both[s], "nn/params"), *target = get(both[s], "nn/target");
        const size_t bytes = dqn_arena_find(a->arena, "nn/params")->bytes;
        cr_assert_eq(memcmp(params, target, bytes) == 0, copies, "side %d: the target %s", s,
                     copies ? "was not copied" : "was copied");
        free(params);
        free(target);
    }
    if (!copies) {
        expect_equal(a, b, "nn/target");
    }
}

/* The tenth update in a row that is skipped freezes the agent: at least one has drawn a bad row. */
static void check_frozen(const struct rig *r) {
    struct dqn_counters *counters = get(r, "counters");
    uint64_t failed = 0;
    for (size_t k = 0; k < r->kind.agents; k++) {
        failed += counters[k].failed;
    }
    cr_assert_gt(failed, 0, "no agent failed, batch %zu", r->kind.batch);
    free(counters);
}

/* The worst residuals of one case; `seen` keeps the worst of all. */
struct residuals {
    double td, params, target, moment, moment2, priorities, stats;
};

static void note(double *worst, double value) {
    *worst = worse(*worst, value);
}

/* After one update from equal states: everything that lives on. */
static void compare(const struct rig *a, const struct rig *b, struct residuals *seen) {
    expect_equal(a, b, "batch/index");
    expect_equal(a, b, "counters");
    expect_equal(a, b, "learn/ok");
    if (!a->kind.bad_reward) { /* which has an infinite error */
        note(&seen->td, difference(a, b, "batch/td"));
    }
    note(&seen->params, difference(a, b, "nn/params"));
    /* a copied target differs as the parameters do */
    note(is_copied(&a->kind) ? &seen->params : &seen->target, difference(a, b, "nn/target"));
    note(&seen->moment, mean_difference(a, b, "nn/moment1"));
    note(&seen->moment2, mean_difference(a, b, "nn/moment2"));
    note(&seen->priorities, difference(a, b, "replay/priorities"));
    note(&seen->priorities, difference(a, b, "replay/priority_seen"));
    note(&seen->stats, stats_difference(a, b));
    if (a->kind.tau == 0 && !a->kind.bad_reward) {
        check_target(a, b);
    }
    if (a->kind.streak > 0) {
        check_frozen(a);
    }
}

static void report(const struct kind *kind, const struct residuals *seen) {
    cr_log_info("batch %zu, %zu layers, activation %d: td %.2g, params %.2g, target %.2g, moment "
                "%.2g and %.2g, priorities %.2g, stats %.2g",
                kind->batch, kind->n_hidden + 1, kind->activation, seen->td, seen->params,
                seen->target, seen->moment, seen->moment2, seen->priorities, seen->stats);
}

/* One case on both sides, by the two kernels on the GPU; whether they took it. */
static bool run_case(struct pair *pair, const struct kind *kind, struct residuals *seen) {
    struct rig rig[SIDES];
    for (int s = 0; s < SIDES; s++) {
        rig_open(&rig[s], &pair->side[s], kind, 0);
        update(&rig[s], false, 1);
    }
    struct residuals own = {0};
    compare(&rig[CPU], &rig[GPU], &own);
    report(kind, &own);
    note(&seen->td, own.td);
    note(&seen->params, own.params);
    note(&seen->target, own.target);
    note(&seen->moment, own.moment);
    note(&seen->moment2, own.moment2);
    note(&seen->priorities, own.priorities);
    note(&seen->stats, own.stats);
    const bool two_kernels = was_two_kernels(&rig[GPU]);
    for (int s = 0; s < SIDES; s++) {
        rig_close(&rig[s]);
    }
    return two_kernels;
}

/* Where the GPU takes the first case in two kernels, it takes all others that are made for them. */
static void run_all(int precision, struct residuals *seen) {
    struct kind cases[MOST_CASES];
    struct pair pair;
    size_t n_cases = 0, n_two_kernels = 0;
    bool offered = false;
    pair_open(&pair, precision);
    /* reduced: all but the products is the same code in both precisions */
    const bool is_short = is_reduced() && precision != DQN_PRECISION_FP32;
    for (size_t l = 0; l < (is_short ? 1 : DQN_COUNT_OF(case_lists)); l++) {
        const size_t n = case_lists[l](cases);
        cr_assert_leq(n, DQN_COUNT_OF(cases));
        for (size_t i = 0; i < n; i++) {
            const bool two_kernels = run_case(&pair, &cases[i], seen);
            offered = n_cases++ == 0 ? two_kernels : offered;
            n_two_kernels += two_kernels;
            cr_expect_eq(two_kernels, offered && !cases[i].apart, "list %zu, case %zu: %s", l, i,
                         two_kernels ? "two kernels" : "operation by operation");
        }
    }
    cr_log_info("%zu of %zu cases were two kernels; worst moments %.2g and %.2g", n_two_kernels,
                n_cases, seen->moment, seen->moment2);
    pair_close(&pair);
}

/* What three TF32 products leave of a product of floats: seen 4.3e-6 in td, 7.2e-6 in
 * params, 8.7e-8 in the target, 2.8e-4 in the moments (a ReLU's kink; without any 4e-6), 9.0e-6 in
 * the statistics, 7.6e-5 in second moments. Priorities are |td|^0.6, which is steep near 0:
 * 4e-5. */
Test(cuda_update, equals_the_cpu_in_fp32) {
    struct residuals seen = {0};
    run_all(DQN_PRECISION_FP32, &seen);
    cr_expect_lt(seen.td, 1e-5, "%g", seen.td);
    cr_expect_lt(seen.params, 2e-5, "%g", seen.params);
    cr_expect_lt(seen.target, 1e-6, "%g", seen.target);
    cr_expect_lt(seen.moment, 1e-3, "%g", seen.moment);
    cr_expect_lt(seen.moment2, 3e-4, "%g", seen.moment2);
    cr_expect_lt(seen.priorities, 1e-4, "%g", seen.priorities);
    cr_expect_lt(seen.stats, 3e-5, "%g", seen.stats);
}

/* Seen 4.8e-4 in td, 9.8e-4 in params, 9.8e-6 in the target, 0.05 in the moments (kinks; smooth
 * activations 8e-4), 0.013 in second moments, 2.9e-3 in priorities, 1.0e-3 in the statistics. */
Test(cuda_update, is_close_to_the_cpu_in_tf32) {
    struct residuals seen = {0};
    run_all(DQN_PRECISION_TF32, &seen);
    cr_expect_lt(seen.td, 2e-3, "%g", seen.td);
    cr_expect_lt(seen.params, 3e-3, "%g", seen.params);
    cr_expect_lt(seen.target, 3e-5, "%g", seen.target);
    cr_expect_lt(seen.moment, 0.1, "%g", seen.moment);
    cr_expect_lt(seen.moment2, 0.05, "%g", seen.moment2);
    cr_expect_lt(seen.priorities, 1e-2, "%g", seen.priorities);
    cr_expect_lt(seen.stats, 5e-3, "%g", seen.stats);
}

/* Twenty updates in a row, each drawing by the priorities of those before: the sums of the tree
 * stay the sums of the leaves, which a rebuild proves. */
Test(cuda_update, keeps_the_tree_whole) {
    struct pair pair;
    struct rig rig;
    pair_open(&pair, DQN_PRECISION_TF32);
    struct kind kind = usual(256);
    kind.capacity = 900;
    rig_open(&rig, &pair.side[GPU], &kind, 0);
    const int n_updates = (int)reduced(20, 5);
    update(&rig, false, n_updates);
    sums_hold(&rig, FILL_TURNS * 256);
    struct dqn_counters *counters = get(&rig, "counters");
    cr_assert_eq(counters->draws, n_updates);
    cr_assert_eq(counters->adam_steps, n_updates);
    free(counters);
    rig_close(&rig);
    pair_close(&pair);
}

/* ---- equal bytes ---- */

/* What lives on after an update, and what it was made of. */
static const char *const lasting[] = {"nn/params",   "nn/target",         "nn/moment1",
                                      "nn/moment2",  "replay/priorities", "replay/priority_seen",
                                      "learn/stats", "counters",          "batch/td",
                                      "batch/index"};
enum { LASTING = DQN_COUNT_OF(lasting), KEPT = LASTING - 2 /* without the batch */ };

/* Bytes of one agent in lasting[i]. */
static size_t own_bytes(const struct rig *r, size_t i) {
    return dqn_arena_find(r->arena, lasting[i])->bytes / r->kind.agents;
}

/* Agent i of `a` is agent j of `b`, bit for bit. */
static void agents_equal(const struct rig *a, size_t i, const struct rig *b, size_t j) {
    for (size_t n = 0; n < LASTING; n++) {
        const size_t bytes = own_bytes(a, n);
        unsigned char *x = get(a, lasting[n]), *y = get(b, lasting[n]);
        cr_assert_eq(bytes, own_bytes(b, n), "%s", lasting[n]);
        cr_assert_arr_eq(x + i * bytes, y + j * bytes, bytes, "%s of agent %zu", lasting[n], i);
        free(x);
        free(y);
    }
}

/* Bit for bit: an agent of a population is what it is alone, though an update of several agents
 * takes other kernels, and many agents other shapes of them; and twice the same is the same. */
static void population_case(struct side *gpu, const struct kind *many) {
    const int n_updates = (int)reduced(5, 2);
    const size_t shown[] = {0, many->agents / 2, many->agents - 1};
    struct kind one = *many;
    one.agents = 1;
    struct rig all;
    rig_open(&all, gpu, many, 0);
    update(&all, false, n_updates);
    for (size_t i = 0; i < DQN_COUNT_OF(shown); i++) {
        struct rig alone;
        rig_open(&alone, gpu, &one, shown[i]);
        update(&alone, false, n_updates);
        agents_equal(&all, shown[i], &alone, 0);
        rig_close(&alone);
    }
    rig_close(&all);
}

/* An update with all that may move: a sloping learning rate, decay, targets copied now and then. */
static struct kind eventful(size_t batch) {
    struct kind kind = usual(batch);
    kind.capacity = 700;
    kind.tau = 0;
    kind.target_updates = 3;
    kind.lr_updates = 100;
    kind.weight_decay = 1;
    return kind;
}

/* Populations whose clusters run side by side on 132 SMs, and those that take single blocks of 16
 * rows or of 32, which sum in the order of clusters of 8, 4 or 2. */
static size_t list_populations(struct kind *cases) {
    static const struct {
        size_t batch, agents;
    } sizes[] = {{300, 3}, {300, 8}, {33, 20}, {33, 5}, {1100, 2}, {600, 4}, {256, 16}};
    size_t n = 0;
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(sizes), 2); i++) {
        cases[n] = usual(sizes[i].batch);
        cases[n].dueling = i % 2 == 1;
        cases[n++].agents = sizes[i].agents;
    }
    cases[n] = eventful(200);
    cases[n++].agents = 3;
    if (is_reduced()) {
        return n;
    }
    cases[n] = eventful(300); /* groups of columns: 10, 2, and 7 of which the last is half one */
    cases[n].agents = 9;
    cases[n].n_hidden = 3;
    cases[n].hidden[0] = 320;
    cases[n].hidden[1] = 64;
    cases[n].hidden[2] = 212;
    cases[n++].activation = DQN_TANH;
    return n;
}

static void populations(int precision) {
    struct kind cases[MOST_CASES];
    struct pair pair;
    pair_open(&pair, precision);
    const size_t n = list_populations(cases);
    for (size_t i = 0; i < n; i++) {
        population_case(&pair.side[GPU], &cases[i]);
    }
    pair_close(&pair);
}

Test(cuda_update, population_equals_its_agents_alone) {
    populations(DQN_PRECISION_FP32);
}

Test(cuda_update, population_equals_its_agents_alone_in_tf32) {
    populations(DQN_PRECISION_TF32);
}

static enum dqn_status update_once(void *context, struct dqn_queue *q) {
    struct rig *r = context;
    return dqn_learner_update(r->learner, q);
}

/* Rows come in between, which a program must see as a call does. */
static void captured_case(struct side *gpu, const struct kind *kind) {
    const uint64_t n_updates = reduced(8, 4);
    struct rig called, captured;
    struct dqn_program *program = NULL;
    rig_open(&called, gpu, kind, 0);
    rig_open(&captured, gpu, kind, 0);
    OK(dqn_program_record(&program, update_once, &captured));
    for (uint64_t i = 0; i < n_updates; i++) {
        if (i == n_updates - 2) {
            insert_rows(&called, 0, FILL_TURNS);
            insert_rows(&captured, 0, FILL_TURNS);
        }
        update(&called, false, 1);
        OK(dqn_program_run(program, gpu->q));
    }
    OK(gpu->backend->queue->wait(gpu->q));
    for (size_t k = 0; k < kind->agents; k++) {
        agents_equal(&called, k, &captured, k);
    }
    struct dqn_counters *counters = get(&captured, "counters");
    cr_assert_eq(counters->adam_steps, n_updates);
    free(counters);
    dqn_program_destroy(program);
    rig_close(&called);
    rig_close(&captured);
}

/* Replays of a captured update against as many calls, bit for bit: the cooperative kernel of one
 * agent, the kernels of a population, and operation by operation. */
Test(cuda_update, captured) {
    struct kind kinds[] = {eventful(300), eventful(40), usual(64), usual(64)};
    kinds[1].agents = 3;
    kinds[2].replay = DQN_REPLAY_UNIFORM;
    kinds[3].n_hidden = 8;
    kinds[3].apart = true;
    for (size_t l = 0; l < kinds[3].n_hidden; l++) {
        kinds[3].hidden[l] = 24;
    }
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        captured_case(&pair.side[GPU], &kinds[i]);
    }
    pair_close(&pair);
}

/* ---- agents that have failed ---- */

static bool is_among(unsigned agents, size_t k) {
    return (agents >> k & 1) != 0;
}

static void freeze(const struct rig *r, unsigned frozen) {
    struct dqn_counters *counters = get(r, "counters");
    for (size_t k = 0; k < r->kind.agents; k++) {
        counters[k].failed = is_among(frozen, k);
    }
    put(r, r->counters, counters);
    free(counters);
}

/* Nothing of agent k has moved since `before`, but its count of draws: it takes part in those. */
static void has_rested(const struct rig *r, size_t k, void *const before[KEPT]) {
    for (size_t n = 0; n < KEPT; n++) {
        const size_t bytes = own_bytes(r, n);
        unsigned char *now = get(r, lasting[n]);
        if (strcmp(lasting[n], "counters") == 0) {
            ((struct dqn_counters *)(void *)now)[k].draws--;
        }
        cr_assert_arr_eq(now + k * bytes, (unsigned char *)before[n] + k * bytes, bytes,
                         "%s of the frozen agent %zu moved", lasting[n], k);
        free(now);
    }
}

/* On one side: an update, after which the agents of `frozen` have failed, and another one; beside
 * it, the same population of which nobody has. */
static void rest_on_one_side(struct rig *r, struct side *side, const struct kind *kind,
                             unsigned frozen) {
    struct rig moving;
    void *before[KEPT];
    rig_open(r, side, kind, 0);
    rig_open(&moving, side, kind, 0);
    update(r, false, 1);
    update(&moving, false, 2);
    freeze(r, frozen);
    for (size_t n = 0; n < KEPT; n++) {
        before[n] = get(r, lasting[n]);
    }
    update(r, false, 1);
    uint32_t *ok = get(r, "learn/ok");
    for (size_t k = 0; k < kind->agents; k++) {
        cr_assert_eq(ok[k], !is_among(frozen, k), "agent %zu", k);
        if (is_among(frozen, k)) {
            has_rested(r, k, before);
        } else {
            agents_equal(r, k, &moving, k);
        }
    }
    for (size_t n = 0; n < KEPT; n++) {
        free(before[n]);
    }
    free(ok);
    rig_close(&moving);
}

/* One agent, whose update is one kernel after the rows', some of a population, and all of it. The
 * sums over the priorities are judged by a rebuild. */
Test(cuda_update, frozen_agents_rest) {
    static const struct {
        size_t agents, batch;
        unsigned frozen;
    } cases[] = {{1, 300, 1}, {3, 40, 2}, {2, 64, 3}};
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        struct kind kind = usual(cases[i].batch);
        struct rig rig[SIDES];
        kind.agents = cases[i].agents;
        kind.weight_decay = 1;
        for (int s = 0; s < SIDES; s++) {
            rest_on_one_side(&rig[s], &pair.side[s], &kind, cases[i].frozen);
        }
        expect_equal(&rig[CPU], &rig[GPU], "counters");
        sums_hold(&rig[GPU], FILL_TURNS * kind.batch);
        for (int s = 0; s < SIDES; s++) {
            rig_close(&rig[s]);
        }
    }
    pair_close(&pair);
}
