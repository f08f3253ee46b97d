// SPDX-License-Identifier: Apache-2.0
// The state of a core in words, for deadlock and timeout reports. Callers: the group, by the holder
// of the core. Allocates the text.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_DESCRIBE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_DESCRIBE_H

#include <string>

#include "driver/emulator/neuroncore/group/dma_actors.h"
#include "driver/emulator/neuroncore/group/waits.h"

namespace neuron::core {

std::string describe_core(const CoreState& state, const Waits& waits, const DmaActors& dma);

}  // namespace neuron::core

#endif
