// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/collective_reader.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "runtime/neff/collective_place.h"
#include "runtime/neff/text.h"

namespace neuron::neff {
namespace {

namespace json = boost::json;

// By ccom_operation_t.
constexpr const char* kOperations[] = {
    "all_reduce", "all_gather",   "reduce_scatter",   "all_to_all",   "broadcast",
    "reduce",     "gather",       "scatter",          "send_receive", "permute",
    "barrier",    "all_gather_v", "reduce_scatter_v", "all_to_all_v"};
static_assert(std::size(kOperations) == CCOM_OPERATION_COUNT);
constexpr const char* kReductions[] = {"add", "min", "max", "product", "average"};
static_assert(std::size(kReductions) == CCOM_REDUCTION_COUNT);
// By ccom_type_t.
constexpr const char* kTypes[] = {"uint8",  "int8",    "float8e3", "float8e4", "float8e5",
                                  "uint16", "int16",   "float16",  "bfloat16", "uint32",
                                  "int32",  "float32", "uint64",   "int64"};
static_assert(std::size(kTypes) == CCOM_TYPE_COUNT);
constexpr uint8_t kBytes[] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8};
static_assert(std::size(kBytes) == CCOM_TYPE_COUNT);
constexpr const char* kAlgorithms[] = {"auto",
                                       "ring",
                                       "bidirectional_ring",
                                       "two_d_ring",
                                       "pipelined_two_d_ring",
                                       "kangaring",
                                       "mesh",
                                       "one_step_mesh",
                                       "recursive",
                                       "tree",
                                       "hierarchical",
                                       "pairwise",
                                       "bruck",
                                       "two_level",
                                       "node_chain",
                                       "node_leaders"};
static_assert(std::size(kAlgorithms) == CCOM_ALGORITHM_COUNT);

// End of the furthest block of the lists.
uint64_t extent(const uint64_t* counts, const uint64_t* places, size_t size, size_t stride) {
  uint64_t end = 0;
  for (size_t i = 0; i < size; ++i) {
    if (counts[i * stride] != 0) end = std::max(end, places[i] + counts[i * stride]);
  }
  return end;
}

// The largest input and output of any rank, in elements.
CollectiveBytes variable_elements(const Collective& c) {
  const uint64_t most = c.counts.empty() ? 0 : *std::max_element(c.counts.begin(), c.counts.end());
  if (c.operation != CCOM_ALL_TO_ALL_V) {
    const uint64_t all = extent(c.counts.data(), c.displacements.data(), c.counts.size(), 1);
    return c.operation == CCOM_ALL_GATHER_V ? CollectiveBytes{most, all}
                                            : CollectiveBytes{all, most};
  }
  CollectiveBytes result;
  size_t ranks = 0;
  while (ranks * ranks < c.counts.size()) ++ranks;
  for (size_t r = 0; r < ranks; ++r) {
    result.input =
        std::max(result.input, extent(&c.counts[r * ranks], &c.displacements[r * ranks], ranks, 1));
    result.output = std::max(
        result.output, extent(&c.counts[r], &c.receive_displacements[r * ranks], ranks, ranks));
  }
  return result;
}

class Reader {
 public:
  Reader(const ModelLimits& limits, uint32_t generation, Subgraph& subgraph)
      : limits_(limits), generation_(generation), subgraph_(subgraph) {
    for (uint32_t i = 0; i < subgraph.variables.size(); ++i) {
      variables_.emplace(subgraph.variables[i].name, i);
    }
  }

  void read(JsonObject& field) {
    Checker& checker = field.checker();
    Collective c;
    c.operation = static_cast<ccom_operation_t>(field.choice("operation", kOperations));
    c.type = static_cast<ccom_type_t>(field.choice_or("type", kTypes, CCOM_UINT8));
    c.reduction = static_cast<ccom_reduction_t>(field.choice_or("reduction", kReductions, 0));
    c.algorithm = static_cast<ccom_algorithm_t>(field.choice_or("algorithm", kAlgorithms, 0));
    c.root = static_cast<uint32_t>(field.number_or("root", 0, 0, kMostRanks - 1));
    c.stream = static_cast<uint32_t>(field.number_or("stream", 0, 0, CCOM_MAX_STREAMS - 1));
    if (const auto number =
            field.optional_number("semaphore", NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST)) {
      c.semaphore = static_cast<uint8_t>(*number);
    }
    c.semaphore_add = static_cast<uint16_t>(field.number_or("semaphore_add", 1, 1, UINT16_MAX));
    read_groups(field, c);
    read_pairs(field, c);
    c.input = c.output = kNoTarget;
    if (c.operation != CCOM_BARRIER) {
      if (c.operation > CCOM_BARRIER) {
        read_counts(field, c);
      } else {
        c.count = field.number("count", 1, limits_.variable_bytes);
      }
      c.input = read_variable(field, "input", c.input_offset, c.input_rows);
      c.output = read_variable(field, "output", c.output_offset, c.output_rows);
      if (checker.ok()) check_sizes(field, c);
    }
    if (checker.ok()) subgraph_.operations.push_back(std::move(c));
  }

 private:
  uint32_t read_variable(JsonObject& field, const std::string& key, uint64_t& offset,
                         RowsOfSbuf& rows) {
    Checker& checker = field.checker();
    const std::string name = field.text(key);
    offset = field.number_or(key + "_offset", 0, 0, limits_.variable_bytes);
    const std::string row_key = key + "_row_bytes", partitions_key = key + "_partitions";
    const auto row = field.optional_number(row_key, 1, NEURON_SBUF_PARTITION_STRIDE);
    const auto partitions = field.optional_number(partitions_key, 1, NEURON_PARTITIONS);
    if (!checker.ok()) return kNoTarget;
    const auto found = variables_.find(name);
    if (found == variables_.end()) {
      checker.fail(field.at(key), "no variable has the name \"{}\"", printable(name));
      return kNoTarget;
    }
    const Variable& variable = subgraph_.variables[found->second];
    if (variable.kind == VariableKind::kStateBuffer) {
      if (!row) {
        checker.fail(field.at(key),
                     "\"{}\" is a state-buffer, where a buffer lies in rows; expected is a \"{}\"",
                     printable(name), row_key);
        return kNoTarget;
      }
      rows.row_bytes = static_cast<uint32_t>(*row);
      rows.core_offset = variable.core_offset + offset;
      // The default is every partition from the first one on.
      const uint64_t left = NEURON_PARTITIONS - rows.first_partition() % NEURON_PARTITIONS;
      rows.partitions = static_cast<uint32_t>(partitions.value_or(left));
    } else if (variable.kind != VariableKind::kTmpBuf) {
      checker.fail(field.at(key),
                   "\"{}\" is no tmp-buf or state-buffer; other ranks write to a collective's "
                   "buffers, whose addresses must not change: copy from or to a tmp-buf",
                   printable(name));
      return kNoTarget;
    } else if (row || partitions) {
      checker.fail(field.at(row ? row_key : partitions_key),
                   "\"{}\" is in HBM; rows and partitions are those of a state-buffer",
                   printable(name));
      return kNoTarget;
    }
    return found->second;
  }

  void read_groups(JsonObject& field, Collective& c) {
    Checker& checker = field.checker();
    const json::array* groups = field.list("replica_groups", kMostRanks);
    if (groups == nullptr) return;
    const JsonPath where = field.at("replica_groups");
    std::set<uint32_t> seen;
    for (size_t g = 0; g < groups->size() && checker.ok(); ++g) {
      const JsonPath place{&where, {}, g};
      const json::array* members = (*groups)[g].if_array();
      if (members == nullptr || members->empty() || members->size() > kMostRanks) {
        checker.fail(place, "expected a list of 1 to {} ranks", kMostRanks);
        return;
      }
      auto& group = c.groups.emplace_back();
      for (size_t i = 0; i < members->size() && checker.ok(); ++i) {
        const auto rank = static_cast<uint32_t>(
            json_number(checker, {&place, {}, i}, (*members)[i], 0, UINT32_MAX));
        if (checker.ok() && !seen.insert(rank).second) {
          checker.fail(place, "rank {} is in the groups twice", rank);
        }
        group.push_back(rank);
      }
      if (checker.ok() && group.size() != c.groups[0].size()) {
        checker.fail(place, "has {} ranks, the first group {}; groups are equally large",
                     group.size(), c.groups[0].size());
      }
    }
    group_lists_.insert(c.groups);
    if (group_lists_.size() > kMostGroupLists) {
      checker.fail(where, "the program has more than {} different lists of replica groups",
                   kMostGroupLists);
    }
  }

  static void read_pairs(JsonObject& field, Collective& c) {
    Checker& checker = field.checker();
    const json::array* pairs = field.list("pairs", kMostRanks);
    if (pairs == nullptr) return;
    const JsonPath where = field.at("pairs");
    for (size_t i = 0; i < pairs->size() && checker.ok(); ++i) {
      const JsonPath place{&where, {}, i};
      const json::array* pair = (*pairs)[i].if_array();
      if (pair == nullptr || pair->size() != 2) {
        checker.fail(place, "expected a pair of ranks: [from, to]");
        return;
      }
      c.pairs.push_back(
          {static_cast<uint32_t>(json_number(checker, place, (*pair)[0], 0, kMostRanks - 1)),
           static_cast<uint32_t>(json_number(checker, place, (*pair)[1], 0, kMostRanks - 1))});
    }
  }

  std::vector<uint64_t> read_numbers(JsonObject& field, std::string_view key) {
    Checker& checker = field.checker();
    std::vector<uint64_t> values;
    const json::array* list = field.list(key, kMostCounts);
    if (list == nullptr) return values;
    const JsonPath where = field.at(key);
    values.reserve(list->size());
    for (size_t i = 0; i < list->size() && checker.ok(); ++i) {
      values.push_back(
          json_number(checker, {&where, {}, i}, (*list)[i], 0, limits_.variable_bytes));
    }
    return values;
  }

  // Blocks without displacements lie one behind the other.
  void read_counts(JsonObject& field, Collective& c) {
    Checker& checker = field.checker();
    c.counts = read_numbers(field, "counts");
    c.displacements = read_numbers(field, "displacements");
    c.receive_displacements = read_numbers(field, "receive_displacements");
    if (!checker.ok()) return;
    const bool pairs = c.operation == CCOM_ALL_TO_ALL_V;
    size_t ranks = c.counts.size();
    if (pairs) {
      for (ranks = 0; ranks * ranks < c.counts.size();) ++ranks;
    }
    const size_t wanted = pairs ? ranks * ranks : ranks;
    if (c.counts.empty() || c.counts.size() != wanted || ranks > kMostRanks ||
        (!c.groups.empty() && c.groups[0].size() != ranks)) {
      checker.fail(field.at("counts"), "has {} entries; expected is one for each {}",
                   c.counts.size(), pairs ? "pair of ranks of the group" : "rank of the group");
      return;
    }
    const auto complete = [&](std::string_view key, std::vector<uint64_t>& places,
                              bool by_receiver) {
      if (places.empty()) {
        const size_t row = pairs ? ranks : wanted;
        for (size_t i = 0; i < wanted; ++i) {
          const size_t before = by_receiver ? (i % row - 1) * ranks + i / row : i - 1;
          places.push_back(i % row == 0 ? 0 : places.back() + c.counts[before]);
        }
      } else if (places.size() != wanted) {
        checker.fail(field.at(key), "has {} entries, \"counts\" has {}", places.size(), wanted);
      }
    };
    complete("displacements", c.displacements, false);
    if (pairs) complete("receive_displacements", c.receive_displacements, true);
  }

  // With groups the size is known now; without, only when the number of ranks is known.
  void check_sizes(JsonObject& field, const Collective& c) const {
    const CollectiveBytes bytes = collective_bytes(c, c.groups.empty() ? 1 : c.groups[0].size());
    const auto place = [&](uint32_t variable, uint64_t offset, const RowsOfSbuf& rows,
                           uint64_t wanted) {
      const Variable& v = subgraph_.variables[variable];
      return CollectivePlace{v.name, v.size, offset, rows, wanted};
    };
    const CollectivePlace input = place(c.input, c.input_offset, c.input_rows, bytes.input);
    const CollectivePlace output = place(c.output, c.output_offset, c.output_rows, bytes.output);
    const auto report = [&](std::string_view key, const std::optional<std::string>& problem) {
      if (problem) field.checker().fail(field.at(key), "{}", *problem);
      return !problem;
    };
    const uint64_t element = collective_type_bytes(c.type);
    if (report("input", check_place(input, element, generation_)) &&
        report("output", check_place(output, element, generation_))) {
      report("output", check_apart(input, output));
    }
  }

  const ModelLimits& limits_;
  const uint32_t generation_;
  Subgraph& subgraph_;
  std::unordered_map<std::string, uint32_t> variables_;
  std::set<std::vector<std::vector<uint32_t>>> group_lists_;
};

}  // namespace

void read_operations(JsonObject& top, const ModelLimits& limits, uint32_t generation,
                     Subgraph& subgraph) {
  const json::array* list = top.list("collectives", kMostCollectives);
  if (list == nullptr) return;
  const JsonPath where = top.at("collectives");
  Reader reader(limits, generation, subgraph);
  for (size_t i = 0; i < list->size() && top.checker().ok(); ++i) {
    JsonObject field(top.checker(), (*list)[i], &where, i);
    reader.read(field);
  }
}

CollectiveBytes collective_bytes(const Collective& c, uint64_t ranks) {
  const uint64_t one = c.count * collective_type_bytes(c.type);
  switch (c.operation) {
    case CCOM_ALL_GATHER:
    case CCOM_GATHER:
      return {one, one * ranks};
    case CCOM_REDUCE_SCATTER:
    case CCOM_SCATTER:
      return {one * ranks, one};
    case CCOM_ALL_TO_ALL:
      return {one * ranks, one * ranks};
    case CCOM_BARRIER:
      return {};
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
    case CCOM_ALL_TO_ALL_V: {
      const CollectiveBytes elements = variable_elements(c);
      const uint64_t width = collective_type_bytes(c.type);
      return {elements.input * width, elements.output * width};
    }
    default:
      return {one, one};
  }
}

const char* collective_name(ccom_operation_t operation) {
  return operation < std::size(kOperations) ? kOperations[operation] : "unknown";
}
const char* collective_type_name(ccom_type_t type) {
  return type < CCOM_TYPE_COUNT ? kTypes[type] : "unknown";
}
const char* collective_algorithm_name(ccom_algorithm_t algorithm) {
  return algorithm < CCOM_ALGORITHM_COUNT ? kAlgorithms[algorithm] : "unknown";
}
const char* collective_reduction_name(ccom_reduction_t reduction) {
  return reduction < CCOM_REDUCTION_COUNT ? kReductions[reduction] : "unknown";
}
uint64_t collective_type_bytes(ccom_type_t type) {
  return type < CCOM_TYPE_COUNT ? kBytes[type] : 1;
}

}  // namespace neuron::neff
