// SPDX-License-Identifier: Apache-2.0
// What collectives must know about each generation of chips, one row each.
//
// Callers: the compiler and the stream planner. Thread-safe: constant. Cannot fail: an unknown
// generation has no row.
#ifndef CCOM_DEVICE_GENERATION_H
#define CCOM_DEVICE_GENERATION_H

#include <hw/address_map.h>

#include <cstdint>

namespace neuron::ccom {

struct DeviceGeneration {
  uint32_t number;
  uint32_t cores;                       // of a chip
  const char* instance;                 // profile of the largest instance that has these chips
  const char* ultra_server;             // profile of a node of an UltraServer of them; null: none
  uint64_t (*route_to)(uint32_t chip);  // the bits of an address that lead to another chip
};

inline constexpr DeviceGeneration kDeviceGenerations[] = {
    {2, NEURON_V2_CORES, "trn1.32xlarge", nullptr,
     [](uint32_t chip) -> uint64_t { return NEURON_V2_PEER(chip); }},
    {3, NEURON_V3_CORES, "trn2.48xlarge", "trn2-ultraserver",
     [](uint32_t chip) -> uint64_t { return NEURON_V3_PEER(chip); }},
    {4, NEURON_V3_CORES, "trn3s.48xlarge", "trn3-ultraserver-gen1",
     [](uint32_t chip) -> uint64_t { return NEURON_V3_PEER(chip); }},
};

// Null: collectives do not know this generation.
constexpr const DeviceGeneration* find_generation(uint32_t number) {
  for (const DeviceGeneration& generation : kDeviceGenerations) {
    if (generation.number == number) return &generation;
  }
  return nullptr;
}

}  // namespace neuron::ccom

#endif
