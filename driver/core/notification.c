/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/notification.h"

#include "hw/address_map.h"
#include "hw/notification.h"
#include "uapi/neuron_shared.h"

int nd_nq_check(const struct nd_chip *chip, const struct nd_nq_key *key, uint32_t size)
{
	uint32_t devices = key->topsp ? chip->topsps : chip->cores;

	if (key->device >= devices || key->type >= ND_NQ_TYPES || key->index >= ND_NQ_INDEXES)
		return -ND_EINVAL;
	if (!nd_is_power_of_two(size))
		return -ND_EINVAL;
	return 0;
}

uint32_t nd_nq_slot(const struct nd_nq_key *key)
{
	return key->type * ND_NQ_INDEXES + key->index;
}

uint64_t nd_nq_register_base(const struct nd_chip *chip, const struct nd_nq_key *key)
{
	if (key->topsp)
		return nd_chip_topsp_notification(chip, key->device) + NEURON_NQ_BASE(key->index);
	if (key->type == NQ_TYPE_TRACE_DMA) {
		uint32_t engine = key->device * NEURON_V2_DMA_ENGINES_PER_CORE + key->index;

		return nd_chip_sdma(chip, engine) + NEURON_V2_SDMA_NOTIFICATION + NEURON_NQ_BASE(0);
	}
	return nd_chip_core_notification(chip, key->device) + NEURON_NQ_BASE(key->index);
}

size_t nd_nq_sequence(const struct nd_chip *chip, const struct nd_nq_key *key, uint64_t address,
		      uint32_t size, struct nd_register_write out[ND_NQ_WRITES])
{
	uint64_t base = nd_nq_register_base(chip, key);

	out[0].offset = base + NEURON_NQ_ADDRESS_HI;
	out[0].value = (uint32_t)(address >> 32);
	out[1].offset = base + NEURON_NQ_ADDRESS_LO;
	out[1].value = (uint32_t)address;
	out[2].offset = base + NEURON_NQ_SIZE;
	out[2].value = size;
	return ND_NQ_WRITES;
}
