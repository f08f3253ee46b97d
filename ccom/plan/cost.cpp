// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/cost.h"

#include "ccom/plan/algorithms.h"
#include "ccom/plan/cost_model.h"
#include "ccom/request/layout.h"

namespace neuron::ccom {
namespace {

struct Sizes {
  double block = 0;   // of a rank, if ranks have blocks; else of the whole vector
  double vector = 0;  // the whole vector
};

Sizes sizes_of(const Request& request, double ranks) {
  const double width = element_bytes(request.type);
  double block = static_cast<double>(request.count) * width;
  if (!request.counts.empty() || !request.send_counts.empty()) {
    double sum = 0;
    for (const uint64_t count : request.counts) sum += static_cast<double>(count);
    for (const uint64_t count : request.send_counts) sum += static_cast<double>(count) / ranks;
    block = sum * width / ranks;
  }
  switch (request.operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_BROADCAST:
    case CCOM_REDUCE:
      return {block / ranks, block};
    default:
      return {block, block * ranks};
  }
}

bool both_ways(ccom_operation_t operation) {
  return operation == CCOM_ALL_REDUCE || operation == CCOM_BARRIER;
}

double ring_time(const CostModel& model, const Request& request, const Sizes& sizes) {
  const double n = model.ranks();
  const double reducing =
      reduces(request.operation) ? model.reduce_on_the_way(2 * (n - 1) * sizes.block) : 0;
  return (both_ways(request.operation) ? 2 : 1) * model.ring(n, sizes.block, false, 1) + reducing;
}

// Stages within the node, between nodes, within the node, `segments` times in a pipeline.
double two_d_time(const CostModel& model, const Request& request, const Sizes& sizes,
                  double segments) {
  const double n = model.ranks(), x = model.nodes(), y = model.columns();
  const double inner_block = sizes.block * x / segments, outer_block = sizes.block / segments;
  const bool both = both_ways(request.operation);
  // The blocks of a node's ranks are not contiguous, so each travels as a message of its own.
  const double inner = model.ring(y, inner_block, true, y, both ? 1 : x);
  const double outer = (both ? 2 : 1) * model.ring(x, outer_block, false, y);
  const double reducing =
      reduces(request.operation) ? model.reduce_on_the_way(2 * (n - 1) * sizes.block) : 0;
  const double once = (both ? 2 : 1) * inner + outer;
  if (segments <= 1) return once + reducing;
  // The two inner stages share links. A stage waits for the one before, and for confirmation of its
  // last sends.
  const double busy = (both ? 2 : 1) * (y - 1) * model.occupancy(inner_block, true, y);
  const double interval = std::max({inner, outer, busy});
  return once + (segments - 1) * interval + 2 * model.latencies() + reducing;
}

double tree_time(const CostModel& model, const Request& request, const Sizes& sizes,
                 double segments) {
  const double depth = model.rounds(), vector = sizes.vector;
  const double reducing = reduces(request.operation) ? model.reduce(2 * depth * vector) : 0;
  switch (request.operation) {
    case CCOM_BARRIER:
      return 2 * model.tree_hops(0);
    case CCOM_GATHER:
    case CCOM_SCATTER:
      return model.tree_hops(0) + 2 * model.copy(vector);
    case CCOM_ALL_GATHER:
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER:
    case CCOM_REDUCE_SCATTER_V:
      return model.tree_hops(0) + 2 * model.copy(vector) + model.tree_hops(vector) + reducing;
    default:
      break;
  }
  const double ways = request.operation == CCOM_ALL_REDUCE ? 2 : 1;
  if (segments <= 1) return ways * model.tree_hops(vector) + reducing;
  // Two trees carry half of the vector each; an inner rank serves two children.
  const double part = vector / 2 / segments;
  const double adding = model.reduce(3 * part);
  return ways * (model.tree_hops(part) + model.worst_hop(part) + depth * adding) +
         (segments - 1) * (model.worst_hop(3 * part) + adding);
}

double chain_time(const CostModel& model, const Request& request, const Sizes& sizes,
                  double segments) {
  const double n = model.ranks();
  const bool blocks = request.operation == CCOM_GATHER || request.operation == CCOM_SCATTER;
  if (request.operation == CCOM_BARRIER) return 2 * model.neighbour_hops(0);
  const double vector = sizes.vector;
  if (blocks) return model.neighbour_hops(vector / 2);
  const double part = vector / segments;
  const double adding = reduces(request.operation) ? model.reduce(2 * part) : 0;
  return model.neighbour_hops(part) + (segments - 1) * model.worst_hop(part) +
         (n - 2 + segments) * adding;
}

double recursive_time(const CostModel& model, const Request& request, const Sizes& sizes) {
  const double n = model.ranks(), vector = sizes.vector;
  const double core = std::exp2(std::floor(std::log2(n)));
  const bool sums = reduces(request.operation);
  double time = 0;
  if (request.operation == CCOM_BARRIER) {
    for (double d = 1; d < n; d *= 2) time += model.hop(0, d);
    return time;
  }
  const bool whole =
      request.operation == CCOM_ALL_REDUCE && vector <= static_cast<double>(kDoublingBytes);
  for (double d = 1; d < core; d *= 2) {
    if (whole) {
      time += model.hop(vector, d) + model.reduce(2 * vector);
      continue;
    }
    const double bytes = vector * d / core;
    const bool first = request.operation != CCOM_ALL_GATHER;
    const bool second = request.operation != CCOM_REDUCE_SCATTER;
    if (first) time += model.hop(bytes, d) + (sums ? model.reduce(2 * bytes) : 0);
    if (second) time += model.hop(bytes, d);
  }
  if (core != n) time += 2 * model.near(vector) + (sums ? model.reduce(2 * vector) : 0);
  return time;
}

double mesh_time(const CostModel& model, const Request& request, const Sizes& sizes,
                 bool one_step) {
  const double n = model.ranks();
  const double adding = model.reduce(n * (one_step ? sizes.vector : sizes.block));
  switch (request.operation) {
    case CCOM_ALL_REDUCE:
      return one_step ? model.exchange(sizes.vector) + adding
                      : 2 * model.exchange(sizes.block) + adding;
    case CCOM_BROADCAST:
      return one_step ? model.star(sizes.vector, true)
                      : model.star(sizes.block, true) + model.exchange(sizes.block);
    case CCOM_REDUCE:
      return one_step ? model.star(sizes.vector, false) + adding
                      : model.exchange(sizes.block) + adding + model.star(sizes.block, false);
    case CCOM_REDUCE_SCATTER:
    case CCOM_REDUCE_SCATTER_V:
      return model.exchange(sizes.block) + adding;
    case CCOM_GATHER:
    case CCOM_SCATTER:
      return model.star(sizes.block, request.operation == CCOM_SCATTER);
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      return model.worst_hop(sizes.block);
    case CCOM_BARRIER:
      return model.exchange(0);
    default:
      return model.exchange(sizes.block);
  }
}

// A tree between nodes, stars within them; even nodes share the work of the vector.
double hierarchical_time(const CostModel& model, const Request& request, const Sizes& sizes,
                         bool even, double segments) {
  const double x = model.nodes(), y = model.columns(), vector = sizes.vector;
  const double depth = std::ceil(std::log2(x));
  const bool ring_like = request.operation == CCOM_ALL_REDUCE ||
                         request.operation == CCOM_ALL_GATHER ||
                         request.operation == CCOM_REDUCE_SCATTER;
  if (even && ring_like) {
    const double ways = request.operation == CCOM_ALL_REDUCE ? 2 : 1;
    const double part = vector / segments;
    const double turns = request.operation == CCOM_ALL_REDUCE ? 1 : x;
    const double inside =
        turns * (model.inner_exchange(part / y / turns) + 2 * (y - 1) * model.step());
    const double outside = ways * (model.column_exchange(part / y / x) + 2 * x * model.step());
    const double adding = reduces(request.operation) ? model.reduce(2 * part) : 0;
    return ways * inside + outside + adding + (segments - 1) * std::max(inside + adding, outside);
  }
  const double inside = model.inner_exchange(vector);
  const double adding = reduces(request.operation) ? model.reduce((y + 2 * depth) * vector) : 0;
  const double ways = both_ways(request.operation) ? 2 : 1;
  return ways * (inside + depth * model.far(vector, 1)) + adding;
}

double node_chain_time(const CostModel& model, const Sizes& sizes) {
  const double x = model.nodes(), y = model.columns(), part = sizes.vector / y;
  const double inside = model.inner_exchange(part) + 2 * (y - 1) * model.step();
  // Node after node, and back from the last one, which sends to all others at once.
  const double outside =
      (x - 1) * (model.far(part, y) + model.reduce((y + 1) * part)) + model.far((x - 1) * part, y);
  return 2 * inside + model.reduce(y * part) + outside;
}

// Every other rank of a node waits for its leader, which doubles with those of other nodes.
double node_leaders_time(const CostModel& model, const Request& request, const Sizes& sizes) {
  const double x = model.nodes(), y = model.columns(), vector = sizes.vector;
  const double levels = std::floor(std::log2(x)), folds = std::exp2(levels) == x ? 0 : 2;
  const bool sums = reduces(request.operation);
  const double gather =
      model.inner_exchange(sums ? vector : sizes.block) + 2 * (y - 1) * model.step();
  // Readers of one memory do not wait for one another.
  const double spread =
      model.host() ? model.near(vector) : model.inner_exchange(vector) + 2 * (y - 1) * model.step();
  if (!sums) {
    double time = gather + model.copy(sizes.block) + spread;
    for (double d = 1; 2 * d <= x; d *= 2) time += model.far(y * d * sizes.block, 1);
    return folds == 0 ? time : time + model.far(y * sizes.block, 1) + model.far(vector, 1);
  }
  return gather + model.reduce(y * vector) +
         (levels + folds) * (model.far(vector, 1) + model.reduce(2 * vector)) + spread;
}

double kangaring_time(const CostModel& model, const Request& request, const Sizes& sizes) {
  const double chips = model.ranks() / 2;
  const double ways = both_ways(request.operation) ? 2 : 1;
  const double bytes = 2 * sizes.block;
  const double adding = reduces(request.operation) ? model.reduce(3 * (chips - 1) * bytes) : 0;
  // The other rank of a chip waits for the one that sends to another node.
  const double handing_on = model.near(bytes) + (model.nodes() > 1 ? model.messages(1, 1) : 0);
  return ways * (model.ring(chips, bytes, false, 1) + chips * handing_on) + adding;
}

}  // namespace

uint64_t predict(ccom_algorithm_t algorithm, const Request& request, const Group& group,
                 const Places& places, const CostParameters& costs, const Parameters& parameters) {
  const CostModel model(group, places, costs, parameters.channels, parameters.window);
  const double n = model.ranks();
  const Sizes sizes = sizes_of(request, n);
  const double segments = std::max(1u, parameters.segments);
  const bool blocks =
      request.operation == CCOM_ALL_GATHER || request.operation == CCOM_ALL_GATHER_V ||
      request.operation == CCOM_REDUCE_SCATTER || request.operation == CCOM_REDUCE_SCATTER_V ||
      request.operation == CCOM_ALL_REDUCE;
  double time = 0;
  switch (algorithm) {
    case CCOM_RING:
      time =
          blocks ? ring_time(model, request, sizes) : chain_time(model, request, sizes, segments);
      break;
    case CCOM_BIDIRECTIONAL_RING:
      time = ring_time(model, request, sizes);
      break;
    case CCOM_TWO_D_RING:
      time = model.nodes() > 1 ? two_d_time(model, request, sizes, 1)
                               : ring_time(model, request, sizes);
      break;
    case CCOM_PIPELINED_TWO_D_RING:
      time = ring_time(model, request, sizes);
      if (model.nodes() > 1) time = std::min(time, two_d_time(model, request, sizes, segments));
      break;
    case CCOM_KANGARING:
      time = kangaring_time(model, request, sizes);
      break;
    case CCOM_RECURSIVE:
      time = recursive_time(model, request, sizes);
      break;
    case CCOM_TREE:
      time = tree_time(model, request, sizes, segments);
      break;
    case CCOM_HIERARCHICAL:
      time = hierarchical_time(model, request, sizes, places.even, segments);
      break;
    case CCOM_PAIRWISE:
      for (double d = 1; d < n; ++d) time += d < 64 ? model.hop(sizes.block, d) : 0;
      if (n > 64) time *= (n - 1) / 63;
      if (reduces(request.operation)) time += model.reduce(n * sizes.block);
      break;
    case CCOM_BRUCK:
      if (request.operation == CCOM_ALL_TO_ALL) {
        for (double d = 1; d < n; d *= 2) {
          time += model.shift(sizes.vector / 2, d) + model.copy(sizes.vector);
        }
        time += 2 * model.copy(sizes.vector);
      } else {
        for (double d = 1; d < n; d *= 2) {
          time += model.shift(sizes.block * std::min(d, n - d), d);
        }
        time += model.copy(sizes.vector);
      }
      break;
    case CCOM_TWO_LEVEL: {
      const double x = model.nodes(), y = model.columns();
      time = (y - 1) * model.near(x * sizes.block) + (x - 1) * model.far(y * sizes.block, y) +
             3 * model.copy(sizes.vector) + 3 * n * model.step();
      break;
    }
    case CCOM_NODE_CHAIN:
      time = node_chain_time(model, sizes);
      break;
    case CCOM_NODE_LEADERS:
      time = node_leaders_time(model, request, sizes);
      break;
    default:
      time = mesh_time(model, request, sizes, algorithm == CCOM_ONE_STEP_MESH);
      // Ranks that share memory run a mesh without messages, which the steps of the schedule do not
      // show.
      if (model.host() && model.nodes() <= 1) time /= 2;
      break;
  }
  return static_cast<uint64_t>(time * 1e12);
}

uint32_t best_segments(ccom_algorithm_t algorithm, const Request& request, const Group& group,
                       const Places& places, const CostParameters& costs,
                       const Parameters& parameters) {
  const bool pipelined = algorithm == CCOM_PIPELINED_TWO_D_RING || algorithm == CCOM_TREE ||
                         algorithm == CCOM_HIERARCHICAL ||
                         (algorithm == CCOM_RING && (request.operation == CCOM_BROADCAST ||
                                                     request.operation == CCOM_REDUCE));
  if (!pipelined) return 1;
  const CostModel model(group, places, costs, parameters.channels, parameters.window);
  const Sizes sizes = sizes_of(request, model.ranks());
  if (algorithm == CCOM_HIERARCHICAL && !places.even) return 1;
  uint32_t best = 1;
  uint64_t least = ~uint64_t{0};
  for (uint32_t segments = 1; segments <= 64; segments *= 2) {
    // Messages of less than about a cache line are never worth it.
    if (segments > 1 && sizes.vector / model.ranks() / segments < 64) break;
    Parameters trial = parameters;
    trial.segments = segments;
    const uint64_t time = predict(algorithm, request, group, places, costs, trial);
    if (time >= least) continue;
    least = time;
    best = segments;
  }
  return best;
}

}  // namespace neuron::ccom
