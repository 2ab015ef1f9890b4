/* Local time of a zone. Names are those of the tz database ("America/New_York"), "UTC", or a fixed
 * offset ("+02:00", "UTC-5"). */
#ifndef DQN_MARKET_TIMEZONE_H
#define DQN_MARKET_TIMEZONE_H

#include "../base.h"

struct dqn_zone;

/* Reads the offsets of 1970 to 2101 from the C library, once. It switches the process's TZ for a
 * moment (under a lock of its own), so call it before other threads use local time.
 * DQN_ERR_DATA for an unknown name. */
enum dqn_status dqn_zone_create(struct dqn_zone **out, const char *name);
void dqn_zone_destroy(struct dqn_zone *zone);
/* Local time minus UTC, in seconds. */
int64_t dqn_zone_offset(const struct dqn_zone *zone, int64_t utc_s);
/* The moments that a local clock reading stands for, earlier first: one, or two where clocks were
 * set back, or none where they were set forward. Returns how many. */
int dqn_zone_to_utc(const struct dqn_zone *zone, int64_t local_s, int64_t utc_s[2]);

#endif
