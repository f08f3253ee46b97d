// SPDX-License-Identifier: Apache-2.0
//
// What a transfer of an asynchronous queue costs in model time, by the DMA model of the emulated
// chip (driver/emulator/neuroncore/README.md): start of an idle queue, descriptors of 64 KiB,
// bytes. Each queue has its own rings, so transfers of different queues, and executions, do not
// slow each other down in model time. Callers: AsyncQueues. Thread-safe: no state.
#ifndef RUNTIME_ASYNC_ASYNC_COST_H
#define RUNTIME_ASYNC_ASYNC_COST_H

#include <cstdint>

namespace neuron::runtime {

constexpr uint64_t transfer_cost_ps(uint64_t bytes) {
  constexpr uint64_t kStart_ps = 1'300'000, kDescriptor_ps = 50'000;
  constexpr uint64_t kDescriptorBytes = 65536;
  if (bytes == 0) return 0;
  // 27.2 GB/s are 1 / 0.0272 ps a byte; 625 / 17 = 36.76 ps.
  return kStart_ps + (bytes + kDescriptorBytes - 1) / kDescriptorBytes * kDescriptor_ps +
         bytes * 625 / 17;
}

}  // namespace neuron::runtime

#endif
