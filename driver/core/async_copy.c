/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/async_copy.h"

#include "uapi/neuron_ioctl.h"

int nd_async_next(int32_t previous, uint32_t *name)
{
	switch (previous) {
	case NEURON_DMA_H2T_CTX_HANDLE_NONE:
	case NEURON_DMA_H2T_CTX_HANDLE_ASYNC2:
		*name = NEURON_DMA_H2T_CTX_HANDLE_ASYNC1;
		return 0;
	case NEURON_DMA_H2T_CTX_HANDLE_ASYNC1:
		*name = NEURON_DMA_H2T_CTX_HANDLE_ASYNC2;
		return 0;
	case NEURON_DMA_H2T_CTX_HANDLE_SYNC:
		*name = NEURON_DMA_H2T_CTX_HANDLE_SYNC;
		return 0;
	default:
		return -ND_EINVAL;
	}
}

int nd_async_check_size(uint64_t size)
{
	return size > ND_ASYNC_BYTES ? -ND_EINVAL : 0;
}

int nd_async_check_started(const struct nd_async_copies *copies, int32_t name)
{
	/* Read once: without the lock, another thread may change it. */
	if (name <= 0)
		return 0;
	if ((uint32_t)name >= ND_ASYNC_NAMES ||
	    !*(const volatile bool *)&copies->copy[name].in_flight)
		return -ND_EINVAL;
	return 0;
}

void nd_async_start(struct nd_async_copies *copies, uint32_t name, uint32_t descriptors)
{
	struct nd_async_copy *copy = &copies->copy[name];

	copies->pushed += descriptors;
	copy->end = copies->pushed;
	copy->generation = copies->generation;
	copy->in_flight = true;
}

bool nd_async_is_running(const struct nd_async_copies *copies, uint32_t name)
{
	const struct nd_async_copy *copy = &copies->copy[name];

	return copy->in_flight && copy->generation == copies->generation;
}

int nd_async_wait(struct nd_async_copies *copies, uint32_t name)
{
	if (name == 0 || name >= ND_ASYNC_NAMES || !copies->copy[name].in_flight)
		return -ND_EINVAL;
	if (nd_async_is_running(copies, name))
		return 0;
	nd_async_give_up(copies, name);
	return -ND_EIO;
}

uint32_t nd_async_finish(struct nd_async_copies *copies, uint32_t name)
{
	struct nd_async_copy *copy = &copies->copy[name];
	uint32_t done;

	copy->in_flight = false;
	/* The ring works in order: a copy that ends later has given these back already. */
	if (copy->end <= copies->released)
		return 0;
	done = (uint32_t)(copy->end - copies->released);
	copies->released = copy->end;
	return done;
}

void nd_async_give_up(struct nd_async_copies *copies, uint32_t name)
{
	copies->copy[name].in_flight = false;
}

void nd_async_restart(struct nd_async_copies *copies)
{
	copies->pushed = 0;
	copies->released = 0;
	copies->generation++;
}
