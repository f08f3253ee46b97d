// SPDX-License-Identifier: Apache-2.0
// The model times at which other cores and chips updated the semaphores of a block.
//
// A write from another group reaches a semaphore when the host delivers it, which may be early or
// late in this group's model time. Its value counts at once, but a sequencer that waits for it
// resumes at the time that the sender gave it. So each cell remembers its units in the order in
// which they came. The older units are consumed first, and a wait for n holds from the latest time
// of the first n. With one producer for each cell, the result depends on the programs alone, not on
// the order in which the host runs them. Units of this group get a time only if they follow units
// of others. Callers: the holder of the core. Fails: std::bad_alloc only. Above kMaxEntries changes
// of time in one cell, the last entry takes all further units.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_ARRIVAL_TIMES_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_ARRIVAL_TIMES_H

#include <array>
#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>

#include "driver/emulator/chip/bus.h"
#include "driver/isa/instruction.h"
#include "hw/isa.h"

namespace neuron::core {

// Cells 0-255 are semaphores, 256-511 events.
class ArrivalTimes {
 public:
  static constexpr size_t kMaxEntries = 4096;

  static unsigned cell_of(bool event, unsigned index) {
    return index + (event ? NEURON_SEMAPHORES : 0);
  }

  // Records a change of a cell that had the value `before`. `remote`: by another group, at its
  // `time`.
  void note(neuron_update_operation operation, unsigned cell, uint32_t units, uint32_t before,
            bool remote, chip::ModelTime time) {
    if (remote || timed_[cell]) note_timed(operation, cell, units, before, remote, time);
  }
  // The time since which a wait that holds at the value has held; 0 for always.
  chip::ModelTime held_from(const isa::Wait& wait, uint32_t value, int32_t wanted) const {
    const unsigned cell = cell_of(wait.event, wait.index);
    return timed_[cell] ? held_from_timed(wait, cell, value, wanted) : 0;
  }
  void clear();

 private:
  struct Entry {
    uint32_t units;
    chip::ModelTime time;
  };
  struct Cell {
    std::deque<Entry> entries;
    uint64_t units = 0;  // of all entries; what the cell has beyond them is older
  };
  void note_timed(neuron_update_operation operation, unsigned cell, uint32_t units, uint32_t before,
                  bool remote, chip::ModelTime time);
  void add(unsigned cell, uint32_t units, chip::ModelTime time);
  void take(unsigned cell, uint32_t units, uint32_t before);
  void forget(unsigned cell);
  chip::ModelTime held_from_timed(const isa::Wait& wait, unsigned cell, uint32_t value,
                                  int32_t wanted) const;

  std::bitset<NEURON_SEMAPHORES + NEURON_EVENTS> timed_;
  std::array<std::unique_ptr<Cell>, NEURON_SEMAPHORES + NEURON_EVENTS> cells_;
};

}  // namespace neuron::core

#endif
