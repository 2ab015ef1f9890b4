#include "json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base.h"

static void put_text(FILE *out, const char *text) {
    putc('"', out);
    while (*text != '\0') {
        const size_t length = dqn_utf8_length(text, SIZE_MAX);
        const unsigned char c = (unsigned char)*text;
        if (length == 0) {
            fputs("\\ufffd", out);
        } else if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            fwrite(text, 1, length, out);
        }
        text += length > 0 ? length : 1;
    }
    putc('"', out);
}

static void new_line(struct dqn_json *json) {
    if (json->indented) {
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    }
}

/* What comes before a value. */
static void begin_value(struct dqn_json *json, const char *key) {
    if (json->depth > 0) {
        if (json->filled[json->depth]) {
            fputs(json->indented ? "," : ", ", json->out);
        }
        json->filled[json->depth] = true;
        new_line(json);
    }
    if (key != NULL) {
        put_text(json->out, key);
        fputs(": ", json->out);
    }
}

static void begin_group(struct dqn_json *json, const char *key, char bracket) {
    begin_value(json, key);
    putc(bracket, json->out);
    json->depth++;
    DQN_CHECK(json->depth < (int)DQN_COUNT_OF(json->filled));
    json->filled[json->depth] = false;
}

static void end_group(struct dqn_json *json, char bracket) {
    const bool filled = json->filled[json->depth];
    json->depth--;
    if (filled) {
        new_line(json);
    }
    putc(bracket, json->out);
    if (json->depth == 0) {
        putc('\n', json->out);
    }
}

void dqn_json_object(struct dqn_json *json, const char *key) {
    begin_group(json, key, '{');
}

void dqn_json_object_end(struct dqn_json *json) {
    end_group(json, '}');
}

void dqn_json_array(struct dqn_json *json, const char *key) {
    begin_group(json, key, '[');
}

void dqn_json_array_end(struct dqn_json *json) {
    end_group(json, ']');
}

void dqn_json_real(struct dqn_json *json, const char *key, double value) {
    char text[32];
    if (!isfinite(value)) {
        dqn_json_null(json, key);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    begin_value(json, key);
    fputs(text, json->out);
}

void dqn_json_count(struct dqn_json *json, const char *key, uint64_t value) {
    begin_value(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void dqn_json_bool(struct dqn_json *json, const char *key, bool value) {
    begin_value(json, key);
    fputs(value ? "true" : "false", json->out);
}

void dqn_json_text(struct dqn_json *json, const char *key, const char *text) {
    begin_value(json, key);
    put_text(json->out, text);
}

void dqn_json_null(struct dqn_json *json, const char *key) {
    begin_value(json, key);
    fputs("null", json->out);
}
