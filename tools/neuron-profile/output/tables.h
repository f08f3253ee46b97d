// SPDX-License-Identifier: Apache-2.0
//
// A profile as Parquet tables in a folder, by the published schema 7.4.0: instructions, transfers,
// changes of semaphores, what waited for what, use of DMA and memory over time, the program and its
// source, summaries, and SchemaFields with the fields of all tables that were written. A table
// without rows has no file. Written while the profile is read, in the order of time: memory does
// not grow with it. Times are nanoseconds from the program's first instruction. Callers:
// neuron-profile. Fails as the profile or the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_TABLES_H

#include <optional>
#include <string>
#include <vector>

#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// What the header of a NEFF says beside what a profile has.
struct NeffFacts {
  std::string hash, build_version;
  uint64_t header_bytes = 0, data_bytes = 0;
  uint64_t major = 0, minor = 0, package_version = 0;
  uint64_t logical_cores = 0, physical_of_logical = 0;
};

struct TablesWishes {
  std::string folder;                    // is made
  std::vector<std::string> inputs = {};  // files that must stay
  std::optional<NeffFacts> neff;         // of the file that the profile is of, if the user names it
};

// Returns the number of tables.
Result<size_t> write_tables(Profile& profile, uint32_t part, size_t execution,
                            const TablesWishes& wishes);

}  // namespace neuron::profile

#endif
