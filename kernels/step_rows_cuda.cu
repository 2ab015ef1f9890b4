/* The first kernel of a step: batch rows, from the draw to the gradients of the layers' outputs;
 * see step_cuda.cuh.
 *
 * A cluster of blocks takes some batch rows through everything. Each block computes its own share
 * of every layer's columns, for all rows, and writes it into the shared memory of all blocks of the
 * cluster, which have the whole layer after the cluster's barrier: the weights are read once a
 * cluster, and a layer takes one short wait. Rows lie in three sections of shared memory: s for the
 * online network, s' for it (which double DQN alone looks at), s' for the target network.
 *
 * A block runs this code once, so fetching instructions takes a good part of its time: loops stay
 * rolled and rare things out of line where that costs little. */
#include "../src/shared/td.h"
#include "argmax_cuda.cuh"
#include "cluster_cuda.cuh"
#include "nn_tile_columns_cuda.cuh"
#include "sampler_tree_cuda.cuh"
#include "step_cuda.cuh"

enum { WARPS = 12 /* three sections of four groups of columns */, THREADS = WARPS * DQN_WARP };
enum { DEPTH = DQN_TILE_DEPTH /* of W at once */, SECTIONS = 3, MOST_LANES = 16 /* of a row */ };
enum { GROUP = 32 /* columns of a warp on the way down */, GROUP_STRIDE = GROUP + 8 };

/* ---- shared memory ---- */

/* What a block knows of a batch row beside its observations. */
struct row_facts {
    uint64_t mass;
    float reward, discount;
    float weight; /* of weigh_rows */
    uint32_t action, done, pad;
}; /* 32 bytes, written as two groups of 16 */

/* Floats of one of the two buffers of layer outputs: the sections' rows; on the way down one holds
 * two layers' gradients of s, the other the warps' sums: one a warp, or up to 16 where the
 * sections' rows are long enough for them (descend). */
static __host__ __device__ unsigned buffer_floats(unsigned rows, unsigned stride) {
    const unsigned forward = SECTIONS * rows * stride, sums = WARPS * rows * GROUP_STRIDE;
    return forward > sums ? forward : sums;
}

static size_t shared_bytes(unsigned rows, unsigned stride) {
    return 2 * sizeof(float) * buffer_floats(rows, stride) + rows * sizeof(struct row_facts) +
           rows * sizeof(struct dqn_step_part);
}

/* Columns of a layer of ld that a block of a cluster has, in groups of 8; the last ones fewer. */
static __host__ __device__ unsigned share_of(unsigned ld, unsigned cluster) {
    return ((ld + 7) / 8 + cluster - 1) / cluster * 8;
}

/* On the way down: more than half as many groups of columns as warps, so that three warps take two
 * groups. That makes 16 parts at most, of so many columns that the sections' rows are longer. */
static __host__ __device__ bool takes_thirds(unsigned groups) {
    return groups > WARPS / 2 && (groups + 1) / 2 * 3 <= WARPS;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* One block's view. CLUSTER blocks a cluster, HEIGHT times 16 batch rows. */
template <int CLUSTER, int HEIGHT> struct cluster {
    enum { ROWS = DQN_STEP_ROWS * HEIGHT };
    enum { LANES = MOST_LANES / HEIGHT /* that form a row's TD error */ };
    const struct dqn_step *a;
    size_t agent, first_row; /* first_row: of the agent's batch */
    unsigned n_rows;         /* that exist */
    unsigned rank, warp, lane, g, t;
    float *x, *y;               /* the layer's input and output */
    struct row_facts *facts;    /* [ROWS] */
    struct dqn_step_part *sums; /* [ROWS] */
    float *memory;              /* the start of all of these, and where other blocks have theirs */
    unsigned remote[CLUSTER];

    __device__ __forceinline__ void arrive(void) const {
        if (CLUSTER > 1) {
            dqn_cluster_arrive();
        }
    }

    __device__ __forceinline__ void wait(void) const {
        if (CLUSTER > 1) {
            dqn_cluster_wait();
        } else {
            dqn_block_wait();
        }
    }

    /* *p = v in every block of the cluster. */
    template <typename T> __device__ __forceinline__ void put(T *p, T v) const {
        if constexpr (CLUSTER == 1) {
            *p = v;
        } else {
            const unsigned offset = (unsigned)((char *)p - (char *)memory);
#pragma unroll
            for (unsigned i = 0; i < CLUSTER; i++) {
                dqn_store_remote(remote[i] + offset, v);
            }
        }
    }

    __device__ __forceinline__ void swap(void) {
        float *const other = x;
        x = y;
        y = other;
    }

    /* This block's columns of a layer of so many: [first, end). */
    __device__ __forceinline__ unsigned first_column(unsigned ld) const {
        return rank * share_of(ld, CLUSTER);
    }

    __device__ __forceinline__ unsigned end_column(unsigned ld) const {
        const unsigned end = (rank + 1) * share_of(ld, CLUSTER);
        return end < ld ? end : ld;
    }
};

/* ---- the draw ---- */

/* The mass of all rows; *top becomes this lane's sum of the tree's top level. */
static __device__ __forceinline__ uint64_t total_mass(const struct dqn_step *a, size_t agent,
                                                      uint64_t *top) {
    if (!a->proportional) {
        return a->ring->size;
    }
    const size_t first = a->shape.first[a->shape.n_levels - 1];
    *top = a->sums[agent * a->shape.stride + first + threadIdx.x % DQN_WARP];
    return dqn_warp_sum(*top);
}

/* Rows of the warp's EACH searches, level by level side by side: each level is one wait. */
template <int EACH>
static __device__ __forceinline__ void find_rows(const struct dqn_step *a, size_t agent,
                                                 uint64_t top, uint64_t *place, size_t *row,
                                                 uint64_t *mass) {
    const unsigned lane = threadIdx.x % DQN_WARP;
    const uint64_t *sums = a->sums + agent * a->shape.stride;
    const float *priorities = a->rows.priorities + agent * a->capacity;
    size_t node[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        node[i] = dqn_tree_choose(top, &place[i]);
    }
#pragma unroll 1
    for (int level = a->shape.n_levels - 2; level >= 0; level--) {
        uint64_t sum[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            sum[i] = sums[a->shape.first[level] + node[i] * DQN_TREE_FAN + lane];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            node[i] = node[i] * DQN_TREE_FAN + dqn_tree_choose(sum[i], &place[i]);
        }
    }
    uint64_t leaf[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const size_t at = node[i] * DQN_TREE_FAN + lane;
        leaf[i] = at < a->capacity ? dqn_cuda_leaf(priorities[at]) : 0;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const unsigned chosen = dqn_tree_choose(leaf[i], &place[i]);
        mass[i] = __shfl_sync(0xffffffffu, leaf[i], (int)chosen);
        row[i] = node[i] * DQN_TREE_FAN + chosen;
    }
}

/* Observations s and s' of replay rows `from` as rows first, first + turn .. of the first two
 * sections of every block, s in global memory too. Zeros from the observation's end to its padding.
 * All reads of 64 columns are under way before the first of them is waited for. */
template <bool EXACT, int EACH, int CLUSTER, int HEIGHT>
static __device__ __forceinline__ void give_rows(const struct cluster<CLUSTER, HEIGHT> &c,
                                                 unsigned first, unsigned turn,
                                                 const size_t *from) {
    enum { ROWS = DQN_STEP_ROWS * HEIGHT, PARTS = 2 };
    const struct dqn_step *a = c.a;
    const unsigned n = (unsigned)a->obs, ld = (unsigned)a->net.obs_ld;
    for (unsigned base = c.lane; base < ld; base += PARTS * DQN_WARP) {
        float now[EACH][PARTS], next[EACH][PARTS];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const size_t at = (c.agent * a->capacity + from[i]) * a->obs;
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const unsigned column = base + p * DQN_WARP;
                const bool exists = column < n && first + i * turn < c.n_rows;
                now[i][p] = exists ? a->rows.states[at + column] : 0.0f;
                next[i][p] = exists ? a->rows.next_states[at + column] : 0.0f;
            }
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const unsigned row = first + i * turn;
            float *kept = a->state + (c.agent * a->batch + c.first_row + row) * ld;
            float *to = c.x + row * a->net.stride;
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const unsigned column = base + p * DQN_WARP;
                if (column >= ld || row >= ROWS) {
                    continue;
                }
                c.put(to + column, dqn_tile_round<EXACT>(now[i][p]));
                c.put(to + ROWS * a->net.stride + column, dqn_tile_round<EXACT>(next[i][p]));
                if (row < c.n_rows) {
                    kept[column] = dqn_tile_round<EXACT>(now[i][p]);
                }
            }
        }
    }
}

/* struct row_facts in two writes. */
template <typename C>
static __device__ __forceinline__ void give_facts(const C &c, unsigned row, uint64_t mass,
                                                  float reward, float discount, uint32_t action,
                                                  uint32_t done) {
    float4 *to = (float4 *)&c.facts[row];
    c.put(to, make_float4(__uint_as_float((uint32_t)mass), __uint_as_float((uint32_t)(mass >> 32)),
                          reward, discount));
    c.put(to + 1, make_float4(0.0f, __uint_as_float(action), __uint_as_float(done), 0.0f));
}

/* Draws the rows of this cluster, its warps taking turns, and gives them to all of its blocks. */
template <bool EXACT, int CLUSTER, int HEIGHT>
static __device__ __forceinline__ void draw_rows(const struct cluster<CLUSTER, HEIGHT> &c) {
    enum { ROWS = DQN_STEP_ROWS * HEIGHT, TURN = CLUSTER * WARPS };
    enum { EACH = (ROWS + TURN - 1) / TURN };
    const struct dqn_step *a = c.a;
    const struct dqn_agent *agent = &a->agents[c.agent];
    const unsigned first = c.warp * CLUSTER + c.rank;
    uint64_t place[EACH], mass[EACH], top = 0;
    size_t from[EACH];
    if (first < ROWS) {
        const uint64_t total = total_mass(a, c.agent, &top), draws = a->counters[c.agent].draws;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const size_t b = c.first_row + first + i * TURN;
            const size_t held = b < a->batch ? b : a->batch - 1;
            const uint64_t word = a->words != NULL ? a->words[c.agent * a->batch + held]
                                                   : dqn_draw_word(agent->seed, held, draws);
            place[i] = dqn_draw_target(word, total, held, a->batch, a->stratified);
            from[i] = a->proportional ? 0 : (size_t)place[i];
            mass[i] = total > 0 ? 1 : 0;
        }
        if (a->proportional && total > 0) {
            find_rows<EACH>(a, c.agent, top, place, from, mass);
        }
    }
    c.wait(); /* every block of the cluster has started */
    if (first < ROWS) {
        uint32_t action[EACH], done[EACH];
        float reward[EACH], discount[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const size_t at = c.agent * a->capacity + from[i];
            action[i] = a->rows.actions[at];
            reward[i] = a->rows.rewards[at];
            discount[i] = a->rows.discounts[at];
            done[i] = a->rows.dones[at];
        }
        give_rows<EXACT, EACH>(c, first, TURN, from);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const unsigned row = first + i * TURN;
            if (c.lane == 0 && row < ROWS) {
                give_facts(c, row, mass[i], reward[i], discount[i], action[i], done[i]);
                if (row < c.n_rows) {
                    a->index[c.agent * a->batch + c.first_row + row] = (int64_t)from[i];
                }
            }
        }
    }
}

/* Importance weights of the cluster's rows relative to the mean mass, a row a lane, by one warp of
 * each block: (mean / mass)^beta. */
template <int CLUSTER, int HEIGHT>
static __device__ __forceinline__ void weigh_rows(const struct cluster<CLUSTER, HEIGHT> &c) {
    const struct dqn_step *a = c.a;
    uint64_t top = 0;
    const double mean = dqn_step_mean_mass(total_mass(a, c.agent, &top), a->ring->size);
    const double beta = dqn_schedule_beta(&a->agents[c.agent], a->counters[c.agent].updates);
    static_assert(DQN_STEP_ROWS * HEIGHT <= DQN_WARP, "a lane has a row");
    if (c.lane < DQN_STEP_ROWS * HEIGHT) {
        struct row_facts *facts = &c.facts[c.lane];
        facts->weight = facts->mass > 0 ? (float)dqn_pow(mean / (double)facts->mass, beta) : 0.0f;
    }
}

/* ---- up ---- */

/* Out of line: the code of a kernel comes from memory as well. */
static __device__ __noinline__ float2 activate_pair(enum dqn_activation activation, float2 z) {
    return make_float2(dqn_activate(activation, z.x), dqn_activate(activation, z.y));
}

/* Where a thread's columns of one row of a layer's output go. */
template <int CLUSTER> struct row_end {
    float *y;                 /* here */
    unsigned remote[CLUSTER]; /* in the blocks of the cluster */
    float *acts, *preact;     /* of the first section's hidden layers, while row < n_rows */
    unsigned row;

    template <int HEIGHT>
    __device__ __forceinline__ void start(const struct cluster<CLUSTER, HEIGHT> &c, unsigned l,
                                          unsigned first_row, unsigned column) {
        const struct dqn_step *a = c.a;
        const struct dqn_layer *layer = &a->net.layer[l];
        const size_t rows = a->n_agents * a->batch;
        const size_t at = (c.agent * a->batch + c.first_row + first_row) * layer->out_ld + column;
        row = first_row;
        y = c.y + row * a->net.stride + column;
        acts = a->acts + rows * layer->output + at;
        preact = a->acts + rows * layer->preact + at;
        const unsigned offset = (unsigned)((char *)y - (char *)c.memory);
#pragma unroll
        for (unsigned i = 0; i < CLUSTER; i++) {
            remote[i] = c.remote[i] + offset;
        }
    }

    __device__ __forceinline__ void go_down_eight(unsigned stride, unsigned out_ld) {
        row += 8;
        y += 8 * stride;
        acts += 8 * out_ld;
        preact += 8 * out_ld;
#pragma unroll
        for (unsigned i = 0; i < CLUSTER; i++) {
            remote[i] += 8 * stride * sizeof(float);
        }
    }
};

/* N neighbouring columns, 4 or 2, of a layer that is not the last: activation, and out. */
template <bool EXACT, bool RELU, int N>
static __device__ __forceinline__ void activate_columns(enum dqn_activation activation, float *z) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        if (RELU) { /* NaN stays */
            z[j] = z[j] < 0.0f ? 0.0f : z[j];
            z[j + 1] = z[j + 1] < 0.0f ? 0.0f : z[j + 1];
        } else {
            const float2 y = activate_pair(activation, make_float2(z[j], z[j + 1]));
            z[j] = y.x;
            z[j + 1] = y.y;
        }
        z[j] = dqn_tile_round<EXACT>(z[j]);
        z[j + 1] = dqn_tile_round<EXACT>(z[j + 1]);
    }
}

/* The sums of one warp plus biases, LAST: of the last layer, which has no activation and is not
 * kept: out. */
template <bool EXACT, bool RELU, bool LAST, int NN, int CLUSTER, int HEIGHT, typename Sums>
static __device__ __forceinline__ void
finish_columns(const struct cluster<CLUSTER, HEIGHT> &c, unsigned l, const Sums &sums,
               const float *bias, unsigned to_row, unsigned column) {
    enum { COLUMNS = Sums::COLUMNS };
    using group = dqn_tile_group<COLUMNS>;
    using wide = typename group::type;
    const struct dqn_layer *layer = &c.a->net.layer[l];
    const unsigned out_ld = (unsigned)layer->out_ld, stride = c.a->net.stride;
    const enum dqn_activation activation = layer->activation;
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
        struct row_end<CLUSTER> to;
        to.start(c, l, to_row + dqn_tile_row(2 * c.t + odd), column);
#pragma unroll
        for (int q = 0; q < NN; q++) {
            float z[COLUMNS];
            sums.take(q, odd, z);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                z[j] += bias[j];
            }
            const bool kept = !LAST && to.row < c.n_rows;
            if (!RELU && kept && activation == DQN_SILU) {
                *(wide *)to.preact = group::of(z);
            }
            if (!LAST) {
                activate_columns<EXACT, RELU, COLUMNS>(activation, z);
            }
            if (kept) {
                *(wide *)to.acts = group::of(z);
            }
            if constexpr (CLUSTER == 1) {
                *(wide *)to.y = group::of(z);
            } else {
#pragma unroll
                for (unsigned i = 0; i < CLUSTER; i++) {
                    dqn_store_remote(to.remote[i], group::of(z));
                }
            }
            to.go_down_eight(stride, out_ld);
        }
    }
}

/* 16 MT columns of a layer from n on, for 8 NN rows, by one warp. `ready` waits, once, until the
 * input is there. */
template <bool EXACT, bool RELU, int MT, int NN, int CLUSTER, int HEIGHT, typename Ready>
static __device__ __forceinline__ void
run_columns(const struct cluster<CLUSTER, HEIGHT> &c, unsigned l, const float *params,
            unsigned from_row, unsigned to_row, unsigned n, Ready ready) {
    enum { CHAINS = 1 /* in all shapes */, AHEAD = MT == 1 ? 4 : NN == 8 ? 1 : 2 };
    enum { COLUMNS = 2 * MT };
    const struct dqn_layer *layer = &c.a->net.layer[l];
    const unsigned in_ld = (unsigned)layer->in_ld, end = c.end_column((unsigned)layer->out_ld);
    const unsigned column = n + COLUMNS * c.g;
    const bool exists = column < end;
    struct dqn_tile_up<EXACT, MT, NN, CHAINS, AHEAD> sums;
    sums.start(params + layer->weight, in_ld, in_ld, end, n);
    float bias[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        bias[j] = exists ? params[layer->bias + column + j] : 0.0f;
    }
    ready();
    sums.place(c.x + from_row * c.a->net.stride, c.a->net.stride);
    sums.run(in_ld);
    if (!exists) {
        return;
    }
    if (l + 1 < c.a->net.n_layers) {
        finish_columns<EXACT, RELU, false, NN>(c, l, sums, bias, to_row, column);
    } else {
        finish_columns<EXACT, RELU, true, NN>(c, l, sums, bias, to_row, column);
    }
}

/* This block's columns of layer l of all sections, by all warps. A single block with enough columns
 * takes the online network's two sections together, which halves the reads of its weights; then the
 * target network's come in pairs, so that all warps have as much to do. The smallest shares are two
 * groups of columns, so the warps split the rows as well. */
template <bool EXACT, bool RELU, int CLUSTER, int HEIGHT>
static __device__ __forceinline__ void run_layer(const struct cluster<CLUSTER, HEIGHT> &c,
                                                 unsigned l) {
    enum {
        ROWS = DQN_STEP_ROWS * HEIGHT,
        MT = CLUSTER >= 4 ? 1 : 2,
        SPLITS = CLUSTER == 8 ? 2 : 1
    };
    enum { WIDTH = 16 * MT, NN = ROWS / 8 / SPLITS, ENOUGH = 4 /* groups */ };
    const struct dqn_step *a = c.a;
    const unsigned ld = (unsigned)a->net.layer[l].out_ld;
    const unsigned first = c.first_column(ld), end = c.end_column(ld);
    const unsigned n_groups = first < end ? (end - first + WIDTH - 1) / WIDTH : 0;
    const float *online = a->params + c.agent * a->net.n_params;
    const float *target = a->target + c.agent * a->net.n_params;
    const bool together = CLUSTER == 1 && n_groups >= ENOUGH;
    const unsigned n_items =
        together ? n_groups + (n_groups + 1) / 2 : SECTIONS * SPLITS * n_groups;
    bool waits = true;
    const auto ready = [&]() {
        if (waits) {
            c.wait();
            waits = false;
        }
    };
    if (l + 1 == a->net.n_layers && c.warp == WARPS - 1) { /* with few columns, it has none */
        ready();
        weigh_rows(c);
    }
#pragma unroll 1
    for (unsigned item = c.warp; item < n_items; item += WARPS) {
        if constexpr (CLUSTER == 1) {
            if (together && item < n_groups) {
                run_columns<EXACT, RELU, MT, 2 * NN>(c, l, online, 0, 0, first + item * WIDTH,
                                                     ready);
                continue;
            }
        }
        unsigned section = item % SECTIONS, split = item / SECTIONS % SPLITS * 8 * NN;
        unsigned group = item / (SECTIONS * SPLITS), stop = group + 1;
        if (together) {
            section = 2;
            group = 2 * (item - n_groups);
            stop = group + 2 < n_groups ? group + 2 : n_groups;
        }
        const unsigned from = l == 0 && section == 2 ? 1 : section; /* s' was gathered once */
#pragma unroll 1
        for (; group < stop; group++) {
            run_columns<EXACT, RELU, MT, NN>(c, l, section == 2 ? target : online,
                                             from * ROWS + split, section * ROWS + split,
                                             first + group * WIDTH, ready);
        }
    }
    ready();
    c.arrive();
}

/* ---- TD errors ---- */

/* Q = V + A - mean(A) of one row in place (Wang et al. 2016, equation 9), by LANES lanes. Each
 * sixteenth advantage is in one sum, whatever LANES is. */
template <int LANES>
static __device__ __forceinline__ void combine_head(float *head, unsigned actions) {
    enum { SUMS = MOST_LANES / LANES };
    const unsigned lane = threadIdx.x % LANES;
    float sums[SUMS] = {0.0f};
    for (unsigned i = lane; i < actions; i += MOST_LANES) {
#pragma unroll
        for (unsigned j = 0; j < SUMS; j++) {
            sums[j] += i + j * LANES < actions ? head[i + j * LANES] : 0.0f;
        }
    }
    float sum = SUMS == 2 ? sums[0] + sums[SUMS - 1] : sums[0];
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    const float shift = head[actions] - sum / (float)actions;
    __syncwarp();
    for (unsigned i = lane; i < actions; i += LANES) {
        head[i] += shift;
    }
    __syncwarp();
}

/* A row's gradient by the last layer's output: `slope` at the action taken; with a dueling head its
 * mean leaves all advantages and it goes to the value. */
static __device__ __forceinline__ float top_gradient(const struct dqn_tile_net *net, unsigned i,
                                                     uint32_t action, float slope) {
    const float own = i == action ? slope : 0.0f;
    if (!net->dueling) {
        return own;
    }
    return i < net->actions ? own - slope / (float)net->actions : i == net->actions ? slope : 0.0f;
}

/* TD errors of the cluster's rows, by every block for itself: Q lies in c.x, gradients of the last
 * layer's output go to c.y. What leaves the cluster is written by its first block. */
template <bool EXACT, int CLUSTER, int HEIGHT>
static __device__ __forceinline__ void form_errors(const struct cluster<CLUSTER, HEIGHT> &c) {
    enum { ROWS = DQN_STEP_ROWS * HEIGHT, LANES = cluster<CLUSTER, HEIGHT>::LANES };
    const struct dqn_step *a = c.a;
    const unsigned stride = a->net.stride, actions = (unsigned)a->net.actions;
    const unsigned top = a->net.n_layers - 1, ld = (unsigned)a->net.layer[top].out_ld;
    const unsigned lane = threadIdx.x % LANES;
    const double delta = a->agents[c.agent].huber_delta;
    struct dqn_step_part sums = dqn_step_no_rows();
    const unsigned row = threadIdx.x / LANES;
    static_assert(THREADS / LANES >= ROWS && ROWS % (DQN_WARP / LANES) == 0, "a row has its lanes");
    if (row >= ROWS) { /* whole warps */
        return;
    }
    const struct row_facts facts = c.facts[row];
    float *q = c.x + row * stride, *target = q + 2 * ROWS * stride;
    float *chooser = a->double_q ? q + ROWS * stride : target;
    if (a->net.dueling) {
        combine_head<LANES>(q, actions);
        combine_head<LANES>(target, actions);
        if (a->double_q) {
            combine_head<LANES>(chooser, actions);
        }
    }
    const struct dqn_best next = dqn_group_argmax<LANES>(chooser, actions);
    const struct dqn_best here = dqn_group_argmax<LANES>(q, actions);
    /* an action that does not exist makes the loss NaN, which skips the update */
    const float value = facts.action < actions ? q[facts.action] : NAN;
    const float y =
        dqn_td_target(facts.reward, facts.discount, (uint8_t)facts.done, target[next.index]);
    const float td = y - value;
    const bool exists = row < c.n_rows, writes = c.rank == 0 && exists;
    const float slope = exists ? -a->grad_scale * facts.weight * dqn_td_slope(td, delta) : 0.0f;
    const size_t at = c.agent * a->batch + c.first_row + row;
    for (unsigned i = lane; i < ld; i += LANES) {
        const float d =
            exists ? dqn_tile_round<EXACT>(top_gradient(&a->net, i, facts.action, slope)) : 0.0f;
        c.y[row * stride + i] = d;
        if (writes) {
            a->dz[top][at * ld + i] = d;
        }
    }
    if (writes && lane == 0) {
        const double size = fabs((double)td);
        a->td[at] = td;
        sums.loss = (double)facts.weight * dqn_td_loss(td, delta);
        sums.q_mean = (double)value;
        sums.q_max = (double)here.value;
        sums.td_abs = sums.td_abs_max = size;
        sums.weight_min = (double)facts.weight;
        sums.smallest = facts.mass;
    }
    if (c.rank == 0 && lane == 0) {
        c.sums[row] = sums;
    }
}

/* The sums of 16 rows of the cluster, by one warp after the block's barrier. */
template <typename C> static __device__ __forceinline__ void report_rows(const C &c) {
    const unsigned row = c.warp * DQN_STEP_ROWS + c.lane;
    const bool is_own = c.lane < DQN_STEP_ROWS;
    const struct dqn_step_part all = dqn_step_join_warp(is_own ? c.sums[row] : dqn_step_no_rows());
    const size_t part = c.first_row / DQN_STEP_ROWS + c.warp;
    if (c.lane == 0 && part < c.a->n_parts) {
        c.a->parts[c.agent * c.a->n_parts + part] = all;
    }
}

/* ---- down ---- */

static __device__ __forceinline__ float4 add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* One warp's sums of dz W over rows [begin, end) of W, at 32 columns from n; they go to `to`,
 * [rows, GROUP_STRIDE], ADD: are added to what is there. */
template <bool EXACT, bool ADD, int HEIGHT, typename C>
static __device__ __forceinline__ void sum_group(const C &c, const struct dqn_layer *layer,
                                                 const float *w, const float *dz, unsigned begin,
                                                 unsigned end, unsigned n, float *to) {
    enum { NN = 2 * HEIGHT, AHEAD = 2 };
    const unsigned in_ld = (unsigned)layer->in_ld;
    struct dqn_tile_down<EXACT, NN, AHEAD> sums;
    sums.start(w, in_ld, begin, end, n);
    sums.place(dz, c.a->net.stride);
    sums.run(begin);
#pragma unroll
    for (int half = 0; half < 2 * NN; half++) {
        const unsigned row = half / 2 * 8 + dqn_tile_row(2 * c.t + half % 2);
        float4 *const at = (float4 *)(to + row * GROUP_STRIDE + 4 * c.g);
        float d[4];
        sums.take(half / 2, half % 2, d);
        const float4 own = make_float4(d[0], d[1], d[2], d[3]);
        *at = ADD ? add4(*at, own) : own;
    }
}

/* The sum of parts [begin, end), `size` floats apart. */
template <int AT_ONCE>
static __device__ __forceinline__ float4 add_parts(const float *from, unsigned size, unsigned begin,
                                                   unsigned end) {
    float4 sum = *(const float4 *)(from + begin * size);
#pragma unroll AT_ONCE
    for (unsigned i = begin + 1; i < end; i++) {
        sum = add4(sum, *(const float4 *)(from + i * size));
    }
    return sum;
}

/* Out of line, like activate_pair. */
static __device__ __noinline__ float4 slopes(enum dqn_activation activation, float4 from) {
    return make_float4(dqn_slope(activation, from.x), dqn_slope(activation, from.y),
                       dqn_slope(activation, from.z), dqn_slope(activation, from.w));
}

/* Gradients of this block's columns of layer l - 1 from those of all of layer l, which lie in `dz`;
 * they go to global memory and, for the next layer down, to `to` in every block. The warps share
 * the rows of W by ranges (struct dqn_step_down), a range a warp or, where a single block has too
 * many columns for that, a run of them. */
template <bool EXACT, bool RELU, int CLUSTER, int HEIGHT>
static __device__ __forceinline__ void descend(const struct cluster<CLUSTER, HEIGHT> &c, unsigned l,
                                               const float *dz, float *to) {
    enum { ROWS = DQN_STEP_ROWS * HEIGHT, AT_ONCE = CLUSTER > 1 ? 4 : 1 /* parts read */ };
    const struct dqn_step *a = c.a;
    const struct dqn_layer *layer = &a->net.layer[l], *below = &a->net.layer[l - 1];
    const struct dqn_step_down down = a->down[l];
    const unsigned ld = (unsigned)below->out_ld, out_ld = (unsigned)layer->out_ld;
    const unsigned first = c.first_column(ld), last = c.end_column(ld);
    const unsigned groups = first < last ? (last - first + GROUP - 1) / GROUP : 0;
    const bool by_range = CLUSTER > 1 || groups * down.n <= WARPS;
    const unsigned parts = by_range ? down.n : 2, first_run = by_range ? down.first : 1;
    /* three warps take two groups, the third one the second parts of both */
    const bool thirds = parts == 2 && takes_thirds(groups);
    unsigned item = c.warp, turn = WARPS, stop = groups * parts;
    if (thirds) {
        const bool is_third = c.warp % 3 == 2;
        const unsigned limit = is_third ? stop : groups;
        item = c.warp / 3 * 2 + (is_third ? groups : c.warp % 3);
        stop = item + (is_third ? 2 : 1) < limit ? item + (is_third ? 2 : 1) : limit;
        turn = 1;
    }
    float *sums = c.x; /* [part][group][ROWS][GROUP_STRIDE] */
    const float *w = a->params + c.agent * a->net.n_params + layer->weight;
#pragma unroll 1
    for (; item < stop; item += turn) {
        const unsigned part = item / groups, group = item % groups;
        const unsigned from = by_range || part == 0 ? part : down.first;
        const unsigned column = first + group * GROUP;
        float *const sum = sums + item * ROWS * GROUP_STRIDE;
        unsigned begin = from * down.rows, end = begin + down.rows;
        sum_group<EXACT, false, HEIGHT>(c, layer, w, dz, begin, end < out_ld ? end : out_ld, column,
                                        sum);
        if constexpr (CLUSTER == 1) {
            const unsigned until = by_range ? from + 1 : part == 0 ? down.first : down.n;
#pragma unroll 1
            for (unsigned range = from + 1; range < until; range++) {
                begin = end;
                end = begin + down.rows;
                sum_group<EXACT, true, HEIGHT>(c, layer, w, dz, begin, end < out_ld ? end : out_ld,
                                               column, sum);
            }
        }
    }
    __syncthreads();
    const enum dqn_activation activation = RELU ? DQN_RELU : below->activation;
    const size_t kept = activation == DQN_SILU ? below->preact : below->output;
    const float *acts = a->acts + a->n_agents * a->batch * kept;
    for (unsigned i = threadIdx.x; i < ROWS * groups * (GROUP / 4); i += THREADS) {
        const unsigned row = i / (groups * (GROUP / 4)), quarter = i % (groups * (GROUP / 4));
        const unsigned column = first + quarter * 4;
        const float *from =
            sums + (quarter / (GROUP / 4) * ROWS + row) * GROUP_STRIDE + quarter % (GROUP / 4) * 4;
        if (column >= last) {
            continue;
        }
        const unsigned size = groups * ROWS * GROUP_STRIDE;
        float4 d = add_parts<AT_ONCE>(from, size, 0, first_run);
        if (first_run < parts) {
            d = add4(d, add_parts<AT_ONCE>(from, size, first_run, parts));
        }
        if (row < c.n_rows) {
            const size_t at = (c.agent * a->batch + c.first_row + row) * ld + column;
            const float4 kept_at = *(const float4 *)(acts + at);
            const float4 slope =
                RELU ? make_float4(dqn_slope(DQN_RELU, kept_at.x), dqn_slope(DQN_RELU, kept_at.y),
                                   dqn_slope(DQN_RELU, kept_at.z), dqn_slope(DQN_RELU, kept_at.w))
                     : slopes(activation, kept_at);
            d = make_float4(
                dqn_tile_round<EXACT>(d.x * slope.x), dqn_tile_round<EXACT>(d.y * slope.y),
                dqn_tile_round<EXACT>(d.z * slope.z), dqn_tile_round<EXACT>(d.w * slope.w));
            *(float4 *)(a->dz[l - 1] + at) = d;
        }
        if (l > 1) {
            c.put((float4 *)(to + row * a->net.stride + column), d);
        }
    }
}

/* ---- the kernel ---- */

/* Grid: clusters of CLUSTER blocks, K; block 384; shared: two buffers of the widest layer for all
 * sections. Bound by latency: a search in the tree, a wait for the cluster a layer. */
template <bool EXACT, bool RELU, int CLUSTER, int HEIGHT>
static __global__ void __launch_bounds__(THREADS, 1)
    k_step_rows(const __grid_constant__ struct dqn_step a) {
    extern __shared__ float4 memory[];
    enum { ROWS = DQN_STEP_ROWS * HEIGHT };
    struct cluster<CLUSTER, HEIGHT> c;
    const size_t part = blockIdx.x / CLUSTER, left = a.batch - part * ROWS;
    c.a = &a;
    c.agent = blockIdx.y;
    c.first_row = part * ROWS;
    c.n_rows = left < ROWS ? (unsigned)left : ROWS;
    c.rank = blockIdx.x % CLUSTER;
    c.warp = __shfl_sync(0xffffffffu, threadIdx.x / DQN_WARP, 0); /* known to be one number */
    c.lane = threadIdx.x % DQN_WARP;
    c.g = c.lane / 4;
    c.t = c.lane % 4;
    const unsigned floats = buffer_floats(ROWS, a.net.stride);
    c.memory = c.x = (float *)memory;
#pragma unroll
    for (unsigned i = 0; i < CLUSTER; i++) {
        c.remote[i] = dqn_map_rank(memory, i);
    }
    c.y = c.x + floats;
    c.facts = (struct row_facts *)(c.y + floats);
    c.sums = (struct dqn_step_part *)(c.facts + ROWS);
    c.arrive();
    draw_rows<EXACT>(c);
    c.arrive();
#pragma unroll 1
    for (unsigned l = 0; l < a.net.n_layers; l++) {
        run_layer<EXACT, RELU>(c, l);
        c.swap();
    }
    c.wait();
    form_errors<EXACT>(c);
    __syncthreads();
    if (c.rank == 0 && c.warp < HEIGHT) {
        report_rows(c);
    }
    /* Gradients of layer l are in the first section of c.y or in the second, in turn: other blocks
     * may still form their errors, in c.x, when the first ones arrive. */
    float *dz = c.y, *next = c.y + ROWS * a.net.stride;
#pragma unroll 1
    for (unsigned l = a.net.n_layers - 1; l > 0; l--) {
        descend<EXACT, RELU>(c, l, dz, next);
        if (l > 1) {
            c.arrive();
            c.wait();
        }
        float *const other = dz;
        dz = next;
        next = other;
    }
}

#endif

/* ---- the launch ---- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <bool EXACT, bool RELU, int CLUSTER, int HEIGHT>
static __global__ void k_step_rows(const __grid_constant__ struct dqn_step) {
} /* is not launched */
#endif

struct launch {
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute;
};

static void fill_launch(struct launch *to, const struct dqn_step *step, unsigned cluster,
                        unsigned height, cudaStream_t stream) {
    const unsigned rows = DQN_STEP_ROWS * height;
    const unsigned clusters = (unsigned)((step->batch + rows - 1) / rows);
    *to = launch();
    to->attribute.id = cudaLaunchAttributeClusterDimension;
    to->attribute.val.clusterDim.x = cluster;
    to->attribute.val.clusterDim.y = to->attribute.val.clusterDim.z = 1;
    to->config.gridDim = dim3(clusters * cluster, (unsigned)step->n_agents);
    to->config.blockDim = dim3(THREADS);
    to->config.dynamicSmemBytes = shared_bytes(rows, step->net.stride);
    to->config.stream = stream;
    to->config.attrs = &to->attribute;
    to->config.numAttrs = 1;
}

typedef void (*rows_kernel)(const struct dqn_step);

/* Shapes from the smallest batch to the largest; the first one is also that of wide networks.
 * Results depend on the shape that one agent alone takes, a function of the batch, the network and
 * the device: a population, for which GPUs are filled by single blocks, sums in that order. */
struct shape {
    unsigned cluster, height;
    rows_kernel kernel[2][2]; /* [exact][relu] */
};

#define SHAPE(CLUSTER, HEIGHT)                                                                     \
    {                                                                                              \
        CLUSTER, HEIGHT, {                                                                         \
            {k_step_rows<false, false, CLUSTER, HEIGHT>,                                           \
             k_step_rows<false, true, CLUSTER, HEIGHT>},                                           \
            {                                                                                      \
                k_step_rows<true, false, CLUSTER, HEIGHT>,                                         \
                    k_step_rows<true, true, CLUSTER, HEIGHT>                                       \
            }                                                                                      \
        }                                                                                          \
    }

enum { N_SHAPES = 5 };
static const struct shape shapes[N_SHAPES] = {SHAPE(8, 1), SHAPE(4, 1), SHAPE(2, 1), SHAPE(1, 1),
                                              SHAPE(1, 2)};

static rows_kernel kernel_of(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                             const struct shape *shape) {
    const bool relu = step->net.n_layers == 1 || step->net.layer[0].activation == DQN_RELU;
    return shape->kernel[q->device->precision == DQN_PRECISION_FP32][relu];
}

/* Whether the warps of a block have its share of each hidden layer on the way down: a group each.
 */
static bool has_warps(const struct dqn_step *step, unsigned cluster) {
    for (unsigned l = 0; l + 1 < step->net.n_layers; l++) {
        const size_t tiles = (step->net.layer[l].out_ld + 7) / 8;
        if ((tiles + cluster - 1) / cluster * 8 > WARPS * GROUP) {
            return false;
        }
    }
    return true;
}

/* Clusters of this shape that the device runs at once; 0 where one does not fit, or where this
 * build has code for older devices alone, which know no clusters. */
static enum dqn_status count_clusters(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                                      const struct shape *shape, unsigned *n) {
    struct launch launch;
    int limit = 0, active = 0;
    *n = 0;
    fill_launch(&launch, step, shape->cluster, shape->height, q->stream);
    DQN_CUDA(
        cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, q->device->index));
    if (launch.config.dynamicSmemBytes > (size_t)limit || !has_warps(step, shape->cluster)) {
        return DQN_OK;
    }
    const rows_kernel kernel = kernel_of(q, step, shape);
    cudaFuncAttributes code;
    DQN_CUDA(cudaFuncGetAttributes(&code, kernel));
    if (code.ptxVersion < 90) {
        return DQN_OK;
    }
    DQN_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)launch.config.dynamicSmemBytes));
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&active, kernel, &launch.config);
    if (error != cudaSuccess) { /* a part of a GPU may have too few multiprocessors for a cluster */
        const cudaError_t cleared = cudaGetLastError();
        return dqn_cuda_is_lost(cleared) ? dqn_cuda_failed(cleared, "clusters", __FILE__, __LINE__)
                                         : DQN_OK;
    }
    *n = active > 0 ? (unsigned)active : 0;
    return DQN_OK;
}

/* Clusters of this shape that one agent's batch takes. */
static size_t count_tiles(const struct dqn_step *step, const struct shape *shape) {
    const size_t rows = DQN_STEP_ROWS * shape->height;
    return (step->batch + rows - 1) / rows;
}

/* The first shape whose clusters all run at once for so many agents; else the last one that fits;
 * NULL where none does. With `alone`, the shape of one agent, later ones have to be of single
 * blocks, which can sum in its order. */
static enum dqn_status choose_shape(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                                    size_t n_agents, const struct shape *alone,
                                    const struct shape **out) {
    *out = NULL;
    for (const struct shape *s = alone != NULL ? alone : shapes; s < shapes + N_SHAPES; s++) {
        unsigned active = 0;
        if (alone != NULL && s > alone && s->cluster > 1) {
            continue;
        }
        DQN_TRY(count_clusters(q, step, s, &active));
        if (active > 0) {
            *out = s;
        }
        if (active >= n_agents * count_tiles(step, s)) {
            return DQN_OK;
        }
    }
    return DQN_OK;
}

/* How a shape sums on the way down, in a layer whose input has ld columns and whose output out_ld:
 * its warps share the groups of columns, and where there are more warps than groups, W's rows. */
static struct dqn_step_down order_of(const struct shape *shape, unsigned ld, unsigned out_ld) {
    const unsigned share = share_of(ld, shape->cluster);
    const unsigned groups = ((share < ld ? share : ld) + GROUP - 1) / GROUP;
    const unsigned steps = (out_ld + DEPTH - 1) / DEPTH;
    const unsigned splits = groups < WARPS ? WARPS / groups : 1;
    const unsigned each =
        takes_thirds(groups) ? (2 * steps + 2) / 3 : (steps + splits - 1) / splits;
    struct dqn_step_down down;
    down.rows = each * DEPTH;
    down.n = (out_ld + down.rows - 1) / down.rows;
    down.first = (2 * down.n + 1) / 3;
    return down;
}

enum dqn_status dqn_step_plan_rows(const struct dqn_cuda_queue *q, const struct dqn_step *step,
                                   bool *fits) {
    const struct shape *alone = NULL;
    DQN_TRY(choose_shape(q, step, 1, NULL, &alone));
    *fits = alone != NULL;
    return DQN_OK;
}

enum dqn_status dqn_step_launch_rows(struct dqn_cuda_queue *q, const struct dqn_step *step) {
    const struct shape *alone = NULL, *shape = NULL;
    struct dqn_step own = *step;
    struct launch launch;
    DQN_TRY(choose_shape(q, step, 1, NULL, &alone));
    DQN_CHECK(alone != NULL);
    DQN_TRY(choose_shape(q, step, step->n_agents, alone, &shape));
    for (unsigned l = 1; l < own.net.n_layers; l++) {
        own.down[l] = order_of(alone, (unsigned)own.net.layer[l - 1].out_ld,
                               (unsigned)own.net.layer[l].out_ld);
    }
    fill_launch(&launch, step, shape->cluster, shape->height, q->stream);
    DQN_CUDA_ASK("k_step_rows", cudaLaunchKernelEx(&launch.config, kernel_of(q, step, shape), own));
    return DQN_OK;
}
