/* CUDA errors as error texts, and the faults that tests ask for. */
#include "cuda_common.cuh"

bool dqn_cuda_is_lost(cudaError_t error) {
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
        return true;
    default:
        return false;
    }
}

/* What the user can do about an error. */
static const char *remedy(cudaError_t error) {
    if (dqn_cuda_is_lost(error)) {
        return "; the device context and all data in it are lost: resume from the last checkpoint";
    }
    switch (error) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
        return "; this build holds no code for this GPU: build with its CMAKE_CUDA_ARCHITECTURES";
    case cudaErrorInsufficientDriver:
        return "; install a driver for this CUDA version, or use device: cpu";
    case cudaErrorNoDevice:
        return "; no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES, or use device: cpu";
    case cudaErrorDevicesUnavailable:
        return "; another process holds the GPU for itself";
    case cudaErrorMemoryAllocation:
        return "; choose smaller replay, batch or network, or free device memory";
    default:
        return "";
    }
}

enum dqn_status dqn_cuda_failed(cudaError_t error, const char *what, const char *file, int line) {
    (void)cudaGetLastError(); /* an error that can be cleared must not show up in a later check */
    const char *slash = strrchr(file, '/');
    return dqn_fail(error == cudaErrorMemoryAllocation ? DQN_ERR_DEVICE_MEMORY : DQN_ERR_DEVICE,
                    "CUDA error %d (%s) at %s:%d in %s%s", (int)error, cudaGetErrorString(error),
                    slash != NULL ? slash + 1 : file, line, what, remedy(error));
}

bool dqn_cuda_fault(const char *kind, const char **value) {
    const char *fault = getenv("DQN_TEST_FAULT");
    const size_t length = strlen(kind);
    if (fault == NULL || strncmp(fault, kind, length) != 0) {
        return false;
    }
    if (fault[length] != '\0' && fault[length] != ':') {
        return false;
    }
    if (value != NULL) {
        *value = fault[length] == ':' ? fault + length + 1 : "";
    }
    return true;
}

bool dqn_cuda_is_composed(void) {
    const char *text = getenv("DQN_TEST_COMPOSED");
    return text != NULL && *text == '1';
}

/* Writes where nothing is mapped. Grid 1, block 1; for the fault "illegal". */
static __global__ void k_illegal_write(size_t address) {
    *(volatile int *)address = 1;
}

bool dqn_cuda_refuses(const char *kernel) {
    const char *name = NULL;
    return dqn_cuda_fault("refuse", &name) && strcmp(name, kernel) == 0;
}

static enum dqn_status not_launched(enum dqn_status status, const char *kernel, cudaError_t error) {
    (void)cudaGetLastError();
    return dqn_fail(status, "kernel %s could not be launched: CUDA error %d (%s)%s", kernel,
                    (int)error, cudaGetErrorString(error), remedy(error));
}

enum dqn_status dqn_cuda_asked(const char *kernel, cudaError_t error) {
    return error == cudaSuccess
               ? dqn_cuda_launched(kernel)
               : not_launched(dqn_cuda_is_lost(error) ? DQN_ERR_DEVICE : DQN_ERR_REFUSED, kernel,
                              error);
}

enum dqn_status dqn_cuda_launched(const char *kernel) {
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        return not_launched(DQN_ERR_DEVICE, kernel, error);
    }
    const char *name = NULL;
    if (dqn_cuda_fault("launch", &name) && strcmp(name, kernel) == 0) {
        return dqn_fail(DQN_ERR_DEVICE, "kernel %s: the test fault launch:%s is set", kernel, name);
    }
    if (dqn_cuda_fault("illegal", &name) && strcmp(name, kernel) == 0) {
        k_illegal_write<<<1, 1>>>((size_t)16);
        (void)cudaStreamSynchronize(cudaStreamLegacy); /* every later call reports it */
    }
    return DQN_OK;
}
