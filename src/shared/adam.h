/* One optimizer step: the decision whether to take it, the scalars of all elements, and what one
 * element does. Both backends call these functions, so they count, skip and clip alike. */
#ifndef DQN_SHARED_ADAM_H
#define DQN_SHARED_ADAM_H

#include <math.h>

#include "agent.h"
#include "schedule.h"
#include "step_stats.h"

/* Where a non-finite number was seen: counters.nonfinite_where. */
enum { DQN_NONFINITE_LOSS = 1, DQN_NONFINITE_GRADIENT = 2, DQN_NONFINITE_PARAMETERS = 3 };

/* The scalars of one agent's step. */
struct dqn_adam_step {
    uint32_t apply;     /* 0: nothing moves */
    float scale;        /* of the gradient: below 1 when it is clipped */
    float beta1, beta2; /* decay of the moments */
    float gain1, gain2; /* 1 - beta, rounded once */
    float rate;         /* lr / (1 - beta1^t) */
    float root;         /* 1 / sqrt(1 - beta2^t) */
    float eps;
    float decay; /* lr * weight_decay */
    float tau;   /* target += tau * (params - target); 1 = copy; 0 = stays */
};

/* base^n by repeated squaring: the same bits on both sides, which pow() is not. */
DQN_SHARED double dqn_adam_power(double base, uint64_t n) {
    double power = 1.0;
    for (; n > 0; n >>= 1) {
        if (n & 1) {
            power *= base;
        }
        base *= base;
    }
    return power;
}

/* Adds one applied update to the epoch's sums. Means of accumulated batches arrive as sums. */
DQN_SHARED void dqn_adam_report(struct dqn_step_stats *stats, const struct dqn_step_stats *batch,
                                double n_batches, double norm, int clipped, double lr) {
    stats->updates += 1.0;
    stats->rows += batch->rows;
    stats->loss += batch->loss / n_batches;
    stats->q_mean += batch->q_mean / n_batches;
    stats->q_max += batch->q_max / n_batches;
    stats->td_abs += batch->td_abs / n_batches;
    stats->weight_min += batch->weight_min / n_batches;
    stats->grad_norm += norm;
    stats->clipped += clipped ? 1.0 : 0.0;
    stats->lr += lr;
    stats->beta += batch->beta / n_batches;
    if (batch->td_abs_max > stats->td_abs_max) {
        stats->td_abs_max = batch->td_abs_max;
    }
}

/* Notes a skipped update; the `max_nonfinite`-th in a row freezes the agent. */
DQN_SHARED void dqn_adam_skip(struct dqn_counters *counters, uint64_t where,
                              uint64_t max_nonfinite) {
    counters->nonfinite++;
    counters->nonfinite_streak++;
    counters->nonfinite_update = counters->updates;
    counters->nonfinite_where = where;
    if (counters->nonfinite_streak >= max_nonfinite) {
        counters->failed = 1;
    }
}

/* The share of the way that the target network moves after update number u, which counts from 1 and
 * counts skipped updates too: tau each time, or 1 (a copy) at every multiple of target_updates. */
DQN_SHARED float dqn_adam_target_share(const struct dqn_agent *agent, uint64_t u) {
    if (agent->target_updates == 0) {
        return (float)agent->tau;
    }
    return u % agent->target_updates == 0 ? 1.0f : 0.0f;
}

/* The step that moves nothing. */
DQN_SHARED struct dqn_adam_step dqn_adam_rest(void) {
    struct dqn_adam_step step;
    step.apply = 0;
    step.scale = step.beta1 = step.beta2 = step.gain1 = step.gain2 = step.rate = step.root =
        step.eps = step.decay = 0.0f;
    step.tau = 0.0f;
    return step;
}

/* The step that is due after these counters, as long as its gradient is not known: nothing is
 * clipped.
 * Adam: Kingma and Ba 2015, algorithm 1, with both bias corrections in the scalars.
 * Decay: Loshchilov and Hutter 2019, algorithm 2, biases included. */
DQN_SHARED struct dqn_adam_step dqn_adam_plan(const struct dqn_agent *agent,
                                              const struct dqn_counters *counters) {
    const double lr = dqn_schedule_lr(agent, counters->updates);
    const uint64_t t = counters->adam_steps + 1;
    struct dqn_adam_step step;
    step.apply = 1;
    step.scale = 1.0f;
    step.beta1 = (float)agent->adam_beta1;
    step.beta2 = (float)agent->adam_beta2;
    step.gain1 = (float)(1.0 - agent->adam_beta1);
    step.gain2 = (float)(1.0 - agent->adam_beta2);
    step.rate = (float)(lr / (1.0 - dqn_adam_power(agent->adam_beta1, t)));
    step.root = (float)(1.0 / sqrt(1.0 - dqn_adam_power(agent->adam_beta2, t)));
    step.eps = (float)agent->adam_eps;
    step.decay = (float)(lr * agent->weight_decay);
    step.tau = dqn_adam_target_share(agent, counters->updates + 1);
    return step;
}

/* Whether a gradient of this norm is clipped, and what it is scaled by: max_norm / norm (Pascanu et
 * al. 2013, algorithm 1). */
DQN_SHARED int dqn_adam_clips(double max_norm, double norm) {
    return max_norm > 0.0 && norm > max_norm;
}

DQN_SHARED float dqn_adam_scale(double max_norm, double norm) {
    return dqn_adam_clips(max_norm, norm) ? (float)(max_norm / norm) : 1.0f;
}

/* Decides one agent's step, advances its counters and its epoch sums.
 *   batch        of dqn_nn_ops.td
 *   n_batches    accumulated batches behind it
 *   sum_squares  of the gradient, in double: float32 gradients cannot overflow it, so it is finite
 *                exactly when every element is */
DQN_SHARED struct dqn_adam_step
dqn_adam_begin(const struct dqn_agent *agent, struct dqn_counters *counters,
               struct dqn_step_stats *stats, const struct dqn_step_stats *batch, uint64_t n_batches,
               double sum_squares, uint64_t max_nonfinite) {
    if (counters->failed) {
        return dqn_adam_rest();
    }
    const double lr = dqn_schedule_lr(agent, counters->updates);
    struct dqn_adam_step step = dqn_adam_plan(agent, counters);
    counters->updates++;
    if (!dqn_is_finite(batch->loss)) {
        dqn_adam_skip(counters, DQN_NONFINITE_LOSS, max_nonfinite);
        return dqn_adam_rest();
    }
    if (!dqn_is_finite(sum_squares)) {
        dqn_adam_skip(counters, DQN_NONFINITE_GRADIENT, max_nonfinite);
        return dqn_adam_rest();
    }
    const double norm = sqrt(sum_squares);
    const int clip = dqn_adam_clips(agent->max_grad_norm, norm);
    counters->nonfinite_streak = 0;
    counters->adam_steps++;
    counters->clipped += clip ? 1 : 0;
    counters->target_copies += agent->target_updates != 0 && step.tau == 1.0f ? 1 : 0;
    step.scale = dqn_adam_scale(agent->max_grad_norm, norm);
    dqn_adam_report(stats, batch, (double)n_batches, norm, clip, lr);
    return step;
}

/* One parameter and its moments. */
DQN_SHARED void dqn_adam_element(const struct dqn_adam_step *step, float grad, float *m, float *v,
                                 float *param) {
    const float g = grad * step->scale;
    *m = step->beta1 * *m + step->gain1 * g;
    *v = step->beta2 * *v + step->gain2 * (g * g);
    *param -= step->rate * *m / (sqrtf(*v) * step->root + step->eps) + step->decay * *param;
}

/* The target network's parameter after it. */
DQN_SHARED float dqn_adam_target(const struct dqn_adam_step *step, float target, float param) {
    if (step->tau == 1.0f) {
        return param;
    }
    return step->tau == 0.0f ? target : target + step->tau * (param - target);
}

#endif
