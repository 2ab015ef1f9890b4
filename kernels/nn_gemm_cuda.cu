/* Matrix products by cuBLASLt. Each shape has a plan: descriptors and one algorithm, asked for once
 * and kept, so a run uses the same algorithms from its first update to its last.
 *
 * Reproducibility. Algorithms are taken without workspace and without split-K, so each element of D
 * is one sum in an order that depends on the shape alone. The algorithm is chosen for a batch of
 * one and used for every batch count, so agent k of a population gets the bits that it would get
 * alone. Sums over a long batch are split by the caller, by a rule of its own (nn_cuda.cu). */
#include <cublasLt.h>

#include "nn_cuda.cuh"

enum { ALIGNMENT = 16, CANDIDATES = 16 };

struct dqn_gemm_plan {
    struct dqn_gemm gemm;
    bool found;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    struct dqn_gemm_plan *next;
};

struct dqn_nn_plans {
    cublasLtHandle_t handle;
    cublasComputeType_t compute;
    struct dqn_gemm_plan *first;
};

/* A library's error may be the first sign of a lost context: then that is what there is to say. */
static enum dqn_status failed(cublasStatus_t error, const char *what) {
    const cudaError_t behind = cudaGetLastError();
    if (dqn_cuda_is_lost(behind)) {
        return dqn_cuda_failed(behind, what, __FILE__, __LINE__);
    }
    return dqn_fail(error == CUBLAS_STATUS_ALLOC_FAILED ? DQN_ERR_DEVICE_MEMORY : DQN_ERR_DEVICE,
                    "cuBLASLt error %d (%s) in %s", (int)error, cublasLtGetStatusName(error), what);
}

#define TRY_CUBLAS(call)                                                                           \
    do {                                                                                           \
        const cublasStatus_t cublas_error = (call);                                                \
        if (cublas_error != CUBLAS_STATUS_SUCCESS) {                                               \
            return failed(cublas_error, #call);                                                    \
        }                                                                                          \
    } while (0)

enum dqn_status dqn_plans_create(struct dqn_nn_plans **out, int precision) {
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_nn_plans), "the plans of matrix products"));
    struct dqn_nn_plans *plans = (struct dqn_nn_plans *)memory;
    plans->compute = precision == DQN_PRECISION_TF32   ? CUBLAS_COMPUTE_32F_FAST_TF32
                     : precision == DQN_PRECISION_BF16 ? CUBLAS_COMPUTE_32F_FAST_16BF
                                                       : CUBLAS_COMPUTE_32F;
    const cublasStatus_t error = cublasLtCreate(&plans->handle);
    if (error != CUBLAS_STATUS_SUCCESS) {
        free(plans);
        return failed(error, "cublasLtCreate");
    }
    *out = plans;
    return DQN_OK;
}

static void destroy_plan(struct dqn_gemm_plan *plan) {
    if (plan->operation != NULL) {
        (void)cublasLtMatmulDescDestroy(plan->operation);
    }
    if (plan->a != NULL) {
        (void)cublasLtMatrixLayoutDestroy(plan->a);
    }
    if (plan->b != NULL) {
        (void)cublasLtMatrixLayoutDestroy(plan->b);
    }
    if (plan->d != NULL) {
        (void)cublasLtMatrixLayoutDestroy(plan->d);
    }
    free(plan);
}

void dqn_plans_destroy(struct dqn_nn_plans *plans) {
    if (plans == NULL) {
        return;
    }
    struct dqn_gemm_plan *plan = plans->first;
    while (plan != NULL) {
        struct dqn_gemm_plan *next = plan->next;
        destroy_plan(plan);
        plan = next;
    }
    (void)cublasLtDestroy(plans->handle);
    free(plans);
}

/* ---- making a plan ---- */

static bool has_bias(const struct dqn_gemm *gemm) {
    return gemm->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
}

static enum dqn_status set_bias(struct dqn_gemm_plan *plan, const void *bias) {
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                              &bias, sizeof bias));
    return DQN_OK;
}

/* While the algorithm is chosen, the bias pointer stands for its alignment only. */
static enum dqn_status describe_operation(struct dqn_gemm_plan *plan, cublasComputeType_t compute) {
    const struct dqn_gemm *gemm = &plan->gemm;
    TRY_CUBLAS(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F));
    const int32_t trans_a = gemm->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t trans_b = gemm->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = (uint32_t)gemm->epilogue;
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                              &trans_a, sizeof trans_a));
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                              &trans_b, sizeof trans_b));
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                              &epilogue, sizeof epilogue));
    return has_bias(gemm) ? set_bias(plan, (const void *)(uintptr_t)ALIGNMENT) : DQN_OK;
}

static enum dqn_status set_batch(cublasLtMatrixLayout_t layout, int64_t batch, int64_t stride) {
    const int32_t count = (int32_t)batch;
    TRY_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count));
    TRY_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &stride, sizeof stride));
    return DQN_OK;
}

static enum dqn_status set_batches(struct dqn_gemm_plan *plan, int64_t batch) {
    const struct dqn_gemm *gemm = &plan->gemm;
    const bool many = batch > 1;
    DQN_TRY(set_batch(plan->a, batch, many ? gemm->stride_a : 0));
    DQN_TRY(set_batch(plan->b, batch, many ? gemm->stride_b : 0));
    DQN_TRY(set_batch(plan->d, batch, many ? gemm->stride_d : 0));
    if (has_bias(gemm)) {
        const int64_t stride = many ? gemm->stride_bias : 0;
        TRY_CUBLAS(cublasLtMatmulDescSetAttribute(
            plan->operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride, sizeof stride));
    }
    return DQN_OK;
}

static enum dqn_status describe_matrices(struct dqn_gemm_plan *plan) {
    const struct dqn_gemm *gemm = &plan->gemm;
    const uint64_t m = (uint64_t)gemm->m, n = (uint64_t)gemm->n, k = (uint64_t)gemm->k;
    TRY_CUBLAS(cublasLtMatrixLayoutCreate(&plan->a, CUDA_R_32F, gemm->trans_a ? k : m,
                                          gemm->trans_a ? m : k, gemm->lda));
    TRY_CUBLAS(cublasLtMatrixLayoutCreate(&plan->b, CUDA_R_32F, gemm->trans_b ? n : k,
                                          gemm->trans_b ? k : n, gemm->ldb));
    TRY_CUBLAS(cublasLtMatrixLayoutCreate(&plan->d, CUDA_R_32F, m, n, gemm->ldd));
    return DQN_OK;
}

static enum dqn_status set_preference(cublasLtMatmulPreference_t preference,
                                      cublasLtMatmulPreferenceAttributes_t attribute,
                                      const void *value, size_t size) {
    TRY_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size));
    return DQN_OK;
}

static enum dqn_status restrict_choice(cublasLtMatmulPreference_t preference) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t alignment = ALIGNMENT, reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint64_t workspace = 0;
    for (size_t i = 0; i < DQN_COUNT_OF(alignments); i++) {
        DQN_TRY(set_preference(preference, alignments[i], &alignment, sizeof alignment));
    }
    DQN_TRY(set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                           sizeof reduction));
    return set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                          sizeof workspace);
}

/* The first candidate for a batch of one that also serves this batch, and at least two, so that the
 * choice does not depend on the number of agents. */
static enum dqn_status choose_algorithm(struct dqn_nn_plans *plans, struct dqn_gemm_plan *plan,
                                        cublasLtMatmulPreference_t preference) {
    cublasLtMatmulHeuristicResult_t candidate[CANDIDATES];
    int n_found = 0;
    DQN_TRY(set_batches(plan, 1));
    const cublasStatus_t asked =
        cublasLtMatmulAlgoGetHeuristic(plans->handle, plan->operation, plan->a, plan->b, plan->d,
                                       plan->d, preference, CANDIDATES, candidate, &n_found);
    if (asked == CUBLAS_STATUS_NOT_SUPPORTED || asked == CUBLAS_STATUS_INVALID_VALUE) {
        n_found = 0; /* no such epilogue for these matrices */
    } else {
        TRY_CUBLAS(asked);
    }
    DQN_TRY(set_batches(plan, plan->gemm.batch > 2 ? plan->gemm.batch : 2));
    for (int i = 0; i < n_found && !plan->found; i++) {
        cublasLtMatmulHeuristicResult_t checked;
        if (candidate[i].state == CUBLAS_STATUS_SUCCESS &&
            cublasLtMatmulAlgoCheck(plans->handle, plan->operation, plan->a, plan->b, plan->d,
                                    plan->d, &candidate[i].algo,
                                    &checked) == CUBLAS_STATUS_SUCCESS &&
            checked.workspaceSize == 0) {
            plan->algorithm = candidate[i].algo;
            plan->found = true;
        }
    }
    return set_batches(plan, plan->gemm.batch);
}

static enum dqn_status fill_plan(struct dqn_nn_plans *plans, struct dqn_gemm_plan *plan) {
    DQN_TRY(describe_operation(plan, plans->compute));
    DQN_TRY(describe_matrices(plan));
    cublasLtMatmulPreference_t preference = NULL;
    TRY_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
    enum dqn_status status = restrict_choice(preference);
    if (status == DQN_OK) {
        status = choose_algorithm(plans, plan, preference);
    }
    (void)cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

enum dqn_status dqn_gemm_plan(struct dqn_nn_plans *plans, const struct dqn_gemm *gemm,
                              struct dqn_gemm_plan **out) {
    struct dqn_gemm_plan *plan = plans->first;
    while (plan != NULL && memcmp(&plan->gemm, gemm, sizeof *gemm) != 0) {
        plan = plan->next;
    }
    if (plan == NULL) {
        void *memory = NULL;
        DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_gemm_plan), "a matrix product's plan"));
        plan = (struct dqn_gemm_plan *)memory;
        plan->gemm = *gemm;
        const enum dqn_status status = fill_plan(plans, plan);
        if (status != DQN_OK) {
            destroy_plan(plan);
            return status;
        }
        plan->next = plans->first;
        plans->first = plan;
    }
    *out = plan->found ? plan : NULL;
    return DQN_OK;
}

enum dqn_status dqn_gemm_plan_needed(struct dqn_nn_plans *plans, const struct dqn_gemm *gemm,
                                     struct dqn_gemm_plan **out) {
    DQN_TRY(dqn_gemm_plan(plans, gemm, out));
    if (*out == NULL) {
        return dqn_fail(DQN_ERR_DEVICE,
                        "cuBLASLt has no algorithm without workspace for a product of %lld x %lld "
                        "with inner extent %lld; try another net.precision or device: cpu",
                        (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
    }
    return DQN_OK;
}

enum dqn_status dqn_gemm_run(struct dqn_nn_plans *plans, struct dqn_gemm_plan *plan,
                             cudaStream_t stream, const float *a, const float *b, float beta,
                             float *d, const float *bias) {
    const float alpha = 1.0f;
    if (has_bias(&plan->gemm)) {
        DQN_TRY(set_bias(plan, bias));
    }
    TRY_CUBLAS(cublasLtMatmul(plans->handle, plan->operation, &alpha, a, plan->a, b, plan->b, &beta,
                              d, plan->d, d, plan->d, &plan->algorithm, NULL, 0, stream));
    return DQN_OK;
}
