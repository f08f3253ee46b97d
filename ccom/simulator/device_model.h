// SPDX-License-Identifier: Apache-2.0
// The time of a plan on the chips of one instance, by the chips' own formulas.
//
// Concepts: it compiles the schedule as for devices (ccom/device) and executes instructions and
// descriptors of all ranks in the order of model time, without bytes. Prices are those that the
// emulated chip uses: driver/isa/cost.h for instructions, driver/isa/dma_cost.h for transfers and
// semaphores, the profile for links. As on the chip, a rank's transfers queue for its own DMA
// engines and among themselves for links; transfers of different ranks do not meet. Callers:
// nccom-test, tests. Thread-safe: a function of its arguments. Fails: like the compiler;
// CCOM_UNSUPPORTED for ranks on several nodes; CCOM_TIMEOUT if the programs do not end.
#ifndef CCOM_SIMULATOR_DEVICE_MODEL_H
#define CCOM_SIMULATOR_DEVICE_MODEL_H

#include <cstdint>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

struct DeviceModelOptions {
  uint32_t generation = 2;
  uint16_t engines = 0xFFFF;  // DMA engines of the stream
  uint32_t repetitions = 1;   // of the collective, one after the other
};

struct DeviceTimes {
  uint64_t time_ps = 0;  // from the start of all ranks until the last is done
  std::vector<uint64_t> finished_ps;
  uint64_t instructions = 0;
  uint64_t packets = 0;
};

// The algorithm that devices take for a request, on these physical cores of one instance, counted
// over its chips.
Result<ccom_algorithm_t> algorithm_on_devices(uint32_t generation,
                                              const std::vector<uint32_t>& cores, Request request);

Result<DeviceTimes> simulate_device(const Group& group, const Plan& plan,
                                    const DeviceModelOptions& options = {});

}  // namespace neuron::ccom

#endif
