/* What one layer y = act(x W^T + b) costs in two libraries: cuBLASLt with its fused epilogue, and
 * cuDNN with product, bias and activation as one operation graph.
 *     cc -O2 -std=c17 -I$CUDA/include layer_libraries.c -o layer_libraries -L$CUDA/lib64 \
 *         -lcublasLt -lcudnn -lcudart -lm
 *     LD_LIBRARY_PATH=$CUDA/lib64 ./layer_libraries [WIDTH]
 * cuDNN compiles kernels when it makes a plan, with libnvrtc, which must be found too.
 *
 * Layers: of a network 51-WIDTH-WIDTH-45 (8 to 1024, a multiple of 8; 256) with rows padded to 4
 * floats; x [B, in], W [out, in] and y [B, out] row-major; hidden layers with relu and with tanh,
 * the last one linear. cuBLASLt has no tanh: there it computes x W^T + b alone, and the activation
 * would be one kernel more.
 *
 * cuBLASLt: first is the first algorithm found when asked as kernels/nn_gemm_cuda.cu asks (no
 * workspace, no split sums); best is the best of it and of 5 that may use 32 MB.
 * cuDNN: first and best of the first 5 plans within 32 MB, in the order of its heuristics (mode A;
 * when that gives none, B, then the fallback list). Its float product may use TF32 by itself: for
 * fp32, engines are left out that use tensor cores, convert inputs or sum in reduced precision,
 * as their numerical notes say.
 *
 * plan ms: what the making of a plan by cuDNN takes, the mean of those timed.
 *
 * Times: microseconds a layer; 64 layers in a CUDA graph.
 * Residual: |y - reference| / max(1, |reference|), reference in double, the worst of 64 elements
 * and of all plans timed; y is poisoned before each. Above 5e-3, or with a NaN anywhere in y:
 * WRONG, and exit code 1. Exit code 2: a call failed that may not; its text is printed. */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn_graph.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph_timing.h"

enum { REPEATS = 64, PLANS = 5, ASKED = 16, SAMPLE = 64 };
enum { MAX_BATCH = 4096, MAX_WIDTH = 1024, ALIGNMENT = 16, WORKSPACE = 32 << 20 };
enum { MAX_CONFIGS = 64, MAX_MADE = 32 + 3 * (1 + 3 * MAX_CONFIGS) }; /* of three modes */
enum { ID_X = 1, ID_W, ID_B, ID_Y, ID_SUM, ID_BIASED }; /* the last two stay inside of the graph */
enum library { CUDA_RUNTIME, CUBLASLT, CUDNN_GRAPH };
enum activation { RELU, TANH, LINEAR };
static const char *const activation_names[] = {"relu", "tanh", "linear"};
static const double wrong_above = 5e-3, tf32_above = 5e-5;

typedef cudnnBackendDescriptor_t descriptor;

struct plan {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    descriptor execution; /* NULL: cuBLASLt */
    char name[32];        /* cuDNN's engine with its numerical notes */
};

struct result {
    int n_timed;
    struct plan first, best;
    double first_us, best_us, residual;
    double making_ms; /* of cuDNN's plans together */
};

static cudaStream_t stream;
static cublasLtHandle_t lt;
static cudnnHandle_t dnn;
static float *x, *w, *bias, *y; /* on the device, for the largest layer */
static float host_x[MAX_BATCH * MAX_WIDTH], host_w[MAX_WIDTH * MAX_WIDTH], host_bias[MAX_WIDTH];
static float host_y[MAX_BATCH * MAX_WIDTH];
static void *workspace; /* [WORKSPACE] */

/* The layer at work, and its description in either library. */
static int batch, in, out;
static enum activation activation;
static bool tf32;
static char why[512]; /* the first call by which a library refused something */
static cublasLtMatmulDescOpaque_t product;
static cublasLtMatrixLayoutOpaque_t w_layout, x_layout, y_layout;
static descriptor pack, made[MAX_MADE];
static int n_made;

/* ---- errors ---- */

/* Success is 0 in all three. */
static const char *status_text(enum library library, int status) {
    static char text[512];
    if (library != CUDNN_GRAPH) {
        return library == CUDA_RUNTIME ? cudaGetErrorName((cudaError_t)status)
                                       : cublasLtGetStatusName((cublasStatus_t)status);
    }
    const char *name = cudnnGetErrorString((cudnnStatus_t)status);
    const int used = snprintf(text, sizeof text, "%s: ", name);
    cudnnGetLastErrorString(text + used, sizeof text - (size_t)used);
    text[strcspn(text, "\r\n")] = '\0';
    return text;
}

static void must(enum library library, int status, const char *call) {
    if (status != 0) {
        fprintf(stderr, "layer_libraries: %s: %s\n", call, status_text(library, status));
        exit(2);
    }
}

/* Keeps the first refusal, which is printed when no plan is left. */
static bool refuse(const char *what, const char *reason) {
    if (why[0] == '\0') {
        snprintf(why, sizeof why, "%s: %s", what, reason);
    }
    return false;
}

static bool offers(enum library library, int status, const char *call) {
    return status == 0 || refuse(call, status_text(library, status));
}

#define CUBLAS(call) must(CUBLASLT, (int)(call), #call)
#define CUDNN(call) must(CUDNN_GRAPH, (int)(call), #call)
#define CUBLAS_OFFERS(call) offers(CUBLASLT, (int)(call), #call)
#define CUDNN_OFFERS(call) offers(CUDNN_GRAPH, (int)(call), #call)

/* ---- running, checking ---- */

static bool enqueue(const struct plan *p) {
    const float one = 1.0f, zero = 0.0f;
    if (p->execution != NULL) {
        return CUDNN_OFFERS(cudnnBackendExecute(dnn, p->execution, pack));
    }
    return CUBLAS_OFFERS(cublasLtMatmul(lt, &product, &one, w, &w_layout, x, &x_layout, &zero, y,
                                        &y_layout, y, &y_layout, &p->algorithm, workspace,
                                        p->workspace_bytes, stream));
}

/* REPEATS layers as a graph; NULL when the plan cannot be recorded. It runs once before, so that
 * nothing is loaded while recording. */
static cudaGraphExec_t record(const struct plan *p) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    bool ok = enqueue(p);
    CUDA(cudaStreamSynchronize(stream));
    if (!ok) {
        return NULL;
    }
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < REPEATS && ok; i++) {
        ok = enqueue(p);
    }
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (offers(CUDA_RUNTIME, (int)ended, "cudaStreamEndCapture(stream, &graph)") && ok) {
        CUDA(cudaGraphInstantiate(&executable, graph, 0));
    } else {
        (void)cudaGetLastError(); /* of the recording, which is given up */
    }
    if (graph != NULL) {
        CUDA(cudaGraphDestroy(graph));
    }
    return executable;
}

static double reference(int row, int column, enum activation act) {
    double sum = (double)host_bias[column];
    for (int i = 0; i < in; i++) {
        sum += (double)host_x[row * in + i] * (double)host_w[column * in + i];
    }
    return act == TANH ? tanh(sum) : act == RELU && sum < 0.0 ? 0.0 : sum;
}

/* The worst of SAMPLE elements from the first row to the last; infinity for a NaN anywhere in y. */
static double worst_residual(enum activation act) {
    double worst = 0.0;
    CUDA(cudaMemcpy(host_y, y, sizeof(float) * (size_t)(batch * out), cudaMemcpyDeviceToHost));
    for (int i = 0; i < batch * out; i++) {
        if (isnan(host_y[i])) {
            return INFINITY;
        }
    }
    for (int i = 0; i < SAMPLE; i++) {
        const int row = i * (batch - 1) / (SAMPLE - 1), column = (i * 37 + 11) % out;
        const double should = reference(row, column, act), is = (double)host_y[row * out + column];
        worst = fmax(worst, fabs(is - should) / fmax(1.0, fabs(should)));
    }
    return worst;
}

/* False when the plan cannot be recorded. */
static bool time_plan(const struct plan *p, enum activation act, struct result *r) {
    cudaGraphExec_t graph = record(p);
    if (graph == NULL) {
        return false;
    }
    CUDA(cudaMemsetAsync(y, 0xff, sizeof(float) * (size_t)(batch * out), stream)); /* NaN */
    const double us = time_graph(graph, stream) / REPEATS;
    CUDA(cudaGraphExecDestroy(graph));
    if (r->n_timed == 0) {
        r->first_us = us;
        r->first = *p;
    }
    if (r->n_timed == 0 || us < r->best_us) {
        r->best_us = us;
        r->best = *p;
    }
    r->residual = fmax(r->residual, worst_residual(act));
    r->n_timed++;
    return true;
}

/* ---- cuBLASLt ---- */

#define SET_PRODUCT(name, value)                                                                   \
    CUBLAS(cublasLtMatmulDescSetAttribute(&product, name, &(value), sizeof(value)))
#define PREFER(name, value)                                                                        \
    CUBLAS(cublasLtMatmulPreferenceSetAttribute(&preference, name, &(value), sizeof(value)))

/* Column-major, y [out, B] = W [in, out]^T x [in, B]. */
static void describe_lt(void) {
    const int32_t transposed = CUBLAS_OP_T;
    const uint32_t epilogue =
        activation == RELU ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    const uint64_t rows = (uint64_t)batch, n_in = (uint64_t)in, n_out = (uint64_t)out;
    CUBLAS(cublasLtMatmulDescInit(
        &product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SET_PRODUCT(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    SET_PRODUCT(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    CUBLAS(cublasLtMatrixLayoutInit(&w_layout, CUDA_R_32F, n_in, n_out, in));
    CUBLAS(cublasLtMatrixLayoutInit(&x_layout, CUDA_R_32F, n_in, rows, in));
    CUBLAS(cublasLtMatrixLayoutInit(&y_layout, CUDA_R_32F, n_out, rows, out));
}

/* as_project: with the restrictions of kernels/nn_gemm_cuda.cu. Returns the number found. */
static int ask_lt(bool as_project, cublasLtMatmulHeuristicResult_t found[ASKED]) {
    const uint32_t alignment = ALIGNMENT, reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint64_t bytes = as_project ? 0 : WORKSPACE;
    const void *bias_like = as_project ? (const void *)(uintptr_t)ALIGNMENT : bias;
    int n_found = 0;
    cublasLtMatmulPreferenceOpaque_t preference;
    CUBLAS(cublasLtMatmulPreferenceInit(&preference));
    PREFER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
    if (as_project) {
        PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
        PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
        PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
        PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
        PREFER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction);
    }
    SET_PRODUCT(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_like);
    const bool ok = CUBLAS_OFFERS(cublasLtMatmulAlgoGetHeuristic(lt, &product, &w_layout, &x_layout,
                                                                 &y_layout, &y_layout, &preference,
                                                                 ASKED, found, &n_found));
    SET_PRODUCT(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (ok && n_found == 0) {
        (void)refuse("cublasLtMatmulAlgoGetHeuristic", "no algorithm");
    }
    return ok ? n_found : 0;
}

/* Times the algorithm that the project would take, or the first PLANS of an unrestricted list. */
static void time_lt(bool as_project, struct result *r) {
    cublasLtMatmulHeuristicResult_t found[ASKED];
    const int limit = as_project ? 1 : PLANS, n_found = ask_lt(as_project, found);
    int n_tried = 0;
    for (int i = 0; i < n_found && n_tried < limit; i++) {
        if (found[i].state == CUBLAS_STATUS_SUCCESS) {
            const struct plan p = {.algorithm = found[i].algo,
                                   .workspace_bytes = found[i].workspaceSize};
            (void)time_plan(&p, activation == RELU ? RELU : LINEAR, r);
            n_tried++;
        }
    }
}

/* ---- cuDNN ---- */

#define SET(d, name, type, count, values)                                                          \
    CUDNN(cudnnBackendSetAttribute(d, name, type, count, values))
#define SET_PART(d, name, part) SET(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(part))

static const cudnnDataType_t float_type = CUDNN_DATA_FLOAT;

static descriptor make(cudnnBackendDescriptorType_t type) {
    CUDNN(cudnnBackendCreateDescriptor(type, &made[n_made]));
    return made[n_made++];
}

static descriptor finalised(descriptor d) {
    CUDNN(cudnnBackendFinalize(d));
    return d;
}

/* [1, rows, columns]; strides in elements. */
static descriptor make_tensor(int64_t id, int64_t rows, int64_t columns, int64_t row_stride,
                              int64_t column_stride) {
    const int64_t extents[] = {1, rows, columns}, alignment = ALIGNMENT;
    const int64_t strides[] = {rows * columns, row_stride, column_stride};
    const bool is_virtual = id >= ID_SUM;
    descriptor t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    SET(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &float_type);
    SET(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 3, extents);
    SET(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 3, strides);
    SET(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    SET(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    SET(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return finalised(t);
}

static descriptor make_product(descriptor a, descriptor b, descriptor c) {
    descriptor how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    SET(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &float_type);
    CUDNN(cudnnBackendFinalize(how));
    descriptor op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    SET_PART(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    SET_PART(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    SET_PART(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    SET_PART(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    return finalised(op);
}

/* second: NULL for a mode of one argument. */
static descriptor make_pointwise(cudnnPointwiseMode_t mode, descriptor first, descriptor second,
                                 descriptor result) {
    descriptor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    SET(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    SET(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &float_type);
    CUDNN(cudnnBackendFinalize(how));
    descriptor op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    SET_PART(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    SET_PART(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, first);
    if (second != NULL) {
        SET_PART(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
    }
    SET_PART(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
    return finalised(op);
}

/* The layer as two or three operations; not yet finalised. */
static descriptor make_graph(void) {
    const bool linear = activation == LINEAR;
    descriptor xs = make_tensor(ID_X, batch, in, in, 1);
    descriptor ws = make_tensor(ID_W, in, out, 1, in); /* W^T */
    descriptor biases = make_tensor(ID_B, 1, out, out, 1);
    descriptor ys = make_tensor(ID_Y, batch, out, out, 1);
    descriptor sum = make_tensor(ID_SUM, batch, out, out, 1);
    descriptor biased = linear ? ys : make_tensor(ID_BIASED, batch, out, out, 1);
    descriptor ops[3] = {make_product(xs, ws, sum)};
    ops[1] = make_pointwise(CUDNN_POINTWISE_ADD, sum, biases, biased);
    if (!linear) {
        ops[2] =
            make_pointwise(activation == RELU ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_TANH_FWD,
                           biased, NULL, ys);
    }
    descriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    SET(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn);
    SET(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, linear ? 2 : 3, ops);
    return graph;
}

static void make_pack(void) {
    const int64_t ids[] = {ID_X, ID_W, ID_B, ID_Y};
    void *const pointers[] = {x, w, bias, y};
    pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    SET(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 4, ids);
    SET(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 4, pointers);
    SET(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    CUDNN(cudnnBackendFinalize(pack));
}

/* Engine configurations in the order of the heuristics. Returns their number. */
static int64_t ask_dnn(descriptor graph, cudnnBackendHeurMode_t mode,
                       descriptor configs[MAX_CONFIGS]) {
    int64_t n = 0;
    descriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    SET_PART(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    SET(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!CUDNN_OFFERS(cudnnBackendFinalize(heuristics))) {
        return 0;
    }
    for (int i = 0; i < MAX_CONFIGS; i++) {
        configs[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    CUDNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n, configs));
    if (n == 0) {
        (void)refuse("CUDNN_ATTR_ENGINEHEUR_RESULTS", "no engine configuration");
    }
    return n < MAX_CONFIGS ? n : MAX_CONFIGS;
}

/* Names the engine, say "7[tc]": tc tensor cores, dc converted inputs, rr reduced precision of
 * sums, nd not deterministic. Returns whether it computes in full precision. */
static bool name_engine(descriptor config, struct plan *p) {
    static const char *const texts[] = {"tc", "dc", "rr", "", "nd"};
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t index = -1, n_notes = 0, n = 0;
    bool full = true;
    descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine));
    CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
                                   &index));
    CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                   CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                   &n_notes, notes));
    size_t used = (size_t)snprintf(p->name, sizeof p->name, "%d[", (int)index);
    for (int64_t i = 0; i < n_notes && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
        if (notes[i] <= CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) {
            used += (size_t)snprintf(p->name + used, sizeof p->name - used, "%s", texts[notes[i]]);
        }
        full = full && notes[i] > CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    }
    snprintf(p->name + used, sizeof p->name - used, "]");
    return full;
}

static double now_ms(void) {
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* False when the configuration cannot be had within the workspace. */
static bool make_execution(descriptor config, struct plan *p) {
    int64_t bytes = 0, n = 0;
    p->execution = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    SET(p->execution, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn);
    SET_PART(p->execution, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!CUDNN_OFFERS(cudnnBackendFinalize(p->execution))) {
        return false;
    }
    CUDNN(cudnnBackendGetAttribute(p->execution, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                   CUDNN_TYPE_INT64, 1, &n, &bytes));
    return bytes <= WORKSPACE || refuse(p->name, "needs more than 32 MB of workspace");
}

static void time_dnn(struct result *r) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    descriptor configs[MAX_CONFIGS], graph = make_graph();
    const bool ok = CUDNN_OFFERS(cudnnBackendFinalize(graph));
    make_pack();
    for (int m = 0; m < 3 && ok && r->n_timed == 0; m++) {
        const int64_t n_configs = ask_dnn(graph, modes[m], configs);
        for (int64_t i = 0; i < n_configs && r->n_timed < PLANS; i++) {
            struct plan p = {.execution = NULL};
            if (!name_engine(configs[i], &p) && !tf32) {
                (void)refuse(p.name, "this engine computes in less than full precision");
                continue;
            }
            const double start_ms = now_ms();
            const bool is_made = make_execution(configs[i], &p);
            const double making_ms = now_ms() - start_ms;
            if (is_made && time_plan(&p, activation, r)) {
                r->making_ms += making_ms;
            }
        }
    }
    while (n_made > 0) {
        CUDNN(cudnnBackendDestroyDescriptor(made[--n_made]));
    }
}

/* ---- cases ---- */

static void print_result(const char *library, const struct result *r, double first_us) {
    if (r->n_timed == 0) {
        printf(" %s not offered: %s |", library, why);
    } else {
        if (first_us > 0.0) {
            printf(" %8.3f", first_us);
        } else {
            printf(" first not offered: %s;", why);
        }
        printf(" %8.3f %9.1e%s%s |", r->best_us, r->residual,
               !tf32 && r->residual > tf32_above ? " rounds like tf32" : "",
               r->residual > wrong_above ? " WRONG" : "");
    }
    why[0] = '\0';
}

/* One line; returns whether all results were right. */
static bool run_layer(void) {
    struct result project = {0}, best, fused = {0};
    char shape[32];
    snprintf(shape, sizeof shape, "%d-%d", in, out);
    printf("%5d %-8s %-6s %s |", batch, shape, activation_names[activation],
           tf32 ? "tf32" : "fp32");
    describe_lt();
    time_lt(true, &project);
    best = project;
    time_lt(false, &best);
    print_result("cuBLASLt", &best, project.first_us);
    time_dnn(&fused);
    print_result("cuDNN", &fused, fused.first_us);
    if (fused.n_timed > 0) {
        printf(" %4.0f | %s %s of %d", fused.making_ms / fused.n_timed, fused.first.name,
               fused.best.name, fused.n_timed);
    }
    printf("%s\n", activation == TANH ? " (cuBLASLt: bias alone)" : "");
    fflush(stdout);
    return best.residual <= wrong_above && fused.residual <= wrong_above;
}

/* Fills host with numbers between -scale and scale; returns a copy on the device. */
static float *upload(float *host, size_t n, float scale) {
    static uint64_t state = 1;
    void *device = NULL;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        host[i] = scale * ((float)(state >> 40) * 0x1p-23f - 1.0f);
    }
    CUDA(cudaMalloc(&device, n * sizeof *host));
    CUDA(cudaMemcpy(device, host, n * sizeof *host, cudaMemcpyHostToDevice));
    return device;
}

static void start(int width) {
    struct cudaDeviceProp device;
    int runtime = 0, driver = 0;
    CUDA(cudaGetDeviceProperties(&device, 0));
    CUDA(cudaRuntimeGetVersion(&runtime));
    CUDA(cudaDriverGetVersion(&driver));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUBLAS(cublasLtCreate(&lt));
    CUDNN(cudnnCreate(&dnn));
    CUDNN(cudnnSetStream(dnn, stream));
    CUDA(cudaMalloc(&workspace, WORKSPACE));
    x = upload(host_x, MAX_BATCH * MAX_WIDTH, 1.0f);
    w = upload(host_w, MAX_WIDTH * MAX_WIDTH, 3.0f / sqrtf((float)width)); /* sums of size 1 */
    bias = upload(host_bias, MAX_WIDTH, 1.0f);
    y = upload(host_y, MAX_BATCH * MAX_WIDTH, 0.0f);
    CUDA(cudaDeviceSynchronize());
    printf("%s, sm_%d%d, CUDA %d (driver %d), cuBLASLt %zu, cuDNN %zu\n", device.name, device.major,
           device.minor, runtime, driver, cublasLtGetVersion(), cudnnGetVersion());
    printf(
        "batch layer    act    math | cuBLASLt us: first, best, residual | cuDNN us: first, best,"
        " residual | plan ms | cuDNN's engines [notes]: first, best, of plans timed\n");
}

int main(int argc, char **argv) {
    static const int batches[] = {256, 1024, 4096};
    const int width = argc > 1 ? atoi(argv[1]) : 256, widths[] = {52, width, width, 48};
    bool right = true;
    if (argc > 2 || width < 8 || width > MAX_WIDTH || width % 8 != 0) {
        fprintf(stderr, "usage: layer_libraries [WIDTH], a multiple of 8 from 8 to %d\n",
                MAX_WIDTH);
        return 2;
    }
    start(width);
    for (int i = 0; i < 3 * 3; i++) {
        const int layer = i % 3;
        batch = batches[i / 3];
        in = widths[layer];
        out = widths[layer + 1];
        for (int j = 0; j < (layer < 2 ? 4 : 2); j++) {
            activation = layer == 2 ? LINEAR : j < 2 ? RELU : TANH;
            tf32 = j % 2 == 0;
            right = run_layer() && right;
        }
    }
    return right ? 0 : 1;
}
