// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/placement.h"

#include <algorithm>
#include <utility>

#include "tools/compiler/program_builder/distant_rounds.h"

namespace neuron::builder {
namespace {

// A transfer adds 16 to its slot's semaphore, and a wait compares with 16 bits.
constexpr uint32_t kMostTransfersOfASlot = 4095;

}  // namespace

void Placement::order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too) {
  // The latest comes first: it has the most knowledge, so the others are likely known through it.
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.issue > b.issue; });
  for (const Point& point : points) {
    if (point.agent == engine && !own_engine_too) continue;  // The engine's own order
    if (knowledge_.knows(engine, point)) continue;
    knowledge_.wait(engine, point);
    step.waits.push_back(point);
    if (point.agent < NEURON_CORE_ENGINES) {
      const size_t number = parts_.points[point.agent][point.sequence - 1].step;
      parts_.steps[point.agent][number].signals = true;
    }
  }
}

bool Placement::usable(const Slot& slot) const {
  if (slot.reserved || slot.transfers >= kMostTransfersOfASlot) return false;
  if (slot.scope == scope()) return true;
  return parts_.scopes[scope()].adopts && slot.transfers == 0 &&
         std::find(open_scopes_.begin(), open_scopes_.end(), slot.scope) != open_scopes_.end();
}

// Chooses the semaphore on which the transfer counts. The 16 queues of a transfer drift, so the
// transfer before it on the same semaphore must be known to be complete when this one starts.
uint32_t Placement::take_slot(unsigned engine, Step& step) {
  auto& slots = parts_.slots;
  const auto take = [&](uint32_t number) {
    Slot& slot = slots[number];
    if (slot.scope == scope()) return number;
    std::erase(parts_.scopes[slot.scope].slots, number);
    slot.scope = scope();
    parts_.scopes[scope()].slots.push_back(number);
    return number;
  };
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (usable(slots[slot]) && knowledge_.knows(engine, slots[slot].last)) return take(slot);
  }
  if ((in_function_ || slots.size() < kMostSlots) && taken() < most_semaphores()) {
    Slot slot;
    slot.last.agent = kFirstDmaAgent + static_cast<Agent>(slots.size());
    slot.scope = scope();
    parts_.scopes[scope()].slots.push_back(static_cast<uint32_t>(slots.size()));
    slots.push_back(std::move(slot));
    return static_cast<uint32_t>(slots.size() - 1);
  }
  uint32_t oldest = UINT32_MAX;
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (!usable(slots[slot])) continue;
    if (oldest == UINT32_MAX || slots[slot].last.issue < slots[oldest].last.issue) oldest = slot;
  }
  if (oldest == UINT32_MAX) {
    journal_.fail(runtime::fail(NRT_RESOURCE,
                                "a loop or function starts more transfers than there are "
                                "semaphores left ({} count transfers); use fewer, larger ones",
                                slots.size()));
    return 0;
  }
  order(engine, step, {slots[oldest].last}, true);
  return take(oldest);
}

// Counts the transfer on its slot and starts it; the slot's last point is then this one.
void Placement::place_transfer(Item& item, Step& step, Round round) {
  if (item.slot < 0) item.slot = static_cast<int32_t>(take_slot(item.engine, step));
  if (journal_.error()) return;
  Slot& slot = parts_.slots[static_cast<size_t>(item.slot)];
  if (round == Round::kLast) order(item.engine, step, {slot.last}, true);
  const int32_t loop = round == Round::kOnly ? -1 : static_cast<int32_t>(parts_.loops.size()) - 1;
  slot.uses.push_back({slot.transfers + 1, loop, round == Round::kPrevious, scope()});
  if (round != Round::kPrevious) slot.transfers += round == Round::kOnly ? 1 : rounds_;
  slot.owner = item.engine;
  slot.collective = step.collective >= 0;
  ++slot.last.sequence;
  slot.last.issue = ++issue_;
  knowledge_.start(item.engine, slot.last);
  const auto number = static_cast<uint32_t>(item.slot);
  if (step.collective >= 0) {
    CollectiveStep& collective = parts_.collectives[static_cast<size_t>(step.collective)];
    collective.slot = number;
    collective.scope = scope();
  } else if (step.transfer >= 0) {
    Transfer& transfer = parts_.transfers[static_cast<size_t>(step.transfer)];
    transfer.slot = number;
    transfer.scope = scope();
  } else {
    step.slot = item.slot;
  }
  note_most();
}

void Placement::place(Item& item, Round round) {
  if (journal_.error()) return;
  const unsigned engine = item.engine;
  parts_.used[engine] = true;
  const auto here = [&](const Region& region) {
    if (round == Round::kOnly) return region;
    return region.in_round(int64_t{rounds_} - (round == Round::kLast ? 1 : 2));
  };
  quiet_ = false;
  Step step = item.step;
  step.scope = scope();
  std::vector<Point> points;
  for (const Region& region : item.reads) accesses_.conflicts(here(region), false, points);
  for (const Region& region : item.writes) accesses_.conflicts(here(region), true, points);
  // DMA does not follow the order of the engine that starts it.
  order(engine, step, std::move(points), item.moves);
  Point self{engine, static_cast<uint32_t>(parts_.points[engine].size() + 1), 0};
  if (item.moves) {
    place_transfer(item, step, round);
    if (journal_.error()) return;
    self.issue = issue_;
    item.point = parts_.slots[static_cast<size_t>(item.slot)].last;
  } else {
    self.issue = ++issue_;
    item.point = self;
  }
  step.self = item.point;
  knowledge_.start(engine, self);
  for (const Region& region : item.reads) accesses_.record(here(region), false, item.point);
  for (const Region& region : item.writes) accesses_.record(here(region), true, item.point);
  auto& steps = parts_.steps[engine];
  size_t index = steps.size();
  if (round == Round::kLast) {
    // Takes the place of the round before, whose signals others may already wait for.
    index = cursor_[engine]++;
    step.signals = steps[index].signals;
    step.loop = static_cast<int32_t>(parts_.loops.size()) - 1;
    steps[index] = std::move(step);
  } else {
    if (round == Round::kPrevious) step.loop = static_cast<int32_t>(parts_.loops.size()) - 1;
    steps.push_back(std::move(step));
  }
  parts_.points[engine].push_back({index, round == Round::kPrevious});
}

// Orders the body after overlapping work before the loop, once for each engine, and takes a slot
// for each transfer.
void Placement::enter_loop(const std::vector<Item*>& body, LoopInfo info) {
  std::array<Step, NEURON_CORE_ENGINES> entries;
  for (Item* item : body) {
    std::vector<Point> points;
    for (const Region& region : item->reads) {
      accesses_.conflicts(region.spanning(rounds_), false, points);
    }
    for (const Region& region : item->writes) {
      accesses_.conflicts(region.spanning(rounds_), true, points);
    }
    order(item->engine, entries[item->engine], std::move(points), item->moves);
    if (!item->moves) continue;
    item->slot = static_cast<int32_t>(take_slot(item->engine, entries[item->engine]));
    if (journal_.error()) return;
    parts_.slots[static_cast<size_t>(item->slot)].reserved = true;
  }
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!entries[e].waits.empty()) {
      entries[e].instruction.opcode = NEURON_OP_EVENT;
      entries[e].instruction.engines = static_cast<uint8_t>(1u << e);
      entries[e].scope = scope();
      parts_.steps[e].push_back(std::move(entries[e]));
    }
    info.first[e] = info.end[e] = parts_.steps[e].size();
  }
  parts_.loops.push_back(info);
}

void Placement::repeat(std::vector<Item*> body, const LoopInfo& info) {
  // Accesses that may overlap in distant rounds count with all memory that they reach.
  std::vector<Region*> regions;
  std::vector<LoopAccess> accesses;
  for (Item* item : body) {
    for (auto [list, write] : {std::pair{&item->reads, false}, std::pair{&item->writes, true}}) {
      for (Region& region : *list) {
        regions.push_back(&region);
        accesses.push_back({region, write});
      }
    }
  }
  std::vector<Region> all;
  for (const Region* region : regions) all.push_back(region->spanning(rounds_));
  const std::vector<bool> spread = meet_in_distant_rounds(accesses, rounds_);
  enter_loop(body, info);
  if (journal_.error()) return;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (spread[i]) *regions[i] = all[i];
  }
  LoopInfo& loop = parts_.loops.back();
  for (Item* item : body) place(*item, Round::kPrevious);
  cursor_ = loop.first;
  for (Item* item : body) place(*item, Round::kLast);
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) loop.end[e] = parts_.steps[e].size();
  size_t next = 0;
  for (Item* item : body) {
    for (size_t i = 0; i < item->reads.size(); ++i) {
      accesses_.record(all[next++], false, item->point);
    }
    for (size_t i = 0; i < item->writes.size(); ++i) {
      accesses_.record(all[next++], true, item->point);
    }
    if (item->slot >= 0) parts_.slots[static_cast<size_t>(item->slot)].reserved = false;
  }
}

void Placement::repeat(Node& loop) {
  const Block& block = loop.block;
  const bool counted = block.count != 0;
  std::vector<Item*> body;
  std::array<bool, NEURON_CORE_ENGINES> engines{};
  size_t transfers = 0;
  // It is placed as two rounds, too, of which the second never happens: where its accesses would
  // move to, there may be no memory.
  const bool stays = counted && indexes_[block.count].most <= 1;
  for (Node& node : loop.body) {
    body.push_back(&node.item);
    engines[node.item.engine] = true;
    transfers += node.item.moves ? 1 : 0;
    for (auto* regions : {&node.item.reads, &node.item.writes}) {
      for (Region& region : *regions) {
        if (stays) region.advance = 0;
        reach(region);
      }
    }
  }
  // Behind a loop whose rounds the device knows nobody could say how far its counts are.
  if (counted) {
    meet_before();
    begin_scope(true);
  }
  make_room(2 * NEURON_CORE_ENGINES, transfers);
  LoopInfo info;
  info.rounds = counted ? indexes_[block.count].most : block.rounds;
  info.index = block.index;
  info.count = block.count;
  rounds_ = std::max(2U, info.rounds);
  repeat(body, info);
  rounds_ = 1;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!engines[e]) continue;
    count_signal(e, true);
    parts_.scopes[scope()].filled[e] = 0;
  }
  if (!counted || journal_.error()) return;
  Meeting clears;
  leave_scope(clears);
  meet(std::move(clears));
}

void Placement::place(std::vector<Node>& nodes, uint32_t loop) {
  for (Node& node : nodes) place(node, loop);
}

void Placement::place(Node& node, uint32_t loop) {
  if (journal_.error()) return;
  switch (node.kind) {
    case Node::Kind::kItem:
      settle(node.item, loop);
      make_room(1, node.item.moves ? 1 : 0);
      count_signal(node.item.engine, false);
      return place(node.item, Round::kOnly);
    case Node::Kind::kLoop: {
      const bool flat = std::all_of(node.body.begin(), node.body.end(),
                                    [](const Node& n) { return n.kind == Node::Kind::kItem; });
      if (node.block.count == 0 && node.block.rounds == 1) return place(node.body, 0);
      return flat ? repeat(node) : place_loop(node);
    }
    case Node::Kind::kBranch:
      return place_branch(node, loop);
    case Node::Kind::kWhile:
      begin_while(node.condition);
      place(node.body, loop);
      return end_while();
    case Node::Kind::kCall:
      meet_before();
      parts_.blocks.push_back(node.block);
      return control(Control::kCall, static_cast<uint32_t>(parts_.blocks.size() - 1));
    case Node::Kind::kBarrier:
      return barrier();
    case Node::Kind::kFunction:
      return;  // By place_function()
  }
}

void Placement::place_loop(Node& loop) {
  meet_before();
  parts_.blocks.push_back(loop.block);
  const auto number = static_cast<uint32_t>(parts_.blocks.size() - 1);
  control(Control::kLoop, number);
  begin_scope(true);
  place(loop.body, loop.block.index);
  Meeting clears;
  leave_scope(clears);
  meet(std::move(clears));
  control(Control::kEndLoop, number);
}

void Placement::place_branch(Node& branch, uint32_t loop) {
  meet_before();
  parts_.blocks.push_back(branch.block);
  const auto number = static_cast<uint32_t>(parts_.blocks.size() - 1);
  control(Control::kBranch, number);
  Meeting clears;
  begin_scope(true);
  place(branch.body, loop);
  leave_scope(clears);
  if (!branch.otherwise.empty()) {
    control(Control::kElse, number);
    know_all();
    begin_scope(true);
    place(branch.otherwise, loop);
    leave_scope(clears);
  }
  control(Control::kEndBranch, number);
  meet(std::move(clears));
}

// A function may be called anywhere, so nothing else uses its semaphores; only other functions of
// its part may, which it neither calls nor is called by.
void Placement::place_function(Node& function) {
  if (journal_.error()) return;
  in_function_ = function.block.function;
  part_ = levels_.empty() ? in_function_ : 1 + levels_[in_function_];
  of_functions_ = 0;
  for (const auto& [part, most] : most_of_part_) of_functions_ += part == part_ ? 0 : most;
  most_here_ = 0;
  know_all();
  parts_.blocks.push_back(function.block);
  const auto number = static_cast<uint32_t>(parts_.blocks.size() - 1);
  open_scopes_.clear();
  begin_scope(true);
  control(Control::kFunction, number);
  place(function.body, 0);
  meet({{scope()}});
  control(Control::kEndFunction, number);
  parts_.scopes[scope()].end = issue_;
  most_of_part_[part_] = std::max(most_of_part_[part_], most_here_);
}

// A motion with the innermost loop is one with a block, and with nothing where there is no loop.
void Placement::settle(Item& item, uint32_t loop) {
  for (auto* regions : {&item.reads, &item.writes}) {
    for (Region& region : *regions) {
      if (loop != 0) region.motions.add({loop, 0, region.advance});
      if (!region.motions.fits()) moves_too_often();
      region.advance = 0;
      reach(region);
    }
  }
  auto& advances = item.step.advances;
  if (loop == 0) std::erase_if(advances, [](const Advance& advance) { return advance.index == 0; });
  for (Advance& advance : advances) {
    if (advance.index == 0) advance.index = loop;
  }
  keep_transfer(item, loop);
}

// The innermost loop counts as an index where it is not flat.
void Placement::moves_too_often() {
  journal_.fail(
      runtime::fail(NRT_INVALID,
                    "an access moves with more than {} indexes, with that of its innermost "
                    "loop, which holds other blocks",
                    Motions::kMost));
}

// The list of transfers follows the loops around it.
void Placement::keep_transfer(Item& item, uint32_t loop) {
  if (item.step.transfer < 0) return;
  Transfer& transfer = parts_.transfers[static_cast<size_t>(item.step.transfer)];
  const auto move = [&](BufferAccess& side) {
    if (loop == 0) return;
    side.motions.add({loop, 0, side.advance});
    if (!side.motions.fits()) moves_too_often();
    side.advance = 0;
  };
  move(transfer.to);
  for (BufferAccess& side : transfer.from) move(side);
}

// What a number may reach counts wherever it is: its value may change between two accesses.
void Placement::reach(Region& region) const {
  const Motions motions = region.motions;
  for (const Motion& motion : motions) {
    const IndexInfo& index = indexes_[motion.index];
    const int64_t far = motion.bytes * int64_t{index.most};
    if (index.is_loop) {
      (far < 0 ? region.below : region.above) += static_cast<uint64_t>(far < 0 ? -far : far);
      continue;
    }
    (far < 0 ? region.first : region.end) += static_cast<uint64_t>(far);
    region.motions.remove(motion.index);
    region.pitch = 0;
  }
}

void Placement::finish() {
  journal_.section("end");
  std::vector<const Slot*> last_first;
  for (const Slot& slot : parts_.slots) last_first.push_back(&slot);
  std::sort(last_first.begin(), last_first.end(),
            [](const Slot* a, const Slot* b) { return a->last.issue < b->last.issue; });
  for (const Slot* slot : last_first) {
    bool known = false;
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      known = known || knowledge_.knows(e, slot->last);
    }
    if (known) continue;
    Step step;
    step.scope = scope();
    step.instruction.opcode = NEURON_OP_EVENT;
    step.instruction.engines = static_cast<uint8_t>(1u << slot->owner);
    // Two transfers can share one instruction: the emitter takes two waits each.
    auto& steps = parts_.steps[slot->owner];
    const bool join = !steps.empty() && steps.back().control == Control::kNone &&
                      steps.back().instruction.opcode == NEURON_OP_EVENT && steps.back().loop < 0 &&
                      steps.back().waits.size() == 1;
    order(slot->owner, join ? steps.back() : step, {slot->last}, true);
    if (!join) steps.push_back(std::move(step));
  }
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!parts_.used[e]) continue;
    Step step;
    step.scope = scope();
    step.instruction.opcode = NEURON_OP_RET;
    step.instruction.engines = static_cast<uint8_t>(1u << e);
    parts_.steps[e].push_back(std::move(step));
  }
}

}  // namespace neuron::builder
