/* Trains on one of the markets that reward one kind of order and says what the agent does there:
 *     micro_cells CONFIG [KEY=VALUE]...
 * One line of Markdown: the market, the share of the agent's orders at turns that are of its kind,
 * what the agent earns a bar on the test split, and what the best hand-made policies earn that
 * always trade in the shown direction with one kind of order. Used by scripts/reproduce_cells.sh.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "greedy_policy.h"
#include "market/trading_setup.h"
#include "trainer.h"

enum { ARGUMENTS_MAX = 32 };

struct tally {
    const double *hidden; /* of the market's bars */
    uint64_t steps, sent, of_cell[DQN_CELLS];
    double reward;
};

static void count(void *context, const struct trading_step_record *record) {
    struct tally *tally = context;
    tally->steps++;
    tally->reward += record->reward;
    /* at a turn: where the state is 1, not 0.5 */
    if (record->sent && fabs(tally->hidden[record->bar]) > 0.75) {
        tally->sent++;
        tally->of_cell[record->action % DQN_CELLS]++;
    }
}

static uint32_t follow(void *context, const float *observation, uint64_t step) {
    (void)step;
    return (observation[0] > 0.0f ? 36u : 0u) + *(const uint32_t *)context;
}

static enum dqn_status test_pass(const struct dqn_trainer *trainer, dqn_trading_policy policy,
                                 void *context, struct tally *tally) {
    struct trading_params params;
    const struct dqn_env_key key = {.seed = 1};
    DQN_TRY(dqn_trading_params(&params, dqn_trainer_config(trainer), dqn_trainer_market(trainer),
                               NULL, DQN_TRADING_EVAL, DQN_SPLIT_TEST, 1));
    *tally = (struct tally){.hidden = dqn_trainer_market(trainer)->bars.hidden};
    return dqn_trading_run(&params, key, policy, context, count, tally, NULL);
}

static enum dqn_status agent_pass(struct dqn_trainer *trainer, struct tally *tally) {
    const struct dqn_net *net = dqn_trainer_net(trainer);
    struct dqn_greedy_policy *policy = NULL;
    float *params = NULL;
    enum dqn_status status =
        dqn_alloc((void **)&params, net->n_params, sizeof *params, "parameters");
    DQN_TRY_GOTO(status);
    DQN_TRY_GOTO(dqn_trainer_best_params(trainer, params));
    DQN_TRY_GOTO(dqn_greedy_policy_create(&policy, net, params));
    DQN_TRY_GOTO(test_pass(trainer, dqn_greedy_policy_action, policy, tally));
done:
    dqn_greedy_policy_destroy(policy);
    free(params);
    return status;
}

static enum dqn_status report(struct dqn_trainer *trainer) {
    const int cell = dqn_trainer_config(trainer)->synthetic.cell;
    struct tally agent, hand[DQN_CELLS];
    DQN_TRY(agent_pass(trainer, &agent));
    int second = -1;
    for (uint32_t c = 0; c < DQN_CELLS; c++) {
        DQN_TRY(test_pass(trainer, follow, &c, &hand[c]));
        if ((int)c != cell && (second < 0 || hand[c].reward > hand[second].reward)) {
            second = (int)c;
        }
    }
    const double share = agent.sent > 0 ? (double)agent.of_cell[cell] / (double)agent.sent : 0.0;
    const double steps = (double)agent.steps;
    printf("| %s | %.1f %% | %.4f | %.4f | %.4f (%s) | %s |\n",
           dqn_config_choice("synthetic.cell", cell), 100.0 * share, agent.reward / steps,
           hand[cell].reward / steps, hand[second].reward / steps,
           dqn_config_choice("synthetic.cell", second),
           share > 0.5 && agent.reward >= hand[second].reward ? "yes" : "NO");
    return DQN_OK;
}

static enum dqn_status run(int argc, char **argv, struct dqn_config *config) {
    struct dqn_trainer *trainer = NULL;
    bool stopped = false;
    DQN_TRY(dqn_config_load(config, argv[1], (size_t)(argc - 2), (const char *const *)&argv[2]));
    const struct dqn_trainer_options options = {.config = config, .quiet = true};
    DQN_TRY(dqn_trainer_create(&trainer, &options));
    enum dqn_status status = dqn_trainer_run(trainer, &stopped);
    if (status == DQN_OK) {
        status = report(trainer);
    }
    dqn_trainer_destroy(trainer);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > ARGUMENTS_MAX) {
        fprintf(stderr, "usage: micro_cells CONFIG [KEY=VALUE]...\n");
        return 2;
    }
    dqn_log_set_quiet(true);
    struct dqn_config *config = calloc(1, sizeof *config);
    const enum dqn_status status = config != NULL ? run(argc, argv, config) : DQN_ERR_MEMORY;
    free(config);
    if (status != DQN_OK) {
        fprintf(stderr, "micro_cells: %s\n", dqn_error_text());
    }
    return dqn_status_exit_code(status);
}
