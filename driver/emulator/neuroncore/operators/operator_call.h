// SPDX-License-Identifier: Apache-2.0
// A call of a custom operator as device memory describes it (hw/custom_operator.h), read and
// checked.
//
// Callers: OperatorRunner, in the group's thread. Thread-safe: a value. Fails: BUS or LINK where no
// memory answers; CUSTOM_OPERATOR, "description", with the byte that is wrong.
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_CALL_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_CALL_H

#include <array>
#include <cstdint>
#include <span>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/neuroncore/operators/operator_failure.h"

namespace neuron::core {

class OperatorCall {
 public:
  struct Tensor {
    unsigned argument = 0;
    uint64_t address = 0;  // of the device
    uint64_t bytes = 0;
  };

  Fault read(const chip::Bus& bus, const chip::Access& access, uint64_t table);

  const neuron_operator_description& description() const { return description_; }
  uint64_t image() const { return image_; }
  unsigned cores() const {
    return (description_.flags & NEURON_OPERATOR_MULTICORE) != 0 ? NEURON_OPERATOR_CORES : 1;
  }
  std::span<const Tensor> inputs() const { return std::span(tensors_).first(tensor_count_ - 1); }
  const Tensor& output() const { return tensors_[tensor_count_ - 1]; }

 private:
  Fault check();

  neuron_operator_description description_{};
  uint64_t image_ = 0;
  std::array<Tensor, NEURON_OPERATOR_ARGUMENTS> tensors_{};
  unsigned tensor_count_ = 0;
};

// The fault of an access that the bus has refused.
Fault refused_access(const chip::Bus& bus, uint64_t address, uint64_t bytes);

}  // namespace neuron::core

#endif
