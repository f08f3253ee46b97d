// SPDX-License-Identifier: Apache-2.0
//
// Where snapshots come from: this host's devices, through the driver library.
//
// Callers: operator tools; one Source is used by one thread at a time. Opens nothing that takes one
// of a device's process slots, and writes nothing. Each device is asked on its own deadline: one
// that does not answer costs the call at most that, and is told in its `error`.
// Fails: never; what is missing is said inside the snapshot.
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

// Of NEURON_EMULATOR: this process's own embedded devices, a daemon's, or the kernel's.
std::unique_ptr<Source> open_host_source();

}  // namespace neuron::telemetry

#endif
