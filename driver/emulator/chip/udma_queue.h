// SPDX-License-Identifier: Apache-2.0
// Register state of one UDMA queue; internal to UdmaEngine.
//
// `registers` guards both rings and is held for a few loads and stores; `running` is held while
// packets of the queue are executed. Order: running before registers. `generation` changes when the
// rings are rewound, so that a run in flight does not advance a ring that is no longer its own.
#ifndef DRIVER_EMULATOR_CHIP_UDMA_QUEUE_H
#define DRIVER_EMULATOR_CHIP_UDMA_QUEUE_H

#include <atomic>
#include <cstdint>
#include <mutex>

#include "driver/emulator/chip/udma_engine.h"

namespace neuron::chip {

struct UdmaEngine::Ring {
  uint32_t cfg = NEURON_UDMAQ_CFG_RESET;
  uint32_t base_lo = 0;
  uint32_t base_hi = 0;
  uint32_t length = 0;
  uint32_t head = 0;
  uint32_t tail = 0;
  uint32_t head_id = 1;  // ring id expected at head
  uint32_t tail_id = 1;
  uint32_t pending = 0;  // tail - head; tells a full ring from an empty one
  bool aborted = false;
  // Engines are refused while this equals the engine's start epoch: reset by the host since START.
  uint32_t refused_epoch = 0;
  uint32_t rung_epoch = 0;  // the start epoch at the last doorbell of an engine or of DMA

  uint64_t base() const { return uint64_t{base_hi} << 32 | base_lo; }
  bool enabled() const {
    return (cfg & NEURON_UDMAQ_CFG_ENABLE_BITS) == NEURON_UDMAQ_CFG_ENABLE_BITS;
  }
  bool set_up() const { return length != 0 && base() != 0; }
  void rewind() {
    head = tail = pending = 0;
    head_id = tail_id = 1;
    aborted = false;
  }
  void push(uint32_t count) {
    pending += count;
    const uint64_t next = uint64_t{tail} + count;
    if (next >= length) tail_id = (tail_id + 1) & 3;
    tail = static_cast<uint32_t>(next % length);
  }
  void consume(uint32_t count) {
    pending -= count;
    const uint64_t next = uint64_t{head} + count;
    if (next >= length) head_id = (head_id + 1) & 3;
    head = static_cast<uint32_t>(next % length);
  }
};

struct UdmaEngine::Queue {
  mutable std::mutex registers;
  mutable std::mutex running;
  std::atomic<uint64_t> random_position = 0;  // words that stochastic rounding has drawn
  std::atomic<uint32_t> generation = 0;
  // When the queue was last told to work, of HostWrites::now_ns(); 0: not recorded.
  std::atomic<uint64_t> doorbell_ns = 0;
  Ring rings[2];  // M2S, S2M

  // A doorbell, or what lets a queue go on that was held up.
  void note_doorbell(const Bus& bus) {
    if (bus.host_writes() == nullptr && bus.patience().descriptor_ns == 0) return;
    doorbell_ns.store(HostWrites::now_ns(), std::memory_order_relaxed);
  }
};

}  // namespace neuron::chip

#endif
