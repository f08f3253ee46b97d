// SPDX-License-Identifier: Apache-2.0
// Watches the beginning of a launch while a core executes it event by event, and tells afterwards
// what it was (known_launch.h).
//
// It is told of each event before that happens, and looks at the instruction that the event will
// issue. The stretch ends in front of what it does not know, or of what a later launch could do
// otherwise without being seen: it knows control instructions whose bits name no registers, loads
// from memory and from the core's own semaphores, stores to those and to the registers that rewind
// the core's own rings. A transfer, a product or a store to memory ends it. Callers: KnownLaunches,
// by the holder of the core. Fails: std::bad_alloc only; what was no stretch is no answer.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_LAUNCH_WATCHER_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_LAUNCH_WATCHER_H

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "driver/emulator/neuroncore/group/execution.h"
#include "driver/emulator/neuroncore/group/known_launch.h"
#include "driver/emulator/neuroncore/group/waits.h"

namespace neuron::core {

class LaunchWatcher {
 public:
  LaunchWatcher(CoreState& state, const Execution& execution, const Waits& waits);

  bool watches() const { return watches_; }
  // The core is at the beginning of a launch.
  void begin();
  // Called before each event. False: the stretch ends in front of it.
  bool goes_on(unsigned actor, ModelTime time);
  // Something from outside has changed the core: the stretch is none.
  void disturb() { disturbed_ = true; }
  // The stretch ends here. Nothing: it cannot be repeated, or is too short.
  std::unique_ptr<KnownLaunch> end();
  // Drops what was seen.
  void drop();

  // The core's rings that a stretch writes into and that somebody reads: bit per slot.
  static uint32_t rings(const CoreState& state);

 private:
  // Shorter ones are not worth being compared.
  static constexpr uint32_t kFewestEvents = 8;
  // No longer than this, in events, entries and rewound rings; and words of one `write`.
  static constexpr size_t kMost = 4096;
  static constexpr uint32_t kMostWords = 512;

  bool can_issue(const Sequencer& s, const CachedInstruction& entry, ModelTime time);
  bool can_load(const Sequencer& s, const isa::Instruction& i, ModelTime time);
  bool can_write(const Sequencer& s, const isa::Instruction& i, ModelTime time);
  bool rewinds(uint64_t address, uint32_t value) const;
  bool touch_own(uint64_t address, bool write, uint32_t value);
  void touch(bool event, unsigned index);
  void note_code(unsigned engine, uint32_t pc, const CachedInstruction& entry);
  void note_event();
  bool is_long() const;
  bool can_be_repeated() const;

  CoreState& state_;
  const Execution& execution_;
  const Waits& waits_;
  std::array<uint64_t, kDmaEngines> queues_{};  // device addresses of the core's DMA engines

  bool watches_ = false;
  bool disturbed_ = false;
  std::unique_ptr<KnownLaunch> seen_;
  std::array<std::map<uint32_t, const CachedInstruction*>, kEngines> code_;  // by program counter
  std::bitset<NEURON_SEMAPHORES + NEURON_EVENTS> has_cell_;  // those in seen_->cells
  uint32_t rings_turned_ = 0;
  std::array<uint64_t, kEngines> retired_before_{};
  bool begun_ = false;
  bool executing_ = false;  // as of the event before
  // Of the event that goes on: what it does if its instruction is executed, which may also wait.
  struct Doing {
    bool any = false;
    unsigned actor = 0;
    uint64_t retired = 0;           // by the actor before it
    size_t loads = 0, rewinds = 0;  // how many there were before it
    uint8_t loads_into = 0;
    std::optional<KnownLaunch::Completion> completion = {};
  };
  Doing doing_;
};

}  // namespace neuron::core

#endif
