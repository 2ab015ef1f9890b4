/* Inside of the network on CUDA: what its files offer each other. */
#ifndef DQN_KERNELS_NN_CUDA_CUH
#define DQN_KERNELS_NN_CUDA_CUH

#include "cuda_common.cuh"

/* Parts of a workspace begin at multiples of 256 bytes. */
static inline size_t dqn_nn_align(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* ---- matrix products: nn_gemm_cuda.cu ---- */

/* D = op(A) op(B) (+ D), column-major as cuBLASLt sees it: D [m, n], inner extent k, a batch of
 * them side by side at the given strides (in floats). A row-major matrix is the transpose of the
 * column-major one with the same leading dimension. */
struct dqn_gemm {
    int64_t trans_a, trans_b; /* 1 = transposed */
    int64_t m, n, k;
    int64_t lda, ldb, ldd;
    int64_t batch;
    int64_t stride_a, stride_b, stride_d, stride_bias;
    int64_t epilogue; /* cublasLtEpilogue_t */
};

struct dqn_gemm_plan; /* descriptors and the algorithm of one struct dqn_gemm */

enum dqn_status dqn_plans_create(struct dqn_nn_plans **out, int precision);
void dqn_plans_destroy(struct dqn_nn_plans *plans);

/* The plan of a product, made at its first use and then kept; *out is NULL where cuBLASLt has no
 * algorithm for it (an epilogue that it does not offer here). Does not touch the device. */
enum dqn_status dqn_gemm_plan(struct dqn_nn_plans *plans, const struct dqn_gemm *gemm,
                              struct dqn_gemm_plan **out);
/* The same, for products that must exist. */
enum dqn_status dqn_gemm_plan_needed(struct dqn_nn_plans *plans, const struct dqn_gemm *gemm,
                                     struct dqn_gemm_plan **out);
/* Enqueues it. beta: 0 sets D, 1 adds to it. bias: the epilogue's vector (read by BIAS, written by
 * BGRADB), else NULL. All pointers are 16-byte aligned. */
enum dqn_status dqn_gemm_run(struct dqn_nn_plans *plans, struct dqn_gemm_plan *plan,
                             cudaStream_t stream, const float *a, const float *b, float beta,
                             float *d, const float *bias);

/* ---- activations by cuDNN: nn_cudnn_cuda.cu ---- */

/* True when cuDNN serves this activation on this queue; false for ReLU (fused into the product),
 * ELU's derivative (see dqn_cudnn_slope) and where cuDNN cannot be used. */
bool dqn_cudnn_serves(struct dqn_cuda_queue *q, enum dqn_activation activation);
void dqn_cudnn_destroy(struct dqn_nn_cudnn *cudnn);
/* y = act(z) over rows x ld floats; z may be y. */
enum dqn_status dqn_cudnn_activate(struct dqn_cuda_queue *q, enum dqn_activation activation,
                                   size_t rows, size_t ld, const float *z, float *y);
/* d *= act'(.) for tanh and SiLU: y the output, z the preactivation (tanh: y again). */
enum dqn_status dqn_cudnn_slope(struct dqn_cuda_queue *q, enum dqn_activation activation,
                                size_t rows, size_t ld, const float *y, const float *z, float *d);
/* "9.19.0" of the library in use; false and a reason when it does not fit this build. */
bool dqn_cudnn_version(char *text, size_t size);

/* ---- elementwise: nn_layers_cuda.cu ---- */

/* y = act(z + bias) over [K, B, ld], bias [K, stride] or NULL; z may be y, and where it is another
 * array it keeps the sum. */
enum dqn_status dqn_layer_activate(struct dqn_cuda_queue *q, enum dqn_activation activation,
                                   size_t n_agents, size_t batch, size_t ld, const float *bias,
                                   size_t bias_stride, float *z, float *y);
/* d *= act'(.) over n floats (a multiple of 4): y the output, z the preactivation (SiLU only). */
enum dqn_status dqn_layer_slope(struct dqn_cuda_queue *q, enum dqn_activation activation, size_t n,
                                const float *y, const float *z, float *d);
/* out[g * stride + j] = sum over the rows of group g of d[g, row, j]; d [groups, rows, ld]. */
enum dqn_status dqn_layer_column_sums(cudaStream_t stream, size_t groups, size_t rows, size_t ld,
                                      const float *d, float *out, size_t stride);
/* grads[k, i] (+)= sum over s of parts[k, s, i]; n floats an agent, a multiple of 4. */
enum dqn_status dqn_layer_join_parts(cudaStream_t stream, size_t n_agents, size_t n_parts, size_t n,
                                     const float *parts, bool accumulate, float *grads);
/* Q = V + A - mean(A) from the last layer's output [rows, head_ld], and back. */
enum dqn_status dqn_layer_head_to_q(struct dqn_cuda_queue *q, const struct dqn_net *net,
                                    size_t rows, const float *head, float *out);
enum dqn_status dqn_layer_q_to_head(struct dqn_cuda_queue *q, const struct dqn_net *net,
                                    size_t rows, const float *dq, float *head);

/* ---- operations of dqn_nn_ops ---- */

enum dqn_status dqn_cuda_init(struct dqn_queue *q, const struct dqn_init_args *args);
enum dqn_status dqn_cuda_act(struct dqn_queue *q, const struct dqn_act_args *args);
/* forward, then act; in one kernel where the network allows it. acts and Q may stay unwritten. */
enum dqn_status dqn_cuda_policy(struct dqn_queue *q, const struct dqn_forward_args *forward,
                                const struct dqn_act_args *act);
enum dqn_status dqn_cuda_td(struct dqn_queue *q, const struct dqn_td_args *args);
enum dqn_status dqn_cuda_apply(struct dqn_queue *q, const struct dqn_apply_args *args);
/* Bytes at the start of the workspace that apply uses. */
size_t dqn_cuda_apply_bytes(const struct dqn_net *net, size_t n_agents);

#endif
