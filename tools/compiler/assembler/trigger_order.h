// SPDX-License-Identifier: Apache-2.0
//
// Follows a program and compares the transfers that its triggers name with those that they move. A
// ring holds its transfers in the order of the `.dma` lines, and a trigger moves the next one,
// whichever it names.
//
// The walk knows registers that hold constants, and counts loops with them. Where the way on
// depends on data it stops: what comes behind is not judged. Callers: engine_pass.cpp. Thread-safe:
// a pure function. Fails: never.
#ifndef TOOLS_COMPILER_ASSEMBLER_TRIGGER_ORDER_H
#define TOOLS_COMPILER_ASSEMBLER_TRIGGER_ORDER_H

#include <cstdint>
#include <optional>

#include "runtime/neff/model.h"

namespace neuron::assembler {

struct WrongTrigger {
  uint32_t pc = 0;
  uint32_t named = 0;            // index into EngineProgram::dma: the first with the trigger's id
  std::optional<uint32_t> next;  // the same: what the trigger would move; empty: the ring is empty
};

// The first trigger that names another transfer than the one it moves.
std::optional<WrongTrigger> find_wrong_trigger(const neff::EngineProgram& program);

}  // namespace neuron::assembler

#endif
