// SPDX-License-Identifier: Apache-2.0
// custom_operator: a C++ function that Pool's eight cores run on tensors in device memory.
//
// Values are there when the instruction issues, its time follows from what the operator has
// counted. Strict mode hears of device memory what it hears of a load and a store. Callers:
// InstructionIssue, by the holder of the core, which keeps it for as long as the operator takes of
// the host's time. Fails: a fault of the instruction, with nothing written; may throw
// base::Abandoned.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_OPERATOR_ISSUE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_OPERATOR_ISSUE_H

#include "driver/emulator/neuroncore/group/core_state.h"
#include "driver/emulator/neuroncore/group/issue.h"
#include "driver/emulator/neuroncore/group/strict_observer.h"
#include "driver/emulator/neuroncore/operators/operator_runner.h"

namespace neuron::core {

class OperatorIssue {
 public:
  OperatorIssue(CoreState& state, StrictObserver& strict)
      : state_(state), strict_(strict), runner_(OperatorSettings::of_environment()) {}

  Fault execute(Issue& issue);

 private:
  CoreState& state_;
  StrictObserver& strict_;
  OperatorRunner runner_;
};

}  // namespace neuron::core

#endif
