/* YAML into config: first a small tree of nodes with their positions, within fixed limits, then a
 * walk over the tree that sets keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "config_parts.h"

enum {
    MAX_DEPTH = 16,
    MAX_KEYS = 100000,
    MAX_NODES = 4 * MAX_KEYS,
    MAX_SCALAR = 64 * 1024,
    MAX_VISITS = 10000, /* nodes walked, aliases expanded */
    MAX_SEEN = 512
};

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    bool quoted, complete;
    char *text;   /* of a scalar */
    char *anchor; /* NULL = none */
    int line, column;
    size_t target;            /* of an alias: the node it stands for, else itself */
    size_t n;                 /* children */
    size_t first, last, next; /* children are linked; 0 = none (node 0 is unused) */
};

struct tree {
    const char *source;
    struct node *nodes;
    size_t n, capacity, n_keys;
    size_t open[MAX_DEPTH + 1]; /* containers being filled */
    size_t depth;
    size_t root;
};

static enum dqn_status fail_at(const char *source, int line, int column, const char *text) {
    return dqn_fail(DQN_ERR_CONFIG, "%s:%d:%d: %s", source, line, column, text);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static enum dqn_status check_bytes(const char *source, const char *text, size_t bytes) {
    const unsigned char *c = (const unsigned char *)text;
    if (bytes >= 3 && memcmp(c, "\xEF\xBB\xBF", 3) == 0) {
        return fail_at(source, 1, 1,
                       "starts with a byte order mark; save the file as UTF-8 without one");
    }
    const bool utf16_mark =
        bytes >= 2 && (memcmp(c, "\xFF\xFE", 2) == 0 || memcmp(c, "\xFE\xFF", 2) == 0);
    const bool utf16_look = bytes >= 4 && ((c[0] == 0 && c[1] != 0 && c[2] == 0) ||
                                           (c[0] != 0 && c[1] == 0 && c[2] != 0 && c[3] == 0));
    if (utf16_mark || utf16_look) {
        return fail_at(source, 1, 1, "is UTF-16 text; save the file as UTF-8");
    }
    int line = 1;
    int column = 1;
    for (size_t i = 0; i < bytes;) {
        const size_t n = dqn_utf8_length(text + i, bytes - i);
        if (n == 0 || c[i] == 0) {
            return fail_at(source, line, column,
                           n == 0 ? "is not valid UTF-8; save the file as UTF-8"
                                  : "is a NUL byte; this is not a text file");
        }
        column++;
        if (c[i] == '\n') {
            line++;
            column = 1;
        }
        i += n;
    }
    return DQN_OK;
}

/* Whether a line (from 1) has a tab in its indentation; *column is its place. */
static bool indents_with_tab(const char *text, size_t bytes, size_t line, int *column) {
    const char *end = text + bytes;
    for (size_t i = 1; i < line; i++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (newline == NULL) {
            return false;
        }
        text = newline + 1;
    }
    const char *start = text;
    while (text < end && *text == ' ') {
        text++;
    }
    *column = (int)(text - start) + 1;
    return text < end && *text == '\t';
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* What libyaml's messages mean for somebody who writes a config. */
static const char *plain_words(const char *problem, const char *context) {
    static const struct {
        const char *problem, *context, *words;
    } table[] = {
        {"found unexpected end of stream", "quoted", "the quote that starts here is not closed"},
        {"could not find expected ':'", "", "a key here has no ':' after it"},
        {"mapping values are not allowed", "",
         "a ':' is not expected here; is the indentation "
         "right, or a text with ': ' in need of quotes?"},
        {"did not find expected ',' or ']'", "", "the list that starts here has no ']'"},
        {"did not find expected ',' or '}'", "", "the mapping that starts here has no '}'"},
        {"did not find expected key", "", "a key is expected; is the indentation right?"},
        {"cannot start any token", "",
         "a value cannot start with this character; put it in quotes"},
    };
    for (size_t i = 0; i < DQN_COUNT_OF(table); i++) {
        if (strstr(problem, table[i].problem) != NULL &&
            strstr(context, table[i].context) != NULL) {
            return table[i].words;
        }
    }
    return problem;
}

static enum dqn_status fail_parser(const struct tree *tree, const yaml_parser_t *parser,
                                   const char *text, size_t bytes) {
    if (parser->error == YAML_MEMORY_ERROR) {
        return dqn_fail(DQN_ERR_MEMORY, "%s: no host memory to read it", tree->source);
    }
    const char *problem = parser->problem != NULL ? parser->problem : "cannot be read as YAML";
    const char *context = parser->context != NULL ? parser->context : "";
    int column = 0;
    if (indents_with_tab(text, bytes, parser->problem_mark.line + 1, &column)) {
        return fail_at(tree->source, (int)parser->problem_mark.line + 1, column,
                       "is indented with a tab; use spaces");
    }
    const char *words = plain_words(problem, context);
    const bool at_start = strstr(words, "starts here") != NULL || strstr(words, "no ':'") != NULL;
    const yaml_mark_t mark = at_start ? parser->context_mark : parser->problem_mark;
    return fail_at(tree->source, (int)mark.line + 1, (int)mark.column + 1, words);
}

static enum dqn_status add_node(struct tree *tree, enum node_kind kind, yaml_mark_t mark,
                                size_t *out) {
    const int line = (int)mark.line + 1;
    const int column = (int)mark.column + 1;
    if (tree->n >= MAX_NODES) {
        return fail_at(tree->source, line, column, "more than 400000 values; is this a config?");
    }
    if (tree->n == tree->capacity) {
        const size_t capacity = tree->capacity > 0 ? 2 * tree->capacity : 256;
        struct node *nodes = realloc(tree->nodes, capacity * sizeof *nodes);
        if (nodes == NULL) {
            return dqn_fail(DQN_ERR_MEMORY, "%s: no host memory to read it", tree->source);
        }
        tree->nodes = nodes;
        tree->capacity = capacity;
    }
    const size_t id = tree->n++;
    tree->nodes[id] = (struct node){.kind = kind, .line = line, .column = column, .target = id};
    *out = id;
    if (tree->depth == 0) {
        tree->root = id;
        return DQN_OK;
    }
    struct node *parent = &tree->nodes[tree->open[tree->depth - 1]];
    if (parent->first == 0) {
        parent->first = id;
    } else {
        tree->nodes[parent->last].next = id;
    }
    parent->last = id;
    parent->n++;
    tree->n_keys += parent->kind == NODE_MAP && parent->n % 2 == 1;
    if (tree->n_keys > MAX_KEYS) {
        return fail_at(tree->source, line, column, "more than 100000 keys; is this a config?");
    }
    return DQN_OK;
}

static enum dqn_status set_anchor(struct tree *tree, size_t id, const yaml_char_t *anchor) {
    if (anchor == NULL) {
        return DQN_OK;
    }
    tree->nodes[id].anchor = strdup((const char *)anchor);
    if (tree->nodes[id].anchor == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "%s: no host memory to read it", tree->source);
    }
    return DQN_OK;
}

static enum dqn_status add_scalar(struct tree *tree, const yaml_event_t *event) {
    size_t id = 0;
    DQN_TRY(add_node(tree, NODE_SCALAR, event->start_mark, &id));
    struct node *node = &tree->nodes[id];
    if (event->data.scalar.length > MAX_SCALAR) {
        return fail_at(tree->source, node->line, node->column, "is a text of more than 64 KB");
    }
    if (event->data.scalar.tag != NULL) {
        return fail_at(tree->source, node->line, node->column,
                       "tags (!!type) are not supported; write the value alone");
    }
    const char *value = (const char *)event->data.scalar.value;
    if (strlen(value) != event->data.scalar.length) {
        return fail_at(tree->source, node->line, node->column, "is a text with a NUL byte inside");
    }
    node->text = strdup(value);
    if (node->text == NULL) {
        return dqn_fail(DQN_ERR_MEMORY, "%s: no host memory to read it", tree->source);
    }
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->complete = true;
    return set_anchor(tree, id, event->data.scalar.anchor);
}

static enum dqn_status open_container(struct tree *tree, enum node_kind kind,
                                      const yaml_event_t *event, const yaml_char_t *anchor) {
    size_t id = 0;
    DQN_TRY(add_node(tree, kind, event->start_mark, &id));
    if (tree->depth >= MAX_DEPTH) {
        return fail_at(tree->source, tree->nodes[id].line, tree->nodes[id].column,
                       "is nested more than 16 deep");
    }
    tree->open[tree->depth++] = id;
    return set_anchor(tree, id, anchor);
}

/* The latest anchor of that name counts. */
static enum dqn_status add_alias(struct tree *tree, const yaml_event_t *event) {
    const char *name = (const char *)event->data.alias.anchor;
    size_t id = 0;
    DQN_TRY(add_node(tree, NODE_SCALAR, event->start_mark, &id));
    for (size_t i = id; i > 1; i--) {
        const struct node *node = &tree->nodes[i - 1];
        if (node->anchor == NULL || strcmp(node->anchor, name) != 0) {
            continue;
        }
        if (!node->complete) {
            return fail_at(tree->source, tree->nodes[id].line, tree->nodes[id].column,
                           "is an alias inside of its own anchor");
        }
        tree->nodes[id].target = i - 1;
        return DQN_OK;
    }
    return fail_at(tree->source, tree->nodes[id].line, tree->nodes[id].column,
                   "is an alias without its anchor");
}

static enum dqn_status take_event(struct tree *tree, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (tree->root != 0) {
            return fail_at(tree->source, (int)event->start_mark.line + 1,
                           (int)event->start_mark.column + 1,
                           "a second document starts here; a config is one document");
        }
        return DQN_OK;
    case YAML_SCALAR_EVENT:
        return add_scalar(tree, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(tree, NODE_LIST, event, event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return open_container(tree, NODE_MAP, event, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        tree->nodes[tree->open[--tree->depth]].complete = true;
        return DQN_OK;
    case YAML_ALIAS_EVENT:
        return add_alias(tree, event);
    default:
        return DQN_OK;
    }
}

static enum dqn_status build_tree(struct tree *tree, const char *text, size_t bytes) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        return dqn_fail(DQN_ERR_MEMORY, "%s: no host memory to read it", tree->source);
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    enum dqn_status status = DQN_OK;
    bool done = false;
    while (status == DQN_OK && !done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = fail_parser(tree, &parser, text, bytes);
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        status = take_event(tree, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

static void free_tree(struct tree *tree) {
    for (size_t i = 1; i < tree->n; i++) {
        free(tree->nodes[i].text);
        free(tree->nodes[i].anchor);
    }
    free(tree->nodes);
}

/* ---- the walk ------------------------------------------------------------------------------ */

struct seen {
    char path[96];
    int line, column;
};

struct walk {
    const struct tree *tree;
    struct dqn_config *config;
    struct seen seen[MAX_SEEN];
    size_t n_seen, n_visits;
};

static enum dqn_status fail_node(const struct walk *walk, const struct node *node, const char *path,
                                 const char *text) {
    return dqn_fail(DQN_ERR_CONFIG, "%s:%d:%d: %s %s", walk->tree->source, node->line, node->column,
                    path, text);
}

/* Counts what was walked: aliases in aliases grow fast. */
static enum dqn_status visit(struct walk *walk, const struct node *node) {
    if (++walk->n_visits > MAX_VISITS) {
        return fail_at(walk->tree->source, node->line, node->column,
                       "aliases expand to more than 10000 values");
    }
    return DQN_OK;
}

static enum dqn_status note_seen(struct walk *walk, const struct node *node, const char *path) {
    for (size_t i = 0; i < walk->n_seen; i++) {
        const struct seen *seen = &walk->seen[i];
        if (strcmp(seen->path, path) == 0) {
            return dqn_fail(DQN_ERR_CONFIG, "%s:%d:%d: %s is set twice; it was set at %d:%d before",
                            walk->tree->source, node->line, node->column, path, seen->line,
                            seen->column);
        }
    }
    DQN_CHECK(walk->n_seen < MAX_SEEN);
    struct seen *seen = &walk->seen[walk->n_seen++];
    snprintf(seen->path, sizeof seen->path, "%s", path);
    seen->line = node->line;
    seen->column = node->column;
    return DQN_OK;
}

static struct dqn_scalar scalar_of(const struct node *node) {
    return (struct dqn_scalar){node->text, node->quoted, node->line, node->column};
}

/* The scalars of a list, or the one scalar; then the checks of the value itself. */
static enum dqn_status set_key(struct walk *walk, const struct dqn_key_ref *ref,
                               const struct node *node) {
    struct dqn_scalar values[DQN_LIST_MAX + 1] = {{0}};
    size_t n = 0;
    if (node->kind == NODE_MAP) {
        return fail_node(walk, node, ref->path, "takes a value, not a mapping of keys");
    }
    if (node->kind == NODE_SCALAR) {
        values[n++] = scalar_of(node);
    }
    for (size_t id = node->kind == NODE_LIST ? node->first : 0; id != 0;
         id = walk->tree->nodes[id].next) {
        const struct node *element = &walk->tree->nodes[walk->tree->nodes[id].target];
        DQN_TRY(visit(walk, element));
        if (element->kind != NODE_SCALAR) {
            return fail_node(walk, element, ref->path, "takes a list of values, nothing deeper");
        }
        if (n <= DQN_LIST_MAX) {
            values[n++] = scalar_of(element);
        }
    }
    size_t at = 0;
    const enum dqn_status status =
        dqn_key_set(walk->config, ref, values, n, node->kind == NODE_LIST, &at);
    if (status != DQN_OK) {
        const bool inside = n > 0 && at < n;
        return dqn_fail_prefix(status, "%s:%d:%d", walk->tree->source,
                               inside ? values[at].line : node->line,
                               inside ? values[at].column : node->column);
    }
    return DQN_OK;
}

static enum dqn_status fail_unknown(const struct walk *walk, const struct node *key,
                                    const char *path, bool is_map) {
    char suggestion[160];
    char shown[96];
    snprintf(shown, sizeof shown, "%.80s%s", path, strlen(path) > 80 ? "..." : "");
    dqn_key_suggest(path, suggestion, sizeof suggestion);
    return dqn_fail(DQN_ERR_CONFIG, "%s:%d:%d: %s%s is unknown; %s", walk->tree->source, key->line,
                    key->column, is_map ? "section " : "", shown, suggestion);
}

static enum dqn_status walk_map(struct walk *walk, const struct node *map, const char *prefix);

static enum dqn_status walk_pair(struct walk *walk, const struct node *key,
                                 const struct node *value, const char *prefix) {
    char path[256];
    DQN_TRY(visit(walk, key));
    if (key->kind != NODE_SCALAR) {
        return fail_at(walk->tree->source, key->line, key->column,
                       "a key is a name, not a list or a mapping");
    }
    if (strcmp(key->text, "<<") == 0 && !key->quoted) {
        return fail_at(walk->tree->source, key->line, key->column,
                       "merge keys (<<) are not supported; write the keys out");
    }
    snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key->text);
    struct dqn_key_ref ref;
    if (dqn_key_find(path, &ref)) {
        DQN_TRY(note_seen(walk, key, path));
        return set_key(walk, &ref, value);
    }
    if (!dqn_key_is_group(path)) {
        return fail_unknown(walk, key, path, value->kind == NODE_MAP);
    }
    DQN_TRY(note_seen(walk, key, path));
    if (value->kind != NODE_MAP) {
        return fail_node(walk, value, path, "is a section; write its keys as 'key: value' in it");
    }
    return walk_map(walk, value, path);
}

static enum dqn_status walk_map(struct walk *walk, const struct node *map, const char *prefix) {
    const struct node *nodes = walk->tree->nodes;
    for (size_t id = map->first; id != 0;) {
        const size_t value = nodes[id].next;
        DQN_CHECK(value != 0);
        DQN_TRY(walk_pair(walk, &nodes[nodes[id].target], &nodes[nodes[value].target], prefix));
        id = nodes[value].next;
    }
    return DQN_OK;
}

static enum dqn_status walk_root(struct walk *walk) {
    const struct tree *tree = walk->tree;
    if (tree->root == 0) {
        return dqn_fail(DQN_ERR_CONFIG, "%s:1:1: sets nothing; to run the defaults write 'seed: 1'",
                        tree->source);
    }
    const struct node *root = &tree->nodes[tree->root];
    if (root->kind == NODE_LIST) {
        return fail_at(tree->source, root->line, root->column,
                       "is a list; a config is a mapping, 'key: value' on each line");
    }
    if (root->kind == NODE_SCALAR && (root->text == NULL || root->text[0] == '\0')) {
        return fail_at(tree->source, root->line, root->column,
                       "sets nothing; to run the defaults write 'seed: 1'");
    }
    if (root->kind == NODE_SCALAR) {
        return fail_at(tree->source, root->line, root->column,
                       "is a text; a config is a mapping, 'key: value' on each line");
    }
    if (root->n == 0) {
        return fail_at(tree->source, root->line, root->column,
                       "sets nothing; to run the defaults write 'seed: 1'");
    }
    return walk_map(walk, root, "");
}

enum dqn_status dqn_config_yaml(struct dqn_config *config, const char *source, const char *text,
                                size_t bytes) {
    DQN_TRY(check_bytes(source, text, bytes));
    struct tree tree = {.source = source, .n = 1};
    struct walk *walk = NULL;
    enum dqn_status status = DQN_OK;
    /* Node 0 stands for "none". */
    tree.capacity = 256;
    DQN_TRY(dqn_alloc((void **)&tree.nodes, tree.capacity, sizeof *tree.nodes, source));
    DQN_TRY_GOTO(build_tree(&tree, text, bytes));
    DQN_TRY_GOTO(dqn_alloc((void **)&walk, 1, sizeof *walk, source));
    walk->tree = &tree;
    walk->config = config;
    DQN_TRY_GOTO(walk_root(walk));
done:
    free(walk);
    free_tree(&tree);
    return status;
}
