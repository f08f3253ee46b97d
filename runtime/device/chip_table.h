// SPDX-License-Identifier: Apache-2.0
//
// Addresses of what the runtime programs on a chip: core windows, DMA queues, notification rings,
// memories. One table per generation.
// Callers: session, model, queue, exec; any thread: the tables are constant. Cannot fail: numbers
// are checked where cores are claimed.
#ifndef RUNTIME_DEVICE_CHIP_TABLE_H
#define RUNTIME_DEVICE_CHIP_TABLE_H

#include <cstdint>
#include <span>
#include <string>

namespace neuron::runtime {

// A range of device addresses, both ends included.
struct AddressRegion {
  uint64_t first, last;
  const char* name;
};

struct ChipTable {
  uint32_t generation;
  uint32_t cores;
  uint32_t cores_per_hbm;
  uint32_t hbms;
  uint64_t hbm_bytes;      // of each
  uint64_t dma_stride;     // between the DMA engines of a core
  uint32_t logical_cores;  // physical cores of a virtual one, unless the environment asks for fewer
  const char* families;    // instance families, for sentences
  uint32_t family;         // nrt_instance_family_t of a host that does not say its type
  bool has_programs = true;                // its instruction set is public
  bool has_core_map;                       // its driver says which physical core a counted one is
  std::span<const AddressRegion> regions;  // ascending
  uint64_t (*window_bar0)(uint32_t core);
  uint64_t (*window)(uint32_t core);             // the same place as the device addresses it
  uint64_t (*notification)(uint32_t core);       // BAR 0 offset
  uint64_t (*dma)(uint32_t engine);              // device address of its registers
  uint64_t (*dma_bar0)(uint32_t engine);         // the same registers, as BAR 0 has them
  uint32_t cc_cores;                             // of each core
  uint64_t (*cc_bar0)(uint32_t number);          // windows of the chip's CC cores
  uint64_t (*cc_window)(uint32_t number);        // the same place as the device addresses it
  uint64_t (*cc_notification)(uint32_t number);  // BAR 0 offset of a CC core's queues
  uint16_t (*cc_engines)(uint32_t k);            // DMA engines of the core's CC core k
};

// The table of a generation, null for one that is not known.
const ChipTable* find_chip_table(uint32_t generation);
// "1 (inf1), 2 (trn1, inf2), 3 (trn2) and 4 (trn3)"
std::string known_chips();
// Cores of one device, also for an architecture that this runtime does not drive; 0 for an unknown
// architecture.
uint32_t cores_per_device(uint32_t architecture);

// One core of a device.
struct CorePlace {
  const ChipTable* chip = find_chip_table(2);
  uint32_t number = 0;

  // The other core of a virtual core of two (hw/isa.h, body of a pair).
  CorePlace other() const { return {chip, number ^ 1}; }
  uint64_t window_bar0() const { return chip->window_bar0(number); }
  uint64_t window() const { return chip->window(number); }
  uint64_t notification() const { return chip->notification(number); }
  uint32_t hbm() const { return number / chip->cores_per_hbm; }
  // The number on the device of one of this core's DMA engines (0-15).
  uint32_t dma_engine(uint32_t engine) const { return number * 16 + engine; }
  uint64_t cc_bar0(uint32_t k) const { return chip->cc_bar0(number * chip->cc_cores + k); }
  uint64_t cc_window(uint32_t k) const { return chip->cc_window(number * chip->cc_cores + k); }
  uint64_t cc_notification(uint32_t k) const {
    return chip->cc_notification(number * chip->cc_cores + k);
  }
  // Device address, and offset in BAR 0, of a queue register of one of these engines.
  uint64_t queue_register(uint32_t engine, uint32_t half, uint32_t queue, uint32_t offset) const;
  uint64_t queue_register_bar0(uint32_t engine, uint32_t half, uint32_t queue,
                               uint32_t offset) const;
};

}  // namespace neuron::runtime

#endif
