// SPDX-License-Identifier: Apache-2.0
//
// Reads sgNN/<ENGINE>.json: the list `dma` of an engine's transfers, and the tables of Activation
// and DVE. Callers: model.cpp, after the engine binary (function_start names its entries).
// Thread-safe: no state. Every access is checked against its variable, for SBUF against the bytes
// that a partition really has. Fails as model.h says.
#ifndef RUNTIME_NEFF_TRANSFER_READER_H
#define RUNTIME_NEFF_TRANSFER_READER_H

#include <string>
#include <vector>

#include "runtime/neff/model.h"
#include "runtime/neff/subgraph_index.h"

namespace neuron::neff {

// `program` has its entries; dma and tables are filled in.
runtime::Result<void> read_engine_json(const Container& container, const std::string& member,
                                       const Subgraph& subgraph, const SubgraphIndex& index,
                                       const ModelLimits& limits, EngineProgram& program,
                                       std::vector<std::string>& notes);

}  // namespace neuron::neff

#endif
