/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DMA engines and queues as the driver programs them: checks of what user space asks for, and the
 * register writes, in order, that set an engine or a queue up.
 *
 * Callers: queue and reset calls, holding the engine's lock. Sequences are written into the
 * caller's array as (BAR0 offset, value) pairs, so that a kernel and an emulated device play the
 * same ones. Stateless.
 */
#ifndef DRIVER_CORE_QUEUE_H
#define DRIVER_CORE_QUEUE_H

#include "driver/core/chip.h"

ND_BEGIN

struct nd_register_write {
	uint64_t offset;
	uint32_t value;
};

/* A ring of a queue; count 0 means none. */
struct nd_queue_ring {
	uint64_t address;
	uint32_t count;
};

#define ND_QUEUE_INIT_WRITES 15
#define ND_ENGINE_INIT_WRITES 128
#define ND_QUEUE_DUMMY_DESCRIPTORS 64u

int nd_queue_check_id(const struct nd_chip *chip, uint32_t engine, uint32_t queue);
/* A multiple of 16, at least 32, at most 2^24 - 16. */
int nd_queue_check_length(uint32_t descriptors);
/* Length as above, base aligned to 256 bytes, and the whole ring inside memory_size bytes. */
int nd_queue_check_ring(const struct nd_queue_ring *ring, uint64_t memory_size);
/* Queue 14 of some engines of each core (nd_chip.fetch_engines) feeds instructions: it is left
 * alone when its process exits. */
bool nd_queue_is_instruction_fetch(const struct nd_chip *chip, uint32_t engine, uint32_t queue);
/* Engine and queue that carry the host's copies of a core. */
void nd_queue_host_copy(const struct nd_chip *chip, uint32_t core, uint32_t *engine,
			uint32_t *queue);
/* Number of writes put into `out`, which has room for ND_QUEUE_INIT_WRITES. */
size_t nd_queue_init_sequence(const struct nd_chip *chip, uint32_t engine, uint32_t queue,
			      const struct nd_queue_ring *tx, const struct nd_queue_ring *rx,
			      struct nd_register_write *out);
/* Likewise for a whole engine; out has room for ND_ENGINE_INIT_WRITES. */
size_t nd_engine_init_sequence(const struct nd_chip *chip, uint32_t engine,
			       struct nd_register_write *out);
uint64_t nd_queue_register(const struct nd_chip *chip, uint32_t engine, uint32_t queue, bool tx,
			   uint32_t reg);
/* 0 for a BAR0 offset that user space may write; -EINVAL for ring bases, completion bases and
 * doorbells, all of the engines that carry the host's copies, the firmware's registers, and what is
 * beyond the BAR or unaligned. */
int nd_register_check_user_write(const struct nd_chip *chip, uint64_t offset);
/* Decodes the state register of a half: 0 idle, 2 normal, 3 abort. */
uint32_t nd_engine_state(uint32_t state_register);

ND_END

#endif
