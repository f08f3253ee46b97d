// SPDX-License-Identifier: Apache-2.0
// What one instruction costs on its engine, in cycles and in model time (integer picoseconds).
//
// Every constant has its source beside it in cost.cpp: a published fact, a fit to published
// measurements, or our own choice where nothing is published. Pure functions of the decoded
// instruction, so a result may be kept with it. Callers: the emulated sequencer, neuron-as. Any
// thread, cannot fail.
#ifndef DRIVER_ISA_COST_H
#define DRIVER_ISA_COST_H

#include <cstdint>

#include "driver/isa/instruction.h"

namespace neuron::isa {

using ModelTime = uint64_t;  // picoseconds

// Clocks (architecture guides), GHz: PE 2.8, Vector 1.12, the others 1.4; on generation 3 PE 2.4,
// Vector 0.96, the others 1.2.
ModelTime cycles_to_ps(unsigned engine, uint64_t cycles, unsigned generation = 2);

// A control or flow instruction occupies its sequencer for one smallest initiation interval; the
// guide publishes 64 cycles for small instructions. All sequencers run at the clock of the Scalar
// engine (our choice).
inline constexpr ModelTime kControlInterval = 45'714;
constexpr ModelTime control_interval(unsigned generation) {
  return generation >= 3 ? 53'333 : kControlInterval;
}
// Every further store of one `write`, every doorbell of a dma_trigger, and every half of a
// descriptor pair that Pool writes: one posted write per cycle of its sequencer (our choice).
inline constexpr ModelTime kPostedWrite = 714;
constexpr ModelTime posted_write(unsigned generation) {
  return generation >= 3 ? 833 : kPostedWrite;
}

// An instruction on its engine.
struct Cost {
  ModelTime interval = kControlInterval;  // the unit is occupied; inputs are consumed at its end
  ModelTime latency = 0;                  // from there until the result is visible
  ModelTime dependent = 0;                // delay if it reads what the instruction before it wrote
  bool datapath = false;
};
Cost cost_of(const Instruction& instruction, unsigned engine, unsigned generation = 2);

// Cycles of the engine's clock behind `interval` of a datapath instruction; 0 of any other.
uint64_t cycles_of(const Instruction& instruction, unsigned engine, unsigned generation = 2);

}  // namespace neuron::isa

#endif
