// SPDX-License-Identifier: Apache-2.0
// 256 semaphores and 256 events of a core or TOPSP, with the aliases of hw/address_map.h.
//
// Concepts: a semaphore holds 0..2^31-1, an event 0 or 1. A change is refused if it would leave the
// range, set a set event or clear a clear one: the cell keeps its value and the caller gets the
// fault code. As a bus target: read and event cells read the value, so do the other aliases; a
// write to the read alias is refused; a write of a non-zero value sets an event, 0 clears it.
// Callers: any thread. Values are atomic and readable without a lock. `change` may be called from
// several threads; `change_exclusive` only by a caller that is the only writer (the thread that
// runs the core's execution group). A change through the bus tells the listener after the cell has
// its new value; the listener is called in the writer's thread.
#ifndef DRIVER_EMULATOR_CHIP_SEMAPHORES_H
#define DRIVER_EMULATOR_CHIP_SEMAPHORES_H

#include <array>
#include <atomic>
#include <cstdint>

#include "driver/emulator/chip/register_target.h"
#include "hw/address_map.h"
#include "hw/fault.h"
#include "hw/isa.h"

namespace neuron::chip {

struct SemaphoreChange {
  bool event = false;
  uint8_t index = 0;
  uint32_t before = 0;
  uint32_t after = 0;    // equals `before` if refused
  uint32_t operand = 0;  // as written
};

class SemaphoreListener {
 public:
  virtual ~SemaphoreListener() = default;
  virtual void semaphore_changed(const SemaphoreChange& change, const Access& access) = 0;
  // A write through the bus was refused with `fault`.
  virtual void semaphore_refused(neuron_fault fault, const SemaphoreChange& change,
                                 const Access& access) = 0;
};

class SemaphoreBlock : public RegisterTarget {
 public:
  SemaphoreBlock();

  // The listener outlives every access. Set while the chip is built.
  void set_listener(SemaphoreListener* listener) { listener_ = listener; }

  // Acquire: pairs with the release of every change below, so that a reader of a count also sees
  // the data that was written before it.
  uint32_t semaphore(unsigned index) const {
    return semaphores_[index & 255].load(std::memory_order_acquire);
  }
  uint32_t event(unsigned index) const {
    return events_[index & 255].load(std::memory_order_acquire);
  }
  uint32_t value(bool event, unsigned index) const {
    return event ? this->event(index) : semaphore(index);
  }

  // Applies an update operation (enum neuron_update_operation; NEURON_UPDATE_NONE does nothing).
  // Fills `change`, if given. Does not call the listener.
  neuron_fault change(neuron_update_operation operation, unsigned index, uint32_t operand,
                      SemaphoreChange* change = nullptr);
  neuron_fault change_exclusive(neuron_update_operation operation, unsigned index, uint32_t operand,
                                SemaphoreChange* change = nullptr);

  // Sets all cells to 0 without telling the listener.
  void reset();

  // Pure arithmetic of an update: the new value in `after`, or the fault (then after = before).
  static neuron_fault apply(neuron_update_operation operation, uint32_t before, uint32_t operand,
                            uint32_t& after);
  // Decodes a bus write to `offset` of the block: operation, index, operand. False: no such cell,
  // or it cannot be written. A core that defers foreign writes decodes them with this.
  static bool decode_write(uint64_t offset, uint32_t value, neuron_update_operation& operation,
                           unsigned& index, uint32_t& operand);
  // The value behind a readable offset of the block; false if there is none.
  bool peek(uint64_t offset, uint32_t& value) const;
  static bool is_event(neuron_update_operation operation) {
    return operation == NEURON_UPDATE_EVENT_SET || operation == NEURON_UPDATE_EVENT_CLEAR;
  }

 protected:
  bool accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) override;
  uint32_t read_word(uint64_t offset, const Access& access) override;
  void write_word(uint64_t offset, uint32_t value, const Access& access) override;

 private:
  std::array<std::atomic<uint32_t>, NEURON_SEMAPHORES> semaphores_;
  std::array<std::atomic<uint32_t>, NEURON_EVENTS> events_;
  SemaphoreListener* listener_ = nullptr;
};

}  // namespace neuron::chip

#endif
