/* Writes JSON: objects, arrays, numbers, text. Commas and indentation are its own business. */
#ifndef DQN_MARKET_JSON_WRITER_H
#define DQN_MARKET_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct dqn_json {
    FILE *out;
    bool indented; /* else everything on one line */
    int depth;
    bool filled[16]; /* by depth: something was written there */
};

/* `key` is NULL inside an array and at the top. At most 15 deep. */
void dqn_json_object(struct dqn_json *json, const char *key);
void dqn_json_object_end(struct dqn_json *json);
void dqn_json_array(struct dqn_json *json, const char *key);
void dqn_json_array_end(struct dqn_json *json);
/* The shortest digits that read back as the same double; null where it is not finite. */
void dqn_json_real(struct dqn_json *json, const char *key, double value);
void dqn_json_count(struct dqn_json *json, const char *key, uint64_t value);
void dqn_json_bool(struct dqn_json *json, const char *key, bool value);
/* Bytes that are no UTF-8 become U+FFFD. */
void dqn_json_text(struct dqn_json *json, const char *key, const char *text);
void dqn_json_null(struct dqn_json *json, const char *key);

#endif
