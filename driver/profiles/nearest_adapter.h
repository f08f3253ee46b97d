// SPDX-License-Identifier: Apache-2.0
// Which network adapter of a host is nearest to a chip, where the profile does not say.
//
// Concepts: nearest are the adapters on the chip's PCI bus; if there is none, those of its NUMA
// node; else all. Chips to which the same adapters are nearest share them evenly, in order: of n
// adapters and c chips, adapter i serves chips i * c / n and up. Callers: profile_reader.cpp.
// Values, any thread.
#ifndef DRIVER_PROFILES_NEAREST_ADAPTER_H
#define DRIVER_PROFILES_NEAREST_ADAPTER_H

#include <vector>

#include "driver/profiles/profile.h"

namespace neuron::profiles {

// Fills in ChipPlace::adapter of chips that have -1. Nothing changes on a host without adapters.
void assign_adapters(std::vector<ChipPlace>& chips, const std::vector<AdapterPlace>& adapters);

}  // namespace neuron::profiles

#endif
