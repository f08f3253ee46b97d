// SPDX-License-Identifier: Apache-2.0
//
// Reads the key "collectives" of sgNN/def.json: the collective operations of a program.
// Callers: definition_reader. Thread-safe: no state. Fails: through the checker of the object, with
// the path of the field, found and expected.
#ifndef RUNTIME_NEFF_COLLECTIVE_READER_H_
#define RUNTIME_NEFF_COLLECTIVE_READER_H_

#include "runtime/neff/json_object.h"
#include "runtime/neff/model.h"

namespace neuron::neff {

inline constexpr std::size_t kMostCollectives = 4096;  // of a program
// Replica groups that differ, over all collectives of a program.
inline constexpr std::size_t kMostGroupLists = 16;
inline constexpr std::uint32_t kMostRanks = 128;  // that device collectives join
inline constexpr std::size_t kMostCounts = std::size_t{kMostRanks} * kMostRanks;

// `subgraph` has its variables and gets the operations.
void read_operations(JsonObject& top, const ModelLimits& limits, std::uint32_t generation,
                     Subgraph& subgraph);

}  // namespace neuron::neff

#endif  // RUNTIME_NEFF_COLLECTIVE_READER_H_
