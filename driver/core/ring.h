/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One queue of the driver's own: a source and a destination ring of equal length in memory the
 * caller provides, filled in step.
 *
 * Callers: the copy path, holding the ring's lock. Owns nothing; the descriptors belong to the
 * caller. The ring id starts at 1 and advances at each wrap, as the engine expects. A ring keeps 16
 * entries free, so that a full ring never looks empty.
 */
#ifndef DRIVER_CORE_RING_H
#define DRIVER_CORE_RING_H

#include "driver/core/descriptor.h"

ND_BEGIN

#define ND_RING_RESERVED 16u

struct nd_ring {
	struct nd_descriptor *source;
	struct nd_descriptor *destination;
	uint32_t length;
	uint32_t next;	  /* index of the next entry to write */
	uint32_t used;	  /* entries written and not yet released */
	uint32_t ring_id; /* id of entry `next` */
};

/* A copy that may need several batches: the part still to be described. */
struct nd_copy {
	uint64_t source;
	uint64_t destination;
	uint64_t remaining;
	/* 0, or the size of a source pattern that is repeated: a piece never exceeds it. */
	uint32_t pattern;
};

/* -EINVAL if the length is not one that an engine takes (nd_queue_check_length). */
int nd_ring_init(struct nd_ring *ring, struct nd_descriptor *source,
		 struct nd_descriptor *destination, uint32_t length);
/* Back to the state after a queue reset: empty, index 0, ring id 1. */
void nd_ring_reset(struct nd_ring *ring);
uint32_t nd_ring_space(const struct nd_ring *ring);
/* Writes one packet; -ENOMEM when the ring is full. */
int nd_ring_push(struct nd_ring *ring, uint64_t source, uint64_t destination, uint32_t length,
		 enum nd_barrier barrier);
/*
 * Describes as much of the copy as fits, in pieces of at most 64 KiB, leaving `keep` entries free
 * (for the marker). The last piece written carries `barrier`. Returns the packets written and
 * advances `copy`.
 */
uint32_t nd_ring_push_copy(struct nd_ring *ring, struct nd_copy *copy, uint32_t keep,
			   enum nd_barrier barrier);
/* Gives back the `count` oldest entries; -EINVAL when fewer are in use. */
int nd_ring_release(struct nd_ring *ring, uint32_t count);

ND_END

#endif
