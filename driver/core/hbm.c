/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/hbm.h"

int nd_hbm_init(struct nd_hbm *hbm, uint64_t base, uint64_t size, uint64_t carve_out,
		uint64_t small_pool, struct nd_block *nodes, uint32_t count)
{
	if (count < 4 || small_pool >= size || carve_out > size - small_pool ||
	    (base | size | carve_out | small_pool) % ND_PAGE_SIZE)
		return -ND_EINVAL;
	nd_pool_init(&hbm->main, base, size - small_pool, nodes, count / 2);
	nd_pool_init(&hbm->small, base + size - small_pool, small_pool, nodes + count / 2,
		     count - count / 2);
	hbm->carve_out = NULL;
	hbm->scratchpad_low = nd_hbm_main_end(hbm);
	if (carve_out)
		return nd_pool_allocate_at(&hbm->main, base, carve_out, &hbm->carve_out);
	return 0;
}

uint64_t nd_hbm_main_end(const struct nd_hbm *hbm)
{
	return hbm->main.base + hbm->main.size;
}

bool nd_hbm_needs_nodes(const struct nd_hbm *hbm)
{
	return nd_pool_spare(&hbm->main) < ND_POOL_NODES_PER_ALLOCATION ||
	       nd_pool_spare(&hbm->small) < ND_POOL_NODES_PER_ALLOCATION;
}

void nd_hbm_give_nodes(struct nd_hbm *hbm, struct nd_block *nodes, uint32_t count)
{
	nd_pool_give_nodes(&hbm->main, nodes, count / 2);
	nd_pool_give_nodes(&hbm->small, nodes + count / 2, count - count / 2);
}

int nd_hbm_allocate(struct nd_hbm *hbm, uint64_t size, uint64_t alignment, struct nd_block **block)
{
	bool small = size <= ND_HBM_SMALL_REQUEST && hbm->small.size != 0;
	struct nd_pool *first = small ? &hbm->small : &hbm->main;
	struct nd_pool *second = small ? &hbm->main : &hbm->small;
	int error = nd_pool_allocate(first, size, alignment, block);

	if (error == -ND_ENOMEM)
		error = nd_pool_allocate(second, size, alignment, block);
	return error;
}

int nd_hbm_allocate_scratchpad(struct nd_hbm *hbm, uint64_t size, struct nd_block **block)
{
	int error;

	if (size == 0)
		return -ND_EINVAL;
	if (size > hbm->main.size)
		return -ND_ENOMEM;
	size = nd_align_up(size, ND_PAGE_SIZE);
	if (size > hbm->scratchpad_low - hbm->main.base)
		return -ND_ENOMEM;
	error = nd_pool_allocate_at(&hbm->main, hbm->scratchpad_low - size, size, block);
	if (!error)
		hbm->scratchpad_low -= size;
	return error;
}

void nd_hbm_free(struct nd_hbm *hbm, struct nd_block *block)
{
	uint64_t start = block->start;

	if (nd_pool_contains(&hbm->small, start)) {
		nd_pool_free(&hbm->small, block);
		return;
	}
	block = nd_pool_free(&hbm->main, block);
	/* What follows the freed piece may have been freed before it. */
	if (start == hbm->scratchpad_low)
		hbm->scratchpad_low = block->start + block->size;
}

uint64_t nd_hbm_free_bytes(const struct nd_hbm *hbm)
{
	return hbm->main.free_bytes + hbm->small.free_bytes;
}

uint64_t nd_hbm_largest_free(const struct nd_hbm *hbm)
{
	uint64_t main = nd_pool_largest_free(&hbm->main);
	uint64_t small = nd_pool_largest_free(&hbm->small);

	return main > small ? main : small;
}
