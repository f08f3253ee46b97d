// SPDX-License-Identifier: Apache-2.0
//
// What the runtime puts between a call and a function whose DMA rings are on shared queues
// (rings/ring_plan.h). The loader points the calls to the function's veneer, which
//   waits until the engine's queues are idle;
//   for each ring: gives the queue the addresses of the ring, and rewinds it;
//   goes on at the function, which returns to the caller.
// A veneer needs two registers that the program leaves alone: one holds the low half of the address
// of all rings, from the beginning of a launch on (wrapper.h), the other one is computed with. It
// loads nothing from memory: strict mode would take that for order between engines.
// Callers: loader. Thread-safe: no state. Fails: an engine's program that uses too many registers.
#ifndef RUNTIME_MODEL_VENEERS_H
#define RUNTIME_MODEL_VENEERS_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/base/error.h"
#include "runtime/device/chip_table.h"
#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

struct VeneerRegisters {
  uint8_t base = 0;
  uint8_t scratch = 0;
};

// Two that no instruction of the engine's program names, the highest ones.
Result<VeneerRegisters> find_unused_registers(std::span<const std::byte> code, uint32_t engine);

struct Veneers {
  std::vector<isa::Instruction> code;  // the program's code follows behind it
  std::vector<uint32_t> entries;       // of each function's veneer: its index in `code`
};

Veneers make_veneers(uint32_t engine, const std::vector<SharingFunction>& functions,
                     const CorePlace& core, const VeneerRegisters& registers);

// Points the program's calls of these functions to the veneers, which lie in front of its code.
void call_veneers(const std::vector<SharingFunction>& functions, const Veneers& veneers,
                  std::span<std::byte> code);

}  // namespace neuron::runtime

#endif
