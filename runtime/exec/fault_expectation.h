// SPDX-License-Identifier: Apache-2.0
//
// Describes in words what a fault found and what was expected instead.
// Callers: fault reports, holding the core's turn. Thread-safe: no state. Fails: never; an unknown
// fault gives an empty text.
#ifndef RUNTIME_EXEC_FAULT_EXPECTATION_H
#define RUNTIME_EXEC_FAULT_EXPECTATION_H

#include <string>

#include "hw/notification.h"
#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

// "rule R1, operand dst (byte 0x22 of the instruction): found 0x8, expected: ...". `entry`: the
// error entry of the fault, or null if the queue has none; `info`: of the completion record.
std::string describe_expectation(const LoadedModel& model, uint32_t engine, uint32_t pc,
                                 uint32_t code, const neuron_notification* entry, uint64_t info);

// "0xf00000000 is between HBM 0, which ends at 0x3ffffffff, and HBM 1, ..."
std::string describe_address(const ChipTable& chip, uint64_t address);

}  // namespace neuron::runtime

#endif
