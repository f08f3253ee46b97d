/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/ring.h"

#include "driver/core/queue.h"
#include "hw/udma.h"

int nd_ring_init(struct nd_ring *ring, struct nd_descriptor *source,
		 struct nd_descriptor *destination, uint32_t length)
{
	int error = nd_queue_check_length(length);

	if (error)
		return error;
	ring->source = source;
	ring->destination = destination;
	ring->length = length;
	nd_ring_reset(ring);
	return 0;
}

void nd_ring_reset(struct nd_ring *ring)
{
	ring->next = 0;
	ring->used = 0;
	ring->ring_id = 1;
}

uint32_t nd_ring_space(const struct nd_ring *ring)
{
	return ring->length - ND_RING_RESERVED - ring->used;
}

static void advance(struct nd_ring *ring)
{
	ring->used++;
	if (++ring->next == ring->length) {
		ring->next = 0;
		ring->ring_id = (ring->ring_id + 1) & 3u;
	}
}

int nd_ring_push(struct nd_ring *ring, uint64_t source, uint64_t destination, uint32_t length,
		 enum nd_barrier barrier)
{
	if (length == 0 || length > NEURON_UDMA_MAX_DESC_BYTES)
		return -ND_EINVAL;
	if (nd_ring_space(ring) == 0)
		return -ND_ENOMEM;
	ring->source[ring->next] = nd_descriptor_source(source, length, ring->ring_id, barrier);
	ring->destination[ring->next] =
	    nd_descriptor_destination(destination, length, ring->ring_id);
	advance(ring);
	return 0;
}

uint32_t nd_ring_push_copy(struct nd_ring *ring, struct nd_copy *copy, uint32_t keep,
			   enum nd_barrier barrier)
{
	uint32_t limit = NEURON_UDMA_MAX_DESC_BYTES;
	uint32_t written = 0;

	if (copy->pattern && copy->pattern < limit)
		limit = copy->pattern;
	while (copy->remaining && nd_ring_space(ring) > keep) {
		uint32_t length = copy->remaining < limit ? (uint32_t)copy->remaining : limit;
		bool last = length == copy->remaining || nd_ring_space(ring) == keep + 1;

		nd_ring_push(ring, copy->source, copy->destination, length,
			     last ? barrier : ND_BARRIER_NONE);
		if (!copy->pattern)
			copy->source += length;
		copy->destination += length;
		copy->remaining -= length;
		written++;
	}
	return written;
}

int nd_ring_release(struct nd_ring *ring, uint32_t count)
{
	if (count > ring->used)
		return -ND_EINVAL;
	ring->used -= count;
	return 0;
}
