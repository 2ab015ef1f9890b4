/* Values: from text to a checked number, truth, choice, text or list. Numbers mean the same in a
 * file and on the command line, and in every locale. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config_parts.h"

/* strtod that knows the decimal point only. `text` has the form that check_number accepts. */
static double read_decimal(const char *text) {
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    DQN_CHECK(c != (locale_t)0);
    const double value = strtod_l(text, NULL, c);
    freelocale(c);
    return value;
}

/* "path = value", the value cut where it is long and its control characters hidden. */
static void name_value(char *name, size_t size, const char *path, const char *text) {
    char shown[64];
    size_t n = 0;
    for (; text[n] != '\0' && n + 4 < sizeof shown; n++) {
        shown[n] = iscntrl((unsigned char)text[n]) ? '?' : text[n];
    }
    snprintf(shown + n, sizeof shown - n, "%s", text[n] != '\0' ? "..." : "");
    snprintf(name, size, "%s = %s", path, shown);
}

static bool is_nonfinite_word(const char *text) {
    static const char *const words[] = {"nan", "inf", "infinity"};
    const char *bare = text + strspn(text, "+-.");
    for (size_t i = 0; i < DQN_COUNT_OF(words); i++) {
        if (strcasecmp(bare, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* [+-] digits [. digits] [e [+-] digits], at least one digit before the exponent. */
static bool has_number_form(const char *text) {
    const char *c = text + (*text == '+' || *text == '-');
    const size_t whole = strspn(c, "0123456789");
    c += whole;
    size_t fraction = 0;
    if (*c == '.') {
        fraction = strspn(++c, "0123456789");
        c += fraction;
    }
    if (whole + fraction == 0) {
        return false;
    }
    if (*c == 'e' || *c == 'E') {
        c++;
        c += *c == '+' || *c == '-';
        const size_t exponent = strspn(c, "0123456789");
        if (exponent == 0) {
            return false;
        }
        c += exponent;
    }
    return *c == '\0';
}

/* Says what keeps a text from being a number. */
static enum dqn_status check_number(const char *name, const struct dqn_scalar *value) {
    const char *text = value->text;
    const char *bare = text + (*text == '+' || *text == '-');
    if (value->quoted) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is quoted text; write the number without quotes", name);
    }
    if (*text == '\0') {
        return dqn_fail(DQN_ERR_CONFIG, "%shas no value; write a number", name);
    }
    if (is_nonfinite_word(text)) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is not a finite number", name);
    }
    if (has_number_form(text)) {
        if (bare[0] == '0' && isdigit((unsigned char)bare[1])) {
            return dqn_fail(DQN_ERR_CONFIG, "%s starts with a zero; write it without", name);
        }
        return DQN_OK;
    }
    if (strncasecmp(bare, "0x", 2) == 0) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is hexadecimal; write a decimal number", name);
    }
    if (strchr(text, '_') != NULL && isdigit((unsigned char)bare[0])) {
        return dqn_fail(DQN_ERR_CONFIG, "%s has an underscore; write the digits alone, or 1e6",
                        name);
    }
    if (strchr(text, ',') != NULL) {
        return dqn_fail(DQN_ERR_CONFIG, "%s has a comma; the decimal mark is a point", name);
    }
    return dqn_fail(DQN_ERR_CONFIG, "%s is not a number", name);
}

/* A whole number, exact however it is written: 1e6, 12.5e1, 9007199254740993. Returns 1 when it is
 * not whole, 2 when it does not fit (then *out is the limit on its side), 0 when it is good. */
static int read_whole(const char *text, int64_t *out) {
    const bool negative = *text == '-';
    const char *c = text + (*text == '+' || *text == '-');
    const size_t mantissa = strcspn(c, "eE");
    errno = 0;
    long exponent = c[mantissa] != '\0' ? strtol(c + mantissa + 1, NULL, 10) : 0;
    exponent = exponent > 100000 ? 100000 : exponent < -100000 ? -100000 : exponent;
    const char *point = memchr(c, '.', mantissa);
    const size_t whole = point != NULL ? (size_t)(point - c) : mantissa;
    if (point != NULL) {
        exponent -= (long)(mantissa - whole - 1);
    }
    /* Trailing zeros belong to the exponent; what is left over below the point is a fraction. */
    size_t end = mantissa;
    while (end > 0 && (c[end - 1] == '0' || c[end - 1] == '.')) {
        exponent += c[end - 1] == '0';
        end--;
    }
    bool fits = true;
    int64_t value = 0;
    for (size_t i = 0; i < end; i++) {
        if (c[i] == '.') {
            continue;
        }
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, c[i] - '0', &value);
    }
    const bool is_zero = fits && value == 0;
    if (!is_zero && exponent < 0) {
        return 1;
    }
    for (long i = 0; i < exponent && fits && !is_zero; i++) {
        fits = !__builtin_mul_overflow(value, 10, &value);
    }
    *out = negative ? -value : value;
    if (!fits) {
        *out = negative ? INT64_MIN : INT64_MAX;
        return 2;
    }
    return 0;
}

/* The ends of "(0, 1]" as text. */
struct range {
    char low[32], high[32];
    bool low_open, high_open;
};

static bool read_range(const char *text, struct range *out) {
    char left = 0;
    char right = 0;
    if (sscanf(text, "%c%31[^,], %31[^])]%c", &left, out->low, out->high, &right) != 4) {
        return false;
    }
    out->low_open = left == '(';
    out->high_open = right == ')';
    return true;
}

/* `low` and `high` compare the value with the ends: < 0, 0, > 0. */
static enum dqn_status range_verdict(const char *range, const struct range *ends, const char *name,
                                     int low, int high) {
    if (low < 0) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is below %s; allowed: %s", name, ends->low, range);
    }
    if (low == 0 && ends->low_open) {
        return dqn_fail(DQN_ERR_CONFIG, "%s must be above %s; allowed: %s", name, ends->low, range);
    }
    if (high > 0) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is above %s; allowed: %s", name, ends->high, range);
    }
    if (high == 0 && ends->high_open) {
        return dqn_fail(DQN_ERR_CONFIG, "%s must be below %s; allowed: %s", name, ends->high,
                        range);
    }
    return DQN_OK;
}

enum dqn_status dqn_range_check_real(const char *range, const char *name, double value) {
    struct range ends;
    if (!isfinite(value)) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is not a finite number", name);
    }
    if (!read_range(range, &ends)) {
        return DQN_OK;
    }
    const double low = read_decimal(ends.low);
    const double high = read_decimal(ends.high);
    return range_verdict(range, &ends, name, (value > low) - (value < low),
                         (value > high) - (value < high));
}

enum dqn_status dqn_range_check_int(const char *range, const char *name, int64_t value) {
    struct range ends;
    if (!read_range(range, &ends)) {
        return DQN_OK;
    }
    int64_t low = 0;
    int64_t high = 0;
    DQN_CHECK(read_whole(ends.low, &low) == 0 && read_whole(ends.high, &high) == 0);
    return range_verdict(range, &ends, name, (value > low) - (value < low),
                         (value > high) - (value < high));
}

static enum dqn_status set_real(const struct dqn_key *key, const char *name,
                                const struct dqn_scalar *value, double *out) {
    DQN_TRY(check_number(name, value));
    *out = read_decimal(value->text);
    if (isinf(*out)) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is too large for a number; allowed: %s", name,
                        key->range);
    }
    return dqn_range_check_real(key->range, name, *out);
}

static enum dqn_status set_int(const struct dqn_key *key, const char *name,
                               const struct dqn_scalar *value, int64_t *out) {
    DQN_TRY(check_number(name, value));
    if (read_whole(value->text, out) == 1) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is not a whole number; allowed: whole numbers in %s",
                        name, key->range);
    }
    return dqn_range_check_int(key->range, name, *out);
}

static enum dqn_status set_bool(const char *name, const struct dqn_scalar *value, bool *out) {
    static const char *const words[] = {"yes", "no", "on", "off", "y", "n", "1", "0"};
    *out = strcmp(value->text, "true") == 0;
    if (!value->quoted && (*out || strcmp(value->text, "false") == 0)) {
        return DQN_OK;
    }
    if (value->quoted) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is quoted text; write true or false without quotes",
                        name);
    }
    for (size_t i = 0; i < DQN_COUNT_OF(words); i++) {
        if (strcasecmp(value->text, words[i]) == 0) {
            return dqn_fail(DQN_ERR_CONFIG, "%s is not a truth value; write %s", name,
                            i % 2 == 0 ? "true" : "false");
        }
    }
    return dqn_fail(DQN_ERR_CONFIG, "%s is not a truth value; write true or false", name);
}

static enum dqn_status set_choice(const struct dqn_key *key, const char *name,
                                  const struct dqn_scalar *value, int *out) {
    char entry[64];
    for (int i = 0; dqn_choice_entry(key->range, i, entry, sizeof entry); i++) {
        if (strcmp(entry, value->text) == 0) {
            *out = i;
            return DQN_OK;
        }
    }
    const char *list = key->range[0] == '|' ? key->range + 1 : key->range;
    dqn_choice_nearest(key->range, value->text, entry, sizeof entry);
    if (entry[0] != '\0') {
        return dqn_fail(DQN_ERR_CONFIG, "%s is not one of %s; did you mean %s?", name, list, entry);
    }
    return dqn_fail(DQN_ERR_CONFIG, "%s is not one of %s", name, list);
}

static enum dqn_status set_text(const char *path, const char *name, const struct dqn_scalar *value,
                                char *out) {
    const size_t length = strlen(value->text);
    if (!value->quoted &&
        (length == 0 || strcmp(value->text, "null") == 0 || strcmp(value->text, "~") == 0)) {
        return dqn_fail(DQN_ERR_CONFIG,
                        "%s has no value; write '' for an empty text, quotes around a word", path);
    }
    if (length >= DQN_TEXT_MAX) {
        return dqn_fail(DQN_ERR_CONFIG, "%s is longer than %d bytes", name, DQN_TEXT_MAX - 1);
    }
    for (size_t i = 0; i < length;) {
        const size_t n = dqn_utf8_length(value->text + i, length - i);
        if (n == 0) {
            return dqn_fail(DQN_ERR_CONFIG, "%s is not valid UTF-8", path);
        }
        i += n;
    }
    memset(out, 0, DQN_TEXT_MAX);
    memcpy(out, value->text, length);
    return DQN_OK;
}

/* One element; `where` is its place. */
static enum dqn_status set_scalar(const struct dqn_key_ref *ref, const struct dqn_scalar *value,
                                  void *where) {
    char name[192];
    const struct dqn_key *key = ref->key;
    name_value(name, sizeof name, ref->path, value->text);
    if (value->text[0] == '\0' && !value->quoted) {
        snprintf(name, sizeof name, "%s ", ref->path);
    }
    switch (key->kind) {
    case DQN_KEY_BOOL:
        return set_bool(name, value, where);
    case DQN_KEY_INT:
    case DQN_KEY_INTS:
        return set_int(key, name, value, where);
    case DQN_KEY_REAL:
    case DQN_KEY_REALS:
        return set_real(key, name, value, where);
    case DQN_KEY_TEXT:
    case DQN_KEY_TEXTS:
        return set_text(ref->path, name, value, where);
    case DQN_KEY_CHOICE:
        return set_choice(key, name, value, where);
    }
    dqn_check_failed("kind is known", __FILE__, __LINE__);
}

/* The element size of a list, 0 for other kinds; `count` and `first` are its parts. */
static size_t list_parts(enum dqn_key_kind kind, void *member, size_t **count, char **first) {
    if (kind == DQN_KEY_INTS) {
        struct dqn_ints *list = member;
        *count = &list->n;
        *first = (char *)list->v;
        return sizeof list->v[0];
    }
    if (kind == DQN_KEY_REALS) {
        struct dqn_reals *list = member;
        *count = &list->n;
        *first = (char *)list->v;
        return sizeof list->v[0];
    }
    if (kind == DQN_KEY_TEXTS) {
        struct dqn_texts *list = member;
        *count = &list->n;
        *first = (char *)list->v;
        return sizeof list->v[0];
    }
    return 0;
}

enum dqn_status dqn_key_set(struct dqn_config *config, const struct dqn_key_ref *ref,
                            const struct dqn_scalar *values, size_t n, bool is_list, size_t *at) {
    char *member = (char *)config + ref->offset;
    size_t *count = NULL;
    char *first = NULL;
    const size_t element = list_parts(ref->key->kind, member, &count, &first);
    *at = 0;
    if (element == 0) {
        if (is_list) {
            return dqn_fail(DQN_ERR_CONFIG, "%s takes one value, not a list", ref->path);
        }
        return set_scalar(ref, &values[0], member);
    }
    if (!is_list && ref->key->kind != DQN_KEY_TEXTS) {
        return dqn_fail(DQN_ERR_CONFIG, "%s takes a list, such as [%s]", ref->path, ref->key->def);
    }
    if (n > DQN_LIST_MAX) {
        return dqn_fail(DQN_ERR_CONFIG, "%s has %zu entries; at most %d", ref->path, n,
                        DQN_LIST_MAX);
    }
    memset(member, 0, ref->key->bytes);
    for (size_t i = 0; i < n; i++) {
        *at = i;
        DQN_TRY(set_scalar(ref, &values[i], first + i * element));
    }
    *count = n;
    return DQN_OK;
}
