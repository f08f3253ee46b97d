// SPDX-License-Identifier: Apache-2.0
//
// Which semaphore each step of an engine and each transfer counts in, and the value that a wait
// compares with.
//
// Each engine counts the steps that others wait for; each loop has a count of its own. When a count
// exceeds what a wait can compare with, it continues in a further semaphore. Scopes that do not
// overlap share semaphores if there are not enough for all.
// Callers: NeffEmitter. Thread-safe: const. Borrows the schedule. Fails when there are too few.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_SEMAPHORE_NUMBERS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_SEMAPHORE_NUMBERS_H

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/program_builder/schedule.h"

namespace neuron::builder {

class SemaphoreNumbers {
 public:
  // The value that a wait compares with: in a loop, `value` in the first round and `per_round` more
  // in each further one.
  struct Target {
    uint8_t semaphore = 0;
    int64_t value = 0;
    uint32_t per_round = 0;
  };
  struct Named {
    std::string name;
    uint8_t number = 0;
  };

  explicit SemaphoreNumbers(const Schedule& schedule) : schedule_(schedule) {}
  runtime::Result<void> assign();

  // Every number once.
  std::vector<Named> all() const;
  // That step `step` of the engine increments.
  uint8_t of_step(unsigned engine, size_t step) const {
    return counters_[signals_[engine][step].counter].number;
  }
  // That a transfer on the slot increments in that scope.
  uint8_t of_slot(uint32_t slot, uint32_t scope) const {
    return shared_ ? counters_[slot_counters_.at({slot, scope})].number : slots_[slot];
  }
  Target target_of(const Point& point, int32_t loop) const;

  // The meeting of all engines: the master counts arrivals; each other engine waits for its own
  // semaphore.
  static constexpr unsigned kMaster = NEURON_ENGINE_SP;
  uint8_t arrivals() const { return meeting_[kMaster]; }
  uint8_t release(unsigned engine) const { return meeting_[engine]; }
  // What becomes 0 at such a meeting, ascending; of a loop whose rounds the device decides: those
  // of engines first.
  std::vector<uint8_t> cleared_by(const Meeting& meeting) const;
  std::vector<uint8_t> cleared_by(const WhileLoop& loop) const;

 private:
  // The value of an engine's semaphore when a step has signalled; in a loop, in its first round.
  struct Signal {
    uint32_t counter = 0;
    uint32_t value = 0;
    uint32_t per_round = 0;  // 0: not in a loop
  };
  struct Counter {
    std::string name;
    uint32_t scope = 0;
    uint8_t number = 0;
  };
  // What an engine counts in now, in one scope.
  struct Current {
    uint32_t counter = 0;
    uint32_t count = kSignalsOfASemaphore;  // Full
  };

  void count(unsigned engine);
  // Which semaphores count in which scope.
  void note_scopes();
  void open(unsigned engine, uint32_t scope, Current& current);
  bool meets() const {
    return !schedule_.while_loops().empty() || !schedule_.parts().meetings.empty();
  }
  runtime::Result<void> share(unsigned first);
  bool share(std::vector<Counter*> counters, std::vector<uint64_t>& until, unsigned first) const;

  const Schedule& schedule_;
  std::vector<Counter> counters_;
  std::array<std::vector<Signal>, NEURON_CORE_ENGINES> signals_;
  std::array<uint8_t, NEURON_CORE_ENGINES> meeting_{};
  std::vector<uint8_t> slots_;  // If none are shared
  bool shared_ = false;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> slot_counters_;  // By slot and scope
  // By scope, ascending: the counters of engines, and the numbers of all that counts.
  std::vector<std::vector<uint32_t>> counters_of_;
  std::vector<std::vector<uint8_t>> numbers_of_;
  uint32_t opened_ = 0;  // Counters of the engine that is counted
};

}  // namespace neuron::builder

#endif
