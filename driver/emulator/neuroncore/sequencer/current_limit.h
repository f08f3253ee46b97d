// SPDX-License-Identifier: Apache-2.0
// The limit of the current of a Tensor engine (dI/dt), in model time.
//
// The documentation of the profiler publishes: work begins at about half of the engine's use, and
// reaches all of it within about 3 us; if the use of any 3 us is below half, the limit is back. The
// model: while the limit holds, a multiplication takes twice its time. It is looked at when the
// first multiplication behind a window of that length begins: it holds from then on unless the
// array was in use for half of the time since the window began. A row of the array that gets no
// data is not in use (FITTED: the documents do not say what counts).
// Callers: the holder of the core. A value; cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_CURRENT_LIMIT_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_CURRENT_LIMIT_H

#include "driver/isa/generation.h"
#include "hw/isa.h"

namespace neuron::core {

class CurrentLimit {
 public:
  using ModelTime = isa::ModelTime;

  // Chips before generation 3 have no such limit.
  explicit CurrentLimit(unsigned generation) : exists_(generation >= 3) {}

  // How long a multiplication takes that begins at `begin`, gets data in `rows` rows of the array,
  // and takes `interval` without a limit.
  ModelTime stretch(ModelTime begin, ModelTime interval, unsigned rows) {
    if (!exists_) return interval;
    if (begin >= window_begin_ + kWindow) {
      holds_ = 2 * used_ < begin - window_begin_;
      window_begin_ = begin;
      used_ = 0;
    }
    used_ += interval * rows / NEURON_PARTITIONS;
    return holds_ ? 2 * interval : interval;
  }
  // Model time starts again from 0.
  void restart() {
    window_begin_ = used_ = 0;
    holds_ = true;
  }

 private:
  static constexpr ModelTime kWindow = 3'000'000;

  const bool exists_;
  ModelTime window_begin_ = 0, used_ = 0;
  bool holds_ = true;
};

}  // namespace neuron::core

#endif
