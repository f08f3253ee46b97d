// SPDX-License-Identifier: Apache-2.0
//
// Tensors by name: what an execution reads or writes. Holds handles, not tensors, so an execution
// that uses the set detects a freed tensor.
// Callers: the C interface, executor. Thread-safe: yes. `version` identifies the contents among all
// sets of the process: it changes with every change and is never used twice.
#ifndef RUNTIME_TENSOR_TENSOR_SET_H
#define RUNTIME_TENSOR_TENSOR_SET_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace neuron::runtime {

class TensorSet {
 public:
  TensorSet() : version_(next_version()) {}

  // Replaces the earlier tensor of that name.
  void put(std::string name, void* tensor);
  // Handle, or null.
  void* find(const std::string& name) const;

  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  static uint64_t next_version();

  mutable std::mutex mutex_;
  std::unordered_map<std::string, void*> tensors_;
  // Stored with release after the map has changed, loaded with acquire by the executor: an
  // unchanged version means unchanged contents.
  std::atomic<uint64_t> version_;
};

}  // namespace neuron::runtime

#endif
