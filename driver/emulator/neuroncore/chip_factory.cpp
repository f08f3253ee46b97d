// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/chip_factory.h"

#include "driver/emulator/neuroncore/neuron_core.h"

namespace neuron::core {

std::unique_ptr<chip::Chip> create_chip(const chip::ChipConfig& config, chip::HostMemory& host,
                                        std::string& error) {
  return chip::Chip::create(
      config, host,
      [](const chip::CoreConnections& connections,
         chip::RunnableListener* listener) -> std::unique_ptr<chip::Core> {
        return std::make_unique<NeuronCore>(connections, listener);
      },
      error);
}

}  // namespace neuron::core
