/* The TD target, its loss, and the greedy action: the rules that both backends follow. */
#ifndef DQN_SHARED_TD_H
#define DQN_SHARED_TD_H

#include "hd.h"

/* The greedy action of n values: the lowest index of the largest; a NaN is never greedy (0 when all
 * are NaN). */
DQN_SHARED size_t dqn_td_argmax(const float *q, size_t n) {
    size_t best = 0;
    for (size_t a = 1; a < n; a++) {
        const int best_is_nan = q[best] != q[best];
        if (q[a] > q[best] || (best_is_nan && q[a] == q[a])) {
            best = a;
        }
    }
    return best;
}

/* y = r + discount * Q(s', a*), and y = r where the episode terminated within the horizon (Mnih et
 * al. 2015, section Methods; the discount is gamma^m of the row's own horizon). A terminated row
 * does not touch next_q, which may be anything. */
DQN_SHARED float dqn_td_target(float reward, float discount, uint8_t done, float next_q) {
    return done ? reward : reward + discount * next_q;
}

/* Loss of one TD error: Huber (1964), 0.5 td^2 up to delta and delta (|td| - 0.5 delta) beyond;
 * delta = 0 stands for the squared loss 0.5 td^2 everywhere. In double, so that no finite error
 * overflows. */
DQN_SHARED double dqn_td_loss(float td, double delta) {
    const double size = td < 0.0f ? -(double)td : (double)td;
    if (delta > 0.0 && size > delta) {
        return delta * (size - 0.5 * delta);
    }
    return 0.5 * size * size;
}

/* d loss / d td: the error itself, for Huber clamped to [-delta, delta]. The derivative by Q(s, a)
 * is its negative. */
DQN_SHARED float dqn_td_slope(float td, double delta) {
    if (delta > 0.0 && (double)td > delta) {
        return (float)delta;
    }
    if (delta > 0.0 && (double)td < -delta) {
        return (float)-delta;
    }
    return td;
}

#endif
