// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/tensor_set.h"

namespace neuron::runtime {

uint64_t TensorSet::next_version() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void TensorSet::put(std::string name, void* tensor) {
  std::lock_guard lock(mutex_);
  tensors_[std::move(name)] = tensor;
  version_.store(next_version(), std::memory_order_release);
}

void* TensorSet::find(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace neuron::runtime
