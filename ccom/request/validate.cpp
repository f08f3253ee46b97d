// SPDX-License-Identifier: Apache-2.0
#include "ccom/request/validate.h"

#include <algorithm>

#include "ccom/request/layout.h"
#include "ccom/request/names.h"

namespace neuron::ccom {
namespace {

// The most elements of a whole buffer; far below an overflow of products with ranks and widths.
constexpr uint64_t kMostElements = uint64_t{1} << 48;

bool rooted(ccom_operation_t operation) {
  return operation == CCOM_BROADCAST || operation == CCOM_REDUCE || operation == CCOM_GATHER ||
         operation == CCOM_SCATTER;
}

// Refuses blocks of one buffer that would overwrite each other.
Result<void> disjoint(const char* what, const uint64_t* sizes, const uint64_t* displacements,
                      uint32_t count) {
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (uint32_t i = 0; i < count; ++i) {
    if (sizes[i] > kMostElements || displacements[i] > kMostElements) {
      return fail(CCOM_INVALID, "{}: block {} has {} elements at {}; at most {} are possible", what,
                  i, sizes[i], displacements[i], kMostElements);
    }
    if (sizes[i] != 0) order.emplace_back(displacements[i], i);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    const uint32_t before = order[i - 1].second;
    if (order[i - 1].first + sizes[before] > order[i].first) {
      return fail(CCOM_INVALID,
                  "{}: block {} ({} elements at {}) overlaps block {} at {}; give blocks places of "
                  "their own",
                  what, before, sizes[before], order[i - 1].first, order[i].second, order[i].first);
    }
  }
  return {};
}

Result<void> validate_pairs(const Request& request, uint32_t ranks) {
  if (request.operation == CCOM_SEND_RECEIVE && request.pairs.size() != 1) {
    return fail(CCOM_INVALID, "send_receive has {} pairs; it takes exactly one",
                request.pairs.size());
  }
  std::vector<bool> source(ranks), target(ranks);
  for (size_t i = 0; i < request.pairs.size(); ++i) {
    const ccom_pair_t& pair = request.pairs[i];
    if (pair.source >= ranks || pair.target >= ranks) {
      return fail(CCOM_INVALID, "{}: pair {} is {} -> {}, but there are {} ranks",
                  operation_name(request.operation), i, pair.source, pair.target, ranks);
    }
    if (source[pair.source] || target[pair.target]) {
      return fail(CCOM_INVALID,
                  "{}: pair {} ({} -> {}) uses a rank a second time as {}; each rank sends to one "
                  "and receives from one at most",
                  operation_name(request.operation), i, pair.source, pair.target,
                  source[pair.source] ? "source" : "target");
    }
    source[pair.source] = target[pair.target] = true;
  }
  return {};
}

Result<void> validate_matrix(const Request& request, uint32_t ranks) {
  const uint64_t cells = uint64_t{ranks} * ranks;
  if (request.send_counts.size() != cells || request.send_displacements.size() != cells ||
      request.receive_displacements.size() != cells) {
    return fail(CCOM_INVALID,
                "all_to_all_v has {} counts, {} send and {} receive displacements; {} ranks need "
                "{} of each",
                request.send_counts.size(), request.send_displacements.size(),
                request.receive_displacements.size(), ranks, cells);
  }
  std::vector<uint64_t> incoming(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t from = 0; from < ranks; ++from) {
      incoming[from] = request.send_counts[uint64_t{from} * ranks + rank];
    }
    NEURON_CHECK(disjoint("all_to_all_v, what a rank receives", incoming.data(),
                          &request.receive_displacements[uint64_t{rank} * ranks], ranks));
    for (uint32_t to = 0; to < ranks; ++to) {
      const uint64_t cell = uint64_t{rank} * ranks + to;
      if (request.send_displacements[cell] > kMostElements) {
        return fail(CCOM_INVALID, "all_to_all_v: rank {} sends to {} from element {}; at most {}",
                    rank, to, request.send_displacements[cell], kMostElements);
      }
    }
  }
  return {};
}

}  // namespace

Result<void> validate(const Request& request, uint32_t ranks) {
  if (ranks == 0) return fail(CCOM_INVALID, "a group without ranks cannot plan a collective");
  if (static_cast<uint32_t>(request.operation) >= CCOM_OPERATION_COUNT) {
    return fail(CCOM_INVALID, "operation {} does not exist; the last one is {}",
                static_cast<uint32_t>(request.operation), CCOM_OPERATION_COUNT - 1);
  }
  const char* name = operation_name(request.operation);
  if (static_cast<uint32_t>(request.algorithm) >= CCOM_ALGORITHM_COUNT) {
    return fail(CCOM_INVALID, "{}: algorithm {} does not exist; the last one is {}", name,
                static_cast<uint32_t>(request.algorithm), CCOM_ALGORITHM_COUNT - 1);
  }
  if (element_bytes(request.type) == 0) {
    return fail(CCOM_INVALID, "{}: element type {} does not exist; the last one is {}", name,
                static_cast<uint32_t>(request.type), CCOM_TYPE_COUNT - 1);
  }
  if (reduces(request.operation) &&
      static_cast<uint32_t>(request.reduction) >= CCOM_REDUCTION_COUNT) {
    return fail(CCOM_INVALID, "{}: reduction {} does not exist; the last one is {}", name,
                static_cast<uint32_t>(request.reduction), CCOM_REDUCTION_COUNT - 1);
  }
  if (request.count > kMostElements / ranks) {
    return fail(CCOM_INVALID, "{}: {} elements for each of {} ranks; at most {} in all", name,
                request.count, ranks, kMostElements);
  }
  if (rooted(request.operation) && request.root >= ranks) {
    return fail(CCOM_INVALID, "{}: root is rank {}, but there are {} ranks, numbered from 0", name,
                request.root, ranks);
  }
  const bool by_rank =
      request.operation == CCOM_ALL_GATHER_V || request.operation == CCOM_REDUCE_SCATTER_V;
  if (by_rank) {
    if (request.counts.size() != ranks || request.displacements.size() != ranks) {
      return fail(CCOM_INVALID, "{} has {} counts and {} displacements; {} ranks need {} of each",
                  name, request.counts.size(), request.displacements.size(), ranks, ranks);
    }
    return disjoint(name, request.counts.data(), request.displacements.data(), ranks);
  }
  if (!request.counts.empty() || !request.displacements.empty()) {
    return fail(CCOM_INVALID, "{} takes no counts and displacements of ranks", name);
  }
  if (request.operation == CCOM_ALL_TO_ALL_V) return validate_matrix(request, ranks);
  if (!request.send_counts.empty()) {
    return fail(CCOM_INVALID, "{} takes no matrix of counts", name);
  }
  if (request.operation == CCOM_SEND_RECEIVE || request.operation == CCOM_PERMUTE) {
    return validate_pairs(request, ranks);
  }
  return {};
}

}  // namespace neuron::ccom
