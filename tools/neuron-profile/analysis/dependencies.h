// SPDX-License-Identifier: Apache-2.0
//
// Who waited for whom: instructions for instructions and transfers, by semaphores, and transfers
// for the instructions that started them.
//
// Events come in the order of their times (Profile::visit_in_order), each with the number of its
// row. What a dependency needs from before is kept for a while: the last kMostRan instructions of
// each engine, a few transfers of each queue and changes of each semaphore. Callers: tables of a
// profile. One thread. Cannot fail: a dependency whose cause is too long ago, or none of this
// core's, is not told.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_DEPENDENCIES_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_DEPENDENCIES_H

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

enum class DependencyKind : uint8_t {
  kTrigger,    // an instruction started a transfer
  kSemaphore,  // a change of a semaphore or event ended a wait
  kTransfers,  // an engine waited for the transfers that it had started
};

struct Dependency {
  DependencyKind kind = DependencyKind::kTrigger;
  bool from_transfer = false, to_transfer = false;  // otherwise instructions
  uint64_t from = 0, to = 0;                        // rows
  int64_t gap = 0;                                  // ps from the end of one to the other's begin
};

// An instruction that was executed.
struct Ran {
  uint64_t row = 0, begin = 0, end = 0;
};

class Dependencies {
 public:
  using Use = std::function<void(const Dependency&)>;
  static constexpr size_t kMostRan = 1u << 15;

  explicit Dependencies(Use use) : use_(std::move(use)) {}

  void instruction(const InstructionEvent& e, uint64_t row);
  // Returns the instruction that started it.
  std::optional<Ran> transfer(const TransferEvent& e, uint64_t row);
  void update(const UpdateEvent& e);
  // What the transfer has changed at its end; kNoCell: nothing.
  uint32_t changed_by(const TransferEvent& e) const;
  // Tells what still waited for an instruction's end.
  void finish();

 private:
  struct OneRan : Ran {
    uint32_t pc = 0;
    uint64_t before = 0;  // place of the one before with this pc, or kNone
  };
  // The last instructions of one engine. Places count from the first instruction ever.
  struct History {
    std::deque<OneRan> list;
    uint64_t first = 0;                           // place of the first that is kept
    std::unordered_map<uint32_t, uint64_t> last;  // place by pc
  };
  struct Moved {
    uint64_t row = 0, end = 0;
  };
  // Somebody who waited for an instruction whose end has not come yet.
  struct Waiting {
    uint32_t pc = 0;
    uint64_t time = 0;            // of the change
    uint64_t row = 0, begin = 0;  // who waited
  };
  struct Change {
    uint64_t time = 0;
    uint32_t cell = kNoCell;
  };
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr size_t kMostMoved = 64, kMostUpdates = 32, kMostWaiting = 256;
  static constexpr uint64_t kShort = 1000;  // ps

  void remember(History& history, const InstructionEvent& e, uint64_t row);
  void settle_waiting(const InstructionEvent& e, uint64_t row);
  void follow_wait(const InstructionEvent& e, uint64_t row);
  // The last one of this place that had begun at a time.
  std::optional<Ran> last_begun(unsigned engine, uint32_t pc, uint64_t time) const;
  void tell(DependencyKind kind, bool from_transfer, uint64_t from, uint64_t end, bool to_transfer,
            uint64_t to, uint64_t begin);
  static unsigned queue_of(unsigned dma_engine, unsigned queue) {
    return (dma_engine & 15) << 4 | (queue & 15);
  }

  Use use_;
  std::array<History, NEURON_CORE_ENGINES> ran_;
  std::array<std::vector<Waiting>, NEURON_CORE_ENGINES> waiting_;
  std::array<std::deque<Moved>, 256> moved_;                      // by queue_of()
  std::array<std::deque<Moved>, NEURON_CORE_ENGINES> moved_for_;  // by the engine that started them
  std::array<Change, 256> changed_;                               // by queue_of()
  std::array<std::deque<UpdateEvent>, 512> updates_;              // by cell
};

}  // namespace neuron::profile

#endif
