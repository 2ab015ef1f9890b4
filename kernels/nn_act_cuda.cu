/* Initial parameters and epsilon-greedy actions: what draws random numbers. */
#include "act_cuda.cuh"
#include "nn_cuda.cuh"

enum { THREADS = 256, SHARED_ACTIONS = 4096 /* counted in shared memory up to here */ };

/* ---- init ---- */

/* One layer of all agents. Element i of the dense [out, in] matrix is word i % 2 of block i / 2 of
 * the layer's stream. Grid: (W and b) / 256, K; block 256; no shared memory. Bound by arithmetic.
 */
static __global__ void k_init_layer(const struct dqn_agent *__restrict__ agents,
                                    struct dqn_layer layer, uint64_t stream, double bound,
                                    size_t n_params, float *__restrict__ params) {
    const size_t agent = blockIdx.y, n_weights = layer.out_ld * layer.in_ld;
    const uint64_t seed = agents[agent].seed;
    float *block = params + agent * n_params;
    for (size_t i = dqn_grid_first(); i < n_weights + layer.out_ld; i += dqn_grid_stride()) {
        if (i >= n_weights) {
            block[layer.bias + (i - n_weights)] = 0.0f;
            continue;
        }
        const size_t row = i / layer.in_ld, column = i % layer.in_ld;
        float weight = 0.0f;
        if (row < layer.out && column < layer.in) {
            const uint64_t element = (uint64_t)row * layer.in + column;
            const struct dqn_u32x4 words = dqn_cuda_rng_block(seed, stream, element / 2);
            const uint64_t word = element % 2 == 0 ? dqn_rng_u64(words, 0) : dqn_rng_u64(words, 1);
            weight = (float)((2.0 * dqn_rng_unit(word) - 1.0) * bound);
        }
        block[layer.weight + i] = weight;
    }
}

/* Bounds: sqrt(6 / in) (He et al. 2015, equation 14) in front of ReLU and its kin,
 * sqrt(6 / (in + out)) (Glorot and Bengio 2010, equation 16) elsewhere. */
enum dqn_status dqn_cuda_init(struct dqn_queue *q, const struct dqn_init_args *args) {
    const struct dqn_net *net = args->net;
    for (size_t l = 0; l < net->n_layers; l++) {
        const struct dqn_layer *layer = &net->layer[l];
        const bool glorot = layer->activation == DQN_TANH || layer->activation == DQN_LINEAR;
        const double fan = (double)(glorot ? layer->in + layer->out : layer->in);
        const size_t n = layer->out_ld * (layer->in_ld + 1);
        const dim3 grid(dqn_cuda_blocks(n, THREADS), (unsigned)args->n_agents);
        k_init_layer<<<grid, THREADS, 0, dqn_cuda_stream(q)>>>(
            args->agents, *layer, dqn_rng_stream(DQN_RNG_INIT, l), sqrt(6.0 / fan), net->n_params,
            args->params);
        DQN_LAUNCHED(k_init_layer);
    }
    return DQN_OK;
}

/* ---- act ---- */

/* LANES lanes a row. Grid: lanes / (256 / LANES) up to 1024, K; block 256; a count an action in
 * shared memory where `counts` says so. Bound by latency, with many lanes by memory (Q read once).
 */
template <int LANES> static __global__ void k_act(struct dqn_act_args args, bool counts) {
    extern __shared__ unsigned count[];
    const size_t agent = blockIdx.y, rows_a_block = blockDim.x / LANES;
    const double epsilon = dqn_cuda_epsilon(&args, agent);
    if (counts) {
        for (size_t a = threadIdx.x; a < args.actions; a += blockDim.x) {
            count[a] = 0;
        }
        __syncthreads();
    }
    for (size_t base = blockIdx.x * rows_a_block; base < args.lanes;
         base += gridDim.x * rows_a_block) {
        const bool active = base + threadIdx.x / LANES < args.lanes;
        const size_t lane = active ? base + threadIdx.x / LANES : base;
        const float *q = args.q + (agent * args.lanes + lane) * args.actions_ld;
        const uint32_t greedy = dqn_group_argmax<LANES>(q, args.actions).index;
        if (!active || threadIdx.x % LANES != 0) {
            continue;
        }
        const uint32_t explored = dqn_cuda_explore(&args, agent, lane, epsilon);
        const uint32_t action = explored == DQN_GREEDY ? greedy : explored;
        args.action[agent * args.lanes + lane] = action;
        if (counts) {
            atomicAdd(&count[action], 1u);
        } else if (args.histogram != NULL) {
            atomicAdd((unsigned long long *)&args.histogram[agent * args.actions + action], 1ull);
        }
    }
    if (counts) {
        __syncthreads();
        dqn_cuda_add_counts(&args, agent, count);
    }
}

template <int LANES>
static void launch_act(cudaStream_t stream, const struct dqn_act_args *args, bool counts) {
    const dim3 grid(dqn_cuda_blocks(args->lanes, THREADS / LANES, 1024), (unsigned)args->n_agents);
    const size_t bytes = counts ? args->actions * sizeof(unsigned) : 0;
    k_act<LANES><<<grid, THREADS, bytes, stream>>>(*args, counts);
}

enum dqn_status dqn_cuda_act(struct dqn_queue *q, const struct dqn_act_args *args) {
    const bool counts = args->histogram != NULL && args->actions <= SHARED_ACTIONS;
    const cudaStream_t stream = dqn_cuda_stream(q);
    if (args->actions <= 4) {
        launch_act<4>(stream, args, counts);
    } else if (args->actions <= 8) {
        launch_act<8>(stream, args, counts);
    } else if (args->actions <= 16) {
        launch_act<16>(stream, args, counts);
    } else {
        launch_act<32>(stream, args, counts);
    }
    DQN_LAUNCHED(k_act);
    return DQN_OK;
}
