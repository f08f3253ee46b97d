// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/dependencies.h"

#include <algorithm>

namespace neuron::profile {
namespace {

template <class List, class Item>
void keep(List& list, const Item& item, size_t most) {
  list.push_back(item);
  if (list.size() > most) list.pop_front();
}

}  // namespace

void Dependencies::instruction(const InstructionEvent& e, uint64_t row) {
  if (e.engine >= ran_.size()) return;
  settle_waiting(e, row);
  if (e.wait != 0) follow_wait(e, row);
  remember(ran_[e.engine], e, row);
}

void Dependencies::remember(History& history, const InstructionEvent& e, uint64_t row) {
  OneRan one;
  one.row = row;
  one.begin = e.begin;
  one.end = e.end;
  one.pc = e.pc;
  const uint64_t place = history.first + history.list.size();
  const auto [last, added] = history.last.try_emplace(e.pc, place);
  one.before = added ? kNone : last->second;
  last->second = place;
  history.list.push_back(one);
  if (history.list.size() <= kMostRan) return;
  const auto oldest = history.last.find(history.list.front().pc);
  if (oldest != history.last.end() && oldest->second == history.first) history.last.erase(oldest);
  history.list.pop_front();
  ++history.first;
}

std::optional<Ran> Dependencies::last_begun(unsigned engine, uint32_t pc, uint64_t time) const {
  if (engine >= ran_.size()) return std::nullopt;
  const History& history = ran_[engine];
  const auto found = history.last.find(pc);
  uint64_t place = found == history.last.end() ? kNone : found->second;
  // bounded: each turn goes to an earlier place.
  while (place != kNone && place >= history.first) {
    const OneRan& one = history.list[place - history.first];
    if (one.begin <= time) return one;
    place = one.before;
  }
  return std::nullopt;
}

void Dependencies::tell(DependencyKind kind, bool from_transfer, uint64_t from, uint64_t end,
                        bool to_transfer, uint64_t to, uint64_t begin) {
  use_({.kind = kind,
        .from_transfer = from_transfer,
        .to_transfer = to_transfer,
        .from = from,
        .to = to,
        .gap = static_cast<int64_t>(begin - end)});
}

std::optional<Ran> Dependencies::transfer(const TransferEvent& e, uint64_t row) {
  keep(moved_[queue_of(e.dma_engine, e.queue)], Moved{row, e.end}, kMostMoved);
  if (e.stream != kNoStream || e.trigger >= ran_.size()) return std::nullopt;
  keep(moved_for_[e.trigger], Moved{row, e.end}, kMostMoved);
  const auto trigger = last_begun(e.trigger, e.pc, e.begin);
  if (trigger) {
    tell(DependencyKind::kTrigger, false, trigger->row, trigger->end, true, row, e.begin);
  }
  return trigger;
}

void Dependencies::update(const UpdateEvent& e) {
  keep(updates_[e.cell & 511], e, kMostUpdates);
  if (e.source == NEURON_ENGINE_DMA) {
    changed_[queue_of(e.dma_engine, e.queue)] = {e.time, e.cell};
  }
}

uint32_t Dependencies::changed_by(const TransferEvent& e) const {
  const Change& last = changed_[queue_of(e.dma_engine, e.queue)];
  return last.time == e.end ? last.cell : kNoCell;
}

// What comes is the instruction that changed a semaphore before its end, or a later one of the same
// place: then it was the one before.
void Dependencies::settle_waiting(const InstructionEvent& e, uint64_t row) {
  std::erase_if(waiting_[e.engine], [&](const Waiting& one) {
    if (one.pc != e.pc) return false;
    if (e.begin <= one.time) {
      tell(DependencyKind::kSemaphore, false, row, e.end, false, one.row, one.begin);
    } else if (const auto before = last_begun(e.engine, one.pc, one.time)) {
      tell(DependencyKind::kSemaphore, false, before->row, before->end, false, one.row, one.begin);
    }
    return true;
  });
}

void Dependencies::follow_wait(const InstructionEvent& e, uint64_t row) {
  const auto ended = [&](const std::deque<Moved>& list, uint64_t time) {
    return std::find_if(list.rbegin(), list.rend(),
                        [&](const Moved& one) { return one.end <= time; });
  };
  if (e.wait_cell == kNoCell) return;
  if ((e.wait_cell & NEURON_WAITED_FOR_DMA) != 0) {
    const auto& list = moved_for_[e.engine];
    const auto found = ended(list, e.wait_end);
    if (found != list.rend()) {
      tell(DependencyKind::kTransfers, true, found->row, found->end, false, row, e.begin);
    }
    return;
  }
  const auto& updates = updates_[e.wait_cell & 511];
  auto update = std::find_if(updates.rbegin(), updates.rend(),
                             [&](const UpdateEvent& one) { return one.time <= e.wait_end; });
  // Of changes at one moment, the one that went up counts.
  while (update != updates.rend() && update->after < update->before) ++update;
  if (update == updates.rend()) return;
  if (update->source == NEURON_ENGINE_DMA) {
    const auto& list = moved_[queue_of(update->dma_engine, update->queue)];
    const auto found = ended(list, update->time);
    if (found != list.rend()) {
      tell(DependencyKind::kSemaphore, true, found->row, found->end, false, row, e.begin);
    }
    return;
  }
  if (update->source >= ran_.size()) return;  // a CC core, the host
  const auto source = last_begun(update->source, update->pc, update->time);
  if (source && source->end + kShort >= update->time) {
    tell(DependencyKind::kSemaphore, false, source->row, source->end, false, row, e.begin);
    return;
  }
  auto& waiting = waiting_[update->source];
  if (waiting.size() < kMostWaiting) waiting.push_back({update->pc, update->time, row, e.begin});
}

void Dependencies::finish() {
  for (unsigned engine = 0; engine < waiting_.size(); ++engine) {
    for (const Waiting& one : waiting_[engine]) {
      if (const auto before = last_begun(engine, one.pc, one.time)) {
        tell(DependencyKind::kSemaphore, false, before->row, before->end, false, one.row,
             one.begin);
      }
    }
    waiting_[engine].clear();
  }
}

}  // namespace neuron::profile
