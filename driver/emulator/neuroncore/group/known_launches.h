// SPDX-License-Identifier: Apache-2.0
// Repeats the beginnings of launches that a core has executed before, each as one step.
//
// Most of what a core does for a launch is the same each time: the programs around the model's
// wait, clear semaphores, rewind rings, start each other, and report. The first launch after a
// START is executed event by event, the second one is watched as well (launch_watcher.h). A later
// one that finds the core in the same state, with the same bytes of every instruction and the same
// words to load, would do the same at the same model times. So its effects happen at once: the
// states of the engines, semaphores, rings, entries, the records of the execution. Nobody outside
// can tell, because nobody outside can see a core between two of its events but by its mailbox,
// which waits. Every other launch is executed event by event. docs: decisions.md, *Known launches*.
// Callers: the runner of the group. Fails: std::bad_alloc only.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_KNOWN_LAUNCHES_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_KNOWN_LAUNCHES_H

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/emulator/neuroncore/group/dma_actors.h"
#include "driver/emulator/neuroncore/group/launch_watcher.h"

namespace neuron::core {

class KnownLaunches {
 public:
  KnownLaunches(CoreState& state, Execution& execution, Waits& waits, const DmaActors& dma)
      : state_(state),
        execution_(execution),
        waits_(waits),
        dma_(dma),
        watcher_(state, execution, waits),
        allowed_(wanted()) {}

  static bool wanted();  // NEURON_EMULATOR_KNOWN_LAUNCHES
  // How many launches this thread has repeated, of all cores; for tests.
  static uint64_t repeated_by_this_thread();
  // How many it has remembered; for tests.
  static uint64_t remembered_by_this_thread();

  // A launch is there, and its first event is next. True: the stretch of a known one has happened.
  bool repeat();
  // Called before each event.
  void event(unsigned actor, ModelTime time) {
    if (watcher_.watches() && !watcher_.goes_on(actor, time)) end();
  }
  // Called at quiescence.
  void quiescent() {
    if (watcher_.watches()) end();
  }
  // Something from outside changes the core.
  void disturb() {
    if (watcher_.watches()) watcher_.disturb();
  }
  void reset();

 private:
  static constexpr size_t kMost = 4;
  // A launch that is watched costs more than one that is not, and one that is repeated costs less.
  // So watching has a price, in launches that are repeated; so many are paid for by a START.
  static constexpr unsigned kPrice = 16;
  static constexpr unsigned kMostCredit = 16 * kPrice;

  bool is_plain() const;
  bool is_same_program();
  bool is_next(const KnownLaunch& known);
  bool has_same_cells(const KnownLaunch& known) const;
  bool has_same_words(const KnownLaunch& known) const;
  bool has_same_code(const KnownLaunch& known) const;
  void repeat(const KnownLaunch& known);
  void end();

  CoreState& state_;
  Execution& execution_;
  Waits& waits_;
  const DmaActors& dma_;
  LaunchWatcher watcher_;
  const bool allowed_;

  std::vector<std::unique_ptr<KnownLaunch>> known_;
  size_t oldest_ = 0;
  std::array<uint32_t, kEngines> epochs_{};  // of the launch before
  unsigned credit_ = 0;
  // Of the launch that is_next() has found.
  Execution::Asked asked_;
  Execution::RecordPlace report_;
};

}  // namespace neuron::core

#endif
