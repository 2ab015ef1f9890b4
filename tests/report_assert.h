/* Comparisons of the report's tests. */
#ifndef DQN_TESTS_REPORT_ASSERT_H
#define DQN_TESTS_REPORT_ASSERT_H

#include <criterion/criterion.h>
#include <math.h>

/* Figures here are sums of at most 1000 terms of order one: 1e-12 is a hundred times their
 * rounding; seen: below 1e-14. */
#define EXPECT_NEAR(value, wanted)                                                                 \
    do {                                                                                           \
        const double near_value = (value), near_wanted = (wanted);                                 \
        cr_expect(fabs(near_value - near_wanted) <= 1e-12 * (1.0 + fabs(near_wanted)),             \
                  "line %d: %s is %.17g, not %.17g", __LINE__, #value, near_value, near_wanted);   \
    } while (0)
#define EXPECT_NAN(value) cr_expect(isnan(value), "line %d: %s is a number", __LINE__, #value)

#endif
