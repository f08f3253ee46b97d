// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/model/schedule.h"

#include <algorithm>

namespace neuron::monitor {
namespace {

// Groups whose beats are this close share a report; a timer that fires early does not cause
// another.
constexpr Duration kTogether = std::chrono::milliseconds(1);

}  // namespace

Schedule::Schedule(std::vector<Duration> periods, SteadyTime start) : start_(start) {
  Duration first = kFirst;
  for (const Duration period : periods) first = std::min(first, period);
  for (const Duration period : periods) beats_.push_back({period, start + first});
}

SteadyTime Schedule::next() const {
  SteadyTime next = SteadyTime::max();
  for (const Beat& beat : beats_) next = std::min(next, beat.next);
  return next;
}

std::vector<size_t> Schedule::take_due(SteadyTime now) {
  std::vector<size_t> due;
  for (size_t i = 0; i < beats_.size(); ++i) {
    Beat& beat = beats_[i];
    if (beat.next > now + kTogether) continue;
    due.push_back(i);
    const auto passed = (now + kTogether - start_) / beat.period;
    beat.next = start_ + (passed + 1) * beat.period;
    // A beat shortly after the first report is skipped: its period would be too short.
    if (beat.next - now < beat.period / 4) beat.next += beat.period;
  }
  return due;
}

}  // namespace neuron::monitor
