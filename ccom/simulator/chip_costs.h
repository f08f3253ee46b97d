// SPDX-License-Identifier: Apache-2.0
// What the steps of a schedule cost on the chips, for the model of links: the formulas of the
// emulated chip (driver/isa), each for a step by itself.
//
// Thread-safe: a function. Cannot fail.
#ifndef CCOM_SIMULATOR_CHIP_COSTS_H
#define CCOM_SIMULATOR_CHIP_COSTS_H

#include "ccom/simulator/simulator.h"
#include "driver/isa/cost.h"
#include "driver/isa/dma_cost.h"

namespace neuron::ccom {

// A CC core triggers a transfer with one instruction and waits for a semaphore with another. A
// transfer starts, moves its bytes and the words of two semaphores. Reductions and copies are
// transfers on all DMA engines of a core.
inline StepCosts chip_costs(uint32_t generation) {
  const isa::Timing& timing = isa::timing_of(generation);
  constexpr double kEngines = 16;
  constexpr double kSample = 1 << 20;
  const double rate = kSample / (isa::transfer_time(1 << 20, timing) * 1e-12);  // of one engine
  const double reducing =
      kSample / (isa::transfer_time(isa::dma_reduction_bytes(1 << 20, 0), timing) * 1e-12);
  StepCosts costs;
  costs.send_ps = isa::kControlInterval;
  costs.receive_ps = isa::kSemaphoreLatency + isa::kControlInterval;
  costs.message_ps = isa::kDmaStart + 2 * timing.dma_descriptor;
  costs.local_ps = isa::kDmaStart + 2 * timing.dma_descriptor + isa::kSemaphoreLatency +
                   2 * isa::kControlInterval;
  costs.reduce_bytes_per_second = kEngines * reducing;
  costs.copy_bytes_per_second = kEngines * rate;
  return costs;
}

}  // namespace neuron::ccom

#endif
