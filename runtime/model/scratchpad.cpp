// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/scratchpad.h"

#include <algorithm>

#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

Result<void> Scratchpad::join(Core& core, LoadedModel& model, uint64_t size) {
  constexpr uint64_t kStep = 64ull << 20;
  const bool grows = this->size() < size;
  if (grows) {
    NEURON_TRY(memory, DeviceMemory::allocate(core.device(),
                                              {.size = (size + kStep - 1) / kStep * kStep,
                                               .core = core.number(),
                                               .category = NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE,
                                               .purpose = "the scratchpad that models share"}));
    // Resident programs name the old place.
    if (core.current_model != nullptr) NEURON_CHECK(core.halt());
    memory_ = std::move(memory);
  }
  users_.push_back(&model);
  for (LoadedModel* user : users_) {
    if (grows || user == &model) user->move_scratchpad(memory_->address());
  }
  return {};
}

void Scratchpad::leave(LoadedModel& model) {
  std::erase(users_, &model);
  if (users_.empty()) memory_.reset();
}

}  // namespace neuron::runtime
