/* Gaps that are a market's regular closures (weekends, nights, a break at noon), told from holes.
 */
#include <stdlib.h>

#include "bars_read.h"

static const int64_t hour_ns = 3600000000000, week_ns = 7 * 24 * 3600000000000;

enum { LOOK_WEEKS = 4 };

/* First stamp after `moment`: between it and the one before lies the moment. n = none. */
static size_t first_after(const int64_t *time_ns, size_t n, int64_t moment) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (time_ns[middle] > moment) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Whether the bars also pause from `from` to `to`, both give or take a twelfth of the pause: thin
 * markets open late. */
static bool pauses(const int64_t *time_ns, size_t n, int64_t from, int64_t to) {
    const int64_t slack = (to - from) / 12;
    const size_t i = first_after(time_ns, n, from + (to - from) / 2);
    return i > 0 && i < n && llabs(time_ns[i - 1] - from) <= slack &&
           llabs(time_ns[i] - to) <= slack;
}

/* The same by any clock: they are set an hour forward and back. */
static bool pauses_by_a_clock(const int64_t *time_ns, size_t n, int64_t from, int64_t to) {
    return pauses(time_ns, n, from, to) || pauses(time_ns, n, from - hour_ns, to - hour_ns) ||
           pauses(time_ns, n, from + hour_ns, to + hour_ns);
}

bool dqn_gap_is_regular(const int64_t *time_ns, size_t n, size_t gap) {
    const int64_t from = time_ns[gap - 1], to = time_ns[gap];
    int looked_at = 0, found = 0;
    if (to - from < hour_ns || to - from >= week_ns) {
        return false;
    }
    for (int64_t weeks = -LOOK_WEEKS; weeks <= LOOK_WEEKS; weeks++) {
        const int64_t shift = weeks * week_ns;
        if (weeks != 0 && from + shift >= time_ns[0] && to + shift <= time_ns[n - 1]) {
            looked_at++;
            found += pauses_by_a_clock(time_ns, n, from + shift, to + shift);
        }
    }
    return found >= 2 && 3 * found >= looked_at;
}
