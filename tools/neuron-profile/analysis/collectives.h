// SPDX-License-Identifier: Apache-2.0
//
// Totals of the collectives of an execution: by collective, by CC core, by the rank that bytes go
// to or that is waited for. Made in one pass over the events, in memory that depends on the program
// and not on how long it ran, but for the runs, of which the first kMostRuns are kept.
// Callers: summaries, and views that show each run. Thread-safe: values. Cannot fail. Times are
// picoseconds.
//
// A collective begins when its CC core sees the go, and ends with the last instruction that belongs
// to it. What the ranks do for each other is in the profile of the one that does it: the times of
// transfers to a rank are this rank's. Of transfers from a rank, this rank sees the bytes, and when
// it saw them.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_COLLECTIVES_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_COLLECTIVES_H

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tools/neuron-profile/analysis/covered_time.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// To one rank.
struct LinkTotals {
  uint64_t transfers = 0, bytes = 0;
  uint64_t active = 0;         // in which at least one transfer moves something
  uint64_t waited = 0;         // of CC cores, for that rank
  uint64_t network_bytes = 0;  // of `bytes`: to another instance; their times are not known here
  uint64_t messages = 0, received = 0;  // from it, and their bytes
};

struct CollectiveTotals {
  uint64_t runs = 0;
  uint64_t time = 0, longest = 0;
  uint64_t waited = 0;  // for other ranks
  uint64_t sent = 0;    // bytes to other ranks
  uint64_t received = 0;
  std::map<uint32_t, uint64_t> waited_by_rank;
};

// The instruction that began a collective.
struct Trigger {
  uint8_t engine = 0;
  uint32_t pc = 0;
  uint64_t begin = 0;
};

struct CollectiveRun {
  uint32_t stream = 0;
  uint32_t collective = 0;  // its number in the stream
  uint64_t begin = 0, end = 0;
  // Nothing if events are missing, or the address that was written is not in the program's code.
  std::optional<Trigger> trigger;
};

struct StreamTotals {
  uint64_t instructions = 0, time = 0, active = 0;
};

struct Collectives {
  static constexpr size_t kMostRuns = 1u << 20;

  std::map<std::pair<uint32_t, uint32_t>, CollectiveTotals> operations;  // stream, collective
  std::map<uint32_t, LinkTotals> links;                                  // by rank
  std::map<uint32_t, StreamTotals> streams;
  std::vector<CollectiveRun> runs;  // those of one CC core in their order
  uint64_t count = 0, time = 0;     // of all runs
  uint64_t active = 0;              // in which at least one runs

  // The run that an instruction of a CC core belongs to; null if it belongs to none.
  const CollectiveRun* run_of(const StreamEvent& e) const;
  std::map<uint32_t, std::vector<size_t>> runs_of_stream;  // their places
};

class CollectivesVisitor final : public Visitor {
 public:
  // Both outlive it.
  CollectivesVisitor(Collectives& result, const Program& program)
      : result_(result), program_(program) {}

  void instruction(const InstructionEvent& e) override;
  void stream_instruction(const StreamEvent& e) override;
  void transfer(const TransferEvent& e) override;
  void gap(uint32_t slot, uint64_t lost) override;
  void finish();

 private:
  struct Open {
    bool is = false;
    CollectiveRun run;
  };
  void close(Open& open);
  void receive(const StreamEvent& e, CollectiveTotals& totals);
  void pair_triggers();

  Collectives& result_;
  const Program& program_;
  std::map<uint32_t, Open> open_;  // by stream
  std::map<uint32_t, CoveredTime> links_, streams_;
  std::map<uint32_t, std::vector<Trigger>> triggers_;  // by stream
  bool gaps_ = false;
  CoveredTime any_;
};

}  // namespace neuron::profile

#endif
