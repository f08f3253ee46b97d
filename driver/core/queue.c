/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/queue.h"

#include "hw/address_map.h"
#include "hw/udma.h"

#define ENGINES_PER_CORE ND_DMA_ENGINES_PER_CORE

int nd_queue_check_id(const struct nd_chip *chip, uint32_t engine, uint32_t queue)
{
	if (engine >= chip->dma_engines || queue >= NEURON_DMA_QUEUES)
		return -ND_EINVAL;
	return 0;
}

int nd_queue_check_length(uint32_t descriptors)
{
	if (descriptors < NEURON_UDMA_RING_MIN || descriptors > NEURON_UDMA_RING_MAX ||
	    descriptors % NEURON_UDMA_RING_MULTIPLE)
		return -ND_EINVAL;
	return 0;
}

int nd_queue_check_ring(const struct nd_queue_ring *ring, uint64_t memory_size)
{
	int error = nd_queue_check_length(ring->count);

	if (error)
		return error;
	if (ring->address % NEURON_UDMA_RING_ALIGN)
		return -ND_EINVAL;
	if ((uint64_t)ring->count * NEURON_DESC_BYTES > memory_size)
		return -ND_EINVAL;
	return 0;
}

bool nd_queue_is_instruction_fetch(const struct nd_chip *chip, uint32_t engine, uint32_t queue)
{
	if (engine >= chip->cores * ENGINES_PER_CORE || queue != 14)
		return false;
	return chip->fetch_engines >> (engine % ENGINES_PER_CORE) & 1;
}

void nd_queue_host_copy(const struct nd_chip *chip, uint32_t core, uint32_t *engine,
			uint32_t *queue)
{
	*engine = chip->cores * ENGINES_PER_CORE + core / chip->copy_cores;
	*queue = core % chip->copy_cores;
}

uint64_t nd_queue_register(const struct nd_chip *chip, uint32_t engine, uint32_t queue, bool tx,
			   uint32_t reg)
{
	uint64_t half = tx ? NEURON_UDMA_M2S : NEURON_UDMA_S2M;

	return nd_chip_udma(chip, engine) + NEURON_UDMA_QUEUE(half, queue) + reg;
}

struct writer {
	const struct nd_chip *chip;
	struct nd_register_write *out;
	size_t count;
};

static void put(struct writer *writer, uint64_t offset, uint32_t value)
{
	writer->out[writer->count].offset = offset;
	writer->out[writer->count].value = value;
	writer->count++;
}

static void put_ring(struct writer *writer, uint32_t engine, uint32_t queue, bool tx,
		     const struct nd_queue_ring *ring)
{
	uint64_t base = nd_queue_register(writer->chip, engine, queue, tx, 0);

	put(writer, base + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
	put(writer, base + (tx ? NEURON_UDMAQ_M2S_SW_CONTROL : NEURON_UDMAQ_S2M_SW_CONTROL),
	    NEURON_UDMAQ_SW_RESET);
	put(writer, base + NEURON_UDMAQ_BASE_LO, (uint32_t)ring->address);
	put(writer, base + NEURON_UDMAQ_BASE_HI, (uint32_t)(ring->address >> 32));
	put(writer, base + NEURON_UDMAQ_LENGTH, ring->count);
	put(writer, base + (tx ? NEURON_UDMAQ_M2S_CMPL_CFG : NEURON_UDMAQ_S2M_CMPL_CFG), 0);
	put(writer, base + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
}

size_t nd_queue_init_sequence(const struct nd_chip *chip, uint32_t engine, uint32_t queue,
			      const struct nd_queue_ring *tx, const struct nd_queue_ring *rx,
			      struct nd_register_write *out)
{
	struct writer writer = {chip, out, 0};

	if (tx->count) {
		/* Bit 2 clear: the rate limiter honours the pause of a memory barrier. */
		put(&writer,
		    nd_queue_register(chip, engine, queue, true, NEURON_UDMAQ_M2S_RATE_LIMIT), 3);
		put_ring(&writer, engine, queue, true, tx);
	}
	if (rx->count)
		put_ring(&writer, engine, queue, false, rx);
	return writer.count;
}

size_t nd_engine_init_sequence(const struct nd_chip *chip, uint32_t engine,
			       struct nd_register_write *out)
{
	/* Offsets in the engine block and values: burst sizes, outstanding limits, packet limits,
	 * prefetch, no acknowledge timeout. Bit 24 of 0x254 makes length 0 mean 64 KiB. */
	static const struct {
		uint32_t offset;
		uint32_t value[2]; /* column nd_chip.engine_defaults */
	} defaults[] = {
	    {0x00310, {0x01000400, 0x010008F8}}, {0x00124, {0x0000086F, 0x20808080}},
	    {0x3A300, {0x05F5E100, 0x05F5E100}}, {0x00408, {0x00000000, 0x00000000}},
	    {0x00254, {0x010FFFFF, 0x010FFFFF}}, {0x00258, {0x00000102, 0x00000102}},
	    {0x00118, {0x00010008, 0x00010008}}, {0x2038C, {0x00000000, 0x00000000}},
	    {0x20124, {0x00400008, 0x00400080}}, {0x20128, {0x40804080, 0x40804080}},
	    {0x3B460, {0x00000000, 0x00000000}}, {0x20380, {0x00001004, 0x00001004}},
	    {0x00304, {0x00010041, 0x00010041}}, {0x00308, {0x00004181, 0x00004181}},
	    {0x20308, {0x00004181, 0x00004181}}, {0x0011C, {0x00010008, 0x00010008}},
	    {0x2011C, {0x00010008, 0x00010008}}, {0x3A300, {0xFFFFFFFF, 0x05F5E100}},
	};
	/* Read reorder, write reorder, event acceleration of the SDMA wrapper. */
	static const uint32_t wrapper[] = {0x1C, 0x20, 0x00};
	uint64_t base = nd_chip_udma(chip, engine);
	struct writer writer = {chip, out, 0};
	uint32_t i;

	for (i = 0; i < NEURON_DMA_QUEUES; i++) {
		put(&writer, nd_queue_register(chip, engine, i, true, NEURON_UDMAQ_CFG),
		    NEURON_UDMAQ_CFG_RUNNING);
		put(&writer, nd_queue_register(chip, engine, i, false, NEURON_UDMAQ_CFG),
		    NEURON_UDMAQ_CFG_RUNNING);
	}
	for (i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		put(&writer, base + defaults[i].offset, defaults[i].value[chip->engine_defaults]);
	for (i = 0; i < sizeof(wrapper) / sizeof(wrapper[0]); i++)
		put(&writer, nd_chip_sdma(chip, engine) + wrapper[i], 1);
	if (chip->back_pressure)
		put(&writer, nd_chip_sdma(chip, engine) + 0x800, chip->back_pressure);
	return writer.count;
}

static bool is_protected_queue_register(uint32_t offset)
{
	uint32_t half = offset & ~(NEURON_UDMA_S2M - 1);
	uint32_t inside = offset & (NEURON_UDMA_S2M - 1);

	if (half != NEURON_UDMA_M2S && half != NEURON_UDMA_S2M)
		return false;
	if (inside < 0x1000 || inside >= 0x1000 + NEURON_DMA_QUEUES * 0x1000)
		return false;
	switch (inside & 0xFFF) {
	case NEURON_UDMAQ_BASE_LO:
	case NEURON_UDMAQ_BASE_HI:
	case NEURON_UDMAQ_CMPL_BASE_LO:
	case NEURON_UDMAQ_CMPL_BASE_HI:
	case NEURON_UDMAQ_TAIL_INC:
		return true;
	default:
		return false;
	}
}

/* What the firmware tells of the device, and where it is asked: who writes there asks or answers
 * for the driver, and resets the device with its next request. */
static bool is_firmware_register(uint64_t inside)
{
	return inside < NEURON_FW_HBM_REPAIR + 4 ||
	       (inside >= NEURON_FW_ACKNOWLEDGE && inside < NEURON_FW_DATA + NEURON_FW_DATA_SIZE) ||
	       (inside >= NEURON_FW_RESET_MAP && inside < NEURON_FW_RESPONSE_LO + 4) ||
	       (inside >= NEURON_FW_TRIGGER && inside < NEURON_FW_STATUS + 4);
}

int nd_register_check_user_write(const struct nd_chip *chip, uint64_t offset)
{
	uint32_t engine;

	if (offset % 4 || offset >= chip->bar0_bytes)
		return -ND_EINVAL;
	for (engine = 0; engine < chip->dma_engines; engine++) {
		uint64_t base = nd_chip_udma(chip, engine);

		if (offset < base || offset >= base + NEURON_UDMA_SIZE)
			continue;
		/* The last ones carry the host's copies, of all processes: nothing of them is a
		 * process's. */
		if (engine >= chip->cores * ENGINES_PER_CORE ||
		    is_protected_queue_register((uint32_t)(offset - base)))
			return -ND_EINVAL;
		return 0;
	}
	if (offset >= chip->misc_ram && is_firmware_register(offset - chip->misc_ram))
		return -ND_EINVAL;
	return 0;
}

uint32_t nd_engine_state(uint32_t state_register)
{
	uint32_t state = 0;
	unsigned shift;

	for (shift = 0; shift < 16; shift += 4) {
		uint32_t field = (state_register >> shift) & 3u;

		if (field == 2)
			return 3;
		if (field == 1)
			state = 2;
	}
	return state;
}
