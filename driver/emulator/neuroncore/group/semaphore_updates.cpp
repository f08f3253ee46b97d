// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/semaphore_updates.h"

#include <algorithm>

namespace neuron::core {
namespace {

uint32_t cell_number(const chip::SemaphoreChange& change, unsigned index) {
  return index | (change.event ? 256u : 0u);
}

}  // namespace

void SemaphoreUpdates::note(ArrivalTimes& arrivals, neuron_update_operation operation,
                            const chip::SemaphoreChange& change, uint32_t operand,
                            const Stamp& stamp) {
  arrivals.note(operation, ArrivalTimes::cell_of(change.event, change.index), operand,
                change.before, stamp);
  if (!arrivals.is_crowded()) [[likely]] {
    return;
  }
  ModelTime earliest = kNever;
  for (unsigned n = 0; n < state_.scheduler.sequencers_in_use(); ++n) {
    const Sequencer& s = state_.sequencers[n];
    if (!s.active()) continue;
    const ModelTime waits = s.state == NEURON_STATE_WAITING ? s.wait_since : kNever;
    earliest = std::min({earliest, waits, s.next_event()});
  }
  arrivals.forget_before(std::min(earliest, state_.now()));
}

void SemaphoreUpdates::write(unsigned block, uint64_t at, uint32_t value,
                             const chip::Access& access, UpdateSource source) {
  neuron_update_operation operation = NEURON_UPDATE_NONE;
  unsigned index = 0;
  uint32_t operand = 0;
  if (!chip::SemaphoreBlock::decode_write(at, value, operation, index, operand)) return;
  chip::SemaphoreChange change;
  const neuron_fault fault =
      state_.semaphores_of(block).change_exclusive(operation, index, operand, &change);
  if (fault != NEURON_FAULT_NONE) return refuse(block, fault, change, access);
  const Stamp stamp = source == UpdateSource::kOtherGroup ? Stamp{access.time, Stamp::kOtherGroup}
                      : source == UpdateSource::kGroup
                          ? Stamp{access.time, static_cast<uint8_t>(state_.scheduler.acting())}
                          : Stamp{};
  note(state_.arrivals[block], operation, change, operand, stamp);
  if (state_.notifications_of(block).enabled(NEURON_NQ_SLOT_SEMAPHORE)) {
    chip::Notification entry;
    entry.kind = NEURON_NK_SEMAPHORE;
    entry.engine = access.engine;
    entry.time = access.time;
    if (access.engine == NEURON_ENGINE_DMA && gate_.inside()) entry.pc = state_.served_queue;
    entry.info = {cell_number(change, change.index), change.after, change.before};
    state_.record(block, NEURON_NQ_SLOT_SEMAPHORE, entry);
  }
  if (strict_.is_on() && block == 0) strict_.semaphore(change, access);
  waits_.wake(block, change.event, change.index, access.time);
}

void SemaphoreUpdates::refuse(unsigned block, neuron_fault fault,
                              const chip::SemaphoreChange& change, const chip::Access& access) {
  const uint32_t cell = cell_number(change, change.index);
  state_.notifications_of(block).post_error(fault, access, {cell, change.before, change.operand});
  // A refused update by this core's running execution is as fatal as one by an instruction.
  if (!gate_.inside() || access.core != state_.core || access.engine > NEURON_ENGINE_CC) return;
  Sequencer& s = state_.sequencers[state_.owner_of(access)];
  if (!s.active()) return;
  Fault f = make_fault(fault, cell, change.before);
  f.detail = change.operand;
  faults_.raise(s, f, s.pc, 0, 0, access.time);
  state_.scheduler.schedule(s);
}

bool SemaphoreUpdates::apply(Sequencer& s, const PendingUpdate& update, ModelTime now) {
  const auto operation = static_cast<neuron_update_operation>(update.update.operation);
  const unsigned index = update.update.index;
  chip::SemaphoreChange change;
  const neuron_fault fault =
      s.place.semaphores->change_exclusive(operation, index, update.operand, &change);
  if (fault != NEURON_FAULT_NONE) [[unlikely]] {
    Fault refused = make_fault(fault, cell_number(change, index), change.before);
    refused.detail = update.operand;
    faults_.raise(s, refused, update.pc, update.debug, update.opcode, now);
    return false;
  }
  note(*s.place.arrivals, operation, change, update.operand,
       {now, static_cast<uint8_t>(s.place.actor)});
  if (strict_.observes(s)) {
    state_.strict->clocks().release(s.engine, update.tick,
                                    index + (change.event ? NEURON_SEMAPHORES : 0));
    strict_.consumed(change);
  }
  if (s.place.notifications->enabled(NEURON_NQ_SLOT_SEMAPHORE)) [[unlikely]] {
    chip::Notification entry;
    entry.kind = NEURON_NK_SEMAPHORE;
    entry.engine = static_cast<uint8_t>(s.engine);
    entry.code = static_cast<uint8_t>(operation | (update.update.at_complete ? 8 : 0));
    entry.opcode = update.opcode;
    entry.time = now;
    entry.pc = update.pc;
    entry.debug = update.debug;
    entry.info = {cell_number(change, index), change.after, change.before};
    state_.record(s.is_cc() ? s.place.actor - kEngines + 1 : 0, NEURON_NQ_SLOT_SEMAPHORE, entry);
  }
  if (!change.event && !s.is_cc() && index == NEURON_SEM_LAUNCH && change.after < change.before) {
    execution_.begin(execution_.asked(s));
  }
  waits_.wake(s.is_cc() ? s.place.actor - kEngines + 1 : 0, change.event, index, now);
  return true;
}

}  // namespace neuron::core
