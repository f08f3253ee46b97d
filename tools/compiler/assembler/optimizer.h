// SPDX-License-Identifier: Apache-2.0
//
// Makes a NEFF that loads faster: constants of a subgraph in one file, no debug information, no
// compression. Its results stay the same. Callers: neuron-packager. Thread-safe: no state.
// Fails with the sentence of the reader that refuses the file.
#ifndef TOOLS_COMPILER_ASSEMBLER_OPTIMIZER_H
#define TOOLS_COMPILER_ASSEMBLER_OPTIMIZER_H

#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/container.h"

namespace neuron::assembler {

struct OptimizeOptions {
  bool merge_weights = true;
  bool drop_debug_info = true;
};

runtime::Result<std::vector<uint8_t>> optimize(const neff::Container& container,
                                               const OptimizeOptions& options = {});

}  // namespace neuron::assembler

#endif
