/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * All that the driver core asks of its host: fixed-width types, string functions, error numbers
 * and a C linkage guard. A kernel build replaces this file's includes and nothing else.
 *
 * The core allocates nothing, locks nothing, waits for nothing and reads no clock: callers pass
 * storage, hold the lock that the header of each part names, and own every loop that waits.
 * Functions return 0 or a negative error number.
 */
#ifndef DRIVER_CORE_OS_H
#define DRIVER_CORE_OS_H

#ifdef __KERNEL__
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#endif

#ifdef __cplusplus
#define ND_BEGIN extern "C" {
#define ND_END }
#else
#define ND_BEGIN
#define ND_END
#endif

/* Linux error numbers; the core does not include errno.h. */
#define ND_EPERM 1
#define ND_ENOENT 2
#define ND_EIO 5
#define ND_EAGAIN 11
#define ND_ENOMEM 12
#define ND_EACCES 13
#define ND_EBUSY 16
#define ND_EINVAL 22
#define ND_EFBIG 27
#define ND_E2BIG 7
#define ND_ENXIO 6
#define ND_ENOTTY 25
#define ND_EALREADY 114

#define ND_PAGE_SIZE 4096ull

static inline uint64_t nd_align_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

static inline bool nd_is_power_of_two(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

#endif
