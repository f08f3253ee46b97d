// SPDX-License-Identifier: Apache-2.0
//
// Tells which transfers of an engine open the section of a function, in engine JSON and in `.dma`.
// A section lasts to the next one of the same queue set. Callers: assembly_json.cpp,
// engine_printer.cpp. Thread-safe: no. Borrows both.
#ifndef TOOLS_COMPILER_ASSEMBLER_SECTIONS_H
#define TOOLS_COMPILER_ASSEMBLER_SECTIONS_H

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/neff/model.h"

namespace neuron::assembler {

class FunctionSections {
 public:
  FunctionSections(const neff::Subgraph& subgraph, const neff::EngineProgram& program)
      : program_(program), open_(subgraph.queues.size()) {}

  // To be called for the transfers in their order. Returns the function whose section this transfer
  // opens; the main program's name if it ends a function's section; empty if it opens none.
  std::string opened_by(const neff::DmaTransfer& transfer) {
    std::optional<uint32_t>& open = open_[transfer.queue];
    if (open == transfer.function) return {};
    open = transfer.function;
    return program_.entries[open.value_or(program_.main)].name;
  }

 private:
  const neff::EngineProgram& program_;
  std::vector<std::optional<uint32_t>> open_;  // By queue set
};

// True if a source's scale differs from its transfer's.
inline bool has_own_scale(const neff::DmaTransfer& transfer, const neff::DmaAccess& source) {
  return transfer.operation == neff::DmaOperation::kFma && transfer.from.size() > 1 &&
         std::bit_cast<uint32_t>(source.scale) != std::bit_cast<uint32_t>(transfer.scale);
}

}  // namespace neuron::assembler

#endif
