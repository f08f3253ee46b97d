// SPDX-License-Identifier: Apache-2.0
// The tree of memory: devices, logical cores, models, and categories of memory.
#include <algorithm>

#include "tools/common/terminal.h"
#include "tools/neuron-top/model/rows.h"

namespace neuron::top {
namespace {

using telemetry::CoreMemory;
using telemetry::HostMemory;

struct Leaf {
  const char* text;
  uint64_t device_bytes, host_bytes;
};

std::vector<Leaf> leaves(const CoreMemory& core, const HostMemory& host) {
  return {{"Tensors", core.tensors, host.tensors},
          {"Constants", core.constants, host.constants},
          {"Model Code", core.model_code, 0},
          {"Runtime Memory", core.runtime_memory, 0},
          {"Model Scratchpad", core.model_shared_scratchpad, 0},
          {"DMA Buffers", 0, host.dma_buffers},
          {"App. Memory", 0, host.application_memory}};
}

void add(CoreMemory& sum, const CoreMemory& more) {
  sum.constants += more.constants;
  sum.model_code += more.model_code;
  sum.model_shared_scratchpad += more.model_shared_scratchpad;
  sum.runtime_memory += more.runtime_memory;
  sum.tensors += more.tensors;
}

uint64_t less(uint64_t from, uint64_t take) { return from > take ? from - take : 0; }

// The memory of a core beside its models, so that a parent is the sum of its children.
CoreMemory rest(const CoreMemory& all, const CoreMemory& models) {
  return {less(all.constants, models.constants), less(all.model_code, models.model_code),
          less(all.model_shared_scratchpad, models.model_shared_scratchpad),
          less(all.runtime_memory, models.runtime_memory), less(all.tensors, models.tensors)};
}

class Tree {
 public:
  explicit Tree(const Scope& scope) : scope_(scope) {}

  std::vector<TreeRow> build() {
    for (const telemetry::Device& device : scope_.now.devices) {
      const size_t start = rows_.size();
      const std::string key = "d" + std::to_string(device.index);
      const bool open = branch(key, 0, "ND " + std::to_string(device.index), true);
      uint64_t device_bytes = 0, host_bytes = 0;
      const unsigned size = std::max(1u, device.logical_size);
      for (unsigned core = 0; core * size < device.cores.size(); ++core) {
        const size_t at = rows_.size();
        add_core(device, core, size);
        device_bytes += rows_[at].device_bytes;
        host_bytes += rows_[at].host_bytes;
        if (!open) rows_.resize(at);
      }
      rows_[start].device_bytes = device_bytes;
      rows_[start].host_bytes = host_bytes;
    }
    if (!scope_.state.filter.empty()) keep_matching();
    for (TreeRow& row : rows_) row.selected = row.key == scope_.state.selected;
    return std::move(rows_);
  }

 private:
  bool branch(const std::string& key, unsigned depth, std::string text, bool by_default) {
    const bool open =
        by_default ? scope_.state.folded.count(key) == 0 : scope_.state.unfolded.count(key) != 0;
    TreeRow row;
    row.key = key;
    row.depth = depth;
    row.branch = true;
    row.open = open;
    row.text = std::move(text);
    rows_.push_back(std::move(row));
    return open;
  }

  void add_leaves(const std::string& parent, unsigned depth, const CoreMemory& core,
                  const HostMemory& host, bool dimmed) {
    for (const Leaf& leaf : leaves(core, host)) {
      if (leaf.device_bytes == 0 && leaf.host_bytes == 0) continue;
      TreeRow row;
      row.key = parent + "/" + leaf.text;
      row.depth = depth;
      row.text = leaf.text;
      row.device_bytes = leaf.device_bytes;
      row.host_bytes = leaf.host_bytes;
      row.dimmed = dimmed;
      rows_.push_back(std::move(row));
    }
  }

  void add_core(const telemetry::Device& device, unsigned core, unsigned size) {
    const std::string key = key_of_core(device.index, core);
    const size_t start = rows_.size();
    const bool open = branch(key, 1, "NC " + std::to_string(core), true);
    CoreMemory all, models;
    uint64_t models_host = 0;
    const auto here = [&](unsigned other, unsigned physical) {
      return other == device.index && physical / size == core;
    };
    for (const telemetry::Process* process : scope_.processes) {
      for (const telemetry::ProcessOnCore& place : process->cores) {
        if (here(place.device, place.physical_core)) add(all, place.memory);
      }
      for (const telemetry::LoadedModel& model : process->models) {
        if (!here(model.device, model.physical_core)) continue;
        add(models, model.core);
        models_host += model.host.total();
        add_model(*process, model, key);
      }
    }
    const CoreMemory beside = rest(all, models);
    add_leaves(key, 2, beside, HostMemory{}, false);
    rows_[start].device_bytes = models.total() + beside.total();
    rows_[start].host_bytes = models_host;
    if (!open) rows_.resize(start + 1);
  }

  void add_model(const telemetry::Process& process, const telemetry::LoadedModel& model,
                 const std::string& parent) {
    const std::string key = parent + "/" + std::to_string(process.pid) + ":" +
                            std::to_string(model.model_id) + ":" + std::to_string(model.subgraph);
    const size_t start = rows_.size();
    const bool open = branch(key, 2, tools::printable(model.name), scope_.state.models_open);
    rows_[start].model_id = std::to_string(model.model_id);
    rows_[start].dimmed = !model.running;
    rows_[start].device_bytes = model.core.total();
    rows_[start].host_bytes = model.host.total();
    if (open) add_leaves(key, 3, model.core, model.host, !model.running);
  }

  // Keeps rows that contain the filter, and their parents.
  void keep_matching() {
    std::vector<TreeRow> kept;
    unsigned wanted = 0;  // the depth below which a row is needed as a parent
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      const bool parent = row->depth < wanted;
      if (!parent && !passes(scope_.state.filter, row->text)) continue;
      wanted = row->depth;
      kept.push_back(std::move(*row));
    }
    rows_.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  const Scope& scope_;
  std::vector<TreeRow> rows_;
};

}  // namespace

std::string key_of_core(unsigned device, unsigned core) {
  return "d" + std::to_string(device) + "/c" + std::to_string(core);
}

std::vector<TreeRow> build_tree(const Scope& scope) { return Tree(scope).build(); }

}  // namespace neuron::top
