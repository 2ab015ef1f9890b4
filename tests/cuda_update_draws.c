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
 * observations. */
static void load_rows(struct rig *r, const float *values, const float *priorities, uint64_t size) {
    const struct dqn_ring ring = {.cursor = size % r->kind.capacity, .size = size};
    put(r, dqn_arena_find(r->arena, "replay/states"), values);
    put(r, dqn_arena_find(r->arena, "replay/rewards"), values);
    put(r, dqn_arena_find(r->arena, "replay/priorities"), priorities);
    put(r, dqn_arena_find(r->arena, "replay/ring"), &ring);
    OK(dqn_replay_restore(r->replay, r->side->q, size));
}

/* [K, N] rewards of either sign, of sizes from 3e-4 to 55; the caller frees them. */
static float *random_values(size_t n) {
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        const double size = exp(12 * hash_unit(90, i) - 8);
        values[i] = (float)(hash_word(91, i) % 2 == 0 ? size : -size);
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

/* Trees of three and of four levels (each of 32 times the rows), full and not, by warps that search
 * one, two and three rows at once (batches to 1056, 2112 and above on 132 multiprocessors). Given
 * equal draws, the TD errors show that the rewards are those of the rows. */
Test(cuda_update, draws_the_rows_of_the_cpu) {
    static const struct height heights[] = {
        {100003, 0, 2, 300, true},    {100003, 5000, 1, 4096, false}, {1000003, 0, 1, 1100, true},
        {1048583, 3, 1, 2200, false}, {10000000, 0, 1, 256, false},   {10000000, 0, 1, 4096, true},
    };
    struct pair pair;
    pair_open(&pair, DQN_PRECISION_FP32);
    const bool two_kernels = takes_two_kernels(&pair.side[GPU]);
    for (size_t i = 0; i < reduced(DQN_COUNT_OF(heights), 1); i++) {
        height_case(&pair, &heights[i], two_kernels);
    }
    pair_close(&pair);
}
