// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "tests/system/matrix/cell.h"

namespace neuron::matrix {

namespace {

// One character for each algorithm, in the order of kAlgorithms: y can, - cannot, n needs several
// nodes, e the same with equal numbers of ranks, E equal numbers of ranks if there are several
// nodes, p needs two or more chips with two ranks each.
struct Operation {
  const char* name;
  const char* can;
};

constexpr const char* kAlgorithms[] = {"auto",
                                       "ring",
                                       "bidirectional_ring",
                                       "two_d_ring",
                                       "pipelined_two_d_ring",
                                       "kangaring",
                                       "mesh",
                                       "one_step_mesh",
                                       "rdh",
                                       "tree",
                                       "hier",
                                       "pairwise",
                                       "bruck",
                                       "two_level",
                                       "node_chain",
                                       "node_leaders"};
//   auto, ring, bidirectional, 2D, pipelined 2D, kanga, mesh, one step, recursive, tree, hier,
//   pairwise, bruck, two level, chain, leaders
constexpr Operation kOperations[] = {
    {"all_reduce", "yyyEEpyyyyn---en"},      {"all_gather", "yyyEEpy-yynyy--e"},
    {"reduce_scatter", "yyyEEpy-yyny----"},  {"alltoall", "y-----y----yye--"},
    {"broadcast", "yy----yyyyn-----"},       {"reduce", "yy----yyyyn-----"},
    {"gather", "yy----y--yn-----"},          {"scatter", "yy----y--yn-----"},
    {"sendrecv", "y-----y---------"},        {"permute", "y-----y---------"},
    {"barrier", "yy----y-yyn-y---"},         {"all_gatherv", "yyy---y--yny----"},
    {"reduce_scatterv", "yyy---y--yny----"}, {"alltoallv", "y-----y----y----"},
};
static_assert(std::size(kAlgorithms) == 16);

constexpr const char* kTypes[] = {"uint8", "int8", "fp8e3",  "fp8",   "fp8e5", "uint16", "int16",
                                  "fp16",  "bf16", "uint32", "int32", "fp32",  "uint64", "int64"};
constexpr const char* kSizes[] = {"0", "1", "7", "1031", "9001"};

struct ColumnOfExecutor {
  const char* name;
  bool several_nodes;  // two ranks in each
  bool needs_elements;
};
constexpr ColumnOfExecutor kColumnsOfExecutors[] = {
    {"host", false, false},          {"tcp", false, false},        {"rough", false, false},
    {"device", false, true},         {"device_sbuf", false, true}, {"simulated_node", false, false},
    {"simulated_nodes", true, false}};
constexpr uint32_t kRanks[] = {1, 2, 3, 4, 8};

bool can(char how, uint32_t ranks, bool several_nodes) {
  const uint32_t nodes = several_nodes ? (ranks + 1) / 2 : 1;
  const bool equal = nodes == 1 || ranks % 2 == 0;
  switch (how) {
    case 'y':
      return true;
    case 'n':
      return nodes > 1;
    case 'e':
      return nodes > 1 && equal;
    case 'E':
      return equal;
    case 'p':
      return ranks >= 4 && ranks % 2 == 0;
    default:
      return false;
  }
}

}  // namespace

bool belongs_to_short_run(const std::string& name) {
  // Every operation with every algorithm on the device, and where there are several nodes; of the
  // rest a share.
  const std::string executor = name.substr(name.rfind('/') + 1);
  if (name.find("/fp32/7/ranks4/") != std::string::npos &&
      (executor == "device" || executor == "device_sbuf" || executor == "simulated_nodes")) {
    return true;
  }
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return (hash ^ hash >> 29) % 97 == 0;
}

std::map<std::string, Expected> expected_cells(bool all) {
  std::map<std::string, Expected> cells;
  for (const Operation& operation : kOperations) {
    for (const char* type : kTypes) {
      for (const char* size : kSizes) {
        for (const uint32_t ranks : kRanks) {
          for (size_t a = 0; a < std::size(kAlgorithms); ++a) {
            for (const ColumnOfExecutor& executor : kColumnsOfExecutors) {
              const std::string name = std::string(operation.name) + "/" + type + "/" + size +
                                       "/ranks" + std::to_string(ranks) + "/" + kAlgorithms[a] +
                                       "/" + executor.name;
              if (!all && !belongs_to_short_run(name)) continue;
              Expected& cell = cells[name];
              if (executor.needs_elements && size == std::string("0") &&
                  operation.name != std::string("barrier")) {
                cell.kind = Expectation::kNothing;
              } else if (!can(operation.can[a], ranks, executor.several_nodes)) {
                cell = {Expectation::kRefusal,
                        "for this group of " + std::to_string(ranks) + " ranks: "};
              }
            }
          }
        }
      }
    }
  }
  return cells;
}

}  // namespace neuron::matrix
