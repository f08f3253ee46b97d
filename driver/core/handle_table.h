/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Memory handles: small integers per device, 1 to 4194303; the handle freed last is given out
 * first, so that tables stay dense.
 *
 * Callers: insert and remove hold the device's memory lock. Storage comes in levels of 8192 entries
 * that the caller adds (nd_handles_add_level) when nd_handles_full() says so; at most 512 of them.
 * Fails: -ENOENT when all levels are full, and lookups of what is not live give NULL.
 */
#ifndef DRIVER_CORE_HANDLE_TABLE_H
#define DRIVER_CORE_HANDLE_TABLE_H

#include "driver/core/os.h"

ND_BEGIN

#define ND_HANDLE_LEVELS 512u
#define ND_HANDLES_PER_LEVEL 8192u

struct nd_handle_entry {
	void *object;	    /* NULL: free */
	uint32_t next_free; /* while free */
};

struct nd_handle_table {
	struct nd_handle_entry *levels[ND_HANDLE_LEVELS];
	uint32_t level_count;
	uint32_t first_free; /* 0: none */
	uint32_t unused;     /* first handle that was never given out */
	uint32_t live;
};

void nd_handles_init(struct nd_handle_table *table);
/* True if an insert needs another level first. */
bool nd_handles_full(const struct nd_handle_table *table);
/* `entries` has ND_HANDLES_PER_LEVEL elements; -ENOENT when there are 512 levels. */
int nd_handles_add_level(struct nd_handle_table *table, struct nd_handle_entry *entries);
int nd_handles_insert(struct nd_handle_table *table, void *object, uint32_t *handle);
/* The object of a live handle; NULL for any other number. */
void *nd_handles_lookup(const struct nd_handle_table *table, uint64_t handle);
/* Returns the object that was removed, NULL if the handle was not live. */
void *nd_handles_remove(struct nd_handle_table *table, uint64_t handle);

ND_END

#endif
