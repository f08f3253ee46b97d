/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/descriptor.h"

#include "hw/udma.h"

struct nd_descriptor nd_descriptor_source(uint64_t address, uint32_t length, unsigned ring_id,
					  enum nd_barrier barrier)
{
	struct nd_descriptor d;

	d.control = (length & NEURON_DESC_LENGTH_MASK) |
		    ((ring_id & 3u) << NEURON_DESC_RING_ID_SHIFT) | NEURON_DESC_FIRST |
		    NEURON_DESC_LAST;
	d.meta = NEURON_META_DEFAULT;
	if (barrier == ND_BARRIER_WRITE)
		d.meta |= NEURON_META_WRITE_BARRIER;
	else if (barrier == ND_BARRIER_DMB)
		d.control |= NEURON_DESC_DMB;
	d.address = address;
	return d;
}

struct nd_descriptor nd_descriptor_destination(uint64_t address, uint32_t length, unsigned ring_id)
{
	struct nd_descriptor d;

	d.control =
	    (length & NEURON_DESC_LENGTH_MASK) | ((ring_id & 3u) << NEURON_DESC_RING_ID_SHIFT);
	d.meta = 0;
	d.address = address;
	return d;
}

uint32_t nd_descriptor_length(const struct nd_descriptor *descriptor)
{
	uint32_t length = descriptor->control & NEURON_DESC_LENGTH_MASK;

	return length ? length : NEURON_UDMA_MAX_DESC_BYTES;
}
