/* Inside of the CPU samplers: the state that their files share. */
#ifndef DQN_CPU_SAMPLER_CPU_H
#define DQN_CPU_SAMPLER_CPU_H

#include "../shared/priority.h"
#include "../shared/schedule.h"
#include "cpu.h"

struct dqn_sampler {
    struct dqn_sampler_spec spec;
    /* proportional: a binary tree an agent, node 1 the root, the children of i at 2i and 2i + 1,
     * row r's leaf at n_leaves + r */
    size_t n_leaves;           /* a power of two >= capacity */
    struct dqn_buffer *sums;   /* [K, 2 n_leaves] u64 */
    struct dqn_buffer *minima; /* [K, 2 n_leaves] u64 of filled leaves, for weight_norm: buffer */
    /* rank-based */
    struct dqn_buffer *order;     /* [K, N] u32: row of each rank, the highest priority first */
    struct dqn_buffer *ranked;    /* [K] u64: rows that are in the order */
    struct dqn_buffer *stale;     /* [K, N] u8: 1 = priority changed since the order was made */
    struct dqn_buffer *changed;   /* [K, N] u32: these rows */
    struct dqn_buffer *n_changed; /* [K] u64 */
    struct dqn_buffer *scratch;   /* [K, N] u32 */
    struct dqn_buffer *prefix;    /* [N] u64: sum of the masses of ranks 1 .. i + 1 */
    /* all */
    struct dqn_buffer *mass;     /* [K, B] u64 of the rows of a batch */
    struct dqn_buffer *smallest; /* [K] u64: the mass whose weight is 1 */
    struct dqn_buffer *fresh;    /* [K, B] f32 the batch's new priorities */
};

/* Rows that a task takes; also how many descents of the tree run side by side. */
enum { DQN_SAMPLER_ROWS = 64 };

/* sampler_tree_cpu.c: of agent k */
/* Takes n rows' priorities into the sums; a row may be there twice. */
void dqn_tree_set_rows(struct dqn_sampler *s, size_t k, const float *priorities,
                       const int64_t *rows, size_t n);
/* Rows [first, first + count), no wrap, from the priorities. */
void dqn_tree_set_range(struct dqn_sampler *s, size_t k, const float *priorities, size_t first,
                        size_t count);
uint64_t dqn_tree_total(const struct dqn_sampler *s, size_t k);
/* The rows whose stretches of the sum hold n <= DQN_SAMPLER_ROWS places, and the lengths of these
 * stretches. */
void dqn_tree_find(const struct dqn_sampler *s, size_t k, size_t n, const uint64_t *place,
                   int64_t *row, uint64_t *mass);
/* The smallest leaf of all filled rows. */
uint64_t dqn_tree_minimum(const struct dqn_sampler *s, size_t k);

/* sampler_rank_cpu.c: of agent k */
void dqn_rank_mark(struct dqn_sampler *s, size_t k, size_t row);
/* Brings the order up to date when it is due at draw number `draw`. `size` rows are filled. */
void dqn_rank_refresh(struct dqn_sampler *s, size_t k, const float *priorities, size_t size,
                      uint64_t draw);

#endif
