// SPDX-License-Identifier: Apache-2.0
//
// Maps the names of one subgraph to indices into its lists. Callers: readers of this folder.
// Thread-safe: const calls. Borrows the subgraph's strings, whose lists must not change meanwhile.
#ifndef RUNTIME_NEFF_SUBGRAPH_INDEX_H
#define RUNTIME_NEFF_SUBGRAPH_INDEX_H

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/neff/model.h"

namespace neuron::neff {

class SubgraphIndex {
 public:
  explicit SubgraphIndex(const Subgraph& subgraph) {
    fill(variables_, subgraph.variables);
    fill(queues_, subgraph.queues);
    fill(semaphores_, subgraph.semaphores);
    for (uint32_t i = 0; i < subgraph.queues.size(); ++i) {
      for (const std::string& name : subgraph.queues[i].instances) instances_.emplace(name, i);
    }
  }

  // kNoTarget if there is none.
  uint32_t variable(std::string_view name) const { return find(variables_, name); }
  uint32_t queue(std::string_view name) const { return find(queues_, name); }
  // The queue set that has an instance of this name.
  uint32_t instance(std::string_view name) const { return find(instances_, name); }
  uint32_t semaphore(std::string_view name) const { return find(semaphores_, name); }

 private:
  using Names = std::unordered_map<std::string_view, uint32_t>;

  template <class List>
  static void fill(Names& names, const List& list) {
    for (const auto& item : list) names.emplace(item.name, static_cast<uint32_t>(names.size()));
  }
  static uint32_t find(const Names& names, std::string_view name) {
    const auto found = names.find(name);
    return found == names.end() ? kNoTarget : found->second;
  }

  Names variables_;
  Names queues_;
  Names instances_;
  Names semaphores_;
};

}  // namespace neuron::neff

#endif
