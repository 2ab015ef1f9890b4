/* Rows of the replay and of batches, copied by a warp. */
#ifndef DQN_KERNELS_REPLAY_CUDA_CUH
#define DQN_KERNELS_REPLAY_CUDA_CUH

#include "cuda_common.cuh"

/* Two rows of n floats at once, zeros from n up to ld. All reads of 64 columns are under way before
 * the first write, which the compiler could not do by itself: the arrays might overlap. */
static __device__ __forceinline__ void dqn_cuda_copy_rows(float *to, const float *from,
                                                          float *to_next, const float *from_next,
                                                          size_t n, size_t ld) {
    for (size_t base = threadIdx.x % DQN_WARP; base < ld; base += 2 * DQN_WARP) {
        const size_t next = base + DQN_WARP;
        const float a = base < n ? from[base] : 0.0f, b = base < n ? from_next[base] : 0.0f;
        const float c = next < n ? from[next] : 0.0f, d = next < n ? from_next[next] : 0.0f;
        to[base] = a;
        to_next[base] = b;
        if (next < ld) {
            to[next] = c;
            to_next[next] = d;
        }
    }
}

/* Row `from` of agent k into row b of the batch. */
static __device__ __forceinline__ void dqn_cuda_gather_row(const struct dqn_gather_args *a,
                                                           size_t k, size_t b, size_t from) {
    const size_t to = k * a->batch + b, at = k * a->capacity + from;
    uint32_t action = 0;
    float reward = 0.0f, discount = 0.0f;
    uint8_t done = 0;
    if (threadIdx.x % DQN_WARP == 0) {
        action = a->rows.actions[at];
        reward = a->rows.rewards[at];
        discount = a->rows.discounts[at];
        done = a->rows.dones[at];
    }
    dqn_cuda_copy_rows(a->state + to * a->obs_ld, a->rows.states + at * a->obs,
                       a->next + to * a->obs_ld, a->rows.next_states + at * a->obs, a->obs,
                       a->obs_ld);
    if (threadIdx.x % DQN_WARP == 0) {
        a->action[to] = action;
        a->reward[to] = reward;
        a->discount[to] = discount;
        a->done[to] = done;
    }
}

#endif
