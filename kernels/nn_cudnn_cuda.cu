/* tanh, ELU and SiLU by cuDNN. Where cuDNN cannot be used (another version than this build's, or it
 * does not start), nn_layers_cuda.cu computes them. */
#include <cudnn.h>

#include "nn_cuda.cuh"

/* The activation functions of cuDNN 9 are marked as deprecated in favour of its graph interface,
 * which compiles a kernel for each shape at run time: much machinery for one elementwise pass. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct dqn_nn_cudnn {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t tensor;
    cudnnActivationDescriptor_t activation[DQN_LINEAR + 1]; /* by enum dqn_activation */
};

#define TRY_CUDNN(call)                                                                            \
    do {                                                                                           \
        const cudnnStatus_t cudnn_error = (call);                                                  \
        if (cudnn_error != CUDNN_STATUS_SUCCESS) {                                                 \
            return dqn_fail(DQN_ERR_DEVICE, "cuDNN error %d (%s) in %s", (int)cudnn_error,         \
                            cudnnGetErrorString(cudnn_error), #call);                              \
        }                                                                                          \
    } while (0)

bool dqn_cudnn_version(char *text, size_t size) {
    const size_t version = cudnnGetVersion();
    snprintf(text, size, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    /* What is used here is in every version of this major one; CUDA's must agree as well. */
    return version / 10000 == CUDNN_MAJOR &&
           cudnnGetCudartVersion() / 1000 == CUDART_VERSION / 1000;
}

static enum dqn_status fill(struct dqn_nn_cudnn *cudnn) {
    static const struct {
        enum dqn_activation activation;
        cudnnActivationMode_t mode;
    } modes[] = {{DQN_TANH, CUDNN_ACTIVATION_TANH},
                 {DQN_ELU, CUDNN_ACTIVATION_ELU},
                 {DQN_SILU, CUDNN_ACTIVATION_SWISH}};
    TRY_CUDNN(cudnnCreate(&cudnn->handle));
    TRY_CUDNN(cudnnCreateTensorDescriptor(&cudnn->tensor));
    for (size_t i = 0; i < DQN_COUNT_OF(modes); i++) {
        cudnnActivationDescriptor_t *at = &cudnn->activation[modes[i].activation];
        TRY_CUDNN(cudnnCreateActivationDescriptor(at));
        /* the coefficient is ELU's alpha */
        TRY_CUDNN(cudnnSetActivationDescriptor(*at, modes[i].mode, CUDNN_PROPAGATE_NAN, 1.0));
    }
    TRY_CUDNN(cudnnSetActivationDescriptorSwishBeta(cudnn->activation[DQN_SILU], 1.0));
    return DQN_OK;
}

void dqn_cudnn_destroy(struct dqn_nn_cudnn *cudnn) {
    if (cudnn == NULL) {
        return;
    }
    for (size_t i = 0; i < DQN_COUNT_OF(cudnn->activation); i++) {
        if (cudnn->activation[i] != NULL) {
            (void)cudnnDestroyActivationDescriptor(cudnn->activation[i]);
        }
    }
    if (cudnn->tensor != NULL) {
        (void)cudnnDestroyTensorDescriptor(cudnn->tensor);
    }
    if (cudnn->handle != NULL) {
        (void)cudnnDestroy(cudnn->handle);
    }
    free(cudnn);
}

/* Starts cuDNN for a queue; it allocates, which is why the first use is outside of a capture. */
static enum dqn_status create(struct dqn_cuda_queue *q) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_nn_cudnn), "cuDNN's handles"));
    struct dqn_nn_cudnn *cudnn = (struct dqn_nn_cudnn *)memory;
    const enum dqn_status status = fill(cudnn);
    if (status != DQN_OK) {
        dqn_cudnn_destroy(cudnn);
        return status;
    }
    q->cudnn = cudnn;
    return DQN_OK;
}

bool dqn_cudnn_serves(struct dqn_cuda_queue *q, enum dqn_activation activation) {
    if (activation != DQN_TANH && activation != DQN_ELU && activation != DQN_SILU) {
        return false;
    }
    if (q->device->has_cudnn && q->cudnn == NULL && create(q) != DQN_OK) {
        q->device->has_cudnn = false;
        dqn_warn("activations run without cuDNN: %s", dqn_error_text());
    }
    return q->device->has_cudnn;
}

/* Describes as many of `rows` rows as one call may take; returns how many. */
static enum dqn_status describe(struct dqn_nn_cudnn *cudnn, size_t rows, size_t ld, size_t *taken) {
    const size_t limit = ((size_t)1 << 30) / ld; /* cuDNN counts elements in 32 bits */
    *taken = rows < limit ? rows : limit;
    TRY_CUDNN(cudnnSetTensor4dDescriptor(cudnn->tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1,
                                         (int)*taken, (int)ld));
    return DQN_OK;
}

enum dqn_status dqn_cudnn_activate(struct dqn_cuda_queue *q, enum dqn_activation activation,
                                   size_t rows, size_t ld, const float *z, float *y) {
    struct dqn_nn_cudnn *cudnn = q->cudnn;
    const float one = 1.0f, zero = 0.0f;
    TRY_CUDNN(cudnnSetStream(cudnn->handle, q->stream)); /* one of those beside each other */
    for (size_t first = 0, n = 0; first < rows; first += n) {
        DQN_TRY(describe(cudnn, rows - first, ld, &n));
        const size_t at = first * ld;
        TRY_CUDNN(cudnnActivationForward(cudnn->handle, cudnn->activation[activation], &one,
                                         cudnn->tensor, z + at, &zero, cudnn->tensor, y + at));
    }
    return DQN_OK;
}

enum dqn_status dqn_cudnn_slope(struct dqn_cuda_queue *q, enum dqn_activation activation,
                                size_t rows, size_t ld, const float *y, const float *z, float *d) {
    struct dqn_nn_cudnn *cudnn = q->cudnn;
    const float one = 1.0f, zero = 0.0f;
    TRY_CUDNN(cudnnSetStream(cudnn->handle, q->stream)); /* one of those beside each other */
    for (size_t first = 0, n = 0; first < rows; first += n) {
        DQN_TRY(describe(cudnn, rows - first, ld, &n));
        const size_t at = first * ld;
        TRY_CUDNN(cudnnActivationBackward(cudnn->handle, cudnn->activation[activation], &one,
                                          cudnn->tensor, y + at, cudnn->tensor, d + at,
                                          cudnn->tensor, z + at, &zero, cudnn->tensor, d + at));
    }
    return DQN_OK;
}
