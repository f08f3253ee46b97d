// SPDX-License-Identifier: Apache-2.0
// Costs in model time (integer picoseconds), in the namespace of the core. The numbers are in
// driver/isa (cost.h, dma_cost.h), where libccom's simulator reads them too; README.md has the
// table. Any thread, cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_COST_MODEL_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_COST_MODEL_H

#include <cstdint>
#include <type_traits>

#include "driver/emulator/chip/bus.h"
#include "driver/isa/cost.h"
#include "driver/isa/dma_cost.h"

namespace neuron::core {

using chip::ModelTime;
using isa::Cost;
using isa::cost_of;
static_assert(std::is_same_v<ModelTime, isa::ModelTime>);

using isa::kDmaStart;
using isa::kSemaphoreLatency;

}  // namespace neuron::core

#endif
