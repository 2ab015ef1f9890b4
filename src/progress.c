#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "metrics.h"

enum { BAR_WIDTH = 24 };

void dqn_progress_begin(struct dqn_progress *p, bool quiet, uint64_t total_steps,
                        uint64_t env_steps, uint64_t updates) {
    *p = (struct dqn_progress){.quiet = quiet,
                               .terminal = !quiet && isatty(STDERR_FILENO) != 0,
                               .total_steps = total_steps,
                               .first_steps = env_steps,
                               .first_updates = updates,
                               .begun_s = dqn_clock_s(),
                               .loss = NAN,
                               .score = NAN,
                               .epsilon = NAN};
}

static void format_eta(char *text, size_t size, double seconds) {
    if (!isfinite(seconds)) {
        snprintf(text, size, "--:--");
    } else if (seconds >= 3600.0) {
        snprintf(text, size, "%d:%02d h", (int)(seconds / 3600.0), (int)fmod(seconds / 60.0, 60.0));
    } else {
        snprintf(text, size, "%02d:%02d", (int)(seconds / 60.0), (int)fmod(seconds, 60.0));
    }
}

void dqn_progress_update(struct dqn_progress *p, uint64_t env_steps, uint64_t updates) {
    if (!p->terminal) {
        return;
    }
    const double now = dqn_clock_s();
    if (now - p->shown_s < 0.1) {
        return;
    }
    p->shown_s = now;
    const double elapsed = now - p->begun_s;
    const double steps = (double)(env_steps - p->first_steps);
    const double rate = elapsed > 0.0 ? steps / elapsed : 0.0;
    const double part = fmin(1.0, (double)env_steps / (double)p->total_steps);
    char bar[BAR_WIDTH + 1], eta[32];
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = (double)i < part * BAR_WIDTH ? '=' : ' ';
    }
    bar[BAR_WIDTH] = '\0';
    format_eta(eta, sizeof eta, ((double)p->total_steps - (double)env_steps) / rate);
    fprintf(
        stderr,
        "\r\033[K[%s] %3.0f%% left %s  %.0f steps/s %.0f updates/s  loss %.4g score %.4g eps %.3f",
        bar, 100.0 * part, eta, rate,
        elapsed > 0.0 ? (double)(updates - p->first_updates) / elapsed : 0.0, p->loss, p->score,
        p->epsilon);
    fflush(stderr);
}

void dqn_progress_end(struct dqn_progress *p) {
    if (p->terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

/* The legend is for the whole process: a walk-forward has a header for each of its runs. */
static void show_header(void) {
    static bool legend_shown;
    if (!legend_shown) {
        printf(
            "(columns of metrics.csv: Q is q_mean, return is return_mean, score is eval_return)\n");
        legend_shown = true;
    }
    printf("%6s %10s %9s %9s %9s %9s %9s %7s %9s %9s\n", "epoch", "env steps", "updates", "loss",
           "Q", "return", "score", "epsilon", "steps/s", "updates/s");
}

void dqn_progress_epoch(struct dqn_progress *p, const double *row, bool best) {
    p->loss = row[DQN_METRIC_loss];
    p->epsilon = row[DQN_METRIC_epsilon];
    if (!isnan(row[DQN_METRIC_eval_return])) {
        p->score = row[DQN_METRIC_eval_return];
    }
    if (p->quiet) {
        return;
    }
    dqn_progress_end(p);
    if (!p->header_shown) {
        show_header();
        p->header_shown = true;
    }
    printf("%6.0f %10.0f %9.0f %9.4g %9.4g %9.4g %9.4g %7.3f %9.0f %9.0f%s\n",
           row[DQN_METRIC_epoch], row[DQN_METRIC_env_steps], row[DQN_METRIC_updates],
           row[DQN_METRIC_loss], row[DQN_METRIC_q_mean], row[DQN_METRIC_return_mean],
           row[DQN_METRIC_eval_return], row[DQN_METRIC_epsilon], row[DQN_METRIC_env_steps_per_s],
           row[DQN_METRIC_updates_per_s], best ? "  best" : "");
    fflush(stdout);
}
