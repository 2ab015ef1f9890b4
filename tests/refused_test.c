/* Updates and collectors' steps that a device does at once, and one day refuses: they go on
 * operation by operation, and nothing is lost or counted twice. The CPU backend stands in for such
 * a device: here it has nn.update and env.collect, made of its operations, and captures programs as
 * lists of calls. tests/cuda_fallback_test.c has the same on a GPU. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "h5_compare.h"
#include "recorded_backend.h"
#include "replay_parts.h"
#include "run_fixture.h"
#include "status_checks.h"
#include "trainer_parts.h"

/* ---- what is done at once -----------------------------------------------------------------------
 */

enum part { UPDATE, COLLECT };
enum moment {
    NEVER,
    FIRST,         /* the first time that it is asked for */
    CAPTURED,      /* the first time inside a capture */
    AFTER_CAPTURE, /* when it is asked for outside of one, and programs were captured already */
    AFTERWARDS     /* at the first time, after it took effect, as an error of another kind */
};

static struct {
    enum part part;
    enum moment moment;
    bool happened;
    size_t n_done[2];  /* updates and steps done at once, launches of captured ones counted */
    size_t n_then;     /* of the part that was refused, when it was */
    size_t n_captured; /* programs captured by then */
    size_t bad_replay; /* the at-th priority update by itself fails; 0 = none */
    size_t n_priority;
    enum { PROGRAMS_RUN, BEGIN_FAILS, END_FAILS, LAUNCH_FAILS, N_PROGRAM_FAULTS } program;
} refusal;

static bool refuses(const struct dqn_queue *q, enum part part) {
    const bool now = refusal.moment == FIRST || (refusal.moment == CAPTURED && q->capturing) ||
                     (refusal.moment == AFTER_CAPTURE && !q->capturing && recorded.n_captured > 0);
    cr_expect(!refusal.happened || part != refusal.part || refusal.moment == AFTERWARDS,
              "it is not asked for again");
    if (part != refusal.part || !now) {
        return false;
    }
    refusal.happened = true;
    refusal.n_then = refusal.n_done[part];
    refusal.n_captured = recorded.n_captured;
    return true;
}

static enum dqn_status pass(struct dqn_queue *q, const struct dqn_update_args *a,
                            const float *params, const float *x, float *acts, const float *out) {
    const struct dqn_forward_args args = {.net = a->backward.net,
                                          .n_agents = a->td.n_agents,
                                          .batch = a->td.batch,
                                          .params = params,
                                          .x = x,
                                          .acts = acts,
                                          .q = (float *)out};
    return recorded.real->nn->forward(q, &args);
}

static enum dqn_status do_update(struct dqn_queue *q, const void *args) {
    const struct dqn_update_args *a = args;
    float *scratch = calloc(a->td.n_agents * a->td.batch * a->backward.net->act_floats, 4);
    OK(recorded.real->sampler->draw(q, &a->draw));
    OK(recorded.real->replay->gather(q, &a->gather));
    OK(pass(q, a, a->apply.params, a->gather.state, (float *)a->backward.acts, a->td.q));
    OK(pass(q, a, a->apply.target, a->gather.next, scratch, a->td.q_next_target));
    if (a->td.q_next_online != NULL) {
        OK(pass(q, a, a->apply.params, a->gather.next, scratch, a->td.q_next_online));
    }
    OK(recorded.real->nn->td(q, &a->td));
    OK(recorded.real->nn->backward(q, &a->backward));
    OK(recorded.real->nn->apply(q, &a->apply));
    OK(recorded.real->sampler->update(q, &a->priority));
    free(scratch);
    refusal.n_done[UPDATE]++;
    return DQN_OK;
}

static enum dqn_status update_at_once(struct dqn_queue *q, const struct dqn_update_args *args,
                                      bool *done) {
    *done = true; /* also where it fails: it is the status that counts */
    if (refuses(q, UPDATE)) {
        memset(args->gather.state, 0xff, args->td.n_agents * args->td.batch * 4);
        memset(args->td.td, 0xff, args->td.n_agents * args->td.batch * sizeof(float));
        return dqn_fail(DQN_ERR_REFUSED, "kernel k_whole_update: refused by the test");
    }
    DQN_TRY(recorded_take(q, do_update, args, sizeof *args));
    return refusal.moment == AFTERWARDS && refusal.part == UPDATE
               ? dqn_fail(DQN_ERR_DEVICE, "kernel k_whole_update: fails by the test")
               : DQN_OK;
}

static enum dqn_status do_actions(struct dqn_queue *q, const void *args) {
    const struct dqn_collect_args *a = args;
    OK(recorded.real->nn->forward(q, &a->forward));
    return recorded.real->nn->act(q, &a->act);
}

static enum dqn_status do_collect(struct dqn_queue *q, const void *args) {
    const struct dqn_collect_args *a = args;
    OK(do_actions(q, args));
    OK(recorded.real->env->step(q, &a->env));
    OK(recorded.real->env->nstep(q, &a->nstep));
    if (a->emit) {
        struct dqn_insert_args insert = a->insert;
        insert.row_state = a->nstep.row_state;
        insert.row_next = a->nstep.row_next;
        insert.row_action = a->nstep.row_action;
        insert.row_reward = a->nstep.row_reward;
        insert.row_discount = a->nstep.row_discount;
        insert.row_done = a->nstep.row_done;
        OK(recorded.real->replay->insert(q, &insert));
        OK(recorded.real->sampler->inserted(q, &a->inserted));
    }
    refusal.n_done[COLLECT]++;
    return DQN_OK;
}

/* A refusal comes after the actions, which were taken and counted. */
static enum dqn_status collect_at_once(struct dqn_queue *q, const struct dqn_collect_args *args,
                                       bool *done) {
    *done = true;
    if (refuses(q, COLLECT)) {
        OK(recorded_take(q, do_actions, args, sizeof *args));
        return dqn_fail(DQN_ERR_REFUSED, "kernel k_whole_step: refused by the test");
    }
    DQN_TRY(recorded_take(q, do_collect, args, sizeof *args));
    return refusal.moment == AFTERWARDS && refusal.part == COLLECT
               ? dqn_fail(DQN_ERR_DEVICE, "kernel k_whole_step: fails by the test")
               : DQN_OK;
}

/* The operation by itself, of a composed update. */
static enum dqn_status update_priorities(struct dqn_queue *q,
                                         const struct dqn_priority_args *args) {
    if (++refusal.n_priority == refusal.bad_replay) {
        return dqn_fail(DQN_ERR_DEVICE, "kernel k_update: broken by the test");
    }
    return recorded_update(q, args);
}

static enum dqn_status begin_fails(struct dqn_queue *q) {
    (void)q;
    return dqn_fail(DQN_ERR_DEVICE, "a program: broken by the test");
}

static enum dqn_status end_fails(struct dqn_queue *q, struct dqn_graph **out) {
    OK(recorded_capture_end(q, out));
    return begin_fails(q);
}

static enum dqn_status launch_fails(struct dqn_queue *q, struct dqn_graph *graph) {
    (void)graph;
    return begin_fails(q);
}

/* ---- runs ---------------------------------------------------------------------------------------
 */

static void make_backend(void) {
    recorded_make("at once");
    recorded.nn.update = update_at_once;
    recorded.env.collect = collect_at_once;
    recorded.sampler.update = update_priorities;
    if (refusal.program == BEGIN_FAILS) {
        recorded.queue.capture_begin = begin_fails;
    } else if (refusal.program == END_FAILS) {
        recorded.queue.capture_end = end_fails;
    } else if (refusal.program == LAUNCH_FAILS) {
        recorded.queue.graph_launch = launch_fails;
    }
}

/* Also in an epoch in which the replay moved. */
static void times_go_forward(void *context, const double *row) {
    const struct dqn_epoch_times *times = &(*(struct dqn_trainer **)context)->times;
    (void)row;
    cr_expect(times->replay.sample_s >= 0.0 && times->replay.update_s >= 0.0, "%g s, %g s",
              times->replay.sample_s, times->replay.update_s);
}

struct end {
    enum dqn_status status;
    bool composed[2], moved;
};

static struct end train(const char *kind, const char *folder) {
    struct dqn_trainer *t = NULL;
    bool stopped = false;
    const struct dqn_trainer_options options = {
        .folder = folder, .on_epoch = times_go_forward, .context = &t};
    t = recorded_trainer(run_cartpole, kind, options, make_backend, true);
    struct end end = {.status = dqn_trainer_run(t, &stopped)};
    end.composed[UPDATE] = dqn_learner_is_composed(t->learner);
    end.composed[COLLECT] = dqn_collector_is_composed(t->collector);
    end.moved = dqn_replay_device(t->replay) == &t->host_device;
    cr_expect_eq(t->eager, end.moved, "steps are captured unless the replay is apart");
    dqn_trainer_destroy(t);
    return end;
}

static const char *const kinds[] = {"replay.kind=uniform", "replay.kind=proportional",
                                    "replay.kind=rank"};

static void same_end(const char *kind, const char *reference, const char *folder) {
    char why[512];
    cr_expect(h5_equal(run_file(reference, "epoch-000003.h5"), run_file(folder, "epoch-000003.h5"),
                       why, sizeof why),
              "%s, part %d, moment %d: %s", kind, refusal.part, refusal.moment, why);
}

static const char *make_reference(const char *kind) {
    const char *folder = run_folder();
    struct run run = {
        .text = run_cartpole, .overrides = {kind}, .n_overrides = 1, .folder = folder};
    run_train(&run);
    return folder;
}

/* The run goes on by the part's operations and is captured anew; the other part stays as it was. */
static void goes_on(const char *kind, enum part part, enum moment moment, const char *reference) {
    const char *folder = run_folder();
    const enum part other = part == UPDATE ? COLLECT : UPDATE;
    memset(&refusal, 0, sizeof refusal);
    refusal.part = part;
    refusal.moment = moment;
    const struct end end = train(kind, folder);
    cr_assert_eq(end.status, DQN_OK, "%s", dqn_error_text());
    cr_assert(refusal.happened, "part %d, moment %d", part, moment);
    cr_expect(end.composed[part] && !end.composed[other] && !end.moved);
    cr_expect_eq(refusal.n_done[part], refusal.n_then, "programs captured before are not launched");
    cr_expect_eq(refusal.n_then > 0, moment != FIRST);
    cr_expect_gt(refusal.n_done[other], 500);
    cr_expect_gt(recorded.n_captured, refusal.n_captured + 1, "captured anew");
    same_end(kind, reference, folder);
    run_remove(folder);
}

Test(refused, goes_on_operation_by_operation) {
    static const enum moment moments[] = {FIRST, CAPTURED, AFTER_CAPTURE};
    for (size_t kind = 0; kind < DQN_COUNT_OF(kinds); kind++) {
        const char *reference = make_reference(kinds[kind]);
        for (size_t i = 0; i < DQN_COUNT_OF(moments); i++) {
            goes_on(kinds[kind], UPDATE, moments[i], reference);
            goes_on(kinds[kind], COLLECT, moments[i], reference);
        }
        run_remove(reference);
    }
}

/* The stand-in itself: whole updates and steps give the bytes of their operations. */
Test(refused, nothing) {
    const char *reference = make_reference(kinds[1]), *folder = run_folder();
    memset(&refusal, 0, sizeof refusal);
    const struct end end = train(kinds[1], folder);
    cr_assert_eq(end.status, DQN_OK, "%s", dqn_error_text());
    cr_expect(!end.composed[UPDATE] && !end.composed[COLLECT] && !end.moved);
    cr_expect_eq(refusal.n_done[COLLECT], 750);
    cr_expect_eq(refusal.n_priority, 0);
    same_end(kinds[1], reference, folder);
    run_remove(reference);
    run_remove(folder);
}

/* After that an operation of the replay fails, too: it moves to the CPU as ever. */
Test(refused, then_the_replay_moves) {
    static const size_t updates[] = {4, 50}; /* in the first epoch and in the second */
    const char *reference = make_reference(kinds[1]);
    for (size_t i = 0; i < DQN_COUNT_OF(updates); i++) {
        const char *folder = run_folder();
        memset(&refusal, 0, sizeof refusal);
        refusal.moment = FIRST;
        refusal.bad_replay = updates[i];
        const struct end end = train(kinds[1], folder);
        cr_assert_eq(end.status, DQN_OK, "%s", dqn_error_text());
        cr_expect(end.composed[UPDATE] && end.moved);
        same_end(kinds[1], reference, folder);
        run_remove(folder);
    }
    run_remove(reference);
}

/* What fails after it took effect cannot be done again. */
Test(refused, other_errors_end_the_run) {
    static const char *const phase[] = {"update: kernel k_whole_update",
                                        "collect: kernel k_whole_step"};
    for (int part = 0; part < 2; part++) {
        const char *folder = run_folder();
        memset(&refusal, 0, sizeof refusal);
        refusal.part = (enum part)part;
        refusal.moment = AFTERWARDS;
        const struct end end = train(kinds[1], folder);
        cr_expect_eq(end.status, DQN_ERR_DEVICE);
        cr_expect_eq(strstr(dqn_error_text(), phase[part]), dqn_error_text(), "%s",
                     dqn_error_text());
        cr_expect(!end.composed[part] && !end.moved);
        run_remove(folder);
    }
}

/* Errors that are no step's name a phase, too. */
Test(refused, programs_that_fail_end_the_run) {
    for (int fault = BEGIN_FAILS; fault < N_PROGRAM_FAULTS; fault++) {
        const char *folder = run_folder();
        memset(&refusal, 0, sizeof refusal);
        refusal.program = fault;
        const struct end end = train(kinds[1], folder);
        cr_expect_eq(end.status, DQN_ERR_DEVICE);
        cr_expect_str_eq(dqn_error_text(), "collect or update: a program: broken by the test");
        cr_expect(!end.moved);
        run_remove(folder);
    }
}
