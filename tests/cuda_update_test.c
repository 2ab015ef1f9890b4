/* A whole update in two kernels against the CPU, operation by operation, and against the GPU's own
 * operations: equal draws, TD errors, parameters, priorities, counters and statistics. */
#include "cuda_pair.h"

#include "learner.h"
#include "replay.h"

enum { OBS = 51, FILL_TURNS = 3, MOST_AGENTS = 3 };

/* What a case is made of. */
struct kind {
    size_t batch, agents, capacity, n_hidden;
    int64_t hidden[3];
    size_t actions;
    int activation;
    bool dueling, double_q, stratified, bad_reward;
    int replay, target;
};

static struct kind usual(size_t batch) {
    return (struct kind){.batch = batch,
                         .agents = 1,
                         .capacity = 10000,
                         .n_hidden = 2,
                         .hidden = {256, 256},
                         .actions = 45,
                         .activation = DQN_RELU,
                         .double_q = true,
                         .stratified = true,
                         .replay = DQN_REPLAY_PROPORTIONAL};
}

/* A replay and a learner on one side. */
struct rig {
    struct side *side;
    struct kind kind;
    struct dqn_net net;
    struct dqn_arena *arena;
    struct dqn_buffer *agents, *counters;
    struct dqn_buffer *state, *next, *action, *reward, *discount, *done;
    struct dqn_replay *replay;
    struct dqn_learner *learner;
};

static void put(const struct rig *r, struct dqn_buffer *to, const void *data) {
    OK(r->side->backend->memory->copy(r->side->q, to->data, data, to->bytes, DQN_COPY_TO_DEVICE));
    OK(r->side->backend->queue->wait(r->side->q));
}

/* A copy of a buffer; the caller frees it. */
static void *get(const struct rig *r, const char *name) {
    const struct dqn_buffer *from = dqn_arena_find(r->arena, name);
    cr_assert_not_null(from, "%s", name);
    void *data = malloc(from->bytes);
    OK(r->side->backend->memory->copy(r->side->q, data, from->data, from->bytes, DQN_COPY_TO_HOST));
    OK(r->side->backend->queue->wait(r->side->q));
    return data;
}

static void put_agents(struct rig *r, size_t first) {
    struct dqn_agent agents[MOST_AGENTS];
    struct dqn_counters counters[MOST_AGENTS];
    memset(counters, 0, sizeof counters);
    for (size_t k = 0; k < r->kind.agents; k++) {
        agents[k] = (struct dqn_agent){.seed = 11 + first + k,
                                       .gamma = 0.99,
                                       .lr_start = 1e-3,
                                       .lr_kind = DQN_SCHEDULE_CONSTANT,
                                       .beta_start = 0.4,
                                       .beta_end = 1,
                                       .beta_updates = 100,
                                       .alpha = 0.6,
                                       .priority_epsilon = 1e-3,
                                       .priority_max = 4095,
                                       .tau = 0.01,
                                       .huber_delta = 1,
                                       .max_grad_norm = 0.05,
                                       .adam_beta1 = 0.9,
                                       .adam_beta2 = 0.999,
                                       .adam_eps = 1e-3}; /* small gradients move little, not by
                                                             their sign */
        counters[k].updates = 7;
    }
    put(r, r->agents, agents);
    put(r, r->counters, counters);
}

/* Rows of agent first + k are the same in every population. */
static void insert_rows(struct rig *r, size_t first, uint64_t turn) {
    const size_t b = r->kind.batch, k = r->kind.agents;
    float *state = calloc(k * b * OBS, sizeof *state), *next = calloc(k * b * OBS, sizeof *next);
    float *reward = calloc(k * b, sizeof *reward), *discount = calloc(k * b, sizeof *discount);
    uint32_t *action = calloc(k * b, sizeof *action);
    uint8_t *done = calloc(k * b, 1);
    for (size_t i = 0; i < k; i++) {
        const uint64_t base = 100 * (first + i) + 10 * turn;
        for (size_t j = 0; j < b; j++) {
            const size_t at = i * b + j;
            for (size_t o = 0; o < OBS; o++) {
                state[at * OBS + o] = random_number(base, j * OBS + o);
                next[at * OBS + o] = random_number(base + 1, j * OBS + o);
            }
            reward[at] = 3 * random_number(base + 2, j);
            discount[at] = 0.97f + 0.02f * random_number(base + 3, j);
            action[at] = (uint32_t)(j * 7 + turn) % (uint32_t)r->kind.actions;
            done[at] = j % 11 == 3;
        }
        if (r->kind.bad_reward) {
            reward[i * b] = INFINITY;
        }
    }
    put(r, r->state, state);
    put(r, r->next, next);
    put(r, r->action, action);
    put(r, r->reward, reward);
    put(r, r->discount, discount);
    put(r, r->done, done);
    const struct dqn_replay_rows rows = {r->state->data,  r->next->data,     r->action->data,
                                         r->reward->data, r->discount->data, r->done->data};
    OK(dqn_replay_insert(r->replay, r->side->q, &rows, b));
    OK(r->side->backend->queue->wait(r->side->q));
    dqn_replay_note_inserted(r->replay, b);
    void *all[] = {state, next, reward, discount, action, done};
    for (size_t i = 0; i < DQN_COUNT_OF(all); i++) {
        free(all[i]);
    }
}

static void add_buffers(struct rig *r) {
    const struct dqn_device *device = &r->side->device;
    const size_t k = r->kind.agents, b = r->kind.batch;
    struct dqn_arena *a = r->arena;
    OK(dqn_arena_create(&r->arena));
    a = r->arena;
    OK(dqn_arena_add(a, &r->agents, device, DQN_U64, 0, "agents", 2, k,
                     sizeof(struct dqn_agent) / sizeof(uint64_t)));
    OK(dqn_arena_add(a, &r->counters, device, DQN_U64, 0, "counters", 2, k,
                     sizeof(struct dqn_counters) / sizeof(uint64_t)));
    OK(dqn_arena_add(a, &r->state, device, DQN_F32, 0, "rows/state", 3, k, b, (size_t)OBS));
    OK(dqn_arena_add(a, &r->next, device, DQN_F32, 0, "rows/next", 3, k, b, (size_t)OBS));
    OK(dqn_arena_add(a, &r->action, device, DQN_U32, 0, "rows/action", 2, k, b));
    OK(dqn_arena_add(a, &r->reward, device, DQN_F32, 0, "rows/reward", 2, k, b));
    OK(dqn_arena_add(a, &r->discount, device, DQN_F32, 0, "rows/discount", 2, k, b));
    OK(dqn_arena_add(a, &r->done, device, DQN_U8, 0, "rows/done", 2, k, b));
}

static void rig_open(struct rig *r, struct side *side, const struct kind *kind, size_t first) {
    *r = (struct rig){.side = side, .kind = *kind};
    net_make(&r->net, OBS, kind->actions, kind->n_hidden, kind->hidden, kind->activation,
             kind->dueling);
    add_buffers(r);
    const struct dqn_config_replay replay_config = {
        .kind = kind->replay, .capacity = (int64_t)kind->capacity, .stratified = kind->stratified};
    const struct dqn_replay_options replay = {.config = &replay_config,
                                              .n_agents = kind->agents,
                                              .obs = OBS,
                                              .obs_ld = r->net.obs_ld,
                                              .batch = kind->batch,
                                              .n_batches = 1,
                                              .agents = r->agents,
                                              .counters = r->counters};
    OK(dqn_replay_create(&r->replay, r->arena, &side->device, &replay));
    const struct dqn_config_learner learner_config = {.batch = (int64_t)kind->batch,
                                                      .accumulate = 1,
                                                      .double_q = kind->double_q,
                                                      .max_nonfinite = 10};
    const struct dqn_learner_options learner = {.n_agents = kind->agents,
                                                .net = &r->net,
                                                .config = &learner_config,
                                                .agents = r->agents,
                                                .counters = r->counters,
                                                .replay = r->replay};
    OK(dqn_learner_create(&r->learner, r->arena, &side->device, &learner));
    OK(dqn_arena_commit(r->arena, NULL));
    put_agents(r, first);
    OK(dqn_replay_prepare(r->replay, side->q));
    OK(dqn_learner_init(r->learner, side->q));
    for (uint64_t turn = 0; turn < FILL_TURNS; turn++) {
        insert_rows(r, first, turn);
    }
}

static void rig_close(struct rig *r) {
    OK(r->side->backend->queue->wait(r->side->q));
    dqn_learner_destroy(r->learner);
    dqn_replay_destroy(r->replay);
    dqn_arena_destroy(r->arena);
}

/* composed: operation by operation. */
static void update(struct rig *r, bool composed, int n) {
    setenv("DQN_TEST_COMPOSED", composed ? "1" : "0", 1);
    for (int i = 0; i < n; i++) {
        OK(dqn_learner_update(r->learner, r->side->q));
    }
    OK(r->side->backend->queue->wait(r->side->q));
}

/* ---- comparisons ---- */

static void expect_equal(const struct rig *a, const struct rig *b, const char *name) {
    unsigned char *x = get(a, name), *y = get(b, name);
    const size_t bytes = dqn_arena_find(a->arena, name)->bytes;
    size_t i = 0;
    while (i < bytes && x[i] == y[i]) {
        i++;
    }
    cr_assert_eq(i, bytes, "%s: byte %zu of %zu differs, batch %zu", name, i, bytes, a->kind.batch);
    free(x);
    free(y);
}

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

/* Worst relative difference of the statistics. */
static double stats_difference(const struct rig *a, const struct rig *b) {
    double *x = get(a, "learn/stats"), *y = get(b, "learn/stats"), worst = 0;
    for (size_t i = 0; i < a->kind.agents * sizeof(struct dqn_step_stats) / sizeof(double); i++) {
        worst = worse(worst, fabs(x[i] - y[i]) / fmax(fabs(x[i]), 1e-3));
    }
    free(x);
    free(y);
    return worst;
}

/* The worst residuals of one case; `seen` keeps the worst of all. */
struct residuals {
    double td, params, target, moment, priorities, stats;
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
    note(&seen->target, difference(a, b, "nn/target"));
    note(&seen->moment, mean_difference(a, b, "nn/moment1"));
    note(&seen->priorities, difference(a, b, "replay/priorities"));
    note(&seen->priorities, difference(a, b, "replay/priority_seen"));
    note(&seen->stats, stats_difference(a, b));
}

static void report(const struct kind *kind, const struct residuals *seen) {
    cr_log_info("batch %zu, %zu layers, activation %d: td %.2g, params %.2g, target %.2g, moment "
                "%.2g, priorities %.2g, stats %.2g",
                kind->batch, kind->n_hidden + 1, kind->activation, seen->td, seen->params,
                seen->target, seen->moment, seen->priorities, seen->stats);
}

/* One case on both sides, by the two kernels on the GPU. */
static void run_case(struct pair *pair, const struct kind *kind, struct residuals *seen) {
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
    note(&seen->priorities, own.priorities);
    note(&seen->stats, own.stats);
    for (int s = 0; s < SIDES; s++) {
        rig_close(&rig[s]);
    }
}

/* Sizes around the tiles of 16 rows and the shapes of clusters; networks of many forms. */
static size_t list_cases(struct kind *cases) {
    static const size_t batches[] = {1,   15,  16,  17,   31,   33,   64,   255,  256,
                                     257, 300, 512, 1000, 1024, 2000, 2048, 4096, 5000};
    size_t n = 0;
    for (size_t i = 0; i < DQN_COUNT_OF(batches); i++) {
        cases[n++] = usual(batches[i]);
    }
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
    cases[n] = usual(700);
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
    cases[n] = usual(2048); /* a share of one block would be more columns than its warps take */
    cases[n].hidden[0] = 512;
    cases[n++].hidden[1] = 400;
    cases[n] = usual(64);
    cases[n++].bad_reward = true;
    cases[n] = usual(600); /* each row several times */
    cases[n].capacity = 90 * 7;
    cases[n++].agents = 3;
    cases[n] = usual(48);
    cases[n].agents = 2;
    cases[n++].bad_reward = true;
    return n;
}

static void run_all(int precision, struct residuals *seen) {
    struct kind cases[40];
    struct pair pair;
    pair_open(&pair, precision);
    const size_t n = list_cases(cases);
    for (size_t i = 0; i < n; i++) {
        run_case(&pair, &cases[i], seen);
    }
    pair_close(&pair);
}

/* What three TF32 products leave of a product of floats: seen 2.7e-6 in td, 4e-6 in params, 1.4e-4
 * in the moments (a ReLU's kink; without any 4e-6), 7.5e-6 in the statistics. Priorities are
 * |td|^0.6, which is steep near 0: 2.5e-5. */
Test(cuda_update, equals_the_cpu_in_fp32) {
    struct residuals seen = {0};
    run_all(DQN_PRECISION_FP32, &seen);
    cr_expect_lt(seen.td, 1e-5, "%g", seen.td);
    cr_expect_lt(seen.params, 2e-5, "%g", seen.params);
    cr_expect_lt(seen.target, 1e-6, "%g", seen.target);
    cr_expect_lt(seen.moment, 1e-3, "%g", seen.moment);
    cr_expect_lt(seen.priorities, 1e-4, "%g", seen.priorities);
    cr_expect_lt(seen.stats, 5e-5, "%g", seen.stats);
}

/* Seen 4.8e-4 in td, 8e-4 in params, 8e-6 in the target, 0.03 in the moments (kinks; smooth
 * activations 6e-4), 2.5e-3 in priorities, 5.8e-3 in the statistics of 17 rows. */
Test(cuda_update, is_close_to_the_cpu_in_tf32) {
    struct residuals seen = {0};
    run_all(DQN_PRECISION_TF32, &seen);
    cr_expect_lt(seen.td, 2e-3, "%g", seen.td);
    cr_expect_lt(seen.params, 3e-3, "%g", seen.params);
    cr_expect_lt(seen.target, 3e-5, "%g", seen.target);
    cr_expect_lt(seen.moment, 0.1, "%g", seen.moment);
    cr_expect_lt(seen.priorities, 1e-2, "%g", seen.priorities);
    cr_expect_lt(seen.stats, 2e-2, "%g", seen.stats);
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
    update(&rig, false, 20);
    uint64_t *before = get(&rig, "sampler/sums");
    OK(dqn_replay_restore(rig.replay, rig.side->q, FILL_TURNS * 256));
    uint64_t *after = get(&rig, "sampler/sums");
    cr_assert_arr_eq(before, after, dqn_arena_find(rig.arena, "sampler/sums")->bytes);
    struct dqn_counters *counters = get(&rig, "counters");
    cr_assert_eq(counters->draws, 20);
    cr_assert_eq(counters->adam_steps, 20);
    free(counters);
    free(before);
    free(after);
    rig_close(&rig);
    pair_close(&pair);
}

/* Bit for bit: an agent of a population is what it is alone, though an update of several agents
 * takes another kernel; and twice the same is the same. */
Test(cuda_update, population_equals_its_agents_alone) {
    static const char *const names[] = {"nn/params",         "nn/target",   "nn/moment1",
                                        "nn/moment2",        "batch/td",    "batch/index",
                                        "replay/priorities", "learn/stats", "counters"};
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    struct kind many = usual(300), one = usual(300);
    many.agents = 3;
    struct rig all;
    rig_open(&all, &pair.side[GPU], &many, 0);
    update(&all, false, 5);
    for (size_t k = 0; k < many.agents; k++) {
        struct rig alone;
        rig_open(&alone, &pair.side[GPU], &one, k);
        update(&alone, false, 5);
        for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
            const size_t bytes = dqn_arena_find(alone.arena, names[i])->bytes;
            unsigned char *x = get(&all, names[i]), *y = get(&alone, names[i]);
            cr_assert_arr_eq(x + k * bytes, y, bytes, "%s of agent %zu", names[i], k);
            free(x);
            free(y);
        }
        rig_close(&alone);
    }
    rig_close(&all);
    pair_close(&pair);
}
