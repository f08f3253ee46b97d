// SPDX-License-Identifier: Apache-2.0
// What one instruction costs on its engine, in cycles and in model time (integer picoseconds).
//
// Numbers that differ by generation are in generation.h; the others are in cost.cpp, each with its
// source. Pure functions of the decoded instruction, so a result may be kept with it. Callers: the
// emulated sequencer, neuron-as. Any thread, cannot fail.
#ifndef DRIVER_ISA_COST_H
#define DRIVER_ISA_COST_H

#include <cstdint>

#include "driver/isa/generation.h"
#include "driver/isa/instruction.h"

namespace neuron::isa {

ModelTime cycles_to_ps(unsigned engine, uint64_t cycles, unsigned generation = 2);

inline constexpr ModelTime kControlInterval = kGenerations[0].timing.control_interval;

// The cost of an instruction on its engine.
struct Cost {
  ModelTime interval = kControlInterval;  // the unit is occupied; inputs are consumed at its end
  ModelTime latency = 0;                  // from there until the result is visible
  ModelTime dependent = 0;                // delay if it reads what the instruction before it wrote
  bool datapath = false;
};
Cost cost_of(const Instruction& instruction, unsigned engine, unsigned generation = 2);

// Cycles of the engine's clock that make up `interval` of a datapath instruction; 0 for any other.
uint64_t cycles_of(const Instruction& instruction, unsigned engine, unsigned generation = 2);

// How many times faster Vector or Activation executes an instruction because of its types: 1, 2, 4.
unsigned performance_mode(const Instruction& instruction, unsigned engine, unsigned generation);

}  // namespace neuron::isa

#endif
