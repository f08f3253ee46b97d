// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/binding.h"

#include <algorithm>

namespace neuron::runtime {

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

Binding* BindingCache::find_binding(const std::vector<std::uint64_t>& ports) {
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
