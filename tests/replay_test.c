/* The replay module on the CPU: ring against a deque, gathered batches, order of calls, save and
 * restore, memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/replay_model.h"
#include "replay.h"
#include "shared/priority.h"
#include "shared/rng.h"
#include "status_checks.h"

enum { OBS = 3, OBS_LD = 4 };

struct rig {
    const struct dqn_backend *cpu;
    struct dqn_device device;
    struct dqn_queue *q;
    struct dqn_arena *arena;
    struct dqn_buffer *agents, *counters;
    struct dqn_replay *replay;
    size_t k, capacity, batch, n_batches;
    uint32_t ok[4];
    uint64_t serial; /* of the next row */
};

static struct dqn_config_replay config_of(int kind, size_t capacity) {
    return (struct dqn_config_replay){.kind = kind,
                                      .capacity = (int64_t)capacity,
                                      .stratified = true,
                                      .alpha = 0.6,
                                      .epsilon = 1e-3,
                                      .max_priority = 4095,
                                      .weight_norm = DQN_WEIGHT_NORM_BATCH,
                                      .rank_interval = 1};
}

static void open_rig(struct rig *r, const struct dqn_config_replay *config, size_t k, size_t batch,
                     size_t n_batches) {
    const struct dqn_device_options options = {.threads = 2};
    *r = (struct rig){.cpu = dqn_backend_find("cpu"),
                      .k = k,
                      .capacity = (size_t)config->capacity,
                      .batch = batch,
                      .n_batches = n_batches,
                      .ok = {1, 1, 1, 1}};
    OK(r->cpu->memory->open(&r->device, &options));
    OK(r->cpu->queue->create(&r->device, &r->q));
    OK(dqn_arena_create(&r->arena));
    OK(dqn_arena_add(r->arena, &r->agents, &r->device, DQN_U64, 0, "agents", 2, k,
                     sizeof(struct dqn_agent) / 8));
    OK(dqn_arena_add(r->arena, &r->counters, &r->device, DQN_U64, DQN_BUFFER_SAVED, "counters", 2,
                     k, sizeof(struct dqn_counters) / 8));
    const struct dqn_replay_options replay = {.config = config,
                                              .n_agents = k,
                                              .obs = OBS,
                                              .obs_ld = OBS_LD,
                                              .batch = batch,
                                              .n_batches = n_batches,
                                              .agents = r->agents,
                                              .counters = r->counters};
    OK(dqn_replay_create(&r->replay, r->arena, &r->device, &replay));
    OK(dqn_arena_commit(r->arena, NULL));
    for (size_t i = 0; i < k; i++) {
        ((struct dqn_agent *)r->agents->data)[i] =
            (struct dqn_agent){.seed = 40 + i,
                               .alpha = config->alpha,
                               .priority_epsilon = config->epsilon,
                               .priority_max = config->max_priority,
                               .beta_start = 0.4,
                               .beta_end = 0.4};
    }
    OK(dqn_replay_prepare(r->replay, r->q));
    OK(r->cpu->queue->wait(r->q));
}

static void close_rig(struct rig *r) {
    dqn_replay_destroy(r->replay);
    dqn_arena_destroy(r->arena);
    r->cpu->queue->destroy(r->q);
    r->cpu->memory->close(&r->device);
}

static void *data_of(const struct rig *r, const char *name) {
    const struct dqn_buffer *buffer = dqn_arena_find(r->arena, name);
    cr_assert_not_null(buffer, "%s", name);
    return buffer->data;
}

/* ---- rows whose contents tell their agent and serial number ---- */

static float value_of(uint64_t serial, size_t k, size_t column) {
    return (float)(serial * 16 + k * 4 + column) / 4; /* exact below 2^24 */
}

static enum dqn_status try_insert(struct rig *r, size_t count) {
    const size_t n = r->k * count;
    float *values = malloc((2 * OBS + 2) * n * sizeof *values);
    uint32_t *action = malloc(n * sizeof *action);
    uint8_t *done = malloc(n);
    float *state = values, *next = state + OBS * n, *reward = next + OBS * n;
    for (size_t i = 0; i < n; i++) {
        const size_t k = i / count;
        const uint64_t serial = r->serial + i % count;
        for (size_t o = 0; o < OBS; o++) {
            state[i * OBS + o] = value_of(serial, k, o);
            next[i * OBS + o] = -value_of(serial, k, o);
        }
        reward[i] = value_of(serial, k, 3);
        reward[n + i] = -value_of(serial, k, 3); /* the discount */
        action[i] = (uint32_t)(serial * 4 + k);
        done[i] = (uint8_t)((serial + k) % 2);
    }
    const struct dqn_replay_rows rows = {.state = state,
                                         .next = next,
                                         .action = action,
                                         .reward = reward,
                                         .discount = reward + n,
                                         .done = done};
    enum dqn_status status = dqn_replay_insert(r->replay, r->q, &rows, count);
    if (status == DQN_OK) {
        status = r->cpu->queue->wait(r->q);
        dqn_replay_note_inserted(r->replay, count);
        r->serial += count;
    }
    free(values);
    free(action);
    free(done);
    return status;
}

/* One row of columns (or of a batch, with its leading dimension) is agent k's row `serial`. */
static void check_row(const float *state, const float *next, uint32_t action, float reward,
                      float discount, uint8_t done, uint64_t serial, size_t k) {
    for (size_t o = 0; o < OBS; o++) {
        cr_assert_eq(state[o], value_of(serial, k, o), "serial %zu agent %zu", (size_t)serial, k);
        cr_assert_eq(next[o], -value_of(serial, k, o));
    }
    cr_assert_eq(reward, value_of(serial, k, 3));
    cr_assert_eq(discount, -value_of(serial, k, 3));
    cr_assert_eq(action, (uint32_t)(serial * 4 + k));
    cr_assert_eq(done, (uint8_t)((serial + k) % 2));
}

/* The columns hold what the deque holds, in its slots; other slots are empty. */
static void check_columns(const struct rig *r, const struct model_deque *deque) {
    const float *states = data_of(r, "replay/states"), *next = data_of(r, "replay/next_states");
    const float *rewards = data_of(r, "replay/rewards");
    const float *discounts = data_of(r, "replay/discounts");
    const float *priorities = data_of(r, "replay/priorities");
    const uint32_t *actions = data_of(r, "replay/actions");
    const uint8_t *dones = data_of(r, "replay/dones");
    for (size_t k = 0; k < r->k; k++) {
        size_t filled = 0;
        for (size_t i = 0; i < deque->n; i++) {
            const size_t at = k * r->capacity + deque->entry[i].slot;
            check_row(states + at * OBS, next + at * OBS, actions[at], rewards[at], discounts[at],
                      dones[at], deque->entry[i].serial, k);
        }
        for (size_t i = 0; i < r->capacity; i++) {
            filled += priorities[k * r->capacity + i] > 0;
        }
        cr_assert_eq(filled, deque->n);
        for (size_t i = deque->n; i < r->capacity; i++) {
            cr_assert_eq(priorities[k * r->capacity + i], 0.0f, "slot %zu", i);
        }
    }
}

static void check_ring(const struct rig *r, const struct model_deque *deque) {
    const struct dqn_ring *ring = data_of(r, "replay/ring");
    const size_t head = deque->n < r->capacity ? deque->n : deque->entry[0].slot;
    cr_assert_eq(ring->size, deque->n);
    cr_assert_eq(ring->cursor, head % r->capacity);
    cr_assert_eq(dqn_replay_size(r->replay), deque->n);
}

static void insert_both(struct rig *r, struct model_deque *deque, size_t count) {
    for (size_t i = 0; i < count; i++) {
        model_deque_push(deque, r->serial + i);
    }
    OK(try_insert(r, count));
}

Test(replay, ring_is_a_deque) {
    static const size_t capacities[] = {1, 2, 3, 7, 100, 1000, 1023, 1024, 1025};
    for (size_t c = 0; c < DQN_COUNT_OF(capacities); c++) {
        const size_t n = capacities[c];
        const size_t sizes[] = {1, 7, n - 1, n, n / 2 + 1, n / 3};
        const struct dqn_config_replay config = config_of((int)(c % 3), n);
        struct model_deque deque;
        struct rig r;
        open_rig(&r, &config, 2, 1, 1);
        model_deque_open(&deque, n);
        for (uint64_t step = 0; step < 14; step++) {
            const uint64_t word = dqn_rng_u64(dqn_rng_block(3, c, step), 0);
            const size_t count = sizes[word % DQN_COUNT_OF(sizes)];
            if (count <= n) {
                insert_both(&r, &deque, count);
                check_ring(&r, &deque);
                check_columns(&r, &deque);
            }
        }
        cr_assert_eq(try_insert(&r, n + 3), DQN_ERR_STATE);
        cr_assert(strlen(dqn_error_text()) > 0);
        check_columns(&r, &deque);
        model_deque_close(&deque);
        close_rig(&r);
    }
}

/* One lane or thousands a step; more lanes than half the ring; exactly full; beyond it. */
Test(replay, any_number_of_lanes) {
    static const size_t lanes[] = {1, 16, 32, 4095, 4096};
    for (size_t n = 0; n < DQN_COUNT_OF(lanes); n++) {
        const struct dqn_config_replay config = config_of(DQN_REPLAY_PROPORTIONAL, 4096);
        struct model_deque deque;
        struct rig r;
        open_rig(&r, &config, 1, 1, 1);
        model_deque_open(&deque, 4096);
        for (int step = 0; step < 5; step++) {
            insert_both(&r, &deque, lanes[n]);
            check_ring(&r, &deque);
        }
        check_columns(&r, &deque);
        cr_assert_eq(try_insert(&r, 4097), DQN_ERR_STATE);
        model_deque_close(&deque);
        close_rig(&r);
    }
}

Test(replay, a_million_and_three_rows) {
    const size_t n = 1000003, fills[] = {1, n - 2, 1, 1, n, n - 1};
    const struct dqn_config_replay config = config_of(DQN_REPLAY_PROPORTIONAL, n);
    struct rig r;
    open_rig(&r, &config, 1, 64, 1);
    uint64_t inserted = 0;
    for (size_t f = 0; f < DQN_COUNT_OF(fills); f++) {
        struct dqn_replay_batch batch;
        OK(try_insert(&r, fills[f]));
        inserted += fills[f];
        const uint64_t size = inserted < n ? inserted : n;
        const struct dqn_ring *ring = data_of(&r, "replay/ring");
        cr_assert_eq(ring->size, size);
        cr_assert_eq(ring->cursor, inserted % n);
        OK(dqn_replay_sample(r.replay, r.q, 0, &batch));
        for (size_t b = 0; b < 64; b++) {
            /* The newest serial number that lies in this slot. */
            uint64_t serial = (uint64_t)batch.index[b];
            cr_assert_lt(serial, size);
            while (serial + n < inserted) {
                serial += n;
            }
            cr_assert_eq(batch.action[b], (uint32_t)(serial * 4));
        }
        OK(dqn_replay_update(r.replay, r.q, r.ok));
    }
    close_rig(&r);
}

/* ---- batches ---- */

Test(replay, batches_hold_the_rows_of_their_indices) {
    for (int kind = DQN_REPLAY_UNIFORM; kind <= DQN_REPLAY_RANK; kind++) {
        const struct dqn_config_replay config = config_of(kind, 50);
        struct rig r;
        open_rig(&r, &config, 3, 40, 1);
        OK(try_insert(&r, 45));
        OK(try_insert(&r, 20)); /* slots 0 to 14 hold rows 50 to 64 */
        struct dqn_replay_batch batch;
        memset(data_of(&r, "batch/state"), 0xff, 3 * 40 * OBS_LD * sizeof(float));
        memset(data_of(&r, "batch/next"), 0xff, 3 * 40 * OBS_LD * sizeof(float));
        OK(dqn_replay_sample(r.replay, r.q, 0, &batch));
        for (size_t i = 0; i < 3 * 40; i++) {
            const uint64_t slot = (uint64_t)batch.index[i], serial = slot < 15 ? slot + 50 : slot;
            cr_assert_lt(slot, 50);
            check_row(batch.state + i * OBS_LD, batch.next + i * OBS_LD, batch.action[i],
                      batch.reward[i], batch.discount[i], batch.done[i], serial, i / 40);
            cr_assert_eq(batch.state[i * OBS_LD + OBS], 0.0f, "padding");
            cr_assert_eq(batch.next[i * OBS_LD + OBS], 0.0f, "padding");
        }
        close_rig(&r);
    }
}

/* New rows, overwriting ones too, get the largest priority seen; it never falls. */
Test(replay, new_rows_get_the_running_maximum) {
    const struct dqn_config_replay config = config_of(DQN_REPLAY_PROPORTIONAL, 10);
    struct rig r;
    open_rig(&r, &config, 2, 1, 1);
    const float *priorities = data_of(&r, "replay/priorities");
    struct dqn_replay_batch batch;
    OK(try_insert(&r, 10));
    cr_assert_eq(priorities[9], (float)1.001);
    static const float errors[] = {4.0f, 0.1f, NAN, INFINITY, 2.0f};
    for (size_t i = 0; i < DQN_COUNT_OF(errors); i++) {
        OK(dqn_replay_sample(r.replay, r.q, 0, &batch));
        batch.td[0] = errors[i];
        batch.td[1] = 0.0f;
        OK(dqn_replay_update(r.replay, r.q, r.ok));
        OK(try_insert(&r, 1));
        cr_assert_eq(priorities[i], (float)model_priority(4, 0.6, 1e-3, 4095), "error %zu", i);
        cr_assert_eq(priorities[10 + i], (float)1.001, "agents do not share it");
    }
    close_rig(&r);
}

/* ---- order of calls ---- */

/* A priority cannot land on a row that was overwritten since it was sampled: no insertion gets
 * between a sample and its update. */
Test(replay, no_insertion_between_sample_and_update) {
    const struct dqn_config_replay config = config_of(DQN_REPLAY_PROPORTIONAL, 10);
    struct rig r;
    open_rig(&r, &config, 1, 4, 2);
    struct dqn_replay_batch batch;
    OK(try_insert(&r, 10));
    cr_assert_eq(dqn_replay_sample(r.replay, r.q, 1, &batch), DQN_ERR_STATE);
    for (size_t slot = 0; slot < 2; slot++) {
        OK(dqn_replay_sample(r.replay, r.q, slot, &batch));
        cr_assert_eq(try_insert(&r, 1), DQN_ERR_STATE);
        cr_assert_not_null(strstr(dqn_error_text(), "update"));
    }
    cr_assert_eq(dqn_replay_sample(r.replay, r.q, 2, &batch), DQN_ERR_STATE);
    OK(dqn_replay_update(r.replay, r.q, r.ok));
    OK(try_insert(&r, 1));
    cr_assert_eq(((float *)data_of(&r, "replay/priorities"))[0], (float)1.001);
    close_rig(&r);
}

Test(replay, batch_larger_than_the_ring_is_refused) {
    const struct dqn_config_replay config = config_of(DQN_REPLAY_UNIFORM, 10);
    struct rig r;
    open_rig(&r, &config, 1, 10, 1);
    const struct dqn_replay_options options = {.config = &config,
                                               .n_agents = 1,
                                               .obs = OBS,
                                               .obs_ld = OBS_LD,
                                               .batch = 11,
                                               .n_batches = 1,
                                               .agents = r.agents,
                                               .counters = r.counters};
    struct dqn_replay *other = NULL;
    cr_assert_eq(dqn_replay_create(&other, r.arena, &r.device, &options), DQN_ERR_CONFIG);
    cr_assert_not_null(strstr(dqn_error_text(), "replay.capacity = 10"));
    close_rig(&r);
}

/* Two batches of one update: each slot keeps its indices and errors, each draw its own number. */
Test(replay, accumulated_batches_are_updated_together) {
    const struct dqn_config_replay config = config_of(DQN_REPLAY_PROPORTIONAL, 400);
    struct rig r;
    open_rig(&r, &config, 2, 8, 3);
    struct dqn_replay_batch batch[3];
    OK(try_insert(&r, 400));
    for (size_t slot = 0; slot < 3; slot++) {
        OK(dqn_replay_sample(r.replay, r.q, slot, &batch[slot]));
        for (size_t i = 0; i < 16; i++) {
            batch[slot].td[i] = (float)(slot + 2);
        }
    }
    cr_assert_neq(memcmp(batch[0].index, batch[1].index, 16 * sizeof(int64_t)), 0);
    OK(dqn_replay_update(r.replay, r.q, r.ok));
    const float *priorities = data_of(&r, "replay/priorities");
    float want[800];
    for (size_t i = 0; i < 800; i++) {
        want[i] = (float)1.001;
    }
    for (size_t slot = 0; slot < 3; slot++) { /* of a row that several slots drew the last one's */
        for (size_t i = 0; i < 16; i++) {
            want[i / 8 * 400 + (size_t)batch[slot].index[i]] =
                (float)model_priority((double)slot + 2, 0.6, 1e-3, 4095);
        }
    }
    cr_assert_arr_eq(priorities, want, sizeof want);
    cr_assert_eq(((struct dqn_counters *)r.counters->data)[1].draws, 3);
    close_rig(&r);
}

/* ---- save and restore ---- */

/* Errors that depend on the step and the row alone. */
static void train(struct rig *r, uint64_t first, uint64_t end, int64_t *trace) {
    for (uint64_t step = first; step < end; step++) {
        struct dqn_replay_batch batch;
        OK(try_insert(r, 13));
        OK(dqn_replay_sample(r->replay, r->q, 0, &batch));
        for (size_t i = 0; i < r->k * r->batch; i++) {
            const uint64_t word = dqn_rng_u64(dqn_rng_block(8, step, i), 0);
            batch.td[i] = (float)(6 * dqn_rng_unit(word));
            trace[step * r->k * r->batch + i] = batch.index[i];
        }
        OK(dqn_replay_update(r->replay, r->q, r->ok));
        for (size_t k = 0; k < r->k; k++) {
            ((struct dqn_counters *)r->counters->data)[k].updates++;
        }
    }
}

static void copy_saved(const struct rig *from, struct rig *to) {
    for (size_t i = 0; i < dqn_arena_count(from->arena); i++) {
        const struct dqn_buffer *b = dqn_arena_at(from->arena, i);
        if (b->flags & DQN_BUFFER_SAVED) {
            memcpy(dqn_arena_find(to->arena, b->name)->data, b->data, b->bytes);
        }
    }
    to->serial = from->serial;
}

/* A replay made from the saved buffers goes on as the one it was saved from, at every moment. */
Test(replay, restored_replay_goes_on_equally) {
    enum { STEPS = 30, K = 2, B = 16 };
    for (int variant = 0; variant < 4; variant++) {
        struct dqn_config_replay config = config_of(variant % 3, 150);
        config.rank_interval = variant == 3 ? 1 : 4;
        config.kind = variant == 3 ? DQN_REPLAY_RANK : config.kind;
        config.weight_norm = variant % 2;
        int64_t want[STEPS * K * B], got[STEPS * K * B];
        struct rig whole;
        open_rig(&whole, &config, K, B, 1);
        train(&whole, 0, STEPS, want);
        for (uint64_t cut = 5; cut < 17; cut++) { /* before and after the ring is full */
            struct rig first, second;
            open_rig(&first, &config, K, B, 1);
            train(&first, 0, cut, got);
            open_rig(&second, &config, K, B, 1);
            copy_saved(&first, &second);
            OK(dqn_replay_restore(second.replay, second.q, cut * 13));
            OK(second.cpu->queue->wait(second.q));
            train(&second, cut, STEPS, got);
            cr_assert_arr_eq(got, want, sizeof want, "variant %d cut %zu", variant, (size_t)cut);
            cr_assert_eq(dqn_replay_size(second.replay), dqn_replay_size(whole.replay));
            cr_assert_arr_eq(data_of(&second, "replay/priorities"),
                             data_of(&whole, "replay/priorities"), K * 150 * sizeof(float));
            close_rig(&first);
            close_rig(&second);
        }
        close_rig(&whole);
    }
}

/* ---- memory ---- */

/* 100,000 rows of 51 features: 2 * 51 * 4 bytes of states, 4 each of action, reward, discount and
 * priority, 1 of done: 42.5 MB of columns; with the sums at most 47 MB. */
Test(replay, memory_plan) {
    const struct dqn_device_options options = {.threads = 1};
    const struct dqn_backend *cpu = dqn_backend_find("cpu");
    const struct dqn_config_replay config = config_of(DQN_REPLAY_PROPORTIONAL, 100000);
    struct dqn_device device;
    struct dqn_arena *arena;
    struct dqn_replay *replay;
    OK(cpu->memory->open(&device, &options));
    OK(dqn_arena_create(&arena));
    const struct dqn_replay_options replay_options = {
        .config = &config, .n_agents = 1, .obs = 51, .obs_ld = 52, .batch = 256, .n_batches = 1};
    OK(dqn_replay_create(&replay, arena, &device, &replay_options));
    uint64_t columns = 0;
    for (size_t i = 0; i < dqn_arena_count(arena); i++) {
        const struct dqn_buffer *b = dqn_arena_at(arena, i);
        if (strncmp(b->name, "replay/", 7) == 0) {
            columns += b->bytes;
        }
    }
    cr_assert_eq(columns, 42500000u + sizeof(struct dqn_ring) + sizeof(float));
    cr_assert_leq(dqn_arena_planned_bytes(arena, &device), 47000000u);
    dqn_replay_destroy(replay);
    dqn_arena_destroy(arena);
    cpu->memory->close(&device);
}
