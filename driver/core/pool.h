/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Allocator of one address range: first fit in units of 4 KiB, lowest address first.
 *
 * Callers: nd_hbm and host memory, holding the device's memory lock. Blocks are described by nodes
 * in storage that the caller gives (nd_pool_give_nodes), at any time; an allocation needs at most
 * ND_POOL_NODES_PER_ALLOCATION spare ones, so give more while nd_pool_spare() is below that.
 * Fails: -ENOMEM without space or nodes; nothing changes then. Free never fails.
 */
#ifndef DRIVER_CORE_POOL_H
#define DRIVER_CORE_POOL_H

#include "driver/core/os.h"

ND_BEGIN

#define ND_POOL_NODES_PER_ALLOCATION 2u

struct nd_block {
	struct nd_block *previous; /* by address, free and used */
	struct nd_block *next;
	struct nd_block *free_previous; /* free blocks by address */
	struct nd_block *free_next;
	uint64_t start;
	uint64_t size;
	bool free;
};

struct nd_pool {
	uint64_t base;
	uint64_t size;
	uint64_t free_bytes;
	struct nd_block *first;
	struct nd_block *first_free;
	struct nd_block *spare; /* linked by next */
	uint32_t spare_count;
	uint32_t used_blocks;
};

/* base and size are multiples of the page size; `nodes` (at least one) is kept until the end. */
void nd_pool_init(struct nd_pool *pool, uint64_t base, uint64_t size, struct nd_block *nodes,
		  uint32_t count);
void nd_pool_give_nodes(struct nd_pool *pool, struct nd_block *nodes, uint32_t count);
static inline uint32_t nd_pool_spare(const struct nd_pool *pool)
{
	return pool->spare_count;
}
/* size is rounded up to pages; alignment is 0 or a power of two. */
int nd_pool_allocate(struct nd_pool *pool, uint64_t size, uint64_t alignment,
		     struct nd_block **out);
/* Exactly [start, start + size), page aligned; -ENOMEM if any of it is taken. */
int nd_pool_allocate_at(struct nd_pool *pool, uint64_t start, uint64_t size, struct nd_block **out);
/* Merges with free neighbours. Returns the free block that now holds the range; it is valid until
 * the next call. */
struct nd_block *nd_pool_free(struct nd_pool *pool, struct nd_block *block);
uint64_t nd_pool_largest_free(const struct nd_pool *pool);
static inline bool nd_pool_contains(const struct nd_pool *pool, uint64_t address)
{
	return address >= pool->base && address - pool->base < pool->size;
}

ND_END

#endif
