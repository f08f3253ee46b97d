// SPDX-License-Identifier: Apache-2.0
// The arguments of a collective without its buffers: the key of a plan.
//
// `count` and the arrays have the meaning of ccom_collective_t. All ranks make the same request.
// For all_to_all_v they exchange first what each rank sends; the three arrays of ranks * ranks hold
// it. Thread-safe: values.
#ifndef CCOM_REQUEST_REQUEST_H
#define CCOM_REQUEST_REQUEST_H

#include <ccom/ccom.h>

#include <cstdint>
#include <vector>

// In the namespace of its type, where comparisons of vectors look for it.
inline bool operator==(const ccom_pair_t& a, const ccom_pair_t& b) {
  return a.source == b.source && a.target == b.target;
}

namespace neuron::ccom {

struct Request {
  ccom_operation_t operation = CCOM_BARRIER;
  ccom_type_t type = CCOM_UINT8;
  ccom_reduction_t reduction = CCOM_ADD;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  uint32_t root = 0;
  bool in_place = false;
  uint64_t count = 0;
  std::vector<uint64_t> counts;         // all_gather_v, reduce_scatter_v
  std::vector<uint64_t> displacements;  // of the same
  std::vector<ccom_pair_t> pairs;       // send_receive, permute
  // all_to_all_v, ranks * ranks each, row = sender (send) or receiver (receive), in elements.
  std::vector<uint64_t> send_counts, send_displacements, receive_displacements;

  bool operator==(const Request&) const = default;
};

}  // namespace neuron::ccom

#endif
