// SPDX-License-Identifier: Apache-2.0
// The one place that puts NeuronCores into a chip; a chip knows only the interface of a core.
//
// Callers: the owners of chips (embedded library, daemon, PCI functions, tests). Any thread. Fails:
// null, with a sentence in `error`.
#ifndef DRIVER_EMULATOR_NEURONCORE_CHIP_FACTORY_H
#define DRIVER_EMULATOR_NEURONCORE_CHIP_FACTORY_H

#include <memory>
#include <string>

#include "driver/emulator/chip/chip.h"

namespace neuron::core {

// A chip whose cores execute programs.
std::unique_ptr<chip::Chip> create_chip(const chip::ChipConfig& config, chip::HostMemory& host,
                                        std::string& error);

}  // namespace neuron::core

#endif
