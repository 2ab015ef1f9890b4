/* Synthetic markets against their definitions. Tolerances are a few standard errors. */
#include <criterion/criterion.h>
#include <math.h>

#include "bars_fixture.h"

static struct dqn_config config;

static void defaults(int market, int64_t bars) {
    dqn_config_defaults(&config);
    config.synthetic.market = market;
    config.synthetic.bars = bars;
    config.synthetic.bar_seconds = 3600;
    config.synthetic.sigma = 0.01;
    config.synthetic.substeps = 64;
}

static void make(struct dqn_bars *bars) {
    cr_assert_eq(dqn_bars_synthetic(bars, &config.synthetic), DQN_OK, "%s", dqn_error_text());
    for (size_t i = 0; i < bars->n; i++) {
        const double top = fmax(bars->open[i], bars->close[i]);
        const double bottom = fmin(bars->open[i], bars->close[i]);
        cr_assert(bars->low[i] > 0.0 && bars->low[i] <= bottom && bars->high[i] >= top);
        cr_assert(isfinite(bars->high[i]) && isfinite(bars->volume[i]) && bars->volume[i] > 0.0);
        cr_assert(i == 0 || bars->time_ns[i] > bars->time_ns[i - 1]);
    }
}

static double correlation(const double *x, size_t n, size_t lag) {
    double mean = 0.0, both = 0.0, own = 0.0;
    for (size_t i = 0; i < n; i++) {
        mean += x[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        own += (x[i] - mean) * (x[i] - mean);
        both += i >= lag ? (x[i] - mean) * (x[i - lag] - mean) : 0.0;
    }
    return both / own;
}

static double *log_returns(const struct dqn_bars *bars) {
    double *const r = calloc(bars->n, sizeof(double));
    cr_assert_not_null(r);
    for (size_t i = 1; i < bars->n; i++) {
        r[i - 1] = log(bars->close[i] / bars->close[i - 1]);
    }
    return r;
}

/* Simple returns have mean 0, so that holding earns nothing: with sigma 1 % and n = 200000 the
 * standard error is 2.2e-5; seen -0.5 standard errors. */
Test(bars_synthetic, martingale_has_no_drift) {
    struct dqn_bars bars;
    defaults(DQN_MARKET_MARTINGALE, 200000);
    config.synthetic.substeps = 8;
    make(&bars);
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < bars.n; i++) {
        const double r = bars.close[i] / bars.open[i] - 1.0;
        sum += r;
        squares += r * r;
        cr_assert(i == 0 || bars.open[i] == bars.close[i - 1]);
    }
    const double n = (double)bars.n, std = sqrt(squares / n);
    printf("martingale: mean %.2f standard errors, std %.6f\n", sum / n / (std / sqrt(n)), std);
    cr_assert_lt(fabs(sum / n), 3.5 * std / sqrt(n));
    /* the standard error of a std is std / sqrt(2 n) = 1.6e-5 */
    cr_assert_float_eq(std, 0.01, 6e-5);
    cr_assert_null(bars.hidden);
    dqn_bars_free(&bars);
}

/* Honest extremes: for Brownian motion E ln(h/l)^2 = 4 ln 2 sigma^2 (Parkinson 1980), and the
 * expected distance from open to high is sigma sqrt(2/pi). Both hold at one sub-step as at many,
 * where 64 plain sub-steps would fall short by 7 to 14 %. Standard errors at n = 50000: 0.3 % and
 * 0.34 %; seen within 0.3 % and 0.5 %. At one sub-step highs and lows are drawn apart from each
 * other, which leaves each exact, and the range only nearly so: the range is judged from 8 steps
 * on. */
Test(bars_synthetic, extremes_are_those_of_the_bridge) {
    static const int64_t substeps[] = {1, 2, 8, 64};
    for (size_t k = 0; k < DQN_COUNT_OF(substeps); k++) {
        struct dqn_bars bars;
        defaults(DQN_MARKET_MARTINGALE, 50000);
        config.synthetic.substeps = substeps[k];
        make(&bars);
        double range = 0.0, up = 0.0, down = 0.0;
        for (size_t i = 0; i < bars.n; i++) {
            const double r = log(bars.high[i] / bars.low[i]);
            range += r * r;
            up += log(bars.high[i] / bars.open[i]);
            down += log(bars.open[i] / bars.low[i]);
        }
        const double n = (double)bars.n, s = config.synthetic.sigma;
        const double parkinson = sqrt(range / n / (4.0 * log(2.0))) / s;
        const double expected = sqrt(2.0 / acos(-1.0));
        /* the mean of log steps, -s^2 / 2, moves highs down and lows up by s / 4 of their size */
        const double high = up / n / s / expected, low = down / n / s / expected;
        printf("%lld sub-steps: range %.4f, up %.4f, down %.4f of Brownian motion\n",
               (long long)substeps[k], parkinson, high, low);
        cr_assert_float_eq(0.5 * (high + low), 1.0, 0.012);
        cr_assert(substeps[k] < 8 || fabs(parkinson - 1.0) < 0.01, "%f", parkinson);
        dqn_bars_free(&bars);
    }
}

Test(bars_synthetic, drift_is_the_mean_log_return) {
    struct dqn_bars bars;
    defaults(DQN_MARKET_DRIFT, 20000);
    config.synthetic.drift = 0.001;
    config.synthetic.substeps = 4;
    make(&bars);
    const double mean = log(bars.close[bars.n - 1] / bars.open[0]) / (double)bars.n;
    /* standard error 0.01 / sqrt(20000) = 7e-5 */
    cr_assert_float_eq(mean, 0.001, 2.5e-4);
    dqn_bars_free(&bars);
}

/* X has std 1 and lag-1 correlation phi. At phi = 0.9 a path of n has n / 19 independent values:
 * standard error of the std 0.010 at n = 100000, of the correlation sqrt((1 - phi^2) / n) = 0.0014.
 */
Test(bars_synthetic, ou_is_its_definition) {
    struct dqn_bars bars;
    defaults(DQN_MARKET_OU, 100000);
    make(&bars);
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < bars.n; i++) {
        const double price =
            config.synthetic.price * (1.0 + config.synthetic.ou_std * bars.hidden[i]);
        cr_assert_eq(bars.close[i], price);
        cr_assert(i == 0 || bars.open[i] == bars.close[i - 1]);
        sum += bars.hidden[i];
        squares += bars.hidden[i] * bars.hidden[i];
    }
    const double phi = correlation(bars.hidden, bars.n, 1);
    const double std = sqrt(squares / (double)bars.n);
    printf("ou: mean %.4f std %.4f phi %.4f\n", sum / (double)bars.n, std, phi);
    cr_assert_float_eq(std, 1.0, 0.03);
    cr_assert_float_eq(sum / (double)bars.n, 0.0, 0.042); /* standard error 0.0138 */
    cr_assert_float_eq(phi, 0.9, 0.0045);
    dqn_bars_free(&bars);
}

static int compare_reals(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : (x > y ? 1 : 0);
}

/* The same returns, without correlation: 3.5 standard errors are 3.5 / sqrt(n) = 0.011. The chain
 * of products rounds each return by a few ulp. */
Test(bars_synthetic, shuffled_has_the_returns_of_ou_in_random_order) {
    struct dqn_bars ou, shuffled;
    defaults(DQN_MARKET_OU, 100000);
    make(&ou);
    config.synthetic.market = DQN_MARKET_OU_SHUFFLED;
    make(&shuffled);
    double *const a = log_returns(&ou), *const b = log_returns(&shuffled);
    a[ou.n - 1] = log(ou.close[0] / ou.open[0]);
    b[ou.n - 1] = log(shuffled.close[0] / shuffled.open[0]);
    for (size_t lag = 1; lag <= 5; lag++) {
        cr_assert_lt(fabs(correlation(b, ou.n - 1, lag)), 0.011);
    }
    cr_assert_lt(correlation(a, ou.n - 1, 1), -0.04); /* (phi - 1) / 2 = -0.05 */
    qsort(a, ou.n, sizeof(double), compare_reals);
    qsort(b, ou.n, sizeof(double), compare_reals);
    for (size_t i = 0; i < ou.n; i++) {
        cr_assert_float_eq(a[i], b[i], 1e-14);
        cr_assert_float_eq(
            shuffled.close[i],
            config.synthetic.price * (1.0 + config.synthetic.ou_std * shuffled.hidden[i]), 1e-10);
    }
    free(a);
    free(b);
    dqn_bars_free(&ou);
    dqn_bars_free(&shuffled);
}

/* The same bars on every machine and at every run; another seed gives others. */
Test(bars_synthetic, bits_are_fixed) {
    static const struct {
        int market;
        const char *sha256;
    } fixed[] = {
        {DQN_MARKET_REALISTIC, "2489dca25c676ae206b20bc4de500dd843f115cad694a09ae7639e497457d214"},
        {DQN_MARKET_MARTINGALE, "3710d572dc9286fae0a920c207545bd6681d747acb10b2d86be81e843364b064"},
        {DQN_MARKET_DRIFT, "a7a5dd532ca4f050a78c662b8e416145038d2cbcd39ff02517c6fca1b5c3701b"},
        {DQN_MARKET_OU, "f22f602e90a88e1265058e660d0153a42a00e822e1e06c53583e4a7ba8d0ccd6"},
        {DQN_MARKET_OU_SHUFFLED,
         "629a1657de38581d521cc05bd984ea7452a956a3976fd1b4620c920b7d965825"}};
    for (size_t i = 0; i < DQN_COUNT_OF(fixed); i++) {
        struct dqn_bars bars;
        defaults(fixed[i].market, 2000);
        make(&bars);
        cr_expect_str_eq(bars.info.sha256, fixed[i].sha256, "market %d: %s", fixed[i].market,
                         bars.info.sha256);
        dqn_bars_free(&bars);
        config.synthetic.seed = 2;
        make(&bars);
        cr_expect_str_neq(bars.info.sha256, fixed[i].sha256);
        dqn_bars_free(&bars);
    }
}

/* A longer market begins with the shorter one. */
Test(bars_synthetic, length_does_not_change_the_beginning) {
    for (int market = DQN_MARKET_REALISTIC; market <= DQN_MARKET_OU; market++) {
        struct dqn_bars shorter, longer;
        defaults(market, 1000);
        make(&shorter);
        config.synthetic.bars = 1500;
        make(&longer);
        cr_assert_arr_eq(shorter.high, longer.high, 1000 * sizeof(double));
        cr_assert_arr_eq(shorter.volume, longer.volume, 1000 * sizeof(double));
        dqn_bars_free(&shorter);
        dqn_bars_free(&longer);
    }
}

/* Closed on weekends, busier in the afternoon than at night, and volatility that clusters. */
Test(bars_synthetic, realistic_looks_like_a_market) {
    struct dqn_bars bars;
    defaults(DQN_MARKET_REALISTIC, 60000);
    config.synthetic.sigma = 0.003;
    config.synthetic.mispricing_phi = 0.95;
    config.synthetic.substeps = 8;
    make(&bars);
    cr_assert_eq(bars.info.n_gaps, 499u); /* 60000 bars are 500 weeks of 120 */
    cr_assert_eq(bars.info.n_regular, 499u);
    double volume[24] = {0.0}, squares[24] = {0.0};
    double *const r = log_returns(&bars), *const size = calloc(bars.n, sizeof(double));
    cr_assert_not_null(size);
    for (size_t i = 0; i + 1 < bars.n; i++) {
        const int64_t hour = bars.time_ns[i + 1] / 1000000000 / 3600 % 24;
        const int64_t day = (bars.time_ns[i + 1] / 1000000000 / 86400 + 4) % 7; /* 0 = Sunday */
        cr_assert(day != 6 && (day != 0 || hour >= 22) && (day != 5 || hour < 22));
        volume[hour] += bars.volume[i + 1] * bars.close[i + 1];
        squares[hour] += r[i] * r[i];
        size[i] = fabs(r[i]);
    }
    cr_assert_gt(volume[14], 2.0 * volume[3]);
    cr_assert_gt(squares[14], 1.5 * squares[3]);
    cr_assert_gt(correlation(size, bars.n - 1, 24), 0.05);
    cr_assert_float_eq(correlation(bars.hidden, bars.n, 1), 0.95, 0.006);
    free(r);
    free(size);
    dqn_bars_free(&bars);
}

Test(bars_synthetic, impossible_prices_are_refused) {
    struct dqn_bars bars;
    defaults(DQN_MARKET_OU, 1000);
    config.synthetic.ou_std = 1.0;
    cr_assert_eq(dqn_bars_synthetic(&bars, &config.synthetic), DQN_ERR_CONFIG);
    cr_assert_not_null(strstr(dqn_error_text(), "the ou market leaves the positive finite prices"));
    cr_assert_null(bars.close);
}

/* What a plain rule earns on the default market after 6 bp a unit of turnover: stay on the other
 * side of the last excursion of close beyond 1.5 std of SMA60. Its Sharpe ratio is 4.8 (standard
 * error of 2.4 years: 0.65), so there is something to learn. */
Test(bars_synthetic, realistic_can_be_traded) {
    enum { WINDOW = 60 };
    struct dqn_bars bars;
    dqn_config_defaults(&config);
    config.synthetic.bars = 60000;
    make(&bars);
    double position = 0.0, sum = 0.0, squares = 0.0;
    for (size_t i = WINDOW; i + 2 < bars.n; i++) {
        double mean = 0.0, variance = 0.0;
        for (size_t k = i + 1 - WINDOW; k <= i; k++) {
            mean += bars.close[k] / WINDOW;
        }
        for (size_t k = i + 1 - WINDOW; k <= i; k++) {
            variance += (bars.close[k] - mean) * (bars.close[k] - mean) / WINDOW;
        }
        const double z = (bars.close[i] - mean) / sqrt(variance);
        const double target = z > 1.5 ? -1.0 : (z < -1.5 ? 1.0 : position);
        const double r =
            target * (bars.open[i + 2] / bars.open[i + 1] - 1.0) - 6e-4 * fabs(target - position);
        position = target;
        sum += r;
        squares += r * r;
    }
    const double n = (double)(bars.n - 2 - WINDOW), mean = sum / n;
    const double sharpe = mean / sqrt(squares / n - mean * mean) *
                          sqrt(5.0 * 86400.0 / (double)config.synthetic.bar_seconds * 52.18);
    printf("realistic: Sharpe ratio %.2f after costs\n", sharpe);
    cr_assert(sharpe > 3.0 && sharpe < 7.0, "%f", sharpe);
    dqn_bars_free(&bars);
}
