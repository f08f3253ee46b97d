// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/arrival_times.h"

#include <algorithm>

namespace neuron::core {

void ArrivalTimes::note_timed(neuron_update_operation operation, unsigned cell, uint32_t units,
                              uint32_t before, bool remote, chip::ModelTime time) {
  switch (operation) {
    case NEURON_UPDATE_INC:
      return add(cell, 1, time);
    case NEURON_UPDATE_ADD:
      return add(cell, units, time);
    case NEURON_UPDATE_DEC:
      return take(cell, 1, before);
    case NEURON_UPDATE_SUB:
      return take(cell, units, before);
    case NEURON_UPDATE_EVENT_SET:
      units = 1;
      [[fallthrough]];
    case NEURON_UPDATE_WRITE:
      forget(cell);
      if (remote) add(cell, units, time);
      return;
    default:
      return forget(cell);
  }
}

void ArrivalTimes::add(unsigned cell, uint32_t units, chip::ModelTime time) {
  if (units == 0) return;
  if (cells_[cell] == nullptr) cells_[cell] = std::make_unique<Cell>();
  Cell& c = *cells_[cell];
  c.units += units;
  timed_.set(cell);
  if (!c.entries.empty()) {
    Entry& last = c.entries.back();
    if (last.time == time || c.entries.size() >= kMaxEntries) {
      last.units += units;
      last.time = std::max(last.time, time);
      return;
    }
  }
  c.entries.push_back({units, time});
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
}

void ArrivalTimes::clear() {
  for (unsigned cell = 0; cell < cells_.size(); ++cell) {
    if (timed_[cell]) forget(cell);
  }
}

chip::ModelTime ArrivalTimes::held_from_timed(const isa::Wait& wait, unsigned cell, uint32_t value,
                                              int32_t wanted) const {
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
      return 0;  // a wait that few units satisfy
  }
  const Cell& c = *cells_[cell];
  int64_t seen = static_cast<int64_t>(value) - static_cast<int64_t>(c.units);
  chip::ModelTime latest = 0;
  for (const Entry& entry : c.entries) {
    if (seen >= needed) break;
    seen += entry.units;
    latest = std::max(latest, entry.time);
  }
  return latest;
}

}  // namespace neuron::core
