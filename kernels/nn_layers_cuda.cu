/* What is done between the matrix products: bias and activation where the product could not take
 * them, derivatives, column sums, the dueling head. All of it moves a few bytes a float computed.
 */
#include "activation_cuda.cuh"
#include "nn_cuda.cuh"

enum { THREADS = 256 };

/* Grid: elements of one agent / 256, K; block 256; no shared memory. Bound by memory. z may be y,
 * so neither is restricted. */
static __global__ void k_activate(enum dqn_activation activation, size_t n, size_t ld,
                                  const float *bias, size_t bias_stride, float *z, float *y) {
    const size_t agent = blockIdx.y;
    for (size_t i = dqn_grid_first(); i < n; i += dqn_grid_stride()) {
        const size_t at = agent * n + i;
        float v = z[at];
        if (bias != NULL) {
            v += bias[agent * bias_stride + i % ld];
            if (z != y) {
                z[at] = v;
            }
        }
        y[at] = dqn_activate(activation, v);
    }
}

enum dqn_status dqn_layer_activate(struct dqn_cuda_queue *q, enum dqn_activation activation,
                                   size_t n_agents, size_t batch, size_t ld, const float *bias,
                                   size_t bias_stride, float *z, float *y) {
    if (bias == NULL && dqn_cudnn_serves(q, activation)) {
        return dqn_cudnn_activate(q, activation, n_agents * batch, ld, z, y);
    }
    const size_t n = batch * ld;
    const dim3 grid(dqn_cuda_blocks(n, THREADS), (unsigned)n_agents);
    k_activate<<<grid, THREADS, 0, q->stream>>>(activation, n, ld, bias, bias_stride, z, y);
    DQN_LAUNCHED(k_activate);
    return DQN_OK;
}

/* Grid: n4 / 256; block 256; no shared memory; 16-byte accesses. Bound by memory. */
static __global__ void k_slope(enum dqn_activation activation, size_t n4,
                               const float4 *__restrict__ from, float4 *__restrict__ d) {
    for (size_t i = dqn_grid_first(); i < n4; i += dqn_grid_stride()) {
        const float4 f = from[i];
        float4 v = d[i];
        v.x *= dqn_slope(activation, f.x);
        v.y *= dqn_slope(activation, f.y);
        v.z *= dqn_slope(activation, f.z);
        v.w *= dqn_slope(activation, f.w);
        d[i] = v;
    }
}

enum dqn_status dqn_layer_slope(struct dqn_cuda_queue *q, enum dqn_activation activation, size_t n,
                                const float *y, const float *z, float *d) {
    const bool silu = activation == DQN_SILU;
    if ((silu || activation == DQN_TANH) && dqn_cudnn_serves(q, activation)) {
        return dqn_cudnn_slope(q, activation, n / 4, 4, y, silu ? z : y, d);
    }
    k_slope<<<dqn_cuda_blocks(n / 4, THREADS), THREADS, 0, q->stream>>>(
        activation, n / 4, (const float4 *)(silu ? z : y), (float4 *)d);
    DQN_LAUNCHED(k_slope);
    return DQN_OK;
}

enum { SUM_COLUMNS = 32, SUM_LINES = 32 };

/* Column sums in a fixed order. Grid: ld / 32, groups; block 32 x 32; 4 KB shared. Line y adds up
 * rows y, y + 32, ...; then warp y joins the lines of column y. Bound by memory, for few rows by
 * latency. */
static __global__ void k_column_sums(size_t rows, size_t ld, const float *__restrict__ d,
                                     float *__restrict__ out, size_t stride) {
    __shared__ float line[SUM_LINES][SUM_COLUMNS + 1];
    const size_t group = blockIdx.y, column = (size_t)blockIdx.x * SUM_COLUMNS + threadIdx.x;
    float sum = 0.0f;
    if (column < ld) {
        const float *from = d + group * rows * ld + column;
#pragma unroll 8
        for (size_t row = threadIdx.y; row < rows; row += SUM_LINES) {
            sum += from[row * ld];
        }
    }
    line[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = dqn_warp_sum(line[threadIdx.x][threadIdx.y]);
    const size_t own = (size_t)blockIdx.x * SUM_COLUMNS + threadIdx.y;
    if (threadIdx.x == 0 && own < ld) {
        out[group * stride + own] = sum;
    }
}

enum dqn_status dqn_layer_column_sums(cudaStream_t stream, size_t groups, size_t rows, size_t ld,
                                      const float *d, float *out, size_t stride) {
    const size_t limit = DQN_MAX_AGENTS_GRID;
    for (size_t first = 0; first < groups; first += limit) {
        const size_t n = groups - first < limit ? groups - first : limit;
        const dim3 grid((unsigned)((ld + SUM_COLUMNS - 1) / SUM_COLUMNS), (unsigned)n);
        k_column_sums<<<grid, dim3(SUM_COLUMNS, SUM_LINES), 0, stream>>>(
            rows, ld, d + first * rows * ld, out + first * stride, stride);
        DQN_LAUNCHED(k_column_sums);
    }
    return DQN_OK;
}

/* Grid: n4 / 256, K; block 256; no shared memory; 16-byte accesses. Bound by memory. Part s of
 * agent k starts at (k * n_parts + s) * n4; parts are added in order. */
static __global__ void k_join_parts(size_t n4, size_t n_parts, const float4 *__restrict__ parts,
                                    bool accumulate, float4 *__restrict__ grads) {
    const size_t agent = blockIdx.y;
    for (size_t i = dqn_grid_first(); i < n4; i += dqn_grid_stride()) {
        const float4 *from = parts + agent * n_parts * n4 + i;
        float4 sum = from[0];
#pragma unroll 4
        for (size_t s = 1; s < n_parts; s++) {
            const float4 v = from[s * n4];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        float4 *to = grads + agent * n4 + i;
        if (accumulate) {
            const float4 v = *to;
            sum.x = v.x + sum.x;
            sum.y = v.y + sum.y;
            sum.z = v.z + sum.z;
            sum.w = v.w + sum.w;
        }
        *to = sum;
    }
}

enum dqn_status dqn_layer_join_parts(cudaStream_t stream, size_t n_agents, size_t n_parts, size_t n,
                                     const float *parts, bool accumulate, float *grads) {
    const dim3 grid(dqn_cuda_blocks(n / 4, THREADS), (unsigned)n_agents);
    k_join_parts<<<grid, THREADS, 0, stream>>>(n / 4, n_parts, (const float4 *)parts, accumulate,
                                               (float4 *)grads);
    DQN_LAUNCHED(k_join_parts);
    return DQN_OK;
}

/* ---- dueling head (Wang et al. 2016, equation 9) ---- */

/* Sum of the first n values of a row, by one warp; every lane gets it. */
static __device__ __forceinline__ float row_sum(const float *row, size_t n, unsigned lane) {
    float sum = 0.0f;
    for (size_t a = lane; a < n; a += DQN_WARP) {
        sum += row[a];
    }
    return dqn_warp_sum(sum);
}

/* One warp a row. Grid: rows / 8; block 256; no shared memory. Bound by latency. */
static __global__ void k_head_to_q(size_t rows, size_t actions, size_t actions_ld, size_t head_ld,
                                   const float *__restrict__ head, float *__restrict__ out) {
    const unsigned lane = threadIdx.x % DQN_WARP;
    for (size_t row = dqn_grid_first() / DQN_WARP; row < rows;
         row += dqn_grid_stride() / DQN_WARP) {
        const float *h = head + row * head_ld;
        const float shift = h[actions] - row_sum(h, actions, lane) / (float)actions;
        for (size_t a = lane; a < actions_ld; a += DQN_WARP) {
            out[row * actions_ld + a] = a < actions ? h[a] + shift : 0.0f;
        }
    }
}

/* dA_a = dQ_a - mean(dQ), dV = sum(dQ). The same shape. */
static __global__ void k_q_to_head(size_t rows, size_t actions, size_t actions_ld, size_t head_ld,
                                   const float *__restrict__ dq, float *__restrict__ head) {
    const unsigned lane = threadIdx.x % DQN_WARP;
    for (size_t row = dqn_grid_first() / DQN_WARP; row < rows;
         row += dqn_grid_stride() / DQN_WARP) {
        const float *d = dq + row * actions_ld;
        const float sum = row_sum(d, actions, lane);
        for (size_t a = lane; a < head_ld; a += DQN_WARP) {
            const float other = a == actions ? sum : 0.0f;
            head[row * head_ld + a] = a < actions ? d[a] - sum / (float)actions : other;
        }
    }
}

enum dqn_status dqn_layer_head_to_q(struct dqn_cuda_queue *q, const struct dqn_net *net,
                                    size_t rows, const float *head, float *out) {
    k_head_to_q<<<dqn_cuda_blocks(rows, THREADS / DQN_WARP), THREADS, 0, q->stream>>>(
        rows, net->actions, net->actions_ld, net->layer[net->n_layers - 1].out_ld, head, out);
    DQN_LAUNCHED(k_head_to_q);
    return DQN_OK;
}

enum dqn_status dqn_layer_q_to_head(struct dqn_cuda_queue *q, const struct dqn_net *net,
                                    size_t rows, const float *dq, float *head) {
    k_q_to_head<<<dqn_cuda_blocks(rows, THREADS / DQN_WARP), THREADS, 0, q->stream>>>(
        rows, net->actions, net->actions_ld, net->layer[net->n_layers - 1].out_ld, dq, head);
    DQN_LAUNCHED(k_q_to_head);
    return DQN_OK;
}
