/* Creation of a trainer: device, market, buffers, parts, first contents. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer_parts.h"

/* ---- parts ---------------------------------------------------------------------------------- */

static enum dqn_status create_market(struct dqn_trainer *t, const char *resume) {
    if (t->env != DQN_ENV_trading) {
        return DQN_OK;
    }
    if (resume == NULL) {
        return dqn_market_create(&t->market, &t->config, NULL, NULL);
    }
    double mean[DQN_MARKET_FEATURES], std[DQN_MARKET_FEATURES];
    DQN_TRY(dqn_saver_read_statistics(resume, mean, std));
    return dqn_market_create(&t->market, &t->config, mean, std);
}

static enum dqn_status register_common(struct dqn_trainer *t) {
    struct dqn_arena *arena = t->arena;
    const struct dqn_device *device = &t->device;
    const size_t k = t->n_agents, params_bytes = dqn_env_params_bytes(t->env);
    DQN_TRY(dqn_arena_add(arena, &t->agents_buffer, device, DQN_U64, 0, "agents", 2, k,
                          sizeof(struct dqn_agent) / sizeof(uint64_t)));
    DQN_TRY(dqn_arena_add(arena, &t->counters_buffer, device, DQN_U64, DQN_BUFFER_SAVED, "counters",
                          2, k, sizeof(struct dqn_counters) / sizeof(uint64_t)));
    DQN_TRY(dqn_arena_add(arena, &t->env_params, device, DQN_U8, DQN_BUFFER_SHARED, "env/params", 1,
                          params_bytes));
    DQN_TRY(dqn_arena_add(arena, &t->eval_env_params, device, DQN_U8, DQN_BUFFER_SHARED,
                          "eval/params", 1, params_bytes));
    DQN_TRY(dqn_arena_add(arena, &t->best_params, device, DQN_F32, DQN_BUFFER_SAVED, "best/params",
                          2, k, t->net.n_params));
    if (t->market != NULL) {
        DQN_TRY(dqn_market_register(t->market, arena, device, &t->market_buffers));
    }
    return DQN_OK;
}

static enum dqn_status create_replay_and_learner(struct dqn_trainer *t) {
    const struct dqn_replay_options replay = {.config = &t->config.replay,
                                              .n_agents = t->n_agents,
                                              .obs = t->net.obs,
                                              .obs_ld = t->net.obs_ld,
                                              .batch = (size_t)t->config.learner.batch,
                                              .n_batches = (size_t)t->config.learner.accumulate,
                                              .agents = t->agents_buffer,
                                              .counters = t->counters_buffer,
                                              .learner = &t->device,
                                              .rows = (size_t)t->config.env.lanes,
                                              .refuge = t->host_open ? &t->host_device : NULL};
    const struct dqn_device *home = t->place.apart ? &t->host_device : &t->device;
    DQN_TRY(dqn_replay_create(&t->replay, t->arena, home, &replay));
    const struct dqn_learner_options learner = {.n_agents = t->n_agents,
                                                .net = &t->net,
                                                .config = &t->config.learner,
                                                .agents = t->agents_buffer,
                                                .counters = t->counters_buffer,
                                                .replay = t->replay};
    return dqn_learner_create(&t->learner, t->arena, &t->device, &learner);
}

/* No evaluation episode is longer. */
static uint64_t evaluation_steps(const struct dqn_trainer *t) {
    if (t->eval_steps > 0) {
        return t->eval_steps;
    }
    if (t->market != NULL) {
        return dqn_market_part_steps(t->market, DQN_SPLIT_VALIDATION,
                                     (size_t)t->config.eval.episodes);
    }
    return dqn_evaluator_limit(t->env);
}

static enum dqn_status create_collector_and_evaluator(struct dqn_trainer *t) {
    const struct dqn_collector_options collector = {.env = t->env,
                                                    .n_agents = t->n_agents,
                                                    .lanes = (size_t)t->config.env.lanes,
                                                    .n_step = (size_t)t->config.collect.n_step,
                                                    .net = &t->net,
                                                    .agents = t->agents_buffer,
                                                    .counters = t->counters_buffer,
                                                    .params = dqn_learner_params(t->learner),
                                                    .env_params = t->env_params,
                                                    .replay = t->replay};
    DQN_TRY(dqn_collector_create(&t->collector, t->arena, &t->device, &collector));
    const struct dqn_evaluator_options evaluator = {.env = t->env,
                                                    .n_agents = t->n_agents,
                                                    .episodes = (size_t)t->config.eval.episodes,
                                                    .max_steps = evaluation_steps(t),
                                                    .epsilon = t->config.eval.epsilon,
                                                    .net = &t->net,
                                                    .agents = t->agents_buffer,
                                                    .env_params = t->eval_env_params,
                                                    .stop = t->stop};
    DQN_TRY(dqn_evaluator_create(&t->evaluator, t->arena, &t->device, "eval", &evaluator));
    struct dqn_buffer *const sources[DQN_READ_COUNT] = {
        [DQN_READ_COUNTERS] = t->counters_buffer,
        [DQN_READ_STATS] = dqn_learner_stats(t->learner),
        [DQN_READ_LANES] = dqn_collector_lanes(t->collector),
        [DQN_READ_HISTOGRAM] = dqn_collector_histogram(t->collector)};
    return dqn_readback_create(&t->readback, t->arena, &t->device, DQN_READ_COUNT, sources);
}

/* ---- first contents ---------------------------------------------------------------------------
 */

static enum dqn_status upload(struct dqn_trainer *t, struct dqn_buffer *to, const void *from) {
    return t->device.backend->memory->copy(t->queue, to->data, from, to->bytes, DQN_COPY_TO_DEVICE);
}

static enum dqn_status upload_env_params(struct dqn_trainer *t) {
    void *params = NULL;
    DQN_TRY(dqn_alloc(&params, 2, dqn_env_params_bytes(t->env), "environment parameters"));
    void *eval_params = (char *)params + dqn_env_params_bytes(t->env);
    enum dqn_status status = DQN_OK;
    if (t->market != NULL) {
        DQN_TRY_GOTO(dqn_trading_params(params, &t->config, t->market, &t->market_buffers,
                                        DQN_TRADING_TRAIN, DQN_SPLIT_TRAIN, 0));
        DQN_TRY_GOTO(dqn_trading_params(eval_params, &t->config, t->market, &t->market_buffers,
                                        DQN_TRADING_EVAL, DQN_SPLIT_VALIDATION,
                                        (size_t)t->config.eval.episodes));
    } else {
        dqn_env_default_params(t->env, params);
        dqn_env_default_params(t->env, eval_params);
    }
    DQN_TRY_GOTO(upload(t, t->env_params, params));
    DQN_TRY_GOTO(upload(t, t->eval_env_params, eval_params));
    DQN_TRY_GOTO(t->device.backend->queue->wait(t->queue));
done:
    free(params);
    return status;
}

static enum dqn_status fill_buffers(struct dqn_trainer *t) {
    DQN_TRY(upload(t, t->agents_buffer, t->agents));
    if (t->market != NULL) {
        DQN_TRY(dqn_market_upload(t->market, t->queue, &t->market_buffers));
    }
    DQN_TRY(upload_env_params(t));
    return dqn_replay_prepare(t->replay, t->queue);
}

static enum dqn_status start(struct dqn_trainer *t, const struct dqn_trainer_options *options) {
    DQN_TRY(fill_buffers(t));
    if (options->resume != NULL) {
        DQN_TRY(dqn_saver_restore(t, options->resume));
    } else {
        DQN_TRY(dqn_learner_init(t->learner, t->queue));
        if (options->init_from != NULL) {
            DQN_TRY(dqn_saver_init_from(t, options->init_from));
        }
        DQN_TRY(dqn_collector_reset(t->collector, t->queue));
    }
    return t->device.backend->queue->wait(t->queue);
}

/* ---- what a person is told ---------------------------------------------------------------------
 */

static void say_plan(const struct dqn_trainer *t) {
    char net[160], a[32], b[32];
    dqn_info("environment: %s, %lld lane%s", dqn_env_name(t->env), (long long)t->config.env.lanes,
             dqn_plural((uint64_t)t->config.env.lanes));
    dqn_info("network: %s", dqn_net_describe(&t->net, net, sizeof net));
    dqn_trainer_say_devices(t);
    const uint64_t steps = (uint64_t)t->config.train.env_steps;
    const uint64_t updates = dqn_updates_due(&t->config.train, steps);
    dqn_info("schedule: %s env step%s, %s update%s of batch %lld (replay ratio %g)",
             dqn_format_count(a, sizeof a, steps), dqn_plural(steps),
             dqn_format_count(b, sizeof b, updates), dqn_plural(updates),
             (long long)t->config.learner.batch, t->config.train.replay_ratio);
}

/* ---- create and destroy ------------------------------------------------------------------------
 */

static enum dqn_status take_options(struct dqn_trainer *t,
                                    const struct dqn_trainer_options *options) {
    t->config = *options->config;
    dqn_agent_resolve_schedules(&t->config);
    t->n_agents = options->n_agents > 0 ? options->n_agents : 1;
    t->quiet = options->quiet;
    t->stop = options->stop;
    t->stop_at_steps = options->stop_at_steps;
    t->eval_steps = options->eval_steps;
    t->on_epoch = options->on_epoch;
    t->context = options->context;
    t->env = (enum dqn_env_id)t->config.env.name;
    if (options->folder != NULL) {
        snprintf(t->folder, sizeof t->folder, "%s", options->folder);
    }
    const size_t k = t->n_agents;
    DQN_TRY(dqn_alloc((void **)&t->agents, k, sizeof *t->agents, "agents"));
    DQN_TRY(dqn_alloc((void **)&t->best_score, k, sizeof(double), "best scores"));
    DQN_TRY(dqn_alloc((void **)&t->dead_units, k, sizeof(double), "dead units"));
    DQN_TRY(dqn_alloc((void **)&t->best_epoch, k, sizeof(double), "best epochs"));
    DQN_TRY(dqn_alloc((void **)&t->evaluation, k, sizeof *t->evaluation, "evaluations"));
    for (size_t i = 0; i < k; i++) {
        dqn_agent_from_config(&t->agents[i], &t->config);
        if (options->agents != NULL) {
            t->agents[i] = options->agents[i];
        }
        t->best_score[i] = -INFINITY;
    }
    return dqn_net_init(&t->net, dqn_env_observations(t->env), dqn_env_actions(t->env),
                        &t->config.net);
}

static enum dqn_status create_parts(struct dqn_trainer *t,
                                    const struct dqn_trainer_options *options) {
    DQN_TRY(create_market(t, options->resume));
    DQN_TRY(dqn_trainer_open_devices(t, options->late_queue));
    DQN_TRY(t->device.backend->queue->create(&t->device, &t->queue));
    DQN_TRY(dqn_arena_create(&t->arena));
    DQN_TRY(register_common(t));
    DQN_TRY(create_replay_and_learner(t));
    DQN_TRY(create_collector_and_evaluator(t));
    DQN_TRY(dqn_metrics_create(&t->metrics));
    DQN_TRY(dqn_trainer_allocate(t));
    if (!t->quiet) {
        say_plan(t);
    }
    DQN_TRY(start(t, options));
    if (t->folder[0] != '\0') {
        DQN_TRY(dqn_saver_create(t));
        DQN_TRY(dqn_metrics_open(t->metrics, t->folder));
    }
    if (t->folder[0] != '\0' && !t->quiet) { /* not before: it goes again where a start fails */
        dqn_info("run folder: %s", t->folder);
    }
    return DQN_OK;
}

/* One attempt at *place, which comes back with what failed. */
static enum dqn_status create_at(struct dqn_trainer **out,
                                 const struct dqn_trainer_options *options,
                                 struct dqn_placement *place, bool *again) {
    struct dqn_trainer *t = NULL;
    DQN_TRY(dqn_alloc((void **)&t, 1, sizeof *t, "the trainer"));
    t->place = *place;
    enum dqn_status status = take_options(t, options);
    if (status == DQN_OK) {
        status = create_parts(t, options);
    }
    if (status != DQN_OK) {
        *place = t->place;
        *again = dqn_placement_retreat(place, options->config, status);
        dqn_trainer_destroy(t);
        return status;
    }
    *out = t;
    return DQN_OK;
}

enum dqn_status dqn_trainer_create(struct dqn_trainer **out,
                                   const struct dqn_trainer_options *options) {
    struct dqn_placement place;
    enum dqn_status status = DQN_OK;
    bool again = false;
    dqn_placement_first(&place, options);
    do {
        again = false;
        status = create_at(out, options, &place, &again);
    } while (again);
    return status;
}

static void destroy_parts(struct dqn_trainer *t) {
    dqn_saver_destroy(t->saver);
    dqn_trainer_free_programs(t);
    dqn_metrics_destroy(t->metrics);
    dqn_readback_destroy(t->readback);
    dqn_evaluator_destroy(t->evaluator);
    dqn_collector_destroy(t->collector);
    dqn_learner_destroy(t->learner);
    dqn_replay_destroy(t->replay);
    if (t->queue != NULL) {
        t->device.backend->queue->destroy(t->queue);
    }
    dqn_arena_destroy(t->arena);
    dqn_trainer_close_devices(t);
    dqn_market_destroy(t->market);
}

void dqn_trainer_destroy(struct dqn_trainer *t) {
    if (t == NULL) {
        return;
    }
    destroy_parts(t);
    free(t->agents);
    free(t->best_score);
    free(t->best_epoch);
    free(t->dead_units);
    free(t->evaluation);
    free(t);
}
