// SPDX-License-Identifier: Apache-2.0
// What the driver library must know about a chip generation and cannot ask a driver.
//
// Concepts: one table row per generation. Callers: ports and open devices; any thread. Constant.
// Cannot fail: a generation newer than the table is taken for its newest row.
#ifndef DRIVER_NDL_ARCHITECTURE_H
#define DRIVER_NDL_ARCHITECTURE_H

#include <cstdint>
#include <span>

namespace neuron::ndl {

// Semaphore and event pages in BAR 0, one for each core (TPB) or collectives core.
struct RegisterPages {
  uint32_t block;  // NEURON_DM_BLOCK_*
  uint32_t first_id;
  uint32_t count;
  uint64_t bar0_start;
  uint64_t stride;
};

struct Architecture {
  unsigned generation;
  uint32_t cores;
  uint64_t memory_bytes;  // of a device
  uint64_t hbm_bytes;     // of one HBM; 0: the library maps it whole and so learns its size
  bool maps_cores;        // logical cores may map to other physical cores
  std::span<const RegisterPages> pages;
};

const Architecture& architecture_of(unsigned generation);

}  // namespace neuron::ndl

#endif
