// SPDX-License-Identifier: Apache-2.0
// Instance types as data: which chips a host has, where they sit, which are neighbours, and which
// network adapter is nearest to each.
//
// Concepts: a profile is a JSON file (README.md of this folder lists its fields). Those of the real
// instance types are part of the library; a profile of the user's own is named by its path, which
// contains a slash. Callers: the service, when an instance is created; any thread. Profiles live as
// long as the process and never change. Fails: find_profile returns null for a name that is not in
// the table (profile_names lists those that are); load_profile and parse_profile with a sentence
// that names the field.
#ifndef DRIVER_PROFILES_PROFILE_H
#define DRIVER_PROFILES_PROFILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace neuron::profiles {

inline constexpr unsigned kMaxNeighbours = 4;
inline constexpr unsigned kMaxChips = 64;
inline constexpr unsigned kMaxAdapters = 64;

struct AdapterPlace {
  uint16_t domain;
  uint8_t bus;
  uint8_t slot;
  uint8_t function;
  int8_t numa_node;
};

struct ChipPlace {
  uint32_t routing_id;
  uint16_t domain;
  uint8_t bus;
  uint8_t slot;
  uint8_t function;
  int8_t numa_node;
  uint8_t neighbour_count;
  uint8_t neighbours[kMaxNeighbours];
  int8_t adapter;  // index of the nearest network adapter, -1: the host has none
};

struct Profile {
  const char* name;
  uint16_t pci_device;
  uint8_t revision;
  unsigned architecture;  // 1: inf1, 2: trn1 and inf2, 3: trn2, 4: trn3
  unsigned cores;         // of each chip
  unsigned chips;
  const ChipPlace* places;       // `chips` of them, by device index
  unsigned hbm_stacks;           // of each chip
  uint64_t hbm_stack_bytes;      // of each stack
  unsigned efa;                  // network adapters of the host
  const AdapterPlace* adapters;  // `efa` of them
  uint64_t hop_ps;               // of a link between chips: latency, and rate of one direction
  uint64_t link_bytes_per_second;
  bool switched;  // every two chips are joined by a switch; nobody has neighbours
};

// One of the instance types that the library knows.
const Profile* find_profile(std::string_view name);
// Names separated by ", ".
std::string profile_names();

// By name, or by the path of a file.
const Profile* load_profile(std::string_view name_or_path, std::string& error);
// `where` names the text in sentences. The same text gives the same profile.
const Profile* parse_profile(std::string_view text, const std::string& where, std::string& error);
// Whether the text is a profile; stores nothing.
bool check_profile(std::string_view text, const std::string& where, std::string& error);

}  // namespace neuron::profiles

#endif
