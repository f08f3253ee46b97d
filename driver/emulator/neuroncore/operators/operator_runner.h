// SPDX-License-Identifier: Apache-2.0
// Executes custom_operator: reads the call from device memory, runs the operator's program once for
// each GpSimd core, and writes the output back if all of them came to their end.
//
// The cores run one after the other on the same memory, so what they do together is the same every
// time; in model time they run at once, and the slowest decides. The program is a stranger: it
// works on copies, and what it says of itself is checked. Callers: OperatorIssue, in the group's
// thread. Keeps the last image, which most programs call again. Fails: BUS, LINK, CUSTOM_OPERATOR;
// no byte of device memory has changed then. May throw base::Abandoned, with the same promise.
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_RUNNER_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_RUNNER_H

#include <vector>

#include "driver/base/deadline.h"
#include "driver/emulator/neuroncore/operators/operator_call.h"
#include "driver/emulator/neuroncore/operators/operator_files.h"
#include "driver/emulator/neuroncore/operators/operator_settings.h"

namespace neuron::core {

class OperatorRunner {
 public:
  explicit OperatorRunner(const OperatorSettings& settings) : settings_(settings) {}

  // `time`: what the call takes in model time, beside the instruction's own start.
  Fault run(const chip::Bus& bus, const chip::Access& access, uint64_t table, unsigned generation,
            ModelTime& time);

 private:
  struct Files {
    OperatorMemory input, result;
    uint64_t output_offset = 0;
    uint64_t bytes = 0;
  };
  Fault take_image(const chip::Bus& bus, const chip::Access& access, const OperatorCall& call);
  Fault fill(const chip::Bus& bus, const chip::Access& access, const OperatorCall& call,
             Files& files) const;
  Fault run_core(const Files& files, unsigned core, unsigned cores, base::Deadline deadline) const;

  const OperatorSettings settings_;
  std::vector<std::byte> image_;
  OperatorMemory program_;  // a file of the image
};

}  // namespace neuron::core

#endif
