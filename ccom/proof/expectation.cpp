// SPDX-License-Identifier: Apache-2.0
#include "ccom/proof/expectation.h"

#include <algorithm>

#include "ccom/request/layout.h"

namespace neuron::ccom {

Extents extents(const Request& request, uint32_t ranks, Rank rank) {
  const Layout layout(request, ranks);
  Extents result{layout.input_bytes(rank), layout.output_bytes(rank)};
  if (!request.in_place) return result;
  // The smaller of the two lies in the larger and has its name.
  if (layout.input(rank, 0).buffer == Buffer::kOutput) {
    if (request.operation == CCOM_ALL_TO_ALL_V) {
      result.output = std::max(result.output, result.input);
    } else if (request.operation == CCOM_SEND_RECEIVE || request.operation == CCOM_PERMUTE ||
               request.operation == CCOM_BROADCAST) {
      result.output = std::max(result.output, result.input);
    }
    result.input = 0;
  } else if (layout.output(rank, 0).buffer == Buffer::kInput) {
    result.output = 0;
  }
  return result;
}

Expected initial(const Request& request, uint32_t ranks, Rank rank) {
  const Layout layout(request, ranks);
  Expected result;
  result.place = layout.input(rank, 0);
  result.bytes = layout.input_bytes(rank);
  result.rank = rank;
  return result;
}

std::vector<Expected> expected(const Request& request, uint32_t ranks, Rank rank) {
  const Layout layout(request, ranks);
  const uint64_t bytes = request.count * layout.width();
  std::vector<Expected> result;
  const auto add = [&](uint64_t offset, uint64_t size, bool all, Rank from, uint64_t origin) {
    if (size != 0) result.push_back({layout.output(rank, offset), size, all, from, origin});
  };
  switch (request.operation) {
    case CCOM_ALL_REDUCE:
      add(0, bytes, true, 0, 0);
      break;
    case CCOM_REDUCE:
      if (rank == request.root) add(0, bytes, true, 0, 0);
      break;
    case CCOM_REDUCE_SCATTER:
    case CCOM_REDUCE_SCATTER_V:
      add(0, layout.bytes(rank), true, 0, layout.offset(rank));
      break;
    case CCOM_ALL_GATHER:
    case CCOM_ALL_GATHER_V:
    case CCOM_GATHER:
      if (request.operation == CCOM_GATHER && rank != request.root) break;
      for (Rank i = 0; i < ranks; ++i) add(layout.offset(i), layout.bytes(i), false, i, 0);
      break;
    case CCOM_ALL_TO_ALL:
    case CCOM_ALL_TO_ALL_V:
      for (Rank i = 0; i < ranks; ++i) {
        add(layout.receive_offset(rank, i), layout.pair_bytes(i, rank), false, i,
            layout.send_offset(i, rank));
      }
      break;
    case CCOM_BROADCAST:
      add(0, bytes, false, request.root, 0);
      break;
    case CCOM_SCATTER:
      add(0, layout.bytes(rank), false, request.root, layout.offset(rank));
      break;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      for (const ccom_pair_t& pair : request.pairs) {
        if (pair.target == rank) add(0, bytes, false, pair.source, 0);
      }
      break;
    default:
      break;
  }
  return result;
}

}  // namespace neuron::ccom
