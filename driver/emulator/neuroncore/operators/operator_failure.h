// SPDX-License-Identifier: Apache-2.0
// Faults of custom_operator: why a call has failed, on which GpSimd core, with which value
// (enum neuron_operator_failure).
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_FAILURE_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_FAILURE_H

#include <cstdint>

#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "hw/custom_operator.h"

namespace neuron::core {

inline Fault operator_failure(uint32_t failure, unsigned core, uint32_t value,
                              uint64_t address = 0) {
  Fault fault = make_fault(NEURON_FAULT_CUSTOM_OPERATOR, address, value);
  fault.detail = failure | core << NEURON_OPERATOR_CORE_SHIFT;
  return fault;
}

}  // namespace neuron::core

#endif
