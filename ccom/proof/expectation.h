// SPDX-License-Identifier: Apache-2.0
// What buffers hold before a collective, and what they must hold after it.
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
  uint64_t origin = 0;  // offset of the first byte in what is contributed
};

// Bytes of the buffers by the names that the schedule may use: in place, one of them is empty or
// holds the other.
Extents extents(const Request& request, uint32_t ranks, Rank rank);
// Where the input of a rank lies.
Expected initial(const Request& request, uint32_t ranks, Rank rank);
std::vector<Expected> expected(const Request& request, uint32_t ranks, Rank rank);

}  // namespace neuron::ccom

#endif
