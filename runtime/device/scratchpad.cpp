// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/scratchpad.h"

#include "runtime/device/core.h"

namespace neuron::runtime {

Result<void> Scratchpad::join(Core& core, ScratchpadUser& user, uint64_t size) {
  constexpr uint64_t kStep = 64ull << 20;
  const bool grows = this->size() < size;
  if (grows) {
    NEURON_TRY(memory, DeviceMemory::allocate(core.device(),
                                              {.size = (size + kStep - 1) / kStep * kStep,
                                               .core = core.number(),
                                               .category = NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE,
                                               .purpose = "the scratchpad that models share"}));
    // Resident programs contain the old address.
    if (core.current_model != nullptr) NEURON_CHECK(core.halt());
    memory_ = std::move(memory);
  }
  users_.push_back(&user);
  for (ScratchpadUser* other : users_) {
    if (grows || other == &user) other->move_scratchpad(memory_->address());
  }
  return {};
}

void Scratchpad::leave(ScratchpadUser& user) {
  std::erase(users_, &user);
  if (users_.empty()) memory_.reset();
}

}  // namespace neuron::runtime
