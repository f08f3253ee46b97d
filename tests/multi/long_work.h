// SPDX-License-Identifier: Apache-2.0
// What clients of a daemon do until they are killed: rings, fills, copies, programs, loads and
// collectives that take long.
//
// Callers: one thread. A Working owns its processes and kills them at the end. Fails: began() and
// failed() say so.
#ifndef TESTS_MULTI_LONG_WORK_H
#define TESTS_MULTI_LONG_WORK_H

#include <memory>
#include <span>

#include "tests/multi/device_client.h"
#include "tests/support/daemon.h"

namespace neuron::multi {

// Processes in the midst of their work.
class Working {
 public:
  virtual ~Working() = default;
  // Whether all have begun; waits for that.
  virtual bool began() = 0;
  // Whether one has ended, whose work has failed then.
  virtual bool failed() const = 0;
  virtual void kill() = 0;
};

// Each call of it would take many seconds, or is followed by the next one. The device is a
// trn1.2xlarge, of which it uses the first core, or both.
struct LongWork {
  const char* name;
  std::unique_ptr<Working> (*start)(const test::Daemon&);
};

std::span<const LongWork> long_works();

}  // namespace neuron::multi

#endif
