// SPDX-License-Identifier: Apache-2.0
//
// The source of snapshots: this host's devices, through the driver library.
//
// Callers: operator tools; one Source is used by one thread at a time. Opens nothing that takes one
// of a device's process slots, and writes nothing. Each device is asked with its own deadline: a
// device that does not answer delays the call by at most that, and its `error` says so.
// Fails: never; the snapshot says what is missing.
#ifndef TOOLS_TELEMETRY_SOURCE_H
#define TOOLS_TELEMETRY_SOURCE_H

#include <chrono>
#include <memory>

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

// What a caller wants to know; the rest stays empty and costs nothing.
struct Wanted {
  bool processes = true;       // who holds what, with counters, memory and models
  bool all_processes = false;  // also those without a runtime record
  bool hardware = true;        // error counters, power, state, memory used
  bool host = true;            // processors and memory of the host
  bool instance = true;
  bool network = false;
};

class Source {
 public:
  virtual ~Source() = default;
  virtual Snapshot take(const Wanted& wanted, std::chrono::milliseconds per_device) = 0;
};

// The devices that NEURON_EMULATOR selects: this process's own embedded ones, a daemon's, or the
// kernel's.
std::unique_ptr<Source> open_host_source();

}  // namespace neuron::telemetry

#endif
