/* The trainer: creates the parts, decides from counters alone which program runs next, and at each
 * epoch's end reads the statistics, evaluates, keeps the best and saves. */
#ifndef DQN_TRAINER_H
#define DQN_TRAINER_H

#include <stdatomic.h>

#include "backend.h"
#include "config.h"
#include "evaluator.h"

struct dqn_market; /* market/trading_setup.h */

struct dqn_trainer_options {
    const struct dqn_config *config; /* copied */
    size_t n_agents;                 /* K; 0 = 1 */
    const struct dqn_agent *agents;  /* [K], or NULL: each as the config says */
    const char *folder;              /* of the run; NULL = write nothing */
    const char *resume;              /* checkpoint file to go on from, or NULL */
    const char *init_from;           /* checkpoint file to take the parameters from, or NULL */
    bool quiet;
    bool replay_apart; /* the replay on a CPU device of its own, as beside a GPU (a test of that) */
    bool late_queue;   /* CPU: operations run late (a test of the program itself) */
    const atomic_int *stop; /* not 0: end at the next step, of an evaluation too; NULL = never */
    uint64_t stop_at_steps; /* end there as if stopped, in env steps; 0 = never */
    uint64_t eval_steps; /* most of an evaluation's episode (a test of that); 0 = as the env says */
    /* Called at each epoch's end with each agent's row of DQN_METRIC_ALL values (metrics.h). */
    void (*on_epoch)(void *context, const double *row);
    void *context;
};

struct dqn_trainer;

/* Before a run's folder is made: DQN_ERR_CHECKPOINT when a file is no checkpoint with a network as
 * the configuration's, which options.init_from will ask for; DQN_ERR_DISK when it is not there. */
enum dqn_status dqn_trainer_check_init_from(const struct dqn_config *config, const char *file);

/* Checks, allocates and prepares everything; says what it will do (banner, memory plan). */
enum dqn_status dqn_trainer_create(struct dqn_trainer **out,
                                   const struct dqn_trainer_options *options);
void dqn_trainer_destroy(struct dqn_trainer *trainer);

/* Trains to the end of the run, to an early stop, or until *stop is set; in each case what was
 * reached is saved. *stopped tells of the last, and is false where saving failed. It is saved as
 * after a stop, too, when an evaluation's episode does not end (DQN_ERR_ENDLESS, with the way to go
 * on). */
enum dqn_status dqn_trainer_run(struct dqn_trainer *trainer, bool *stopped);

/* Greedy score of the best parameters over fresh episodes (not those of training's evaluations).
 * result: [K]. For trading: on the validation split. */
enum dqn_status dqn_trainer_score_best(struct dqn_trainer *trainer, struct dqn_evaluation *result);

/* Parameters of the best evaluation so far (the latest ones when there was none), copied to host
 * memory: [K, P]. */
enum dqn_status dqn_trainer_best_params(struct dqn_trainer *trainer, float *params);

const struct dqn_net *dqn_trainer_net(const struct dqn_trainer *trainer);
const struct dqn_arena *dqn_trainer_arena(const struct dqn_trainer *trainer);
const struct dqn_market *dqn_trainer_market(const struct dqn_trainer *trainer);
/* The configuration in use, schedules resolved. */
const struct dqn_config *dqn_trainer_config(const struct dqn_trainer *trainer);
uint64_t dqn_trainer_epochs(const struct dqn_trainer *trainer);
/* Best evaluation of an agent, and its epoch (0 = none yet). */
double dqn_trainer_best_score(const struct dqn_trainer *trainer, size_t agent, uint64_t *epoch);

#endif
