// SPDX-License-Identifier: Apache-2.0
//
// Reports a fault of a core as a status and one sentence: fault, engine, pc, instruction, operand.
// Callers: executor, before it resets the core. Thread-safe: the caller holds the core's turn.
// Fails: never; what cannot be read is left out of the sentence.
#ifndef RUNTIME_EXEC_FAULT_REPORT_H
#define RUNTIME_EXEC_FAULT_REPORT_H

#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

// Status of a fault code of hw/fault.h.
NRT_STATUS status_of_fault(uint32_t code);

// Uses the completion record, the engine's EXC registers and the error queue.
Error describe_fault(LoadedModel& model, const neuron_completion_record& record);

// For use after an execution that was watched for NaN: NRT_EXEC_COMPLETED_WITH_NUM_ERR if it
// produced one.
Result<void> find_numeric_errors(LoadedModel& model);

// For an execution in which nothing can advance any more, or whose deadline has passed.
Error describe_deadlock(LoadedModel& model);
Error describe_timeout(LoadedModel& model, uint64_t seconds);
// For an execution that waits for a rank whose process is gone.
Error describe_lost_rank(LoadedModel& model);

}  // namespace neuron::runtime

#endif
