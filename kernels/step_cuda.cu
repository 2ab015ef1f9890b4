/* When a step takes its two kernels, and what they are told; see step_cuda.cuh. */
#include "step_cuda.cuh"

/* The workspace, in bytes from its start. */
struct step_space {
    size_t parts, squares, plans, decisions;
    size_t bytes;
};

static size_t count_parts(size_t batch) {
    return (batch + DQN_STEP_ROWS - 1) / DQN_STEP_ROWS;
}

static struct step_space layout(const struct dqn_net *net, size_t n_agents, size_t batch) {
    struct step_space space;
    space.parts = 0;
    space.squares =
        dqn_nn_align(space.parts + n_agents * count_parts(batch) * sizeof(struct dqn_step_part));
    space.plans =
        dqn_nn_align(space.squares + n_agents * dqn_step_weight_blocks(net) * sizeof(double));
    space.decisions = dqn_nn_align(space.plans + n_agents * sizeof(struct dqn_step_plan));
    space.bytes = dqn_nn_align(space.decisions + n_agents * sizeof(struct dqn_adam_step));
    return space;
}

size_t dqn_step_bytes(const struct dqn_net *net, size_t n_agents, size_t batch) {
    return layout(net, n_agents, batch).bytes;
}

/* Draws that a cluster can do by itself: the weights of a batch, which its smallest mass alone
 * scales. */
static bool serves_sampler(const struct dqn_sampler_spec *spec) {
    return spec->kind == DQN_REPLAY_UNIFORM ||
           (spec->kind == DQN_REPLAY_PROPORTIONAL && spec->sums == DQN_SUMS_TREE &&
            spec->weight_norm != DQN_WEIGHT_NORM_BUFFER);
}

/* bf16 where tf32 is known to be faster than a library's bf16. */
static bool serves_precision(int precision, const struct dqn_net *net) {
    return precision != DQN_PRECISION_BF16 || net->n_params <= DQN_TILE_MOST_PARAMS;
}

static bool serves(const struct dqn_cuda_queue *q, const struct dqn_update_args *args) {
    int major = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, q->device->index);
    return major >= 9 && serves_precision(q->device->precision, args->backward.net) &&
           args->backward.net->n_layers <= DQN_TILE_LAYERS &&
           args->td.batch <= DQN_STEP_MOST_ROWS && serves_sampler(&args->draw.sampler->spec) &&
           args->apply.n_batches == 1 && !args->td.accumulate && !dqn_cuda_is_composed();
}

static void fill_step(struct dqn_step *to, struct dqn_cuda_queue *q,
                      const struct dqn_update_args *args, float *const dz[DQN_MAX_LAYERS],
                      char *workspace) {
    const struct dqn_sampler *sampler = args->draw.sampler;
    const struct dqn_net *net = args->backward.net;
    const struct step_space space = layout(net, args->td.n_agents, args->td.batch);
    memset(to, 0, sizeof *to);
    to->net = dqn_tile_net_of(net);
    to->n_agents = args->td.n_agents;
    to->batch = args->td.batch;
    to->obs = args->gather.obs;
    to->capacity = args->gather.capacity;
    to->double_q = args->td.q_next_online != NULL;
    to->proportional = sampler->spec.kind == DQN_REPLAY_PROPORTIONAL;
    to->stratified = sampler->spec.stratified;
    to->grad_scale = args->td.grad_scale;
    to->max_nonfinite = args->apply.max_nonfinite;
    to->agents = args->apply.agents;
    to->counters = args->apply.counters;
    to->rows = args->gather.rows;
    to->ring = args->draw.ring;
    to->shape = sampler->shape;
    to->sums = sampler->sums != NULL ? (uint64_t *)sampler->sums->data : NULL;
    to->words = args->draw.words;
    to->priority_seen = args->priority.priority_seen;
    to->index = args->draw.index;
    to->state = args->gather.state;
    to->td = args->td.td;
    to->acts = (float *)args->backward.acts;
    for (size_t l = 0; l < net->n_layers; l++) {
        to->dz[l] = dz[l];
    }
    to->parts = (struct dqn_step_part *)(workspace + space.parts);
    to->n_parts = (unsigned)count_parts(to->batch);
    to->squares = (double *)(workspace + space.squares);
    to->plans = (struct dqn_step_plan *)(workspace + space.plans);
    to->decisions = (struct dqn_adam_step *)(workspace + space.decisions);
    to->tickets = q->tickets;
    to->grads = args->backward.grads;
    to->params = args->apply.params;
    to->target = args->apply.target;
    to->moment1 = args->apply.moment1;
    to->moment2 = args->apply.moment2;
    to->stats = args->apply.stats;
    to->ok = args->apply.ok;
}

enum dqn_status dqn_step_update(struct dqn_cuda_queue *q, const struct dqn_update_args *args,
                                float *const dz[DQN_MAX_LAYERS], void *space, bool *done) {
    struct dqn_step step;
    bool rows = false, weights = false;
    *done = false;
    if (!serves(q, args)) {
        return DQN_OK;
    }
    fill_step(&step, q, args, dz, (char *)space);
    DQN_TRY(dqn_step_plan_rows(q, &step, &rows));
    DQN_TRY(dqn_step_plan_weights(q, &step, &weights));
    if (!rows || !weights) {
        return DQN_OK;
    }
    (void)dqn_cuda_stream(&q->base); /* joins what was left running */
    DQN_TRY(dqn_step_launch_rows(q, &step));
    DQN_TRY(dqn_step_launch_weights(q, &step));
    *done = true;
    return DQN_OK;
}
