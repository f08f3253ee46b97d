// SPDX-License-Identifier: Apache-2.0
// What DMA transfers and semaphores cost in model time (integer picoseconds), for the emulated chip
// and for the simulator of collectives alike. Instructions are in cost.h.
//
// Every constant has its source beside it: a published fact, a fit to published measurements, or
// our own choice where nothing is published. Any thread, cannot fail.
#ifndef DRIVER_ISA_DMA_COST_H
#define DRIVER_ISA_DMA_COST_H

#include <cstdint>

#include "driver/isa/generation.h"

namespace neuron::isa {

// The time for one semaphore update to reach a sequencer that waits for it. Not published: chosen
// equal to the completion write of a DMA (timing fit), which takes the same way.
inline constexpr ModelTime kSemaphoreLatency = 50'000;
// Doorbell to first byte of a DMA transfer (DMA bandwidth guide).
inline constexpr ModelTime kDmaStart = 1'300'000;
// How long a DMA engine is occupied by transfers of `bytes` in all. A transfer of fewer bytes than
// pass while the engine takes a descriptor counts as that many: `least_transfer`.
constexpr uint64_t least_transfer(const Timing& timing) {
  return timing.dma_descriptor * timing.dma_bytes.cycles / timing.dma_bytes.picoseconds;
}
constexpr ModelTime transfer_time(uint64_t bytes, const Timing& timing) {
  return timing.dma_bytes.time(bytes);
}
// Bytes of plain copies that take as long as a reduction which reads `read` bytes and writes
// `written`.
constexpr uint64_t dma_reduction_bytes(uint64_t read, uint64_t written) {
  return 2 * (read > written ? read : written);
}
// How many packets a DMA engine takes at once when no other of its queues has work (our choice). A
// packet that writes a register ends them.
inline constexpr uint32_t kDmaRunPackets = 16;

}  // namespace neuron::isa

#endif
