/* Inside of the trainer: its parts, and what trainer.c (the loop), trainer_setup.c (creation) and
 * trainer_save.c (checkpoints) call of each other; bench_epoch.c measures them. */
#ifndef DQN_TRAINER_PARTS_H
#define DQN_TRAINER_PARTS_H

#include "agents.h"
#include "checkpoint.h"
#include "collector.h"
#include "learner.h"
#include "market/trading_setup.h"
#include "metrics.h"
#include "program.h"
#include "progress.h"
#include "readback.h"
#include "replay.h"
#include "trainer.h"

/* A step of the plan. */
enum dqn_action { DQN_COLLECT_FIRST, DQN_COLLECT, DQN_UPDATE }; /* FIRST: no rows leave yet */

enum { DQN_PLAN_MAX = 32, DQN_PROGRAMS_MAX = 64 };

/* A sequence of steps that runs as one program. */
struct dqn_plan {
    size_t n;
    uint8_t action[DQN_PLAN_MAX];
};

struct dqn_planned_program {
    struct dqn_plan plan;
    struct dqn_trainer *trainer;
    struct dqn_program *program;
    bool phase_said; /* a step failed, and its error begins with the phase */
};

/* The host's counters: what decides, and what a checkpoint needs beside the arena. */
struct dqn_progress_counters {
    uint64_t epochs;       /* finished */
    uint64_t vector_steps; /* env steps = vector_steps * lanes */
    uint64_t updates;
    uint64_t epochs_since_best; /* of agent 0, for train.patience */
    uint64_t rows;              /* inserted into the replay by an agent, since it was last empty */
    uint64_t rows_needed;       /* before an update: 0, or more after a resume without the replay */
};

/* Sources of the readback, in order. */
enum { DQN_READ_COUNTERS, DQN_READ_STATS, DQN_READ_LANES, DQN_READ_HISTOGRAM, DQN_READ_COUNT };

/* Where a run's parts live, and why not where they were wished (trainer_device.c). */
struct dqn_placement {
    bool cpu;             /* all on the CPU, else on the GPU */
    bool apart;           /* the replay on a CPU device beside t->device */
    char why[768];        /* the CPU instead of the GPU; "" = as wished */
    char replay_why[768]; /* the replay apart */
    bool open_failed;     /* of the latest attempt: the device could not be opened, */
    bool replay_failed;   /* or all but the replay has room on it */
};

/* Where an epoch's time went, up to the wait at its end. */
struct dqn_epoch_times {
    struct dqn_replay_clock replay;
    double waited_s; /* the host, for the device */
    double busy_s;   /* work was in flight on the device; with time_device alone, see backend.h */
};

struct dqn_trainer {
    struct dqn_config config;
    size_t n_agents;
    struct dqn_agent *agents;  /* [K] */
    char folder[DQN_TEXT_MAX]; /* "" = write nothing */
    bool quiet;
    const atomic_int *stop;
    uint64_t stop_at_steps, eval_steps;
    void (*on_epoch)(void *context, const double *row);
    void *context;
    enum dqn_env_id env;
    struct dqn_net net;

    struct dqn_device device;
    bool device_open;
    struct dqn_device host_device; /* of a replay apart; open also where one may come to be so */
    bool host_open;
    struct dqn_placement place;
    bool eager; /* steps are called, never captured: a replay apart needs the host */
    struct dqn_queue *queue;
    struct dqn_arena *arena;
    struct dqn_buffer *agents_buffer;   /* [K] struct dqn_agent */
    struct dqn_buffer *counters_buffer; /* [K] struct dqn_counters */
    struct dqn_buffer *env_params;      /* of training */
    struct dqn_buffer *eval_env_params; /* of evaluation */
    struct dqn_buffer *best_params;     /* [K, P] */
    struct dqn_market *market;          /* trading only */
    struct dqn_market_buffers market_buffers;
    struct dqn_replay *replay;
    struct dqn_learner *learner;
    struct dqn_collector *collector;
    struct dqn_evaluator *evaluator;
    struct dqn_readback *readback;

    struct dqn_planned_program *programs[DQN_PROGRAMS_MAX];
    size_t n_programs;
    struct dqn_progress_counters at;
    bool inside_epoch;  /* taken up from a partial checkpoint: an epoch is to be finished */
    double *best_score; /* [K]; -inf before the first evaluation */
    double *best_epoch; /* [K] */
    struct dqn_evaluation *evaluation; /* [K] scratch */
    double *dead_units;                /* [K] of the epoch that ends */
    bool improved;                     /* agent 0, in the latest evaluation */
    struct dqn_metrics *metrics;
    struct dqn_progress progress;
    double epoch_begun_s; /* clock when the running epoch began or went on */
    uint64_t waits_begun; /* host waits when it began */
    uint64_t steps_begun, updates_begun;
    struct dqn_replay_clock replay_begun;
    double waited_begun_s;
    struct dqn_epoch_times times; /* of the latest epoch */
    bool time_device;             /* dqn-bench: use the queue's busy_begin in the next epochs */
    uint64_t free_begun;          /* bytes of the device that were free before the arena's commit */

    struct dqn_saver *saver; /* trainer_save.c; NULL = write nothing */
};

/* trainer.c */
void dqn_trainer_free_programs(struct dqn_trainer *t);

/* trainer_save.c */
enum dqn_status dqn_saver_create(struct dqn_trainer *t);
void dqn_saver_destroy(struct dqn_saver *saver);
/* Device memory for the checkpoints' copy, which is not in the arena: what a saver takes where
 * there is room, and what the run's saver has taken. */
uint64_t dqn_saver_wanted_bytes(const struct dqn_trainer *t);
uint64_t dqn_saver_device_bytes(const struct dqn_trainer *t);
/* Takes a snapshot and hands it to the writer: as the epoch's file, with `best` also as the best;
 * `partial`: inside an epoch. */
enum dqn_status dqn_saver_save(struct dqn_trainer *t, bool best, bool partial);
/* Waits for the writer. */
enum dqn_status dqn_saver_finish(struct dqn_trainer *t);
/* Loads a checkpoint into the committed arena and the host's counters. */
enum dqn_status dqn_saver_restore(struct dqn_trainer *t, const char *path);
/* Loads the parameters alone. */
enum dqn_status dqn_saver_init_from(struct dqn_trainer *t, const char *path);
/* Frozen feature statistics of a checkpoint: mean and std, [DQN_MARKET_FEATURES] each. */
enum dqn_status dqn_saver_read_statistics(const char *path, double *mean, double *std);

/* trainer_device.c */
void dqn_placement_first(struct dqn_placement *place, const struct dqn_trainer_options *options);
/* After an attempt failed with `status` (and the latest error text): true when there is another
 * place to try, and *place then is it. */
bool dqn_placement_retreat(struct dqn_placement *place, const struct dqn_config *config,
                           enum dqn_status status);
enum dqn_status dqn_trainer_open_devices(struct dqn_trainer *t, bool late_queue);
void dqn_trainer_close_devices(struct dqn_trainer *t);
/* Checks the memory plan against what is free, then commits the arena. */
enum dqn_status dqn_trainer_allocate(struct dqn_trainer *t);
void dqn_trainer_say_devices(const struct dqn_trainer *t);
/* Device memory that the run holds on t->device: its buffers, and the checkpoints' copy. */
uint64_t dqn_trainer_device_bytes(const struct dqn_trainer *t);
/* Why the replay is not with the learner; "" when it is. */
const char *dqn_trainer_why_replay(const struct dqn_trainer *t);
/* Between steps, after the replay moved: the arena and the checkpoints follow it. */
enum dqn_status dqn_trainer_settle_replay(struct dqn_trainer *t);
/* Puts the phase before the text of a device's error. */
enum dqn_status dqn_trainer_in_phase(enum dqn_status status, const char *phase);

uint64_t dqn_trainer_env_steps(const struct dqn_trainer *t);

/* Whether a score replaces the best so far. A NaN never does; of equal scores the earlier one
 * stays. */
static inline bool dqn_score_is_better(double score, double best) {
    return score > best;
}

#endif
