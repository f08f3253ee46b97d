// SPDX-License-Identifier: Apache-2.0
//
// A profile as Parquet tables in a folder, by the published schema 7.4.0: instructions, transfers,
// changes of semaphores, summaries, and SchemaFields with the fields of all tables. Written while
// the profile is read: memory does not grow with it. Times are nanoseconds from the program's first
// instruction. Callers: neuron-profile. Fails as the profile or the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_TABLES_H

#include <string>

#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// Makes the folder. Returns the number of tables.
Result<size_t> write_tables(Profile& profile, uint32_t part, size_t execution,
                            const std::string& folder);

}  // namespace neuron::profile

#endif
