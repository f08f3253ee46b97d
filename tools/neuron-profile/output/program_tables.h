// SPDX-License-Identifier: Apache-2.0
//
// Tables of a program, and SchemaFields, which all sets of tables have. Callers: the tables of a
// profile and of a session. Fails as the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_PROGRAM_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_PROGRAM_TABLES_H

#include <map>
#include <optional>
#include <vector>

#include "tools/neuron-profile/output/table_set.h"
#include "tools/neuron-profile/output/tables.h"
#include "tools/neuron-profile/output/transfer_tables.h"

namespace neuron::profile {

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
