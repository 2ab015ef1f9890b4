/* The configuration as text: values as YAML, the list of keys for --help and for docs/config.md. */
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "config_parts.h"

const char *dqn_real_text(char *text, size_t size, double value) {
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    DQN_CHECK(c != (locale_t)0);
    const locale_t before = uselocale(c);
    /* 17 significant digits always suffice (IEEE 754-2008, section 5.12.2); fewer often do. */
    const bool is_plain = value > -1e15 && value < 1e15 && value == (double)(int64_t)value;
    if (is_plain) {
        snprintf(text, size, "%.0f", value);
    }
    for (int digits = 1; !is_plain && digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    uselocale(before);
    freelocale(c);
    return text;
}

/* The code point of a valid UTF-8 character of n bytes. */
static unsigned code_point(const unsigned char *c, size_t n) {
    unsigned code = n == 1 ? c[0] : c[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        code = code << 6 | (c[i] & 0x3Fu);
    }
    return code;
}

/* Characters that YAML 1.1 does not allow as they are, or takes for line breaks (chapter 5). */
static bool needs_escape(unsigned code) {
    return code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

/* Double quotes, the one YAML form that can hold every text. */
static void write_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = dqn_utf8_length(text, left);
        DQN_CHECK(n > 0);
        const unsigned code = code_point((const unsigned char *)text, n);
        if (code == '"' || code == '\\') {
            fprintf(out, "\\%c", (char)code);
        } else if (needs_escape(code)) {
            fprintf(out, "\\u%04X", code);
        } else {
            fwrite(text, 1, n, out);
        }
        text += n;
        left -= n;
    }
    fputc('"', out);
}

static void write_ints(FILE *out, const struct dqn_ints *list) {
    for (size_t i = 0; i < list->n; i++) {
        fprintf(out, "%s%" PRId64, i > 0 ? ", " : "", list->v[i]);
    }
}

static void write_reals(FILE *out, const struct dqn_reals *list) {
    char text[40];
    for (size_t i = 0; i < list->n; i++) {
        fprintf(out, "%s%s", i > 0 ? ", " : "", dqn_real_text(text, sizeof text, list->v[i]));
    }
}

static void write_texts(FILE *out, const struct dqn_texts *list) {
    for (size_t i = 0; i < list->n; i++) {
        fputs(i > 0 ? ", " : "", out);
        write_quoted(out, list->v[i]);
    }
}

void dqn_key_write(FILE *out, const struct dqn_config *config, const struct dqn_key_ref *ref) {
    const void *member = (const char *)config + ref->offset;
    char text[64];
    switch (ref->key->kind) {
    case DQN_KEY_BOOL:
        fputs(*(const bool *)member ? "true" : "false", out);
        return;
    case DQN_KEY_INT:
        fprintf(out, "%" PRId64, *(const int64_t *)member);
        return;
    case DQN_KEY_REAL:
        fputs(dqn_real_text(text, sizeof text, *(const double *)member), out);
        return;
    case DQN_KEY_TEXT:
        write_quoted(out, member);
        return;
    case DQN_KEY_CHOICE:
        DQN_CHECK(dqn_choice_entry(ref->key->range, *(const int *)member, text, sizeof text));
        fputs(text, out);
        return;
    case DQN_KEY_INTS:
        fputc('[', out);
        write_ints(out, member);
        fputc(']', out);
        return;
    case DQN_KEY_REALS:
        fputc('[', out);
        write_reals(out, member);
        fputc(']', out);
        return;
    case DQN_KEY_TEXTS:
        fputc('[', out);
        write_texts(out, member);
        fputc(']', out);
        return;
    }
}

enum dqn_status dqn_config_print(const struct dqn_config *config, char **out) {
    size_t bytes = 0;
    *out = NULL;
    FILE *text = open_memstream(out, &bytes);
    if (text == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "config: no host memory for its text");
    }
    const char *section = "";
    const size_t n = dqn_key_count();
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        if (strcmp(section, ref.section) != 0) {
            section = ref.section;
            fprintf(text, "%s:\n", section);
        }
        fprintf(text, "%s%s: ", section[0] != '\0' ? "  " : "", ref.key->name);
        dqn_key_write(text, config, &ref);
        fputc('\n', text);
    }
    if (fclose(text) != 0) {
        free(*out);
        *out = NULL;
        return dqn_fail(DQN_ERR_MEMORY, "config: no host memory for its text");
    }
    return DQN_OK;
}

/* A default as it would be written in a file. */
static void default_text(const struct dqn_key *key, char *text, size_t size) {
    const bool is_list = key->kind >= DQN_KEY_INTS;
    if (is_list) {
        snprintf(text, size, "[%s]", key->def);
    } else {
        snprintf(text, size, "%s", key->def[0] != '\0' ? key->def : "''");
    }
}

static const char *range_text(const struct dqn_key *key) {
    switch (key->kind) {
    case DQN_KEY_BOOL:
        return "true|false";
    case DQN_KEY_TEXT:
        return "text";
    case DQN_KEY_TEXTS:
        return "texts";
    default:
        return key->range[0] == '|' ? key->range + 1 : key->range;
    }
}

void dqn_config_help(FILE *out) {
    const char *section = NULL;
    const size_t n = dqn_key_count();
    fputs("Keys: default, allowed values, unit; write them in the file or as --set key=value\n",
          out);
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        char def[64];
        default_text(ref.key, def, sizeof def);
        if (section == NULL || strcmp(section, ref.section) != 0) {
            section = ref.section;
            fprintf(out, "\n%s\n", section[0] != '\0' ? section : "top level");
        }
        fprintf(out, "  %-28s %s  %s%s%s\n      %s\n", ref.path, def, range_text(ref.key),
                ref.key->unit[0] != '\0' ? " " : "", ref.key->unit, ref.key->help);
    }
}

/* A cell of a Markdown table: bars would end it. */
static void write_cell(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            fputs(", ", out);
        } else {
            fputc(*text, out);
        }
    }
}

static const char *const markdown_head =
    "# Configuration\n"
    "\n"
    "This page is generated: `dqn-train --config-doc > docs/config.md`.\n"
    "\n"
    "A run reads one YAML file. Every key has a default, so a file holds only what differs:\n"
    "\n"
    "```yaml\n"
    "seed: 7\n"
    "env: {name: cartpole, lanes: 4}\n"
    "replay:\n"
    "  capacity: 50000\n"
    "  beta: {start: 0.4, end: 1}\n"
    "net: {hidden: [128, 128]}\n"
    "```\n"
    "\n"
    "## Rules\n"
    "\n"
    "- **Precedence**: command line, then file, then default. `--set section.key=value` may be\n"
    "  given several times; the last one counts. Lists are written with commas there:\n"
    "  `--set net.hidden=64,64`.\n"
    "- **Keys** are paths such as `replay.beta.start`, written nested or with dots. A key that is\n"
    "  unknown, in the wrong section or set twice is an error that names the place and the "
    "nearest\n"
    "  valid key. Merge keys (`<<`) are refused; anchors and aliases work.\n"
    "- **Numbers** mean the same in a file, on the command line and in every locale: `1e-4`,\n"
    "  `1.E-4`, `.0001` and `+0.0001` are equal, and `1e6` is a whole number. Refused are `0010`\n"
    "  (leading zero), `1_000`, `0x10`, `1,5`, `nan`, `inf` and numbers in quotes.\n"
    "- **Truth values** are `true` and `false` alone.\n"
    "- **Ranges**: `[` and `]` include the end, `(` and `)` exclude it.\n"
    "- **Paths** in a config file are relative to its folder; those of `--set` and of defaults to "
    "the\n"
    "  present folder.\n"
    "- **Limits of a file**: 4 MB, 100000 keys, 64 KB a value, 16 levels, UTF-8 without a byte\n"
    "  order mark, one document.\n"
    "- **Resume** says what a resumed run does with a key that differs from the checkpoint's: it\n"
    "  *may* change, the new value is *ignored*, or the run is *refused*.\n"
    "\n"
    "## Exit codes\n"
    "\n"
    "| code | meaning |\n"
    "|---|---|\n"
    "| 0 | done |\n"
    "| 1 | internal error, host memory is used up, or an evaluation's episode does not end |\n"
    "| 2 | usage or configuration |\n"
    "| 3 | market data missing or bad |\n"
    "| 4 | no usable device, it failed, or its memory is used up |\n"
    "| 5 | reading or writing files, or a folder in which another process trains |\n"
    "| 6 | training left the finite numbers |\n"
    "| 7 | a checkpoint is damaged or does not fit |\n"
    "| 129, 130, 143 | interrupted (SIGHUP, SIGINT, SIGTERM) after a clean save |\n";

void dqn_config_markdown(FILE *out) {
    static const char *const resume[] = {"may", "ignored", "refused"};
    const char *section = NULL;
    const size_t n = dqn_key_count();
    fputs(markdown_head, out);
    for (size_t i = 0; i < n; i++) {
        const struct dqn_key_ref ref = dqn_key_at(i);
        char def[64];
        default_text(ref.key, def, sizeof def);
        if (section == NULL || strcmp(section, ref.section) != 0) {
            section = ref.section;
            fprintf(out,
                    "\n## %s\n\n| key | default | allowed | unit | resume | meaning |\n"
                    "|---|---|---|---|---|---|\n",
                    section[0] != '\0' ? section : "Top level");
        }
        fprintf(out, "| `%s` | `%s` | ", ref.path, def);
        write_cell(out, range_text(ref.key));
        fprintf(out, " | %s | %s | ", ref.key->unit, resume[ref.key->resume]);
        write_cell(out, ref.key->help);
        fputs(" |\n", out);
    }
}
