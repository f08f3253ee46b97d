/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Memory of one HBM stack: a main pool and, in the last GiB, a pool for small requests; the
 * firmware's 16 MiB at the start; and a contiguous scratchpad that grows down from the end of the
 * main pool.
 *
 * Callers: allocation and free calls, holding the device's memory lock. Requests up to 512 KiB try
 * the small pool first, larger ones the main pool first; each falls back to the other. Storage for
 * nodes comes from the caller (nd_hbm_give_nodes) while nd_hbm_needs_nodes() says so.
 */
#ifndef DRIVER_CORE_HBM_H
#define DRIVER_CORE_HBM_H

#include "driver/core/pool.h"

ND_BEGIN

#define ND_HBM_SMALL_POOL (1ull << 30)
#define ND_HBM_SMALL_REQUEST (512ull << 10)

struct nd_hbm {
	struct nd_pool main;
	struct nd_pool small;
	struct nd_block *carve_out;
	uint64_t scratchpad_low; /* lowest address of the contiguous scratchpad */
};

/* small_pool may be 0; nodes as for nd_pool, at least 4 of them. */
int nd_hbm_init(struct nd_hbm *hbm, uint64_t base, uint64_t size, uint64_t carve_out,
		uint64_t small_pool, struct nd_block *nodes, uint32_t count);
/* True while an allocation might run out of nodes. */
bool nd_hbm_needs_nodes(const struct nd_hbm *hbm);
/* Half of the nodes for each pool. */
void nd_hbm_give_nodes(struct nd_hbm *hbm, struct nd_block *nodes, uint32_t count);
int nd_hbm_allocate(struct nd_hbm *hbm, uint64_t size, uint64_t alignment, struct nd_block **block);
/* The next piece of the scratchpad, directly below the one before; -ENOMEM if that is taken. */
int nd_hbm_allocate_scratchpad(struct nd_hbm *hbm, uint64_t size, struct nd_block **block);
/*
 * Frees a block of either pool. Scratchpad pieces are meant to be freed lowest first; in another
 * order the scratchpad shrinks only once its lowest piece is freed.
 */
void nd_hbm_free(struct nd_hbm *hbm, struct nd_block *block);
uint64_t nd_hbm_free_bytes(const struct nd_hbm *hbm);
uint64_t nd_hbm_largest_free(const struct nd_hbm *hbm);
uint64_t nd_hbm_main_end(const struct nd_hbm *hbm);

ND_END

#endif
