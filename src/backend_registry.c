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
