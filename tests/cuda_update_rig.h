/* What cuda_update_test updates: a replay and a learner on one side of a pair, made from a kind,
 * with rows that are the same on both sides and for an agent in every population. */
#ifndef DQN_TESTS_CUDA_UPDATE_RIG_H
#define DQN_TESTS_CUDA_UPDATE_RIG_H

#include "cuda_pair.h"
#include "learner.h"
#include "replay.h"

/* FIRST_UPDATES: counted before the first one here, whose number is one more. */
enum { FILL_TURNS = 3, MOST_AGENTS = 20, MOST_HIDDEN = 8, FIRST_UPDATES = 7 };

/* What a case is made of. */
struct kind {
    size_t batch, agents, capacity, obs, n_hidden;
    int64_t hidden[MOST_HIDDEN];
    size_t actions;
    int activation;
    bool dueling, double_q, stratified, bad_reward;
    int replay;
    double tau;
    uint64_t target_updates; /* 0: by tau */
    uint64_t lr_updates;     /* of a linear slope to 1e-5; 0: constant */
    double weight_decay;     /* above 0: the biases start at random numbers, for it pulls on them */
    uint64_t streak;         /* skipped in a row before; the tenth freezes the agent */
    bool plain;              /* squared errors, gradients that are not clipped */
    bool apart;              /* no network for two kernels: operation by operation */
};

/* Reduced, layers of which a single block takes one with sections joined, one with them apart. */
static inline struct kind usual(size_t batch) {
    return (struct kind){.batch = batch,
                         .agents = 1,
                         .capacity = 10000,
                         .obs = 51,
                         .n_hidden = 2,
                         .hidden = {(int64_t)reduced(256, 136), (int64_t)reduced(256, 40)},
                         .actions = 45,
                         .activation = DQN_RELU,
                         .double_q = true,
                         .stratified = true,
                         .replay = DQN_REPLAY_PROPORTIONAL,
                         .tau = 0.01};
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

static inline void put(const struct rig *r, const struct dqn_buffer *to, const void *data) {
    side_put(r->side, to, data);
}

/* A copy of a buffer; the caller frees it. */
static inline void *get(const struct rig *r, const char *name) {
    const struct dqn_buffer *from = dqn_arena_find(r->arena, name);
    cr_assert_not_null(from, "%s", name);
    return side_get(r->side, from);
}

static inline void put_agents(struct rig *r, size_t first) {
    struct dqn_agent agents[MOST_AGENTS];
    struct dqn_counters counters[MOST_AGENTS];
    memset(counters, 0, sizeof counters);
    for (size_t k = 0; k < r->kind.agents; k++) {
        agents[k] = (struct dqn_agent){.seed = 11 + first + k,
                                       .gamma = 0.99,
                                       .lr_start = 1e-3,
                                       .lr_end = 1e-5,
                                       .lr_updates = r->kind.lr_updates,
                                       .lr_kind = r->kind.lr_updates > 0 ? DQN_SCHEDULE_LINEAR
                                                                         : DQN_SCHEDULE_CONSTANT,
                                       .beta_start = 0.4,
                                       .beta_end = 1,
                                       .beta_updates = 100,
                                       .alpha = 0.6,
                                       .priority_epsilon = 1e-3,
                                       .priority_max = 4095,
                                       .tau = r->kind.tau,
                                       .target_updates = r->kind.target_updates,
                                       .huber_delta = r->kind.plain ? 0 : 1,
                                       .max_grad_norm = r->kind.plain ? 0 : 0.05,
                                       .adam_beta1 = 0.9,
                                       .adam_beta2 = 0.999,
                                       .adam_eps = 1e-3, /* small gradients move little, not by
                                                            their sign */
                                       .weight_decay = r->kind.weight_decay};
        counters[k].updates = FIRST_UPDATES;
        counters[k].nonfinite_streak = r->kind.streak;
    }
    put(r, r->agents, agents);
    put(r, r->counters, counters);
}

/* Rows of agent first + k are the same in every population. */
static inline void insert_rows(struct rig *r, size_t first, uint64_t turn) {
    const size_t b = r->kind.batch, k = r->kind.agents, n = r->kind.obs;
    float *state = calloc(k * b * n, sizeof *state), *next = calloc(k * b * n, sizeof *next);
    float *reward = calloc(k * b, sizeof *reward), *discount = calloc(k * b, sizeof *discount);
    uint32_t *action = calloc(k * b, sizeof *action);
    uint8_t *done = calloc(k * b, 1);
    for (size_t i = 0; i < k; i++) {
        const uint64_t base = 100 * (first + i) + 10 * turn;
        for (size_t j = 0; j < b; j++) {
            const size_t at = i * b + j;
            for (size_t o = 0; o < n; o++) {
                state[at * n + o] = random_number(base, j * n + o);
                next[at * n + o] = random_number(base + 1, j * n + o);
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

static inline void add_buffers(struct rig *r) {
    const struct dqn_device *device = &r->side->device;
    const size_t k = r->kind.agents, b = r->kind.batch, n = r->kind.obs;
    OK(dqn_arena_create(&r->arena));
    struct dqn_arena *a = r->arena;
    OK(dqn_arena_add(a, &r->agents, device, DQN_U64, 0, "agents", 2, k,
                     sizeof(struct dqn_agent) / sizeof(uint64_t)));
    OK(dqn_arena_add(a, &r->counters, device, DQN_U64, 0, "counters", 2, k,
                     sizeof(struct dqn_counters) / sizeof(uint64_t)));
    OK(dqn_arena_add(a, &r->state, device, DQN_F32, 0, "rows/state", 3, k, b, n));
    OK(dqn_arena_add(a, &r->next, device, DQN_F32, 0, "rows/next", 3, k, b, n));
    OK(dqn_arena_add(a, &r->action, device, DQN_U32, 0, "rows/action", 2, k, b));
    OK(dqn_arena_add(a, &r->reward, device, DQN_F32, 0, "rows/reward", 2, k, b));
    OK(dqn_arena_add(a, &r->discount, device, DQN_F32, 0, "rows/discount", 2, k, b));
    OK(dqn_arena_add(a, &r->done, device, DQN_U8, 0, "rows/done", 2, k, b));
}

/* The same for agent first + k in every population. */
static inline void put_biases(struct rig *r, size_t first) {
    float *params = get(r, "nn/params");
    for (size_t k = 0; k < r->kind.agents; k++) {
        for (size_t l = 0; l < r->net.n_layers; l++) {
            float *bias = params + k * r->net.n_params + r->net.layer[l].bias;
            for (size_t o = 0; o < r->net.layer[l].out; o++) {
                bias[o] = 0.3f * random_number(9000 + 100 * (first + k) + l, o);
            }
        }
    }
    put(r, dqn_learner_params(r->learner), params);
    free(params);
}

static inline void rig_open(struct rig *r, struct side *side, const struct kind *kind,
                            size_t first) {
    *r = (struct rig){.side = side, .kind = *kind};
    net_make(&r->net, kind->obs, kind->actions, kind->n_hidden, kind->hidden, kind->activation,
             kind->dueling);
    add_buffers(r);
    const struct dqn_config_replay replay_config = {
        .kind = kind->replay, .capacity = (int64_t)kind->capacity, .stratified = kind->stratified};
    const struct dqn_replay_options replay = {.config = &replay_config,
                                              .n_agents = kind->agents,
                                              .obs = kind->obs,
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
    if (kind->weight_decay > 0) {
        put_biases(r, first);
    }
    for (uint64_t turn = 0; turn < FILL_TURNS; turn++) {
        insert_rows(r, first, turn);
    }
}

static inline void rig_close(struct rig *r) {
    OK(r->side->backend->queue->wait(r->side->q));
    dqn_learner_destroy(r->learner);
    dqn_replay_destroy(r->replay);
    dqn_arena_destroy(r->arena);
}

/* composed: operation by operation. */
static inline void update(struct rig *r, bool composed, int n) {
    setenv("DQN_TEST_COMPOSED", composed ? "1" : "0", 1);
    for (int i = 0; i < n; i++) {
        OK(dqn_learner_update(r->learner, r->side->q));
    }
    OK(r->side->backend->queue->wait(r->side->q));
}

/* Whether the updates so far were two kernels, which leave the importance weights unwritten; by
 * operations the largest of a batch is 1. */
static inline bool was_two_kernels(const struct rig *r) {
    return side_is_zero(r->side, dqn_arena_find(r->arena, "batch/weight"));
}

/* Whether this GPU takes updates in two kernels. */
static inline bool takes_two_kernels(struct side *gpu) {
    const struct kind kind = usual(1);
    struct rig r;
    rig_open(&r, gpu, &kind, 0);
    update(&r, false, 1);
    const bool takes = was_two_kernels(&r);
    rig_close(&r);
    return takes;
}

/* The sums over the priorities are those that a rebuild makes; `rows` were inserted. */
static inline void sums_hold(struct rig *r, uint64_t rows) {
    const size_t bytes = dqn_arena_find(r->arena, "sampler/sums")->bytes;
    unsigned char *before = get(r, "sampler/sums");
    OK(dqn_replay_restore(r->replay, r->side->q, rows));
    unsigned char *after = get(r, "sampler/sums");
    cr_assert_eq(memcmp(before, after, bytes), 0, "%zu rows: sums differ from rebuilt ones",
                 r->kind.capacity);
    free(before);
    free(after);
}

/* A buffer of two rigs holds the same bytes. */
static inline void expect_equal(const struct rig *a, const struct rig *b, const char *name) {
    void *x = get(a, name), *y = get(b, name);
    const size_t bytes = dqn_arena_find(a->arena, name)->bytes;
    const size_t i = first_difference(x, y, bytes);
    cr_assert_eq(i, bytes, "%s: byte %zu of %zu differs, batch %zu", name, i, bytes, a->kind.batch);
    free(x);
    free(y);
}

#endif
