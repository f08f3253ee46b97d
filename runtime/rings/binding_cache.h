// SPDX-License-Identifier: Apache-2.0
//
// Bindings: a model's rings for one set of tensor addresses, and the map from tensor sets to
// bindings.
// Two levels: a known pair of set versions names its binding at once (the launch path: no names, no
// allocation). An unknown pair is matched by names; its addresses then find or make the binding.
// Callers: executor, holding the core's turn. Thread-safe: no, but for the memo. Owns rings and
// staging memory; the least recently used are evicted when there are too many.
#ifndef RUNTIME_RINGS_BINDING_CACHE_H
#define RUNTIME_RINGS_BINDING_CACHE_H

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/rings/descriptor_rings.h"
#include "runtime/tensor/completion.h"
#include "runtime/tensor/tensor.h"

namespace neuron::runtime {

struct Binding {
  std::vector<uint64_t> ports;  // address of each input and output
  std::unique_ptr<DescriptorRings> rings;
  std::unique_ptr<DescriptorRings> second_rings;  // of the model's part on a second physical core
  uint32_t number = 0;
  uint64_t used = 0;
};

// A tensor that the device cannot reach: its bytes travel through device memory of the model.
struct StagedTensor {
  std::shared_ptr<Storage> storage;
  uint64_t offset = 0;
  uint64_t size = 0;
  DeviceMemory* staging = nullptr;
};

// The tensors that two sets named at one moment. It keeps their memory alive even if tensors and
// sets are freed. Constant once made.
struct MatchedTensors {
  uint64_t inputs = 0;  // versions of the sets
  uint64_t outputs = 0;
  uint64_t epoch = 0;
  std::vector<TensorView> ports;  // in the order of the model's ports
  std::vector<std::shared_ptr<CompletionCounter>> written;
};

// The last matches of a model that are still held somewhere: for threads without the core's turn.
// Thread-safe: yes. Owns nothing.
class MatchMemo {
 public:
  std::shared_ptr<const MatchedTensors> find(uint64_t inputs, uint64_t outputs, uint64_t epoch);
  void keep(const std::shared_ptr<const MatchedTensors>& tensors);

 private:
  struct Entry {
    uint64_t inputs = 0;
    uint64_t outputs = 0;
    uint64_t epoch = 0;
    std::weak_ptr<const MatchedTensors> tensors;
  };
  std::mutex mutex_;  // all below
  std::array<Entry, 4> entries_;
  unsigned next_ = 0;
};

// The binding that a pair of tensor sets names.
struct Resolution {
  uint64_t inputs = 0;  // versions of the sets
  uint64_t outputs = 0;
  uint64_t epoch = 0;
  Binding* binding = nullptr;
  std::vector<std::shared_ptr<CompletionCounter>> written;
  std::vector<StagedTensor> before;
  std::vector<StagedTensor> after;
  uint64_t used = 0;
};

class BindingCache {
 public:
  static constexpr size_t kResolutions = 16;
  static constexpr size_t kBindings = 64;

  Resolution* find(uint64_t inputs, uint64_t outputs, uint64_t epoch) {
    for (auto& entry : resolutions_) {
      if (entry->inputs == inputs && entry->outputs == outputs && entry->epoch == epoch) {
        entry->used = ++clock_;
        return entry.get();
      }
    }
    return nullptr;
  }
  // Keeps it in place of the least recently used one.
  Resolution* keep(Resolution resolution);

  Binding* find_binding(const std::vector<uint64_t>& ports);
  // `evicted`: the binding that was dropped, whose address may be used again; or null.
  Binding* keep_binding(std::unique_ptr<Binding> binding, const Binding*& evicted);

  // To be called after the addresses of the model's own variables have changed.
  void forget() {
    resolutions_.clear();
    bindings_.clear();
  }

  MatchMemo memo;
  // Staging memory of each input and output, made on first use.
  std::vector<std::unique_ptr<DeviceMemory>> staging;

 private:
  std::vector<std::unique_ptr<Resolution>> resolutions_;
  std::vector<std::unique_ptr<Binding>> bindings_;
  uint64_t clock_ = 0;
  uint32_t next_number_ = 1;
};

}  // namespace neuron::runtime

#endif
