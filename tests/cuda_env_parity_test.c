/* Environments and the n-step window on the GPU against the CPU: the same bytes in everything that
 * they write, step after step, for every line of env_list.h. */
#include "cuda_pair.h"
#include "market/trading_setup.h"

enum { AGENTS = 2, LANES = 65, STEPS = 4096, KEPT = 64 /* steps whose outputs are kept */ };

static const size_t windows[] = {1, 3, 5};
enum { WINDOWS = 3 };

/* One n-step window and the rows that leave it in the last KEPT steps. */
struct window {
    struct mirror obs, next, action, reward, end;
    struct mirror row_state, row_next, row_action, row_reward, row_discount, row_done;
};

struct bench {
    struct pair pair;
    enum dqn_env_id env;
    size_t obs, obs_ld, rows; /* rows = K * E */
    struct mirror agents, counters, states, lanes, obs_now;
    void *params[SIDES];
    /* [KEPT, ...] */
    struct mirror action, obs_before, obs_next, reward, terminated, truncated;
    struct window window[WINDOWS];
    /* trading */
    struct dqn_config *config;
    struct dqn_market *market;
    struct dqn_arena *arena[SIDES];
    struct dqn_market_buffers tables[SIDES];
};

/* ---- making it ---- */

static void open_market(struct bench *b) {
    b->config = calloc(1, sizeof *b->config);
    dqn_config_defaults(b->config);
    b->config->synthetic.bars = 6000;
    b->config->env.episode_bars = (int64_t)reduced(256, 20);
    OK(dqn_market_create(&b->market, b->config, NULL, NULL));
    for (int s = 0; s < SIDES; s++) {
        const struct dqn_buffer *failed = NULL;
        struct side *side = &b->pair.side[s];
        OK(dqn_arena_create(&b->arena[s]));
        OK(dqn_market_register(b->market, b->arena[s], &side->device, &b->tables[s]));
        OK(dqn_arena_commit(b->arena[s], &failed));
        OK(dqn_market_upload(b->market, side->q, &b->tables[s]));
        OK(side->backend->queue->wait(side->q));
    }
}

static void set_params(struct bench *b, enum dqn_trading_mode mode) {
    const size_t bytes = dqn_env_params_bytes(b->env);
    void *params = calloc(1, bytes);
    for (int s = 0; s < SIDES; s++) {
        struct side *side = &b->pair.side[s];
        if (b->env == DQN_ENV_trading) {
            const enum dqn_split split =
                mode == DQN_TRADING_TRAIN ? DQN_SPLIT_TRAIN : DQN_SPLIT_VALIDATION;
            OK(dqn_trading_params(params, b->config, b->market, &b->tables[s], mode, split, LANES));
        } else {
            dqn_env_default_params(b->env, params);
        }
        OK(side->backend->memory->copy(side->q, b->params[s], params, bytes, DQN_COPY_TO_DEVICE));
        OK(side->backend->queue->wait(side->q));
    }
    free(params);
}

static void open_windows(struct bench *b) {
    struct pair *pair = &b->pair;
    for (size_t w = 0; w < WINDOWS; w++) {
        struct window *window = &b->window[w];
        const size_t slots = windows[w] * b->rows, kept = KEPT * b->rows, o = b->obs;
        window->obs = mirror_make(pair, slots * o * sizeof(float), NULL);
        window->next = mirror_make(pair, slots * o * sizeof(float), NULL);
        window->action = mirror_make(pair, slots * sizeof(uint32_t), NULL);
        window->reward = mirror_make(pair, slots * sizeof(float), NULL);
        window->end = mirror_make(pair, slots, NULL);
        window->row_state = mirror_make(pair, kept * o * sizeof(float), NULL);
        window->row_next = mirror_make(pair, kept * o * sizeof(float), NULL);
        window->row_action = mirror_make(pair, kept * sizeof(uint32_t), NULL);
        window->row_reward = mirror_make(pair, kept * sizeof(float), NULL);
        window->row_discount = mirror_make(pair, kept * sizeof(float), NULL);
        window->row_done = mirror_make(pair, kept, NULL);
    }
}

static void bench_open(struct bench *b, enum dqn_env_id env) {
    struct dqn_agent agents[AGENTS] = {{.seed = 11, .gamma = 0.99}, {.seed = 12, .gamma = 0.9}};
    memset(b, 0, sizeof *b);
    pair_open(&b->pair, DQN_PRECISION_FP32);
    struct pair *pair = &b->pair;
    b->env = env;
    b->obs = dqn_env_observations(env);
    b->obs_ld = (b->obs + 15) / 16 * 16;
    b->rows = AGENTS * LANES;
    const size_t kept = KEPT * b->rows, floats = b->obs_ld * sizeof(float);
    const size_t state_bytes = b->rows * dqn_env_state_bytes(env);
    const size_t lane_bytes = b->rows * sizeof(struct dqn_lane);
    void *zeros = calloc(1, state_bytes + lane_bytes + AGENTS * sizeof(struct dqn_counters));
    b->agents = mirror_make(pair, sizeof agents, agents);
    b->counters = mirror_make(pair, AGENTS * sizeof(struct dqn_counters), zeros);
    b->states = mirror_make(pair, state_bytes, zeros);
    b->lanes = mirror_make(pair, lane_bytes, zeros);
    free(zeros);
    b->obs_now = mirror_make(pair, b->rows * floats, NULL);
    b->action = mirror_make(pair, kept * sizeof(uint32_t), NULL);
    b->obs_before = mirror_make(pair, kept * floats, NULL);
    b->obs_next = mirror_make(pair, kept * floats, NULL);
    b->reward = mirror_make(pair, kept * sizeof(float), NULL);
    b->terminated = mirror_make(pair, kept, NULL);
    b->truncated = mirror_make(pair, kept, NULL);
    open_windows(b);
    for (int s = 0; s < SIDES; s++) {
        OK(pair->side[s].backend->memory->alloc(&pair->side[s].device, &b->params[s],
                                                dqn_env_params_bytes(env), false));
    }
    if (env == DQN_ENV_trading) {
        open_market(b);
    }
    set_params(b, DQN_TRADING_TRAIN);
}

static void bench_close(struct bench *b) {
    struct mirror *const all[] = {&b->agents,  &b->counters,   &b->states,     &b->lanes,
                                  &b->obs_now, &b->action,     &b->obs_before, &b->obs_next,
                                  &b->reward,  &b->terminated, &b->truncated};
    for (size_t i = 0; i < DQN_COUNT_OF(all); i++) {
        mirror_free(&b->pair, all[i]);
    }
    for (size_t w = 0; w < WINDOWS; w++) {
        struct mirror *parts = (struct mirror *)&b->window[w];
        for (size_t i = 0; i < sizeof b->window[w] / sizeof *parts; i++) {
            mirror_free(&b->pair, &parts[i]);
        }
    }
    for (int s = 0; s < SIDES; s++) {
        const struct side *side = &b->pair.side[s];
        side->backend->memory->free(&side->device, b->params[s], false);
        dqn_arena_destroy(b->arena[s]);
    }
    dqn_market_destroy(b->market);
    free(b->config);
    pair_close(&b->pair);
}

/* ---- operations ---- */

/* What side s of a [KEPT, K, E, ...] array holds for a step; `bytes` an element [K, E]. */
static void *kept_at(const struct bench *b, const struct mirror *m, int s, size_t step,
                     size_t bytes) {
    return (char *)m->at[s] + step % KEPT * b->rows * bytes;
}

/* Reduced: so short that every environment ends episodes in KEPT steps. */
static uint64_t step_limit(enum dqn_env_id env) {
    const uint64_t limit = dqn_env_step_limit(env);
    return limit > 0 ? reduced(limit, 20) : 0;
}

static struct dqn_env_args env_args(const struct bench *b, int s, size_t step, bool freeze) {
    const size_t floats = b->obs_ld * sizeof(float);
    return (struct dqn_env_args){.env = b->env,
                                 .n_agents = AGENTS,
                                 .lanes = LANES,
                                 .obs = b->obs,
                                 .obs_ld = b->obs_ld,
                                 .agents = b->agents.at[s],
                                 .purpose = freeze ? DQN_RNG_EVAL_ENV : DQN_RNG_ENV,
                                 .step_limit = step_limit(b->env),
                                 .freeze = freeze,
                                 .params = b->params[s],
                                 .states = b->states.at[s],
                                 .lanes_state = b->lanes.at[s],
                                 .counters = b->counters.at[s],
                                 .obs_now = b->obs_now.at[s],
                                 .obs_before = kept_at(b, &b->obs_before, s, step, floats),
                                 .action = kept_at(b, &b->action, s, step, sizeof(uint32_t)),
                                 .obs_next = kept_at(b, &b->obs_next, s, step, floats),
                                 .reward = kept_at(b, &b->reward, s, step, sizeof(float)),
                                 .terminated = kept_at(b, &b->terminated, s, step, 1),
                                 .truncated = kept_at(b, &b->truncated, s, step, 1)};
}

static void run_windows(const struct bench *b, int s, size_t step) {
    const struct side *side = &b->pair.side[s];
    const size_t floats = b->obs_ld * sizeof(float), row = b->obs * sizeof(float);
    for (size_t w = 0; w < WINDOWS; w++) {
        const struct window *window = &b->window[w];
        const struct dqn_nstep_args args = {
            .n_agents = AGENTS,
            .lanes = LANES,
            .obs = b->obs,
            .obs_ld = b->obs_ld,
            .n_step = windows[w],
            .agents = b->agents.at[s],
            .counters = b->counters.at[s],
            .obs_before = kept_at(b, &b->obs_before, s, step, floats),
            .obs_next = kept_at(b, &b->obs_next, s, step, floats),
            .action = kept_at(b, &b->action, s, step, sizeof(uint32_t)),
            .reward = kept_at(b, &b->reward, s, step, sizeof(float)),
            .terminated = kept_at(b, &b->terminated, s, step, 1),
            .truncated = kept_at(b, &b->truncated, s, step, 1),
            .window_obs = window->obs.at[s],
            .window_next = window->next.at[s],
            .window_action = window->action.at[s],
            .window_reward = window->reward.at[s],
            .window_end = window->end.at[s],
            .row_state = kept_at(b, &window->row_state, s, step, row),
            .row_next = kept_at(b, &window->row_next, s, step, row),
            .row_action = kept_at(b, &window->row_action, s, step, sizeof(uint32_t)),
            .row_reward = kept_at(b, &window->row_reward, s, step, sizeof(float)),
            .row_discount = kept_at(b, &window->row_discount, s, step, sizeof(float)),
            .row_done = kept_at(b, &window->row_done, s, step, 1)};
        OK(side->backend->env->nstep(side->q, &args));
    }
}

static void run_step(const struct bench *b, int s, size_t step, bool freeze) {
    const struct side *side = &b->pair.side[s];
    const struct dqn_env_args args = env_args(b, s, step, freeze);
    OK(side->backend->env->step(side->q, &args));
    run_windows(b, s, step);
}

static void run_reset(const struct bench *b, bool freeze) {
    for (int s = 0; s < SIDES; s++) {
        const struct side *side = &b->pair.side[s];
        const struct dqn_env_args args = env_args(b, s, 0, freeze);
        OK(side->backend->env->reset(side->q, &args));
    }
}

static void run_clear(const struct bench *b) {
    for (int s = 0; s < SIDES; s++) {
        const struct side *side = &b->pair.side[s];
        OK(side->backend->env->clear_sums(side->q, b->lanes.at[s], b->rows));
    }
}

/* ---- comparing ---- */

static void agree(struct bench *b, const struct mirror *m, const char *array, size_t step) {
    char what[96];
    snprintf(what, sizeof what, "%s: %s before step %zu", dqn_env_name(b->env), array, step);
    mirror_equal(&b->pair, m, what);
}

static void all_agree(struct bench *b, size_t step) {
    agree(b, &b->states, "states", step);
    agree(b, &b->lanes, "lanes", step);
    agree(b, &b->counters, "counters", step);
    agree(b, &b->obs_now, "obs_now", step);
    agree(b, &b->obs_before, "obs_before", step);
    agree(b, &b->obs_next, "obs_next", step);
    agree(b, &b->reward, "reward", step);
    agree(b, &b->terminated, "terminated", step);
    agree(b, &b->truncated, "truncated", step);
    for (size_t w = 0; w < WINDOWS; w++) {
        const struct window *window = &b->window[w];
        agree(b, &window->row_state, "row_state", step);
        agree(b, &window->row_next, "row_next", step);
        agree(b, &window->row_action, "row_action", step);
        agree(b, &window->row_reward, "row_reward", step);
        agree(b, &window->row_discount, "row_discount", step);
        agree(b, &window->row_done, "row_done", step);
    }
}

/* Random actions for the next KEPT steps. Each is held for as many steps as there are actions, so
 * that positions are held and carts get somewhere. */
static void set_actions(struct bench *b, size_t first_step) {
    const size_t n_actions = dqn_env_actions(b->env), n = KEPT * b->rows;
    uint32_t *action = malloc(n * sizeof *action);
    for (size_t i = 0; i < n; i++) {
        const uint64_t step = first_step + i / b->rows, row = i % b->rows;
        const uint64_t held = row % 2 == 0 ? step : step / n_actions;
        const uint64_t word = dqn_rng_u64(dqn_rng_block(24680, row, held), 0);
        action[i] = (uint32_t)dqn_rng_below(word, n_actions);
    }
    mirror_set(&b->pair, &b->action, CPU, action);
    mirror_set(&b->pair, &b->action, GPU, action);
    free(action);
}

static void walk(struct bench *b, size_t n_steps, bool freeze) {
    for (size_t first = 0; first < n_steps; first += KEPT) {
        set_actions(b, first);
        for (int s = 0; s < SIDES; s++) {
            for (size_t step = first; step < first + KEPT; step++) {
                run_step(b, s, step, freeze);
            }
        }
        all_agree(b, first + KEPT);
    }
}

/* Something must have happened: episodes that ended in all but few lanes. */
static void check_episodes(struct bench *b, const char *what) {
    struct dqn_lane *lanes = mirror_get(&b->pair, &b->lanes, GPU);
    uint64_t episodes = 0, frozen = 0;
    for (size_t i = 0; i < b->rows; i++) {
        episodes += lanes[i].sum_episodes;
        frozen += lanes[i].frozen;
    }
    free(lanes);
    cr_log_info("%s, %s: %llu episodes, %llu lanes frozen", dqn_env_name(b->env), what,
                (unsigned long long)episodes, (unsigned long long)frozen);
    cr_assert(episodes >= b->rows, "%s, %s: %llu episodes", dqn_env_name(b->env), what,
              (unsigned long long)episodes);
}

static void parity_case(enum dqn_env_id env) {
    static struct bench bench;
    struct bench *b = &bench;
    bench_open(b, env);
    run_clear(b);
    run_reset(b, false);
    agree(b, &b->states, "states", 0);
    agree(b, &b->lanes, "lanes", 0);
    agree(b, &b->obs_now, "obs_now", 0);
    walk(b, reduced(STEPS, KEPT), false);
    check_episodes(b, "training");
    run_clear(b);
    set_params(b, DQN_TRADING_EVAL);
    run_reset(b, true);
    walk(b, reduced(512, KEPT),
         true); /* every time limit is at most 500, parts of the market are shorter */
    check_episodes(b, "evaluation");
    run_clear(b);
    agree(b, &b->lanes, "lanes, cleared", 512);
    bench_close(b);
}

#define PARITY_TEST(name, observations, actions, limit)                                            \
    Test(cuda_env_parity, name) {                                                                  \
        parity_case(DQN_ENV_##name);                                                               \
    }
DQN_ENV_LIST(PARITY_TEST)
