// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/semaphore_numbers.h"

#include <algorithm>
#include <set>

#include "driver/base/format.h"
#include "driver/isa/instruction.h"
#include "hw/address_map.h"

namespace neuron::builder {

using runtime::Result;

namespace {

constexpr uint32_t kIncrementsOfATransfer = NEURON_V2_DMA_ENGINES_PER_CORE;
constexpr unsigned kSemaphores = NEURON_SEM_PROGRAM_LAST - NEURON_SEM_PROGRAM_FIRST + 1;

}  // namespace

void SemaphoreNumbers::open(unsigned engine, uint32_t scope, Current& current) {
  counters_.push_back({base::format("{}_{}", isa::engine_name(engine), opened_++), scope, 0});
  current = {static_cast<uint32_t>(counters_.size() - 1), 0};
}

void SemaphoreNumbers::count(unsigned engine) {
  const auto& steps = schedule_.steps()[engine];
  auto& signals = signals_[engine];
  signals.resize(steps.size());
  opened_ = 0;
  std::map<uint32_t, Current> scopes;
  for (size_t i = 0; i < steps.size();) {
    if (steps[i].control != Control::kNone) {
      if (steps[i].control == Control::kEndWhile) {
        for (auto& [scope, current] : scopes) current.count = kSignalsOfASemaphore;
      }
      ++i;
      continue;
    }
    const int32_t loop = steps[i].loop;
    const size_t end = loop < 0 ? i + 1 : schedule_.loops()[static_cast<size_t>(loop)].end[engine];
    const auto wanted = static_cast<uint32_t>(std::count_if(
        steps.begin() + static_cast<ptrdiff_t>(i), steps.begin() + static_cast<ptrdiff_t>(end),
        [](const Step& step) { return step.signals; }));
    Current& current = scopes[steps[i].scope];
    if (wanted == 0) {
      if (loop >= 0) current.count = kSignalsOfASemaphore;
      i = end;
      continue;
    }
    if (loop >= 0 || current.count == kSignalsOfASemaphore) open(engine, steps[i].scope, current);
    for (; i < end; ++i) {
      if (!steps[i].signals) continue;
      signals[i] = {current.counter, ++current.count, loop < 0 ? 0 : wanted};
    }
    if (loop >= 0) current.count = kSignalsOfASemaphore;
  }
}

Result<void> SemaphoreNumbers::assign() {
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) count(e);
  unsigned next = NEURON_SEM_PROGRAM_FIRST;
  if (meets()) {
    for (uint8_t& number : meeting_) number = static_cast<uint8_t>(next++);
  }
  slots_.resize(schedule_.slots().size());
  if (next - NEURON_SEM_PROGRAM_FIRST + counters_.size() + slots_.size() > kSemaphores) {
    NEURON_CHECK(share(next));
  } else {
    for (Counter& counter : counters_) counter.number = static_cast<uint8_t>(next++);
    for (uint8_t& number : slots_) number = static_cast<uint8_t>(next++);
  }
  note_scopes();
  return {};
}

// Counters of one part of the program, the main program or functions (Scope): each takes the first
// number whose scope has ended when its own begins.
bool SemaphoreNumbers::share(std::vector<Counter*> counters, std::vector<uint64_t>& until,
                             unsigned first) const {
  const auto& scopes = schedule_.parts().scopes;
  std::stable_sort(counters.begin(), counters.end(), [&](const Counter* a, const Counter* b) {
    return scopes[a->scope].first < scopes[b->scope].first;
  });
  std::set<size_t> used;
  for (Counter* counter : counters) {
    const Scope& scope = scopes[counter->scope];
    const auto place =
        std::find_if(until.begin(), until.end(), [&](uint64_t end) { return end <= scope.first; });
    if (place == until.end()) return false;
    *place = std::max(scope.end, scope.first + 1);
    used.insert(static_cast<size_t>(place - until.begin()));
    counter->number = static_cast<uint8_t>(first + static_cast<unsigned>(place - until.begin()));
  }
  for (size_t number : used) until[number] = UINT64_MAX;  // Other parts may happen in between
  return true;
}

Result<void> SemaphoreNumbers::share(unsigned first) {
  shared_ = true;
  for (uint32_t slot = 0; slot < schedule_.slots().size(); ++slot) {
    for (const Slot::Use& use : schedule_.slots()[slot].uses) {
      if (!slot_counters_.try_emplace({slot, use.scope}, counters_.size()).second) continue;
      counters_.push_back({base::format("dma_{}", slot), use.scope, 0});
    }
  }
  std::map<uint32_t, std::vector<Counter*>> parts;
  for (Counter& counter : counters_) {
    parts[schedule_.parts().scopes[counter.scope].part].push_back(&counter);
  }
  // The main program last, which has the most.
  std::vector<uint64_t> until(NEURON_SEM_PROGRAM_LAST + 1 - first, 0);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (share(part->second, until, first)) continue;
    return runtime::fail(NRT_RESOURCE, "program \"{}\" needs more semaphores than the {} there are",
                         schedule_.journal().program(), kSemaphores);
  }
  return {};
}

std::vector<SemaphoreNumbers::Named> SemaphoreNumbers::all() const {
  std::vector<Named> list;
  std::set<uint8_t> listed;
  const auto add = [&](std::string name, uint8_t number) {
    if (listed.insert(number).second) list.push_back({std::move(name), number});
  };
  for (const Counter& counter : counters_) add(counter.name, counter.number);
  if (meets()) {
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      add(base::format("meet_{}", isa::engine_name(e)), meeting_[e]);
    }
  }
  for (size_t slot = 0; !shared_ && slot < slots_.size(); ++slot) {
    add(base::format("dma_{}", slot), slots_[slot]);
  }
  return list;
}

SemaphoreNumbers::Target SemaphoreNumbers::target_of(const Point& point, int32_t loop) const {
  int32_t of = -1;
  bool previous = false;
  Target target;
  if (point.agent >= kFirstDmaAgent) {
    const size_t slot = point.agent - kFirstDmaAgent;
    const Slot::Use& use = schedule_.slots()[slot].uses[point.sequence - 1];
    of = use.loop;
    previous = use.previous;
    target = {of_slot(static_cast<uint32_t>(slot), use.scope),
              int64_t{use.count} * kIncrementsOfATransfer, kIncrementsOfATransfer};
  } else {
    const StepPoint& step = schedule_.points()[point.agent][point.sequence - 1];
    const Signal& signal = signals_[point.agent][step.step];
    of = schedule_.steps()[point.agent][step.step].loop;
    previous = step.previous;
    target = {counters_[signal.counter].number, signal.value, signal.per_round};
  }
  if (of >= 0 && of == loop) {
    if (previous) target.value -= target.per_round;
    return target;
  }
  if (of >= 0) {
    const int64_t rounds = schedule_.loops()[static_cast<size_t>(of)].rounds;
    target.value += (rounds - (previous ? 2 : 1)) * target.per_round;
  }
  target.per_round = 0;
  return target;
}

void SemaphoreNumbers::note_scopes() {
  counters_of_.resize(schedule_.parts().scopes.size());
  numbers_of_.resize(counters_of_.size());
  for (uint32_t c = 0; c < counters_.size(); ++c) {
    counters_of_[counters_[c].scope].push_back(c);
    numbers_of_[counters_[c].scope].push_back(counters_[c].number);
  }
  for (size_t slot = 0; !shared_ && slot < slots_.size(); ++slot) {
    for (const Slot::Use& use : schedule_.slots()[slot].uses) {
      auto& numbers = numbers_of_[use.scope];
      if (numbers.empty() || numbers.back() != slots_[slot]) numbers.push_back(slots_[slot]);
    }
  }
}

std::vector<uint8_t> SemaphoreNumbers::cleared_by(const Meeting& meeting) const {
  std::set<uint8_t> numbers;
  for (uint32_t scope : meeting.scopes) {
    numbers.insert(numbers_of_[scope].begin(), numbers_of_[scope].end());
  }
  return {numbers.begin(), numbers.end()};
}

std::vector<uint8_t> SemaphoreNumbers::cleared_by(const WhileLoop& loop) const {
  std::set<uint32_t> counters;
  for (uint32_t scope : loop.scopes) {
    counters.insert(counters_of_[scope].begin(), counters_of_[scope].end());
  }
  std::vector<uint8_t> numbers;
  for (uint32_t counter : counters) numbers.push_back(counters_[counter].number);
  for (uint32_t slot : loop.slots) {
    if (!shared_) numbers.push_back(slots_[slot]);
  }
  return numbers;
}

}  // namespace neuron::builder
