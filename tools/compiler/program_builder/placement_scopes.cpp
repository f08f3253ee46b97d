// SPDX-License-Identifier: Apache-2.0
// Where engines meet, and what counts in between: scopes, and the semaphores that are left.
#include <algorithm>

#include "tools/compiler/program_builder/placement.h"

namespace neuron::builder {

void Placement::control(Control control, uint32_t number) {
  if (journal_.error()) return;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    parts_.used[e] = true;
    Step step;
    step.control = control;
    step.block = number;
    step.scope = scope();
    step.label = journal_.label(0, -1);
    parts_.steps[e].push_back(std::move(step));
  }
}

void Placement::know_all() {
  Knowledge::Clock all;
  for (const auto& points : parts_.points) all.push_back(static_cast<uint32_t>(points.size()));
  for (const Slot& slot : parts_.slots) all.push_back(slot.last.sequence);
  knowledge_.meet(std::move(all));
  accesses_.clear();
  quiet_ = true;
}

// Engines drain the queues that they rang; a collective has no such queue.
void Placement::meet(Meeting meeting) {
  if (journal_.error()) return;
  control(Control::kMeet, static_cast<uint32_t>(parts_.meetings.size()));
  for (const Slot& slot : parts_.slots) {
    if (!slot.collective) continue;
    order(slot.owner, parts_.steps[slot.owner].back(), {slot.last}, true);
  }
  parts_.meetings.push_back(std::move(meeting));
  ++issue_;
  know_all();
}

void Placement::meet_before() {
  // A block needs semaphores of its own.
  constexpr uint32_t kOfABlock = 32;
  if (taken() + kOfABlock > most_semaphores()) return barrier();
  if (!quiet_) meet({});
}

void Placement::begin_scope(bool adopts) {
  Scope scope;
  scope.first = ++issue_;
  scope.part = part_;
  scope.adopts = adopts;
  parts_.scopes.push_back(std::move(scope));
  open_scopes_.push_back(static_cast<uint32_t>(parts_.scopes.size() - 1));
}

void Placement::leave_scope(Meeting& clears) {
  const uint32_t number = open_scopes_.back();
  open_scopes_.pop_back();
  Scope& left = parts_.scopes[number];
  left.end = issue_ + 1;
  clears.scopes.push_back(number);
  for (uint32_t slot : left.slots) {
    // Its semaphore is 0 again, for whatever comes next.
    parts_.slots[slot].transfers = 0;
    parts_.slots[slot].scope = scope();
    parts_.scopes[scope()].slots.push_back(slot);
  }
  left.slots.clear();
}

void Placement::barrier() {
  const uint32_t number = open_scopes_.back();
  meet({{number}});
  Scope next;
  next.first = ++issue_;
  next.part = part_;
  next.adopts = parts_.scopes[number].adopts;
  next.slots = std::move(parts_.scopes[number].slots);
  parts_.scopes[number].slots.clear();
  parts_.scopes[number].end = issue_;
  const auto continued = static_cast<uint32_t>(parts_.scopes.size());
  for (uint32_t slot : next.slots) {
    parts_.slots[slot].transfers = 0;
    parts_.slots[slot].scope = continued;
  }
  parts_.scopes.push_back(std::move(next));
  open_scopes_.back() = continued;
  for (uint32_t loop : open_whiles_) {
    auto& scopes = parts_.while_loops[loop].scopes;
    if (scopes.back() == number) scopes.push_back(continued);
  }
}

uint32_t Placement::most_semaphores() const {
  constexpr uint32_t kAll = NEURON_SEM_PROGRAM_LAST - NEURON_SEM_PROGRAM_FIRST + 1;
  constexpr uint32_t kOfFunctions = 48;
  return kAll - NEURON_CORE_ENGINES - (functions_ && in_function_ == 0 ? kOfFunctions : 0);
}

uint32_t Placement::taken() const {
  uint32_t count = in_function_ != 0 ? most_of_main_ + of_functions_ : 0;
  for (uint32_t open : open_scopes_) {
    const Scope& scope = parts_.scopes[open];
    for (uint32_t of_engine : scope.counted) count += of_engine;
    for (uint32_t slot : scope.slots) count += parts_.slots[slot].transfers != 0 ? 1 : 0;
  }
  return count;
}

void Placement::note_most() {
  if (!functions_) return;
  if (in_function_ == 0) {
    most_of_main_ = std::max(most_of_main_, taken());
  } else {
    most_here_ = std::max(most_here_, taken() - most_of_main_ - of_functions_);
  }
}

void Placement::count_signal(unsigned engine, bool alone) {
  Scope& here = parts_.scopes[scope()];
  if (alone || here.filled[engine] == 0 || here.filled[engine] == kSignalsOfASemaphore) {
    ++here.counted[engine];
    here.filled[engine] = 0;
    note_most();
  }
  ++here.filled[engine];
}

// Semaphores of engines, and so many of transfers that are in flight together.
void Placement::make_room(size_t semaphores, size_t transfers) {
  const uint32_t in_use = taken();
  if (in_use + semaphores > most_semaphores()) return barrier();
  if (transfers == 0) return;
  size_t own = 0, others = in_function_ != 0 ? transfers : kMostSlots;
  others -= std::min(others, in_function_ != 0 ? 0 : parts_.slots.size());
  for (const Slot& slot : parts_.slots) {
    if (own >= transfers) return;
    if (!usable(slot)) continue;
    (slot.scope == scope() && slot.transfers != 0 ? own : others) += 1;
  }
  if (own + std::min<size_t>(others, most_semaphores() - in_use) < transfers) barrier();
}

void Placement::begin_while(const AddressField& condition) {
  // Engines drain their own queues in front of it; a collective in flight is in none of them.
  const auto is_collective = [](const Slot& slot) { return slot.collective; };
  if (std::any_of(parts_.slots.begin(), parts_.slots.end(), is_collective)) meet({});
  const auto number = static_cast<uint32_t>(parts_.while_loops.size());
  begin_scope(false);
  parts_.while_loops.push_back({condition, {scope()}, {}});
  control(Control::kWhile, number);
  know_all();
  open_whiles_.push_back(number);
}

void Placement::end_while() {
  if (open_whiles_.empty() || journal_.error()) return;
  const uint32_t number = open_whiles_.back();
  open_whiles_.pop_back();
  control(Control::kEndWhile, number);
  know_all();
  parts_.while_loops[number].slots = parts_.scopes[scope()].slots;
  Meeting clears;
  leave_scope(clears);
  // What each engine counts behind the loop has a semaphore of its own.
  parts_.scopes[scope()].filled.fill(0);
}

}  // namespace neuron::builder
