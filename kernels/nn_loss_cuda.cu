/* TD errors, the derivative of the loss, and the statistics of a batch: rows to sums a block, then
 * each agent's blocks to its statistics by the last of them, both in a fixed order. */
#include "../src/shared/schedule.h"
#include "../src/shared/td.h"
#include "argmax_cuda.cuh"
#include "nn_cuda.cuh"

enum { THREADS = 256, MAX_BLOCKS = 512 /* an agent */ };

/* Sums over a block's rows. */
struct td_sums {
    double loss, q_mean, q_max, td_abs, td_abs_max, weight_min;
};

enum { SUMS_DOUBLES = sizeof(struct td_sums) / sizeof(double) };

static __device__ __forceinline__ struct td_sums no_rows(void) {
    struct td_sums sums;
    sums.loss = sums.q_mean = sums.q_max = sums.td_abs = sums.td_abs_max = 0.0;
    sums.weight_min = INFINITY;
    return sums;
}

/* Joins the sums of all threads of the block; every thread gets them. */
static __device__ struct td_sums join_block(struct td_sums mine) {
    __shared__ double shared[DQN_WARP];
    __shared__ double largest[DQN_WARP], smallest[DQN_WARP];
    const unsigned lane = threadIdx.x % DQN_WARP, warp = threadIdx.x / DQN_WARP;
    struct td_sums sums;
    sums.loss = dqn_block_sum(mine.loss, shared);
    sums.q_mean = dqn_block_sum(mine.q_mean, shared);
    sums.q_max = dqn_block_sum(mine.q_max, shared);
    sums.td_abs = dqn_block_sum(mine.td_abs, shared);
    const double high = dqn_warp_max(mine.td_abs_max), low = dqn_warp_min(mine.weight_min);
    if (lane == 0) {
        largest[warp] = high;
        smallest[warp] = low;
    }
    __syncthreads();
    const bool used = lane < blockDim.x / DQN_WARP;
    sums.td_abs_max = dqn_warp_max(used ? largest[lane] : 0.0);
    sums.weight_min = dqn_warp_min(used ? smallest[lane] : (double)INFINITY);
    return sums;
}

/* An agent's statistics from the sums of its blocks, by one block. */
static __device__ void report_batch(const struct dqn_td_args &args, size_t agent, size_t n_blocks,
                                    const struct td_sums *from) {
    struct td_sums sums = no_rows();
    for (size_t i = threadIdx.x; i < n_blocks; i += blockDim.x) {
        const double *part = (const double *)&from[i];
        sums.loss += __ldcg(&part[0]);
        sums.q_mean += __ldcg(&part[1]);
        sums.q_max += __ldcg(&part[2]);
        sums.td_abs += __ldcg(&part[3]);
        sums.td_abs_max = fmax(sums.td_abs_max, __ldcg(&part[4]));
        sums.weight_min = fmin(sums.weight_min, __ldcg(&part[5]));
    }
    sums = join_block(sums);
    if (threadIdx.x != 0) {
        return;
    }
    const double n = (double)args.batch;
    struct dqn_step_stats stats;
    if (args.accumulate) {
        stats = args.batch_stats[agent];
    } else {
        memset(&stats, 0, sizeof stats);
    }
    stats.rows += n;
    stats.loss += sums.loss / n;
    stats.q_mean += sums.q_mean / n;
    stats.q_max += sums.q_max / n;
    stats.td_abs += sums.td_abs / n;
    stats.weight_min += sums.weight_min;
    stats.beta += dqn_schedule_beta(&args.agents[agent], args.counters[agent].updates);
    stats.td_abs_max = fmax(stats.td_abs_max, sums.td_abs_max);
    args.batch_stats[agent] = stats;
}

/* LANES lanes a row. Grid: rows / (256 / LANES) up to 512, agents; block 256; 0.8 KB shared. Bound
 * by latency: three short rows are read, one is written. The agent's last block reports. */
template <int LANES>
static __global__ void k_td_rows(struct dqn_td_args args, size_t first_agent,
                                 struct td_sums *__restrict__ out, unsigned *tickets) {
    const size_t agent = first_agent + blockIdx.y;
    const double delta = args.agents[agent].huber_delta;
    const size_t rows_a_block = blockDim.x / LANES, lane = threadIdx.x % LANES;
    struct td_sums sums = no_rows();
    /* the same number of rounds in all threads: shuffles need whole warps */
    for (size_t base = blockIdx.x * rows_a_block; base < args.batch;
         base += gridDim.x * rows_a_block) {
        const bool active = base + threadIdx.x / LANES < args.batch;
        const size_t row = agent * args.batch + (active ? base + threadIdx.x / LANES : base);
        const float *q = args.q + row * args.actions_ld;
        const float *target = args.q_next_target + row * args.actions_ld;
        const float *chooser =
            args.q_next_online != NULL ? args.q_next_online + row * args.actions_ld : target;
        const uint32_t action = args.action[row];
        const float weight = args.weight[row];
        const struct dqn_best next = dqn_group_argmax<LANES>(chooser, args.actions);
        const struct dqn_best here = dqn_group_argmax<LANES>(q, args.actions);
        /* an action that does not exist makes the loss NaN, which skips the update */
        const float value = action < args.actions ? q[action] : NAN;
        const float y =
            dqn_td_target(args.reward[row], args.discount[row], args.done[row], target[next.index]);
        const float td = y - value;
        const float slope = -args.grad_scale * weight * dqn_td_slope(td, delta);
        if (!active) {
            continue;
        }
        for (size_t a = lane; a < args.actions_ld; a += LANES) {
            args.dq[row * args.actions_ld + a] = a == action ? slope : 0.0f;
        }
        if (lane == 0) {
            const double size = fabs((double)td);
            args.td[row] = td;
            sums.loss += (double)weight * dqn_td_loss(td, delta);
            sums.q_mean += (double)value;
            sums.q_max += (double)here.value;
            sums.td_abs += size;
            sums.td_abs_max = fmax(sums.td_abs_max, size);
            sums.weight_min = fmin(sums.weight_min, (double)weight);
        }
    }
    sums = join_block(sums);
    struct td_sums *own = out + (size_t)blockIdx.y * gridDim.x;
    if (threadIdx.x == 0) {
        own[blockIdx.x] = sums;
    }
    if (dqn_cuda_last_block(tickets + agent, gridDim.x)) {
        report_batch(args, agent, gridDim.x, own);
    }
}

/* Lanes a row: enough for its actions, so that small action sets leave no lane idle. */
static unsigned lanes_of(size_t actions) {
    return actions <= 4 ? 4 : actions <= 8 ? 8 : actions <= 16 ? 16 : 32;
}

static void launch_rows(unsigned lanes, dim3 grid, cudaStream_t stream,
                        const struct dqn_td_args *args, size_t first, struct td_sums *out,
                        unsigned *tickets) {
    switch (lanes) {
    case 4:
        k_td_rows<4><<<grid, THREADS, 0, stream>>>(*args, first, out, tickets);
        break;
    case 8:
        k_td_rows<8><<<grid, THREADS, 0, stream>>>(*args, first, out, tickets);
        break;
    case 16:
        k_td_rows<16><<<grid, THREADS, 0, stream>>>(*args, first, out, tickets);
        break;
    default:
        k_td_rows<32><<<grid, THREADS, 0, stream>>>(*args, first, out, tickets);
        break;
    }
}

/* The number of blocks depends on the batch alone, so that an agent's sums do not depend on the
 * population; agents take turns on the queue's scratch where they do not fit in it together. */
enum dqn_status dqn_cuda_td(struct dqn_queue *base, const struct dqn_td_args *args) {
    struct dqn_cuda_queue *q = dqn_cuda_queue_of(base);
    const unsigned lanes = lanes_of(args->actions);
    const unsigned blocks = dqn_cuda_blocks(args->batch, THREADS / lanes, MAX_BLOCKS);
    const size_t turn = DQN_CUDA_SCRATCH / SUMS_DOUBLES / blocks;
    struct td_sums *sums = (struct td_sums *)q->scratch;
    const cudaStream_t stream = dqn_cuda_stream(base);
    for (size_t first = 0; first < args->n_agents; first += turn) {
        const size_t left = args->n_agents - first;
        const unsigned n = (unsigned)(left < turn ? left : turn);
        launch_rows(lanes, dim3(blocks, n), stream, args, first, sums, q->tickets);
        DQN_LAUNCHED(k_td_rows);
    }
    return DQN_OK;
}
