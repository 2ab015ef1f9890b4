/* A collector's step in two kernels against the operations that it stands for: the same bytes in
 * everything that lives on, after steps enough for windows to fill, episodes to end and the ring to
 * go round; beside the CPU's operations, where every action is drawn at random, so that no network
 * rounds otherwise, and beside the GPU's, where most actions are greedy. */
#include "collector.h"
#include "cuda_pair.h"
#include "market/trading_setup.h"
#include "program.h"

enum { MOST_AGENTS = 3, MOST_CASES = 24 };

struct kind {
    enum dqn_env_id env;
    size_t agents, lanes, n_step, capacity;
    int replay, sums;
    double epsilon;
    bool dueling;
    int activation;
    size_t n_hidden;
    int64_t width; /* of hidden layers */
    uint64_t steps;
};

static struct kind usual(enum dqn_env_id env) {
    return (struct kind){.env = env,
                         .agents = 1,
                         .lanes = 16,
                         .n_step = 1,
                         .capacity = 500,
                         .replay = DQN_REPLAY_PROPORTIONAL,
                         .sums = DQN_SUMS_TREE,
                         .epsilon = 0.2,
                         .activation = DQN_RELU,
                         .n_hidden = 2,
                         .width = 64,
                         .steps = reduced(45, 8)};
}

/* A collector and its replay on one side. */
struct rig {
    struct side *side;
    struct kind kind;
    struct dqn_net net;
    struct dqn_arena *arena;
    struct dqn_buffer *agents, *counters, *params, *env_params;
    struct dqn_config *config;
    struct dqn_market *market;
    struct dqn_market_buffers tables;
    struct dqn_replay *replay;
    struct dqn_collector *collector;
    uint64_t steps;
};

/* Agents differ in their random numbers, and so in their networks, and in how they discount. */
static void put_agents(struct rig *r) {
    struct dqn_agent agents[MOST_AGENTS];
    memset(agents, 0, sizeof agents);
    for (size_t k = 0; k < r->kind.agents; k++) {
        agents[k] = (struct dqn_agent){.seed = 21 + k,
                                       .gamma = 0.97 - 0.1 * (double)k,
                                       .eps_start = r->kind.epsilon,
                                       .eps_end = r->kind.epsilon,
                                       .alpha = 0.6,
                                       .priority_epsilon = 1e-3,
                                       .priority_max = 4095};
    }
    side_put(r->side, r->agents, agents);
}

static void put_env_params(struct rig *r) {
    void *params = calloc(1, r->env_params->bytes);
    if (r->market != NULL) {
        OK(dqn_market_upload(r->market, r->side->q, &r->tables));
        OK(dqn_trading_params(params, r->config, r->market, &r->tables, DQN_TRADING_TRAIN,
                              DQN_SPLIT_TRAIN, 0));
    } else {
        dqn_env_default_params(r->kind.env, params);
    }
    side_put(r->side, r->env_params, params);
    free(params);
}

static void add_buffers(struct rig *r) {
    const struct dqn_device *device = &r->side->device;
    const size_t k = r->kind.agents;
    OK(dqn_arena_create(&r->arena));
    OK(dqn_arena_add(r->arena, &r->agents, device, DQN_U64, 0, "agents", 2, k,
                     sizeof(struct dqn_agent) / sizeof(uint64_t)));
    OK(dqn_arena_add(r->arena, &r->counters, device, DQN_U64, DQN_BUFFER_SAVED, "counters", 2, k,
                     sizeof(struct dqn_counters) / sizeof(uint64_t)));
    OK(dqn_arena_add(r->arena, &r->params, device, DQN_F32, 0, "params", 2, k, r->net.n_params));
    OK(dqn_arena_add(r->arena, &r->env_params, device, DQN_U8, DQN_BUFFER_SHARED, "env/params", 1,
                     dqn_env_params_bytes(r->kind.env)));
    if (r->kind.env == DQN_ENV_trading) {
        r->config = calloc(1, sizeof *r->config);
        dqn_config_defaults(r->config);
        r->config->synthetic.bars = 1500;
        r->config->env.episode_bars = (int64_t)reduced(20, 5);
        OK(dqn_market_create(&r->market, r->config, NULL, NULL));
        OK(dqn_market_register(r->market, r->arena, device, &r->tables));
    }
}

static void rig_open(struct rig *r, struct side *side, const struct kind *kind) {
    const int64_t hidden[] = {kind->width, kind->width};
    *r = (struct rig){.side = side, .kind = *kind};
    net_make(&r->net, dqn_env_observations(kind->env), dqn_env_actions(kind->env), kind->n_hidden,
             hidden, kind->activation, kind->dueling);
    add_buffers(r);
    const struct dqn_config_replay replay_config = {.kind = kind->replay,
                                                    .capacity = (int64_t)kind->capacity,
                                                    .sums = kind->sums,
                                                    .rank_interval = 1,
                                                    .alpha = 0.6};
    const struct dqn_replay_options replay = {.config = &replay_config,
                                              .n_agents = kind->agents,
                                              .obs = r->net.obs,
                                              .obs_ld = r->net.obs_ld,
                                              .batch = 8,
                                              .n_batches = 1,
                                              .agents = r->agents,
                                              .counters = r->counters};
    OK(dqn_replay_create(&r->replay, r->arena, &side->device, &replay));
    const struct dqn_collector_options collector = {.env = kind->env,
                                                    .n_agents = kind->agents,
                                                    .lanes = kind->lanes,
                                                    .n_step = kind->n_step,
                                                    .net = &r->net,
                                                    .agents = r->agents,
                                                    .counters = r->counters,
                                                    .params = r->params,
                                                    .env_params = r->env_params,
                                                    .replay = r->replay};
    OK(dqn_collector_create(&r->collector, r->arena, &side->device, &collector));
    OK(dqn_arena_commit(r->arena, NULL));
    put_agents(r);
    put_env_params(r);
    const struct dqn_init_args init = {.net = &r->net,
                                       .n_agents = kind->agents,
                                       .agents = r->agents->data,
                                       .params = r->params->data};
    OK(side->backend->nn->init(side->q, &init));
    OK(dqn_replay_prepare(r->replay, side->q));
    OK(dqn_collector_reset(r->collector, side->q));
}

static void rig_close(struct rig *r) {
    OK(r->side->backend->queue->wait(r->side->q));
    dqn_collector_destroy(r->collector);
    dqn_replay_destroy(r->replay);
    dqn_market_destroy(r->market);
    dqn_arena_destroy(r->arena);
    free(r->config);
}

/* The priority of new rows from now on: up and down, so that leaves that go round the ring change
 * by sums of either sign, and another one for each agent. */
static void put_priorities(const struct rig *r) {
    static const float seen[] = {1.5f, 0.2f, 900};
    float own[MOST_AGENTS];
    for (size_t k = 0; k < r->kind.agents; k++) {
        own[k] = seen[(r->steps / 3 + k) % DQN_COUNT_OF(seen)];
    }
    side_put(r->side, dqn_arena_find(r->arena, "replay/priority_seen"), own);
}

static void step(struct rig *r, bool composed, uint64_t n) {
    setenv("DQN_TEST_COMPOSED", composed ? "1" : "0", 1);
    for (uint64_t i = 0; i < n; i++) {
        if (r->steps % 3 == 0) {
            put_priorities(r);
        }
        r->steps++;
        OK(dqn_collector_step(r->collector, r->side->q, r->steps >= r->kind.n_step));
    }
    OK(r->side->backend->queue->wait(r->side->q));
}

/* Whether the steps so far were two kernels, which leave what the actions saw unwritten. */
static bool was_two_kernels(const struct rig *r) {
    return side_is_zero(r->side, dqn_arena_find(r->arena, "collect/obs_before"));
}

/* Everything that is saved, and the actions. */
static void saved_equal(const struct rig *a, const struct rig *b, const char *what) {
    for (size_t i = 0; i < dqn_arena_count(a->arena); i++) {
        const struct dqn_buffer *x = dqn_arena_at(a->arena, i);
        if ((x->flags & DQN_BUFFER_SAVED) == 0 && strcmp(x->name, "collect/action") != 0) {
            continue;
        }
        const struct dqn_buffer *y = dqn_arena_find(b->arena, x->name);
        cr_assert(y != NULL && x->bytes == y->bytes, "%s", x->name);
        void *p = side_get(a->side, x), *q = side_get(b->side, y);
        const size_t at = first_difference(p, q, x->bytes);
        cr_assert_eq(at, x->bytes, "%s: %s differs at byte %zu of %zu", what, x->name, at,
                     x->bytes);
        free(p);
        free(q);
    }
}

/* The sums are those of the leaves. */
static void sums_hold(struct rig *r, const char *what) {
    const struct dqn_buffer *sums = dqn_arena_find(r->arena, "sampler/sums");
    if (sums == NULL) {
        return;
    }
    const uint64_t rows = (r->steps - r->kind.n_step + 1) * r->kind.lanes;
    unsigned char *before = side_get(r->side, sums);
    OK(dqn_replay_restore(r->replay, r->side->q, rows));
    unsigned char *after = side_get(r->side, sums);
    cr_assert_arr_eq(before, after, sums->bytes, "%s", what);
    free(before);
    free(after);
}

static void describe(const struct kind *kind, char *to, size_t size) {
    snprintf(to, size, "env %d, %zu agents, %zu lanes, %zu steps, %zu rows, replay %d, sums %d",
             (int)kind->env, kind->agents, kind->lanes, kind->n_step, kind->capacity, kind->replay,
             kind->sums);
}

/* By two kernels on the GPU, and by operations on side `other`. */
static void run_case(struct pair *pair, int other, const struct kind *kind) {
    struct rig whole, apart;
    char what[160];
    describe(kind, what, sizeof what);
    rig_open(&whole, &pair->side[GPU], kind);
    rig_open(&apart, &pair->side[other], kind);
    step(&whole, false, kind->steps);
    step(&apart, true, kind->steps);
    cr_expect(was_two_kernels(&whole), "%s: operation by operation", what);
    cr_expect(!was_two_kernels(&apart), "%s: not by operations", what);
    saved_equal(&whole, &apart, what);
    sums_hold(&whole, what);
    rig_close(&whole);
    rig_close(&apart);
}

/* Lanes around a block of 32 and more than one a multiprocessor; windows; rings that the lanes of a
 * step fill, that end within a block, and of one node of the tree. */
static size_t list_kinds(struct kind *cases) {
    size_t n = 0;
    for (int env = 0; env < DQN_ENV_COUNT; env++) {
        cases[n] = usual((enum dqn_env_id)env);
        cases[n].lanes = 33;
        cases[n].n_step = 3;
        cases[n++].agents = 2;
    }
    static const size_t lanes[] = {1, 31, 32, 65, 200};
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(lanes), 1); i++) {
        cases[n] = usual(DQN_ENV_trading);
        cases[n].lanes = lanes[i];
        cases[n].n_step = 1 + i;
        cases[n++].agents = i == 3 ? MOST_AGENTS : 1;
    }
    cases[n] = usual(DQN_ENV_cartpole);
    cases[n].lanes = reduced(5000, 50);
    cases[n++].capacity = reduced(12345, 123);
    cases[n] = usual(DQN_ENV_cartpole);
    cases[n].lanes = 40;
    cases[n++].capacity = 40;
    cases[n] = usual(DQN_ENV_cartpole);
    cases[n].lanes = 7;
    cases[n].n_step = 2;
    cases[n++].capacity = 20;
    cases[n] = usual(DQN_ENV_cartpole); /* several episodes end in a window */
    cases[n].n_step = 40;
    cases[n++].steps = reduced(150, 45);
    static const int kinds[] = {DQN_REPLAY_UNIFORM, DQN_REPLAY_RANK, DQN_REPLAY_PROPORTIONAL};
    for (size_t i = 0; i < DQN_COUNT_OF(kinds); i++) {
        cases[n] = usual(DQN_ENV_cartpole);
        cases[n].replay = kinds[i];
        cases[n].sums = DQN_SUMS_SCAN;
        cases[n++].n_step = 3;
    }
    cr_assert_leq(n, MOST_CASES);
    return n;
}

Test(cuda_collect, equals_the_cpu) {
    struct kind cases[MOST_CASES];
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const size_t n = list_kinds(cases);
    for (size_t i = 0; i < n; i++) {
        cases[i].epsilon = 1;
        run_case(&pair, CPU, &cases[i]);
    }
    pair_close(&pair);
}

static void equals_its_operations(int precision) {
    struct kind cases[MOST_CASES];
    struct pair pair;
    pair_open(&pair, precision);
    const size_t n = list_kinds(cases);
    for (size_t i = 0; i < n; i++) {
        cases[i].dueling = i % 2 == 1;
        cases[i].activation = (int)(i % (DQN_SILU + 1));
        const bool is_tall = cases[i].lanes > 1000; /* tiles of several times 16 lanes */
        cases[i].n_hidden = is_tall ? 2 : i % 3;
        cases[i].width = is_tall || i % 5 == 0 ? 256 : 64;
        run_case(&pair, GPU, &cases[i]);
    }
    pair_close(&pair);
}

Test(cuda_collect, equals_its_operations_in_fp32) {
    equals_its_operations(DQN_PRECISION_FP32);
}

Test(cuda_collect, equals_its_operations_in_tf32) {
    equals_its_operations(DQN_PRECISION_TF32);
}

/* Rings under trees of three and of four levels, filled and gone round several times, by so many
 * lanes that blocks add to the same sums at once. */
Test(cuda_collect, goes_round_under_tall_trees) {
    struct kind kinds[] = {usual(DQN_ENV_cartpole), usual(DQN_ENV_cartpole)};
    kinds[0].capacity = 32771;
    kinds[0].lanes = reduced(5000, 65); /* reduced: fills a part */
    kinds[0].n_step = 2;
    kinds[0].agents = 2;
    kinds[1].capacity = 1048583;
    kinds[1].lanes = 50000;
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_TF32);
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(kinds), 1); i++) {
        const uint64_t rows = (kinds[i].steps - kinds[i].n_step + 1) * kinds[i].lanes;
        cr_assert(is_reduced() || rows > kinds[i].capacity, "the ring does not go round");
        run_case(&pair, GPU, &kinds[i]);
    }
    pair_close(&pair);
}

/* A policy without a histogram and with an epsilon of its own, as an evaluation's, by one operation
 * and by two. */
Test(cuda_collect, policy) {
    static const size_t lanes[] = {1, 16, 17, 100, 3000};
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_TF32);
    const struct side *gpu = &pair.side[GPU];
    const struct dqn_nn_ops *nn = gpu->backend->nn;
    for (size_t i = 0; i < 2 * DQN_COUNT_OF(lanes); i++) {
        struct rig r;
        struct kind kind = usual(DQN_ENV_cartpole);
        kind.lanes = lanes[i / 2];
        kind.width = i % 2 == 0 ? 64 : 256;
        kind.capacity = 3000;
        kind.agents = 2;
        kind.dueling = i % 4 == 0 || i % 4 == 3;
        rig_open(&r, &pair.side[GPU], &kind);
        const struct dqn_buffer *action = dqn_arena_find(r.arena, "collect/action");
        const struct dqn_forward_args forward = {.net = &r.net,
                                                 .n_agents = kind.agents,
                                                 .batch = kind.lanes,
                                                 .params = r.params->data,
                                                 .x = dqn_arena_find(r.arena, "collect/obs")->data,
                                                 .acts =
                                                     dqn_arena_find(r.arena, "collect/acts")->data,
                                                 .q = dqn_arena_find(r.arena, "collect/q")->data,
                                                 .acts_unread = true};
        const struct dqn_act_args act = {.n_agents = kind.agents,
                                         .lanes = kind.lanes,
                                         .actions = r.net.actions,
                                         .actions_ld = r.net.actions_ld,
                                         .agents = r.agents->data,
                                         .counters = r.counters->data,
                                         .purpose = DQN_RNG_EVAL_POLICY,
                                         .fixed_epsilon = 0.3,
                                         .q = forward.q,
                                         .action = action->data};
        OK(nn->forward(gpu->q, &forward));
        OK(nn->act(gpu->q, &act));
        uint32_t *apart = side_get(r.side, action);
        OK(gpu->backend->memory->zero(gpu->q, action->data, action->bytes));
        OK(nn->policy(gpu->q, &forward, &act));
        uint32_t *whole = side_get(r.side, action);
        cr_assert_arr_eq(apart, whole, action->bytes, "%zu lanes, width %zu", kind.lanes,
                         (size_t)kind.width);
        free(apart);
        free(whole);
        rig_close(&r);
    }
    pair_close(&pair);
}

static enum dqn_status step_once(void *context, struct dqn_queue *q) {
    struct rig *r = context;
    return dqn_collector_step(r->collector, q, true);
}

/* Replays of a captured step against as many calls. */
Test(cuda_collect, captured) {
    struct pair pair;
    struct rig called, captured;
    struct dqn_program *program = NULL;
    pair_open(&pair, DQN_PRECISION_TF32);
    struct kind kind = usual(DQN_ENV_trading);
    kind.n_step = 3;
    kind.agents = 2;
    rig_open(&called, &pair.side[GPU], &kind);
    rig_open(&captured, &pair.side[GPU], &kind);
    step(&called, false, kind.steps);
    step(&captured, false, kind.n_step);
    OK(dqn_program_record(&program, step_once, &captured));
    while (captured.steps < kind.steps) {
        if (captured.steps % 3 == 0) {
            put_priorities(&captured);
        }
        OK(dqn_program_run(program, captured.side->q));
        captured.steps++;
    }
    OK(captured.side->backend->queue->wait(captured.side->q));
    saved_equal(&called, &captured, "captured");
    sums_hold(&captured, "captured");
    dqn_program_destroy(program);
    rig_close(&called);
    rig_close(&captured);
    pair_close(&pair);
}
