/* The configuration: what is accepted, and the exact message of what is not. */
#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_parts.h"

static struct dqn_config config, other;

static enum dqn_status parse(const char *text) {
    return dqn_config_parse(&config, "x.yaml", "/base", text, 0, NULL);
}

static enum dqn_status set_one(const char *override) {
    return dqn_config_load(&config, NULL, 1, &override);
}

/* Fails unless the text is refused with "x.yaml:" + message. */
static void expect_refused(const char *text, const char *message) {
    const enum dqn_status status = parse(text);
    cr_assert_eq(status, DQN_ERR_CONFIG, "accepted: %s", text);
    cr_assert_eq(strncmp(dqn_error_text(), "x.yaml:", 7), 0);
    cr_expect_str_eq(dqn_error_text() + 7, message);
}

struct refusal {
    const char *text, *message;
};

static const struct refusal refusals[] = {
    {"replay:\n  alpha: 1.7\n", "2:10: replay.alpha = 1.7 is above 1; allowed: [0, 1]"},
    {"replay:\n  alpha: -1\n", "2:10: replay.alpha = -1 is below 0; allowed: [0, 1]"},
    {"replay: {alpha: .nan}\n", "1:17: replay.alpha = .nan is not a finite number"},
    {"replay: {alpha: NaN}\n", "1:17: replay.alpha = NaN is not a finite number"},
    {"replay: {alpha: -.inf}\n", "1:17: replay.alpha = -.inf is not a finite number"},
    {"replay: {alpha: 1e}\n", "1:17: replay.alpha = 1e is not a number"},
    {"learner: {lr: 1e-4x}\n", "1:15: learner.lr = 1e-4x is not a number"},
    {"learner: {lr: '1,5'}\n",
     "1:15: learner.lr = 1,5 is quoted text; write the number without quotes"},
    {"learner:\n  lr: 1,5\n", "2:7: learner.lr = 1,5 has a comma; the decimal mark is a point"},
    {"learner:\n  lr:\n", "2:6: learner.lr has no value; write a number"},
    {"learner: {lr: 0010}\n", "1:15: learner.lr = 0010 starts with a zero; write it without"},
    {"learner: {lr: 00.5}\n", "1:15: learner.lr = 00.5 starts with a zero; write it without"},
    {"train: {env_steps: 1_000}\n",
     "1:20: train.env_steps = 1_000 has an underscore; write the digits alone, or 1e6"},
    {"train: {env_steps: 0x10}\n",
     "1:20: train.env_steps = 0x10 is hexadecimal; write a decimal number"},
    {"train: {env_steps: 1.5}\n",
     "1:20: train.env_steps = 1.5 is not a whole number; allowed: whole numbers in [1, 1e15]"},
    {"train: {env_steps: 1e-1}\n",
     "1:20: train.env_steps = 1e-1 is not a whole number; allowed: whole numbers in [1, 1e15]"},
    {"train: {env_steps: 1e16}\n",
     "1:20: train.env_steps = 1e16 is above 1e15; allowed: [1, 1e15]"},
    {"train: {env_steps: 99999999999999999999}\n",
     "1:20: train.env_steps = 99999999999999999999 is above 1e15; allowed: [1, 1e15]"},
    {"train: {env_steps: 0}\n", "1:20: train.env_steps = 0 is below 1; allowed: [1, 1e15]"},
    {"train: {env_steps: \"100\"}\n",
     "1:20: train.env_steps = 100 is quoted text; write the number without quotes"},
    {"learner: {lr: 0}\n", "1:15: learner.lr = 0 must be above 0; allowed: (0, 10]"},
    {"learner: {lr: 1e400}\n",
     "1:15: learner.lr = 1e400 is too large for a number; allowed: (0, 10]"},
    {"learner: {gamma: 1.01}\n", "1:18: learner.gamma = 1.01 is above 1; allowed: [0, 1]"},
    {"learner: {adam_beta1: 1}\n", "1:23: learner.adam_beta1 = 1 must be below 1; allowed: [0, 1)"},
    {"learner: {max_grad_norm: 0}\n",
     "1:26: learner.max_grad_norm = 0 must be above 0; allowed: (0, 1e30]"},
    {"seed: -1\n", "1:7: seed = -1 is below 0; allowed: [0, 9e18]"},
    {"seed: abc\n", "1:7: seed = abc is not a number"},
    {"seed: [1]\n", "1:8: seed takes one value, not a list"},
    {"seed: {a: 1}\n", "1:7: seed takes a value, not a mapping of keys"},
    {"learner: {double: yes}\n", "1:19: learner.double = yes is not a truth value; write true"},
    {"learner: {double: Off}\n", "1:19: learner.double = Off is not a truth value; write false"},
    {"learner: {double: 'true'}\n",
     "1:19: learner.double = true is quoted text; write true or false without quotes"},
    {"learner: {double: 1}\n", "1:19: learner.double = 1 is not a truth value; write true"},
    {"learner: {double: maybe}\n",
     "1:19: learner.double = maybe is not a truth value; write true or false"},
    {"learner: {loss: hubber}\n",
     "1:17: learner.loss = hubber is not one of huber|squared; did you mean huber?"},
    {"learner: {loss: zebra}\n", "1:17: learner.loss = zebra is not one of huber|squared"},
    {"env: {name: cart_pole}\n", "1:13: env.name = cart_pole is not one of "
                                 "trading|cartpole|acrobot|mountain_car; did you mean cartpole?"},
    {"device: gpu\n", "1:9: device = gpu is not one of auto|cpu|cuda"},
    {"name:\n", "1:6: name has no value; write '' for an empty text, quotes around a word"},
    {"name: null\n", "1:7: name has no value; write '' for an empty text, quotes around a word"},
    {"name: [a]\n", "1:8: name takes one value, not a list"},
    {"net: {hidden: 64}\n", "1:15: net.hidden takes a list, such as [256, 256]"},
    {"net: {hidden: []}\n",
     " net.hidden = [] has no layer; write one width a layer, such as [256, 256]"},
    {"net: {hidden: [64, 0]}\n", "1:20: net.hidden = 0 is below 1; allowed: [1, 16384]"},
    {"net: {hidden: [64, [64]]}\n", "1:20: net.hidden takes a list of values, nothing deeper"},
    {"net:\n  hidden:\n    - 64\n    - 64.5\n",
     "4:7: net.hidden = 64.5 is not a whole number; allowed: whole numbers in [1, 16384]"},
    {"learner: {alpha: 0.5}\n",
     "1:11: learner.alpha is unknown; replay.alpha is a key of section replay"},
    {"learner: {learning_rte: 0.5}\n",
     "1:11: learner.learning_rte is unknown; did you mean train.learning_starts?"},
    {"learning_rte: 1e-3\n", "1:1: learning_rte is unknown; did you mean train.learning_starts?"},
    {"train: {learning-starts: 10}\n",
     "1:9: train.learning-starts is unknown; write train.learning_starts"},
    {"train: {learning_strats: 10}\n",
     "1:9: train.learning_strats is unknown; did you mean train.learning_starts?"},
    {"replya: {alpha: 0.5}\n", "1:1: section replya is unknown; did you mean replay?"},
    {"zzzzqqq: 1\n", "1:1: zzzzqqq is unknown; --help lists the keys"},
    {"capacity: 1000\n", "1:1: capacity is unknown; replay.capacity is a key of section replay"},
    {"replay: 5\n", "1:9: replay is a section; write its keys as 'key: value' in it"},
    {"replay: [1]\n", "1:9: replay is a section; write its keys as 'key: value' in it"},
    {"replay:\n", "1:8: replay is a section; write its keys as 'key: value' in it"},
    {"seed: 1\nseed: 2\n", "2:1: seed is set twice; it was set at 1:1 before"},
    {"seed: 1\n'seed': 2\n", "2:1: seed is set twice; it was set at 1:1 before"},
    {"replay: {alpha: 0.5, alpha: 0.5}\n",
     "1:22: replay.alpha is set twice; it was set at 1:10 before"},
    {"replay: {alpha: 0.5}\nreplay: {epsilon: 0.1}\n",
     "2:1: replay is set twice; it was set at 1:1 before"},
    {"replay:\n  beta: {start: 0.1}\n  beta.start: 0.2\n",
     "3:3: replay.beta.start is set twice; it was set at 2:10 before"},
    {"replay.alpha: 0.5\nreplay: {alpha: 0.6}\n",
     "2:10: replay.alpha is set twice; it was set at 1:1 before"},
    {"a: &x {alpha: 0.5}\n", "1:1: section a is unknown; --help lists the keys"},
    {"replay: &r {alpha: 0.5}\nlearner: {<<: *r}\n",
     "2:11: merge keys (<<) are not supported; write the keys out"},
    {"replay: &r {alpha: *r}\n", "1:20: is an alias inside of its own anchor"},
    {"replay: {alpha: *none}\n", "1:17: is an alias without its anchor"},
    {"? [a]\n: 1\n", "1:3: a key is a name, not a list or a mapping"},
    {"", "1:1: sets nothing; to run the defaults write 'seed: 1'"},
    {"# nothing\n", "1:1: sets nothing; to run the defaults write 'seed: 1'"},
    {"---\n", "2:1: sets nothing; to run the defaults write 'seed: 1'"},
    {"{}\n", "1:1: sets nothing; to run the defaults write 'seed: 1'"},
    {"- 1\n- 2\n", "1:1: is a list; a config is a mapping, 'key: value' on each line"},
    {"seed 1\n", "1:1: is a text; a config is a mapping, 'key: value' on each line"},
    {"seed: 1\n---\nseed: 2\n", "2:1: a second document starts here; a config is one document"},
    {"seed: 1\n\tname: x\n", "2:1: is indented with a tab; use spaces"},
    {"replay:\n\talpha: 0.5\n", "2:1: is indented with a tab; use spaces"},
    {"name: \"open\nseed: 1\n", "1:7: the quote that starts here is not closed"},
    {"seed: 1\nname\ndevice: cpu\n", "2:1: a key here has no ':' after it"},
    {"net: {hidden: [64, 64}\n", "1:15: the list that starts here has no ']'"},
    {"net: {hidden: [64, 64\n", "1:15: the list that starts here has no ']'"},
    {"replay: {alpha: 0.5\n", "1:9: the mapping that starts here has no '}'"},
    {"seed: 1\n  name: x\n", "2:7: a ':' is not expected here; is the indentation right, or a text "
                             "with ': ' in need of quotes?"},
    {"name: a: b\n", "1:8: a ':' is not expected here; is the indentation right, or a text with ': "
                     "' in need of quotes?"},
    {"\357\273\277seed: 1\n",
     "1:1: starts with a byte order mark; save the file as UTF-8 without one"},
    {"xseed: @\n", "1:8: a value cannot start with this character; put it in quotes"},
    {"learner: {batch: 1000}\nreplay: {capacity: 100}\n",
     " learner.batch = 1000 is above replay.capacity = 100; a batch is drawn from the replay: "
     "lower the batch or raise the capacity"},
    {"replay: {capacity: 500}\n",
     " train.learning_starts = 1000 is above replay.capacity = 500; the warm-up must fit in the "
     "replay: lower it or raise the capacity"},
    {"replay: {capacity: 2000}\nenv: {lanes: 4096}\nlearner: {batch: 8}\ntrain: {learning_starts: "
     "8}\n",
     " env.lanes = 4096 is above replay.capacity = 2000; every lane adds a row a step: lower the "
     "lanes or raise the capacity"},
    {"replay: {capacity: 8}\nlearner: {batch: 8}\ntrain: {learning_starts: 8}\nenv: {lanes: "
     "1}\ncollect: {n_step: 9}\n",
     " collect.n_step = 9 is above replay.capacity = 8; lower the steps or raise the capacity"},
    {"collect: {eps_start: 0.1, eps_end: 0.2}\n",
     " collect.eps_end = 0.2 is above collect.eps_start = 0.1; exploration falls from start to "
     "end"},
    {"replay: {beta: {start: 0.9, end: 0.4}}\n",
     " replay.beta.start = 0.9 is above replay.beta.end = 0.4; beta rises from start to end"},
    {"data: {split: [0.5, 0.5]}\n",
     " data.split has 2 numbers; it takes three: train, validation, test"},
    {"data: {split: [0.5, 0.2, 0.2]}\n",
     " data.split sums to 0.8999999999999999; the three parts must sum to 1"},
    {"train: {env_steps: 100, epoch_steps: 200, learning_starts: 1}\n",
     " train.epoch_steps = 200 is above train.env_steps = 100; a run has at least one epoch"},
    {"train: {epoch_steps: 10}\n", " env.lanes = 16 is above train.epoch_steps = 10; an epoch has "
                                   "at least one step of every lane"},
    {"learner: {lr_schedule: linear, lr: 1e-4, lr_end: 1e-3}\n",
     " learner.lr_end = 0.001 is above learner.lr = 0.0001; a schedule falls from lr to lr_end"},
    {"device: cpu\nreplay: {device: cuda}\n", " replay.device = cuda does not go with device = "
                                              "cpu; use replay.device: auto, or another device"},
    {"env: {name: cartpole, observation: oracle}\n",
     " env.observation = oracle does not go with env.name = cartpole; use env.observation: "
     "features"},
    {"env: {observation: oracle}\n",
     " env.observation = oracle does not go with synthetic.market = realistic; use ou or "
     "ou_shuffled, or env.observation: features"},
    {"env: {observation: oracle}\ndata: {file: /a.csv}\n",
     " env.observation = oracle does not go with data.file = /a.csv: real data has no known state; "
     "use env.observation: features"},
    {"env: {sizing: fixed_notional}\n",
     " env.sizing = fixed_notional does not go with reward.kind = log_return; fixed_notional goes "
     "with linear, equity with log_return"},
    {"reward: {kind: linear}\n", " env.sizing = equity does not go with reward.kind = linear; "
                                 "fixed_notional goes with linear, equity with log_return"},
    {"env: {tick_size: 100}\n",
     " env.tick_size = 100 is not below synthetic.price = 100; prices would be 0"},
    {"replay: {epsilon: 1, max_priority: 0.5}\n",
     "1:36: replay.max_priority = 0.5 is below 1; allowed: [1, 4095]"},
    {"seed: !!str 1\n", "1:7: tags (!!type) are not supported; write the value alone"},
};

Test(config, bad_texts_are_refused_with_their_place) {
    for (size_t i = 0; i < DQN_COUNT_OF(refusals); i++) {
        expect_refused(refusals[i].text, refusals[i].message);
    }
}

static const struct refusal bad_overrides[] = {
    {"replay.alpha=1.7", "--set replay.alpha=1.7: replay.alpha = 1.7 is above 1; allowed: [0, 1]"},
    {"foo", "--set foo: write key=value, such as replay.alpha=0.5"},
    {"=1", "--set =1: write key=value, such as replay.alpha=0.5"},
    {"replay=1", "--set replay=1: replay is a section; name a key of it"},
    {"learner.alpha=1", "--set learner.alpha=1: learner.alpha is unknown; replay.alpha is a key of "
                        "section replay"},
    {"net.hidden=64,x", "--set net.hidden=64,x: net.hidden = x is not a number"},
    {"learner.lr=", "--set learner.lr=: learner.lr has no value; write a number"},
    {"learner.double=yes",
     "--set learner.double=yes: learner.double = yes is not a truth value; write true"},
    {"env.lanes=9223372036854775808",
     "--set env.lanes=9223372036854775808: env.lanes = 9223372036854775808 is above 1048576; "
     "allowed: [1, 1048576]"},
    {"name=\xff", "--set name=\xff: name is not valid UTF-8"},
};

Test(config, bad_overrides_are_refused) {
    for (size_t i = 0; i < DQN_COUNT_OF(bad_overrides); i++) {
        cr_assert_eq(set_one(bad_overrides[i].text), DQN_ERR_CONFIG, "%s", bad_overrides[i].text);
        cr_expect_str_eq(dqn_error_text(), bad_overrides[i].message);
    }
}

Test(config, every_spelling_of_a_number_is_the_same_number) {
    static const char *const spellings[] = {"1e-4", "1E-4", "1.e-4", ".0001", "+1e-4", "0.0001"};
    for (size_t i = 0; i < DQN_COUNT_OF(spellings); i++) {
        char text[64];
        snprintf(text, sizeof text, "learner: {lr: %s}\n", spellings[i]);
        cr_assert_eq(parse(text), DQN_OK, "%s", dqn_error_text());
        cr_expect(config.learner.lr == 0.0001);
        snprintf(text, sizeof text, "learner.lr=%s", spellings[i]);
        cr_assert_eq(set_one(text), DQN_OK, "%s", dqn_error_text());
        cr_expect(config.learner.lr == 0.0001);
    }
}

Test(config, whole_numbers_are_exact) {
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"0", 0},
                 {"-0", 0},
                 {"1e6", 1000000},
                 {"1.5e1", 15},
                 {"10.0", 10},
                 {"1200e-2", 12},
                 {"9007199254740993", 9007199254740993},
                 {"8999999999999999999", 8999999999999999999},
                 {"9e18", 9000000000000000000},
                 {"0e99999999999", 0}};
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        char text[64];
        snprintf(text, sizeof text, "seed: %s\n", cases[i].text);
        cr_assert_eq(parse(text), DQN_OK, "%s", dqn_error_text());
        cr_expect_eq(config.run.seed, cases[i].value, "%s", cases[i].text);
    }
}

Test(config, a_good_file_sets_what_it_says_and_nothing_else) {
    const char *text = "# comment\n"
                       "seed: 7\n"
                       "name: \"caf\\u00e9 -x\"\n"
                       "device: cpu\n"
                       "data: {file: [a.csv, ../b.csv, /c.csv], symbol: 'null'}\n"
                       "env: {sizing: fixed_notional, long_only: true}\n"
                       "reward: {kind: linear}\n"
                       "replay:\n"
                       "  kind: &k rank\n"
                       "  beta: {start: 0.5, end: 0.9}\n"
                       "  beta.updates: 10\n"
                       "net: {hidden: [&w 32, *w]}\n"
                       "replay.alpha: 0.25\n";
    cr_assert_eq(parse(text), DQN_OK, "%s", dqn_error_text());
    dqn_config_defaults(&other);
    strcpy(other.folder, "/base");
    memset(other.run.output, 0, sizeof other.run.output);
    cr_assert_not_null(getcwd(other.run.output, 900));
    strcat(other.run.output, "/checkpoints");
    strcpy(other.run.name, "caf\xc3\xa9 -x");
    strcpy(other.data.symbol, "null");
    other.run.seed = 7;
    other.run.device = DQN_DEVICE_CPU;
    other.data.file.n = 3;
    strcpy(other.data.file.v[0], "/base/a.csv");
    strcpy(other.data.file.v[1], "/b.csv");
    strcpy(other.data.file.v[2], "/c.csv");
    other.env.sizing = DQN_SIZING_FIXED_NOTIONAL;
    other.env.long_only = true;
    other.reward.kind = DQN_REWARD_LINEAR;
    other.replay.kind = DQN_REPLAY_RANK;
    other.replay.beta_start = 0.5;
    other.replay.beta_end = 0.9;
    other.replay.beta_updates = 10;
    other.replay.alpha = 0.25;
    other.net.hidden.v[0] = 32;
    other.net.hidden.v[1] = 32;
    cr_expect_eq(memcmp(&config, &other, sizeof config), 0);
}

Test(config, override_beats_file_beats_default) {
    const char *const overrides[] = {"learner.gamma=0.5", "net.hidden=64, 32", "data.file=x,y",
                                     "learner.gamma=0.7"};
    cr_assert_eq(dqn_config_parse(&config, "x.yaml", "/base", "learner: {gamma: 0.9, batch: 32}\n",
                                  4, overrides),
                 DQN_OK, "%s", dqn_error_text());
    cr_expect(config.learner.gamma == 0.7);
    cr_expect_eq(config.learner.batch, 32);
    cr_expect_eq(config.learner.accumulate, 1);
    cr_expect_eq(config.net.hidden.n, 2);
    cr_expect_eq(config.net.hidden.v[1], 32);
    char want[1024]; /* a path that is typed starts at the present folder */
    cr_assert_not_null(getcwd(want, sizeof want - 4));
    cr_expect_str_eq(config.data.file.v[1], strcat(want, "/y"));
}

/* Splitmix64 (Steele, Lea and Flood 2014): all that a property test needs. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The same double from a file, an override and its own printed text, 10000 times. The parts are
 * called alone, as 10000 whole loads would take a minute. */
Test(config, a_real_is_the_same_bits_however_it_comes) {
    uint64_t state = 1;
    struct dqn_key_ref ref;
    cr_assert(dqn_key_find("learner.max_grad_norm", &ref));
    for (int i = 0; i < 10000; i++) {
        char text[64];
        char printed[64];
        uint64_t bits = next_random(&state);
        double value = 0;
        size_t at = 0;
        memcpy(&value, &bits, sizeof value);
        value = fabs(value);
        if (!(value > 0 && value <= 1e30)) {
            continue;
        }
        snprintf(text, sizeof text, "learner: {max_grad_norm: %.17g}\n", value);
        cr_assert_eq(dqn_config_yaml(&config, "x.yaml", text, strlen(text)), DQN_OK, "%s",
                     dqn_error_text());
        cr_assert_eq(memcmp(&config.learner.max_grad_norm, &value, sizeof value), 0, "%s", text);
        dqn_real_text(printed, sizeof printed, value);
        const struct dqn_scalar scalar = {.text = printed};
        cr_assert_eq(dqn_key_set(&other, &ref, &scalar, 1, false, &at), DQN_OK);
        cr_assert_eq(memcmp(&other.learner.max_grad_norm, &value, sizeof value), 0, "%s", printed);
    }
}

static void expect_prints_and_returns(void) {
    char *text = NULL;
    cr_assert_eq(dqn_config_print(&config, &text), DQN_OK);
    cr_assert_eq(dqn_config_parse(&other, "printed", config.folder, text, 0, NULL), DQN_OK, "%s",
                 dqn_error_text());
    memcpy(other.path, config.path, sizeof config.path);
    cr_expect_eq(memcmp(&config, &other, sizeof config), 0, "%s", text);
    free(text);
}

Test(config, a_name_with_control_characters_is_refused) {
    static const char *const names[] = {"a\\nb", "\\x1b[2J", "\\x7f", "\\u0085"};
    for (size_t i = 0; i < DQN_COUNT_OF(names); i++) {
        char text[64];
        snprintf(text, sizeof text, "name: \"%s\"\n", names[i]);
        cr_expect_eq(parse(text), DQN_ERR_CONFIG, "%s", names[i]);
        cr_expect_not_null(strstr(dqn_error_text(), "control character"), "%s", dqn_error_text());
    }
    cr_expect_eq(parse("name: \"\\u00e9 - 1\"\n"), DQN_OK, "%s", dqn_error_text());
}

Test(config, what_is_printed_loads_to_the_equal_config) {
    cr_assert_eq(dqn_config_load(&config, NULL, 0, NULL), DQN_OK, "%s", dqn_error_text());
    expect_prints_and_returns();
    cr_assert_eq(
        parse("learner: {lr: 0.1000000000000000055, tau: 3e-308, adam_eps: 1e-323}\n"
              "seed: 8999999999999999999\n"
              "fill: {taker_bps: -0, impact: 0.3333333333333333}\n"
              "output: \"q\\\" b\\\\ n\\n t\\t \\x01 \\x7f \\u0085 \\u2028 \\u00e9 : # -\"\n"
              "data: {file: ['a, b.csv', \" [x]\", '*c']}\n"),
        DQN_OK, "%s", dqn_error_text());
    expect_prints_and_returns();
    for (int i = 0; i < 200; i++) {
        char override[64];
        static uint64_t state = 5;
        const double value = (double)next_random(&state) / 18446744073709551616.0;
        snprintf(override, sizeof override, "learner.gamma=%.17g", value);
        cr_assert_eq(set_one(override), DQN_OK, "%s", dqn_error_text());
        cr_assert(config.learner.gamma == value);
        expect_prints_and_returns();
    }
}

/* Every numeric key against -1, 0, NaN, infinity and 1e300. What its range says is read here by
 * sscanf, apart from the code under test. */
Test(config, each_number_is_held_to_its_range) {
    static const char *const values[] = {"-1", "0", "nan", "inf", "1e300"};
    static const double numbers[] = {-1, 0, NAN, INFINITY, 1e300};
    size_t n_keys = 0;
    for (size_t k = 0; k < dqn_key_count(); k++) {
        const struct dqn_key_ref ref = dqn_key_at(k);
        const enum dqn_key_kind kind = ref.key->kind;
        const bool is_list = kind == DQN_KEY_INTS || kind == DQN_KEY_REALS;
        if (!is_list && kind != DQN_KEY_INT && kind != DQN_KEY_REAL) {
            continue;
        }
        n_keys++;
        char left = 0;
        char right = 0;
        double low = 0;
        double high = 0;
        cr_assert_eq(sscanf(ref.key->range, "%c%lf, %lf%c", &left, &low, &high, &right), 4, "%s",
                     ref.path);
        for (size_t i = 0; i < DQN_COUNT_OF(values); i++) {
            const struct dqn_scalar scalar = {.text = values[i]};
            size_t at = 0;
            dqn_config_defaults(&config);
            const enum dqn_status status = dqn_key_set(&config, &ref, &scalar, 1, is_list, &at);
            const bool inside = (left == '[' ? numbers[i] >= low : numbers[i] > low) &&
                                (right == ']' ? numbers[i] <= high : numbers[i] < high);
            cr_expect_eq(status, inside ? DQN_OK : DQN_ERR_CONFIG, "%s = %s in %s", ref.path,
                         values[i], ref.key->range);
            if (!inside) {
                cr_expect_neq(strstr(dqn_error_text(), ref.path), NULL, "%s", dqn_error_text());
            }
        }
    }
    cr_expect_gt(n_keys, 80);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void write_bytes(const char *path, const char *bytes, size_t n) {
    FILE *out = fopen(path, "wb");
    cr_assert_not_null(out);
    cr_assert_eq(fwrite(bytes, 1, n, out), n);
    cr_assert_eq(fclose(out), 0);
}

static void enter_temporary_folder(char *folder) {
    strcpy(folder, "/tmp/dqn-config-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static void expect_load_refused(const char *path, const char *message) {
    cr_assert_eq(dqn_config_load(&config, path, 0, NULL), DQN_ERR_CONFIG, "%s", path);
    cr_expect_str_eq(dqn_error_text(), message);
}

Test(config, each_unusable_file_has_its_own_message) {
    char folder[64];
    enter_temporary_folder(folder);
    cr_assert_eq(mkdir("configs", 0755), 0);
    write_bytes("configs/run.yaml", "seed: 1\n", 8);
    write_bytes("empty.yaml", "", 0);
    write_bytes("bom.yaml", "\xEF\xBB\xBFseed: 1\n", 11);
    write_bytes("le.yaml", "\xFF\xFEs\0e\0", 6);
    write_bytes("be.yaml", "\0s\0e\0e", 6);
    write_bytes("bad.yaml", "seed: 1\nname: a\xFF\n", 17);
    write_bytes("nul.yaml", "seed: 1\nna\0me", 13);
    expect_load_refused("none.yaml", "none.yaml: there is no such config file");
    expect_load_refused("run.yaml", "run.yaml: there is no such config file; did you mean "
                                    "configs/run.yaml?");
    expect_load_refused("configs/run", "configs/run: there is no such config file; did you mean "
                                       "configs/run.yaml?");
    expect_load_refused("run", "run: there is no such config file; did you mean configs/run.yaml?");
    expect_load_refused("configs", "configs: is a folder; name a config file in it");
    expect_load_refused("empty.yaml",
                        "empty.yaml:1:1: sets nothing; to run the defaults write 'seed: 1'");
    expect_load_refused("bom.yaml", "bom.yaml:1:1: starts with a byte order mark; save the file as "
                                    "UTF-8 without one");
    expect_load_refused("le.yaml", "le.yaml:1:1: is UTF-16 text; save the file as UTF-8");
    expect_load_refused("be.yaml", "be.yaml:1:1: is UTF-16 text; save the file as UTF-8");
    expect_load_refused("bad.yaml", "bad.yaml:2:8: is not valid UTF-8; save the file as UTF-8");
    expect_load_refused("nul.yaml", "nul.yaml:2:3: is a NUL byte; this is not a text file");
    if (geteuid() != 0) {
        cr_assert_eq(chmod("empty.yaml", 0), 0);
        expect_load_refused("empty.yaml", "empty.yaml: cannot be opened: Permission denied");
    }
}

static char *repeat(const char *part, size_t n, const char *head) {
    const size_t length = strlen(part);
    char *text = calloc(1, strlen(head) + n * length + 1);
    cr_assert_not_null(text);
    strcpy(text, head);
    char *at = text + strlen(head);
    for (size_t i = 0; i < n; i++) {
        memcpy(at + i * length, part, length);
    }
    return text;
}

/* Each within a second, where the machine is not overloaded: 5 here. */
static void expect_quickly_refused(char *text, const char *message) {
    const double start = dqn_clock_s();
    expect_refused(text, message);
    cr_expect_lt(dqn_clock_s() - start, 5);
    free(text);
}

Test(config, monsters_are_refused_quickly) {
    char folder[64];
    expect_quickly_refused(repeat("[", 100000, "net: "), "1:21: is nested more than 16 deep");
    expect_quickly_refused(repeat("{a: ", 100000, "net: "), "1:66: is nested more than 16 deep");
    expect_quickly_refused(repeat("x", 70000, "name: "), "1:7: is a text of more than 64 KB");
    expect_quickly_refused(repeat("a: 1\n", 200000, ""),
                           "100001:1: more than 100000 keys; is this a config?");
    expect_quickly_refused(repeat("- 1\n", 500000, ""),
                           "399999:3: more than 400000 values; is this a config?");
    expect_quickly_refused(repeat("  - *a\n", 20000, "net:\n  hidden:\n  - &a 1\n"),
                           "3:5: aliases expand to more than 10000 values");
    enter_temporary_folder(folder);
    char *huge = repeat("# comment\n", 500000, "");
    write_bytes("huge.yaml", huge, strlen(huge));
    free(huge);
    expect_load_refused("huge.yaml", "huge.yaml: is larger than 4 MB; is this a config?");
}

/* The same file from three folders names the same files; spaces, UTF-8, leading hyphens work. */
Test(config, paths_start_at_the_folder_of_the_file) {
    char folder[64];
    char path[128];
    char want[128];
    enter_temporary_folder(folder);
    cr_assert_eq(mkdir("-a b\xc3\xa9", 0755), 0);
    const char *text = "data: {file: ['./x y.csv', ../z.csv]}\n";
    write_bytes("-a b\xc3\xa9/-c.yaml", text, strlen(text));
    snprintf(path, sizeof path, "%s/-a b\xc3\xa9/-c.yaml", folder);
    const char *const from[] = {".", "-a b\xc3\xa9", "/"};
    const char *const name[] = {"-a b\xc3\xa9/-c.yaml", "-c.yaml", path};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(chdir(folder), 0);
        cr_assert_eq(chdir(from[i]), 0);
        cr_assert_eq(dqn_config_load(&config, name[i], 0, NULL), DQN_OK, "%s", dqn_error_text());
        snprintf(want, sizeof want, "%s/-a b\xc3\xa9/x y.csv", folder);
        cr_expect_str_eq(config.data.file.v[0], want);
        snprintf(want, sizeof want, "%s/z.csv", folder);
        cr_expect_str_eq(config.data.file.v[1], want);
        /* The default starts at the present folder. */
        cr_assert_not_null(getcwd(want, sizeof want));
        strcat(want, strcmp(want, "/") == 0 ? "checkpoints" : "/checkpoints");
        cr_expect_str_eq(config.run.output, want);
        cr_expect_str_eq(config.path, path);
    }
}

Test(config, a_comma_locale_changes_nothing) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < DQN_COUNT_OF(names) && found == NULL; i++) {
        found = setlocale(LC_ALL, names[i]);
    }
    if (found == NULL) {
        cr_skip_test("no locale with a decimal comma is installed");
    }
    cr_assert_eq(parse("learner: {lr: 0.125}\n"), DQN_OK, "%s", dqn_error_text());
    cr_expect(config.learner.lr == 0.125);
    expect_prints_and_returns();
}

/* ---- resume --------------------------------------------------------------------------------- */

static void keep_line(void *context, const char *line) {
    char *lines = context;
    strncat(lines, line, 1000);
    strncat(lines, "\n", 2);
}

Test(config, resume_says_what_changes_and_refuses_what_cannot) {
    char lines[4096] = "";
    dqn_config_parse(&other, "saved", "/base", "learner: {lr: 0.5}\n", 0, NULL);
    cr_assert_eq(parse("learner: {lr: 0.25}\ntrain: {env_steps: 600000}\n"), DQN_OK);
    cr_expect_eq(dqn_config_resume(&config, &other, keep_line, lines), DQN_OK);
    cr_expect_str_eq(lines, "learner.lr: the checkpoint has 0.5; 0.25 is now in force\n"
                            "train.env_steps: the checkpoint has 500000; 600000 is now in force\n");
    cr_expect(config.learner.lr == 0.25);
    cr_assert_eq(parse("replay: {capacity: 5000}\n"), DQN_OK);
    cr_expect_eq(dqn_config_resume(&config, &other, keep_line, lines), DQN_ERR_CONFIG);
    cr_expect_str_eq(
        dqn_error_text(),
        "replay.capacity = 5000, but the checkpoint was made with 100000, which cannot "
        "change in a resumed run; set it back, or start a new run");
}

/* ---- texts ---------------------------------------------------------------------------------- */

Test(config, the_page_of_keys_is_what_the_program_prints) {
    char *printed = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&printed, &bytes);
    dqn_config_markdown(out);
    fclose(out);
    FILE *in = fopen("docs/config.md", "rb");
    cr_assert_not_null(in, "run from the project's folder");
    char *page = calloc(1, bytes + 2);
    const size_t n = fread(page, 1, bytes + 1, in);
    fclose(in);
    cr_expect_eq(n, bytes);
    cr_expect_eq(memcmp(page, printed, n < bytes ? n : bytes), 0,
                 "docs/config.md is old: dqn-train --config-doc > docs/config.md");
    free(page);
    free(printed);
}

Test(config, choices_have_the_names_of_their_numbers) {
    cr_expect_str_eq(dqn_config_choice("env.name", DQN_ENV_cartpole), "cartpole");
    cr_expect_str_eq(dqn_config_choice("synthetic.market", DQN_MARKET_OU_SHUFFLED), "ou_shuffled");
    cr_expect_str_eq(dqn_config_choice("date.order", 0), "?");
    cr_expect_str_eq(dqn_config_choice("data.date_order", 9), "?");
    cr_expect_str_eq(dqn_config_choice("data.date_order", DQN_DATE_MDY), "mdy");
}

Test(config, the_help_has_every_key) {
    char *printed = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&printed, &bytes);
    dqn_config_help(out);
    fclose(out);
    for (size_t i = 0; i < dqn_key_count(); i++) {
        cr_expect_not_null(strstr(printed, dqn_key_at(i).path));
    }
    free(printed);
}
