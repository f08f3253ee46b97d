// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/waits.h"

#include <algorithm>
#include <bit>

namespace neuron::core {
namespace {

int32_t wanted_value(const Sequencer& s, const isa::Wait& wait) {
  return static_cast<int32_t>(wait.is_register ? s.registers[wait.value % NEURON_REGISTERS]
                                               : wait.value);
}

}  // namespace

bool Waits::holds(const Sequencer& s, const isa::Wait& wait) const {
  if (wait.condition == NEURON_WAIT_NONE) return true;
  const auto value = static_cast<int32_t>(s.place.semaphores->value(wait.event, wait.index));
  const int32_t wanted = wanted_value(s, wait);
  switch (wait.condition) {
    case NEURON_WAIT_GE:
      return value >= wanted;
    case NEURON_WAIT_EQ:
      return value == wanted;
    case NEURON_WAIT_GT:
      return value > wanted;
    case NEURON_WAIT_LE:
      return value <= wanted;
    case NEURON_WAIT_LT:
      return value < wanted;
    default:
      return value != wanted;
  }
}

// Since when a wait has held, by the clock of the actor that made it hold.
Stamp Waits::held_from(const Sequencer& s, const isa::Wait& wait, ModelTime now) const {
  if (wait.condition == NEURON_WAIT_NONE) return {};
  return s.place.arrivals->held_from(wait, s.place.semaphores->value(wait.event, wait.index),
                                     wanted_value(s, wait),
                                     {now, static_cast<uint8_t>(s.place.actor)});
}

uint32_t Waits::last_cell(const Sequencer& s, const isa::Instruction& i) {
  const bool second = i.wait[0].condition == NEURON_WAIT_NONE ||
                      (i.wait[1].condition != NEURON_WAIT_NONE && s.held_from[1] > s.held_from[0]);
  const isa::Wait& wait = i.wait[second ? 1 : 0];
  return wait.index | (wait.event ? 256u : 0u);
}

bool Waits::must_wait_for_arrival(Sequencer& s, const CachedInstruction& entry, ModelTime now) {
  const auto& waits = entry.decoded.wait;
  const std::array<Stamp, 2> from = {held_from(s, waits[0], now), held_from(s, waits[1], now)};
  const ModelTime held = std::max(from[0].time, from[1].time);
  if (held == 0) return false;
  s.held_from = {from[0].time, from[1].time};
  begin_waiting(s, now);
  s.issue_at = held + kSemaphoreLatency;
  return true;
}

void Waits::begin(Sequencer& s, const CachedInstruction& entry, ModelTime now) {
  begin_waiting(s, now);
  s.issue_at = kNever;
  for (unsigned n = 0; n < s.held_from.size(); ++n) {
    const isa::Wait& wait = entry.decoded.wait[n];
    s.held[n] = holds(s, wait);
    s.held_from[n] = s.held[n] ? held_from(s, wait, now).time : 0;
    if (wait.condition == NEURON_WAIT_NONE || s.is_cc()) continue;
    waiters_of(wait) |= static_cast<uint8_t>(1u << s.engine);
  }
}

void Waits::end(Sequencer& s, const isa::Instruction& i) {
  if (s.is_cc()) return;
  for (const isa::Wait& wait : i.wait) {
    waiters_of(wait) &= static_cast<uint8_t>(~(1u << s.engine));
  }
}

void Waits::wake(unsigned block, bool event, unsigned index, ModelTime now) {
  if (block != 0) return wake_one(state_.sequencers[kEngines + block - 1], event, index, now);
  unsigned mask = event ? event_waiters_[index] : semaphore_waiters_[index];
  for (; mask != 0; mask &= mask - 1) {
    wake_one(state_.sequencers[static_cast<unsigned>(std::countr_zero(mask))], event, index, now);
  }
}

// A sequencer whose waits already held when it began to wait resumes at that time.
void Waits::wake_one(Sequencer& s, bool event, unsigned index, ModelTime now) {
  if (s.state != NEURON_STATE_WAITING || s.issue_at != kNever || s.current == nullptr) return;
  if (s.dma_wait || state_.resumes(s)) return;
  const isa::Instruction& i = s.current->decoded;
  bool all = true;
  for (unsigned n = 0; n < i.wait.size(); ++n) {
    const isa::Wait& wait = i.wait[n];
    if (wait.condition == NEURON_WAIT_NONE) continue;
    const bool held = holds(s, wait);
    all = all && held;
    if (wait.index != index || wait.event != event) continue;
    // A wait that holds already has held since then: a later unit of the same semaphore, while the
    // other wait does not hold yet, changes nothing.
    if (held && !s.held[n]) {
      s.held_from[n] = std::max(now, held_from(s, wait, s.wait_since).time);
    }
    s.held[n] = held;
  }
  if (!all) return;
  const ModelTime held = std::max(s.held_from[0], s.held_from[1]);
  s.issue_at = held < s.wait_since ? s.wait_since : held + kSemaphoreLatency;
  state_.scheduler.schedule(s);
  state_.scheduler.set_runnable();
}

// True if a CC core waits for a semaphore of its program, or an engine for one of collectives or of
// the other core of a pair (8-15). Such an update comes from another group, or never, which only a
// deadline can find.
bool Waits::await_peers() const {
  for (unsigned n = 0; n < state_.scheduler.sequencers_in_use(); ++n) {
    const Sequencer& s = state_.sequencers[n];
    if (s.state != NEURON_STATE_WAITING || s.dma_wait || s.current == nullptr) continue;
    if (s.issue_at != kNever || state_.resumes(s)) continue;
    // A CC core whose collective has not begun waits for its own program first.
    const auto has_not_begun = [&](const isa::Wait& wait) {
      return wait.condition != NEURON_WAIT_NONE && wait.index == NEURON_CC_SEM_GO &&
             !holds(s, wait);
    };
    const auto& waits = s.current->decoded.wait;
    if (s.is_cc() && std::any_of(waits.begin(), waits.end(), has_not_begun)) continue;
    for (const isa::Wait& wait : waits) {
      const bool of_peers =
          s.is_cc() ? wait.index >= NEURON_CC_SEM_PROGRAM_FIRST
                    : wait.index >= NEURON_SEM_CC_FIRST ||
                          (wait.index > NEURON_SEM_LAUNCH && wait.index < NEURON_SEM_PROGRAM_FIRST);
      if (of_peers && wait.condition != NEURON_WAIT_NONE && !holds(s, wait)) return true;
    }
  }
  return false;
}

void Waits::reset() {
  semaphore_waiters_.fill(0);
  event_waiters_.fill(0);
}

}  // namespace neuron::core
