/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DMA descriptors of 16 bytes (hw/udma.h), as the driver writes them: each piece of a copy is a
 * packet of one source and one destination descriptor of equal length.
 *
 * Callers: nd_ring and code that builds rings by hand. Stateless. Little-endian hosts only.
 */
#ifndef DRIVER_CORE_DESCRIPTOR_H
#define DRIVER_CORE_DESCRIPTOR_H

#include "driver/core/os.h"

ND_BEGIN

struct nd_descriptor {
	uint32_t control;
	uint32_t meta;
	uint64_t address;
};

/* When the data of a piece must have arrived before later packets of the queue start. */
enum nd_barrier {
	ND_BARRIER_NONE,
	ND_BARRIER_WRITE, /* meta control bit 26 */
	ND_BARRIER_DMB,	  /* control word bit 30 */
};

/* length is 1..65536 bytes. */
struct nd_descriptor nd_descriptor_source(uint64_t address, uint32_t length, unsigned ring_id,
					  enum nd_barrier barrier);
struct nd_descriptor nd_descriptor_destination(uint64_t address, uint32_t length, unsigned ring_id);
/* Bytes that a descriptor moves. */
uint32_t nd_descriptor_length(const struct nd_descriptor *descriptor);

ND_END

#endif
