/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/accounting.h"

#include "uapi/neuron_shared.h"

uint32_t nd_category(uint32_t category, bool host)
{
	if (category < ND_CATEGORIES)
		return category;
	return host ? NEURON_MEMALLOC_TYPE_UNKNOWN_HOST : NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE;
}

static void add(struct nd_counter *counter, uint64_t size)
{
	counter->total += size;
	counter->present = size;
	if (counter->total > counter->peak)
		counter->peak = counter->total;
}

static void subtract(struct nd_counter *counter, uint64_t size)
{
	counter->total -= size;
	counter->present = size;
}

void nd_account_allocate(struct nd_accounting *accounting, uint32_t category, bool host,
			 uint64_t size)
{
	add(&accounting->category[nd_category(category, host)], size);
	add(host ? &accounting->host : &accounting->device, size);
}

void nd_account_free(struct nd_accounting *accounting, uint32_t category, bool host, uint64_t size)
{
	subtract(&accounting->category[nd_category(category, host)], size);
	subtract(host ? &accounting->host : &accounting->device, size);
}
