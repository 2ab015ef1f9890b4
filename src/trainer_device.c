/* Where a run's parts live: the devices, the memory plan, the way back to the CPU, and what a
 * person and a checkpoint are told of it (docs/fallback.md). */
#include <stdio.h>
#include <string.h>

#include "memory_plan.h"
#include "trainer_parts.h"

/* ---- choice ---------------------------------------------------------------------------------- */

void dqn_placement_first(struct dqn_placement *place, const struct dqn_trainer_options *options) {
    const struct dqn_config *config = options->config;
    *place = (struct dqn_placement){.cpu = config->run.device == DQN_DEVICE_CPU};
    if (config->run.device == DQN_DEVICE_AUTO && config->replay.device != DQN_DEVICE_CUDA &&
        dqn_backend_find("cuda") == NULL) {
        place->cpu = true;
        snprintf(place->why, sizeof place->why, "this build has no GPU backend");
    }
    place->apart =
        options->replay_apart || (!place->cpu && config->replay.device == DQN_DEVICE_CPU);
    if (place->apart) {
        snprintf(place->replay_why, sizeof place->replay_why, "replay.device = cpu");
    }
}

bool dqn_placement_retreat(struct dqn_placement *place, const struct dqn_config *config,
                           enum dqn_status status) {
    if (place->cpu) {
        return false;
    }
    if (place->replay_failed && !place->apart && config->replay.device == DQN_DEVICE_AUTO) {
        place->apart = true;
        snprintf(place->replay_why, sizeof place->replay_why, "%s", dqn_error_text());
        return true;
    }
    const bool unusable = place->open_failed || status == DQN_ERR_DEVICE_MEMORY;
    if (!unusable || config->run.device != DQN_DEVICE_AUTO ||
        config->replay.device == DQN_DEVICE_CUDA) {
        return false;
    }
    place->cpu = true;
    place->apart = false;
    place->replay_why[0] = '\0';
    snprintf(place->why, sizeof place->why, "the GPU cannot be used: %s", dqn_error_text());
    return true;
}

/* ---- devices --------------------------------------------------------------------------------- */

static enum dqn_status open_backend(const struct dqn_trainer *t, struct dqn_device *device,
                                    const char *name, bool late_queue) {
    const struct dqn_backend *backend = NULL;
    DQN_TRY(dqn_backend_need(name, &backend));
    const struct dqn_device_options options = {.index = (int)t->config.run.device_index,
                                               .threads = (int)t->config.run.threads,
                                               .precision = t->config.net.precision,
                                               .late_queue = late_queue};
    return backend->memory->open(device, &options);
}

enum dqn_status dqn_trainer_open_devices(struct dqn_trainer *t, bool late_queue) {
    struct dqn_placement *place = &t->place;
    place->open_failed = place->replay_failed = false;
    const enum dqn_status status =
        open_backend(t, &t->device, place->cpu ? "cpu" : "cuda", late_queue);
    place->open_failed = status != DQN_OK;
    DQN_TRY(status);
    t->device_open = true;
    /* The replay's, now or when it fails on the GPU. */
    if (place->apart || (!place->cpu && t->config.replay.device == DQN_DEVICE_AUTO)) {
        DQN_TRY(open_backend(t, &t->host_device, "cpu", false));
        t->host_open = true;
    }
    t->eager = place->apart;
    return DQN_OK;
}

void dqn_trainer_close_devices(struct dqn_trainer *t) {
    if (t->device_open) {
        t->device.backend->memory->close(&t->device);
    }
    if (t->host_open) {
        t->host_device.backend->memory->close(&t->host_device);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static enum dqn_status check_plan(struct dqn_trainer *t, const struct dqn_device *device) {
    uint64_t free_bytes = 0, total_bytes = 0;
    struct dqn_memory_plan plan;
    bool but_replay = false;
    dqn_memory_plan_make(&plan, t->arena, device);
    DQN_TRY(device->backend->memory->info(device, &free_bytes, &total_bytes));
    t->free_begun = device == &t->device ? free_bytes : t->free_begun;
    const enum dqn_status status = dqn_memory_plan_check(&plan, free_bytes, &but_replay);
    t->place.replay_failed = device == &t->device && but_replay;
    return status == DQN_OK ? DQN_OK : dqn_fail_prefix(status, "%s", device->backend->name);
}

static bool is_of_replay(const struct dqn_buffer *buffer) {
    return strncmp(buffer->name, "replay/", 7) == 0 || strncmp(buffer->name, "sampler/", 8) == 0;
}

enum dqn_status dqn_trainer_allocate(struct dqn_trainer *t) {
    const struct dqn_buffer *failed = NULL;
    DQN_TRY(check_plan(t, &t->device));
    if (t->place.apart) {
        DQN_TRY(check_plan(t, &t->host_device));
    }
    const enum dqn_status status = dqn_arena_commit(t->arena, &failed);
    if (status == DQN_ERR_DEVICE_MEMORY && failed != NULL) {
        t->place.replay_failed = is_of_replay(failed) && failed->device == &t->device;
    }
    return status;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *dqn_trainer_why_replay(const struct dqn_trainer *t) {
    const char *moved = dqn_replay_why_moved(t->replay);
    return moved[0] != '\0' ? moved : t->place.replay_why;
}

uint64_t dqn_trainer_device_bytes(const struct dqn_trainer *t) {
    return dqn_arena_planned_bytes(t->arena, &t->device) + dqn_saver_device_bytes(t);
}

/* "", or what checkpoints take beside the plan. */
static const char *copy_text(char *text, size_t size, const struct dqn_trainer *t,
                             const struct dqn_device *device) {
    const uint64_t bytes = device == &t->device ? dqn_saver_wanted_bytes(t) : 0;
    char number[32];
    if (bytes == 0) {
        return "";
    }
    snprintf(text, size, ", checkpoints' copy %s where there is room",
             dqn_format_bytes(number, sizeof number, bytes));
    return text;
}

static void say_memory(const struct dqn_trainer *t, const char *of,
                       const struct dqn_device *device) {
    char text[256], copy[96], have[32], pinned[32];
    uint64_t free_bytes = 0, total_bytes = 0;
    struct dqn_memory_plan plan;
    dqn_memory_plan_make(&plan, t->arena, device);
    if (device->backend->memory->info(device, &free_bytes, &total_bytes) != DQN_OK) {
        free_bytes = 0;
    }
    dqn_info("memory%s: %s%s, page-locked %s, still free %s", of,
             dqn_memory_plan_text(text, sizeof text, &plan),
             copy_text(copy, sizeof copy, t, device),
             dqn_format_bytes(pinned, sizeof pinned, plan.pinned),
             dqn_format_bytes(have, sizeof have, free_bytes));
}

void dqn_trainer_say_devices(const struct dqn_trainer *t) {
    const struct dqn_placement *place = &t->place;
    dqn_info("device: %s%s%s", t->device.description, place->why[0] != '\0' ? ", because " : "",
             place->why);
    if (place->apart) {
        dqn_info("replay: on %s, because %s", t->host_device.description, place->replay_why);
    }
    say_memory(t, "", &t->device);
    if (place->apart) {
        say_memory(t, " of the replay", &t->host_device);
    }
}

/* ---- a replay that moved --------------------------------------------------------------------- */

/* The checkpoint writer holds staging memory for the buffers of the arena: it is made anew. */
enum dqn_status dqn_trainer_settle_replay(struct dqn_trainer *t) {
    const bool saves = t->saver != NULL;
    t->eager = true;
    DQN_TRY(t->device.backend->queue->wait(t->queue));
    if (saves) {
        DQN_TRY(dqn_saver_finish(t));
        dqn_saver_destroy(t->saver);
        t->saver = NULL;
    }
    DQN_TRY(dqn_replay_settle(t->replay));
    return saves ? dqn_saver_create(t) : DQN_OK;
}

enum dqn_status dqn_trainer_in_phase(enum dqn_status status, const char *phase) {
    if (status == DQN_ERR_DEVICE || status == DQN_ERR_DEVICE_MEMORY) {
        return dqn_fail_prefix(status, "%s", phase);
    }
    return status;
}
