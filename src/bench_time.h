/* Inside of the benchmarks: a program timed in windows, and memory that was taken. */
#ifndef DQN_BENCH_TIME_H
#define DQN_BENCH_TIME_H

#include "bench.h"
#include "program.h"
#include "replay.h"

/* Runs the program in windows, each ended by a wait. `ops` operations a run; per_s counts `scale`
 * for each of them (lanes of a vector step). Sets of *out what a program has: rates, us, n,
 * host_waits, busy. */
enum dqn_status dqn_bench_time(struct dqn_program *program, struct dqn_queue *q, double ops,
                               double scale, struct dqn_bench_result *out);

/* Enqueues the replay's part of n updates: the draws of their batches, and a priority update with
 * the errors that are there. ok: [K], of the agents whose priorities are to move. */
enum dqn_status dqn_bench_draw_and_update(struct dqn_replay *replay, struct dqn_queue *q,
                                          const struct dqn_config_learner *config,
                                          const struct dqn_buffer *ok, int n);

/* The share of `of` seconds that the queue's busy_end gave: NAN when it could not measure, and at
 * most 1, for its clock is not the host's. */
double dqn_bench_share(double seconds, double of);

/* Bytes of the device's free memory, of which there were `free_begun`, that are gone; 0 on the CPU.
 */
enum dqn_status dqn_bench_taken(const struct dqn_device *device, uint64_t free_begun,
                                uint64_t *out);

#endif
