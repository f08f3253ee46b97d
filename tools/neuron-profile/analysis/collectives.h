// SPDX-License-Identifier: Apache-2.0
//
// Totals of the collectives of an execution: by collective, by CC core, by the rank that bytes go
// to or that is waited for. Made in one pass over the events, in memory that depends on the program
// and not on how long it ran, but for the runs, of which the first kMostRuns are kept.
// Callers: summaries, and views that show each run. Thread-safe: values. Cannot fail. Times are
// picoseconds.
//
// A collective begins when its CC core sees the go, and ends with the last instruction that belongs
// to it. What the ranks do for each other is in the profile of the one that does it: transfers to a
// rank are this rank's, and transfers from a rank are seen as waits for it.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_COLLECTIVES_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_COLLECTIVES_H

#include <map>
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
};

struct CollectiveTotals {
  uint64_t runs = 0;
  uint64_t time = 0, longest = 0;
  uint64_t waited = 0;  // for other ranks
  uint64_t sent = 0;    // bytes to other ranks
  std::map<uint32_t, uint64_t> waited_by_rank;
};

struct CollectiveRun {
  uint32_t stream = 0;
  uint32_t collective = 0;  // its number in the stream
  uint64_t begin = 0, end = 0;
};

struct StreamTotals {
  uint64_t instructions = 0, time = 0, active = 0;
};

struct Collectives {
  static constexpr size_t kMostRuns = 1u << 20;

  std::map<std::pair<uint32_t, uint32_t>, CollectiveTotals> operations;  // stream, collective
  std::map<uint32_t, LinkTotals> links;                                  // by rank
  std::map<uint32_t, StreamTotals> streams;
  std::vector<CollectiveRun> runs;
  uint64_t count = 0, time = 0;  // of all runs
  uint64_t active = 0;           // in which at least one runs
};

class CollectivesVisitor final : public Visitor {
 public:
  // Both outlive it.
  CollectivesVisitor(Collectives& result, const Program& program)
      : result_(result), program_(program) {}

  void stream_instruction(const StreamEvent& e) override;
  void transfer(const TransferEvent& e) override;
  void finish();

 private:
  struct Open {
    bool is = false;
    CollectiveRun run;
  };
  void close(Open& open);

  Collectives& result_;
  const Program& program_;
  std::map<uint32_t, Open> open_;  // by stream
  std::map<uint32_t, CoveredTime> links_, streams_;
  CoveredTime any_;
};

}  // namespace neuron::profile

#endif
