/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which calls of /dev/neuronN exist, what size their argument has and who may make them.
 *
 * Callers: the ioctl entry of a driver, before it touches the argument. Stateless. Numbers that
 * grew over the years are told apart by nr and size; all others must match in full.
 */
#ifndef DRIVER_CORE_IOCTL_TABLE_H
#define DRIVER_CORE_IOCTL_TABLE_H

#include "driver/core/os.h"

ND_BEGIN

enum nd_ioctl_access {
	ND_ACCESS_ANY,	/* also on a descriptor opened O_WRONLY */
	ND_ACCESS_FULL, /* O_RDWR or O_RDONLY */
	/*
	 * And the calling process opened the device itself, so that what the call leaves is given
	 * back when it goes: all that reaches memory, changes the chip, or takes something.
	 */
	ND_ACCESS_ATTACHED,
};

struct nd_ioctl {
	uint32_t request; /* number as include/uapi has it */
	uint32_t argument_size;
	enum nd_ioctl_access access;
	const char *name;
};

/*
 * Row of a call; -EINVAL for a number that does not exist (*row is NULL) or has the wrong size
 * (*row is a form of the same nr).
 */
int nd_ioctl_find(unsigned long request, const struct nd_ioctl **row);

ND_END

#endif
