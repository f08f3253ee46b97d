// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/semaphores.h"

namespace neuron::chip {

SemaphoreBlock::SemaphoreBlock() { reset(); }

void SemaphoreBlock::reset() {
  for (auto& cell : semaphores_) cell.store(0, std::memory_order_release);
  for (auto& cell : events_) cell.store(0, std::memory_order_release);
}

neuron_fault SemaphoreBlock::apply(neuron_update_operation operation, uint32_t before,
                                   uint32_t operand, uint32_t& after) {
  constexpr uint32_t kMax = NEURON_SEMAPHORE_MAX;
  after = before;
  switch (operation) {
    case NEURON_UPDATE_NONE:
      return NEURON_FAULT_NONE;
    case NEURON_UPDATE_INC:
      operand = 1;
      [[fallthrough]];
    case NEURON_UPDATE_ADD:
      if (operand > kMax - before) return NEURON_FAULT_SEM_OVERFLOW;
      after = before + operand;
      return NEURON_FAULT_NONE;
    case NEURON_UPDATE_DEC:
      operand = 1;
      [[fallthrough]];
    case NEURON_UPDATE_SUB:
      if (operand > before) return NEURON_FAULT_SEM_UNDERFLOW;
      after = before - operand;
      return NEURON_FAULT_NONE;
    case NEURON_UPDATE_WRITE:
      if (operand > kMax) return NEURON_FAULT_SEM_OVERFLOW;
      after = operand;
      return NEURON_FAULT_NONE;
    case NEURON_UPDATE_EVENT_SET:
      if (before != 0) return NEURON_FAULT_EVENT_DOUBLE;
      after = 1;
      return NEURON_FAULT_NONE;
    case NEURON_UPDATE_EVENT_CLEAR:
      if (before == 0) return NEURON_FAULT_EVENT_DOUBLE;
      after = 0;
      return NEURON_FAULT_NONE;
  }
  return NEURON_FAULT_ILLEGAL_FIELD;
}

neuron_fault SemaphoreBlock::change(neuron_update_operation operation, unsigned index,
                                    uint32_t operand, SemaphoreChange* change) {
  const bool event = is_event(operation);
  std::atomic<uint32_t>& cell = event ? events_[index & 255] : semaphores_[index & 255];
  uint32_t before = cell.load(std::memory_order_relaxed);
  uint32_t after = before;
  neuron_fault fault = NEURON_FAULT_NONE;
  do {
    fault = apply(operation, before, operand, after);
    // Release: pairs with the acquire loads in semaphore() and event().
  } while (fault == NEURON_FAULT_NONE &&
           !cell.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                       std::memory_order_relaxed));
  if (change != nullptr) *change = {event, static_cast<uint8_t>(index), before, after, operand};
  return fault;
}

neuron_fault SemaphoreBlock::change_exclusive(neuron_update_operation operation, unsigned index,
                                              uint32_t operand, SemaphoreChange* change) {
  const bool event = is_event(operation);
  std::atomic<uint32_t>& cell = event ? events_[index & 255] : semaphores_[index & 255];
  const uint32_t before = cell.load(std::memory_order_relaxed);
  uint32_t after = before;
  const neuron_fault fault = apply(operation, before, operand, after);
  // Release: pairs with the acquire loads in semaphore() and event().
  if (fault == NEURON_FAULT_NONE) cell.store(after, std::memory_order_release);
  if (change != nullptr) *change = {event, static_cast<uint8_t>(index), before, after, operand};
  return fault;
}

bool SemaphoreBlock::decode_write(uint64_t offset, uint32_t value,
                                  neuron_update_operation& operation, unsigned& index,
                                  uint32_t& operand) {
  index = offset / 4 & 255;
  operand = value;
  switch (offset / 0x400) {
    case NEURON_SEM_BLOCK_EVENT / 0x400:
      operation = value != 0 ? NEURON_UPDATE_EVENT_SET : NEURON_UPDATE_EVENT_CLEAR;
      return true;
    case NEURON_SEM_BLOCK_SET / 0x400:
      operation = NEURON_UPDATE_WRITE;
      return true;
    case NEURON_SEM_BLOCK_INC / 0x400:
      operation = NEURON_UPDATE_ADD;
      return true;
    case NEURON_SEM_BLOCK_DEC / 0x400:
      operation = NEURON_UPDATE_SUB;
      return true;
    default:
      return false;
  }
}

bool SemaphoreBlock::peek(uint64_t offset, uint32_t& value) const {
  if (offset < NEURON_SEM_BLOCK_EVENT + 4 * NEURON_EVENTS) {
    value = event(offset / 4);
    return true;
  }
  if (offset < NEURON_SEM_BLOCK_READ || offset >= NEURON_SEM_BLOCK_SIZE) return false;
  value = semaphore(offset / 4 & 255);
  return true;
}

bool SemaphoreBlock::accepts(uint64_t offset, uint64_t bytes, bool write, const Access&) {
  const uint64_t last = offset + bytes - 1;
  if (offset < NEURON_SEM_BLOCK_EVENT + 4 * NEURON_EVENTS) {
    return last < NEURON_SEM_BLOCK_EVENT + 4 * NEURON_EVENTS;
  }
  return offset >= (write ? NEURON_SEM_BLOCK_SET : NEURON_SEM_BLOCK_READ) &&
         last < NEURON_SEM_BLOCK_SIZE;
}

uint32_t SemaphoreBlock::read_word(uint64_t offset, const Access&) {
  uint32_t value = 0;
  peek(offset, value);
  return value;
}

void SemaphoreBlock::write_word(uint64_t offset, uint32_t value, const Access& access) {
  neuron_update_operation operation = NEURON_UPDATE_NONE;
  unsigned index = 0;
  uint32_t operand = 0;
  if (!decode_write(offset, value, operation, index, operand)) return;
  SemaphoreChange done;
  const neuron_fault fault = change(operation, index, operand, &done);
  if (listener_ == nullptr) return;
  if (fault != NEURON_FAULT_NONE) {
    listener_->semaphore_refused(fault, done, access);
  } else {
    listener_->semaphore_changed(done, access);
  }
}

}  // namespace neuron::chip
