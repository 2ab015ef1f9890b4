/* TD errors with the loss, and epsilon-greedy actions. */
#include <math.h>
#include <string.h>

#include "../shared/rng.h"
#include "../shared/schedule.h"
#include "../shared/td.h"
#include "nn_cpu.h"

/* dqn_td_argmax for rows of many values: the largest in lanes side by side, then its first place.
 */
static size_t greedy(const float *q, size_t n) {
    enum { LANES = 16 };
    float lane[LANES];
    for (size_t j = 0; j < LANES; j++) {
        lane[j] = -INFINITY;
    }
    const size_t whole = n / LANES * LANES;
    for (size_t a = 0; a < whole; a += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lane[j] = q[a + j] > lane[j] ? q[a + j] : lane[j];
        }
    }
    for (size_t j = 0; j < n - whole; j++) {
        lane[j] = q[whole + j] > lane[j] ? q[whole + j] : lane[j];
    }
    for (size_t width = LANES / 2; width > 0; width /= 2) {
        for (size_t j = 0; j < width; j++) {
            lane[j] = lane[j + width] > lane[j] ? lane[j + width] : lane[j];
        }
    }
    if (lane[0] == -INFINITY) { /* nothing above it: -infinities and NaN */
        return dqn_td_argmax(q, n);
    }
    size_t a = 0;
    while (q[a] != lane[0]) {
        a++;
    }
    return a;
}

/* ---- td ---- */

/* Q_target(s', a*) of one row. */
static float next_value(const struct dqn_td_args *args, size_t row) {
    const float *target = args->q_next_target + row * args->actions_ld;
    const float *chooser =
        args->q_next_online == NULL ? target : args->q_next_online + row * args->actions_ld;
    return target[greedy(chooser, args->actions)];
}

/* One row: td and dq out, its part of the sums into `sums`. */
static void td_row(const struct dqn_td_args *args, double delta, size_t row,
                   struct dqn_step_stats *sums) {
    const float *q = args->q + row * args->actions_ld;
    float *dq = args->dq + row * args->actions_ld;
    const size_t action = args->action[row];
    DQN_CHECK(action < args->actions);
    const float value = q[action];
    const float y = dqn_td_target(args->reward[row], args->discount[row], args->done[row],
                                  args->done[row] ? 0.0f : next_value(args, row));
    const float td = y - value;
    const float weight = args->weight[row];
    args->td[row] = td;
    memset(dq, 0, args->actions_ld * sizeof *dq);
    dq[action] = -args->grad_scale * weight * dqn_td_slope(td, delta);
    sums->loss += (double)weight * dqn_td_loss(td, delta);
    sums->q_mean += (double)value;
    sums->q_max += (double)q[greedy(q, args->actions)];
    sums->td_abs += fabs((double)td);
    sums->td_abs_max = fmax(sums->td_abs_max, fabs((double)td));
    sums->weight_min = fmin(sums->weight_min, (double)weight);
}

enum { TD_ROWS = 64, TD_SHARDS = 64, TD_TASKS = 256 }; /* rows a shard, shards an agent, tasks */

/* Shards of as many agents as fit. */
struct td_context {
    const struct dqn_td_args *args;
    struct dqn_cpu_split shards;
    size_t first_agent;
    struct dqn_step_stats *sums; /* [n of the group, shards] */
};

static void td_task(void *context, size_t i) {
    struct td_context *c = context;
    const struct dqn_td_args *args = c->args;
    const size_t k = c->first_agent + i / c->shards.parts;
    const size_t first = i % c->shards.parts * c->shards.size;
    const size_t end = dqn_cpu_min(first + c->shards.size, args->batch);
    struct dqn_step_stats sums = {.weight_min = INFINITY};
    for (size_t b = first; b < end; b++) {
        td_row(args, args->agents[k].huber_delta, k * args->batch + b, &sums);
    }
    c->sums[i] = sums;
}

static struct dqn_step_stats join_sums(const struct dqn_step_stats *part, size_t n) {
    struct dqn_step_stats sums = part[0];
    for (size_t i = 1; i < n; i++) {
        sums.loss += part[i].loss;
        sums.q_mean += part[i].q_mean;
        sums.q_max += part[i].q_max;
        sums.td_abs += part[i].td_abs;
        sums.td_abs_max = fmax(sums.td_abs_max, part[i].td_abs_max);
        sums.weight_min = fmin(sums.weight_min, part[i].weight_min);
    }
    return sums;
}

static void report_batch(const struct dqn_td_args *args, size_t k, struct dqn_step_stats sums) {
    const double n = (double)args->batch;
    struct dqn_step_stats *out = &args->batch_stats[k];
    if (!args->accumulate) {
        *out = (struct dqn_step_stats){0};
    }
    out->rows += n;
    out->loss += sums.loss / n;
    out->q_mean += sums.q_mean / n;
    out->q_max += sums.q_max / n;
    out->td_abs += sums.td_abs / n;
    out->weight_min += sums.weight_min;
    out->beta += dqn_schedule_beta(&args->agents[k], args->counters[k].updates);
    out->td_abs_max = fmax(out->td_abs_max, sums.td_abs_max);
}

static enum dqn_status run_td(struct dqn_cpu_pool *pool, const void *arguments) {
    const struct dqn_td_args *args = arguments;
    struct dqn_step_stats sums[TD_TASKS];
    struct td_context c = {
        .args = args, .shards = dqn_cpu_split(args->batch, TD_SHARDS, TD_ROWS), .sums = sums};
    const size_t parts = c.shards.parts, group = TD_TASKS / parts;
    for (; c.first_agent < args->n_agents; c.first_agent += group) {
        const size_t n = dqn_cpu_min(group, args->n_agents - c.first_agent);
        dqn_cpu_for(pool, n * parts, td_task, &c);
        for (size_t k = 0; k < n; k++) {
            report_batch(args, c.first_agent + k, join_sums(sums + k * parts, parts));
        }
    }
    return DQN_OK;
}

enum dqn_status dqn_cpu_td(struct dqn_queue *q, const struct dqn_td_args *args) {
    return dqn_cpu_submit(q, run_td, args, sizeof *args);
}

/* ---- act ---- */

enum { ACT_LANES = 512 }; /* lanes a task */

struct act_context {
    const struct dqn_act_args *args;
    struct dqn_cpu_split shards;
};

static uint32_t act_lane(const struct dqn_act_args *args, size_t k, size_t lane, double epsilon) {
    const uint64_t stream = dqn_rng_stream((enum dqn_purpose)args->purpose, lane);
    const struct dqn_u32x4 block =
        dqn_rng_block(args->agents[k].seed, stream, args->counters[k].vector_steps);
    if (dqn_rng_unit(dqn_rng_u64(block, 0)) < epsilon) {
        return (uint32_t)dqn_rng_below(dqn_rng_u64(block, 1), args->actions);
    }
    const float *q = args->q + (k * args->lanes + lane) * args->actions_ld;
    return (uint32_t)greedy(q, args->actions);
}

static void act_task(void *context, size_t i) {
    const struct act_context *c = context;
    const struct dqn_act_args *args = c->args;
    const size_t k = i / c->shards.parts;
    const size_t first = i % c->shards.parts * c->shards.size;
    const size_t end = dqn_cpu_min(first + c->shards.size, args->lanes);
    const double epsilon =
        args->fixed_epsilon >= 0.0
            ? args->fixed_epsilon
            : dqn_schedule_epsilon(&args->agents[k], args->counters[k].env_steps);
    for (size_t lane = first; lane < end; lane++) {
        args->action[k * args->lanes + lane] = act_lane(args, k, lane, epsilon);
    }
}

static void count_actions(const struct dqn_act_args *args) {
    for (size_t k = 0; k < args->n_agents; k++) {
        for (size_t lane = 0; lane < args->lanes; lane++) {
            args->histogram[k * args->actions + args->action[k * args->lanes + lane]]++;
        }
    }
}

static enum dqn_status run_act(struct dqn_cpu_pool *pool, const void *arguments) {
    const struct dqn_act_args *args = arguments;
    struct act_context context = {args, dqn_cpu_split(args->lanes, SIZE_MAX, ACT_LANES)};
    dqn_cpu_for(pool, args->n_agents * context.shards.parts, act_task, &context);
    if (args->histogram != NULL) {
        count_actions(args);
    }
    return DQN_OK;
}

enum dqn_status dqn_cpu_act(struct dqn_queue *q, const struct dqn_act_args *args) {
    return dqn_cpu_submit(q, run_act, args, sizeof *args);
}
