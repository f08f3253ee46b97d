// SPDX-License-Identifier: Apache-2.0
//
// An inspect session as Parquet tables in a folder: SystemProfileEvents, SystemProfileMetadata,
// CpuUsage, HostMemUsage, DeviceProfileList, and SchemaFields. Times are nanoseconds since the
// epoch. Memory: of the events that have begun and not ended. Callers: neuron-profile. Fails as the
// session or the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_SESSION_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_SESSION_TABLES_H

#include <string>
#include <vector>

#include "tools/neuron-profile/trace/session.h"

namespace neuron::profile {

// What is wanted of a session. An empty list: all.
struct SessionChoice {
  bool system = true;   // events and samples of the host
  bool devices = true;  // DeviceProfileList
  std::vector<std::string> cores, events, instances;
};

// Makes the folder. Returns the number of tables. What could not be read is among the notices of
// the session then.
runtime::Result<size_t> write_session_tables(Session& session, const std::string& folder,
                                             const SessionChoice& choice = {});

}  // namespace neuron::profile

#endif
