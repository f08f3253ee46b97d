// SPDX-License-Identifier: Apache-2.0
// The contents of buffers before a collective, and the required contents after it.
//
// Callers: the checker. Threads: one. Cannot fail: the request is valid.
#ifndef CCOM_PROOF_EXPECTATION_H
#define CCOM_PROOF_EXPECTATION_H

#include <vector>

#include "ccom/request/request.h"
#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

struct Extents {
  uint64_t input = 0;
  uint64_t output = 0;
};

struct Expected {
  Slice place;
  uint64_t bytes = 0;
  bool all = false;  // the contribution of every rank, else of `rank`
  Rank rank = 0;
  uint64_t origin = 0;  // offset of the first byte in the contribution
};

// The sizes of the buffers that the schedule may name: in place, one of them is empty or contains
// the other.
Extents extents(const Request& request, uint32_t ranks, Rank rank);
// The place and contents of a rank's input.
Expected initial(const Request& request, uint32_t ranks, Rank rank);
std::vector<Expected> expected(const Request& request, uint32_t ranks, Rank rank);

}  // namespace neuron::ccom

#endif
