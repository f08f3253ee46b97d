/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Bookkeeping of notification queues: which queues of a core or CC core exist, and the register
 * writes that set one up or take it down.
 *
 * Callers: the notification calls and core reset, holding the device's table lock. Hardware knows a
 * queue by engine index alone; the table knows it by type and index, as the interface does. DMA
 * traces go to the notifier of the DMA engine's wrapper.
 */
#ifndef DRIVER_CORE_NOTIFICATION_H
#define DRIVER_CORE_NOTIFICATION_H

#include "driver/core/queue.h"

ND_BEGIN

#define ND_NQ_TYPES 6u
#define ND_NQ_INDEXES 16u
#define ND_NQ_PER_DEVICE (ND_NQ_TYPES * ND_NQ_INDEXES)
#define ND_NQ_WRITES 3

struct nd_nq_key {
	uint32_t device; /* core or CC core */
	bool topsp;
	uint32_t type;	/* enum NQ_TYPE */
	uint32_t index; /* 0 to 15 */
};

/* -EINVAL for a core, type or index that does not exist or a size that is no power of two. */
int nd_nq_check(const struct nd_chip *chip, const struct nd_nq_key *key, uint32_t size);
/* Place of the queue in the table of its core. */
uint32_t nd_nq_slot(const struct nd_nq_key *key);
/* BAR0 offset of its registers. */
uint64_t nd_nq_register_base(const struct nd_chip *chip, const struct nd_nq_key *key);
/* Address and size 0 take the queue down. Returns ND_NQ_WRITES. */
size_t nd_nq_sequence(const struct nd_chip *chip, const struct nd_nq_key *key, uint64_t address,
		      uint32_t size, struct nd_register_write out[ND_NQ_WRITES]);

ND_END

#endif
