// SPDX-License-Identifier: Apache-2.0
//
// A tensor: a range of a Storage with a name. No shape, no type: those belong to models.
// Callers: the C interface, executor. Thread-safe: yes, but callers order two calls that touch the
// same bytes. Owns a share of its storage; an empty tensor has none until a buffer is attached.
// Fails: NRT_INVALID for a range outside the tensor, or for an empty tensor, with tensor, range and
// size.
#ifndef RUNTIME_TENSOR_TENSOR_H
#define RUNTIME_TENSOR_TENSOR_H

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/tensor/completion.h"
#include "runtime/tensor/storage.h"

namespace neuron::runtime {

// What a tensor refers to at one moment.
struct TensorView {
  std::shared_ptr<Storage> storage;  // null: empty tensor
  uint64_t offset = 0;
  uint64_t size = 0;
};

class Tensor {
 public:
  Tensor(std::string name, TensorView view)
      : name_(std::move(name)),
        view_(std::move(view)),
        completions_(std::make_shared<CompletionCounter>()) {}

  const std::string& name() const { return name_; }
  TensorView view() const;
  uint64_t size() const;
  // Replaces the storage; slices keep the old one.
  void attach(void* buffer, uint64_t size);

  Result<void> write(const void* from, uint64_t offset, uint64_t size);
  Result<void> read(void* to, uint64_t offset, uint64_t size) const;
  Result<void> fill(uint64_t offset, uint64_t size, int value);
  static Result<void> copy(const Tensor& source, uint64_t source_offset, Tensor& target,
                           uint64_t target_offset, uint64_t size);
  // Checks a copy and returns the views of source and target, each from its offset on.
  static Result<std::pair<TensorView, TensorView>> plan_copy(const Tensor& source,
                                                             uint64_t source_offset,
                                                             const Tensor& target,
                                                             uint64_t target_offset, uint64_t size);
  Result<std::unique_ptr<Tensor>> slice(uint64_t offset, uint64_t size, std::string name) const;
  // NRT_INVALID unless [offset, offset + size) lies in the tensor and it has memory.
  Result<TensorView> range(const char* what, uint64_t offset, uint64_t size) const;

  const std::shared_ptr<CompletionCounter>& completions() const { return completions_; }

  // Set once the tensor is put into a set: from then on the executor is told of its changes.
  std::atomic<bool> in_set{false};

 private:
  std::string name_;
  mutable std::mutex mutex_;  // view_
  TensorView view_;
  std::shared_ptr<CompletionCounter> completions_;
};

}  // namespace neuron::runtime

#endif
