// SPDX-License-Identifier: Apache-2.0
// The model times at which the semaphores of a block were updated.
//
// A write from another group reaches a semaphore when the host delivers it, which may be early or
// late in this group's model time. Its value counts at once, but a sequencer that waits for it
// resumes at the time that the sender gave it. So each cell remembers its units. The older units
// are consumed first, and a wait for n holds from the latest time of the first n. Units of others
// stand in the order in which they came: with one producer for each cell, the result depends on the
// programs alone, not on the order in which the host runs them.
//
// A sequencer that waits for others may be woken late, at a time that the rest of its group has
// passed already. Then it must not see what the group has done since. So units of the group itself
// are kept as well, in the order of their times. Those that no sequencer can meet any more are
// forgotten.
//
// Callers: the holder of the core. Fails: std::bad_alloc only. Above kMaxEntries changes of time in
// one cell, the last entry takes all further units.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_ARRIVAL_TIMES_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_ARRIVAL_TIMES_H

#include <array>
#include <bitset>
#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "driver/emulator/chip/bus.h"
#include "driver/isa/instruction.h"
#include "hw/isa.h"

namespace neuron::core {

// When something happened, and by which actor of the group: of two at the same time the one with
// the smaller number acts first. Zero: at no time, as what the host does.
struct Stamp {
  static constexpr uint8_t kOtherGroup = 255;
  chip::ModelTime time = 0;
  uint8_t actor = 0;
  auto operator<=>(const Stamp&) const = default;
};

// Cells 0-255 are semaphores, 256-511 events.
class ArrivalTimes {
 public:
  static constexpr size_t kMaxEntries = 4096;
  // A cell with more entries than this asks for those that are forgotten.
  static constexpr size_t kManyEntries = 128;

  static unsigned cell_of(bool event, unsigned index) {
    return index + (event ? NEURON_SEMAPHORES : 0);
  }

  // Records a change of a cell that had the value `before`.
  void note(neuron_update_operation operation, unsigned cell, uint32_t units, uint32_t before,
            const Stamp& stamp) {
    if (stamp.time != 0 || timed_[cell]) note_timed(operation, cell, units, before, stamp);
  }
  // Since when a wait that holds at the value has held, for a sequencer that looks at `now`; zero
  // if it has held before that.
  Stamp held_from(const isa::Wait& wait, uint32_t value, int32_t wanted, const Stamp& now) const {
    const unsigned cell = cell_of(wait.event, wait.index);
    return timed_[cell] ? held_from_timed(wait, cell, value, wanted, now) : Stamp();
  }
  // Whether a cell has so many entries that forget_before() is worth its time.
  bool is_crowded() const { return crowded_; }
  // No sequencer will look at a time before this one any more.
  void forget_before(chip::ModelTime time);
  // The group's time begins again: what it has done itself is older than that. What others have
  // done may be of the launch that begins.
  void restart_time();
  void clear();

  // Whether units of the cell have times.
  bool is_timed(unsigned cell) const { return timed_[cell]; }
  // What a cell has in units with times, as a value: kept by kept_of() and put back by keep().
  struct Entry {
    uint32_t units;
    Stamp stamp;
  };
  struct Kept {
    std::vector<Entry> entries;  // none: the cell is not timed
    uint64_t units = 0;
    Stamp latest;
  };
  Kept kept_of(unsigned cell) const;
  void keep(unsigned cell, const Kept& kept);

 private:
  struct Cell {
    std::deque<Entry> entries;
    uint64_t units = 0;  // of all entries; what the cell has beyond them is older
    Stamp latest;        // of all that were there since it was empty
    size_t many = kManyEntries;
  };
  void note_timed(neuron_update_operation operation, unsigned cell, uint32_t units, uint32_t before,
                  const Stamp& stamp);
  void add(unsigned cell, uint32_t units, const Stamp& stamp);
  void take(unsigned cell, uint32_t units, uint32_t before);
  void forget(unsigned cell);
  Stamp held_from_timed(const isa::Wait& wait, unsigned cell, uint32_t value, int32_t wanted,
                        const Stamp& now) const;

  bool crowded_ = false;
  std::bitset<NEURON_SEMAPHORES + NEURON_EVENTS> timed_;
  std::array<std::unique_ptr<Cell>, NEURON_SEMAPHORES + NEURON_EVENTS> cells_;
};

}  // namespace neuron::core

#endif
