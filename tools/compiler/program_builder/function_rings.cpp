// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/function_rings.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "hw/address_map.h"

namespace neuron::builder {

namespace {

constexpr size_t kQueuesOfPrograms = NEURON_DMA_QUEUES - 2;  // Two are the driver's

}  // namespace

FunctionRings::FunctionRings(const Placement::Parts& parts, const std::vector<Node>& functions) {
  const auto& pool = parts.steps[NEURON_ENGINE_POOL];
  generates_ = std::any_of(pool.begin(), pool.end(), [](const Step& s) { return s.slot >= 0; });
  for (const Node& function : functions) list(function.body, function.block.function);
  if (function_of_.empty()) return;
  std::set<std::pair<uint32_t, std::string>> rings;
  for (size_t number = 0; number < parts.transfers.size(); ++number) {
    const auto function = function_of_.find(number);
    rings.emplace(function == function_of_.end() ? 0 : function->second,
                  parts.transfers[number].queue);
  }
  too_many_ = rings.size() + (generates_ ? 1 : 0) > kQueuesOfPrograms;
}

void FunctionRings::list(const std::vector<Node>& nodes, uint32_t function) {
  for (const Node& node : nodes) {
    const Step& step = node.item.step;
    if (node.kind == Node::Kind::kItem && step.transfer >= 0) {
      function_of_[static_cast<size_t>(step.transfer)] = function;
    }
    generates_ =
        generates_ || (node.kind == Node::Kind::kItem && node.item.moves && step.transfer < 0);
    list(node.body, function);
    list(node.otherwise, function);
  }
}

size_t FunctionRings::shared_queues(const std::vector<Transfer>& transfers,
                                    const std::vector<uint32_t>& levels) const {
  std::set<std::pair<std::string, uint32_t>> queues;
  for (const auto& [number, function] : function_of_) {
    queues.emplace(transfers[number].queue, levels[function]);
  }
  return queues.size();
}

void FunctionRings::gather(std::vector<Transfer>& transfers,
                           const std::vector<uint32_t>& levels) const {
  std::set<std::string> of_main;
  for (size_t number = 0; number < transfers.size(); ++number) {
    Transfer& transfer = transfers[number];
    if (function_of_.contains(number)) {
      transfer.queue = queue_name(transfer.engine, "functions", transfer.compute.priority);
    } else {
      of_main.insert(transfer.queue);
    }
  }
  const size_t others = shared_queues(transfers, levels) + (generates_ ? 1 : 0);
  if (of_main.size() + others <= kQueuesOfPrograms) return;
  for (size_t number = 0; number < transfers.size(); ++number) {
    Transfer& transfer = transfers[number];
    // The ring of what happens once does not go on with the others.
    if (function_of_.contains(number) || transfer.queue.ends_with(kOnceSuffix)) continue;
    transfer.queue = queue_name(transfer.engine, "main", transfer.compute.priority);
  }
}

}  // namespace neuron::builder
