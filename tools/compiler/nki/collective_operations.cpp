// SPDX-License-Identifier: Apache-2.0
// Calls of nki.collectives: operations between the ranks that execute programs of one trace each.
#include <algorithm>

#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::CollectiveOptions;
using builder::Engine;
using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kMostRanks = 4096;

struct Named {
  const char* name;
  ccom_operation_t operation;
};
constexpr Named kCollectives[] = {{"all_reduce", CCOM_ALL_REDUCE},
                                  {"all_gather", CCOM_ALL_GATHER},
                                  {"reduce_scatter", CCOM_REDUCE_SCATTER},
                                  {"all_to_all", CCOM_ALL_TO_ALL},
                                  {"collective_permute", CCOM_PERMUTE}};

Result<ccom_reduction_t> reduction_of(Record& record) {
  const std::string name = record.text_or("alu", "add");
  NEURON_CHECK(record.result());
  if (name == "add") return CCOM_ADD;
  if (name == "maximum") return CCOM_MAX;
  if (name == "minimum") return CCOM_MIN;
  return fail(NRT_INVALID, "ranks are reduced with add, maximum or minimum, found {}", name);
}

// Rows of `width` numbers, one behind the other.
std::vector<std::vector<uint32_t>> rows(const std::vector<uint64_t>& numbers, uint64_t width) {
  std::vector<std::vector<uint32_t>> result;
  for (size_t i = 0; width != 0 && i + width <= numbers.size(); i += width) {
    result.emplace_back(numbers.begin() + static_cast<ptrdiff_t>(i),
                        numbers.begin() + static_cast<ptrdiff_t>(i + width));
  }
  return result;
}

Result<void> collective(Context& context, Record& record) {
  const Operand to = record.operand("dst"), from = record.operand("src");
  const std::string name = record.text("operation");
  const auto members = record.counts("members", kMostRanks);
  const uint64_t size = record.count("group_size", kMostRanks);
  const auto pairs = record.counts_or_none("pairs", 2 * kMostRanks);
  NEURON_CHECK(record.result());
  const auto* found = std::find_if(std::begin(kCollectives), std::end(kCollectives),
                                   [&](const Named& named) { return name == named.name; });
  if (found == std::end(kCollectives)) {
    return fail(NRT_INVALID, "\"{}\" is no collective operation", name);
  }
  if (size == 0 || members.size() % size != 0) {
    return fail(NRT_INVALID, "{} ranks are no groups of {}", members.size(), size);
  }
  if (pairs.size() % 2 != 0) {
    return fail(NRT_INVALID, "pairs has {} ranks; expected a source and a target in turn",
                pairs.size());
  }
  for (const auto& ranks : {members, pairs}) {
    const auto large =
        std::find_if(ranks.begin(), ranks.end(), [](uint64_t rank) { return rank > UINT32_MAX; });
    if (large != ranks.end()) return fail(NRT_INVALID, "there is no rank {}", *large);
  }
  CollectiveOptions options;
  NEURON_TRY(reduction, reduction_of(record));
  options.reduction = reduction;
  options.groups = rows(members, size);
  options.group_size = static_cast<uint32_t>(size);
  for (const auto& pair : rows(pairs, 2)) options.pairs.push_back({pair[0], pair[1]});
  NEURON_TRY(target, context.memory.side(to, true));
  NEURON_TRY(source, context.memory.side(from, false));
  context.program.collective(Engine::kPool, found->operation, target, source, options);
  return {};
}

}  // namespace

Operation find_collective_operation(std::string_view name) {
  return name == "collective" ? collective : nullptr;
}

}  // namespace neuron::nki
