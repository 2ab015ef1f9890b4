#include "memory_plan.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *prefix;
    enum dqn_plan_group group;
} prefixes[] = {
    {"replay/", DQN_PLAN_REPLAY},       {"sampler/", DQN_PLAN_REPLAY},
    {"env/", DQN_PLAN_ENVIRONMENT},     {"eval/", DQN_PLAN_ENVIRONMENT},
    {"collect/", DQN_PLAN_ENVIRONMENT}, {"window/", DQN_PLAN_ENVIRONMENT},
    {"row/", DQN_PLAN_ENVIRONMENT},     {"market/", DQN_PLAN_MARKET},
    {"staged/", DQN_PLAN_STAGING},      {"readback/", DQN_PLAN_STAGING},
};

static const char *const group_names[DQN_PLAN_GROUPS] = {"replay", "network", "environment",
                                                         "market", "staging"};

static enum dqn_plan_group group_of(const char *name) {
    for (size_t i = 0; i < DQN_COUNT_OF(prefixes); i++) {
        if (strncmp(name, prefixes[i].prefix, strlen(prefixes[i].prefix)) == 0) {
            return prefixes[i].group;
        }
    }
    return DQN_PLAN_NETWORK;
}

void dqn_memory_plan_make(struct dqn_memory_plan *plan, const struct dqn_arena *arena,
                          const struct dqn_device *device) {
    *plan = (struct dqn_memory_plan){.total = 0};
    for (size_t i = 0; i < dqn_arena_count(arena); i++) {
        const struct dqn_buffer *buffer = dqn_arena_at(arena, i);
        if (buffer->device != device) {
            continue;
        }
        if ((buffer->flags & DQN_BUFFER_PINNED) != 0) {
            plan->pinned += buffer->bytes;
        } else {
            plan->bytes[group_of(buffer->name)] += buffer->bytes;
            plan->total += buffer->bytes;
        }
    }
}

enum dqn_status dqn_memory_plan_check(const struct dqn_memory_plan *plan, uint64_t free_bytes,
                                      bool *but_replay) {
    char text[256], have[32];
    const bool fits = plan->total <= free_bytes;
    if (but_replay != NULL) {
        *but_replay = !fits && plan->total - plan->bytes[DQN_PLAN_REPLAY] <= free_bytes;
    }
    if (fits) {
        return DQN_OK;
    }
    return dqn_fail(
        DQN_ERR_DEVICE_MEMORY,
        "memory: %s needed, %s free; choose a smaller replay.capacity, batch or network",
        dqn_memory_plan_text(text, sizeof text, plan),
        dqn_format_bytes(have, sizeof have, free_bytes));
}

const char *dqn_memory_plan_text(char *text, size_t size, const struct dqn_memory_plan *plan) {
    char bytes[32];
    size_t used = 0;
    const char *between = " (";
    int n = snprintf(text, size, "%s", dqn_format_bytes(bytes, sizeof bytes, plan->total));
    used += n > 0 ? (size_t)n : 0;
    for (int i = 0; i < DQN_PLAN_GROUPS && used < size; i++) {
        if (plan->bytes[i] > 0) {
            n = snprintf(text + used, size - used, "%s%s %s", between, group_names[i],
                         dqn_format_bytes(bytes, sizeof bytes, plan->bytes[i]));
            used += n > 0 ? (size_t)n : 0;
            between = ", ";
        }
    }
    if (between[0] == ',' && used < size) {
        snprintf(text + used, size - used, ")");
    }
    return text;
}
