// SPDX-License-Identifier: Apache-2.0
// A planned collective: for each rank and channel a generator of steps, which never holds all of
// them at once.
//
// Callers: planners make schedules; executors, the checker and the simulator take programs from
// them, in any thread. Thread-safe: const calls; a Program belongs to one thread. Owns: itself; a
// program may refer to its schedule, which outlives it. Cannot fail: the planner refuses requests
// that it cannot plan.
#ifndef CCOM_SCHEDULE_SCHEDULE_H
#define CCOM_SCHEDULE_SCHEDULE_H

#include <ccom/ccom.h>

#include <cstdint>
#include <memory>

#include "ccom/schedule/step.h"

namespace neuron::ccom {

// The steps of one channel of one rank, in order.
class Program {
 public:
  virtual ~Program() = default;
  // Fills the fields of `step` that its kind uses (and `bytes`) and returns true, or returns false
  // at the end. Costs nanoseconds: the simulator calls it a billion times.
  virtual bool next(Step& step) = 0;
  // The same without slices, which many programs can tell with less. A caller uses one of the two
  // for the whole of a program.
  virtual bool next_work(StepWork& work) {
    Step step;
    if (!next(step)) return false;
    work = StepWork(step);
    return true;
  }
  // How many bytes of memory the program holds, about.
  virtual uint64_t memory_bytes() const { return 512; }
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  virtual uint32_t ranks() const = 0;
  virtual uint32_t channels() const = 0;
  virtual std::unique_ptr<Program> program(Rank rank, uint32_t channel) const = 0;
  // How many bytes of a rank's buffers the programs touch.
  virtual uint64_t input_bytes(Rank rank) const = 0;
  virtual uint64_t output_bytes(Rank rank) const = 0;
  virtual uint64_t scratch_bytes(Rank rank) const = 0;

  // Symmetry: rank r + period() has the program of rank r with every peer moved by period() (modulo
  // ranks()). Offsets and the order of operands may differ, messages and operands may differ by one
  // element (a vector that the ranks do not divide), and a local copy may be cut elsewhere. 0: no
  // symmetry is claimed.
  virtual uint32_t period() const { return 0; }
  ccom_type_t type = CCOM_UINT8;
  ccom_reduction_t reduction = CCOM_ADD;
};

}  // namespace neuron::ccom

#endif
