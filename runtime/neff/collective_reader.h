// SPDX-License-Identifier: Apache-2.0
//
// Reads the key "collectives" of sgNN/def.json: the collective operations of a program.
// Callers: definition_reader. Thread-safe: no state. Fails: through the checker of the object, with
// the path of the field, the value found and the values expected.
#ifndef RUNTIME_NEFF_COLLECTIVE_READER_H
#define RUNTIME_NEFF_COLLECTIVE_READER_H

#include "runtime/neff/json_object.h"
#include "runtime/neff/model.h"

namespace neuron::neff {

inline constexpr size_t kMostCollectives = 4096;  // of a program
// Different lists of replica groups over all collectives of a program.
inline constexpr size_t kMostGroupLists = 16;
inline constexpr uint32_t kMostRanks = 128;  // in one job with device collectives
inline constexpr size_t kMostCounts = size_t{kMostRanks} * kMostRanks;

// `subgraph` already has its variables; the operations are added to it.
void read_operations(JsonObject& top, const ModelLimits& limits, uint32_t generation,
                     Subgraph& subgraph);

}  // namespace neuron::neff

#endif
