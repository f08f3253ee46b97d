// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/profiles/profile.h"
#include "hw/address_map.h"

namespace neuron::profiles {
namespace {

// Routing id, domain, bus, slot, function, NUMA node, neighbours in the order the driver reports
// them: for trn1 up, left, down, right in a 4 x 4 torus; for inf2 a chain or a ring. Routing ids of
// trn1 are a permutation of the device indexes. Bus numbers are ours: the public documents do not
// give them.
constexpr ChipPlace kOneChip[] = {
    {0, 0, 0x00, 0x1e, 0, -1, 0, {}},
};

constexpr ChipPlace kTrn1Torus[] = {
    {0, 0, 0x10, 0x1b, 0, 0, 4, {12, 3, 4, 1}},    {2, 0, 0x10, 0x1c, 0, 0, 4, {13, 0, 5, 2}},
    {6, 0, 0x10, 0x1d, 0, 0, 4, {14, 1, 6, 3}},    {4, 0, 0x10, 0x1e, 0, 0, 4, {15, 2, 7, 0}},
    {1, 0, 0x20, 0x1b, 0, 0, 4, {0, 7, 8, 5}},     {3, 0, 0x20, 0x1c, 0, 0, 4, {1, 4, 9, 6}},
    {7, 0, 0x20, 0x1d, 0, 0, 4, {2, 5, 10, 7}},    {5, 0, 0x20, 0x1e, 0, 0, 4, {3, 6, 11, 4}},
    {9, 0, 0x90, 0x1b, 0, 1, 4, {4, 11, 12, 9}},   {11, 0, 0x90, 0x1c, 0, 1, 4, {5, 8, 13, 10}},
    {15, 0, 0x90, 0x1d, 0, 1, 4, {6, 9, 14, 11}},  {13, 0, 0x90, 0x1e, 0, 1, 4, {7, 10, 15, 8}},
    {8, 0, 0xa0, 0x1b, 0, 1, 4, {8, 15, 0, 13}},   {10, 0, 0xa0, 0x1c, 0, 1, 4, {9, 12, 1, 14}},
    {14, 0, 0xa0, 0x1d, 0, 1, 4, {10, 13, 2, 15}}, {12, 0, 0xa0, 0x1e, 0, 1, 4, {11, 14, 3, 12}},
};

constexpr ChipPlace kInf2Chain[] = {
    {0, 0, 0x10, 0x1e, 0, 0, 1, {1}},    {1, 0, 0x20, 0x1e, 0, 0, 2, {0, 2}},
    {2, 0, 0xa0, 0x1e, 0, 0, 2, {1, 3}}, {3, 0, 0x10, 0x1f, 0, 1, 2, {2, 4}},
    {4, 0, 0x20, 0x1f, 0, 1, 2, {3, 5}}, {5, 0, 0xa0, 0x1f, 0, 1, 1, {4}},
};

constexpr ChipPlace kInf2Ring[] = {
    {0, 0, 0x10, 0x1e, 0, 0, 2, {11, 1}},  {1, 0, 0x20, 0x1e, 0, 0, 2, {0, 2}},
    {2, 0, 0x90, 0x1e, 0, 0, 2, {1, 3}},   {3, 0, 0xa0, 0x1e, 0, 0, 2, {2, 4}},
    {4, 0, 0xb0, 0x1e, 0, 0, 2, {3, 5}},   {5, 0, 0xc0, 0x1e, 0, 0, 2, {4, 6}},
    {6, 0, 0x10, 0x1f, 0, 1, 2, {5, 7}},   {7, 0, 0x20, 0x1f, 0, 1, 2, {6, 8}},
    {8, 0, 0x90, 0x1f, 0, 1, 2, {7, 9}},   {9, 0, 0xa0, 0x1f, 0, 1, 2, {8, 10}},
    {10, 0, 0xb0, 0x1f, 0, 1, 2, {9, 11}}, {11, 0, 0xc0, 0x1f, 0, 1, 2, {10, 0}},
};

constexpr uint8_t kRevision = 1;

constexpr Profile kProfiles[] = {
    {"trn1.2xlarge", NEURON_PCI_DEVICE_TRN1, kRevision, 2, NEURON_V2_CORES, 1, kOneChip},
    {"trn1.32xlarge", NEURON_PCI_DEVICE_TRN1, kRevision, 2, NEURON_V2_CORES, 16, kTrn1Torus},
    {"trn1n.32xlarge", NEURON_PCI_DEVICE_TRN1, kRevision, 2, NEURON_V2_CORES, 16, kTrn1Torus},
    {"inf2.xlarge", NEURON_PCI_DEVICE_INF2, kRevision, 2, NEURON_V2_CORES, 1, kOneChip},
    {"inf2.8xlarge", NEURON_PCI_DEVICE_INF2, kRevision, 2, NEURON_V2_CORES, 1, kOneChip},
    {"inf2.24xlarge", NEURON_PCI_DEVICE_INF2, kRevision, 2, NEURON_V2_CORES, 6, kInf2Chain},
    {"inf2.48xlarge", NEURON_PCI_DEVICE_INF2, kRevision, 2, NEURON_V2_CORES, 12, kInf2Ring},
};

}  // namespace

const Profile* find_profile(std::string_view name) {
  for (const Profile& profile : kProfiles)
    if (name == profile.name) return &profile;
  return nullptr;
}

std::string profile_names() {
  std::string names;
  for (const Profile& profile : kProfiles) {
    if (!names.empty()) names += ", ";
    names += profile.name;
  }
  return names;
}

}  // namespace neuron::profiles
