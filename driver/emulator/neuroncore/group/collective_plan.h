// SPDX-License-Identifier: Apache-2.0
// What a DMA engine's queue of collectives will do, and when.
//
// This queue has a time of its own, and only its CC core rings it. So its runs are planned, links
// to other chips included, when their doorbell is rung: in the order of the CC core's program. A CC
// core that waits for another chip may be woken late by the host's time, when other transfers of it
// have been served already. If a run took its links when it began, which of two is first would
// depend on the host; so it takes them in the order of doorbells, in the first gap behind its
// begin. A plan has a limited number of runs: who rings for more has the others planned when these
// are done. Else a ring of small packets would take many times its own size of the daemon's memory.
// Callers: DmaActors, the holder of the core. Thread-safe: no. Fails: std::bad_alloc.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_COLLECTIVE_PLAN_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_COLLECTIVE_PLAN_H

#include <deque>

#include "driver/emulator/chip/udma_engine.h"
#include "driver/isa/dma_cost.h"

namespace neuron::core {

class CollectivePlan {
 public:
  struct Run {
    chip::DmaRun run;
    chip::ModelTime begin, end;
  };

  // More than programs of collectives ring for ahead.
  static constexpr size_t kMostRuns = 1024;

  // When a run that is rung for at this time begins: behind what is planned, or after the start of
  // an engine that has nothing to do by then.
  chip::ModelTime begin(chip::ModelTime rung) const {
    return end_ != 0 && rung <= end_ ? end_ : rung + isa::kDmaStart;
  }
  // The descriptors of planned runs.
  const chip::DmaAhead& ahead() const { return ahead_; }
  // The run is of rings that were rewound since others were planned.
  bool is_stale(const chip::DmaRun& run) const {
    return !runs_.empty() && runs_.back().run.generation != run.generation;
  }
  void add(const chip::DmaRun& run, chip::ModelTime begin, chip::ModelTime end) {
    runs_.push_back({run, begin, end});  // first: it may find no memory
    ahead_.m2s += run.m2s;
    ahead_.s2m += run.s2m;
    end_ = end;
  }
  bool empty() const { return runs_.empty(); }
  bool is_full() const { return runs_.size() >= kMostRuns; }
  const Run& next() const { return runs_.front(); }
  // The next run has been executed.
  void done() {
    if (runs_.empty()) return;
    ahead_.m2s -= runs_.front().run.m2s;
    ahead_.s2m -= runs_.front().run.s2m;
    runs_.pop_front();
  }
  // Nothing is planned any more; the times of what was done stay.
  void clear() {
    runs_.clear();
    ahead_ = {};
  }
  // The group's time begins again.
  void restart_time() { end_ = 0; }
  void reset() {
    clear();
    end_ = 0;
  }

 private:
  std::deque<Run> runs_;
  chip::DmaAhead ahead_;
  chip::ModelTime end_ = 0;  // of the last run; 0: none since time began
};

}  // namespace neuron::core

#endif
