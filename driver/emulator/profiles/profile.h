// SPDX-License-Identifier: Apache-2.0
// Instance types as data: which chips a host has, where they sit and who is whose neighbour.
//
// Callers: the service, when an instance is created. Immutable. Fails: find_profile returns null
// for a name that is not in the table; profile_names lists those that are.
#ifndef DRIVER_EMULATOR_PROFILES_PROFILE_H
#define DRIVER_EMULATOR_PROFILES_PROFILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace neuron::profiles {

inline constexpr unsigned kMaxNeighbours = 4;

struct ChipPlace {
  uint32_t routing_id;
  uint16_t domain;
  uint8_t bus;
  uint8_t slot;
  uint8_t function;
  int8_t numa_node;
  uint8_t neighbour_count;
  uint8_t neighbours[kMaxNeighbours];
};

struct Profile {
  const char* name;
  uint16_t pci_device;
  uint8_t revision;
  unsigned architecture;  // 2: trn1 and inf2
  unsigned cores;         // of each chip
  unsigned chips;
  const ChipPlace* places;  // `chips` of them, by device index
};

const Profile* find_profile(std::string_view name);
// Names separated by ", ".
std::string profile_names();

}  // namespace neuron::profiles

#endif
