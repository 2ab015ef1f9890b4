#include "versions.h"

#include <hdf5.h>
#include <openssl/crypto.h>
#include <yaml.h>
#include <zlib.h>

#include "backend.h"
#include "h5file.h"

enum dqn_status dqn_versions_check(void) {
    return dqn_h5_check_library();
}

void dqn_versions_print(FILE *out) {
    static const char *const backends[] = {"cpu", "cuda"};
    unsigned hdf5[3] = {0, 0, 0};
    H5get_libversion(&hdf5[0], &hdf5[1], &hdf5[2]);
    fprintf(out, "dqn-train %s\nHDF5 %u.%u.%u, libyaml %s, zlib %s, %s\n", DQN_VERSION, hdf5[0],
            hdf5[1], hdf5[2], yaml_get_version_string(), zlibVersion(),
            OpenSSL_version(OPENSSL_VERSION));
    for (size_t i = 0; i < DQN_COUNT_OF(backends); i++) {
        char text[256];
        const struct dqn_backend *backend = dqn_backend_find(backends[i]);
        fprintf(out, "%s backend: %s\n", backends[i],
                backend == NULL             ? "not built in"
                : backend->versions == NULL ? "built in"
                                            : backend->versions(text, sizeof text));
    }
}
