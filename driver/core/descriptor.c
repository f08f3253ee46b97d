/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/descriptor.h"

#include "hw/address_map.h"
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

bool nd_address_is_host(uint64_t address)
{
	return (address & NEURON_V2_ROUTE_MASK) == NEURON_V2_HOST_BASE;
}

static bool inside(uint64_t address, uint64_t size, uint64_t base, uint64_t length)
{
	return address >= base && size <= length && address - base <= length - size;
}

bool nd_address_is_programmable(uint64_t address, uint64_t size)
{
	return inside(address, size, NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0),
		      NEURON_V2_CORES * NEURON_V2_CORE_WINDOW_SIZE) ||
	       inside(address, size, NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW(0),
		      NEURON_V2_TOPSPS * NEURON_V2_TOPSP_WINDOW_SIZE);
}
