// SPDX-License-Identifier: Apache-2.0
//
// The scratchpad of a core: memory for the variables of type virtual of all models on it, which
// share it, since one of them runs at a time. As large as the largest needs, in steps of 64 MiB;
// it grows when a model that needs more is loaded, whereupon the others are told the new place, and
// goes with the last model that uses it. Contents last for one execution.
// Callers: loader, LoadedModel, holding the core's turn. Thread-safe: no. Owns the memory, borrows
// the models, each of which leaves before it dies.
// Fails: NRT_RESOURCE when HBM is short while old and new are both there; nothing has changed then.
#ifndef RUNTIME_MODEL_SCRATCHPAD_H
#define RUNTIME_MODEL_SCRATCHPAD_H

#include <memory>
#include <vector>

#include "runtime/device/device_memory.h"

namespace neuron::runtime {

class Core;
class LoadedModel;

class Scratchpad {
 public:
  // Makes room for `size` bytes and tells the model, and whoever else is concerned, the address.
  Result<void> join(Core& core, LoadedModel& model, uint64_t size);
  void leave(LoadedModel& model);

  uint64_t size() const { return memory_ == nullptr ? 0 : memory_->size(); }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<LoadedModel*> users_;
};

}  // namespace neuron::runtime

#endif
