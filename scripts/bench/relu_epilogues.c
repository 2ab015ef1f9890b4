/* What cuBLASLt takes for ReLU's derivative in its epilogue (DRELU), and for the bits that the way
 * up has to leave for it (RELU_AUX_BIAS), beside a product without.
 *     cc -O2 -std=c17 -I$CUDA/include relu_epilogues.c -o relu_epilogues -L$CUDA/lib64 \
 *         -lcublasLt -lcudart -lm
 *     LD_LIBRARY_PATH=$CUDA/lib64 ./relu_epilogues [WIDTH]
 *
 * Up: y [B, W] = relu(x [B, W] W^T + b). Down: dx [B, W] = dy [B, W] W, and 0 where a bit is 0. The
 * first algorithm found when asked as kernels/nn_gemm_cuda.cu asks. Microseconds a product, 64 in a
 * CUDA graph. dx is compared with sums in double at 64 places: above 5e-3 of max(1, |dx|) it is
 * WRONG, and the exit code is 1. Exit code 2: a call failed that may not. */
#include <cublasLt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "graph_timing.h"

enum { REPEATS = 64, ALIGNMENT = 16, MAX_BATCH = 4096, MAX_WIDTH = 1024, SAMPLE = 64 };
static const double wrong_above = 5e-3;

static cudaStream_t stream;
static cublasLtHandle_t lt;
static float host_x[MAX_BATCH * MAX_WIDTH], host_w[MAX_WIDTH * MAX_WIDTH];
static float host_y[MAX_BATCH * MAX_WIDTH];
static uint8_t host_bits[MAX_BATCH * MAX_WIDTH / 8];
static float *x, *w, *y; /* on the device; y is the result, up and down */
static uint8_t *bits;    /* [B, W], a bit an element */

static void lt_must(cublasStatus_t status, const char *call) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "relu_epilogues: %s: %s\n", call, cublasLtGetStatusName(status));
        exit(2);
    }
}

#define CUBLAS(call) lt_must(call, #call)
#define SET(name, value)                                                                           \
    CUBLAS(cublasLtMatmulDescSetAttribute(&p->product, name, &(value), sizeof(value)))
#define PREFER(name, value)                                                                        \
    CUBLAS(cublasLtMatmulPreferenceSetAttribute(&preference, name, &(value), sizeof(value)))

struct product {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t w, x, y;
    cublasLtMatmulAlgo_t algorithm;
};

/* Column-major, [W, B] = W or W^T times [W, B]; false when no algorithm serves. */
static bool plan(struct product *p, int batch, int width, bool tf32, bool up,
                 cublasLtEpilogue_t epilogue) {
    const uint32_t alignment = ALIGNMENT, reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint64_t bytes = 0, side = (uint64_t)width, rows = (uint64_t)batch;
    const int64_t ld = width;
    const int32_t transposed = up ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t value = (uint32_t)epilogue;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int n_found = 0;
    CUBLAS(cublasLtMatmulDescInit(
        &p->product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SET(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    SET(CUBLASLT_MATMUL_DESC_EPILOGUE, value);
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && up) {
        SET(CUBLASLT_MATMUL_DESC_BIAS_POINTER, w); /* any WIDTH floats */
    }
    if (epilogue == CUBLASLT_EPILOGUE_DRELU || epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS) {
        SET(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, bits);
        SET(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    }
    CUBLAS(cublasLtMatrixLayoutInit(&p->w, CUDA_R_32F, side, side, width));
    CUBLAS(cublasLtMatrixLayoutInit(&p->x, CUDA_R_32F, side, rows, width));
    CUBLAS(cublasLtMatrixLayoutInit(&p->y, CUDA_R_32F, side, rows, width));
    CUBLAS(cublasLtMatmulPreferenceInit(&preference));
    PREFER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
    PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    PREFER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction);
    const cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(
        lt, &p->product, &p->w, &p->x, &p->y, &p->y, &preference, 1, &found, &n_found);
    p->algorithm = found.algo;
    return asked == CUBLAS_STATUS_SUCCESS && n_found == 1 && found.state == CUBLAS_STATUS_SUCCESS;
}

static void enqueue(struct product *p) {
    const float one = 1.0f, zero = 0.0f;
    CUBLAS(cublasLtMatmul(lt, &p->product, &one, w, &p->w, x, &p->x, &zero, y, &p->y, y, &p->y,
                          &p->algorithm, NULL, 0, stream));
}

/* Microseconds a product. */
static double time_product(struct product *p) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    enqueue(p);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < REPEATS; i++) {
        enqueue(p);
    }
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    const double us = time_graph(executable, stream) / REPEATS;
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    return us;
}

/* The worst of SAMPLE elements of dx, masked or not. */
static double worst_residual(int batch, int width, bool masked) {
    double worst = 0.0;
    CUDA(cudaMemcpy(host_y, y, sizeof(float) * (size_t)(batch * width), cudaMemcpyDeviceToHost));
    for (int i = 0; i < SAMPLE; i++) {
        const int row = i * (batch - 1) / (SAMPLE - 1), column = (i * 37 + 11) % width;
        const int at = row * width + column;
        double should = 0.0;
        for (int k = 0; k < width; k++) {
            should += (double)host_x[row * width + k] * (double)host_w[k * width + column];
        }
        if (masked && (host_bits[at / 8] >> at % 8 & 1) == 0) {
            should = 0.0;
        }
        worst = fmax(worst, fabs((double)host_y[at] - should) / fmax(1.0, fabs(should)));
    }
    return worst;
}

/* One line; returns whether dx was right. */
static bool run_case(int batch, int width, bool tf32) {
    static const struct {
        const char *name;
        bool up;
        cublasLtEpilogue_t epilogue;
    } products[] = {{"RELU_BIAS", true, CUBLASLT_EPILOGUE_RELU_BIAS},
                    {"RELU_AUX_BIAS", true, CUBLASLT_EPILOGUE_RELU_AUX_BIAS},
                    {"down", false, CUBLASLT_EPILOGUE_DEFAULT},
                    {"DRELU", false, CUBLASLT_EPILOGUE_DRELU}};
    bool right = true;
    printf("%5d %4d %s", batch, width, tf32 ? "tf32" : "fp32");
    for (int i = 0; i < 4; i++) {
        struct product p;
        if (!plan(&p, batch, width, tf32, products[i].up, products[i].epilogue)) {
            printf(" | %s not offered", products[i].name);
            continue;
        }
        CUDA(cudaMemcpy(bits, host_bits, sizeof host_bits, cudaMemcpyHostToDevice));
        printf(" | %s %.3f", products[i].name, time_product(&p));
        if (!products[i].up) {
            const double residual = worst_residual(batch, width, i == 3);
            right = right && residual <= wrong_above;
            printf(" (%.1e%s)", residual, residual <= wrong_above ? "" : " WRONG");
        }
    }
    printf("\n");
    fflush(stdout);
    return right;
}

static uint32_t next_random(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* n floats from -scale to scale; returns a copy on the device. */
static float *upload(float *host, size_t n, float scale) {
    void *device = NULL;
    for (size_t i = 0; i < n; i++) {
        host[i] = scale * ((float)next_random() * 0x1p-31f - 1.0f);
    }
    CUDA(cudaMalloc(&device, n * sizeof *host));
    CUDA(cudaMemcpy(device, host, n * sizeof *host, cudaMemcpyHostToDevice));
    return device;
}

int main(int argc, char **argv) {
    static const int batches[] = {256, 1024, 4096};
    const int width = argc > 1 ? atoi(argv[1]) : 256;
    bool right = true;
    if (argc > 2 || width < 128 || width > MAX_WIDTH || width % 128 != 0) {
        fprintf(stderr, "usage: relu_epilogues [WIDTH], a multiple of 128 up to %d\n", MAX_WIDTH);
        return 2;
    }
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUBLAS(cublasLtCreate(&lt));
    x = upload(host_x, MAX_BATCH * MAX_WIDTH, 1.0f);
    w = upload(host_w, MAX_WIDTH * MAX_WIDTH, 3.0f / sqrtf((float)width));
    y = upload(host_y, MAX_BATCH * MAX_WIDTH, 0.0f);
    for (size_t i = 0; i < sizeof host_bits; i++) {
        host_bits[i] = (uint8_t)(next_random() >> 24);
    }
    CUDA(cudaMalloc((void **)&bits, sizeof host_bits));
    for (int i = 0; i < 3; i++) {
        right = run_case(batches[i], width, true) && right;
        right = run_case(batches[i], width, false) && right;
    }
    return right ? 0 : 1;
}
