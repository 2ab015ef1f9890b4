/* Elementary functions in double, the same bits on the host and on the device: only + - * /, IEEE
 * square root and bit operations in a fixed order. libm and CUDA's functions differ from each other
 * in the last bit, so nothing that must agree calls them. C is compiled with -ffp-contract=off and
 * nvcc with --fmad=false: a fused multiply-add would change the bits.
 *
 * Methods (errors are measured by tests/real_test.c against long double):
 *  - reduction by splitting a constant into parts whose products with small integers are exact:
 *    Cody and Waite 1980, "Software Manual for the Elementary Functions", chapters 6 to 8;
 *  - exact sums and products of two doubles as pairs: Knuth, TAOCP volume 2, section 4.2.2, theorem
 *    B; Dekker 1971, "A floating-point technique for extending the available precision";
 *  - on the reduced range, Taylor series cut below half a unit of the last place. */
#ifndef DQN_SHARED_REAL_H
#define DQN_SHARED_REAL_H

#include <math.h>
#include <string.h>

#include "hd.h"

#define DQN_PI 3.14159265358979323846
#define DQN_LN2_HIGH 0x1.62e42fef00000p-1 /* 33 bits: exact when multiplied by an exponent */
#define DQN_LN2_LOW 0x1.473de6af278edp-34

/* ---- bits ----------------------------------------------------------------------------------- */

DQN_SHARED uint64_t dqn_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DQN_SHARED double dqn_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DQN_SHARED uint32_t dqn_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DQN_SHARED float dqn_float_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Tests of the bits: they hold under any compiler flags. */
DQN_SHARED int dqn_is_nan(double x) {
    return (dqn_bits(x) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

DQN_SHARED int dqn_is_finite(double x) {
    return (dqn_bits(x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

DQN_SHARED int dqn_float_is_nan(float x) {
    return (dqn_float_bits(x) & 0x7fffffffu) > 0x7f800000u;
}

DQN_SHARED int dqn_float_is_finite(float x) {
    return (dqn_float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

DQN_SHARED double dqn_infinity(void) {
    return dqn_from_bits(0x7ff0000000000000u);
}

DQN_SHARED double dqn_nan(void) {
    return dqn_from_bits(0x7ff8000000000000u);
}

DQN_SHARED double dqn_fabs(double x) {
    return dqn_from_bits(dqn_bits(x) & 0x7fffffffffffffffu);
}

/* The size of x with the sign of y. */
DQN_SHARED double dqn_copysign(double x, double y) {
    return dqn_from_bits((dqn_bits(x) & 0x7fffffffffffffffu) | (dqn_bits(y) & ((uint64_t)1 << 63)));
}

/* ---- comparisons and rounding ---------------------------------------------------------------- */

/* The smaller and the larger of two; where either is NaN, or both are equal, the second. */
DQN_SHARED double dqn_fmin(double a, double b) {
    return a < b ? a : b;
}

DQN_SHARED double dqn_fmax(double a, double b) {
    return a > b ? a : b;
}

/* x moved into [low, high]; NaN stays NaN. */
DQN_SHARED double dqn_clamp(double x, double low, double high) {
    return x < low ? low : (x > high ? high : x);
}

/* To the nearest integer, halves to the even one; the sign of zero is kept. Adding 2^52 leaves no
 * bits for a fraction, so the addition rounds. */
DQN_SHARED double dqn_rint(double x) {
    const double size = dqn_fabs(x);
    if (!(size < 0x1p52)) {
        return x;
    }
    return dqn_copysign((size + 0x1p52) - 0x1p52, x);
}

/* The largest integer not above x. */
DQN_SHARED double dqn_floor(double x) {
    const double nearest = dqn_rint(x);
    return nearest > x ? nearest - 1.0 : nearest;
}

/* IEEE square root, correctly rounded on both sides. */
DQN_SHARED double dqn_sqrt(double x) {
#ifdef __CUDA_ARCH__
    return __dsqrt_rn(x);
#else
    return sqrt(x);
#endif
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* A number as the sum of a double and a much smaller one. */
struct dqn_pair {
    double high, low;
};

/* a + b exactly. */
DQN_SHARED struct dqn_pair dqn_two_sum(double a, double b) {
    struct dqn_pair sum;
    sum.high = a + b;
    const double b_part = sum.high - a;
    sum.low = (a - (sum.high - b_part)) + (b - b_part);
    return sum;
}

/* The upper 26 bits of x, for |x| below 2^995. */
DQN_SHARED double dqn_upper_half(double x) {
    const double scaled = 134217729.0 * x; /* 2^27 + 1 */
    return scaled - (scaled - x);
}

/* a * b exactly, where nothing over- or underflows. */
DQN_SHARED struct dqn_pair dqn_two_product(double a, double b) {
    struct dqn_pair product;
    const double a1 = dqn_upper_half(a), a2 = a - a1;
    const double b1 = dqn_upper_half(b), b2 = b - b1;
    product.high = a * b;
    product.low = ((a1 * b1 - product.high) + a1 * b2 + a2 * b1) + a2 * b2;
    return product;
}

/* Product of two pairs, relative error about 2^-100. */
DQN_SHARED struct dqn_pair dqn_pair_product(struct dqn_pair a, struct dqn_pair b) {
    struct dqn_pair product = dqn_two_product(a.high, b.high);
    product.low += a.high * b.low + a.low * b.high;
    return product;
}

/* ---- exponential ----------------------------------------------------------------------------- */

/* y * 2^n for y in (0.5, 2), n in [-1080, 1025], rounded once. */
DQN_SHARED double dqn_scale2(double y, int n) {
    if (n > 1023) {
        return y * 0x1p1023 * dqn_from_bits((uint64_t)(n - 1023 + 1023) << 52);
    }
    if (n < -1022) {
        return y * dqn_from_bits((uint64_t)(n + 100 + 1023) << 52) * 0x1p-100;
    }
    return y * dqn_from_bits((uint64_t)(n + 1023) << 52);
}

/* x = n ln 2 + reduced pair, |reduced| <= 0.35, for |x.high| <= 746. */
DQN_SHARED struct dqn_pair dqn_exp_reduce(struct dqn_pair x, int *n) {
    const double count = dqn_rint(x.high * 0x1.71547652b82fep+0);
    const double high = x.high - count * DQN_LN2_HIGH; /* exact */
    const double low = count * DQN_LN2_LOW - x.low;
    struct dqn_pair reduced;
    reduced.high = high - low;
    reduced.low = (high - reduced.high) - low;
    *n = (int)count;
    return reduced;
}

/* exp(r) - 1 - r.high for a reduced pair: r^2 (1/2! + r/3! + ... + r^12/14!), and r.low. */
DQN_SHARED double dqn_exp_curve(struct dqn_pair r) {
    const double x = r.high;
    double sum = 1.0 / 87178291200.0;
    sum = sum * x + 1.0 / 6227020800.0;
    sum = sum * x + 1.0 / 479001600.0;
    sum = sum * x + 1.0 / 39916800.0;
    sum = sum * x + 1.0 / 3628800.0;
    sum = sum * x + 1.0 / 362880.0;
    sum = sum * x + 1.0 / 40320.0;
    sum = sum * x + 1.0 / 5040.0;
    sum = sum * x + 1.0 / 720.0;
    sum = sum * x + 1.0 / 120.0;
    sum = sum * x + 1.0 / 24.0;
    sum = sum * x + 1.0 / 6.0;
    sum = sum * x + 0.5;
    return x * x * sum + r.low;
}

/* exp(high + low); overflows to infinity, underflows gradually to 0. */
DQN_SHARED double dqn_exp_pair(struct dqn_pair x) {
    if (dqn_is_nan(x.high)) {
        return x.high;
    }
    if (x.high > 709.79) {
        return dqn_infinity();
    }
    if (x.high < -745.14) {
        return 0.0;
    }
    int n;
    const struct dqn_pair reduced = dqn_exp_reduce(x, &n);
    return dqn_scale2(1.0 + (reduced.high + dqn_exp_curve(reduced)), n);
}

DQN_SHARED double dqn_exp(double x) {
    struct dqn_pair pair;
    pair.high = x;
    pair.low = 0.0;
    return dqn_exp_pair(pair);
}

/* tanh by t = exp(2|x|) - 1: tanh |x| = t / (t + 2), which for a small t = 2|x| + curve is taken as
 * |x| - (|x| t - curve) / (t + 2): there the quotient is the small part. */
DQN_SHARED_ONCE double dqn_tanh(double x) {
    const double size = dqn_fabs(x);
    if (dqn_is_nan(x)) {
        return x;
    }
    if (size >= 20.0) { /* 1 - tanh(20) is below a quarter of the last place of 1 */
        return dqn_copysign(1.0, x);
    }
    struct dqn_pair twice;
    twice.high = 2.0 * size;
    twice.low = 0.0;
    int n;
    const struct dqn_pair reduced = dqn_exp_reduce(twice, &n);
    const double curve = dqn_exp_curve(reduced), rest = reduced.high + curve;
    if (n == 0) {
        return dqn_copysign(size - (size * rest - curve) / (rest + 2.0), x);
    }
    const double scale = dqn_scale2(1.0, n);
    const double t = (scale - 1.0) + scale * rest;
    return dqn_copysign(t / (t + 2.0), x);
}

/* ---- logarithm and power --------------------------------------------------------------------- */

/* x = (1 + f) 2^exponent with 1 + f in [0.707, 1.415), for finite x > 0; returns f, exactly. */
DQN_SHARED double dqn_log_reduce(double x, int *exponent) {
    int shift = 0;
    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        shift = -54;
    }
    const uint64_t bits = dqn_bits(x);
    const uint64_t fraction = bits & 0x000fffffffffffffu;
    /* Above sqrt(2) the upper half takes the next exponent. */
    const int up = fraction > 0x6a09e667f3bcdu;
    *exponent = (int)(bits >> 52) - 1023 + up + shift;
    return dqn_from_bits(fraction | ((uint64_t)(1023 - up) << 52)) - 1.0;
}

/* 2/5 + 2/7 z + 2/9 z^2 + ...: the rest of 2 atanh(s) = 2s + s z (2/3 + z rest), z = s^2 < 0.0295.
 */
DQN_SHARED double dqn_log_rest(double z) {
    double sum = 2.0 / 25.0;
    sum = sum * z + 2.0 / 23.0;
    sum = sum * z + 2.0 / 21.0;
    sum = sum * z + 2.0 / 19.0;
    sum = sum * z + 2.0 / 17.0;
    sum = sum * z + 2.0 / 15.0;
    sum = sum * z + 2.0 / 13.0;
    sum = sum * z + 2.0 / 11.0;
    sum = sum * z + 2.0 / 9.0;
    sum = sum * z + 2.0 / 7.0;
    return sum * z + 2.0 / 5.0;
}

/* Natural logarithm; 0 gives -infinity, negative numbers NaN. With s = f / (2 + f),
 * log(1 + f) = 2 atanh(s), where 2s is written as f - f^2/2 + s f^2/2 so that the largest term is
 * exact. */
DQN_SHARED_ONCE double dqn_log(double x) {
    if (!(x > 0.0)) {
        return x == 0.0 ? -dqn_infinity() : dqn_nan();
    }
    if (!dqn_is_finite(x)) {
        return x;
    }
    int exponent;
    const double f = dqn_log_reduce(x, &exponent);
    const double s = f / (2.0 + f);
    const double z = s * s;
    const double half_square = 0.5 * f * f;
    const double series = z * (2.0 / 3.0 + z * dqn_log_rest(z));
    const double small = s * (half_square + series) + (double)exponent * DQN_LN2_LOW;
    return (double)exponent * DQN_LN2_HIGH - ((half_square - small) - f);
}

/* The logarithm of finite x > 0 as a pair, relative error about 2^-64. */
DQN_SHARED struct dqn_pair dqn_log_pair(double x) {
    int exponent;
    const double f = dqn_log_reduce(x, &exponent);
    const struct dqn_pair divisor = dqn_two_sum(2.0, f);
    struct dqn_pair s;
    s.high = f / divisor.high;
    const struct dqn_pair back = dqn_two_product(s.high, divisor.high);
    s.low = ((f - back.high) - back.low - s.high * divisor.low) / divisor.high;
    const struct dqn_pair z = dqn_pair_product(s, s);
    struct dqn_pair factor = dqn_two_sum(2.0 / 3.0, z.high * dqn_log_rest(z.high));
    factor.low += 0x1.5555555555555p-55; /* what 2/3 lost */
    const struct dqn_pair cubic = dqn_pair_product(dqn_pair_product(s, z), factor);
    const struct dqn_pair mantissa = dqn_two_sum(2.0 * s.high, cubic.high);
    struct dqn_pair sum = dqn_two_sum((double)exponent * DQN_LN2_HIGH, mantissa.high);
    sum.low += mantissa.low + (2.0 * s.low + cubic.low) + (double)exponent * DQN_LN2_LOW;
    return dqn_two_sum(sum.high, sum.low);
}

/* x^y for x >= 0; a negative x gives NaN, whatever y but 0. x^0 = 1^y = 1 as in C. */
DQN_SHARED double dqn_pow(double x, double y) {
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (dqn_is_nan(x) || dqn_is_nan(y) || x < 0.0) {
        return dqn_nan();
    }
    if (x == 0.0 || !dqn_is_finite(x) || !dqn_is_finite(y)) {
        return ((x > 1.0) == (y > 0.0)) ? dqn_infinity() : 0.0;
    }
    const struct dqn_pair log = dqn_log_pair(x);
    const double rough = y * log.high;
    if (!(dqn_fabs(rough) < 1000.0)) {
        return rough > 0.0 ? dqn_infinity() : 0.0;
    }
    if (dqn_fabs(rough) < 0x1p-60) { /* and keeps the exact product away from underflow */
        return 1.0 + rough;
    }
    struct dqn_pair exact = dqn_two_product(y, log.high);
    exact.low += y * log.low;
    return dqn_exp_pair(exact);
}

/* ---- sine and cosine ------------------------------------------------------------------------- */

/* x = count * pi/2 + reduced, |reduced| < 0.79. Three parts of pi/2 with 33, 33 and 53 bits: exact
 * products up to count = 2^20, absolute error below 2^-98. */
DQN_SHARED struct dqn_pair dqn_turn_reduce(double x, double count) {
    const double first = x - count * 0x1.921fb54400000p+0; /* exact */
    const struct dqn_pair second = dqn_two_sum(first, -(count * 0x1.0b4611a600000p-34));
    return dqn_two_sum(second.high, second.low - count * 0x1.3198a2e037073p-69);
}

/* sin of a reduced pair: r - r^3/3! + ... + r^17/17!. */
DQN_SHARED double dqn_sin_core(struct dqn_pair r) {
    const double x = r.high, z = x * x;
    double sum = 1.0 / 355687428096000.0;
    sum = sum * z - 1.0 / 1307674368000.0;
    sum = sum * z + 1.0 / 6227020800.0;
    sum = sum * z - 1.0 / 39916800.0;
    sum = sum * z + 1.0 / 362880.0;
    sum = sum * z - 1.0 / 5040.0;
    sum = sum * z + 1.0 / 120.0;
    sum = sum * z - 1.0 / 6.0;
    return x + (x * z * sum + r.low * (1.0 - 0.5 * z));
}

/* cos of a reduced pair: 1 - r^2/2! + ... + r^16/16!; what 1 - r^2/2 rounds off is put back. */
DQN_SHARED double dqn_cos_core(struct dqn_pair r) {
    const double x = r.high, z = x * x;
    double sum = 1.0 / 20922789888000.0;
    sum = sum * z - 1.0 / 87178291200.0;
    sum = sum * z + 1.0 / 479001600.0;
    sum = sum * z - 1.0 / 3628800.0;
    sum = sum * z + 1.0 / 40320.0;
    sum = sum * z - 1.0 / 720.0;
    sum = sum * z + 1.0 / 24.0;
    const double half = 0.5 * z, first = 1.0 - half;
    return first + (((1.0 - first) - half) + (z * z * sum - x * r.low));
}

/* Sine and cosine of an angle in radians. The domain is |x| <= 1.6e6 (count below 2^20); beyond it,
 * and for NaN, both are NaN. */
DQN_SHARED void dqn_sincos(double x, double *sine, double *cosine) {
    if (!(dqn_fabs(x) <= 1.6e6)) {
        *sine = dqn_nan();
        *cosine = dqn_nan();
        return;
    }
    const double count = dqn_rint(x * 0x1.45f306dc9c883p-1);
    const int quarter = (int)count & 3;
    const struct dqn_pair r = dqn_turn_reduce(x, count);
    const double s = x == 0.0 ? x : dqn_sin_core(r); /* keeps -0 */
    const double c = dqn_cos_core(r);
    const double by_sine = (quarter & 1) ? c : s;
    const double by_cosine = (quarter & 1) ? s : c;
    *sine = (quarter & 2) ? -by_sine : by_sine;
    *cosine = (quarter == 1 || quarter == 2) ? -by_cosine : by_cosine;
}

DQN_SHARED double dqn_sin(double x) {
    double sine, cosine;
    dqn_sincos(x, &sine, &cosine);
    return sine;
}

DQN_SHARED double dqn_cos(double x) {
    double sine, cosine;
    dqn_sincos(x, &sine, &cosine);
    return cosine;
}

#endif
