/* The CUDA device: opening it with a proof that it works, memory, copies, and the table that joins
 * the backend's operations. */
#include <cublasLt.h>

#include "nn_cuda.cuh"

/* ---- opening ---- */

/* What every later step builds on, tried once at a size that takes no time: a kernel of this build
 * (fails where the build holds no code for the GPU), a matrix product, a copy back. */

enum { PROBE = 16 };

/* Grid 1; block 256; fills a with 1 and b with 2. */
static __global__ void k_probe(float *a, float *b) {
    a[threadIdx.x] = 1.0f;
    b[threadIdx.x] = 2.0f;
}

static enum dqn_status run_probe(struct dqn_cuda_queue *q, float *memory, float *result) {
    float *a = memory, *b = a + PROBE * PROBE, *d = b + PROBE * PROBE;
    k_probe<<<1, PROBE * PROBE, 0, q->stream>>>(a, b);
    DQN_LAUNCHED(k_probe);
    struct dqn_gemm gemm;
    memset(&gemm, 0, sizeof gemm);
    gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldd = PROBE;
    gemm.batch = 1;
    gemm.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    struct dqn_gemm_plan *plan = NULL;
    DQN_TRY(dqn_gemm_plan_needed(q->plans, &gemm, &plan));
    DQN_TRY(dqn_gemm_run(q->plans, plan, q->stream, a, b, 0.0f, d, NULL));
    DQN_CUDA(
        cudaMemcpyAsync(result, d, PROBE * PROBE * sizeof *d, cudaMemcpyDeviceToHost, q->stream));
    DQN_CUDA(cudaStreamSynchronize(q->stream));
    return DQN_OK;
}

static enum dqn_status probe(const struct dqn_device *device) {
    struct dqn_queue *q = NULL;
    float *memory = NULL, result[PROBE * PROBE];
    DQN_TRY(dqn_cuda_queue_ops.create(device, &q));
    const cudaError_t error = cudaMalloc((void **)&memory, 3 * sizeof result);
    enum dqn_status status = error == cudaSuccess
                                 ? run_probe(dqn_cuda_queue_of(q), memory, result)
                                 : dqn_cuda_failed(error, "cudaMalloc", __FILE__, __LINE__);
    for (int i = 0; i < PROBE * PROBE && status == DQN_OK; i++) {
        if (result[i] != 2.0f * PROBE) {
            status = dqn_fail(DQN_ERR_DEVICE, "the GPU computed %g for %g in the probe",
                              (double)result[i], 2.0 * PROBE);
        }
    }
    (void)cudaFree(memory);
    dqn_cuda_queue_ops.destroy(q);
    return status;
}

/* "CUDA 13.0, cuBLAS 13.1.0, cuDNN 9.19.0": of the libraries in use. */
static const char *cuda_versions(char *text, size_t size) {
    const size_t cublas = cublasLtGetVersion();
    char cudnn[16];
    int runtime = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    const bool fits = dqn_cudnn_version(cudnn, sizeof cudnn);
    snprintf(text, size, "CUDA %d.%d, cuBLAS %zu.%zu.%zu, cuDNN %s%s", runtime / 1000,
             runtime % 1000 / 10, cublas / 10000, cublas / 100 % 100, cublas % 100, cudnn,
             fits ? "" : " (left out)");
    return text;
}

/* "cuda:0 NVIDIA H200, compute 9.0, 132 SMs, fp32 products, driver for CUDA 13.0, CUDA 13.0, cuBLAS
 * ..." */
static void describe(struct dqn_device *device, const struct cudaDeviceProp *properties) {
    static const char *const precisions[] = {"fp32", "tf32", "bf16"};
    const struct dqn_cuda_device *impl = (const struct dqn_cuda_device *)device->impl;
    char versions[96];
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    snprintf(device->description, sizeof device->description,
             "cuda:%d %.48s, compute %d.%d, %d SMs, %s products, driver for CUDA %d.%d, %.60s",
             impl->index, properties->name, properties->major, properties->minor, impl->n_sms,
             precisions[impl->precision], driver / 1000, driver % 1000 / 10,
             cuda_versions(versions, sizeof versions));
}

/* cuDNN is of use for some activations only: without it this backend's own kernels serve. */
static void look_for_cudnn(struct dqn_cuda_device *impl) {
    char version[32];
    impl->has_cudnn = dqn_cudnn_version(version, sizeof version);
    if (!impl->has_cudnn) {
        dqn_warn("cuDNN %s does not fit this build and is left out; install the version that it "
                 "was built with",
                 version);
    }
}

static enum dqn_status check_index(int index) {
    int n_devices = 0;
    if (dqn_cuda_fault("no_driver", NULL)) {
        return dqn_cuda_failed(cudaErrorInsufficientDriver, "cudaGetDeviceCount", __FILE__,
                               __LINE__);
    }
    if (dqn_cuda_fault("no_device", NULL)) {
        return dqn_cuda_failed(cudaErrorNoDevice, "cudaGetDeviceCount", __FILE__, __LINE__);
    }
    DQN_CUDA(cudaGetDeviceCount(&n_devices));
    if (index < 0 || index >= n_devices) {
        return dqn_fail(DQN_ERR_DEVICE, "device_index = %d, but %d GPU%s visible", index, n_devices,
                        n_devices == 1 ? " is" : "s are");
    }
    return DQN_OK;
}

static enum dqn_status open_device(struct dqn_device *out,
                                   const struct dqn_device_options *options) {
    struct dqn_cuda_device *impl = (struct dqn_cuda_device *)out->impl;
    struct cudaDeviceProp properties;
    DQN_TRY(check_index(options->index));
    DQN_CUDA(cudaSetDevice(options->index));
    DQN_CUDA(cudaGetDeviceProperties(&properties, options->index));
    impl->index = options->index;
    impl->precision = options->precision;
    impl->n_sms = properties.multiProcessorCount;
    const enum dqn_status status = probe(out);
    if (status != DQN_OK) {
        return dqn_fail_prefix(DQN_ERR_DEVICE, "%.60s (compute capability %d.%d) failed its test",
                               properties.name, properties.major, properties.minor);
    }
    look_for_cudnn(impl);
    describe(out, &properties);
    return DQN_OK;
}

static enum dqn_status cuda_open(struct dqn_device *out, const struct dqn_device_options *options) {
    void *memory = NULL;
    memset(out, 0, sizeof *out);
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_cuda_device), "a CUDA device"));
    out->backend = &dqn_cuda_backend;
    out->impl = memory;
    const enum dqn_status status = open_device(out, options);
    if (status != DQN_OK) {
        free(memory);
        memset(out, 0, sizeof *out);
    }
    return status;
}

static void cuda_close(struct dqn_device *device) {
    free(device->impl);
    memset(device, 0, sizeof *device);
}

/* ---- memory ---- */

static enum dqn_status cuda_info(const struct dqn_device *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes) {
    size_t available = 0, total = 0;
    DQN_CUDA(cudaSetDevice(((const struct dqn_cuda_device *)device->impl)->index));
    DQN_CUDA(cudaMemGetInfo(&available, &total));
    const char *fault = NULL;
    *free_bytes = dqn_cuda_fault("free", &fault) ? strtoull(fault, NULL, 10) : available;
    *total_bytes = total;
    return DQN_OK;
}

/* Whether a test wants this allocation to fail. */
static bool alloc_fault(struct dqn_cuda_device *impl, size_t bytes) {
    const char *value = NULL;
    impl->n_allocs++;
    return dqn_cuda_fault("oom_all", NULL) ||
           (dqn_cuda_fault("oom", &value) && bytes >= strtoull(value, NULL, 10)) ||
           (dqn_cuda_fault("oom_at", &value) && impl->n_allocs == strtoull(value, NULL, 10)) ||
           (dqn_cuda_fault("oom_from", &value) && impl->n_allocs >= strtoull(value, NULL, 10));
}

/* Page-locked memory makes copies overlap with work; where the system has none left to lock, plain
 * memory gives the same results. */
static enum dqn_status alloc_pinned(struct dqn_cuda_device *impl, void **out, size_t bytes) {
    const cudaError_t error = dqn_cuda_fault("pinned", NULL)
                                  ? cudaErrorMemoryAllocation
                                  : cudaHostAlloc(out, bytes, cudaHostAllocPortable);
    if (error == cudaSuccess) {
        memset(*out, 0, bytes);
        return DQN_OK;
    }
    if (dqn_cuda_is_lost(error)) {
        return dqn_cuda_failed(error, "cudaHostAlloc", __FILE__, __LINE__);
    }
    (void)cudaGetLastError();
    if (!impl->warned) {
        dqn_warn("%zu bytes of page-locked host memory cannot be had (%s): plain memory is used, "
                 "copies will be slower",
                 bytes, cudaGetErrorString(error));
        impl->warned = true;
    }
    return dqn_alloc(out, bytes, 1, "host memory for copies");
}

/* Zeroed before any queue can touch it: queues do not wait for the default stream. */
static enum dqn_status alloc_device(void **out, size_t bytes) {
    DQN_CUDA(cudaMalloc(out, bytes));
    cudaError_t error = cudaMemset(*out, 0, bytes);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(cudaStreamLegacy);
    }
    if (error != cudaSuccess) {
        (void)cudaFree(*out);
        *out = NULL;
        return dqn_cuda_failed(error, "cudaMemset", __FILE__, __LINE__);
    }
    return DQN_OK;
}

static enum dqn_status cuda_alloc(const struct dqn_device *device, void **out, size_t bytes,
                                  bool pinned) {
    struct dqn_cuda_device *impl = (struct dqn_cuda_device *)device->impl;
    const size_t size = bytes > 0 ? bytes : 1;
    *out = NULL;
    DQN_CUDA(cudaSetDevice(impl->index));
    if (pinned) {
        return alloc_pinned(impl, out, size);
    }
    const enum dqn_status status =
        alloc_fault(impl, size)
            ? dqn_cuda_failed(cudaErrorMemoryAllocation, "cudaMalloc", __FILE__, __LINE__)
            : alloc_device(out, size);
    size_t available = 0, total = 0;
    if (status == DQN_ERR_DEVICE_MEMORY && cudaMemGetInfo(&available, &total) == cudaSuccess) {
        char want[32], have[32];
        return dqn_fail_prefix(status, "%s of device memory asked for, %s free",
                               dqn_format_bytes(want, sizeof want, size),
                               dqn_format_bytes(have, sizeof have, available));
    }
    return status;
}

/* Errors are not reported: after a lost context every free fails, and it was reported before. */
static void cuda_free(const struct dqn_device *device, void *data, bool pinned) {
    if (data == NULL) {
        return;
    }
    (void)cudaSetDevice(((const struct dqn_cuda_device *)device->impl)->index);
    if (!pinned) {
        (void)cudaFree(data);
    } else {
        struct cudaPointerAttributes attributes;
        const cudaError_t error = cudaPointerGetAttributes(&attributes, data);
        if (error == cudaSuccess && attributes.type == cudaMemoryTypeUnregistered) {
            free(data); /* plain memory of alloc_pinned */
        } else {
            (void)cudaFreeHost(data);
        }
    }
    (void)cudaGetLastError();
}

static enum dqn_status cuda_copy(struct dqn_queue *q, void *dst, const void *src, size_t bytes,
                                 enum dqn_copy_kind kind) {
    const cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                    cudaMemcpyDeviceToDevice};
    if (bytes > 0) {
        DQN_CUDA(cudaMemcpyAsync(dst, src, bytes, kinds[kind], dqn_cuda_stream(q)));
    }
    return DQN_OK;
}

static enum dqn_status cuda_zero(struct dqn_queue *q, void *dst, size_t bytes) {
    if (bytes > 0) {
        DQN_CUDA(cudaMemsetAsync(dst, 0, bytes, dqn_cuda_stream(q)));
    }
    return DQN_OK;
}

const struct dqn_memory_ops dqn_cuda_memory_ops = {
    cuda_open, cuda_close, cuda_alloc, cuda_free, cuda_copy, cuda_zero, cuda_info,
};

extern "C" const struct dqn_backend dqn_cuda_backend = {
    "cuda",
    &dqn_cuda_memory_ops,
    &dqn_cuda_queue_ops,
    &dqn_cuda_nn_ops,
    &dqn_cuda_env_ops,
    &dqn_cuda_replay_ops,
    &dqn_cuda_sampler_ops,
    cuda_versions,
};
