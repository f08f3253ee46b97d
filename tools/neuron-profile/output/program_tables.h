// SPDX-License-Identifier: Apache-2.0
//
// Tables of a program, and what all sets of tables have: a folder without those of an earlier
// profile, and SchemaFields. Callers: the tables of a profile and of a session. Fails as the files
// do, and with NRT_INVALID for a folder that cannot be used.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_PROGRAM_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_PROGRAM_TABLES_H

#include <map>
#include <optional>
#include <vector>

#include "tools/neuron-profile/output/table_set.h"
#include "tools/neuron-profile/output/tables.h"
#include "tools/neuron-profile/output/transfer_tables.h"

namespace neuron::profile {

// Makes the folder, and removes tables of an earlier profile, which would be mixed with those of
// this one. Other files stay: the folder is one that the user has named.
Result<void> make_table_folder(const std::string& folder);

struct ProgramFacts {
  const Program& program;
  const std::vector<PortInfo>& ports;  // of all parts of the model
  const std::optional<NeffFacts>& neff;
  const std::map<uint32_t, TransferTables::Load>& loads;
};

// NeffHeader, TensorInfo, DmaQueuesInfo, HbmUsageSummaryByType.
Result<void> write_program(const ProgramFacts& facts, TableSet& tables);

// The fields of all tables of the set and of this one.
Result<void> write_schema(TableSet& tables);

}  // namespace neuron::profile

#endif
