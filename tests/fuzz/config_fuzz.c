/* Fuzzes the YAML part of the configuration: any bytes are refused or loaded, and what is loaded
 * prints to text that loads to the equal config.
 * scripts/fuzz config SECONDS builds and runs it. */
#include <stdlib.h>
#include <string.h>

#include "config_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dqn_config config, again;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dqn_config_defaults(&config);
    if (dqn_config_yaml(&config, "fuzz", (const char *)data, size) != DQN_OK) {
        /* A refusal says where. */
        DQN_CHECK(strncmp(dqn_error_text(), "fuzz:", 5) == 0);
        return 0;
    }
    char *text = NULL;
    DQN_CHECK(dqn_config_print(&config, &text) == DQN_OK);
    dqn_config_defaults(&again);
    DQN_CHECK(dqn_config_yaml(&again, "printed", text, strlen(text)) == DQN_OK);
    DQN_CHECK(memcmp(&config, &again, sizeof config) == 0);
    free(text);
    return 0;
}
