/* The two backends, cpu and cuda, behind tables of operations. Modules are written once against
 * these tables; every arrow of a training step is one entry here with two bodies,
 * src/cpu/<topic>_cpu.c and kernels/<topic>_cuda.cu.
 *
 * Rules for every operation:
 *  - it enqueues on `q` and returns; nothing waits for the device. Its arguments are copied, what
 *    they point to must live until the queue was waited for;
 *  - values that change from step to step (epsilon, beta, learning rate, cursors, counters) are
 * read from and advanced in device memory, so that a captured program stays right when replayed;
 *  - K agents of equal shapes are processed side by side; agent k's result is, bit for bit, what it
 *    would be alone;
 *  - the same arguments give the same bytes, whatever the number of threads or blocks.
 * One-letter sizes: K agents, B batch rows, E lanes, O observation, A actions, N replay rows,
 * P parameters. Arrays are dense and row-major; obs_ld and actions_ld are of net.h. */
#ifndef DQN_BACKEND_H
#define DQN_BACKEND_H

#include "../envs/env.h"
#include "../envs/env_list.h"
#include "arena.h"
#include "base.h"
#include "net.h"
#include "shared/agent.h"
#include "shared/step_stats.h"

struct dqn_backend;
struct dqn_queue; /* an ordered stream of work on a device */
struct dqn_event; /* a point in a queue that another queue or the host can wait for */
struct dqn_graph; /* a captured program */

struct dqn_device {
    const struct dqn_backend *backend;
    void *impl;
    char description[192]; /* "cpu: 2 threads, OpenBLAS 0.3.21 Haswell" */
};

struct dqn_device_options {
    int index;       /* which GPU */
    int threads;     /* CPU threads; 0 = one a core */
    int precision;   /* DQN_PRECISION_*, of matrix products on a GPU */
    bool late_queue; /* CPU: run operations later, in a worker: proves that nobody reads early */
};

enum dqn_copy_kind { DQN_COPY_TO_DEVICE, DQN_COPY_TO_HOST, DQN_COPY_ON_DEVICE };

struct dqn_memory_ops {
    /* Opens a device. DQN_ERR_DEVICE with the reason when it cannot be used. */
    enum dqn_status (*open)(struct dqn_device *out, const struct dqn_device_options *options);
    void (*close)(struct dqn_device *device);
    /* Zero-filled memory; `pinned` = page-locked host memory. DQN_ERR_DEVICE_MEMORY when full. */
    enum dqn_status (*alloc)(const struct dqn_device *device, void **out, size_t bytes,
                             bool pinned);
    void (*free)(const struct dqn_device *device, void *data, bool pinned);
    /* Host pointers of asynchronous copies are plain or pinned memory; plain may be slower. */
    enum dqn_status (*copy)(struct dqn_queue *q, void *dst, const void *src, size_t bytes,
                            enum dqn_copy_kind kind);
    enum dqn_status (*zero)(struct dqn_queue *q, void *dst, size_t bytes);
    /* Free and total bytes of the device. */
    enum dqn_status (*info)(const struct dqn_device *device, uint64_t *free_bytes,
                            uint64_t *total_bytes);
};

struct dqn_queue_ops {
    enum dqn_status (*create)(const struct dqn_device *device, struct dqn_queue **out);
    void (*destroy)(struct dqn_queue *q);
    /* The host waits until everything enqueued has run; returns the first error of those
     * operations. Counted in dqn_queue_waits and dqn_queue_waited_s. */
    enum dqn_status (*wait)(struct dqn_queue *q);
    enum dqn_status (*event_create)(const struct dqn_device *device, struct dqn_event **out);
    void (*event_destroy)(struct dqn_event *event);
    enum dqn_status (*event_record)(struct dqn_queue *q, struct dqn_event *event);
    /* `q` (not the host) waits for the latest record of `event`. */
    enum dqn_status (*event_wait)(struct dqn_queue *q, struct dqn_event *event);
    /* NULL where programs cannot be captured; then dqn_program calls the function each time. */
    enum dqn_status (*capture_begin)(struct dqn_queue *q);
    enum dqn_status (*capture_end)(struct dqn_queue *q, struct dqn_graph **out);
    enum dqn_status (*graph_launch)(struct dqn_queue *q, struct dqn_graph *graph);
    void (*graph_destroy)(struct dqn_graph *graph);
    /* NULL, or a clock of the time in which work of the queue is in flight, from busy_begin to
     * busy_end. A launched graph is from the moment at which it was launched and what was enqueued
     * before had run, to its end. Operations that are called are from the first one after a wait
     * or a launch to the next wait or launch, so that what the host does after a wait counts as
     * idle. Nothing of it waits, but busy_end waits for the queue as `wait` does.
     * *seconds: -1 when more launches were under way at once than the clock has room for. */
    enum dqn_status (*busy_begin)(struct dqn_queue *q);
    enum dqn_status (*busy_end)(struct dqn_queue *q, double *seconds);
};

/* ---- nn: the network ------------------------------------------------------------------------ */

struct dqn_init_args {
    const struct dqn_net *net;
    size_t n_agents;
    const struct dqn_agent *agents; /* [K]: seed */
    float *params;                  /* [K, P] out: He-uniform for ReLU/ELU/SiLU, Glorot-uniform for
                                       tanh and the last layer; biases 0; padding 0 */
};

struct dqn_forward_args {
    const struct dqn_net *net;
    size_t n_agents, batch;
    const float *params; /* [K, P] */
    const float *x;      /* [K, B, obs_ld], padding 0 */
    float *acts;         /* [K * B * act_floats] out; layer l's y is [K, B, out_ld] starting at
                            K * B * layer[l].output, its kept preact at K * B * layer[l].preact */
    float *q;            /* [K, B, actions_ld] out, padding 0 */
    bool acts_unread;    /* nobody reads acts: they may be left unwritten, or hold anything */
};

struct dqn_backward_args {
    const struct dqn_net *net;
    size_t n_agents, batch;
    const float *params; /* [K, P] */
    const float *x;      /* [K, B, obs_ld] */
    const float *acts;   /* of the forward pass with the same params and x */
    const float *dq;     /* [K, B, actions_ld], padding 0 */
    float *grads;        /* [K, P]: set, or added to with `accumulate` */
    bool accumulate;
    void *workspace; /* nn.workspace_bytes */
};

/* TD errors, weighted loss and its derivative by Q(s, .).
 * Target y = r + discount * (1 - done) * Q_target(s', a*), a* = argmax Q_online(s', .) for double
 * DQN (van Hasselt et al. 2016, equation 4) or argmax Q_target(s', .); ties: the lowest index.
 * Huber(delta): Mnih et al. 2015, section Methods. */
struct dqn_td_args {
    size_t n_agents, batch, actions, actions_ld;
    const struct dqn_agent *agents;      /* [K]: huber_delta */
    const struct dqn_counters *counters; /* [K]: for beta in the stats */
    const float *q;                      /* [K, B, actions_ld] online net at s */
    const float *q_next_online;          /* [K, B, actions_ld]; NULL = not double */
    const float *q_next_target;          /* [K, B, actions_ld] */
    const uint32_t *action;              /* [K, B] */
    const float *reward;                 /* [K, B] n-step sums */
    const float *discount;               /* [K, B] gamma^m of the row's own horizon */
    const uint8_t *done;                 /* [K, B] 1 = no bootstrap */
    const float *weight;                 /* [K, B] importance weights */
    float grad_scale;                    /* 1 / (B * accumulated batches) */
    float *td;                           /* [K, B] out: y - Q(s, a) */
    float *dq;                           /* [K, B, actions_ld] out, zero but at the action taken */
    struct dqn_step_stats *batch_stats;  /* [K] out: loss, q_mean, q_max, td_abs, weight_min,
                                            td_abs_max, rows; set, or joined with `accumulate` (means
                                            are summed; the caller divides) */
    bool accumulate;
};

/* One optimizer step of each agent: finiteness of the loss and the gradient, global norm (in
 * double, fixed order), clip, Adam with bias correction (Kingma and Ba 2015, algorithm 1; decoupled
 * weight decay of Loshchilov and Hutter 2019), target network, counters, statistics. A non-finite
 * loss or gradient skips the step: parameters, moments, target and adam_steps stay, ok[k] becomes
 * 0. An agent whose `failed` is set does nothing. Advances counters.updates by one. */
struct dqn_apply_args {
    const struct dqn_net *net;
    size_t n_agents;
    size_t n_batches; /* accumulated batches behind this step */
    uint64_t max_nonfinite;
    const struct dqn_agent *agents;           /* [K] */
    struct dqn_counters *counters;            /* [K] in, out */
    float *params, *target;                   /* [K, P] in, out */
    float *grads;                             /* [K, P] in */
    float *moment1, *moment2;                 /* [K, P] in, out */
    const struct dqn_step_stats *batch_stats; /* [K] */
    struct dqn_step_stats *stats;             /* [K] in, out: sums of the epoch */
    uint32_t *ok;                             /* [K] out */
    void *workspace;                          /* nn.workspace_bytes */
};

/* Epsilon-greedy actions. Lane e explores when the first uniform of its block (purpose, lane e,
 * counter vector_steps) is below epsilon, and then takes dqn_rng_below of the second word. Greedy
 * ties: the lowest index; a NaN is never greedy. */
struct dqn_act_args {
    size_t n_agents, lanes, actions, actions_ld;
    const struct dqn_agent *agents;
    const struct dqn_counters *counters; /* [K]: vector_steps; env_steps for epsilon */
    uint64_t purpose;                    /* DQN_RNG_POLICY, or DQN_RNG_EVAL_POLICY */
    double fixed_epsilon;                /* >= 0: use it; < 0: the agent's schedule */
    const float *q;                      /* [K, E, actions_ld] */
    uint32_t *action;                    /* [K, E] out */
    uint64_t *histogram;                 /* [K, A] += 1 for each action; may be NULL */
};

struct dqn_update_args;

struct dqn_nn_ops {
    size_t (*workspace_bytes)(const struct dqn_device *device, const struct dqn_net *net,
                              size_t n_agents, size_t batch);
    enum dqn_status (*init)(struct dqn_queue *q, const struct dqn_init_args *args);
    enum dqn_status (*forward)(struct dqn_queue *q, const struct dqn_forward_args *args);
    enum dqn_status (*backward)(struct dqn_queue *q, const struct dqn_backward_args *args);
    enum dqn_status (*td)(struct dqn_queue *q, const struct dqn_td_args *args);
    enum dqn_status (*apply)(struct dqn_queue *q, const struct dqn_apply_args *args);
    enum dqn_status (*act)(struct dqn_queue *q, const struct dqn_act_args *args);
    /* NULL, or n forward passes that do not depend on each other, side by side. Their outputs are
     * apart, acts included; the results are those of n calls of forward. */
    enum dqn_status (*forward_many)(struct dqn_queue *q, const struct dqn_forward_args *args,
                                    size_t n);
    /* NULL, or forward and act as one; acts and Q may stay unwritten. See dqn_policy. */
    enum dqn_status (*policy)(struct dqn_queue *q, const struct dqn_forward_args *forward,
                              const struct dqn_act_args *act);
    /* NULL, or a whole update in fewer kernels; *done says whether these arguments are served. What
     * lives on (parameters, target, moments, priorities, counters, statistics, index, td, acts) is
     * as after the operations one by one, but for the rounding of sums (and errors so large that
     * their unscaled gradient overflows); other outputs (batch but state, q, dq, weight, grads) may
     * stay unwritten. DQN_ERR_REFUSED: the device refused a kernel, and nothing that lives on has
     * changed, so that the operations one by one can stand in for it. */
    enum dqn_status (*update)(struct dqn_queue *q, const struct dqn_update_args *args, bool *done);
};

/* nn.policy, or where there is none forward, then act. */
enum dqn_status dqn_policy(struct dqn_queue *q, const struct dqn_forward_args *forward,
                           const struct dqn_act_args *act);

/* ---- env: vectorised environments ----------------------------------------------------------- */

struct dqn_env_args {
    enum dqn_env_id env;
    size_t n_agents, lanes, obs, obs_ld;
    const struct dqn_agent *agents; /* [K]: seed */
    uint64_t purpose;               /* DQN_RNG_ENV or DQN_RNG_EVAL_ENV; lane e uses stream
                                       dqn_rng_stream(purpose, e) of its agent's seed */
    uint64_t step_limit;            /* truncate after so many steps; 0 = never */
    bool freeze;                    /* evaluation: a lane stops after its first episode */
    const void *params;             /* struct <env>_params in device memory */
    void *states;                   /* [K, E] struct <env>_state */
    struct dqn_lane *lanes_state;   /* [K, E] */
    struct dqn_counters *counters;  /* [K]: step advances vector_steps and env_steps */
    float *obs_now;                 /* [K, E, obs_ld] in: what the action saw; out: what the next
                                       action shall see (after a reset where the episode ended).
                                       reset pads it with 0; step needs that and leaves it */
    float *obs_before;              /* [K, E, obs_ld] out of step: obs_now as it came in; or NULL */
    const uint32_t *action;         /* [K, E] */
    float *obs_next;                /* [K, E, obs_ld] out: true next observation, before a reset */
    float *reward;                  /* [K, E] out */
    uint8_t *terminated;            /* [K, E] out */
    uint8_t *truncated;             /* [K, E] out */
};

/* The n-step window of each lane, a ring of n transitions, and the rows that leave it.
 * Each vector step stores one transition a lane in slot (vector_steps - 1) % n and, once n steps
 * were stored, emits one row a lane: the transition of n - 1 steps ago with its own horizon
 * m <= n, cut where its episode ended (Sutton and Barto 2018, section 7.1). So every vector step
 * emits 0 or E rows, and the host knows which. */
struct dqn_nstep_args {
    size_t n_agents, lanes, obs, obs_ld, n_step;
    const struct dqn_agent *agents;      /* [K]: gamma */
    const struct dqn_counters *counters; /* [K]: vector_steps, already advanced by env.step */
    /* this step */
    const float *obs_before;               /* [K, E, obs_ld] what the action saw */
    const float *obs_next;                 /* [K, E, obs_ld] true next observation */
    const uint32_t *action;                /* [K, E] */
    const float *reward;                   /* [K, E] */
    const uint8_t *terminated, *truncated; /* [K, E] */
    /* the window */
    float *window_obs, *window_next; /* [K, n, E, O] */
    uint32_t *window_action;         /* [K, n, E] */
    float *window_reward;            /* [K, n, E] */
    uint8_t *window_end;             /* [K, n, E]: 0 goes on, 1 terminated, 2 truncated */
    /* the rows that leave it */
    float *row_state, *row_next; /* [K, E, O] */
    uint32_t *row_action;        /* [K, E] */
    float *row_reward;           /* [K, E] sum of gamma^i r_i, summed in double */
    float *row_discount;         /* [K, E] gamma^m */
    uint8_t *row_done;           /* [K, E] 1 = terminated within the horizon */
};

struct dqn_collect_args;

struct dqn_env_ops {
    /* Starts in every lane the episode that lane.episode names (0 in zeroed memory): sets the
     * lane's step, episode_return and frozen to 0 and writes states and obs_now; sums and counters
     * stay. */
    enum dqn_status (*reset)(struct dqn_queue *q, const struct dqn_env_args *args);
    /* Steps every lane by the rules of envs/lane.h. An episode's end starts the next one at once
     * (lane.episode + 1). With args.freeze it freezes the lane instead: episode, step and return
     * stay as they ended, and later steps give the same observation, reward 0, terminated 1,
     * truncated 0. */
    /* On the CPU an observation or reward that is no finite number is DQN_ERR_NONFINITE, named. */
    enum dqn_status (*step)(struct dqn_queue *q, const struct dqn_env_args *args);
    enum dqn_status (*nstep)(struct dqn_queue *q, const struct dqn_nstep_args *args);
    /* Zeroes the episode sums of n lanes (min and max become +-infinity). */
    enum dqn_status (*clear_sums)(struct dqn_queue *q, struct dqn_lane *lanes, size_t n);
    /* NULL, or a collector's whole step in fewer kernels; *done says whether these arguments are
     * served. What lives on (states, lanes, counters, obs_now, histogram, the windows, the replay's
     * columns, ring and sums, action) is as after the operations one by one, bit for bit; other
     * outputs may stay unwritten. DQN_ERR_REFUSED: the device refused the last kernel; the actions
     * were taken and counted, and nothing else that lives on has changed (while a graph is
     * captured: nothing ran). */
    enum dqn_status (*collect)(struct dqn_queue *q, const struct dqn_collect_args *args,
                               bool *done);
};

/* ---- replay: the ring of rows, and how rows are drawn ---------------------------------------- */

/* Where the ring stands, in device memory; the host keeps the same numbers. */
struct dqn_ring {
    uint64_t cursor; /* row written next */
    uint64_t size;   /* rows filled */
};

/* The columns, contiguous and allocated once. */
struct dqn_rows {
    float *states, *next_states; /* [K, N, O] */
    uint32_t *actions;           /* [K, N] */
    float *rewards;              /* [K, N] */
    float *discounts;            /* [K, N] */
    uint8_t *dones;              /* [K, N] */
    float *priorities;           /* [K, N]; unfilled rows 0 */
};

struct dqn_insert_args {
    size_t n_agents, capacity, obs;
    size_t count; /* rows an agent, <= capacity */
    struct dqn_rows rows;
    struct dqn_ring *ring;             /* [1] in; insert does not move it, sampler.inserted does */
    const float *priority_seen;        /* [K] running maximum: the new rows' priority */
    const float *row_state, *row_next; /* [K, count, O] */
    const uint32_t *row_action;
    const float *row_reward, *row_discount;
    const uint8_t *row_done;
};

struct dqn_gather_args {
    size_t n_agents, capacity, obs, obs_ld, batch;
    struct dqn_rows rows;
    const int64_t *index; /* [K, B] */
    float *state, *next;  /* [K, B, obs_ld] out, padding 0 */
    uint32_t *action;     /* [K, B] */
    float *reward, *discount;
    uint8_t *done;
};

struct dqn_replay_ops {
    enum dqn_status (*insert)(struct dqn_queue *q, const struct dqn_insert_args *args);
    enum dqn_status (*gather)(struct dqn_queue *q, const struct dqn_gather_args *args);
};

/* What a sampler is made for. */
struct dqn_sampler_spec {
    int kind; /* DQN_REPLAY_* */
    size_t n_agents, capacity, batch;
    bool stratified;
    int weight_norm;        /* DQN_WEIGHT_NORM_* */
    uint64_t rank_interval; /* updates between sorts */
    double alpha; /* rank: the exponent of the mass table (per agent values must be equal) */
    int sums;     /* DQN_SUMS_*, GPU only */
};

struct dqn_sampler; /* a backend's sums, order and tables; its buffers are in the arena */

struct dqn_draw_args {
    struct dqn_sampler *sampler;
    const struct dqn_agent *agents; /* [K]: seed, beta schedule */
    struct dqn_counters *counters;  /* [K]: updates for beta; draws, advanced by one */
    const struct dqn_ring *ring;    /* [1] */
    const float *priorities;        /* [K, N] */
    /* Row b of draw d uses the block (DQN_RNG_SAMPLER, lane b, counter d), first 64-bit word; where
     * `words` is not NULL it stands in for that: [K, B] u64, for tests. */
    const uint64_t *words;
    int64_t *index; /* [K, B] out */
    float *weight;  /* [K, B] out, importance weights in (0, 1] */
};

struct dqn_priority_args {
    struct dqn_sampler *sampler;
    size_t batch;                   /* rows an agent (all accumulated batches together) */
    const struct dqn_agent *agents; /* [K]: alpha, priority_epsilon, priority_max */
    struct dqn_counters *counters;  /* [K]: priority_nan, priority_inf */
    const struct dqn_ring *ring;
    const int64_t *index; /* [K, B] */
    const float *td;      /* [K, B] raw TD errors */
    const uint32_t *ok;   /* [K]: 0 = the update was skipped, write nothing */
    float *priorities;    /* [K, N] in, out */
    float *priority_seen; /* [K] running maximum of finite updates */
};

struct dqn_inserted_args {
    struct dqn_sampler *sampler;
    size_t count;            /* rows an agent */
    struct dqn_ring *ring;   /* [1] in: where they went; out: moved by count */
    const float *priorities; /* [K, N] */
};

struct dqn_rebuild_args {
    struct dqn_sampler *sampler;
    const struct dqn_ring *ring;
    const float *priorities; /* [K, N] */
};

struct dqn_sampler_ops {
    /* Registers the sampler's buffers (names "sampler/...") and makes its host part. */
    enum dqn_status (*create)(const struct dqn_device *device, struct dqn_arena *arena,
                              const struct dqn_sampler_spec *spec, struct dqn_sampler **out);
    void (*destroy)(struct dqn_sampler *sampler);
    /* After the arena's commit: fills tables (may wait; called once). */
    enum dqn_status (*prepare)(struct dqn_sampler *sampler, struct dqn_queue *q);
    enum dqn_status (*draw)(struct dqn_queue *q, const struct dqn_draw_args *args);
    /* Priorities from TD errors (the rules are in shared/priority.h), scattered into column, sums.
     */
    enum dqn_status (*update)(struct dqn_queue *q, const struct dqn_priority_args *args);
    /* Takes rows [cursor, cursor + count) mod N into the sums, then moves the ring. */
    enum dqn_status (*inserted)(struct dqn_queue *q, const struct dqn_inserted_args *args);
    /* Rebuilds the sums from the priorities, after a load. What cannot be derived (the order of a
     * rank sampler with rank_interval > 1) is in saved buffers and stays. */
    enum dqn_status (*rebuild)(struct dqn_queue *q, const struct dqn_rebuild_args *args);
    /* NULL, or a draw that may gather the rows in the same go; *gathered says whether it did. The
     * results are those of draw, then gather with gather.index = draw.index. See dqn_draw. */
    enum dqn_status (*draw_gather)(struct dqn_queue *q, const struct dqn_draw_args *draw,
                                   const struct dqn_gather_args *gather, bool *gathered);
};

/* sampler.draw_gather, or where there is none draw: what is not *gathered is the caller's to
 * gather. */
enum dqn_status dqn_draw(struct dqn_queue *q, const struct dqn_draw_args *draw,
                         const struct dqn_gather_args *gather, bool *gathered);

/* One step of the collector, as the operations that it consists of: forward, act, step, nstep, and
 * where rows leave the windows insert and inserted. Replay and collector are on one device. */
struct dqn_collect_args {
    struct dqn_forward_args forward;
    struct dqn_act_args act;
    struct dqn_env_args env;
    struct dqn_nstep_args nstep;
    bool emit; /* rows leave the windows: n steps were taken, this one counted */
    struct dqn_insert_args insert;
    struct dqn_inserted_args inserted;
};

/* One update of the learner, as the operations that it consists of: draw, gather, forward passes
 * (at s online, at s' target, at s' online for double DQN), TD errors, backward, apply, priorities.
 * Replay and learner are on one device. */
struct dqn_update_args {
    struct dqn_draw_args draw;
    struct dqn_gather_args gather;
    struct dqn_td_args td;
    struct dqn_backward_args backward;
    struct dqn_apply_args apply;
    struct dqn_priority_args priority;
};

/* ---- the registry --------------------------------------------------------------------------- */

struct dqn_backend {
    const char *name;
    const struct dqn_memory_ops *memory;
    const struct dqn_queue_ops *queue;
    const struct dqn_nn_ops *nn;
    const struct dqn_env_ops *env;
    const struct dqn_replay_ops *replay;
    const struct dqn_sampler_ops *sampler;
    /* "OpenBLAS 0.3.21": its libraries, without opening a device. */
    const char *(*versions)(char *text, size_t size);
};

/* What a queue starts with in both backends. */
struct dqn_queue {
    const struct dqn_device *device;
    bool capturing; /* kept by program.c: what is enqueued is recorded and does not run */
};

/* "cpu" always; "cuda" where built in, else NULL. */
const struct dqn_backend *dqn_backend_find(const char *name);
/* The same; DQN_ERR_DEVICE when this build has no such backend. */
enum dqn_status dqn_backend_need(const char *name, const struct dqn_backend **out);

/* Waits of the calling thread since its start, over all queues, and the seconds it spent in them.
 */
uint64_t dqn_queue_waits(void);
double dqn_queue_waited_s(void);
/* Called by a backend's wait, when it is over. */
void dqn_queue_count_wait(double seconds);

/* Bytes of one lane's state and of the parameter struct of an environment. */
size_t dqn_env_state_bytes(enum dqn_env_id env);
size_t dqn_env_params_bytes(enum dqn_env_id env);
size_t dqn_env_observations(enum dqn_env_id env);
size_t dqn_env_actions(enum dqn_env_id env);
uint64_t dqn_env_step_limit(enum dqn_env_id env);
const char *dqn_env_name(enum dqn_env_id env);
/* Fills params (dqn_env_params_bytes) with the environment's defaults. */
void dqn_env_default_params(enum dqn_env_id env, void *params);

#endif
