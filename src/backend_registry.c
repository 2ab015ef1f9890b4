/* Which backends this build has: the only conditional on the backend. */
#include <string.h>

#include "backend.h"
#include "cpu/cpu.h"

#ifdef DQN_HAVE_CUDA
extern const struct dqn_backend dqn_cuda_backend; /* kernels/backend_cuda.cu */
#endif

const struct dqn_backend *dqn_backend_find(const char *name) {
    if (strcmp(name, dqn_cpu_backend.name) == 0) {
        return &dqn_cpu_backend;
    }
#ifdef DQN_HAVE_CUDA
    if (strcmp(name, dqn_cuda_backend.name) == 0) {
        return &dqn_cuda_backend;
    }
#endif
    return NULL;
}

enum dqn_status dqn_backend_need(const char *name, const struct dqn_backend **out) {
    *out = dqn_backend_find(name);
    return *out != NULL ? DQN_OK
                        : dqn_fail(DQN_ERR_DEVICE,
                                   "this build has no %s backend; build with DQN_CUDA=ON, or use "
                                   "device: cpu",
                                   name);
}
