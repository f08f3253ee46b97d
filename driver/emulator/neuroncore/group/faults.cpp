// SPDX-License-Identifier: Apache-2.0
// Faults of engines: latch, notify, record, stop the others; and the start and end of an execution.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "driver/emulator/neuroncore/group/execution_group.h"

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

// 0 destination, 1 and 2 sources, 3 none: which operand of a compute instruction a byte belongs to.
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
  return {fault.offset | static_cast<uint32_t>(fault.rule) << 8 | fault.detail << 16, fault.info,
          operand_at(fault.offset, opcode)};
}

}  // namespace

void ExecutionGroup::raise(Sequencer& s, const Fault& fault, uint32_t pc, uint32_t debug,
                           uint16_t opcode, ModelTime now) {
  if (!s.fault_latched) {
    s.exception = fault;
    s.exception_pc = pc;
    s.exception_debug = debug;
    s.exception_opcode = opcode;
    s.fault_latched = true;
  }
  stop(s, NEURON_STATE_FAULT);
  core_faults_ |= 1u << s.place.actor;
  // The chip notifies a fault of one of its DMA queues itself.
  if (!fault.notified) {
    s.place.notifications->post_error(static_cast<neuron_fault>(fault.code), access_of(s, now),
                                      notification_info(fault, opcode), pc, debug, opcode);
  }
  if ((core_mode_ & NEURON_CORE_MODE_STOP_ALL) != 0) stop_others(s);
  const bool was_executing = in_execution_;
  in_execution_ = false;
  write_record(s, fault.code, pc, debug, fault.address, now, was_executing);
}

void ExecutionGroup::warn(Sequencer& s, neuron_fault code, uint32_t pc, uint32_t debug,
                          uint16_t opcode, std::array<uint32_t, 3> info, ModelTime now) {
  s.place.notifications->post_error(code, access_of(s, now), info, pc, debug, opcode);
}

void ExecutionGroup::stop_others(const Sequencer& except) {
  for (Sequencer& other : sequencers_) {
    if (&other != &except && other.active()) stop(other, NEURON_STATE_STOPPED);
  }
}

// Semaphore 7 was consumed: from here until `complete` the host waits for this core.
void ExecutionGroup::begin_execution(Sequencer& s) {
  in_execution_ = true;
  time_limit_ = 0;
  work_record_ = 0;
  dma_bytes_ = link_bytes_ = 0;
  for (UnitContext& unit : units_) unit.multiply_accumulates = 0;
  const uint64_t address = s.launch_address();
  if (address == 0) return;
  neuron_launch_record record;
  const std::byte* memory = bus_.direct(address, sizeof(record));
  if (memory == nullptr) return;
  std::memcpy(&record, memory, sizeof(record));
  time_limit_ = record.time_limit;
  work_record_ = record.work_record;
  for (Sequencer& engine : sequencers_) engine.exec_id = record.exec_id;
}

void ExecutionGroup::add_work(ModelTime now) {
  if (work_record_ == 0 || work_record_ % 64 != 0) return;
  std::byte* memory = bus_.direct(work_record_, sizeof(neuron_work_record));
  if (memory == nullptr) return;
  auto& record = *reinterpret_cast<neuron_work_record*>(memory);
  // Plain: the host reads them behind the completion record, whose sequence is released.
  record.executions += 1;
  record.model_ps += now - launch_start_;
  ModelTime collectives = 0;
  for (const Sequencer& engine : sequencers_) {
    if (engine.is_cc())
      collectives = std::max(collectives, engine.busy);
    else
      record.engine_busy_ps[engine.engine] += engine.busy;
  }
  record.collectives_ps += collectives;
  for (const UnitContext& unit : units_) record.multiply_accumulates += unit.multiply_accumulates;
  record.dma_bytes += dma_bytes_;
  record.link_bytes += link_bytes_;
}

bool ExecutionGroup::write_record(const Sequencer& s, uint32_t status, uint32_t pc, uint32_t debug,
                                  uint64_t info, ModelTime now, bool executing) {
  // An engine without a record of its own reports through the one that launches are reported in.
  uint64_t address = s.done_address();
  if (address == 0 && executing) address = sequencers_[NEURON_ENGINE_SP].done_address();
  if (address == 0) return true;
  std::byte* memory = address % sizeof(neuron_completion_record) == 0
                          ? bus_.direct(address, sizeof(neuron_completion_record))
                          : nullptr;
  if (memory == nullptr) {
    s.place.notifications->post_error(
        NEURON_FAULT_BUS, access_of(s, now),
        {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32),
         sizeof(neuron_completion_record)},
        pc, debug, NEURON_OP_COMPLETE);
    return false;
  }
  auto* record = reinterpret_cast<neuron_completion_record*>(memory);
  record->status = status;
  record->start = launch_start_;
  record->end = now;
  record->exec_id = s.exec_id;
  record->engine = static_cast<unsigned char>(s.engine);
  record->pc = pc;
  record->debug = debug;
  record->info = info;
  // Release: pairs with the acquire load by which the host polls `sequence`, so that it then sees
  // the rest of the record and everything the execution wrote.
  std::atomic_ref<unsigned int> sequence(record->sequence);
  sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return true;
}

}  // namespace neuron::core
