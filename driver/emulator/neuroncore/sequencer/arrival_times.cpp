// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/arrival_times.h"

#include <algorithm>
#include <iterator>

namespace neuron::core {

void ArrivalTimes::note_timed(neuron_update_operation operation, unsigned cell, uint32_t units,
                              uint32_t before, const Stamp& stamp) {
  switch (operation) {
    case NEURON_UPDATE_INC:
      return add(cell, 1, stamp);
    case NEURON_UPDATE_ADD:
      return add(cell, units, stamp);
    case NEURON_UPDATE_DEC:
      return take(cell, 1, before);
    case NEURON_UPDATE_SUB:
      return take(cell, units, before);
    case NEURON_UPDATE_EVENT_SET:
      units = 1;
      [[fallthrough]];
    case NEURON_UPDATE_WRITE:
      forget(cell);
      if (stamp.time != 0) add(cell, units, stamp);
      return;
    default:
      return forget(cell);
  }
}

void ArrivalTimes::add(unsigned cell, uint32_t units, const Stamp& stamp) {
  if (units == 0) return;
  if (cells_[cell] == nullptr) cells_[cell] = std::make_unique<Cell>();
  Cell& c = *cells_[cell];
  c.units += units;
  c.latest = std::max(c.latest, stamp);
  timed_.set(cell);
  if (c.entries.size() >= kMaxEntries) {
    Entry& last = c.entries.back();
    last.units += units;
    last.stamp = std::max(last.stamp, stamp);
    // Sometimes: those that may be forgotten by now would be looked for with each unit.
    crowded_ = crowded_ || c.units % kManyEntries == 0;
    return;
  }
  // Of this group's own units the earlier ones come first, also if their actor was late.
  auto at = c.entries.end();
  while (stamp.actor != Stamp::kOtherGroup && at != c.entries.begin() &&
         std::prev(at)->stamp.actor != Stamp::kOtherGroup && stamp < std::prev(at)->stamp) {
    --at;
  }
  if (at != c.entries.begin() && std::prev(at)->stamp == stamp) {
    std::prev(at)->units += units;
    return;
  }
  if (at == c.entries.end()) {
    c.entries.push_back({units, stamp});  // insert() would allocate in front of an empty deque
  } else {
    c.entries.insert(at, {units, stamp});
  }
  crowded_ = crowded_ || c.entries.size() > c.many;
}

void ArrivalTimes::forget_before(chip::ModelTime time) {
  crowded_ = false;
  for (unsigned cell = 0; cell < cells_.size(); ++cell) {
    if (!timed_[cell]) continue;
    Cell& c = *cells_[cell];
    while (!c.entries.empty() && c.entries.front().stamp.time < time) {
      c.units -= c.entries.front().units;
      c.entries.pop_front();
    }
    c.many = std::clamp(2 * c.entries.size(), kManyEntries, kMaxEntries - 1);
    if (c.entries.empty()) forget(cell);
  }
}

void ArrivalTimes::restart_time() {
  if (timed_.none()) return;
  for (unsigned cell = 0; cell < cells_.size(); ++cell) {
    if (!timed_[cell]) continue;
    Cell& c = *cells_[cell];
    std::erase_if(c.entries,
                  [](const Entry& entry) { return entry.stamp.actor != Stamp::kOtherGroup; });
    c.units = 0;
    c.latest = {};
    for (const Entry& entry : c.entries) {
      c.units += entry.units;
      c.latest = std::max(c.latest, entry.stamp);
    }
    if (c.entries.empty()) forget(cell);
  }
}

void ArrivalTimes::take(unsigned cell, uint32_t units, uint32_t before) {
  if (!timed_[cell]) return;  // another group takes units without times
  Cell& c = *cells_[cell];
  const auto older = static_cast<uint32_t>(before > c.units ? before - c.units : 0);
  units -= std::min(units, older);
  while (units != 0 && !c.entries.empty()) {
    Entry& first = c.entries.front();
    const uint32_t part = std::min(units, first.units);
    first.units -= part;
    c.units -= part;
    units -= part;
    if (first.units == 0) c.entries.pop_front();
  }
  if (c.entries.empty()) forget(cell);
}

void ArrivalTimes::forget(unsigned cell) {
  timed_.reset(cell);
  if (cells_[cell] == nullptr) return;
  cells_[cell]->entries.clear();
  cells_[cell]->units = 0;
  cells_[cell]->latest = {};
}

ArrivalTimes::Kept ArrivalTimes::kept_of(unsigned cell) const {
  if (!timed_[cell]) return {};
  const Cell& c = *cells_[cell];
  return {{c.entries.begin(), c.entries.end()}, c.units, c.latest};
}

void ArrivalTimes::keep(unsigned cell, const Kept& kept) {
  if (kept.entries.empty()) return forget(cell);
  if (cells_[cell] == nullptr) cells_[cell] = std::make_unique<Cell>();
  Cell& c = *cells_[cell];
  c.entries.assign(kept.entries.begin(), kept.entries.end());
  c.units = kept.units;
  c.latest = kept.latest;
  timed_.set(cell);
  crowded_ = crowded_ || c.entries.size() > c.many;
}

void ArrivalTimes::clear() {
  for (unsigned cell = 0; cell < cells_.size(); ++cell) {
    if (timed_[cell]) forget(cell);
  }
}

Stamp ArrivalTimes::held_from_timed(const isa::Wait& wait, unsigned cell, uint32_t value,
                                    int32_t wanted, const Stamp& now) const {
  const Cell& c = *cells_[cell];
  if (c.latest < now) return {};
  // How many of the cell's units the condition needs.
  int64_t needed = wanted;
  switch (wait.condition) {
    case NEURON_WAIT_GE:
      break;
    case NEURON_WAIT_EQ:
      needed = value;
      break;
    case NEURON_WAIT_GT:
    case NEURON_WAIT_NE:
      needed = static_cast<int64_t>(wanted) < value ? static_cast<int64_t>(wanted) + 1 : 0;
      break;
    default:
      return {};  // a wait that few units satisfy
  }
  int64_t seen = static_cast<int64_t>(value) - static_cast<int64_t>(c.units);
  Stamp latest;
  for (const Entry& entry : c.entries) {
    if (seen >= needed) break;
    seen += entry.units;
    latest = std::max(latest, entry.stamp);
  }
  return latest < now ? Stamp() : latest;
}

}  // namespace neuron::core
