// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/build.h"

#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/plan/cost.h"
#include "ccom/plan/ring_schedule.h"
#include "ccom/request/layout.h"
#include "ccom/request/names.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kMostChannels = 32;
constexpr uint32_t kMostSegments = 64;
constexpr uint64_t kSlicedBytes = 1 << 20;  // ring blocks from this size on travel in two pieces

bool ring_operation(ccom_operation_t operation) {
  return operation == CCOM_ALL_REDUCE || operation == CCOM_ALL_GATHER ||
         operation == CCOM_REDUCE_SCATTER;
}

bool ring_operation_v(ccom_operation_t operation) {
  return operation == CCOM_ALL_GATHER_V || operation == CCOM_REDUCE_SCATTER_V;
}

bool tree_operation(ccom_operation_t operation) {
  return operation != CCOM_ALL_TO_ALL && operation != CCOM_ALL_TO_ALL_V &&
         operation != CCOM_SEND_RECEIVE && operation != CCOM_PERMUTE;
}

std::string not_this_operation(const Request& request) {
  return format("it does not do {}", operation_name(request.operation));
}

std::string needs_even_nodes(const Places& places) {
  if (places.nodes.size() < 2) return "all ranks are on one node";
  if (places.even) return "";
  const auto [least, most] =
      std::minmax_element(places.nodes.begin(), places.nodes.end(),
                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return format("nodes must have as many ranks each, but they have between {} and {}",
                least->size(), most->size());
}

uint64_t largest_block_bytes(const Request& request, uint32_t ranks) {
  const Layout layout(request, ranks);
  uint64_t most = 0;
  for (const uint64_t count : request.counts) most = std::max(most, count);
  return std::max(most, request.count) * layout.width();
}

uint64_t ring_block_bytes(const Request& request, uint32_t ranks, uint32_t channels) {
  const uint64_t parts = uint64_t{channels} * (request.operation == CCOM_ALL_REDUCE ? ranks : 1);
  return largest_block_bytes(request, ranks) / parts;
}

// One channel for each directed cycle, and as many as there are NICs.
uint32_t usual_channels(ccom_algorithm_t algorithm, const Group& group,
                        const CostParameters& costs) {
  const bool ring = algorithm == CCOM_RING || algorithm == CCOM_BIDIRECTIONAL_RING ||
                    algorithm == CCOM_TWO_D_RING || algorithm == CCOM_PIPELINED_TWO_D_RING;
  const uint32_t least = algorithm == CCOM_BIDIRECTIONAL_RING ? 2 : 1;
  const uint32_t cycles = directed_cycles(group);
  if (costs.medium != Medium::kDevice) return least;
  if (algorithm == CCOM_KANGARING) return cycles;
  if (!ring) return 1;
  const uint32_t nics = std::min(group.topology.node().nics, kMostChannels);
  return std::max(least, (std::max(cycles, nics) + cycles - 1) / cycles * cycles);
}

}  // namespace

std::string refusal(ccom_algorithm_t algorithm, const Request& request, const Group& group,
                    const Places& places) {
  (void)group;
  switch (algorithm) {
    case CCOM_RING:
    case CCOM_TREE:
      return tree_operation(request.operation) ? "" : not_this_operation(request);
    case CCOM_BIDIRECTIONAL_RING:
      if (ring_operation(request.operation) || ring_operation_v(request.operation)) return "";
      return not_this_operation(request);
    case CCOM_HIERARCHICAL:
      if (!tree_operation(request.operation)) return not_this_operation(request);
      return places.nodes.size() < 2 ? "all ranks are on one node" : "";
    case CCOM_TWO_D_RING:
    case CCOM_PIPELINED_TWO_D_RING:
      if (!ring_operation(request.operation)) return not_this_operation(request);
      return places.nodes.size() == 1 ? "" : needs_even_nodes(places);
    case CCOM_MESH:
      return "";
    case CCOM_ONE_STEP_MESH:
      if (request.operation == CCOM_ALL_REDUCE || request.operation == CCOM_BROADCAST ||
          request.operation == CCOM_REDUCE) {
        return "";
      }
      return not_this_operation(request);
    case CCOM_KANGARING:
      if (!ring_operation(request.operation)) return not_this_operation(request);
      return places.whole_pairs
                 ? ""
                 : "it needs pairs: four ranks or more, an even number on every chip";
    case CCOM_RECURSIVE:
      if (ring_operation(request.operation) || request.operation == CCOM_BROADCAST ||
          request.operation == CCOM_REDUCE || request.operation == CCOM_BARRIER) {
        return "";
      }
      return not_this_operation(request);
    case CCOM_PAIRWISE:
      if (ring_operation_v(request.operation) || request.operation == CCOM_ALL_TO_ALL ||
          request.operation == CCOM_ALL_TO_ALL_V || request.operation == CCOM_ALL_GATHER ||
          request.operation == CCOM_REDUCE_SCATTER) {
        return "";
      }
      return not_this_operation(request);
    case CCOM_BRUCK:
      if (request.operation == CCOM_ALL_TO_ALL || request.operation == CCOM_ALL_GATHER ||
          request.operation == CCOM_BARRIER) {
        return "";
      }
      return not_this_operation(request);
    case CCOM_TWO_LEVEL:
      if (request.operation != CCOM_ALL_TO_ALL) return not_this_operation(request);
      return needs_even_nodes(places);
    case CCOM_NODE_CHAIN:
      if (request.operation != CCOM_ALL_REDUCE) return not_this_operation(request);
      if (std::string why = needs_even_nodes(places); !why.empty()) return why;
      return places.in_order ? "" : "the ranks of a node must follow each other, node after node";
    case CCOM_NODE_LEADERS:
      if (places.nodes.size() < 2) return "all ranks are on one node";
      if (request.operation == CCOM_ALL_REDUCE) return "";
      if (request.operation != CCOM_ALL_GATHER) return not_this_operation(request);
      return places.in_order ? "" : "the ranks of a node must follow each other, node after node";
    default:
      return not_this_operation(request);
  }
}

Choice choose(ccom_algorithm_t algorithm, const Request& request, const Group& group,
              const Places& places, const CostParameters& costs, const Parameters& wanted) {
  Choice choice{wanted, false};
  Parameters& chosen = choice.parameters;
  if (chosen.window == 0) chosen.window = 4;
  if (chosen.channels == 0) chosen.channels = usual_channels(algorithm, group, costs);
  chosen.channels = std::clamp(chosen.channels, 1u, kMostChannels);
  chosen.segments = std::min(chosen.segments, kMostSegments);
  if (chosen.chunk_bytes == 0 && costs.medium == Medium::kHostMemory) {
    // Two pieces: one is reduced while the other one travels. On devices, other channels have this
    // effect.
    const uint64_t block = ring_block_bytes(request, group.ranks(), chosen.channels);
    if (block >= kSlicedBytes) chosen.chunk_bytes = block / 2 + 1;
  }
  if (chosen.segments != 0) return choice;
  chosen.segments = best_segments(algorithm, request, group, places, costs, chosen);
  if (algorithm == CCOM_PIPELINED_TWO_D_RING && places.nodes.size() > 1) {
    const uint64_t flat = predict(CCOM_RING, request, group, places, costs, chosen);
    choice.flat = flat <= predict(algorithm, request, group, places, costs, chosen);
  }
  return choice;
}

std::shared_ptr<const Schedule> build(ccom_algorithm_t algorithm, const Request& request,
                                      const Group& group, const Places& places,
                                      const Choice& choice) {
  const Parameters& parameters = choice.parameters;
  RingShape shape;
  shape.channels = parameters.channels;
  shape.both = algorithm != CCOM_RING || parameters.channels > 1;
  if (parameters.chunk_bytes != 0) {
    const uint64_t parts =
        uint64_t{parameters.channels} * (request.operation == CCOM_ALL_REDUCE ? group.ranks() : 1);
    const uint64_t block = largest_block_bytes(request, group.ranks()) / parts;
    shape.slices = static_cast<uint32_t>(
        std::clamp<uint64_t>((block + parameters.chunk_bytes - 1) / parameters.chunk_bytes, 1, 64));
  }
  switch (algorithm) {
    case CCOM_TREE:
      return make_tree(request, group.ranks(), parameters.segments);
    case CCOM_HIERARCHICAL:
      if (places.even && ring_operation(request.operation)) {
        return make_hierarchical(request, places, parameters.segments);
      }
      return make_node_tree(request, places, parameters.segments);
    case CCOM_RING:
    case CCOM_BIDIRECTIONAL_RING:
      if (!ring_operation(request.operation) && !ring_operation_v(request.operation)) {
        return make_chain(request, group.ranks(), parameters.segments);
      }
      return make_ring(request, group, places, shape);
    case CCOM_TWO_D_RING:
    case CCOM_PIPELINED_TWO_D_RING:
      shape.two_d = places.nodes.size() > 1 && !choice.flat;
      if (shape.two_d && algorithm == CCOM_PIPELINED_TWO_D_RING) {
        shape.segments = parameters.segments;
      }
      return make_ring(request, group, places, shape);
    case CCOM_KANGARING:
      return make_kangaring(request, group, places, parameters.channels);
    case CCOM_RECURSIVE:
      return make_recursive(request, group.ranks(),
                            largest_block_bytes(request, group.ranks()) <= kDoublingBytes);
    case CCOM_PAIRWISE:
      return make_mesh(request, group.ranks(), false, true);
    case CCOM_BRUCK:
      return make_bruck(request, group.ranks());
    case CCOM_TWO_LEVEL:
      return make_two_level(request, places);
    case CCOM_NODE_CHAIN:
      return make_node_chain(request, places);
    case CCOM_NODE_LEADERS:
      return make_node_leaders(request, places);
    case CCOM_ONE_STEP_MESH:
      return make_mesh(request, group.ranks(), true);
    default:
      return make_mesh(request, group.ranks(), false);
  }
}

}  // namespace neuron::ccom
