/* Activations and their derivatives in float, free of branches and calls, so that loops over them
 * vectorise. Worst errors against libm on [-100, 100] (tests/nn_test.c), in units of the last
 * place: exp 1.0, tanh 2.0, ELU 0.8, SiLU 2.5. NaN goes through. */
#ifndef DQN_CPU_ACTIVATION_CPU_H
#define DQN_CPU_ACTIVATION_CPU_H

#include "../shared/real.h"

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2: returns exp(r) - 1, and 2^n in *scale. exp(r) - 1 is its
 * Taylor polynomial to r^7: the rest is below 6e-9 of it. x is held in [-87, 88], where 2^n is a
 * normal number. */
static inline float dqn_exp_parts(float x, float *scale) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: rounds to an integer, kept in the low bits */
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504f + shift;
    const float n = shifted - shift;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    *scale = dqn_float_from_bits((dqn_float_bits(shifted) + 127u) << 23);
    return r + r * r * p;
}

static inline float dqn_act_exp(float x) {
    float scale;
    const float part = dqn_exp_parts(x, &scale);
    return scale + scale * part;
}

/* exp(x) - 1 without cancellation near 0. */
static inline float dqn_act_expm1(float x) {
    float scale;
    const float part = dqn_exp_parts(x, &scale);
    return scale * part + (scale - 1.0f);
}

static inline float dqn_act_relu(float z) {
    return z < 0.0f ? 0.0f : z;
}

/* tanh |z| = e / (e + 2), e = exp(2 |z|) - 1; beyond 10 it is 1 in float. */
static inline float dqn_act_tanh(float z) {
    const uint32_t sign = dqn_float_bits(z) & 0x80000000u;
    float size = dqn_float_from_bits(dqn_float_bits(z) & 0x7fffffffu);
    size = size > 10.0f ? 10.0f : size;
    const float e = dqn_act_expm1(2.0f * size);
    return dqn_float_from_bits(dqn_float_bits(e / (e + 2.0f)) | sign);
}

/* alpha = 1 (Clevert et al. 2016). */
static inline float dqn_act_elu(float z) {
    const float below = dqn_act_expm1(z);
    return z > 0.0f ? z : below;
}

static inline float dqn_act_sigmoid(float z) {
    return 1.0f / (1.0f + dqn_act_exp(-z));
}

static inline float dqn_act_silu(float z) {
    return z * dqn_act_sigmoid(z);
}

/* Derivatives: from the output y, for SiLU from the preactivation z. */
static inline float dqn_slope_relu(float y) {
    return y > 0.0f ? 1.0f : 0.0f;
}

static inline float dqn_slope_tanh(float y) {
    return 1.0f - y * y;
}

static inline float dqn_slope_elu(float y) {
    return y > 0.0f ? 1.0f : y + 1.0f;
}

static inline float dqn_slope_silu(float z) {
    const float s = dqn_act_sigmoid(z);
    return s * (1.0f + z * (1.0f - s));
}

#endif
