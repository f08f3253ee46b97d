// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/schedule.h"

#include <algorithm>

namespace neuron::builder {
namespace {

// Program semaphores 16..239, some of them for the engines' own counts.
constexpr uint32_t kMostSlots = 200;
// A transfer adds 16 to its slot's semaphore, and a wait compares with 16 bits.
constexpr uint32_t kMostTransfersOfASlot = 4095;

// True if two accesses of a loop's body overlap only in the same round or in neighbouring ones, or
// never.
bool meet_nearby(const Region& a, const Region& b) {
  if (a.advance != b.advance) return false;
  const uint64_t span = std::max(a.end, b.end) - std::min(a.first, b.first);
  return span <= 2 * static_cast<uint64_t>(std::abs(a.advance));
}

}  // namespace

void Schedule::order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too) {
  // The latest comes first: it has the most knowledge, so the others are likely known through it.
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.issue > b.issue; });
  for (const Point& point : points) {
    if (point.agent == engine && !own_engine_too) continue;  // The engine's own order
    if (knowledge_.knows(engine, point)) continue;
    knowledge_.wait(engine, point);
    step.waits.push_back(point);
    if (point.agent < NEURON_CORE_ENGINES) {
      steps_[point.agent][points_[point.agent][point.sequence - 1].step].signals = true;
    }
  }
}

// Chooses the semaphore on which the transfer counts. The 16 queues of a transfer drift, so the
// transfer before it on the same semaphore must be known to be complete when this one starts.
uint32_t Schedule::take_slot(unsigned engine, Step& step) {
  const int32_t body = open_whiles_.empty() ? -1 : static_cast<int32_t>(open_whiles_.back());
  const auto usable = [body](const Slot& slot) {
    return !slot.reserved && slot.while_loop == body && slot.transfers < kMostTransfersOfASlot;
  };
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (usable(slots_[slot]) && knowledge_.knows(engine, slots_[slot].last)) return slot;
  }
  if (slots_.size() < kMostSlots) {
    Slot slot;
    slot.last.agent = kFirstDmaAgent + static_cast<Agent>(slots_.size());
    slot.while_loop = body;
    if (body >= 0) {
      while_loops_[static_cast<size_t>(body)].slots.push_back(static_cast<uint32_t>(slots_.size()));
    }
    slots_.push_back(std::move(slot));
    return static_cast<uint32_t>(slots_.size() - 1);
  }
  uint32_t oldest = UINT32_MAX;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!usable(slots_[slot])) continue;
    if (oldest == UINT32_MAX || slots_[slot].last.issue < slots_[oldest].last.issue) oldest = slot;
  }
  if (oldest == UINT32_MAX) {
    journal_.fail(runtime::fail(NRT_RESOURCE,
                                "more than {} transfers in one program; use larger ones",
                                kMostSlots * kMostTransfersOfASlot));
    return 0;
  }
  order(engine, step, {slots_[oldest].last}, true);
  return oldest;
}

void Schedule::add(Item item) {
  used_[item.engine] = true;
  if (in_while() && (item.step.transfer >= 0 || item.step.collective >= 0)) {
    journal_.fail(runtime::fail(NRT_INVALID,
                                "a loop whose rounds the device decides holds no prepared transfer "
                                "and no collective; generate the transfer"));
    return;
  }
  for (auto* regions : {&item.reads, &item.writes}) {
    for (Region& region : *regions) {
      const auto other = memory_of_.find(region.start);
      if (region.space == Region::kHbm && other != memory_of_.end()) region.start = other->second;
    }
  }
  if (recording_) {
    recorded_.push_back(std::move(item));
  } else {
    item.step.advances.clear();
    place(item, Round::kOnly);
  }
}

int32_t Schedule::add_transfer(Transfer transfer) {
  transfer.id = next_id_[transfer.engine]++;
  transfers_.push_back(std::move(transfer));
  return static_cast<int32_t>(transfers_.size() - 1);
}

int32_t Schedule::add_collective(CollectiveStep collective) {
  collectives_.push_back(std::move(collective));
  return static_cast<int32_t>(collectives_.size() - 1);
}

// Counts the transfer on its slot and starts it; the slot's last point is then this one.
void Schedule::place_transfer(Item& item, Step& step, Round round) {
  if (item.slot < 0) item.slot = static_cast<int32_t>(take_slot(item.engine, step));
  if (journal_.error()) return;
  Slot& slot = slots_[static_cast<size_t>(item.slot)];
  if (round == Round::kLast) order(item.engine, step, {slot.last}, true);
  const int32_t loop = round == Round::kOnly ? -1 : static_cast<int32_t>(loops_.size()) - 1;
  slot.uses.push_back({slot.transfers + 1, loop, round == Round::kPrevious});
  if (round != Round::kPrevious) slot.transfers += round == Round::kOnly ? 1 : rounds_;
  slot.owner = item.engine;
  ++slot.last.sequence;
  slot.last.issue = ++issue_;
  knowledge_.start(item.engine, slot.last);
  if (step.collective >= 0) {
    collectives_[static_cast<size_t>(step.collective)].slot = static_cast<uint32_t>(item.slot);
  } else if (step.transfer >= 0) {
    transfers_[static_cast<size_t>(step.transfer)].slot = static_cast<uint32_t>(item.slot);
  } else {
    step.slot = item.slot;
  }
}

void Schedule::place(Item& item, Round round) {
  if (journal_.error()) return;
  const unsigned engine = item.engine;
  const auto here = [&](const Region& region) {
    if (round == Round::kOnly) return region;
    return region.in_round(int64_t{rounds_} - (round == Round::kLast ? 1 : 2));
  };
  Step step = item.step;
  std::vector<Point> points;
  for (const Region& region : item.reads) accesses_.conflicts(here(region), false, points);
  for (const Region& region : item.writes) accesses_.conflicts(here(region), true, points);
  // DMA does not follow the order of the engine that starts it.
  order(engine, step, std::move(points), item.moves);
  Point self{engine, static_cast<uint32_t>(points_[engine].size() + 1), 0};
  if (item.moves) {
    place_transfer(item, step, round);
    if (journal_.error()) return;
    self.issue = issue_;
    item.point = slots_[static_cast<size_t>(item.slot)].last;
  } else {
    self.issue = ++issue_;
    item.point = self;
  }
  step.self = item.point;
  knowledge_.start(engine, self);
  for (const Region& region : item.reads) accesses_.record(here(region), false, item.point);
  for (const Region& region : item.writes) accesses_.record(here(region), true, item.point);
  size_t index = steps_[engine].size();
  if (round == Round::kLast) {
    // Takes the place of the round before, whose signals others may already wait for.
    index = cursor_[engine]++;
    step.signals = steps_[engine][index].signals;
    step.loop = static_cast<int32_t>(loops_.size()) - 1;
    steps_[engine][index] = std::move(step);
  } else {
    if (round == Round::kPrevious) step.loop = static_cast<int32_t>(loops_.size()) - 1;
    steps_[engine].push_back(std::move(step));
  }
  points_[engine].push_back({index, round == Round::kPrevious});
}

// Orders the body after overlapping work before the loop, once for each engine, and takes a slot
// for each transfer.
void Schedule::enter_loop(std::vector<Item>& body) {
  LoopInfo loop;
  loop.rounds = rounds_;
  std::array<Step, NEURON_CORE_ENGINES> entries;
  for (Item& item : body) {
    std::vector<Point> points;
    for (const Region& region : item.reads) {
      accesses_.conflicts(region.spanning(rounds_), false, points);
    }
    for (const Region& region : item.writes) {
      accesses_.conflicts(region.spanning(rounds_), true, points);
    }
    order(item.engine, entries[item.engine], std::move(points), item.moves);
    if (!item.moves) continue;
    item.slot = static_cast<int32_t>(take_slot(item.engine, entries[item.engine]));
    if (journal_.error()) return;
    slots_[static_cast<size_t>(item.slot)].reserved = true;
  }
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!entries[e].waits.empty()) {
      entries[e].instruction.opcode = NEURON_OP_EVENT;
      entries[e].instruction.engines = static_cast<uint8_t>(1u << e);
      steps_[e].push_back(std::move(entries[e]));
    }
    loop.first[e] = loop.end[e] = steps_[e].size();
  }
  loops_.push_back(loop);
}

void Schedule::repeat(std::vector<Item> body) {
  // Accesses that may overlap in distant rounds count with all memory that they reach.
  struct Moving {
    Region* region;
    bool write;
  };
  std::vector<Moving> regions;
  for (Item& item : body) {
    for (Region& region : item.reads) regions.push_back({&region, false});
    for (Region& region : item.writes) regions.push_back({&region, true});
  }
  std::vector<Region> all;
  for (const Moving& moving : regions) all.push_back(moving.region->spanning(rounds_));
  std::vector<bool> spread(regions.size());
  for (size_t a = 0; a < regions.size(); ++a) {
    for (size_t b = 0; b < regions.size(); ++b) {
      if (!(regions[a].write || regions[b].write) || !all[a].overlaps(all[b])) continue;
      if (!meet_nearby(*regions[a].region, *regions[b].region)) spread[a] = true;
    }
  }
  enter_loop(body);
  if (journal_.error()) return;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (spread[i]) *regions[i].region = all[i];
  }
  LoopInfo& loop = loops_.back();
  for (Item& item : body) place(item, Round::kPrevious);
  cursor_ = loop.first;
  for (Item& item : body) place(item, Round::kLast);
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) loop.end[e] = steps_[e].size();
  size_t next = 0;
  for (Item& item : body) {
    for (size_t i = 0; i < item.reads.size(); ++i) {
      accesses_.record(all[next++], false, item.point);
    }
    for (size_t i = 0; i < item.writes.size(); ++i) {
      accesses_.record(all[next++], true, item.point);
    }
    if (item.slot >= 0) slots_[static_cast<size_t>(item.slot)].reserved = false;
  }
}

void Schedule::loop(uint32_t rounds, const std::function<void()>& body) {
  if (!open() || rounds == 0) return;
  if (recording_) {
    journal_.fail(runtime::fail(NRT_INVALID, "a loop inside a loop; unroll one of them"));
    return;
  }
  if (rounds > INT32_MAX) {
    journal_.fail(
        runtime::fail(NRT_INVALID, "a loop of {} rounds; registers count to 2147483647", rounds));
    return;
  }
  if (rounds == 1) return body();
  recording_ = true;
  rounds_ = rounds;
  body();
  recording_ = false;
  std::vector<Item> items = std::move(recorded_);
  recorded_.clear();
  if (open() && !items.empty()) repeat(std::move(items));
  rounds_ = 1;
}

void Schedule::meet(Control control, uint32_t while_loop) {
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    used_[e] = true;
    Step step;
    step.control = control;
    step.while_loop = while_loop;
    step.label = journal_.label(0, -1);
    steps_[e].push_back(std::move(step));
    for (unsigned other = 0; other < NEURON_CORE_ENGINES; ++other) {
      const auto done = static_cast<uint32_t>(points_[other].size());
      if (done != 0) knowledge_.wait(e, {other, done, 0});
    }
    for (const Slot& slot : slots_) {
      if (slot.last.sequence != 0) knowledge_.wait(e, slot.last);
    }
  }
}

void Schedule::begin_while(const AddressField& condition) {
  if (!open()) return;
  if (recording_) {
    journal_.fail(runtime::fail(NRT_INVALID, "a loop inside a loop of known rounds; unroll that"));
    return;
  }
  const auto number = static_cast<uint32_t>(while_loops_.size());
  while_loops_.push_back({condition, {}});
  meet(Control::kWhile, number);
  open_whiles_.push_back(number);
}

void Schedule::end_while() {
  if (!open() || open_whiles_.empty()) return;
  const uint32_t number = open_whiles_.back();
  open_whiles_.pop_back();
  meet(Control::kEndWhile, number);
  const int32_t outer = open_whiles_.empty() ? -1 : static_cast<int32_t>(open_whiles_.back());
  for (uint32_t slot : while_loops_[number].slots) {
    // Its semaphore is 0 again, for whatever comes next.
    slots_[slot].transfers = 0;
    slots_[slot].while_loop = outer;
    if (outer >= 0) while_loops_[static_cast<size_t>(outer)].slots.push_back(slot);
  }
}

void Schedule::finish() {
  if (finished_) return;
  if (in_while()) {
    journal_.fail(runtime::fail(NRT_INVALID, "a loop whose rounds the device decides has no end"));
    return;
  }
  journal_.section("end");
  std::vector<const Slot*> last_first;
  for (const Slot& slot : slots_) last_first.push_back(&slot);
  std::sort(last_first.begin(), last_first.end(),
            [](const Slot* a, const Slot* b) { return a->last.issue < b->last.issue; });
  for (const Slot* slot : last_first) {
    bool known = false;
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      known = known || knowledge_.knows(e, slot->last);
    }
    if (known) continue;
    Step step;
    step.instruction.opcode = NEURON_OP_EVENT;
    step.instruction.engines = static_cast<uint8_t>(1u << slot->owner);
    // Two transfers can share one instruction: the emitter takes two waits each.
    auto& steps = steps_[slot->owner];
    const bool join = !steps.empty() && steps.back().instruction.opcode == NEURON_OP_EVENT &&
                      steps.back().loop < 0 && steps.back().waits.size() == 1;
    order(slot->owner, join ? steps.back() : step, {slot->last}, true);
    if (!join) steps.push_back(std::move(step));
  }
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!used_[e]) continue;
    Step step;
    step.instruction.opcode = NEURON_OP_RET;
    step.instruction.engines = static_cast<uint8_t>(1u << e);
    steps_[e].push_back(std::move(step));
  }
  finished_ = true;
}

}  // namespace neuron::builder
