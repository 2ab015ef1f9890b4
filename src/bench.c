#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents.h"
#include "bench_time.h"
#include "collector.h"
#include "learner.h"
#include "market/trading_setup.h"
#include "replay.h"

enum {
    STEPS_A_PROGRAM = 16,
    CHUNK_ROWS = 4096, /* random rows are inserted so many at a time */
    BENCH_OBS = 51,
    BENCH_ACTIONS = 45
};

struct bench {
    struct dqn_config config;
    size_t n_agents;
    struct dqn_net net;
    struct dqn_device device;
    bool device_open;
    struct dqn_queue *queue;
    struct dqn_arena *arena;
    uint64_t free_begun; /* bytes of the device, before the commit */
    struct dqn_buffer *agents, *counters, *env_params;
    struct dqn_buffer *row_state, *row_next, *row_action, *row_reward, *row_discount, *row_done;
    struct dqn_buffer *td, *ok; /* for the replay alone */
    struct dqn_replay *replay;
    struct dqn_learner *learner;
    struct dqn_collector *collector;
    struct dqn_market *market;
    struct dqn_market_buffers market_buffers;
    struct dqn_program *program;
};

static void destroy(struct bench *b) {
    dqn_program_destroy(b->program);
    dqn_collector_destroy(b->collector);
    dqn_learner_destroy(b->learner);
    dqn_replay_destroy(b->replay);
    if (b->queue != NULL) {
        b->device.backend->queue->destroy(b->queue);
    }
    dqn_arena_destroy(b->arena);
    if (b->device_open) {
        b->device.backend->memory->close(&b->device);
    }
    dqn_market_destroy(b->market);
}

static enum dqn_status open_device(struct bench *b) {
    const int wanted = b->config.run.device;
    const bool cuda = wanted == DQN_DEVICE_CUDA ||
                      (wanted == DQN_DEVICE_AUTO && dqn_backend_find("cuda") != NULL);
    const struct dqn_device_options options = {.index = (int)b->config.run.device_index,
                                               .threads = (int)b->config.run.threads,
                                               .precision = b->config.net.precision};
    const struct dqn_backend *backend = NULL;
    DQN_TRY(dqn_backend_need(cuda ? "cuda" : "cpu", &backend));
    enum dqn_status status = backend->memory->open(&b->device, &options);
    if (status != DQN_OK && wanted == DQN_DEVICE_AUTO) {
        status = dqn_backend_find("cpu")->memory->open(&b->device, &options);
    }
    DQN_TRY(status);
    b->device_open = true;
    return b->device.backend->queue->create(&b->device, &b->queue);
}

static enum dqn_status create_common(struct bench *b, const struct dqn_config *config, size_t obs,
                                     size_t actions) {
    b->config = *config;
    dqn_agent_resolve_schedules(&b->config);
    DQN_TRY(dqn_net_init(&b->net, obs, actions, &b->config.net));
    DQN_TRY(open_device(b));
    DQN_TRY(dqn_arena_create(&b->arena));
    DQN_TRY(dqn_arena_add(b->arena, &b->agents, &b->device, DQN_U64, 0, "agents", 2, b->n_agents,
                          sizeof(struct dqn_agent) / sizeof(uint64_t)));
    DQN_TRY(dqn_arena_add(b->arena, &b->counters, &b->device, DQN_U64, 0, "counters", 2,
                          b->n_agents, sizeof(struct dqn_counters) / sizeof(uint64_t)));
    const struct dqn_replay_options replay = {.config = &b->config.replay,
                                              .n_agents = b->n_agents,
                                              .obs = obs,
                                              .obs_ld = b->net.obs_ld,
                                              .batch = (size_t)b->config.learner.batch,
                                              .n_batches = (size_t)b->config.learner.accumulate,
                                              .agents = b->agents,
                                              .counters = b->counters};
    DQN_TRY(dqn_replay_create(&b->replay, b->arena, &b->device, &replay));
    const struct dqn_learner_options learner = {.n_agents = b->n_agents,
                                                .net = &b->net,
                                                .config = &b->config.learner,
                                                .agents = b->agents,
                                                .counters = b->counters,
                                                .replay = b->replay};
    return dqn_learner_create(&b->learner, b->arena, &b->device, &learner);
}

static enum dqn_status commit(struct bench *b) {
    uint64_t total_bytes = 0;
    DQN_TRY(b->device.backend->memory->info(&b->device, &b->free_begun, &total_bytes));
    return dqn_arena_commit(b->arena, NULL);
}

static enum dqn_status upload(struct bench *b, struct dqn_buffer *to, const void *from,
                              size_t bytes) {
    return b->device.backend->memory->copy(b->queue, to->data, from, bytes, DQN_COPY_TO_DEVICE);
}

/* Agents differ by their seeds. */
static enum dqn_status upload_agents(struct bench *b) {
    struct dqn_agent *agents = NULL;
    DQN_TRY(dqn_alloc((void **)&agents, b->n_agents, sizeof *agents, "agents"));
    for (size_t k = 0; k < b->n_agents; k++) {
        dqn_agent_from_config(&agents[k], &b->config);
        agents[k].seed += k;
    }
    enum dqn_status status = upload(b, b->agents, agents, b->agents->bytes);
    if (status == DQN_OK) {
        status = b->device.backend->queue->wait(b->queue);
    }
    free(agents);
    return status;
}

/* ---- a full replay of random rows
 * ----------------------------------------------------------------- */

static enum dqn_status register_rows(struct bench *b) {
    const size_t k = b->n_agents, n = CHUNK_ROWS, o = b->net.obs;
    const struct dqn_device *device = &b->device;
    DQN_TRY(dqn_arena_add(b->arena, &b->row_state, device, DQN_F32, 0, "row/state", 3, k, n, o));
    DQN_TRY(dqn_arena_add(b->arena, &b->row_next, device, DQN_F32, 0, "row/next", 3, k, n, o));
    DQN_TRY(dqn_arena_add(b->arena, &b->row_action, device, DQN_U32, 0, "row/action", 2, k, n));
    DQN_TRY(dqn_arena_add(b->arena, &b->row_reward, device, DQN_F32, 0, "row/reward", 2, k, n));
    DQN_TRY(dqn_arena_add(b->arena, &b->row_discount, device, DQN_F32, 0, "row/discount", 2, k, n));
    DQN_TRY(dqn_arena_add(b->arena, &b->row_done, device, DQN_U8, 0, "row/done", 2, k, n));
    DQN_TRY(dqn_arena_add(b->arena, &b->td, device, DQN_F32, 0, "bench/td", 2, k,
                          (size_t)b->config.learner.batch));
    return dqn_arena_add(b->arena, &b->ok, device, DQN_U32, 0, "bench/ok", 1, k);
}

struct host_rows {
    float state[CHUNK_ROWS * BENCH_OBS], next[CHUNK_ROWS * BENCH_OBS];
    uint32_t action[CHUNK_ROWS];
    float reward[CHUNK_ROWS], discount[CHUNK_ROWS];
    uint8_t done[CHUNK_ROWS];
};

static void random_rows(struct host_rows *rows, uint64_t chunk) {
    for (size_t i = 0; i < CHUNK_ROWS * BENCH_OBS; i++) {
        const struct dqn_u32x4 r = dqn_rng_block(1, chunk, i);
        rows->state[i] = (float)(2.0 * dqn_rng_unit(dqn_rng_u64(r, 0)) - 1.0);
        rows->next[i] = (float)(2.0 * dqn_rng_unit(dqn_rng_u64(r, 1)) - 1.0);
    }
    for (size_t i = 0; i < CHUNK_ROWS; i++) {
        const struct dqn_u32x4 r = dqn_rng_block(2, chunk, i);
        rows->action[i] = r.v[0] % BENCH_ACTIONS;
        rows->reward[i] = (float)r.v[1] / 4294967296.0f - 0.5f;
        rows->discount[i] = 0.99f;
        rows->done[i] = r.v[2] % 100 == 0;
    }
}

/* `bytes` for each agent, the same ones. */
static enum dqn_status upload_for_all(struct bench *b, struct dqn_buffer *to, const void *from,
                                      size_t bytes) {
    for (size_t k = 0; k < b->n_agents; k++) {
        DQN_TRY(b->device.backend->memory->copy(b->queue, (char *)to->data + k * bytes, from, bytes,
                                                DQN_COPY_TO_DEVICE));
    }
    return DQN_OK;
}

static enum dqn_status insert_chunk(struct bench *b, const struct host_rows *rows, size_t count) {
    const size_t observation = BENCH_OBS * sizeof(float);
    DQN_TRY(upload_for_all(b, b->row_state, rows->state, count * observation));
    DQN_TRY(upload_for_all(b, b->row_next, rows->next, count * observation));
    DQN_TRY(upload_for_all(b, b->row_action, rows->action, count * sizeof *rows->action));
    DQN_TRY(upload_for_all(b, b->row_reward, rows->reward, count * sizeof *rows->reward));
    DQN_TRY(upload_for_all(b, b->row_discount, rows->discount, count * sizeof *rows->discount));
    DQN_TRY(upload_for_all(b, b->row_done, rows->done, count * sizeof *rows->done));
    const struct dqn_replay_rows view = {.state = b->row_state->data,
                                         .next = b->row_next->data,
                                         .action = b->row_action->data,
                                         .reward = b->row_reward->data,
                                         .discount = b->row_discount->data,
                                         .done = b->row_done->data};
    DQN_TRY(dqn_replay_insert(b->replay, b->queue, &view, count));
    dqn_replay_note_inserted(b->replay, count);
    return b->device.backend->queue->wait(b->queue);
}

static enum dqn_status fill_replay(struct bench *b) {
    struct host_rows *rows = NULL;
    DQN_TRY(dqn_alloc((void **)&rows, 1, sizeof *rows, "random rows"));
    enum dqn_status status = DQN_OK;
    const size_t capacity = (size_t)b->config.replay.capacity;
    /* A few different chunks are enough: what matters is that rows are spread over the memory. */
    for (size_t done = 0; done < capacity && status == DQN_OK;) {
        const size_t left = capacity - done;
        const size_t count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
        if (done / CHUNK_ROWS < 8) {
            random_rows(rows, done / CHUNK_ROWS);
        }
        status = insert_chunk(b, rows, count);
        done += count;
    }
    free(rows);
    return status;
}

/* ---- the measurements
 * ---------------------------------------------------------------------------- */

static enum dqn_status run_updates(void *context, struct dqn_queue *q) {
    struct bench *b = context;
    for (int i = 0; i < STEPS_A_PROGRAM; i++) {
        DQN_TRY(dqn_learner_update(b->learner, q));
    }
    return DQN_OK;
}

static enum dqn_status run_per(void *context, struct dqn_queue *q) {
    struct bench *b = context;
    return dqn_bench_draw_and_update(b->replay, q, &b->config.learner, b->ok, STEPS_A_PROGRAM);
}

static enum dqn_status run_collect(void *context, struct dqn_queue *q) {
    struct bench *b = context;
    for (int i = 0; i < STEPS_A_PROGRAM; i++) {
        DQN_TRY(dqn_collector_step(b->collector, q, true));
    }
    return DQN_OK;
}

static enum dqn_status prepare_learning(struct bench *b, const struct dqn_config *config) {
    DQN_TRY(create_common(b, config, BENCH_OBS, BENCH_ACTIONS));
    DQN_TRY(register_rows(b));
    DQN_TRY(commit(b));
    DQN_TRY(upload_agents(b));
    DQN_TRY(dqn_replay_prepare(b->replay, b->queue));
    DQN_TRY(dqn_learner_init(b->learner, b->queue));
    const uint32_t ok = 1;
    DQN_TRY(upload_for_all(b, b->ok, &ok, sizeof ok));
    DQN_TRY(b->device.backend->queue->wait(b->queue));
    return fill_replay(b);
}

/* The prepared bench's program, timed. */
static enum dqn_status measure(struct bench *b, dqn_program_fn fn, double scale,
                               struct dqn_bench_result *out) {
    DQN_TRY(dqn_program_record(&b->program, fn, b));
    DQN_TRY(dqn_bench_time(b->program, b->queue, STEPS_A_PROGRAM, scale, out));
    out->per_us = out->per_share = NAN;
    out->device_bytes = dqn_arena_planned_bytes(b->arena, &b->device);
    snprintf(out->device, sizeof out->device, "%s", b->device.description);
    return dqn_bench_taken(&b->device, b->free_begun, &out->device_bytes_taken);
}

/* The bench object is large (it holds a configuration), so it lives on the heap. */
static enum dqn_status
with_bench(const struct dqn_config *config, size_t n_agents, struct dqn_bench_result *out,
           enum dqn_status (*prepare)(struct bench *, const struct dqn_config *), dqn_program_fn fn,
           bool count_lanes) {
    struct bench *b = NULL;
    DQN_TRY(dqn_alloc((void **)&b, 1, sizeof *b, "the benchmark"));
    *out = (struct dqn_bench_result){0};
    b->n_agents = n_agents;
    enum dqn_status status = prepare(b, config);
    if (status == DQN_OK) {
        const double lanes = count_lanes ? (double)config->env.lanes : 1.0;
        status = measure(b, fn, lanes * (double)n_agents, out);
    }
    destroy(b);
    free(b);
    return status;
}

/* Times the step again without priorities. */
static enum dqn_status find_per_share(const struct dqn_config *config, size_t n_agents,
                                      struct dqn_bench_result *step) {
    struct dqn_config *c = NULL;
    struct dqn_bench_result uniform;
    DQN_TRY(dqn_alloc((void **)&c, 1, sizeof *c, "a configuration"));
    *c = *config;
    c->replay.kind = DQN_REPLAY_UNIFORM;
    const enum dqn_status status =
        with_bench(c, n_agents, &uniform, prepare_learning, run_updates, false);
    free(c);
    DQN_TRY(status);
    step->per_us = fmax(0.0, step->us - uniform.us);
    step->per_share = step->per_us / step->us;
    return DQN_OK;
}

enum dqn_status dqn_bench_step(const struct dqn_config *config, size_t n_agents,
                               struct dqn_bench_result *out) {
    DQN_TRY(with_bench(config, n_agents, out, prepare_learning, run_updates, false));
    return config->replay.kind == DQN_REPLAY_UNIFORM ? DQN_OK
                                                     : find_per_share(config, n_agents, out);
}

enum dqn_status dqn_bench_per(const struct dqn_config *config, size_t n_agents,
                              struct dqn_bench_result *out) {
    return with_bench(config, n_agents, out, prepare_learning, run_per, false);
}

static enum dqn_status upload_env_params(struct bench *b, enum dqn_env_id env) {
    void *params = NULL;
    DQN_TRY(dqn_alloc(&params, 1, b->env_params->bytes, "environment parameters"));
    enum dqn_status status = DQN_OK;
    if (b->market != NULL) {
        status = dqn_trading_params(params, &b->config, b->market, &b->market_buffers,
                                    DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 0);
    } else {
        dqn_env_default_params(env, params);
    }
    if (status == DQN_OK) {
        status = upload(b, b->env_params, params, b->env_params->bytes);
    }
    if (status == DQN_OK) {
        status = b->device.backend->queue->wait(b->queue);
    }
    free(params);
    return status;
}

static enum dqn_status prepare_collecting(struct bench *b, const struct dqn_config *config) {
    const enum dqn_env_id env = (enum dqn_env_id)config->env.name;
    if (env == DQN_ENV_trading) {
        DQN_TRY(dqn_market_create(&b->market, config, NULL, NULL));
    }
    DQN_TRY(create_common(b, config, dqn_env_observations(env), dqn_env_actions(env)));
    DQN_TRY(dqn_arena_add(b->arena, &b->env_params, &b->device, DQN_U8, DQN_BUFFER_SHARED,
                          "env/params", 1, dqn_env_params_bytes(env)));
    if (b->market != NULL) {
        DQN_TRY(dqn_market_register(b->market, b->arena, &b->device, &b->market_buffers));
    }
    const struct dqn_collector_options options = {.env = env,
                                                  .n_agents = b->n_agents,
                                                  .lanes = (size_t)config->env.lanes,
                                                  .n_step = (size_t)config->collect.n_step,
                                                  .net = &b->net,
                                                  .agents = b->agents,
                                                  .counters = b->counters,
                                                  .params = dqn_learner_params(b->learner),
                                                  .env_params = b->env_params,
                                                  .replay = b->replay};
    DQN_TRY(dqn_collector_create(&b->collector, b->arena, &b->device, &options));
    DQN_TRY(commit(b));
    DQN_TRY(upload_agents(b));
    if (b->market != NULL) {
        DQN_TRY(dqn_market_upload(b->market, b->queue, &b->market_buffers));
    }
    DQN_TRY(upload_env_params(b, env));
    DQN_TRY(dqn_replay_prepare(b->replay, b->queue));
    DQN_TRY(dqn_learner_init(b->learner, b->queue));
    DQN_TRY(dqn_collector_reset(b->collector, b->queue));
    for (int64_t i = 1; i < config->collect.n_step; i++) { /* until rows leave the windows */
        DQN_TRY(dqn_collector_step(b->collector, b->queue, false));
    }
    return b->device.backend->queue->wait(b->queue);
}

enum dqn_status dqn_bench_collect(const struct dqn_config *config, size_t n_agents,
                                  struct dqn_bench_result *out) {
    return with_bench(config, n_agents, out, prepare_collecting, run_collect, true);
}
