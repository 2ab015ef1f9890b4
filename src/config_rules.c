/* The rules that join several keys: what each key allows alone, but not together. */
#include <inttypes.h>
#include <math.h>

#include "config_parts.h"

/* Refuses a > b for whole numbers. */
static enum dqn_status at_most(const char *a_name, int64_t a, const char *b_name, int64_t b,
                               const char *remedy) {
    if (a <= b) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_CONFIG, "%s = %" PRId64 " is above %s = %" PRId64 "; %s", a_name, a,
                    b_name, b, remedy);
}

/* The same for reals. */
static enum dqn_status at_most_real(const char *a_name, double a, const char *b_name, double b,
                                    const char *remedy) {
    char a_text[32];
    char b_text[32];
    if (a <= b) {
        return DQN_OK;
    }
    return dqn_fail(DQN_ERR_CONFIG, "%s = %s is above %s = %s; %s", a_name,
                    dqn_real_text(a_text, sizeof a_text, a), b_name,
                    dqn_real_text(b_text, sizeof b_text, b), remedy);
}

static enum dqn_status check_replay(const struct dqn_config *c) {
    const char *capacity = "replay.capacity";
    const int64_t n = c->replay.capacity;
    DQN_TRY(at_most("learner.batch", c->learner.batch, capacity, n,
                    "a batch is drawn from the replay: lower the batch or raise the capacity"));
    DQN_TRY(at_most("train.learning_starts", c->train.learning_starts, capacity, n,
                    "the warm-up must fit in the replay: lower it or raise the capacity"));
    DQN_TRY(at_most("env.lanes", c->env.lanes, capacity, n,
                    "every lane adds a row a step: lower the lanes or raise the capacity"));
    DQN_TRY(at_most("collect.n_step", c->collect.n_step, capacity, n,
                    "lower the steps or raise the capacity"));
    DQN_TRY(at_most_real("replay.beta.start", c->replay.beta_start, "replay.beta.end",
                         c->replay.beta_end, "beta rises from start to end"));
    DQN_TRY(at_most_real("replay.epsilon", c->replay.epsilon, "replay.max_priority",
                         c->replay.max_priority, "epsilon is the smallest priority"));
    if (c->replay.device == DQN_DEVICE_CUDA && c->run.device == DQN_DEVICE_CPU) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "replay.device = cuda does not go with device = cpu; use replay.device: "
                        "auto, or another device");
    }
    return DQN_OK;
}

static enum dqn_status check_training(const struct dqn_config *c) {
    if (c->run.output[0] == '\0') {
        return dqn_fail(DQN_ERR_CONFIG, "output = '' names no folder; leave the key out for "
                                        "the folder checkpoints");
    }
    if (!dqn_text_is_plain(c->run.name)) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "name = '%s' has a control character or is no UTF-8; the run's folder is "
                        "named after it: use letters, digits, - and _",
                        c->run.name);
    }
    const double learning = (double)(c->train.env_steps - c->train.learning_starts);
    if (c->train.replay_ratio * learning + 1e-6 < 1.0) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "train.replay_ratio = %g makes no update in train.env_steps = %" PRId64
                        " with train.learning_starts = %" PRId64 ": nothing would be learnt",
                        c->train.replay_ratio, c->train.env_steps, c->train.learning_starts);
    }
    DQN_TRY(at_most_real("collect.eps_end", c->collect.eps_end, "collect.eps_start",
                         c->collect.eps_start, "exploration falls from start to end"));
    DQN_TRY(at_most("train.epoch_steps", c->train.epoch_steps, "train.env_steps",
                    c->train.env_steps, "a run has at least one epoch"));
    DQN_TRY(at_most("env.lanes", c->env.lanes, "train.epoch_steps", c->train.epoch_steps,
                    "an epoch has at least one step of every lane"));
    if (c->learner.lr_schedule != 0) {
        DQN_TRY(at_most_real("learner.lr_end", c->learner.lr_end, "learner.lr", c->learner.lr,
                             "a schedule falls from lr to lr_end"));
    }
    if (c->net.hidden.n == 0) {
        return dqn_fail(DQN_ERR_CONFIG, "net.hidden = [] has no layer; write one width a layer, "
                                        "such as [256, 256]");
    }
    return DQN_OK;
}

static enum dqn_status check_split(const struct dqn_reals *split) {
    char text[32];
    double sum = 0;
    if (split->n != 3) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "data.split has %zu number%s; it takes three: train, validation, test",
                        split->n, dqn_plural(split->n));
    }
    for (size_t i = 0; i < split->n; i++) {
        sum += split->v[i];
    }
    if (!(fabs(sum - 1) <= 1e-9)) {
        return dqn_fail(DQN_ERR_CONFIG, "data.split sums to %s; the three parts must sum to 1",
                        dqn_real_text(text, sizeof text, sum));
    }
    return DQN_OK;
}

static enum dqn_status check_oracle(const struct dqn_config *c) {
    if (c->env.observation != DQN_OBSERVE_ORACLE) {
        return DQN_OK;
    }
    const char *remedy = "use env.observation: features";
    if (c->env.name != DQN_ENV_trading) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "env.observation = oracle does not go with env.name = %s; %s",
                        dqn_config_choice("env.name", c->env.name), remedy);
    }
    if (c->data.file.n > 0) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "env.observation = oracle does not go with data.file = %s: real data has "
                        "no known state; %s",
                        c->data.file.v[0], remedy);
    }
    if (c->synthetic.market < DQN_MARKET_OU) { /* the ones before have no state to show */
        return dqn_fail(DQN_ERR_CONFIG,
                        "env.observation = oracle does not go with synthetic.market = %s; use ou "
                        "or ou_shuffled, or env.observation: features",
                        dqn_config_choice("synthetic.market", c->synthetic.market));
    }
    return DQN_OK;
}

static enum dqn_status check_trading(const struct dqn_config *c) {
    DQN_TRY(check_split(&c->data.split));
    DQN_TRY(check_oracle(c));
    const bool fixed = c->env.sizing == DQN_SIZING_FIXED_NOTIONAL;
    const bool linear = c->reward.kind == DQN_REWARD_LINEAR;
    if (fixed != linear) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "env.sizing = %s does not go with reward.kind = %s; fixed_notional goes "
                        "with linear, equity with log_return",
                        dqn_config_choice("env.sizing", c->env.sizing),
                        dqn_config_choice("reward.kind", c->reward.kind));
    }
    if (c->env.tick_size >= c->synthetic.price && c->data.file.n == 0) {
        char tick[32];
        char price[32];
        return dqn_fail(DQN_ERR_CONFIG,
                        "env.tick_size = %s is not below synthetic.price = %s; prices would be 0",
                        dqn_real_text(tick, sizeof tick, c->env.tick_size),
                        dqn_real_text(price, sizeof price, c->synthetic.price));
    }
    return DQN_OK;
}

enum dqn_status dqn_config_rules(const struct dqn_config *config) {
    DQN_TRY(check_replay(config));
    DQN_TRY(check_training(config));
    return check_trading(config);
}
