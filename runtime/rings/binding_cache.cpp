// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/binding_cache.h"

#include <algorithm>

namespace neuron::runtime {

std::shared_ptr<const MatchedTensors> MatchMemo::find(uint64_t inputs, uint64_t outputs,
                                                      uint64_t epoch) {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.inputs == inputs && entry.outputs == outputs && entry.epoch == epoch) {
      return entry.tensors.lock();
    }
  }
  return nullptr;
}

void MatchMemo::keep(const std::shared_ptr<const MatchedTensors>& tensors) {
  std::lock_guard lock(mutex_);
  Entry fresh{tensors->inputs, tensors->outputs, tensors->epoch, tensors};
  for (Entry& entry : entries_) {
    if (entry.inputs == fresh.inputs && entry.outputs == fresh.outputs) {
      entry = std::move(fresh);
      return;
    }
  }
  entries_[next_++ % entries_.size()] = std::move(fresh);
}

Resolution* BindingCache::keep(Resolution resolution) {
  auto entry = std::make_unique<Resolution>(std::move(resolution));
  entry->used = ++clock_;
  if (resolutions_.size() < kResolutions) {
    resolutions_.push_back(std::move(entry));
    return resolutions_.back().get();
  }
  auto oldest = std::min_element(resolutions_.begin(), resolutions_.end(),
                                 [](const auto& a, const auto& b) { return a->used < b->used; });
  *oldest = std::move(entry);
  return oldest->get();
}

Binding* BindingCache::find_binding(const std::vector<uint64_t>& ports) {
  for (auto& binding : bindings_) {
    if (binding->ports == ports) {
      binding->used = ++clock_;
      return binding.get();
    }
  }
  return nullptr;
}

Binding* BindingCache::keep_binding(std::unique_ptr<Binding> binding, const Binding*& evicted) {
  evicted = nullptr;
  if (bindings_.size() >= kBindings) {
    auto oldest = std::min_element(bindings_.begin(), bindings_.end(),
                                   [](const auto& a, const auto& b) { return a->used < b->used; });
    evicted = oldest->get();
    std::erase_if(resolutions_, [&](const auto& entry) { return entry->binding == evicted; });
    bindings_.erase(oldest);
  }
  binding->used = ++clock_;
  binding->number = next_number_++;
  bindings_.push_back(std::move(binding));
  return bindings_.back().get();
}

}  // namespace neuron::runtime
