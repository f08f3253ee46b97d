// SPDX-License-Identifier: Apache-2.0
//
// An inspect session as Parquet tables in a folder: SystemProfileEvents, SystemProfileMetadata,
// CpuUsage, HostMemUsage, DeviceProfileList, and SchemaFields. Times are nanoseconds since the
// epoch. Memory: of the events that have begun and not ended. Callers: neuron-profile. Fails as the
// session or the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_SESSION_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_SESSION_TABLES_H

#include <string>

#include "tools/neuron-profile/trace/session.h"

namespace neuron::profile {

// Makes the folder. Returns the number of tables.
runtime::Result<size_t> write_session_tables(const Session& session, const std::string& folder);

}  // namespace neuron::profile

#endif
