// SPDX-License-Identifier: Apache-2.0
// The beginning of a launch, as a core has executed it once: what it has read, and what it has
// done.
//
// Concepts: the *stretch* begins when the launch is there and none of its events has happened. It
// consists of whole events of the core's engines, whose instructions are those that
// launch_watcher.h knows. It ends in front of the first other event, or when the core is quiescent.
// A core that is in the same state, has the same bytes in its programs and loads the same words
// will do the same at the same times. Plain values. Callers: LaunchWatcher fills them,
// KnownLaunches compares them and repeats what they say.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_KNOWN_LAUNCH_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_KNOWN_LAUNCH_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "driver/emulator/neuroncore/group/records.h"
#include "driver/emulator/neuroncore/group/scheduler.h"
#include "driver/emulator/neuroncore/sequencer/arrival_times.h"
#include "driver/emulator/neuroncore/sequencer/sequencer_state.h"

namespace neuron::core {

struct KnownLaunch {
  struct Engine {
    SequencerState before, after;
    uint64_t retired = 0;  // by the stretch
    // What the host had configured. The program is that of this START, at this place.
    uint64_t program_base = 0;
    uint32_t program_count = 0, epoch = 0, mode = 0;
  };
  // A semaphore or event of the core that the stretch reads or writes.
  struct Cell {
    bool event = false;
    uint8_t index = 0;
    uint8_t waiters_before = 0, waiters_after = 0;
    uint32_t before = 0, after = 0;
    ArrivalTimes::Kept arrivals = {};  // afterwards; before, no unit has a time
  };
  // Instructions that lie behind each other in the program of an engine.
  struct Code {
    unsigned engine = 0;
    uint32_t first = 0;
    std::vector<std::byte> bytes;
  };
  // A word of memory.
  struct Load {
    unsigned engine = 0;
    uint64_t address = 0;
    uint32_t value = 0;
    ModelTime time = 0;
  };
  // A ring of one of the core's queues is set back to its beginning.
  struct Rewind {
    unsigned engine = 0;
    uint64_t address = 0;
    ModelTime time = 0;
  };
  struct Completion {
    unsigned engine = 0;
    uint32_t status = 0, pc = 0, debug = 0;
    ModelTime time = 0;
    std::array<ModelTime, kEngines> busy{};  // of each engine, at that time
    size_t entries = 0;                      // how many of the entries come before it
  };

  std::array<Engine, kEngines> engines;
  unsigned beginner = 0;  // the engine that consumes the launch
  std::vector<Cell> cells;
  std::vector<Code> code;
  std::vector<Load> loads;
  std::vector<Rewind> rewinds;
  uint32_t rings = 0;  // bit per slot: somebody reads its entries
  std::vector<RecordedEntry> entries;
  std::optional<Completion> completion;
  uint32_t events = 0;
  unsigned last_actor = 0;
  ModelTime last_time = 0;
};

}  // namespace neuron::core

#endif
