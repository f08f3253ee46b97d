/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Bytes in use by allocation category (mem_alloc_category_t): total now, size of the last change,
 * highest total.
 *
 * Callers: allocation and free, holding the device's memory lock. A category out of range counts as
 * unknown host or unknown device memory.
 */
#ifndef DRIVER_CORE_ACCOUNTING_H
#define DRIVER_CORE_ACCOUNTING_H

#include "driver/core/os.h"

ND_BEGIN

#define ND_CATEGORIES 20u

struct nd_counter {
	uint64_t total;
	uint64_t present;
	uint64_t peak;
};

struct nd_accounting {
	struct nd_counter category[ND_CATEGORIES];
	struct nd_counter host;
	struct nd_counter device;
};

uint32_t nd_category(uint32_t category, bool host);
void nd_account_allocate(struct nd_accounting *accounting, uint32_t category, bool host,
			 uint64_t size);
void nd_account_free(struct nd_accounting *accounting, uint32_t category, bool host, uint64_t size);

ND_END

#endif
