/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The holder of something, as an operator wants to be told: which command, and since when.
 *
 * Callers: the functions that fill in a claim or attach a process. Values only. The command is the
 * one of that moment; later the process may have another name, or be gone.
 */
#ifndef DRIVER_CORE_HOLDER_H
#define DRIVER_CORE_HOLDER_H

#include "driver/core/os.h"

ND_BEGIN

#define ND_COMMAND_BYTES 16u

struct nd_holder {
	char command[ND_COMMAND_BYTES]; /* ends with 0; empty: unknown */
	uint64_t since;			/* seconds since 1970 */
};

/* Control characters become '?': the name goes into logs and onto terminals. */
static inline void nd_holder_set(struct nd_holder *holder, const char *command, uint64_t since)
{
	uint32_t i;

	memset(holder, 0, sizeof(*holder));
	for (i = 0; command && i + 1 < ND_COMMAND_BYTES && command[i]; i++)
		holder->command[i] = command[i] < 32 || command[i] == 127 ? '?' : command[i];
	holder->since = since;
}

ND_END

#endif
