/* Results of the benchmarks for people, and as JSON: one object a line. Printed to the standard
 * output. */
#ifndef DQN_BENCH_TEXT_H
#define DQN_BENCH_TEXT_H

#include "bench.h"

/* name: "step", "per" or "collect"; unit: what per_s counts. */
void dqn_bench_print(const char *name, const char *unit, const struct dqn_bench_result *r);
void dqn_bench_print_json(const char *name, const char *unit, const struct dqn_bench_result *r);

/* The placements that ran: a table with a column for each, or an object for each, the CPU first. */
void dqn_bench_print_epoch(const struct dqn_bench_epoch_result *with_learner,
                           const struct dqn_bench_epoch_result *on_cpu);
void dqn_bench_print_epoch_json(const struct dqn_bench_epoch_result *with_learner,
                                const struct dqn_bench_epoch_result *on_cpu);

#endif
