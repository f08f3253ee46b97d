/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Processes attached to a device (16 at most, one reference per open) and the 16 datastores that
 * they publish counters in.
 *
 * Callers: open, close and the datastore calls, holding the device's table lock. Owns nothing: a
 * datastore is a slot number here, its 256 KiB belong to the caller.
 */
#ifndef DRIVER_CORE_PROCESS_TABLE_H
#define DRIVER_CORE_PROCESS_TABLE_H

#include "driver/core/holder.h"

ND_BEGIN

#define ND_PROCESSES 16u
#define ND_DATASTORES 16u
#define ND_DATASTORE_BYTES (256u << 10)

struct nd_process {
	int32_t pid; /* 0: free */
	uint32_t references;
	struct nd_holder who; /* filled in by the caller of attach */
};

struct nd_process_table {
	struct nd_process slot[ND_PROCESSES];
};

/* -EBUSY for a 17th process. */
int nd_process_attach(struct nd_process_table *table, int32_t pid);
/* True if that was the last reference. */
bool nd_process_detach(struct nd_process_table *table, int32_t pid);
struct nd_process *nd_process_find(struct nd_process_table *table, int32_t pid);
uint32_t nd_process_count(const struct nd_process_table *table);

struct nd_datastore {
	int32_t pid;	  /* 0: free */
	uint64_t cleared; /* order in which slots were freed */
};

struct nd_datastore_table {
	struct nd_datastore slot[ND_DATASTORES];
	uint64_t clock;
};

/*
 * Slot of a process; created if `create`. -ENOENT without one, -ENOMEM when 16 are in use. A new
 * process gets the slot that has been free for longest, so that the counters of a process that has
 * ended stay readable for as long as possible.
 */
int nd_datastore_acquire(struct nd_datastore_table *table, int32_t pid, bool create,
			 uint32_t *slot);
/* -ENOENT if the process has none; else its slot, free again. */
int nd_datastore_release(struct nd_datastore_table *table, int32_t pid, uint32_t *slot);

ND_END

#endif
