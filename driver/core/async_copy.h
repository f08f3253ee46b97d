/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Asynchronous copies of one ring: which name a copy gets, which copies are in flight, which of
 * them a restart of the ring has lost.
 *
 * Concepts: user space starts a copy, gets a name (1 or 2) and waits for that name later; name 0
 * belongs to the copies that their caller waits for at once. A ring is restarted after an error and
 * at a reset; copies that were started before are lost, which the generation tells. Callers: the
 * copy path, holding the ring's lock. Owns nothing.
 */
#ifndef DRIVER_CORE_ASYNC_COPY_H
#define DRIVER_CORE_ASYNC_COPY_H

#include "driver/core/os.h"
#include "hw/udma.h"

ND_BEGIN

#define ND_ASYNC_NAMES 3u
/* Descriptors of one copy: two asynchronous ones leave room in a ring for a synchronous one. */
#define ND_ASYNC_PIECES 2032u
#define ND_ASYNC_BYTES ((uint64_t)ND_ASYNC_PIECES * NEURON_UDMA_MAX_DESC_BYTES)

struct nd_async_copy {
	bool in_flight; /* started, and nobody has waited for it yet */
	uint32_t generation;
	uint64_t end; /* nd_async_copies.pushed after its last descriptor */
};

/* All zero is a ring without copies. */
struct nd_async_copies {
	struct nd_async_copy copy[ND_ASYNC_NAMES];
	uint64_t pushed;     /* descriptors given to the engine since the last restart */
	uint64_t released;   /* those of them that the ring has got back */
	uint32_t generation; /* number of restarts */
};

/*
 * Name of a copy by the name of the one before it (NEURON_DMA_H2T_CTX_HANDLE_*); 0: the caller
 * waits for this copy at once. -EINVAL if no copy has the name `previous`.
 */
int nd_async_next(int32_t previous, uint32_t *name);
/* -EINVAL for a copy of more than ND_ASYNC_BYTES. */
int nd_async_check_size(uint64_t size);
/* -EINVAL if the copy that is to be waited for was not started. Needs no lock. */
int nd_async_check_started(const struct nd_async_copies *copies, int32_t name);

/* The copy's descriptors, its marker included, are in the ring. */
void nd_async_start(struct nd_async_copies *copies, uint32_t name, uint32_t descriptors);
/* True if the engine still works on the copy of that name: it has to end before the next starts. */
bool nd_async_is_running(const struct nd_async_copies *copies, uint32_t name);
/*
 * 0: wait for the marker. -EINVAL: there is no such copy. -EIO: the copy was lost, and its name is
 * free again.
 */
int nd_async_wait(struct nd_async_copies *copies, uint32_t name);
/* The marker has arrived. Returns how many descriptors go back to the ring. */
uint32_t nd_async_finish(struct nd_async_copies *copies, uint32_t name);
/* The copy ended without its marker. */
void nd_async_give_up(struct nd_async_copies *copies, uint32_t name);
/* The ring was set up anew: every copy in flight is lost. */
void nd_async_restart(struct nd_async_copies *copies);

ND_END

#endif
