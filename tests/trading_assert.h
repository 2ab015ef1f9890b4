/* What both tests of the trading environment use. */
#ifndef TESTS_TRADING_ASSERT_H
#define TESTS_TRADING_ASSERT_H

#include <criterion/criterion.h>
#include <math.h>

#include "../envs/trading.h"
#include "base.h"

static inline uint32_t make_action(int level, int order, int urgency) {
    return (uint32_t)(9 * level + 3 * order + urgency);
}

#define ASSERT_NEAR(got, want, tolerance)                                                          \
    do {                                                                                           \
        const double near_got = (got), near_want = (want);                                         \
        cr_assert(fabs(near_got - near_want) <= (tolerance), "%s = %.17g, expected %.17g", #got,   \
                  near_got, near_want);                                                            \
    } while (0)

static inline void no_costs(struct trading_params *p) {
    p->half_spread = p->slip = p->slip_vol = p->taker_fee = p->maker_fee = 0.0;
    p->borrow_rate = p->leverage_rate = 0.0;
}

#endif
