// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/fault_reporter.h"

#include <algorithm>

namespace neuron::core {
namespace {

bool is_memory_fault(unsigned code) {
  return (code >= NEURON_FAULT_BUS && code <= NEURON_FAULT_HBM_UE_REPAIRABLE) ||
         code == NEURON_FAULT_FETCH || code == NEURON_FAULT_CODE_WRITE;
}

// Faults about two instructions (hw/fault.h).
bool is_strict_fault(unsigned code) {
  return code == NEURON_FAULT_PSUM_UNDEFINED || code == NEURON_FAULT_PSUM_COLLISION ||
         (code >= NEURON_FAULT_DOMAIN && code <= NEURON_FAULT_RACE);
}

bool is_semaphore_fault(unsigned code) {
  return code >= NEURON_FAULT_SEM_OVERFLOW && code <= NEURON_FAULT_EVENT_DOUBLE;
}

// Which operand of a compute instruction a byte belongs to: 0 destination, 1 and 2 sources, 3 none.
uint32_t operand_at(unsigned offset, unsigned opcode) {
  const unsigned group = opcode >> 8;
  if (group < 2 || group > 5 || offset < NEURON_INST_DST) return 3;
  return std::min((offset - NEURON_INST_DST) / NEURON_OPERAND_BYTES, 3u);
}

std::array<uint32_t, 3> notification_info(const Fault& fault, unsigned opcode) {
  if (is_memory_fault(fault.code) || is_strict_fault(fault.code)) {
    return {static_cast<uint32_t>(fault.address), static_cast<uint32_t>(fault.address >> 32),
            fault.info};
  }
  if (fault.code == NEURON_FAULT_DMA_OOB || fault.code == NEURON_FAULT_INDEX_OOB ||
      fault.code == NEURON_FAULT_DMA_RING) {
    return {fault.info, fault.detail, static_cast<uint32_t>(fault.address)};
  }
  if (is_semaphore_fault(fault.code)) {
    return {static_cast<uint32_t>(fault.address), fault.info, fault.detail};
  }
  if (fault.code == NEURON_FAULT_CUSTOM_OPERATOR) {
    return {fault.detail, fault.info, static_cast<uint32_t>(fault.address)};
  }
  return {fault.offset | static_cast<uint32_t>(fault.rule) << 8 | fault.detail << 16, fault.info,
          operand_at(fault.offset, opcode)};
}

}  // namespace

void FaultReporter::raise(Sequencer& s, const Fault& fault, uint32_t pc, uint32_t debug,
                          uint16_t opcode, ModelTime now) {
  if (!s.fault_latched) {
    s.exception = fault;
    s.exception_pc = pc;
    s.exception_debug = debug;
    s.exception_opcode = opcode;
    s.fault_latched = true;
  }
  state_.stop(s, NEURON_STATE_FAULT);
  state_.faults |= 1u << s.place.actor;
  state_.post_records();  // what led to the fault
  // For a fault of one of its DMA queues the chip itself posts the notification.
  if (!fault.notified) {
    s.place.notifications->post_error(static_cast<neuron_fault>(fault.code),
                                      state_.access_of(s, now), notification_info(fault, opcode),
                                      pc, debug, opcode);
  }
  if ((state_.settings.mode & NEURON_CORE_MODE_STOP_ALL) != 0) stop_others(s);
  execution_.fail(s, fault.code, pc, debug, fault.address, now);
}

void FaultReporter::warn(Sequencer& s, neuron_fault code, uint32_t pc, uint32_t debug,
                         uint16_t opcode, std::array<uint32_t, 3> info, ModelTime now) {
  s.place.notifications->post_error(code, state_.access_of(s, now), info, pc, debug, opcode);
}

void FaultReporter::stop_others(const Sequencer& except) {
  for (Sequencer& other : state_.sequencers) {
    if (&other != &except && other.active()) state_.stop(other, NEURON_STATE_STOPPED);
  }
}

}  // namespace neuron::core
