/* Activations and their derivatives, one element at a time. */
#ifndef DQN_KERNELS_ACTIVATION_CUDA_CUH
#define DQN_KERNELS_ACTIVATION_CUDA_CUH

#include "cuda_common.cuh"

static __device__ __forceinline__ float dqn_activate(enum dqn_activation activation, float z) {
    switch (activation) {
    case DQN_RELU:
        return z < 0.0f ? 0.0f : z; /* NaN stays */
    case DQN_TANH:
        return tanhf(z);
    case DQN_ELU:
        return z > 0.0f ? z : expm1f(z);
    case DQN_SILU:
        return z * (1.0f / (1.0f + expf(-z)));
    default:
        return z;
    }
}

/* From the output y, for SiLU from the preactivation. */
static __device__ __forceinline__ float dqn_slope(enum dqn_activation activation, float from) {
    switch (activation) {
    case DQN_RELU:
        return from > 0.0f ? 1.0f : 0.0f;
    case DQN_TANH:
        return 1.0f - from * from;
    case DQN_ELU:
        return from > 0.0f ? 1.0f : from + 1.0f;
    case DQN_SILU: {
        const float s = 1.0f / (1.0f + expf(-from));
        return s * (1.0f + from * (1.0f - s));
    }
    default:
        return 1.0f;
    }
}

#endif
