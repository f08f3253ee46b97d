// SPDX-License-Identifier: Apache-2.0
//
// Reads sgNN/def.json: variables with their constants, queue sets, semaphores, and which files hold
// the engines' programs. Callers: model.cpp. Thread-safe: no state. Constants borrow the container.
// Fails as model.h says.
#ifndef RUNTIME_NEFF_DEFINITION_READER_H
#define RUNTIME_NEFF_DEFINITION_READER_H

#include <array>
#include <string>
#include <vector>

#include "runtime/neff/model.h"

namespace neuron::neff {

// Member names with their directory. `bin` is empty if the engine has no program; `json` may be
// empty.
struct EngineFiles {
  std::string bin;
  std::string json;
  uint32_t stream = 0;  // Collective cores only.
};

struct Definition {
  Subgraph subgraph;
  uint32_t generation = 0;
  std::array<EngineFiles, NEURON_CORE_ENGINES> engines;
  std::vector<EngineFiles> collectives;
};

runtime::Result<Definition> read_definition(const Container& container,
                                            const std::string& directory, const ModelLimits& limits,
                                            std::vector<std::string>& notes);

}  // namespace neuron::neff

#endif
