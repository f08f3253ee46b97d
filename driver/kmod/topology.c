// SPDX-License-Identifier: GPL-2.0-only
/*
 * How the chips of an instance are numbered and joined. None of it can be read from the hardware of
 * any generation: the routing id names the place, and the place tells number and neighbours.
 */
#include "driver/kmod/neuron.h"

#include "hw/address_map.h"

/* Device index of routing id 0 to 15; higher ids repeat the row in blocks of 16. */
static const u8 trn1_index[16] = { 0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10 };
static const u8 trn2_index[16] = { 0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10 };

/* Neighbours of each device of a 4 x 4 torus, in the order in which they are reported. */
static const u8 trn1_torus[16][4] = {
	{ 12, 3, 4, 1 },  { 13, 0, 5, 2 },  { 14, 1, 6, 3 },   { 15, 2, 7, 0 },
	{ 0, 7, 8, 5 },	  { 1, 4, 9, 6 },   { 2, 5, 10, 7 },   { 3, 6, 11, 4 },
	{ 4, 11, 12, 9 }, { 5, 8, 13, 10 }, { 6, 9, 14, 11 },  { 7, 10, 15, 8 },
	{ 8, 15, 0, 13 }, { 9, 12, 1, 14 }, { 10, 13, 2, 15 }, { 11, 14, 3, 12 },
};

static const u8 trn2_torus[16][4] = {
	{ 12, 1, 3, 4 },  { 0, 13, 5, 2 },  { 14, 3, 1, 6 },   { 2, 15, 7, 0 },
	{ 8, 5, 7, 0 },	  { 4, 9, 1, 6 },   { 10, 7, 5, 2 },   { 6, 11, 3, 4 },
	{ 4, 9, 11, 12 }, { 8, 5, 13, 10 }, { 6, 11, 9, 14 },  { 10, 7, 15, 8 },
	{ 0, 13, 15, 8 }, { 12, 1, 9, 14 }, { 2, 15, 13, 10 }, { 14, 3, 11, 12 },
};

int nd_topology_index(const struct neuron_device *nd, u32 routing_id)
{
	u32 block = routing_id & ~15u;

	if (routing_id >= ND_MAX_DEVICES)
		return -EINVAL;
	switch (nd->pdev->device) {
	case NEURON_PCI_DEVICE_TRN1:
		return block + trn1_index[routing_id & 15];
	case NEURON_PCI_DEVICE_TRN2:
		return block + trn2_index[routing_id & 15];
	default:
		return routing_id;
	}
}

/* Returns how many of `out` were filled; an instance of another size has no links. */
u32 nd_topology_neighbours(struct neuron_device *nd, u32 out[8])
{
	u16 product = nd->pdev->device;
	u32 devices = nd_device_count();
	u32 count = 0;
	u32 i;

	if (product == NEURON_PCI_DEVICE_INF2) {
		/* 12 devices form a ring, 6 a chain. */
		if ((devices != 12 && devices != 6) || nd->index >= devices)
			return 0;
		if (devices == 12 || nd->index > 0)
			out[count++] = (nd->index + devices - 1) % devices;
		if (devices == 12 || nd->index + 1 < devices)
			out[count++] = (nd->index + 1) % devices;
		return count;
	}
	if (!devices || devices % 16 || nd->chip->is_switched)
		return 0;
	for (i = 0; i < 4; i++) {
		const u8 *row = product == NEURON_PCI_DEVICE_TRN1 ? trn1_torus[nd->index & 15]
								  : trn2_torus[nd->index & 15];

		out[count++] = (nd->index & ~15u) + row[i];
	}
	return count;
}
