/* The elementary functions of src/shared/real.h against libm in long double (64 bits of precision:
 * its own error is below 0.001 of a double's last place), and their special cases. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

#include "shared/real.h"
#include "shared/rng.h"

enum { POINTS = 200000 };

static double unit(uint64_t stream, uint64_t i) {
    return dqn_rng_unit(dqn_rng_u64(dqn_rng_block(20, stream, i), 0));
}

/* Error in units of the double's last place at the exact value. */
static double ulps(double got, long double exact) {
    if (isnan(got) || isnan(exact)) {
        return isnan(got) && isnan(exact) ? 0.0 : INFINITY;
    }
    if (isinf(got) || isinf((double)exact)) {
        return got == (double)exact ? 0.0 : INFINITY;
    }
    int exponent;
    frexpl(exact, &exponent);
    exponent = exponent < -1021 ? -1021 : exponent;
    return (double)(fabsl((long double)got - exact) / ldexpl(1.0L, exponent - 53));
}

struct range {
    const char *what;
    double (*f)(double);
    long double (*exact)(long double);
    double low, high;
    int logarithmic; /* spread over exponents; low and high are then logarithms */
    double limit;    /* ulps */
};

static double point(const struct range *r, uint64_t stream, uint64_t i) {
    const double x = r->low + (r->high - r->low) * unit(stream, i);
    return r->logarithmic ? exp(x) : x;
}

/* The limits are the worst error seen over ten times as many points (behind each line), rounded up:
 * a wrong or missing coefficient costs far more. */
static const struct range ranges[] = {
    {"exp", dqn_exp, expl, -745.0, 709.7, 0, 0.95},            /* 0.87 */
    {"exp near 0", dqn_exp, expl, -1.0, 1.0, 0, 0.95},         /* 0.81 */
    {"exp subnormal", dqn_exp, expl, -745.5, -708.0, 0, 0.95}, /* 0.83 */
    {"log", dqn_log, logl, -744.0, 709.0, 1, 0.95},            /* 0.73 */
    {"log near 1", dqn_log, logl, 0.5, 2.0, 0, 0.95},          /* 0.81 */
    {"log at 1", dqn_log, logl, 0.9999, 1.0001, 0, 0.95},      /* 0.50 */
    {"tanh", dqn_tanh, tanhl, -22.0, 22.0, 0, 2.4},            /* 2.09 */
    {"tanh near 0", dqn_tanh, tanhl, -1.0, 1.0, 0, 2.4},       /* 2.21 */
    {"tanh tiny", dqn_tanh, tanhl, -740.0, -1.0, 1, 2.4},      /* 1.94 */
    {"sin", dqn_sin, sinl, -10.0, 10.0, 0, 0.95},              /* 0.78 */
    {"sin tiny", dqn_sin, sinl, -740.0, 0.0, 1, 0.95},         /* 0.70 */
    {"sin far", dqn_sin, sinl, -1.0e6, 1.0e6, 0, 0.95},        /* 0.77 */
    {"cos", dqn_cos, cosl, -10.0, 10.0, 0, 0.95},              /* 0.78 */
    {"cos tiny", dqn_cos, cosl, -740.0, 0.0, 1, 0.95},         /* 0.69 */
    {"cos far", dqn_cos, cosl, -1.0e6, 1.0e6, 0, 0.95},        /* 0.78 */
};

Test(real, functions_of_one_variable_against_long_double) {
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        double worst = 0.0, at = 0.0;
        for (uint64_t i = 0; i < POINTS; i++) {
            const double x = point(&ranges[r], r, i);
            const double error = ulps(ranges[r].f(x), ranges[r].exact((long double)x));
            if (!(error <= worst)) {
                worst = error;
                at = x;
            }
        }
        cr_log_info("%s: %.3f ulp at %a", ranges[r].what, worst, at);
        cr_expect(worst <= ranges[r].limit, "%s: %.3f ulp at %a, limit %.2f", ranges[r].what, worst,
                  at, ranges[r].limit);
    }
}

Test(real, sine_and_cosine_beside_multiples_of_half_pi) {
    /* The doubles next to k pi/2 are where the reduction loses its leading bits. Seen: 1.07. */
    for (int k = 1; k < 640000; k += 3) {
        const double x = (double)((long double)k * 1.57079632679489661923L);
        const double error = fmax(ulps(dqn_sin(x), sinl(x)), ulps(dqn_cos(x), cosl(x)));
        cr_assert(error <= 1.3, "%.3f ulp at %a", error, x);
    }
}

Test(real, pow_against_long_double) {
    double worst = 0.0, at_x = 0.0, at_y = 0.0;
    for (uint64_t i = 0; i < 2 * POINTS; i++) {
        const int wide = (int)(i & 1);
        const double x = wide ? 0.5 + unit(100, i) : exp(-300.0 + 600.0 * unit(100, i));
        const double y = wide ? -2000.0 + 4000.0 * unit(101, i) : -2.0 + 4.0 * unit(101, i);
        const double error = ulps(dqn_pow(x, y), powl((long double)x, (long double)y));
        if (!(error <= worst)) {
            worst = error;
            at_x = x;
            at_y = y;
        }
    }
    cr_log_info("pow: %.3f ulp at %a, %a", worst, at_x, at_y);
    /* Seen: 0.85, and 1.00 for subnormal results. */
    cr_expect(worst <= 1.3, "%.3f ulp at pow(%a, %a)", worst, at_x, at_y);
}

/* Neighbouring arguments must not step backwards by more than rounding: at the seams of reductions
 * a wrong constant would show. */
Test(real, no_backward_steps_at_the_seams) {
    static const double seams[] = {0.34657359027997264,
                                   1.0397207708399179,
                                   0.17328679513998632,
                                   0.7071067811865476,
                                   1.4142135623730951,
                                   0.7853981633974483,
                                   1.0,
                                   20.0};
    for (size_t i = 0; i < sizeof seams / sizeof *seams; i++) {
        double x = seams[i] * (1.0 - 1.0e-13);
        for (int step = 0; step < 2000; step++) {
            const double next = nextafter(x, INFINITY);
            cr_assert(dqn_exp(next) >= dqn_exp(x) * (1.0 - DBL_EPSILON), "exp at %a", x);
            cr_assert(dqn_tanh(next) >= dqn_tanh(x) * (1.0 - 2.0 * DBL_EPSILON), "tanh at %a", x);
            cr_assert(dqn_log(next) >= dqn_log(x) - DBL_EPSILON, "log at %a", x);
            x = next;
        }
    }
}

static void expect_bits(const char *what, double got, double want) {
    if (isnan(want)) {
        cr_expect(isnan(got), "%s: %a is not NaN", what, got);
    } else {
        cr_expect(dqn_bits(got) == dqn_bits(want), "%s: %a, not %a", what, got, want);
    }
}

Test(real, special_cases) {
    const double inf = INFINITY, nan = NAN;
    const struct {
        const char *what;
        double got, want;
    } list[] = {
        {"exp(0)", dqn_exp(0.0), 1.0},
        {"exp(-0)", dqn_exp(-0.0), 1.0},
        {"exp(inf)", dqn_exp(inf), inf},
        {"exp(-inf)", dqn_exp(-inf), 0.0},
        {"exp(nan)", dqn_exp(nan), nan},
        {"exp just below overflow", dqn_exp(709.782712893384), exp(709.782712893384)},
        {"exp just above overflow", dqn_exp(709.7827128933841), inf},
        {"exp of the smallest result", dqn_exp(-745.1332191019411), 0x1p-1074},
        {"exp below it", dqn_exp(-745.1332191019412), 0.0},
        {"log(0)", dqn_log(0.0), -inf},
        {"log(-0)", dqn_log(-0.0), -inf},
        {"log(1)", dqn_log(1.0), 0.0},
        {"log(-1)", dqn_log(-1.0), nan},
        {"log(inf)", dqn_log(inf), inf},
        {"log(nan)", dqn_log(nan), nan},
        {"log of the smallest number", dqn_log(0x1p-1074), -744.4400719213812},
        {"pow(0, 0)", dqn_pow(0.0, 0.0), 1.0},
        {"pow(nan, 0)", dqn_pow(nan, 0.0), 1.0},
        {"pow(1, nan)", dqn_pow(1.0, nan), 1.0},
        {"pow(nan, 1)", dqn_pow(nan, 1.0), nan},
        {"pow(2, nan)", dqn_pow(2.0, nan), nan},
        {"pow(-2, 2)", dqn_pow(-2.0, 2.0), nan},
        {"pow(0, 2)", dqn_pow(0.0, 2.0), 0.0},
        {"pow(0, -2)", dqn_pow(0.0, -2.0), inf},
        {"pow(inf, 0.5)", dqn_pow(inf, 0.5), inf},
        {"pow(inf, -0.5)", dqn_pow(inf, -0.5), 0.0},
        {"pow(2, inf)", dqn_pow(2.0, inf), inf},
        {"pow(2, -inf)", dqn_pow(2.0, -inf), 0.0},
        {"pow(0.5, inf)", dqn_pow(0.5, inf), 0.0},
        {"pow(0.5, -inf)", dqn_pow(0.5, -inf), inf},
        {"pow(2, 10)", dqn_pow(2.0, 10.0), 1024.0},
        {"pow(2, 1023)", dqn_pow(2.0, 1023.0), 0x1p1023},
        {"pow(2, 1024)", dqn_pow(2.0, 1024.0), inf},
        {"pow(2, -1074)", dqn_pow(2.0, -1074.0), 0x1p-1074},
        {"pow(2, -1080)", dqn_pow(2.0, -1080.0), 0.0},
        {"pow(9, 0.5)", dqn_pow(9.0, 0.5), 3.0},
        {"pow(2, 1e-320)", dqn_pow(2.0, 1e-320), 1.0},
        {"pow(2, 1e308)", dqn_pow(2.0, 1e308), inf},
        {"pow(0.5, 1e308)", dqn_pow(0.5, 1e308), 0.0},
        {"tanh(0)", dqn_tanh(0.0), 0.0},
        {"tanh(-0)", dqn_tanh(-0.0), -0.0},
        {"tanh(inf)", dqn_tanh(inf), 1.0},
        {"tanh(-inf)", dqn_tanh(-inf), -1.0},
        {"tanh(nan)", dqn_tanh(nan), nan},
        {"tanh of a subnormal", dqn_tanh(0x1p-1074), 0x1p-1074},
        {"sin(0)", dqn_sin(0.0), 0.0},
        {"sin(-0)", dqn_sin(-0.0), -0.0},
        {"cos(0)", dqn_cos(0.0), 1.0},
        {"sin(inf)", dqn_sin(inf), nan},
        {"cos(nan)", dqn_cos(nan), nan},
        {"sin beyond its domain", dqn_sin(1.7e6), nan},
        {"sqrt(2)", dqn_sqrt(2.0), 1.4142135623730951},
        {"sqrt(-1)", dqn_sqrt(-1.0), nan},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        expect_bits(list[i].what, list[i].got, list[i].want);
    }
}

Test(real, rounding_equals_libm) {
    static const double list[] = {0.0,  -0.0, 0.5,  -0.5, 1.5,   2.5,  -2.5,   0.49999999999999994,
                                  -0.3, 0.3,  1e15, -7.0, 1e300, 3e-5, 0x1p51, 4503599627370495.5,
                                  -1.5, 1.0,  -1.0, 99.9, -99.9, 1e18, 0x1p52, -4503599627370495.5};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        expect_bits("rint", dqn_rint(list[i]), rint(list[i]));
        expect_bits("floor", dqn_floor(list[i]), floor(list[i]));
        expect_bits("fabs", dqn_fabs(list[i]), fabs(list[i]));
    }
    for (uint64_t i = 0; i < POINTS; i++) {
        const double x = (unit(200, i) - 0.5) * 1000.0;
        expect_bits("rint", dqn_rint(x), rint(x));
        expect_bits("floor", dqn_floor(x), floor(x));
    }
    expect_bits("rint", dqn_rint(INFINITY), INFINITY);
    expect_bits("floor", dqn_floor(-INFINITY), -INFINITY);
    expect_bits("floor", dqn_floor(NAN), NAN);
}

Test(real, comparisons_and_bit_tests) {
    cr_expect(dqn_fmin(1.0, 2.0) == 1.0 && dqn_fmax(1.0, 2.0) == 2.0);
    cr_expect(dqn_fmin(NAN, 2.0) == 2.0 && isnan(dqn_fmin(2.0, NAN)));
    cr_expect(dqn_clamp(5.0, -1.0, 1.0) == 1.0 && dqn_clamp(-5.0, -1.0, 1.0) == -1.0);
    cr_expect(dqn_clamp(0.5, -1.0, 1.0) == 0.5 && isnan(dqn_clamp(NAN, -1.0, 1.0)));
    cr_expect(dqn_is_nan(NAN) && dqn_is_nan(-NAN) && !dqn_is_nan(INFINITY) && !dqn_is_nan(0.0));
    cr_expect(!dqn_is_finite(NAN) && !dqn_is_finite(-INFINITY) && dqn_is_finite(DBL_MAX));
    cr_expect(dqn_float_is_nan((float)NAN) && !dqn_float_is_nan((float)INFINITY));
    cr_expect(!dqn_float_is_finite((float)INFINITY) && dqn_float_is_finite(-FLT_MAX));
    cr_expect(dqn_float_bits(1.0f) == 0x3f800000u && dqn_float_from_bits(0xc0000000u) == -2.0f);
    cr_expect(dqn_copysign(3.0, -0.0) == -3.0 && dqn_copysign(-3.0, 1.0) == 3.0);
}
