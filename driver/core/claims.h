/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which process works with which NeuronCore of the host: marks that processes respect and nothing
 * enforces.
 *
 * Callers: the mark and unmark calls, holding the host-wide claim lock. One entry per core of the
 * host (64 devices of 8 cores at most). Core numbers and bitmaps are relative to `base`, the first
 * core of the device that was opened.
 */
#ifndef DRIVER_CORE_CLAIMS_H
#define DRIVER_CORE_CLAIMS_H

#include "driver/core/holder.h"

ND_BEGIN

#define ND_CLAIM_CORES 512u
#define ND_CLAIM_WORDS (ND_CLAIM_CORES / 64)

struct nd_claim {
	int32_t owner;	 /* process id, 0: free */
	uint64_t holder; /* descriptor that marked it */
	struct nd_holder who;
};

struct nd_claims {
	struct nd_claim core[ND_CLAIM_CORES];
};

struct nd_claim_request {
	uint32_t base;
	uint32_t count;
	uint32_t start; /* first core looked at */
	uint32_t end;	/* last core looked at */
	int32_t owner;
	uint64_t holder;
	struct nd_holder who; /* of the owner; copied into each mark */
};

/*
 * Marks the first `count` consecutive free cores in [start, end] and sets their bits. -EBUSY with
 * the longest run seen in *available; -EINVAL for a range that makes no sense. After a run that was
 * too short the search goes on one core later than it need (as the public driver does), so a run
 * right behind a busy core can be missed.
 */
int nd_claims_mark(struct nd_claims *claims, const struct nd_claim_request *request,
		   uint64_t bitmap[ND_CLAIM_WORDS], uint32_t *available);
/* Frees those cores of the bitmap that `owner` holds. */
void nd_claims_unmark(struct nd_claims *claims, uint32_t base,
		      const uint64_t bitmap[ND_CLAIM_WORDS], int32_t owner);
/* Frees all cores of a process, or those that one of its descriptors marked (holder != 0). */
void nd_claims_release(struct nd_claims *claims, int32_t owner, uint64_t holder);
/* The mark of a core of the host; NULL if it is free or does not exist. */
const struct nd_claim *nd_claims_at(const struct nd_claims *claims, uint32_t core);
/* Owner of a core of the host, 0 if free. */
int32_t nd_claims_owner(const struct nd_claims *claims, uint32_t core);

ND_END

#endif
