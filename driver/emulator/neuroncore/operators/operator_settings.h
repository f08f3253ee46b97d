// SPDX-License-Identifier: Apache-2.0
// What the operator of the host allows custom operators, which are code of a NEFF that runs on the
// host.
//
// Callers: a core, when it is made. Thread-safe: values. A value that cannot be read is told once
// on standard error and counts as if it were not there.
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_SETTINGS_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_SETTINGS_H

#include <chrono>

namespace neuron::core {

struct OperatorSettings {
  bool allowed = false;  // NEURON_EMULATOR_CUSTOM_OPERATORS=1
  std::chrono::seconds patience{
      5};               // NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS, for each GpSimd core
  bool prints = false;  // NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES is not 0

  static OperatorSettings of_environment();
};

}  // namespace neuron::core

#endif
