// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/execution.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "driver/base/thread_sanitizer.h"

namespace neuron::core {

Execution::Asked Execution::asked(const Sequencer& s) const {
  Asked asked;
  const uint64_t address = s.launch_address();
  const std::byte* memory =
      address == 0 ? nullptr : state_.bus.direct(address, sizeof(asked.record));
  if (memory == nullptr) return asked;
  asked.has_record = true;
  std::memcpy(&asked.record, memory, sizeof(asked.record));
  return asked;
}

void Execution::begin(const Asked& asked) {
  in_progress_ = true;
  time_limit_ = 0;
  work_record_ = 0;
  dma_bytes_ = link_bytes_ = 0;
  for (UnitContext& unit : state_.units) unit.multiply_accumulates = 0;
  const neuron_launch_record& record = asked.record;
  if (state_.strict) state_.strict->begin_execution(record.pair);
  if (!asked.has_record) return;
  time_limit_ = record.time_limit;
  work_record_ = record.work_record;
  for (Sequencer& engine : state_.sequencers) engine.exec_id = record.exec_id;
}

bool Execution::complete(Sequencer& s, uint32_t status, uint32_t pc, uint32_t debug,
                         ModelTime now) {
  for (Sequencer& engine : state_.sequencers) {
    if (engine.is_cc() && engine.state == NEURON_STATE_IDLE) continue;
    if (!engine.place.notifications->enabled(engine.place.trace_slot)) continue;
    chip::Notification entry;
    entry.kind = NEURON_NK_COMPLETE;
    entry.engine = static_cast<uint8_t>(engine.engine);
    entry.opcode = NEURON_OP_COMPLETE;
    entry.time = now;
    entry.pc = engine.pc;
    entry.debug = debug;
    entry.info = {static_cast<uint32_t>(engine.busy), static_cast<uint32_t>(engine.busy >> 32),
                  static_cast<uint32_t>(engine.retired - engine.launch_retired)};
    state_.record_trace(engine, entry);
  }
  return report(s, nullptr, status, pc, debug, now);
}

bool Execution::report(const Sequencer& s, const RecordPlace* place, uint32_t status, uint32_t pc,
                       uint32_t debug, ModelTime now) {
  in_progress_ = false;
  time_limit_ = 0;
  add_work(now);
  state_.post_records();  // whoever sees the record below finds them
  if (state_.watched != nullptr) state_.watched_before_report = state_.watched->size();
  return write_record(s, place != nullptr ? *place : record_place(s, true), status, pc, debug, 0,
                      now);
}

void Execution::fail(const Sequencer& s, uint32_t status, uint32_t pc, uint32_t debug,
                     uint64_t info, ModelTime now) {
  const bool was_executing = in_progress_;
  in_progress_ = false;
  state_.post_records();
  write_record(s, record_place(s, was_executing), status, pc, debug, info, now);
}

void Execution::disown() {
  if (!in_progress_) return;
  work_record_ = 0;
  for (Sequencer& s : state_.sequencers) s.done_lo = s.done_hi = s.launch_lo = s.launch_hi = 0;
}

void Execution::reset() {
  time_limit_ = 0;
  in_progress_ = false;
}

void Execution::add_work(ModelTime now) {
  if (work_record_ == 0 || work_record_ % 64 != 0) return;
  std::byte* memory = state_.bus.direct(work_record_, sizeof(neuron_work_record));
  if (memory == nullptr) return;
  auto& record = *reinterpret_cast<neuron_work_record*>(memory);
  // Plain: the host reads them behind the completion record, whose sequence is released.
  record.executions += 1;
  record.model_ps += now;
  ModelTime collectives = 0;
  for (const Sequencer& engine : state_.sequencers) {
    if (engine.is_cc()) {
      collectives = std::max(collectives, engine.busy);
    } else {
      record.engine_busy_ps[engine.engine] += engine.busy;
    }
  }
  record.collectives_ps += collectives;
  for (const UnitContext& unit : state_.units) {
    record.multiply_accumulates += unit.multiply_accumulates;
  }
  record.dma_bytes += dma_bytes_;
  record.link_bytes += link_bytes_;
  state_.bus.wrote({.address = work_record_,
                    .bytes = sizeof(record),
                    .kind = chip::HostWriteKind::kWork,
                    .core = static_cast<uint8_t>(state_.core)});
}

Execution::RecordPlace Execution::record_place(const Sequencer& s, bool executing) const {
  // An engine without a record of its own reports through the one that launches are reported in.
  uint64_t address = s.done_address();
  if (address == 0 && executing) address = state_.sequencers[NEURON_ENGINE_SP].done_address();
  const bool has_memory = address != 0 && address % sizeof(neuron_completion_record) == 0;
  return {address,
          has_memory ? state_.bus.direct(address, sizeof(neuron_completion_record)) : nullptr};
}

bool Execution::write_record(const Sequencer& s, const RecordPlace& place, uint32_t status,
                             uint32_t pc, uint32_t debug, uint64_t info, ModelTime now) const {
  const uint64_t address = place.address;
  if (address == 0) return true;
  if (place.is_missing()) {
    s.place.notifications->post_error(
        NEURON_FAULT_BUS, state_.access_of(s, now),
        {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32),
         sizeof(neuron_completion_record)},
        pc, debug, NEURON_OP_COMPLETE);
    return false;
  }
  auto* record = reinterpret_cast<neuron_completion_record*>(place.memory);
  record->status = status;
  record->start = 0;
  record->end = now;
  record->exec_id = s.exec_id;
  record->engine = static_cast<unsigned char>(s.engine);
  record->pc = pc;
  record->debug = debug;
  record->info = info;
  // Release: pairs with the acquire load by which the host polls `sequence`, so that it then sees
  // the rest of the record and everything the execution wrote.
  base::hand_to_other_processes();
  std::atomic_ref<unsigned int> sequence(record->sequence);
  sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  state_.bus.wrote({.address = address,
                    .bytes = sizeof(neuron_completion_record),
                    .kind = chip::HostWriteKind::kCompletion,
                    .core = static_cast<uint8_t>(state_.core),
                    .engine = static_cast<uint8_t>(s.engine)});
  return true;
}

}  // namespace neuron::core
