/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/claims.h"

static bool is_free(const struct nd_claims *claims, uint64_t core)
{
	return core < ND_CLAIM_CORES && claims->core[core].owner == 0;
}

int nd_claims_mark(struct nd_claims *claims, const struct nd_claim_request *request,
		   uint64_t bitmap[ND_CLAIM_WORDS], uint32_t *available)
{
	uint32_t first = request->start;

	*available = 0;
	memset(bitmap, 0, ND_CLAIM_WORDS * sizeof(bitmap[0]));
	if (request->count == 0 || request->count > ND_CLAIM_CORES || request->owner == 0 ||
	    request->start > request->end || request->end >= ND_CLAIM_CORES ||
	    request->base >= ND_CLAIM_CORES)
		return -ND_EINVAL;
	while (first <= request->end) {
		uint32_t run = 0;
		uint32_t i;

		while (run < request->count && first + run <= request->end &&
		       is_free(claims, (uint64_t)request->base + first + run))
			run++;
		if (run == request->count) {
			for (i = first; i < first + run; i++) {
				claims->core[request->base + i].owner = request->owner;
				claims->core[request->base + i].holder = request->holder;
				claims->core[request->base + i].who = request->who;
				bitmap[i / 64] |= 1ull << (i % 64);
			}
			return 0;
		}
		if (run > *available)
			*available = run;
		first += run ? run + 2 : 1;
	}
	return -ND_EBUSY;
}

void nd_claims_unmark(struct nd_claims *claims, uint32_t base,
		      const uint64_t bitmap[ND_CLAIM_WORDS], int32_t owner)
{
	uint32_t i;

	for (i = 0; i < ND_CLAIM_CORES && (uint64_t)base + i < ND_CLAIM_CORES; i++) {
		struct nd_claim *claim = &claims->core[base + i];

		if ((bitmap[i / 64] >> (i % 64) & 1) && claim->owner == owner)
			memset(claim, 0, sizeof(*claim));
	}
}

void nd_claims_release(struct nd_claims *claims, int32_t owner, uint64_t holder)
{
	uint32_t i;

	for (i = 0; i < ND_CLAIM_CORES; i++) {
		struct nd_claim *claim = &claims->core[i];

		if (claim->owner == owner && owner && (!holder || claim->holder == holder))
			memset(claim, 0, sizeof(*claim));
	}
}

const struct nd_claim *nd_claims_at(const struct nd_claims *claims, uint32_t core)
{
	return core < ND_CLAIM_CORES && claims->core[core].owner ? &claims->core[core] : NULL;
}

int32_t nd_claims_owner(const struct nd_claims *claims, uint32_t core)
{
	return core < ND_CLAIM_CORES ? claims->core[core].owner : 0;
}
