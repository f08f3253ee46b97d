// SPDX-License-Identifier: Apache-2.0
// A point in time after which a wait ends with CCOM_TIMEOUT. Everything that waits takes one.
#ifndef CCOM_BASE_DEADLINE_H
#define CCOM_BASE_DEADLINE_H

#include <chrono>

namespace neuron::ccom {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline deadline_in(std::chrono::milliseconds time) { return Clock::now() + time; }

}  // namespace neuron::ccom

#endif
