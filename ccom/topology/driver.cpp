// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/driver.h"

#include <algorithm>
#include <cerrno>

#include "ccom/topology/facts.h"
#include "ccom/topology/host.h"
#include "ndl/ndl_device.h"

namespace neuron::ccom {

Result<NodeProfile> profile_of_driver() {
  int numbers[MAX_NEURON_DEVICE_COUNT];
  const int found = ndl_available_devices(numbers, MAX_NEURON_DEVICE_COUNT);
  if (found < 0 && found != -ENODEV) {
    return system_error(-found, "cannot list the Neuron devices of this host");
  }
  if (found <= 0) return fail(CCOM_UNSUPPORTED, "this host has no Neuron device");
  std::vector<ChipFacts> chips;
  for (int i = 0; i < std::min<int>(found, MAX_NEURON_DEVICE_COUNT); ++i) {
    ndl_device_t* device = nullptr;
    if (const int error = ndl_open_device(numbers[i], nullptr, &device); error != 0) {
      return system_error(
          -error, format("cannot open Neuron device {} to read its neighbours", numbers[i]));
    }
    ChipFacts chip;
    chip.number = static_cast<uint32_t>(numbers[i]);
    chip.generation = device->device_type;
    chip.neighbours.assign(device->connected_devices,
                           device->connected_devices + device->connected_device_count);
    ndl_close_device(device);
    chips.push_back(std::move(chip));
  }
  return profile_of_chips(chips, static_cast<uint32_t>(host_facts().efa.size()));
}

}  // namespace neuron::ccom
