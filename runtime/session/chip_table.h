// SPDX-License-Identifier: Apache-2.0
//
// Where a chip generation has what the runtime programs: core windows, DMA queues, notification
// rings, memories. One table per generation.
// Callers: session, model, queue, exec; any thread: the tables are constant. Cannot fail: numbers
// are checked where cores are claimed.
#ifndef RUNTIME_SESSION_CHIP_TABLE_H_
#define RUNTIME_SESSION_CHIP_TABLE_H_

#include <cstdint>
#include <span>

namespace neuron::runtime {

// A range of device addresses, both ends included.
struct AddressRegion {
  std::uint64_t first, last;
  const char* name;
};

struct ChipTable {
  std::uint32_t generation;
  std::uint32_t cores;
  std::uint32_t cores_per_hbm;
  std::uint32_t hbms;
  std::uint64_t hbm_bytes;      // of each
  std::uint64_t dma_stride;     // between the DMA engines of a core
  std::uint32_t logical_cores;  // physical cores of a virtual one unless the environment says
  std::span<const AddressRegion> regions;  // ascending
  std::uint64_t (*window_bar0)(std::uint32_t core);
  std::uint64_t (*window)(std::uint32_t core);        // the same place as the device addresses it
  std::uint64_t (*notification)(std::uint32_t core);  // BAR 0 offset
  std::uint64_t (*dma)(std::uint32_t engine);         // device address of its registers
  std::uint32_t cc_cores;                             // of each core
  std::uint64_t (*cc_bar0)(std::uint32_t number);     // windows of the chip's CC cores
  std::uint64_t (*cc_window)(std::uint32_t number);   // the same place as the device addresses it
  std::uint16_t (*cc_engines)(std::uint32_t k);       // DMA engines of the core's CC core k
};

// The table of a generation, null for one that is not known.
const ChipTable* find_chip_table(std::uint32_t generation);

// One core of a device.
struct CorePlace {
  const ChipTable* chip = find_chip_table(2);
  std::uint32_t number = 0;

  std::uint64_t window_bar0() const { return chip->window_bar0(number); }
  std::uint64_t window() const { return chip->window(number); }
  std::uint64_t notification() const { return chip->notification(number); }
  std::uint32_t hbm() const { return number / chip->cores_per_hbm; }
  // Number of one of its DMA engines (0-15) on the device.
  std::uint32_t dma_engine(std::uint32_t engine) const { return number * 16 + engine; }
  std::uint64_t cc_bar0(std::uint32_t k) const {
    return chip->cc_bar0(number * chip->cc_cores + k);
  }
  std::uint64_t cc_window(std::uint32_t k) const {
    return chip->cc_window(number * chip->cc_cores + k);
  }
  // Device address of a register of a queue of such an engine.
  std::uint64_t queue_register(std::uint32_t engine, std::uint32_t half, std::uint32_t queue,
                               std::uint32_t offset) const;
};

}  // namespace neuron::runtime

#endif  // RUNTIME_SESSION_CHIP_TABLE_H_
