/* The configuration: one struct a section, made from config_schema.h, filled from a YAML file and
 * from key=value overrides. Constant once loaded; each module is handed its own section. */
#ifndef DQN_CONFIG_H
#define DQN_CONFIG_H

#include <stdio.h>

#include "base.h"
#include "config_schema.h"

enum { DQN_LIST_MAX = 64, DQN_TEXT_MAX = 1024 };

struct dqn_ints {
    size_t n;
    int64_t v[DQN_LIST_MAX];
};

struct dqn_reals {
    size_t n;
    double v[DQN_LIST_MAX];
};

struct dqn_texts {
    size_t n;
    char v[DQN_LIST_MAX][DQN_TEXT_MAX];
};

/* C types of the kinds. */
#define DQN_CONFIG_C_BOOL(m) bool m
#define DQN_CONFIG_C_INT(m) int64_t m
#define DQN_CONFIG_C_REAL(m) double m
#define DQN_CONFIG_C_TEXT(m) char m[DQN_TEXT_MAX]
#define DQN_CONFIG_C_CHOICE(m) int m
#define DQN_CONFIG_C_INTS(m) struct dqn_ints m
#define DQN_CONFIG_C_REALS(m) struct dqn_reals m
#define DQN_CONFIG_C_TEXTS(m) struct dqn_texts m
#define DQN_CONFIG_MEMBER(kind, key, member, def, range, unit, resume, help)                       \
    DQN_CONFIG_C_##kind(member);

/* struct dqn_config_run, dqn_config_env, ... */
#define DQN_CONFIG_STRUCT(name, member, list)                                                      \
    struct dqn_config_##member {                                                                   \
        list(DQN_CONFIG_MEMBER)                                                                    \
    };
DQN_CONFIG_SECTIONS(DQN_CONFIG_STRUCT)
#undef DQN_CONFIG_STRUCT

struct dqn_config {
#define DQN_CONFIG_SECTION(name, member, list) struct dqn_config_##member member;
    DQN_CONFIG_SECTIONS(DQN_CONFIG_SECTION)
#undef DQN_CONFIG_SECTION
    char path[DQN_TEXT_MAX];   /* absolute path of the file; "" when there was none */
    char folder[DQN_TEXT_MAX]; /* relative paths in the config start here */
};

/* Positions of CHOICE keys, in the order of the schema's ranges. */
enum { DQN_DEVICE_AUTO, DQN_DEVICE_CPU, DQN_DEVICE_CUDA };
enum { DQN_OBSERVE_FEATURES, DQN_OBSERVE_ORACLE };
enum { DQN_SIZING_EQUITY, DQN_SIZING_FIXED_NOTIONAL };
enum { DQN_BAR_TIME_OPEN, DQN_BAR_TIME_CLOSE };
enum { DQN_DATE_AUTO, DQN_DATE_YMD, DQN_DATE_DMY, DQN_DATE_MDY };
enum { DQN_GAPS_SEGMENT, DQN_GAPS_KEEP, DQN_GAPS_FFILL, DQN_GAPS_ERROR };
enum { DQN_ADJUST_AUTO, DQN_ADJUST_NONE };
enum { DQN_DUPLICATES_ERROR, DQN_DUPLICATES_KEEP_LAST };
enum { DQN_REPAIR_ERROR, DQN_REPAIR_WIDEN };
enum {
    DQN_MARKET_REALISTIC,
    DQN_MARKET_MARTINGALE,
    DQN_MARKET_DRIFT,
    DQN_MARKET_OU,
    DQN_MARKET_OU_SHUFFLED,
    DQN_MARKET_MARKOV_VISIBLE,
    DQN_MARKET_MARKOV_HIDDEN,
    DQN_MARKET_MICRO
};
enum {
    DQN_CELL_MARKET_PATIENT,
    DQN_CELL_MARKET_NORMAL,
    DQN_CELL_MARKET_AGGRESSIVE,
    DQN_CELL_LIMIT_PATIENT,
    DQN_CELL_LIMIT_NORMAL,
    DQN_CELL_LIMIT_AGGRESSIVE,
    DQN_CELL_IOC_PATIENT,
    DQN_CELL_IOC_NORMAL,
    DQN_CELL_IOC_AGGRESSIVE,
    DQN_CELLS
};
enum { DQN_WALK_ROLLING, DQN_WALK_ANCHORED };
enum { DQN_FILL_NEXT_OPEN, DQN_FILL_CLOSE };
enum { DQN_REWARD_LOG_RETURN, DQN_REWARD_LINEAR };
enum { DQN_BASELINE_NONE, DQN_BASELINE_BUYHOLD };
enum { DQN_REPLAY_UNIFORM, DQN_REPLAY_PROPORTIONAL, DQN_REPLAY_RANK };
enum { DQN_WEIGHT_NORM_BATCH, DQN_WEIGHT_NORM_BUFFER };
enum { DQN_SUMS_TREE, DQN_SUMS_SCAN };
enum { DQN_PRECISION_FP32, DQN_PRECISION_TF32, DQN_PRECISION_BF16 };
enum { DQN_LOSS_HUBER, DQN_LOSS_SQUARED };
enum { DQN_TARGET_HARD, DQN_TARGET_SOFT };

/* Fills every key with its default. */
void dqn_config_defaults(struct dqn_config *config);

/* Defaults, then the YAML file, then overrides "section.key=value" in order, then the rules that
 * join several keys. Errors name file:line:column (or the override), the value, the limit, and for
 * unknown names the nearest valid one: DQN_ERR_CONFIG. Relative paths start at the file's folder;
 * those of overrides, which a person types, at the present folder. */
enum dqn_status dqn_config_load(struct dqn_config *config, const char *path, size_t n_overrides,
                                const char *const *overrides);

/* The same from YAML text, as a checkpoint holds it; `source` names it in messages. Relative paths
 * of the text start at `folder`. */
enum dqn_status dqn_config_parse(struct dqn_config *config, const char *source, const char *folder,
                                 const char *text, size_t n_overrides,
                                 const char *const *overrides);

/* Every key with its value, as YAML that loads to the equal config bit for bit. Paths are written
 * absolute. The caller frees *out. */
enum dqn_status dqn_config_print(const struct dqn_config *config, char **out);

/* The list of keys with defaults, ranges, units and help: for --help (plain text) and for
 * docs/config.md (Markdown). */
void dqn_config_help(FILE *out);
void dqn_config_markdown(FILE *out);

/* Compares a resumed run's config with the checkpoint's. For each key that differs `said` is called
 * with its name, both values and what happens ("now in force", "ignored"). On success `config`
 * holds what the run shall use. A REFUSED difference: DQN_ERR_CONFIG naming key and both values. */
enum dqn_status dqn_config_resume(struct dqn_config *config, const struct dqn_config *saved,
                                  void (*said)(void *context, const char *line), void *context);

/* An absolute path for a path of the config (relative ones start at config->folder). */
enum dqn_status dqn_config_path(const struct dqn_config *config, const char *path, char *out,
                                size_t size);

/* The resolved `index`-th entry of a CHOICE key's range "a|b|c", for messages; "?" beyond the last.
 */
const char *dqn_config_choice(const char *section_key, int index);

#endif
