// SPDX-License-Identifier: Apache-2.0
//
// The record that a process has published in its datastore, read from a copy of the block.
//
// Callers: the host's Source, any thread; no state. The block is hostile: any process of the host
// may have written it. Fails: never; senseless values are left out and reported in `error`.
#ifndef TOOLS_TELEMETRY_DATASTORE_RECORD_H
#define TOOLS_TELEMETRY_DATASTORE_RECORD_H

#include <cstddef>
#include <span>

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

struct DatastoreRecord {
  std::string runtime_version;  // empty: the process has not written a record
  std::string tag;
  std::vector<CoreCounters> counters;  // by physical core of the device
  std::vector<CoreMemory> memory;
  HostMemory host_memory;
  std::vector<LoadedModel> models;  // `device` and `running` are the caller's
  std::string error;
};

// `block`: from the start of the datastore, as much as there is of it.
DatastoreRecord read_datastore(std::span<const std::byte> block, unsigned cores);

}  // namespace neuron::telemetry

#endif
