// SPDX-License-Identifier: Apache-2.0
//
// Checks every instruction of a program before it is loaded. Most mistakes are so reported with
// name and place, instead of causing a fault. Callers: loader. Thread-safe: no state.
// Fails: NRT_UNSUPPORTED_NEFF_VERSION for another instruction set, else NRT_INVALID; the sentence
// has engine, pc, source line, instruction, rule, and what was found.
#ifndef RUNTIME_MODEL_INSTRUCTION_CHECK_H
#define RUNTIME_MODEL_INSTRUCTION_CHECK_H

#include <bitset>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

struct SynchronizationUse {
  std::bitset<NEURON_SEMAPHORES> semaphores;
  std::bitset<NEURON_EVENTS> events;
};

// Also adds the semaphores and events that the program waits for or updates to `used`.
Result<void> check_program(std::span<const std::byte> code, uint32_t engine, uint32_t generation,
                           const std::vector<neff::SourceLine>& lines, const neff::DebugInfo& debug,
                           SynchronizationUse& used);

// "PE pc 12 (matmul.py:40, in tile, on w [128, 64]): matmul psum[...] ...". `instruction` may be
// empty if pc is outside.
std::string describe_instruction(uint32_t engine, uint32_t pc,
                                 std::span<const std::byte> instruction,
                                 const std::vector<neff::SourceLine>& lines,
                                 const neff::DebugInfo& debug);

}  // namespace neuron::runtime

#endif
