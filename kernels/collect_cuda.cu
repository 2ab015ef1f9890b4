/* A collector's step in two kernels: the policy's pass with the actions from it (nn_tile_cuda.cu;
 * other networks take more), and the environments with all that their transitions lead to
 * (env_cuda.cu, collect_cuda.cuh). Where CUDA refuses the second one (DQN_ERR_REFUSED) the actions
 * were taken and counted, and nothing else was done; the first one fails with DQN_ERR_DEVICE. */
#include "collect_cuda.cuh"
#include "nn_cuda.cuh"

static void fill_tail(struct dqn_tail *to, const struct dqn_collect_args *args) {
    const struct dqn_sampler *sampler = args->inserted.sampler;
    memset(to, 0, sizeof *to);
    to->present = true;
    to->emits = args->emit;
    to->window = args->nstep;
    to->insert = args->insert;
    to->shape = sampler->shape;
    to->sums = sampler->sums != NULL ? (uint64_t *)sampler->sums->data : NULL;
    to->counters = args->env.counters;
    to->ticket = (unsigned *)sampler->tickets->data + sampler->spec.n_agents;
}

enum dqn_status dqn_cuda_collect(struct dqn_queue *q, const struct dqn_collect_args *args,
                                 bool *done) {
    struct dqn_tail tail;
    *done = !dqn_cuda_is_composed();
    if (!*done) {
        return DQN_OK;
    }
    fill_tail(&tail, args);
    DQN_TRY(dqn_cuda_policy(q, &args->forward, &args->act));
    return dqn_cuda_step_lanes(q, &args->env, &tail);
}
