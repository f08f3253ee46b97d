// SPDX-License-Identifier: Apache-2.0
// What work costs in model time (integer picoseconds).
//
// Every constant has its source beside it: a published fact, a fit to published measurements, or
// our own choice where nothing is published; README.md has the table. Pure functions of the decoded
// instruction, so a result may be kept with it. Any thread, cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_COST_MODEL_H
#define DRIVER_EMULATOR_NEURONCORE_COST_MODEL_H

#include <cstdint>

#include "driver/emulator/chip/bus.h"
#include "driver/isa/instruction.h"

namespace neuron::core {

using chip::ModelTime;

// Clocks of generation 2: PE 2.8 GHz, Vector 1.12 GHz, the others 1.4 GHz (architecture guide).
ModelTime cycles_to_ps(unsigned engine, uint64_t cycles);

// One update of a semaphore reaches a sequencer that waits for it. Not published: chosen as the
// completion write of a DMA (timing fit), which takes the same way.
inline constexpr ModelTime kSemaphoreLatency = 50'000;
// A control or flow instruction occupies its sequencer for one smallest initiation interval; the
// guide publishes 64 cycles for small instructions. All sequencers run at 1.4 GHz (our choice).
inline constexpr ModelTime kControlInterval = 45'714;
// Every further store of one `write`, and every doorbell of a dma_trigger: one posted write per
// cycle at 1.4 GHz (our choice).
inline constexpr ModelTime kPostedWrite = 714;
// Doorbell to first byte of a DMA transfer (DMA bandwidth guide).
inline constexpr ModelTime kDmaStart = 1'300'000;
// Per descriptor pair on its DMA engine (fit, +-25 ns), and bytes at 27.2 GB/s (DMA guide).
inline constexpr ModelTime kDmaDescriptor = 50'000;
ModelTime dma_time(uint64_t descriptor_pairs, uint64_t bytes);

// An instruction on its engine.
struct Cost {
  ModelTime interval = kControlInterval;  // the unit is occupied; inputs are consumed at its end
  ModelTime latency = 0;                  // from there until the result is visible
  ModelTime dependent = 0;                // delay if it reads what the instruction before it wrote
  bool datapath = false;
};
Cost cost_of(const isa::Instruction& instruction, unsigned engine);

// Issue of the next PE instruction behind one that has started: LoadStationary runs in the
// background of a multiplication, so the sequencer does not wait for the array (our choice: 32 PE
// cycles, the duration of the fastest LoadStationary).
inline constexpr ModelTime kPeIssue = 11'428;

}  // namespace neuron::core

#endif
