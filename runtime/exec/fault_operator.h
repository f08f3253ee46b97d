// SPDX-License-Identifier: Apache-2.0
//
// Describes in words why a custom operator failed (hw/custom_operator.h).
// Callers: fault reports, holding the core's turn. Thread-safe: no state. Fails: never; what is not
// known is left out.
#ifndef RUNTIME_EXEC_FAULT_OPERATOR_H
#define RUNTIME_EXEC_FAULT_OPERATOR_H

#include <string>

#include "hw/notification.h"
#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

// "operator 'relu' on GpSimd core 3: found ..., expected ...". `entry`: the error entry of the
// fault, or null if the queue has none.
std::string describe_operator_failure(const LoadedModel& model, uint32_t engine, uint32_t pc,
                                      const neuron_notification* entry);

}  // namespace neuron::runtime

#endif
