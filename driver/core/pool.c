/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/pool.h"

void nd_pool_give_nodes(struct nd_pool *pool, struct nd_block *nodes, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		nodes[i].next = pool->spare;
		pool->spare = &nodes[i];
	}
	pool->spare_count += count;
}

static struct nd_block *take_node(struct nd_pool *pool)
{
	struct nd_block *node = pool->spare;

	pool->spare = node->next;
	pool->spare_count--;
	memset(node, 0, sizeof(*node));
	return node;
}

void nd_pool_init(struct nd_pool *pool, uint64_t base, uint64_t size, struct nd_block *nodes,
		  uint32_t count)
{
	memset(pool, 0, sizeof(*pool));
	pool->base = base;
	pool->size = size;
	nd_pool_give_nodes(pool, nodes, count);
	if (size == 0 || count == 0)
		return;
	pool->free_bytes = size;
	pool->first = take_node(pool);
	pool->first->start = base;
	pool->first->size = size;
	pool->first->free = true;
	pool->first_free = pool->first;
}

static void unlink_free(struct nd_pool *pool, struct nd_block *block)
{
	if (block->free_previous)
		block->free_previous->free_next = block->free_next;
	else
		pool->first_free = block->free_next;
	if (block->free_next)
		block->free_next->free_previous = block->free_previous;
	block->free_previous = NULL;
	block->free_next = NULL;
	block->free = false;
}

/* Puts `block` behind `after`, or first when there is none. */
static void link_free(struct nd_pool *pool, struct nd_block *block, struct nd_block *after)
{
	block->free = true;
	block->free_previous = after;
	block->free_next = after ? after->free_next : pool->first_free;
	if (block->free_next)
		block->free_next->free_previous = block;
	if (after)
		after->free_next = block;
	else
		pool->first_free = block;
}

/* Cuts `block`, which is free, at `offset`; the new upper part is free as well. */
static void split(struct nd_pool *pool, struct nd_block *block, uint64_t offset)
{
	struct nd_block *upper = take_node(pool);

	upper->start = block->start + offset;
	upper->size = block->size - offset;
	block->size = offset;
	upper->previous = block;
	upper->next = block->next;
	if (upper->next)
		upper->next->previous = upper;
	block->next = upper;
	link_free(pool, upper, block);
}

static int take(struct nd_pool *pool, struct nd_block *block, uint64_t start, uint64_t size,
		struct nd_block **out)
{
	uint32_t needed = (start != block->start) + (start + size != block->start + block->size);

	if (pool->spare_count < needed)
		return -ND_ENOMEM;
	if (start != block->start) {
		split(pool, block, start - block->start);
		block = block->next;
	}
	if (size != block->size)
		split(pool, block, size);
	unlink_free(pool, block);
	pool->free_bytes -= size;
	pool->used_blocks++;
	*out = block;
	return 0;
}

int nd_pool_allocate(struct nd_pool *pool, uint64_t size, uint64_t alignment, struct nd_block **out)
{
	struct nd_block *block;

	if (size == 0 || size > pool->size || (alignment && !nd_is_power_of_two(alignment)))
		return size > pool->size ? -ND_ENOMEM : -ND_EINVAL;
	size = nd_align_up(size, ND_PAGE_SIZE);
	if (alignment < ND_PAGE_SIZE)
		alignment = ND_PAGE_SIZE;
	for (block = pool->first_free; block; block = block->free_next) {
		uint64_t start = nd_align_up(block->start, alignment);
		uint64_t skipped = start - block->start;

		if (start < block->start)
			continue; /* alignment went past the end of the address space */
		if (skipped <= block->size && block->size - skipped >= size)
			return take(pool, block, start, size, out);
	}
	return -ND_ENOMEM;
}

int nd_pool_allocate_at(struct nd_pool *pool, uint64_t start, uint64_t size, struct nd_block **out)
{
	struct nd_block *block;

	if (size == 0 || start % ND_PAGE_SIZE || size % ND_PAGE_SIZE)
		return -ND_EINVAL;
	for (block = pool->first_free; block && block->start <= start; block = block->free_next) {
		uint64_t skipped = start - block->start;

		if (skipped < block->size && block->size - skipped >= size)
			return take(pool, block, start, size, out);
	}
	return -ND_ENOMEM;
}

/* Joins `block` with its upper neighbour, which is free, and returns the neighbour's node. */
static void absorb_next(struct nd_pool *pool, struct nd_block *block)
{
	struct nd_block *upper = block->next;

	unlink_free(pool, upper);
	block->size += upper->size;
	block->next = upper->next;
	if (block->next)
		block->next->previous = block;
	upper->next = pool->spare;
	pool->spare = upper;
	pool->spare_count++;
}

struct nd_block *nd_pool_free(struct nd_pool *pool, struct nd_block *block)
{
	struct nd_block *lower = block->previous;

	pool->free_bytes += block->size;
	pool->used_blocks--;
	/* The nearest free block below gives the place in the free list. */
	while (lower && !lower->free)
		lower = lower->previous;
	link_free(pool, block, lower);
	if (block->next && block->next->free)
		absorb_next(pool, block);
	if (lower && lower == block->previous) {
		absorb_next(pool, lower);
		block = lower;
	}
	return block;
}

uint64_t nd_pool_largest_free(const struct nd_pool *pool)
{
	const struct nd_block *block;
	uint64_t largest = 0;

	for (block = pool->first_free; block; block = block->free_next)
		if (block->size > largest)
			largest = block->size;
	return largest;
}
