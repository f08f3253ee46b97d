// SPDX-License-Identifier: Apache-2.0
//
// Tells when each group of the configuration is due. A group keeps its own beat, counted from the
// start, so that periods do not drift; missed beats (a suspended host) are skipped.
// Callers: the monitor's loop, one thread. Never fails, never waits.
#ifndef TOOLS_NEURON_MONITOR_MODEL_SCHEDULE_H
#define TOOLS_NEURON_MONITOR_MODEL_SCHEDULE_H

#include <chrono>
#include <cstddef>
#include <vector>

#include "tools/neuron-monitor/configuration/configuration.h"

namespace neuron::monitor {

using SteadyTime = std::chrono::steady_clock::time_point;

class Schedule {
 public:
  // One beat for each period; the first report comes after kFirst or the shortest of them.
  Schedule(std::vector<Duration> periods, SteadyTime start);

  // A user who starts the program for a single report should not wait for a period.
  static constexpr Duration kFirst = std::chrono::milliseconds(250);

  SteadyTime next() const;
  // Returns the indices that are due at `now` and sets their next beat.
  std::vector<size_t> take_due(SteadyTime now);

 private:
  struct Beat {
    Duration period;
    SteadyTime next;
  };
  std::vector<Beat> beats_;
  SteadyTime start_;
};

}  // namespace neuron::monitor

#endif
