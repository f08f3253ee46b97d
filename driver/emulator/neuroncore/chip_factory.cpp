// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/chip_factory.h"

#include <map>

#include "driver/emulator/neuroncore/neuron_core.h"
#include "driver/emulator/neuroncore/strict/strict_pair.h"

namespace neuron::core {

std::unique_ptr<chip::Chip> create_chip(const chip::ChipConfig& config, chip::HostMemory& host,
                                        std::string& error) {
  // By half the number of the core.
  const auto pairs = std::make_shared<std::map<unsigned, std::shared_ptr<StrictPair>>>();
  return chip::Chip::create(
      config, host,
      [pairs](const chip::CoreConnections& connections,
              chip::RunnableListener* listener) -> std::unique_ptr<chip::Core> {
        if (connections.exchange == nullptr) {
          return std::make_unique<NeuronCore>(connections, listener);
        }
        std::shared_ptr<StrictPair>& pair = (*pairs)[connections.core / 2];
        if (pair == nullptr) pair = std::make_shared<StrictPair>();
        return std::make_unique<NeuronCore>(connections, listener, pair);
      },
      error);
}

}  // namespace neuron::core
