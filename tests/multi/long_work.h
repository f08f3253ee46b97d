// SPDX-License-Identifier: Apache-2.0
// What a client of a daemon does until it is killed: rings, fills and copies that take long.
//
// Callers: a process of a test, which ends with it. Fails: the work returns when a call fails.
#ifndef TESTS_MULTI_LONG_WORK_H
#define TESTS_MULTI_LONG_WORK_H

#include <functional>
#include <span>

#include "tests/multi/device_client.h"

namespace neuron::multi {

// Each call of it would take many seconds, or is followed by the next one. `begun` is called before
// the first.
struct LongWork {
  const char* name;
  void (*work)(DeviceClient&, const std::function<void()>& begun);
};

std::span<const LongWork> long_works();

}  // namespace neuron::multi

#endif
