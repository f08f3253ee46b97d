// SPDX-License-Identifier: Apache-2.0
//
// Reads kernel_debug_info.json of a subgraph (or of the whole file): source files, functions, and
// which tensors the instructions of a range of debug ids work on. No program needs it to run: a
// malformed member gives a note and no names. Callers: model.cpp; LoadedModel asks for reports.
// Thread-safe: values. Format: {"files": ["a.py"], "functions": ["main" or {"name": "tile",
// "debug": [first, last]}], "tensors": [{"debug": [first, last], "name": "w", "shape": [128,
// 64]}]}.
#ifndef RUNTIME_NEFF_DEBUG_INFO_H
#define RUNTIME_NEFF_DEBUG_INFO_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::neff {

class Container;
struct ModelLimits;

// Debug ids first..last, both included.
struct DebugRange {
  uint32_t first = 0;
  uint32_t last = 0;
  std::string name;
  std::vector<uint64_t> shape;  // Tensors; may be empty.
};

struct DebugInfo {
  std::vector<std::string> files;
  std::vector<std::string> function_names;  // All of them, in order.
  std::vector<DebugRange> functions;        // Those that say which ids are theirs.
  std::vector<DebugRange> tensors;

  // "in tile, on w [128, 64] and x [64]"; empty for an unknown id.
  std::string describe(uint32_t debug) const;
};

DebugInfo read_debug_info(const Container& container, const std::string& directory,
                          const ModelLimits& limits, std::vector<std::string>& notes);

}  // namespace neuron::neff

#endif
