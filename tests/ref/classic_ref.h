/* Slow references of the classic control environments: the equations of motion as linear systems
 * solved by Cramer's rule, long double, libm. They share no code and no formula with envs/. */
#ifndef DQN_TESTS_REF_CLASSIC_REF_H
#define DQN_TESTS_REF_CLASSIC_REF_H

#include <math.h>
#include <stdbool.h>

#define REF_PI 3.14159265358979323846264338328L

/* m [u v]^T = right. */
static inline void ref_solve(long double a, long double b, long double c, long double d,
                             long double right1, long double right2, long double *u,
                             long double *v) {
    const long double det = a * d - b * c;
    *u = (right1 * d - b * right2) / det;
    *v = (a * right2 - right1 * c) / det;
}

/* s = x, x', theta, theta'. Lagrange's equations of a cart (1 kg) with a uniform rod (0.1 kg, half
 * length l = 0.5 m), no friction:
 *     (M + m) x'' + m l cos(theta) theta''      = F + m l theta'^2 sin(theta)
 *     m l cos(theta) x'' + (4/3) m l^2 theta''  = m g l sin(theta) */
static inline bool ref_cartpole_step(long double s[4], int action) {
    const long double cart = 1.0L, rod = 0.1L, l = 0.5L, g = 9.8L, h = 0.02L;
    const long double force = action == 1 ? 10.0L : -10.0L;
    const long double sine = sinl(s[2]), cosine = cosl(s[2]);
    long double x2, t2;
    ref_solve(cart + rod, rod * l * cosine, rod * l * cosine, 4.0L / 3.0L * rod * l * l,
              force + rod * l * s[3] * s[3] * sine, rod * g * l * sine, &x2, &t2);
    const long double next[4] = {s[0] + h * s[1], s[1] + h * x2, s[2] + h * s[3], s[3] + h * t2};
    for (int i = 0; i < 4; i++) {
        s[i] = next[i];
    }
    return fabsl(s[0]) > 2.4L || fabsl(s[2]) > 12.0L / 180.0L * REF_PI;
}

/* Angular accelerations of two rods (1 kg, 1 m, centre at 0.5 m, inertia 1 kg m^2 about the
 * centre), s = angle1 from hanging down, angle2 relative to it, and their rates; torque at the
 * elbow. From the Lagrangian, mass matrix and forces by the textbook of any double pendulum. */
static inline void ref_acrobot_rate(const long double s[4], long double torque,
                                    long double rate[4]) {
    const long double g = 9.8L, h = 0.5L * sinl(s[1]);
    const long double m22 = 0.25L + 1.0L, m12 = m22 + 0.5L * cosl(s[1]);
    const long double m11 = 0.25L + 1.0L + 1.0L + m22 + cosl(s[1]);
    const long double tip = 0.5L * g * sinl(s[0] + s[1]);
    const long double shoulder = 1.5L * g * sinl(s[0]) + tip;
    rate[0] = s[2];
    rate[1] = s[3];
    ref_solve(m11, m12, m12, m22, h * (2.0L * s[2] * s[3] + s[3] * s[3]) - shoulder,
              torque - h * s[2] * s[2] - tip, &rate[2], &rate[3]);
}

/* Total energy of the acrobot, J. */
static inline long double ref_acrobot_energy(const long double s[4]) {
    const long double spin = s[2] + s[3]; /* of the second rod */
    const long double speed2 = s[2] * s[2] + 0.25L * spin * spin + s[2] * spin * cosl(s[1]);
    const long double kinetic =
        0.5L * (0.25L * s[2] * s[2] + s[2] * s[2]) + 0.5L * (speed2 + spin * spin);
    return kinetic - 9.8L * (0.5L * cosl(s[0]) + cosl(s[0]) + 0.5L * cosl(s[0] + s[1]));
}

static inline bool ref_acrobot_step(long double s[4], int action) {
    static const long double nodes[4] = {0.0L, 0.5L, 0.5L, 1.0L};
    static const long double weights[4] = {1.0L / 6.0L, 1.0L / 3.0L, 1.0L / 3.0L, 1.0L / 6.0L};
    long double rate[4] = {0}, next[4] = {s[0], s[1], s[2], s[3]};
    for (int stage = 0; stage < 4; stage++) {
        long double at[4];
        for (int i = 0; i < 4; i++) {
            at[i] = s[i] + 0.2L * nodes[stage] * rate[i];
        }
        ref_acrobot_rate(at, (long double)(action - 1), rate);
        for (int i = 0; i < 4; i++) {
            next[i] += 0.2L * weights[stage] * rate[i];
        }
    }
    s[0] = remainderl(next[0], 2.0L * REF_PI);
    s[1] = remainderl(next[1], 2.0L * REF_PI);
    s[2] = fminl(fmaxl(next[2], -4.0L * REF_PI), 4.0L * REF_PI);
    s[3] = fminl(fmaxl(next[3], -9.0L * REF_PI), 9.0L * REF_PI);
    return -cosl(s[0]) - cosl(s[0] + s[1]) > 1.0L;
}

/* s = position, velocity. */
static inline bool ref_mountain_car_step(long double s[2], int action) {
    long double v = s[1] + 0.001L * (action - 1) - 0.0025L * cosl(3.0L * s[0]);
    v = v > 0.07L ? 0.07L : (v < -0.07L ? -0.07L : v);
    long double x = s[0] + v;
    if (x <= -1.2L) {
        x = -1.2L;
        v = v < 0.0L ? 0.0L : v;
    }
    s[0] = x > 0.6L ? 0.6L : x;
    s[1] = v;
    return x >= 0.5L && v >= 0.0L;
}

#endif
