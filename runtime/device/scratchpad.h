// SPDX-License-Identifier: Apache-2.0
//
// The scratchpad of a core: memory for the variables of type virtual of all models on it. Models
// share it, because one of them runs at a time. It is as large as the largest model needs, in steps
// of 64 MiB. It grows when a model that needs more is loaded; the other models are then told the
// new address. It is freed with the last model that uses it. Contents last for one execution.
// Callers: loader, LoadedModel, holding the core's turn. Thread-safe: no. Owns the memory. Borrows
// its users, each of which leaves before it is destroyed.
// Fails: NRT_RESOURCE when HBM has no room for the old and the new scratchpad together; nothing has
// changed then.
#ifndef RUNTIME_DEVICE_SCRATCHPAD_H
#define RUNTIME_DEVICE_SCRATCHPAD_H

#include <memory>
#include <vector>

#include "runtime/device/device_memory.h"

namespace neuron::runtime {

class Core;

// A model that has variables in the scratchpad.
class ScratchpadUser {
 public:
  // The scratchpad lies at `address` from now on.
  virtual void move_scratchpad(uint64_t address) = 0;

 protected:
  ~ScratchpadUser() = default;
};

class Scratchpad {
 public:
  // Makes room for `size` bytes. Tells the user the address; tells all others if it has changed.
  Result<void> join(Core& core, ScratchpadUser& user, uint64_t size);
  void leave(ScratchpadUser& user);

  uint64_t size() const { return memory_ == nullptr ? 0 : memory_->size(); }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<ScratchpadUser*> users_;
};

}  // namespace neuron::runtime

#endif
